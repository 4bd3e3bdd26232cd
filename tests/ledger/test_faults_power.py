"""Power cuts under SQLite: every batch that was acknowledged is there, whatever the disk had not written yet."""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from belated.api.types import OutcomeScale, ShareLimits
from belated.ledger.changing import AddArm, MoveArm, ReportFallbacks, SetLimits
from belated.ledger.commands import Command, Decide, Refused
from belated.ledger.events import Event, Kind
from belated.ledger.observing import Observe, Report
from belated.ledger.processor import CommandProcessor
from belated.ledger.sqlite import SqliteLedger
from support.faults import MOST, NAME, SETTINGS, attempt, found_in, kept, recorded
from support.power_cut import VFS, Left, Tape

CUTS = 40
"""For each run; `make check` has six times as many."""
BATCHES = 60
LEFT: tuple[Left, ...] = ("synced", "some", "some", "all")


class Recorded(SqliteLedger):
    """A ledger on a disk that remembers what was done, with checkpoints now and then."""

    def __init__(self, path: Path, synchronous: str) -> None:
        super().__init__(str(path), VFS)
        self._synchronous = synchronous

    def connect(self) -> apsw.Connection:
        connection = super().connect()
        if self._synchronous:
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.wal_autocheckpoint(40)
        return connection


def record(folder: Path, synchronous: str) -> Tape:
    """Batch after batch, acknowledged one by one; with snapshots, checkpoints, and a new beginning now and then."""
    path = folder / "ledger.db"
    with closing(SqliteLedger(str(path))) as ledger:
        ledger.migrate()
        ledger.create(SETTINGS, 1, MOST)
    tape = Tape(folder)
    with tape.running():
        for first in range(0, BATCHES, 20):
            with closing(Recorded(path, synchronous)) as ledger:
                processor = CommandProcessor(ledger, snapshot_every=50)
                for k in range(first, first + 20):
                    assert attempt(processor, f"batch-{k}").answers
                    tape.note("acknowledge", f"batch-{k}")
    return tape


Look = Callable[[Path, int], str]


def faults_after_a_cut(folder: Path, acknowledged: int) -> str:
    """What is wrong with a ledger after a power cut; nothing, if all is well."""
    path = folder / "ledger.db"
    try:
        with closing(SqliteLedger(str(path))) as ledger:
            found = found_in(recorded(ledger))
            there = [kept(found, f"batch-{k}") for k in range(BATCHES)]
        with closing(apsw.Connection(str(path))) as connection:
            said = connection.execute("PRAGMA integrity_check").fetchall()
    except Exception as error:
        return f"broken: {error}"
    if said != [("ok",)]:
        return f"broken: {said}"
    count = sum(there)
    if count < acknowledged:
        return f"lost: {acknowledged - count} of {acknowledged} batches"
    if not all(there[:count]) or count > acknowledged + 1:
        return f"strange: {there}"
    return ""


def cut_the_power(tape: Tape, folder: Path, cuts: int, look: Look = faults_after_a_cut) -> tuple[Counter[str], int]:
    """Many cuts, after any step: what was wrong, and how many cuts left something unwritten."""
    rng = random.Random(11)
    wrong: Counter[str] = Counter()
    unwritten = 0
    for k in range(cuts):
        cut = rng.randint(1, len(tape.steps))
        image = folder / f"cut-{k}"
        image.mkdir(parents=True)
        unwritten += tape.image(cut, LEFT[k % len(LEFT)], rng, image) > 0
        acknowledged = sum(step.what == "acknowledge" for step in tape.steps[:cut])
        wrong[look(image, acknowledged)] += 1
        shutil.rmtree(image)
    return wrong, unwritten


