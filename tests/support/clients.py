"""Both clients with the same methods, services made of a function, and a proxy that loses what it should pass on."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import suppress
from inspect import isasyncgen
from types import SimpleNamespace
from typing import Any, Self

import httpx
import msgspec
import pytest

from belated.api.types import LedgerEvent
from belated.client import AsyncClient, Client, retries
from support.waiting import until

BOTH = ("Client", "AsyncClient")


class Awaited:
    """An `AsyncClient` with the methods of a `Client`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._client = AsyncClient(*arguments, **settings)
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **settings: Any) -> Any:
            made = method(*arguments, **settings)
            return self._each(made) if isasyncgen(made) else self._loop.run_until_complete(made)

        return call

    def _each(self, made: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        end = object()

        async def following() -> Any:
            return await anext(made, end)

        try:
            while (found := self._loop.run_until_complete(following())) is not end:
                yield found
        finally:
            self._loop.run_until_complete(made.aclose())


def client(kind: str, url: str, key: str | None = None, **settings: Any) -> Any:
    return (Client if kind == "Client" else Awaited)(url, key, **settings)


def stub(kind: str, handler: Callable[[httpx.Request], httpx.Response], **settings: Any) -> Any:
    """Return a client whose requests go to a function."""
    return client(kind, "http://stub", "k" * 20, transport=httpx.MockTransport(handler), **settings)


def ledger_lines(*numbers: int) -> bytes:
    """Return the ledger of an experiment that has these events."""
    events = [LedgerEvent(number, "pause", "", None, None, None, None, None, None, None) for number in numbers]
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in pieces; an error among them is raised. It records whether it was read to its end, and closed."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces
        self.is_read = False
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece
        self.is_read = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.close()


class Clock:
    """The clock that retries see: a pause takes no time, but is written down and lets the clock go on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        patch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep))
        patch.setattr(retries, "asyncio", SimpleNamespace(sleep=self._async_sleep))

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def _async_sleep(self, seconds: float) -> None:
        self._sleep(seconds)


class Lossy:
    """A proxy on a port of its own. What becomes of the next requests stands in `plan`; all others are answered.

    refuse: the connection is closed before the server hears of it. lose: the server has answered, nobody hears it.
    cut: half of the answer arrives. late: it comes when the client has given up and asks again.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.plan: list[str] = []
        self.bodies: list[bytes] = []
        self._threads = [threading.Thread(target=self._listen)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._threads.append(threading.Thread(target=self._pass_on, args=(connection,)))
                self._threads[-1].start()

    def _pass_on(self, connection: socket.socket) -> None:
        """One request on each connection."""
        with connection, suppress(OSError):
            connection.settimeout(60)
            head, _, body = self._read_head(connection)
            while len(body) < _length(head):
                body += connection.recv(1 << 16)
            if not head:
                return
            self.bodies.append(body)
            what = self.plan.pop(0) if self.plan else "answer"
            if what == "refuse":
                return
            answer = self._ask(head, body)
            if what == "late":
                until(lambda: self.bodies.count(body) > 1)
            if what != "lose":
                connection.sendall(answer[: len(answer) // 2] if what == "cut" else answer)

    def _read_head(self, connection: socket.socket) -> tuple[bytes, bytes, bytes]:
        read = b""
        while b"\r\n\r\n" not in read and (piece := connection.recv(1 << 16)):
            read += piece
        return read.partition(b"\r\n\r\n")

    def _ask(self, head: bytes, body: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as server:
            server.sendall(head.replace(b"onnection: keep-alive", b"onnection: close") + b"\r\n\r\n" + body)
            answer = b""
            while piece := server.recv(1 << 16):
                answer += piece
        return answer


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
