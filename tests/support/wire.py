"""Connections of a worker without a network: what clients send and read, and a clock that tests move."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from starlette.types import Receive, Scope, Send

from belated.service.counters import WorkerCounters, new_counters
from belated.service.gate import Gate
from belated.service.limits import Limits
from belated.service.protocol import Connection

SYSTEM = 1 << 16
"""Bytes that the system takes for a client who does not read; beyond, they stay with the worker."""
TURNS = 30
"""Turns of the event loop after which nothing is left to do, where nothing waits for a thread."""


class Clock:
    """The clock of an event loop, as far as a gate uses it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._at = 0.0
        self._call: Callable[[], object] = lambda: None

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[..., object], *given: Any) -> None:
        self._at, self._call = self.now + seconds, lambda: call(*given)

    def go_on(self, seconds: float) -> None:
        """Let time pass, in which the gate sweeps as often as it wants to."""
        end = self.now + seconds
        while self._at <= end:
            self.now = self._at
            self._call()
        self.now = end

    def jump(self, seconds: float) -> None:
        """Let time pass in which this process sleeps, and one sweep after it."""
        self.now += seconds
        self._call()


class Mirror:
    """An application that tells what it was sent: the length of a body, after all of it has come."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        """Of each request that came as a whole, the bytes of its body."""

    def begin(self, exchange: Any) -> bool:
        """Leave all requests to `__call__`."""
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size, status = 0, {"/nothing": 404, "/refused": 401}.get(scope["path"], 200)
        while scope["path"] != "/refused":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message["body"])
            if not message["more_body"]:
                break
        self.heard.append(size)
        if scope["path"] == "/endless":
            await asyncio.Event().wait()
        pieces = [b"x" * 1000] * 500 if scope["path"] == "/long" else [b"%d" % size]
        headers = [] if len(pieces) > 1 else [(b"content-length", b"%d" % len(pieces[0]))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": len(pieces) > 1})
        if len(pieces) > 1:
            await send({"type": "http.response.body", "body": b""})


class Worker:
    """What a worker has besides its sockets."""

    def __init__(self, app: Any = None, **limits: Any) -> None:
        self.app = app or Mirror()
        self.clock = Clock()
        self.counters = WorkerCounters(new_counters(1), 0)
        self.gate = Gate(Limits(**limits), self.counters)
        self.gate.start(self.clock)  # type: ignore[arg-type]
        self.state = SimpleNamespace(
            connections=self.gate.connections, tasks=set(), total_requests=0, default_headers=[(b"date", b"now")]
        )

    def connect(self, host: str = "127.0.0.1") -> "Visitor":
        return Visitor(self, host)

    async def rest(self) -> None:
        """Until there is nothing left to do."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def finish(self) -> None:
        """Until all requests that were begun have ended."""
        await self.rest()
        await asyncio.gather(*self.state.tasks)


class Visitor:
    """A client, and to the worker the transport of its connection."""

    def __init__(self, worker: Worker, host: str) -> None:
        self.worker = worker
        self.host = host
        self.answer = b""
        """All that the client has read."""
        self.reads = True
        self.taken = 0
        """Bytes that the worker has taken in."""
        self.is_closed = self.is_aborted = False
        self._unsent = b""
        self._unread = b""
        self._flows = True
        self.connection = Connection(worker.gate, worker.app, worker.state)
        self.connection.connection_made(self)

    # What the client does.

    async def send(self, *parts: bytes) -> bytes:
        """Send parts, each when nothing is left to do; return all that was read until now."""
        for part in parts:
            self._unsent += part
            self._flow()
            await self.worker.rest()
        return self.answer

    def read(self, size: int) -> None:
        """Take some of what waits to be read, while `reads` is false."""
        was_choked = len(self._unread) > SYSTEM
        self.answer, self._unread = self.answer + self._unread[:size], self._unread[size:]
        if was_choked and len(self._unread) <= SYSTEM:
            self.connection.resume_writing()

    def leave(self) -> None:
        """Go away."""
        self.abort()

    @property
    def is_over(self) -> bool:
        return self.is_closed or self.is_aborted

    @property
    def kept(self) -> int:
        """Bytes that the worker has in memory for it."""
        mine = self.connection
        requests = {id(each): each for each in (*mine._line, mine._reading, mine._handling) if each is not None}
        heads = len(mine._url) + sum(len(name) + len(value) for name, value in mine._headers)
        bodies = sum(len(each.body) for each in requests.values())
        return len(mine._held) + heads + bodies + self.get_write_buffer_size()

    # What the connection calls.

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return (self.host, 50_000) if name == "peername" else ("127.0.0.1", 80)

    def _flow(self) -> None:
        while self._flows and self._unsent and not self.is_over:
            buffer = self.connection.get_buffer(-1)
            part, self._unsent = self._unsent[: len(buffer)], self._unsent[len(buffer) :]
            buffer[: len(part)] = part
            self.taken += len(part)
            self.connection.buffer_updated(len(part))

    def pause_reading(self) -> None:
        self._flows = False

    def resume_reading(self) -> None:
        self._flows = True
        asyncio.get_running_loop().call_soon(self._flow)

    def write(self, data: bytes) -> None:
        if self.reads:
            self.answer += data
            return
        self._unread += data
        if len(self._unread) > SYSTEM:
            self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, len(self._unread) - SYSTEM)

    def write_eof(self) -> None:
        """Nothing more is answered."""

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        if not self.is_over:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        if not self.is_over:
            self.is_aborted = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)
