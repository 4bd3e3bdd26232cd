"""A load generator that costs little: keep-alive connections that send the next request when an answer is there.

With a rate, requests are sent at given times instead, whatever the answers do.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import uvloop

KEY = "benchmark-key-0123456789"
_numbers = count(time.time_ns())

Body = Callable[[], bytes]


class Measured(NamedTuple):
    """What came of a load."""

    rate: float
    """Requests answered a second."""
    latencies: list[float]
    """Seconds, sorted."""

    def quantile(self, share: float) -> float:
        return self.latencies[min(int(share * len(self.latencies)), len(self.latencies) - 1)]


def one_decision() -> bytes:
    return b'{"id":"%d"}' % next(_numbers)


def decisions(size: int) -> Body:
    """Bodies that ask for many decisions, made by one replacement: the server is to be measured, not this."""
    template = b"[" + b",".join(b'{"id":"@-%d"}' % k for k in range(size)) + b"]"
    return lambda: template.replace(b"@", b"%d" % next(_numbers))


class _Connection(asyncio.Protocol):
    def __init__(self, load: "_Load", path: str) -> None:
        self._load = load
        self._head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\nContent-Length: ".encode()
        self._buffer = b""
        self._asked: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def ask(self, at: float) -> None:
        body = self._load.body()
        self._asked.append(at)
        self.transport.write(self._head + b"%d\r\n\r\n" % len(body) + body)

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                break
            at = data.find(b"content-length: ") + 16
            whole = end + 4 + int(data[at : data.find(b"\r", at)])
            if len(data) < whole:
                break
            if not data.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(data[:whole].decode())
            data = data[whole:]
            self._load.answered(self, self._asked.pop(0))
        self._buffer = data


class _Load:
    def __init__(self, body: Body, until: float, closed: bool) -> None:
        self.body = body
        self.until = until
        self.closed = closed
        self.latencies: list[float] = []

    def answered(self, connection: _Connection, asked: float) -> None:
        now = time.perf_counter()
        self.latencies.append(now - asked)
        if self.closed and now < self.until:
            connection.ask(now)


async def _run(port: int, paths: list[str], body: Body, connections: int, seconds: float, rate: float) -> Measured:
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    load = _Load(body, begun + seconds, closed=not rate)
    opened = [
        (await loop.create_connection(partial(_Connection, load, paths[k % len(paths)]), "127.0.0.1", port))[1]
        for k in range(connections)
    ]
    begun = time.perf_counter()
    load.until = begun + seconds
    sent = 0
    if rate:
        while (now := time.perf_counter()) < load.until:
            while sent < (now - begun) * rate:
                opened[sent % connections].ask(begun + sent / rate)
                sent += 1
            await asyncio.sleep(0.0005)
    else:
        for connection in opened:
            connection.ask(time.perf_counter())
        await asyncio.sleep(seconds)
    answered = len(load.latencies)
    await asyncio.sleep(0.3)
    for connection in opened:
        connection.transport.close()
    return Measured(answered / seconds, sorted(load.latencies))


def load(
    port: int, paths: list[str], body: Body, connections: int = 128, seconds: float = 2.0, rate: float = 0.0
) -> Measured:
    """Load a server at a port for some seconds."""
    return uvloop.run(_run(port, paths, body, connections, seconds, rate))
