"""What very many outstanding decisions cost: memory, snapshots, a restart, rates; and deadlines that pass together.

For each store, decisions are made by a `CommandProcessor` in this process, then services are started on what it left.
"""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

from bench_service import Row, Turns, resident, running
from load import KEY, Measured, load

from belated.api.types import MOST_AT_ONCE, Deadline
from belated.client import Client
from belated.ledger import open_ledger
from belated.ledger.base import Ledger
from belated.ledger.commands import Decide, KeepSnapshot
from belated.ledger.events import SECOND, ExperimentSettings
from belated.ledger.keys import ensure_admin
from belated.ledger.processor import CommandProcessor
from support.ports import free_port
from support.postgres import Postgres

DECISIONS = 10_000_000
DEADLINES = 1_000_000
TURNS = 3
SECONDS = 1
MOST_REPORTED = 40_000
"""Outcomes that can be reported in a turn, more than a worker takes."""
ARMS: list[str | int] = ["blue", "green", "red"]
DEADLINE_RATE = 20_000
"""Decisions a second that this machine makes at least while the experiment with deadlines is filled."""
COMMANDS = 2
"""Commands of MOST_AT_ONCE decisions in a transaction while an experiment is filled."""


def create(ledger: Ledger, name: str, deadline: float = 0.0) -> int:
    settings = ExperimentSettings(name, ARMS, "guarded", {}, 7, Deadline(deadline, 1.0) if deadline else "wait")
    return ledger.create(settings, 0, 10)[0].number


def decided(ledger: Ledger, name: str, count: int) -> float:
    """Make decisions with ids 1, 2, … of 16 digits and keep a snapshot; decisions a second."""
    processor = CommandProcessor(ledger)
    begun = time.perf_counter()
    at, step = 1, COMMANDS * MOST_AT_ONCE
    while at <= count:
        ids = [f"{number:016d}" for number in range(at, min(at + step, count + 1))]
        parts = [ids[k : k + MOST_AT_ONCE] for k in range(0, len(ids), MOST_AT_ONCE)]
        processor.run([Decide(name, part) for part in parts])
        at += step
        if at // step % 500 == 0:
            print(f"  … {at - 1:,} decisions of {name}", file=sys.stderr, flush=True)
    processor.run([KeepSnapshot(name)])
    return count / (time.perf_counter() - begun)


@contextlib.contextmanager
def worker(store: str) -> Iterator[tuple[int, int, float]]:
    """A fresh worker that has made one decision of e0: its port, its process id, seconds from its start until then."""
    port = free_port()
    begun = time.monotonic()
    with running(["-m", "belated.cli", "serve", "--store", store, "--port", str(port)], port) as pid:
        with Client(f"http://127.0.0.1:{port}", KEY) as client:
            client.decide("e0")
        yield port, pid, time.monotonic() - begun


def restart_rows(full: str, empty: str) -> list[Row]:
    """Memory of a fresh worker, and how long it takes until it decides."""
    sizes: dict[str, list[float]] = {full: [], empty: []}
    seconds: dict[str, list[float]] = {full: [], empty: []}
    for _ in range(TURNS):
        for store in (full, empty):
            with worker(store) as (_, pid, taken):
                sizes[store].append(resident(pid))
                seconds[store].append(taken)
    megabytes = {store: statistics.median(found) for store, found in sizes.items()}
    taken_by = {store: statistics.median(found) for store, found in seconds.items()}
    above = megabytes[full] - megabytes[empty]
    return [
        (
            "  memory of a fresh worker, and above one with an empty experiment",
            f"{megabytes[full]:.0f}, {above:+.0f} MB",
            "",
            None,
        ),
        (
            "  first decision after a restart, and with an empty experiment",
            f"{taken_by[full]:.1f}, {taken_by[empty]:.1f} s",
            "",
            None,
        ),
    ]


