"""What readers cost those who decide: the p99 of decisions with eight readers over that without, in turns."""

import asyncio
import contextlib
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

from bench_service import Row, Turns, service
from load import KEY, Measured, load

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from belated.client import Client
from belated.service.pages.session import COOKIE
from support.postgres import Postgres

TURNS = 5
SECONDS = 3
RATE = 200.0
"""Decisions a second: far from the most that there can be."""
EVENTS = 30_000
READERS = ["/e0?digest=true", "/e0/ledger", "/e0", "/e0/stream"] * 2
METRICS = "/metrics"


async def _read(port: int, path: str, begun: Callable[[], object]) -> None:
    """Read something again and again, as fast as it comes; pages with the key in a cookie."""
    ask = (
        f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\nCookie: {COOKIE}={KEY}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"{path} was answered {status!r}")
        begun()
        while await reader.read(1 << 20):
            pass
        writer.close()


def _read_all(port: int, paths: list[str], ready: Event) -> None:
    waiting = set(range(len(paths)))

    def begun(k: int) -> None:
        waiting.discard(k)
        if not waiting:
            ready.set()

    async def main() -> None:
        await asyncio.gather(*(_read(port, path, partial(begun, k)) for k, path in enumerate(paths)))

    asyncio.run(main())


@contextlib.contextmanager
def readers(port: int, paths: list[str]) -> Iterator[None]:
    """Readers, one of each path, while they are needed."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_read_all, args=(port, paths, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the readers do not read")
        yield
        if not process.is_alive():
            raise RuntimeError("the readers have stopped")
    finally:
        process.kill()
        process.join()


def decide(port: int) -> Measured:
    return load(port, connections=8, seconds=SECONDS, rate=RATE)


def decide_with(port: int, paths: list[str]) -> Measured:
    """Decide while others read."""
    with readers(port, paths):
        return decide(port)


def reader_rows(name: str, store: str) -> list[Row]:
    paths = [f"/v1/experiments{each}" for each in READERS] + [METRICS]
    with service(store) as (port, _):
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for _ in range(EVENTS // 1000):
                client.decide_many("e0", 1000)
        found = Turns(TURNS, alone=lambda: decide(port), read=lambda: decide_with(port, paths))
    (p50, p99), (p50_read, p99_read) = found.milliseconds("alone"), found.milliseconds("read")
    return [
        (f"readers: {name}, p50 and p99 of decisions, nobody reads", f"{p50:.1f} ms, {p99:.1f} ms", "", None),
        ("  with eight readers and one of the metrics", f"{p50_read:.1f} ms, {p99_read:.1f} ms", "", None),
        ("  p99 over that without", f"{p99_read / p99:.1f}", "at most 5", p99_read <= 5 * p99),
    ]


def rows() -> list[Row]:
    server = Postgres.start()
    with tempfile.TemporaryDirectory() as name:
        try:
            return [
                *reader_rows("SQLite", f"sqlite:///{name}/read.db"),
                *reader_rows("PostgreSQL", server.new_database()),
            ]
        finally:
            server.close()
