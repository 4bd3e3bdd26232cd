"""Power cuts under SQLite: every batch that was acknowledged is there, whatever the disk had not written yet."""

import random
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from belated.ledger.processor import CommandProcessor
from belated.ledger.sqlite import SqliteLedger
from support.faults import MOST, SETTINGS, attempt, found_in, kept, recorded
from support.power_cut import VFS, Left, Tape

CUTS = 240
BATCHES = 90
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
        for first in range(0, BATCHES, 30):
            with closing(Recorded(path, synchronous)) as ledger:
                processor = CommandProcessor(ledger, snapshot_every=50)
                for k in range(first, first + 30):
                    assert attempt(processor, f"batch-{k}").answers
                    tape.note("acknowledge", f"batch-{k}")
    return tape


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


def cut_the_power(tape: Tape, folder: Path) -> tuple[Counter[str], int]:
    """Many cuts, after any step: what was wrong, and how many cuts left something unwritten."""
    rng = random.Random(11)
    wrong: Counter[str] = Counter()
    unwritten = 0
    for k in range(CUTS):
        cut = rng.randint(1, len(tape.steps))
        image = folder / f"cut-{k}"
        image.mkdir(parents=True)
        unwritten += tape.image(cut, LEFT[k % len(LEFT)], rng, image) > 0
        acknowledged = sum(step.what == "acknowledge" for step in tape.steps[:cut])
        wrong[faults_after_a_cut(image, acknowledged)] += 1
        shutil.rmtree(image)
    return wrong, unwritten


def made(tmp_path: Path, synchronous: str) -> Tape:
    folder = tmp_path / "ledger"
    folder.mkdir()
    return record(folder, synchronous)


def test_after_a_power_cut_every_acknowledged_batch_is_there(tmp_path: Path) -> None:
    tape = made(tmp_path, "")
    done = Counter((step.what, step.name) for step in tape.steps)
    assert done["sync", "ledger.db-wal"] >= BATCHES
    assert done["sync", "ledger.db"] >= 5  # checkpoints
    assert done["delete", "ledger.db-wal"] == 3
    wrong, unwritten = cut_the_power(tape, tmp_path / "cuts")
    assert wrong == {"": CUTS}
    assert CUTS >= 150
    assert unwritten > CUTS / 2


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_without_a_sync_for_every_commit_power_cuts_lose_batches(tmp_path: Path, synchronous: str) -> None:
    """The same cuts find losses where there are some: the test above can fail."""
    wrong, _ = cut_the_power(made(tmp_path, synchronous), tmp_path / "cuts")
    lost = sum(count for fault, count in wrong.items() if fault.startswith("lost"))
    broken = sum(count for fault, count in wrong.items() if fault.startswith("broken"))
    assert lost > CUTS / 5
    assert (broken > 0) == (synchronous == "OFF")
