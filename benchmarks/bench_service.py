"""What the service costs: durable decisions a second against the same server with nothing behind it, and more.

wrk makes the load (load.py). All servers are up for the whole of the run, and each is loaded in turn, so that a machine
that is busy with other things slows all of them alike. A ratio is taken within each turn; shown is the median, with the
least and the most.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from load import KEY, Measured, load

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from belated.api.types import MOST_AT_ONCE
from belated.client import Client
from belated.ledger import open_ledger
from belated.ledger.commands import Decide
from belated.ledger.events import ExperimentSettings
from belated.ledger.keys import ensure_admin
from belated.ledger.observing import Observe, Report
from belated.ledger.processor import CommandProcessor
from support.ports import free_port
from support.postgres import Postgres

Row = tuple[str, str, str, bool | None]
TURNS = 5
MANY = 512
"""Connections that keep two workers busy."""
EXPERIMENTS = 100
EVENTS = 1_000_000
MEMORY_DECISIONS = 1_000_000

ONE_BY_ONE = """
import sys
from belated.service.limits import Limits
from belated.service.server import ServerSettings, serve
serve(ServerSettings(sys.argv[1], port=int(sys.argv[2]), limits=Limits(commit=1)))
"""


@contextlib.contextmanager
def running(arguments: list[str], port: int) -> Iterator[int]:
    """A server process, while it is needed; its process id."""
    environment = os.environ | {"BELATED_ADMIN_KEY": KEY}
    process = subprocess.Popen([sys.executable, *arguments], env=environment, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/readyz")
                break
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server does not start: {arguments}")
            time.sleep(0.02)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextlib.contextmanager
def echo() -> Iterator[int]:
    """The bare server: its port."""
    port = free_port()
    with running([str(Path(__file__).parent / "echo.py"), str(port)], port):
        yield port


@contextlib.contextmanager
def service(store: str, workers: int = 1, *, experiments: int = 1, group: bool = True) -> Iterator[tuple[int, int]]:
    """`belated serve` with experiments e0, e1, …: its port and its process id."""
    port = free_port()
    with contextlib.closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, KEY)
    serve = ["-m", "belated.cli", "serve", "--store", store, "--port", str(port), "--workers", str(workers)]
    with running(serve if group else ["-c", ONE_BY_ONE, store, str(port)], port) as pid:
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for k in range(experiments):
                client.create(f"e{k}", ["blue", "green", "red"])
                client.decide_many(f"e{k}", 100)
        yield port, pid


class Turns:
    """Loads measured in turns; once before, unmeasured."""

    def __init__(self, turns: int, **works: Callable[[], Measured]) -> None:
        self._found: dict[str, list[Measured]] = {name: [] for name in works}
        for turn in range(turns + 1):
            for name, work in works.items():
                measured = work()
                if turn:
                    self._found[name].append(measured)

    def rate(self, name: str) -> float:
        """The median of the requests a second."""
        return statistics.median(each.rate for each in self._found[name])

    def milliseconds(self, name: str) -> tuple[float, float]:
        """The medians of p50 and p99."""
        found = self._found[name]
        return statistics.median(each.p50 for each in found) * 1e3, statistics.median(each.p99 for each in found) * 1e3

    def ratios(self, name: str, other: str, times: float = 1.0) -> list[float]:
        """The rate of one over that of another, in each turn."""
        pairs = zip(self._found[name], self._found[other], strict=True)
        return [times * one.rate / two.rate for one, two in pairs]

    def shown(self, what: str, name: str, times: float = 1.0) -> Row:
        return what, f"{times * self.rate(name):,.0f} /s", "", None

    def compared(self, what: str, name: str, other: str, target: float | None = None, times: float = 1.0) -> Row:
        found = self.ratios(name, other, times)
        median = statistics.median(found)
        measured = f"{median:.2f} ({min(found):.2f} to {max(found):.2f})"
        return (
            (what, measured, "", None) if target is None else (what, measured, f"at least {target:g}", median >= target)
        )

    def latency(self, what: str, name: str, most: float | None = None) -> Row:
        p50, p99 = self.milliseconds(name)
        measured = f"{p50:.1f} ms, {p99:.1f} ms"
        return (
            (what, measured, "", None)
            if most is None
            else (what, measured, f"ratio at most {most:g}", p99 <= most * p50)
        )


def load_rows(folder: Path) -> list[Row]:
    server = Postgres.start()
    with (
        echo() as bare,
        service(f"sqlite:///{folder}/one.db") as (sqlite, _),
        service(f"sqlite:///{folder}/single.db", group=False) as (single, _),
        service(f"sqlite:///{folder}/two.db", workers=2, experiments=2) as (sqlite_two, _),
        service(server.new_database()) as (postgres, _),
        service(server.new_database(), experiments=EXPERIMENTS) as (postgres_many, _),
        service(server.new_database(), workers=2, experiments=2) as (postgres_two, _),
    ):
        found = Turns(
            TURNS,
            echo=lambda: load(bare),
            sqlite=lambda: load(sqlite),
            single=lambda: load(single),
            batches=lambda: load(sqlite, size=1000, connections=4),
            sqlite_two=lambda: load(sqlite_two),
            postgres=lambda: load(postgres),
            postgres_many=lambda: load(postgres_many, experiments=EXPERIMENTS),
            two_on_one=lambda: load(postgres_two),
            one_busy=lambda: load(postgres_many, experiments=2, connections=MANY),
            two_busy=lambda: load(postgres_two, experiments=2, connections=MANY),
        )
        calm = Turns(TURNS, half=lambda: load(sqlite, rate=found.rate("sqlite") / 2))
    server.close()
    return [
        found.shown("service: bare ASGI server that echoes, 128 connections", "echo"),
        found.shown("  durable decisions, SQLite, one worker", "sqlite"),
        found.compared("  of the bare server's", "sqlite", "echo", 0.5),
        found.latency("  p50, p99", "sqlite"),
        calm.latency("  p50, p99 at half of the top rate", "half", 20),
        found.compared("  times one commit a request", "sqlite", "single", 5),
        found.shown("  decisions in batches of 1,000", "batches", 1000),
        found.compared("  times single decisions", "batches", "sqlite", 10, 1000),
        found.shown("  SQLite, two workers, one experiment", "sqlite_two"),
        found.compared("  of one worker's", "sqlite_two", "sqlite"),
        found.latency("  p50, p99", "sqlite_two", 5),
        found.shown("service: PostgreSQL, one worker, one experiment", "postgres"),
        found.compared("  of the bare server's", "postgres", "echo"),
        found.latency("  p50, p99", "postgres"),
        found.shown(f"  {EXPERIMENTS} experiments", "postgres_many"),
        found.compared("  of one experiment's", "postgres_many", "postgres", 0.6),
        found.latency("  p50, p99", "postgres_many"),
        found.shown("  two workers, one experiment", "two_on_one"),
        found.compared("  of SQLite's", "two_on_one", "sqlite", 0.5),
        found.compared(f"  two workers over one, two experiments, {MANY} connections", "two_busy", "one_busy", 1.3),
    ]


def restart_rows(folder: Path) -> list[Row]:
    """Ready again with many events: from the start of the process to the first decision."""
    store = f"sqlite:///{folder}/long.db"
    ledger = open_ledger(store)
    ledger.create(ExperimentSettings("e0", ["blue", "green", "red"], "guarded", {}, 7, "wait"), 0, 10)
    book = CommandProcessor(ledger)
    for k in range(EVENTS // 2 // MOST_AT_ONCE):
        ids = [f"{k}-{j}" for j in range(MOST_AT_ONCE)]
        book.run([Decide("e0", ids), Observe("e0", [Report(name, 0.5) for name in ids])])
    ledger.close()
    port = free_port()
    serve = ["-m", "belated.cli", "serve", "--store", store, "--port", str(port)]
    begun = time.monotonic()
    with running(serve, port), Client(f"http://127.0.0.1:{port}", KEY) as client:
        decision = client.decide("e0")
        seconds = time.monotonic() - begun
    assert decision.round == EVENTS // 2 + 1
    return [
        (
            f"service: decides again after a restart with {EVENTS:,} events",
            f"{seconds:.1f} s",
            "at most 5 s",
            seconds <= 5,
        )
    ]


def memory_rows(folder: Path) -> list[Row]:
    """Memory of a worker while decisions go by, a tenth of which never get an outcome."""
    sizes = []
    with service(f"sqlite:///{folder}/memory.db") as (port, pid), Client(f"http://127.0.0.1:{port}", KEY) as client:
        for k in range(MEMORY_DECISIONS // MOST_AT_ONCE):
            ids = [f"{k}-{j}" for j in range(MOST_AT_ONCE)]
            client.decide_many("e0", ids)
            client.observe_many("e0", losses={name: 0.5 for j, name in enumerate(ids) if j % 10})
            if (k + 1) % (MEMORY_DECISIONS // MOST_AT_ONCE // 10) == 0:
                sizes.append(resident(pid))
    growth = sizes[-1] - sizes[1]
    shown = f"{sizes[0]:.0f}, {sizes[1]:.0f} … {sizes[-1]:.0f} MB"
    return [
        (f"service: memory at 10 %, 20 % … 100 % of {MEMORY_DECISIONS:,} decisions", shown, "", None),
        ("  grown since 20 %", f"{growth:.1f} MB", "at most 10 MB", growth <= 10),
    ]


def resident(pid: int) -> float:
    """Megabytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return load_rows(folder) + restart_rows(folder) + memory_rows(folder)