def rate_rows(store: str, count: int) -> list[Row]:
    """Decisions and outcomes of e0, which has all those outstanding, and of e1, which has none, in turns."""
    pool = min(count // (TURNS + 2), MOST_REPORTED)
    taken = {0: 0, 1: 0}

    def outcomes(port: int, experiment: int) -> Measured:
        first = taken[experiment]
        if experiment == 1:
            with Client(f"http://127.0.0.1:{port}", KEY) as client:
                for k in range(first, first + pool, MOST_AT_ONCE):
                    client.decide_many("e1", [f"{number:016d}" for number in range(k + 1, k + MOST_AT_ONCE + 1)])
        taken[experiment] += pool
        return load(port, "outcomes", first=first, experiment=experiment, seconds=SECONDS)

    with worker(store) as (port, _, _):
        found = Turns(
            TURNS,
            decisions=lambda: load(port, seconds=SECONDS),
            decisions_empty=lambda: load(port, experiment=1, seconds=SECONDS),
            outcomes=lambda: outcomes(port, 0),
            outcomes_empty=lambda: outcomes(port, 1),
        )
    return [
        found.shown("  decisions", "decisions"),
        found.compared("  of the rate with few outstanding", "decisions", "decisions_empty", 0.9),
        found.latency("  p50, p99", "decisions"),
        found.latency("  p50, p99 with few outstanding", "decisions_empty"),
        found.shown("  outcomes", "outcomes"),
        found.compared("  of the rate with few outstanding", "outcomes", "outcomes_empty", 0.9),
    ]


def settled(ledger: Ledger, count: int) -> int:
    """How many of the deadlines of e1 have been settled."""
    record = ledger.find("e1")
    assert record is not None
    return record.events - count


def deadline_rows(ledger: Ledger, store: str, count: int) -> list[Row]:
    """Deadlines of e1 that pass while no worker is there, settled by one that decides for e0 at the same time."""
    create(ledger, "e0")
    deadline = 5 + count / DEADLINE_RATE
    number = create(ledger, "e1", deadline)
    decided(ledger, "e1", count)
    time.sleep(deadline)
    if settled(ledger, count):
        raise RuntimeError(f"{count:,} decisions took longer than {deadline:.0f} s: deadlines passed meanwhile")
    during: list[Measured] = []
    with worker(store) as (port, _, _):
        while settled(ledger, count) < count:
            during.append(load(port, seconds=SECONDS))
        after = [load(port, seconds=SECONDS) for _ in range(max(TURNS, min(len(during), 10)))]
    first, last = (ledger.events(number, at, 1)[0].at for at in (count, 2 * count - 1))
    rate = count / (max(last - first, 1) / SECOND)
    rows: list[Row] = [(f"  {count:,} deadlines that passed together: settled", f"{rate:,.0f} /s", "", None)]
    if not during:
        return [*rows, ("  … before decisions of another experiment could be measured", "", "", None)]
    p99, calm = (statistics.median(each.p99 for each in found) * 1e3 for found in (during, after))
    rates = [statistics.median(each.rate for each in found) for found in (during, after)]
    return [
        *rows,
        (
            "  decisions of another experiment meanwhile, and afterwards",
            f"{rates[0]:,.0f}, {rates[1]:,.0f} /s",
            "",
            None,
        ),
        ("  their p99 meanwhile, and afterwards", f"{p99:.1f}, {calm:.1f} ms", "ratio at most 5", p99 <= 5 * calm),
    ]


def store_rows(word: str, full: str, empty: str, deadlines: str, count: int) -> list[Row]:
    for store in (full, empty, deadlines):
        with contextlib.closing(open_ledger(store)) as ledger:
            ensure_admin(ledger, KEY)
    with contextlib.closing(open_ledger(empty)) as ledger:
        create(ledger, "e0")
    with contextlib.closing(open_ledger(full)) as ledger:
        number = create(ledger, "e0")
        create(ledger, "e1")
        rate = decided(ledger, "e0", count)
        sizes = [len(state) / 1e6 for _, state in ledger.snapshots(number)]
    rows: list[Row] = [
        (f"outstanding: {word}, {count:,} decisions without outcomes, made at", f"{rate:,.0f} /s", "", None),
        ("  size of the snapshot", f"{sizes[0]:.2f} MB", "", None),
    ]
    rows += restart_rows(full, empty) + rate_rows(full, count)
    with contextlib.closing(open_ledger(deadlines)) as ledger:
        rows += deadline_rows(ledger, deadlines, min(DEADLINES, count))
    return rows


def rows(count: int = DECISIONS) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        stores = [f"sqlite:///{name}/{word}.db" for word in ("full", "empty", "deadlines")]
        found = store_rows("SQLite", stores[0], stores[1], stores[2], count)
    server = Postgres.start()
    try:
        stores = [server.new_database() for _ in range(3)]
        return found + store_rows("PostgreSQL", stores[0], stores[1], stores[2], count)
    finally:
        server.close()
