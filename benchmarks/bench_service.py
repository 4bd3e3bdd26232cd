"""What the service costs: durable decisions a second against the same stack's bare echo, and more."""

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
from load import KEY, decisions, load, one_decision

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from belated.api.types import MOST_AT_ONCE
from belated.client import Client
from belated.ledger import open_ledger
from belated.ledger.commands import Decide, Observe
from belated.ledger.events import ExperimentSettings
from belated.ledger.keys import ensure_admin
from belated.ledger.processor import CommandProcessor
from support.postgres import Postgres
from support.serving import free_port

Row = tuple[str, str, str, bool | None]
TURNS = 5
SECONDS = 2.0
MANY = 512
"""Connections that keep two workers busy."""
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
def service(store: str, workers: int = 1, *, group: bool = True) -> Iterator[tuple[int, int]]:
    """`belated serve` with experiments `one` and `two`: its port and its process id."""
    port = free_port()
    with contextlib.closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, KEY)
    serve = ["-m", "belated.cli", "serve", "--store", store, "--port", str(port), "--workers", str(workers)]
    with running(serve if group else ["-c", ONE_BY_ONE, store, str(port)], port) as pid:
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            for name in ("one", "two"):
                client.create(name, ["blue", "green", "red"])
                client.decide_many(name, 100)
        yield port, pid


def path(name: str) -> str:
    return f"/v1/experiments/{name}/decisions"


def in_turns(**works: Callable[[], float]) -> dict[str, float]:
    """The median rate of each, measured in turns; once before, unmeasured."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(TURNS + 1):
        for name, work in works.items():
            rate = work()
            if turn:
                rates[name].append(rate)
    return {name: statistics.median(each) for name, each in rates.items()}


def ratio(name: str, measured: float, target: float) -> Row:
    return name, f"{measured:.2f}", f"at least {target:g}", measured >= target


def sqlite_rows(folder: Path) -> tuple[list[Row], float]:
    echo_port = free_port()
    echo = str(Path(__file__).parent / "echo.py")
    with (
        running([echo, str(echo_port)], echo_port),
        service(f"sqlite:///{folder}/group.db") as (port, _),
        service(f"sqlite:///{folder}/single.db", group=False) as (single, _),
    ):
        rates = in_turns(
            echo=lambda: load(echo_port, [path("one")], one_decision, seconds=SECONDS).rate,
            durable=lambda: load(port, [path("one")], one_decision, seconds=SECONDS).rate,
            single=lambda: load(single, [path("one")], one_decision, seconds=SECONDS).rate,
            batches=lambda: 1000 * load(port, [path("one")], decisions(1000), connections=4, seconds=SECONDS).rate,
        )
        half = load(port, [path("two")], one_decision, seconds=3 * SECONDS, rate=rates["durable"] / 2)
    p50, p99 = half.quantile(0.5), half.quantile(0.99)
    found: list[Row] = [
        ("service: bare echo of the same stack, 128 connections", f"{rates['echo']:,.0f} /s", "", None),
        ("  durable decisions, SQLite, one worker", f"{rates['durable']:,.0f} /s", "", None),
        ratio("  of the echo", rates["durable"] / rates["echo"], 0.6),
        ratio("  times one commit a request", rates["durable"] / rates["single"], 5),
        ratio("  batches of 1,000, times single decisions", rates["batches"] / rates["durable"], 10),
        ("  at half of the top rate: p50, p99", f"{p50 * 1e3:.1f} ms, {p99 * 1e3:.1f} ms", "", None),
        ("  p99 over p50", f"{p99 / p50:.1f}", "at most 20", p99 <= 20 * p50),
    ]
    return found, rates["durable"]


def postgres_rows(folder: Path) -> list[Row]:
    server = Postgres.start()
    both = [path("one"), path("two")]
    with (
        service(f"sqlite:///{folder}/beside.db") as (embedded, _),
        service(server.new_database()) as (one, _),
        service(server.new_database(), workers=2) as (two, _),
    ):
        rates = in_turns(
            embedded=lambda: load(embedded, [path("one")], one_decision, seconds=SECONDS).rate,
            two_on_one=lambda: load(two, [path("one")], one_decision, seconds=SECONDS).rate,
            one=lambda: load(one, both, one_decision, seconds=SECONDS).rate,
            two_on_two=lambda: load(two, both, one_decision, seconds=SECONDS).rate,
            one_busy=lambda: load(one, both, one_decision, connections=MANY, seconds=SECONDS).rate,
            two_busy=lambda: load(two, both, one_decision, connections=MANY, seconds=SECONDS).rate,
        )
    server.close()
    return [
        ("service: PostgreSQL, two workers, one experiment", f"{rates['two_on_one']:,.0f} /s", "", None),
        ratio("  of SQLite's rate", rates["two_on_one"] / rates["embedded"], 0.5),
        (f"  one worker, two experiments, {MANY} connections", f"{rates['one_busy']:,.0f} /s", "", None),
        ("  two workers", f"{rates['two_busy']:,.0f} /s", "", None),
        ratio("  times one worker's", rates["two_busy"] / rates["one_busy"], 1.3),
        ("  times one worker's, with 128 connections", f"{rates['two_on_two'] / rates['one']:.2f}", "", None),
    ]


def restart_rows(folder: Path) -> list[Row]:
    """Ready again with many events: from the start of the process to the first decision."""
    store = f"sqlite:///{folder}/long.db"
    ledger = open_ledger(store)
    ledger.create(ExperimentSettings("one", ["blue", "green", "red"], "guarded", {}, 7, "wait"), 0, 10)
    book = CommandProcessor(ledger)
    for k in range(EVENTS // 2 // MOST_AT_ONCE):
        ids = [f"{k}-{j}" for j in range(MOST_AT_ONCE)]
        book.run([Decide("one", ids), Observe("one", [(name, 0.5) for name in ids])])
    ledger.close()
    port = free_port()
    serve = ["-m", "belated.cli", "serve", "--store", store, "--port", str(port)]
    begun = time.monotonic()
    with running(serve, port), Client(f"http://127.0.0.1:{port}", KEY) as client:
        decision = client.decide("one")
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
            client.decide_many("one", ids)
            client.observe_many("one", losses={name: 0.5 for j, name in enumerate(ids) if j % 10})
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
        found, _ = sqlite_rows(folder)
        return found + postgres_rows(folder) + restart_rows(folder) + memory_rows(folder)