def made(tmp_path: Path, synchronous: str) -> Tape:
    folder = tmp_path / "ledger"
    folder.mkdir()
    return record(folder, synchronous)


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(6 * CUTS, marks=pytest.mark.slow)])
def test_after_a_power_cut_every_acknowledged_batch_is_there(tmp_path: Path, cuts: int) -> None:
    tape = made(tmp_path, "")
    done = Counter((step.what, step.name) for step in tape.steps)
    assert done["sync", "ledger.db-wal"] >= BATCHES
    assert done["sync", "ledger.db"] >= 3  # checkpoints
    assert done["delete", "ledger.db-wal"] == 3
    wrong, unwritten = cut_the_power(tape, tmp_path / "cuts", cuts)
    assert wrong == {"": cuts}
    assert unwritten > cuts / 3


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_without_a_sync_for_every_commit_power_cuts_lose_batches(tmp_path: Path, synchronous: str) -> None:
    """The same cuts find losses where there are some: the test above can fail."""
    wrong, _ = cut_the_power(made(tmp_path, synchronous), tmp_path / "cuts", 6 * CUTS)
    lost = sum(count for fault, count in wrong.items() if fault.startswith("lost"))
    broken = sum(count for fault, count in wrong.items() if fault.startswith("broken"))
    assert lost > CUTS
    assert (broken > 0) == (synchronous == "OFF")


CHANGED = msgspec.structs.replace(SETTINGS, reports="sum", outcome=OutcomeScale(0.0, 200.0))
CHANGES = 20
KINDS = ["ADD_ARM", "DECISION", "DECISION", "REPORT", "SETTLED", "RETIRE_ARM", "LIMITS", "FALLBACKS", "REPORT"]
"""Of the events of one batch."""


def changes(k: int) -> list[Command]:
    """An arm comes and goes, limits change, several reports of a decision come, somebody went on alone."""
    arm, limits = f"arm-{k}", ShareLimits(holdout=(1 + k) / 1000)
    first = [Report(f"{k}-1", None, 30.0, "r1", True)]
    return [
        AddArm(NAME, arm),
        Decide(NAME, [f"{k}-1", f"{k}-2"]),
        Observe(NAME, first),
        MoveArm(NAME, arm, True),
        SetLimits(NAME, limits),
        ReportFallbacks(NAME, f"f{k}", "a", 1 + k),
        Observe(NAME, [Report(f"{k}-2", None, -5.0, "r1")]),
    ]


def faults_of_changes(folder: Path, acknowledged: int) -> str:
    """What is wrong after a power cut with a ledger of changes."""
    try:
        with closing(SqliteLedger(str(folder / "ledger.db"))) as ledger:
            events: list[Event] = recorded(ledger)
    except Exception as error:
        return f"broken: {error}"
    batches, rest = divmod(len(events), len(KINDS))
    if rest or [Kind(event.kind).name for event in events] != KINDS * batches:
        return "strange"
    labels = [event.detail for event in events if event.kind == Kind.ADD_ARM]
    if labels != [f'"arm-{k}"' for k in range(batches)]:
        return f"strange: {labels}"
    return "" if acknowledged <= batches <= acknowledged + 1 else f"lost: {acknowledged - batches}"


@pytest.mark.parametrize("cuts", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_after_a_power_cut_every_acknowledged_change_is_there(tmp_path: Path, cuts: int) -> None:
    path = tmp_path / "ledger" / "ledger.db"
    path.parent.mkdir()
    with closing(SqliteLedger(str(path))) as ledger:
        ledger.migrate()
        ledger.create(CHANGED, 1, MOST)
    tape = Tape(path.parent)
    with tape.running():
        for first in range(0, CHANGES, 10):
            with closing(Recorded(path, "")) as ledger:
                processor = CommandProcessor(ledger, snapshot_every=40)
                for k in range(first, first + 10):
                    assert not any(isinstance(answer, Refused) for answer in processor.run(changes(k)))
                    tape.note("acknowledge", str(k))
    wrong, unwritten = cut_the_power(tape, tmp_path / "cuts", cuts, faults_of_changes)
    assert wrong == {"": cuts}
    assert unwritten > cuts / 3
