"""What readers cost those who decide: the p99 of decisions with eight readers over that without, in turns."""

import asyncio
import contextlib
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_service import Row, path, service
from load import KEY, Measured, load, one_decision

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from belated.client import Client
from support.postgres import Postgres

TURNS = 5
SECONDS = 3.0
RATE = 200.0
"""Decisions a second: far from the most that there can be."""
EVENTS = 30_000
READERS = ["/one?digest=true", "/one/ledger", "/one", "/one/stream"] * 2
METRICS = "/metrics"
MANY = 100
"""Experiments that are served at once."""


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
    return load(port, [path("one")], one_decision, connections=8, seconds=SECONDS, rate=RATE)


def reader_rows(name: str, store: str) -> list[Row]:
    without, with_readers = [], []
    with service(store) as (port, _):
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for _ in range(EVENTS // 1000):
                client.decide_many("one", 1000)
        _decide(port)
        for _ in range(TURNS):
            without.append(_decide(port))
            with readers(port):
                with_readers.append(_decide(port))

    def middle(measured: list[Measured], share: float) -> float:
        return statistics.median(each.quantile(share) for each in measured)

    p99, p99_read = middle(without, 0.99), middle(with_readers, 0.99)
    shown = f"{middle(without, 0.5) * 1e3:.1f}, {p99 * 1e3:.1f} ms"
    shown_read = f"{middle(with_readers, 0.5) * 1e3:.1f}, {p99_read * 1e3:.1f} ms"
    return [
        (f"readers: {name}, p50 and p99 of decisions, nobody reads", shown, "", None),
        ("  with eight readers and one of the metrics", shown_read, "", None),
        ("  p99 over that without", f"{p99_read / p99:.1f}", "at most 5", p99_read <= 5 * p99),
    ]


def _turns(**works: Callable[[], Measured]) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {name: [] for name in works}
    for turn in range(TURNS + 1):
        for name, work in works.items():
            measured = work()
            if turn:
                found[name].append(measured)
    return found


def many_rows(store: str) -> list[Row]:
    """One hundred experiments against one, on PostgreSQL."""
    names = [f"many-{k}" for k in range(MANY)]
    with service(store) as (port, _):
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for name in names:
                client.create(name, ["blue", "green", "red"])
        paths = [path(name) for name in names]
        found = _turns(
            one=lambda: load(port, [path("one")], one_decision, seconds=2.0),
            many=lambda: load(port, paths, one_decision, seconds=2.0),
        )
    rates = {name: statistics.median(each.rate for each in measured) for name, measured in found.items()}
    share = rates["many"] / rates["one"]
    return [
        ("group commits: PostgreSQL, one experiment, 128 connections", f"{rates['one']:,.0f} /s", "", None),
        (f"  {MANY} experiments", f"{rates['many']:,.0f} /s", "", None),
        ("  of the rate with one", f"{share:.2f}", "at least 0.6", share >= 0.6),
    ]


def worker_rows(store: str) -> list[Row]:
    """Two workers on one SQLite file."""
    both = [path("one"), path("two")]
    with service(store, workers=2) as (port, _):
        found = _turns(two=lambda: load(port, both, one_decision, connections=16, seconds=SECONDS, rate=RATE))["two"]
    p50 = statistics.median(each.quantile(0.5) for each in found)
    p99 = statistics.median(each.quantile(0.99) for each in found)
    return [
        ("SQLite, two workers, two experiments: p50, p99", f"{p50 * 1e3:.1f}, {p99 * 1e3:.1f} ms", "", None),
        ("  p99 over p50", f"{p99 / p50:.1f}", "at most 5", p99 <= 5 * p50),
    ]


def rows() -> list[Row]:
    server = Postgres.start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            return [
                *reader_rows("SQLite", f"sqlite:///{folder}/read.db"),
                *reader_rows("PostgreSQL", server.new_database()),
                *many_rows(server.new_database()),
                *worker_rows(f"sqlite:///{folder}/two.db"),
            ]
        finally:
            server.close()
