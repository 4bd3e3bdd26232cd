"""What readers cost those who decide: the p99 of decisions with eight readers over that without, in turns."""

import asyncio
import contextlib
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_service import Row, Turns, service
from load import KEY, Measured, load

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from belated.client import Client
from support.postgres import Postgres

TURNS = 5
SECONDS = 3
RATE = 200.0
"""Decisions a second: far from the most that there can be."""
EVENTS = 30_000
READERS = ["/e0?digest=true", "/e0/ledger", "/e0", "/e0/stream"] * 2
METRICS = "/metrics"


async def _read(port: int, path: str) -> None:
    """Read something again and again, as fast as it comes."""
    ask = f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\r\n".encode()
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask)
        while await reader.read(1 << 20):
            pass
        writer.close()


def _read_all(port: int, paths: list[str]) -> None:
    async def main() -> None:
        await asyncio.gather(*(_read(port, path) for path in paths))

    asyncio.run(main())


@contextlib.contextmanager
def readers(port: int) -> Iterator[None]:
    """Eight readers, and one of the metrics, while they are needed."""
    paths = [f"/v1/experiments{each}" for each in READERS] + [METRICS]
    process = multiprocessing.get_context("spawn").Process(target=_read_all, args=(port, paths), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _decide(port: int) -> Measured:
    return load(port, connections=8, seconds=SECONDS, rate=RATE)


def reader_rows(name: str, store: str) -> list[Row]:
    with service(store) as (port, _):
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for _ in range(EVENTS // 1000):
                client.decide_many("e0", 1000)

        def read_meanwhile() -> Measured:
            with readers(port):
                return _decide(port)

        found = Turns(TURNS, alone=lambda: _decide(port), read=read_meanwhile)
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
