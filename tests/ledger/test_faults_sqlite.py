"""Disks that fail under SQLite: acknowledged and kept, or refused and absent; and all goes on when they are mended."""

import errno
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from belated.ledger import processor as processor_module
from belated.ledger.base import LedgerUnavailable
from belated.ledger.commands import Read, View
from belated.ledger.processor import CommandProcessor
from belated.ledger.sqlite import SqliteLedger
from support.faults import (
    HEADERS,
    MOST,
    NAME,
    PATH,
    SETTINGS,
    Load,
    Trace,
    agree,
    attempt,
    found_in,
    kept,
    readiness,
    recorded,
)
from support.faulty_vfs import CHANGES, EVERY, SYNC, WRITE, Disk, Fault
from support.sampling import SEED
from support.serving import Server
from support.waiting import until

MOST_OPERATIONS = 200
ROOM = 40_000
"""Bytes: enough for what those who read must write (they share an index of the log), too little for a ledger."""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(processor_module, "RESOLVE_SECONDS", 0.0)
    disk = Disk()
    with disk.installed():
        yield disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with an experiment that has decided something."""
    path = tmp_path / "ledger.db"
    with closing(SqliteLedger(str(path))) as ledger:
        ledger.migrate()
        ledger.create(SETTINGS, 1, MOST)
        assert attempt(CommandProcessor(ledger), "first").answers
    return path


class Shaken(SqliteLedger):
    """A ledger on a disk that may fail."""

    def __init__(self, path: Path, disk: Disk, eager: bool = False) -> None:
        super().__init__(str(path))
        self._disk = disk
        self._eager = eager

    def connect(self) -> apsw.Connection:
        connection = super().connect()
        try:
            self._disk.watch(connection)
            if self._eager:
                connection.wal_autocheckpoint(1)  # a checkpoint after every commit
        except BaseException:
            connection.close(True)
            raise
        return connection


def found_at(path: Path) -> set[Trace]:
    """What another process would read."""
    with closing(SqliteLedger(str(path))) as ledger:
        return found_in(recorded(ledger))


def found_after_a_kill(path: Path) -> set[Trace]:
    """What would be read if all processes were killed now: what they share in memory is gone, the files stay."""
    folder = path.parent / "killed"
    folder.mkdir()
    for file in (path, path.with_name(path.name + "-wal")):
        if file.exists():
            shutil.copy(file, folder)
    found = found_at(folder / path.name)
    shutil.rmtree(folder)
    return found


FAULTS: dict[str, Callable[[int], Fault]] = {
    "once": lambda at: Fault(at),
    "once, though done": lambda at: Fault(at, kinds=CHANGES - {WRITE}, done=True),
    "until mended": lambda at: Fault(at, lasts=True),
    "changes until mended": lambda at: Fault(at, lasts=True, kinds=CHANGES),
    "syncs until mended": lambda at: Fault(at, lasts=True, kinds=frozenset({SYNC})),
    "full until emptied": lambda at: Fault(at, lasts=True, kinds=frozenset({WRITE}), number=errno.ENOSPC),
}
CLEAR = ("once", "once, though done", "full until emptied")
"""Where the ledger can find out what came of a batch."""
STATES = ("nobody has it open", "somebody has it open", "it is open", "every commit is checkpointed")

_COMMIT = frozenset({WRITE, SYNC})
HARMED = {
    STATES[0]: EVERY - {"unlink"},
    STATES[1]: _COMMIT | {"open", "fstat", "pread64"},
    STATES[2]: _COMMIT,
    STATES[3]: _COMMIT | {"pread64"},
}
"""What fails at some time, at least."""


def combinations() -> Iterator[Any]:
    """Every fault in one state or two, and every state; the others are slow."""
    for k, fault in enumerate(FAULTS):
        for m, state in enumerate(STATES):
            is_drawn = (k + m + SEED) % len(STATES) == 0
            yield pytest.param(fault, state, marks=() if is_drawn else pytest.mark.slow)


@pytest.mark.parametrize(("fault", "state"), list(combinations()))
def test_whatever_operation_fails_a_batch_is_kept_or_refused_and_absent(
    disk: Disk, path: Path, fault: str, state: str
) -> None:
    """The first operation fails, the next time the second, and so on, until a batch needs fewer operations; from the
    first again, where a kind of operation was never met: not all batches read as many pages.
    """
    wanted, sweep = FAULTS[fault](1).kinds & HARMED[state], 0
    stays_open, eager = state in STATES[2:], state == STATES[3]
    there, absent, uncertain = ["first"], list[str](), list[str]()
    with closing(SqliteLedger(str(path))) as others, ExitStack() as stack:
        if state != "nobody has it open":
            recorded(others)  # has it open from now on
        processor = CommandProcessor(stack.enter_context(closing(Shaken(path, disk, eager))))
        if stays_open:
            assert attempt(processor, "before").answers
        for at in range(1, MOST_OPERATIONS):
            with disk.failing(FAULTS[fault](at - sweep)):
                tried = attempt(processor, label := f"batch-{at}")
            agree(tried, label, found_at(path), found_after_a_kill(path))
            if tried.answers is None:  # ask again with the same ids, or go on with others
                (uncertain if tried.uncertain else absent).append(label)
                label = label if at % 2 else f"after-{at}"
                assert attempt(processor, label).answers
            there.append(label)
            if not disk.failures:
                if disk.harmed >= wanted:
                    break
                sweep = at
            if not stays_open:
                stack.close()
                processor = CommandProcessor(stack.enter_context(closing(Shaken(path, disk, eager))))
    assert not disk.failures, f"{at} operations, and no end"
    found = found_at(path)
    assert [label for label in there if not kept(found, label)] == []
    assert [label for label in absent if kept(found, label) and label not in there] == []
    assert absent or uncertain
    assert fault not in CLEAR or not uncertain
    assert disk.harmed >= wanted


@pytest.mark.parametrize("eager", [False, True])
def test_a_full_disk_refuses_says_so_and_works_again_when_there_is_room(disk: Disk, path: Path, eager: bool) -> None:
    rng = random.Random(5)
    there, absent = ["first"], list[str]()
    with closing(Shaken(path, disk, eager)) as ledger:
        processor = CommandProcessor(ledger)
        for k in range(3):
            largest = max(file.stat().st_size for file in path.parent.glob("ledger.db*"))
            disk.quota = max(largest, 40_000) + rng.randrange(20_000)
            refusals = 0
            for m in range(100):
                tried = attempt(processor, label := f"batch-{k}-{m}")
                assert not tried.uncertain
                (there if tried.answers else absent).append(label)
                refusals += tried.answers is None
                if refusals == 3:
                    break
            assert refusals == 3
            (view,) = processor.run([Read(NAME)])
            assert isinstance(view, View)
            agree(tried, label, found_at(path), found_after_a_kill(path))
            disk.quota = 0
            with pytest.raises(LedgerUnavailable):
                ledger.probe()
            disk.quota = None
            ledger.probe()
            assert attempt(processor, f"room-{k}").answers
            there.append(f"room-{k}")
    found = found_at(path)
    assert [label for label in there if not kept(found, label)] == []
    assert [label for label in absent if kept(found, label)] == []


def signals_ignored(pid: int) -> int:
    """The set of signals that a process ignores, as bits."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigIgn:"):
            return int(line.split()[1], 16)
    raise AssertionError("no such line")


def let_files_have(pid: int, size: int) -> None:
    """What a process writes beyond this size fails, from now on."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def rounds_read(url: str) -> int:
    """The rounds of the experiment, once a request for it does not wait together with one that must be written."""

    def read() -> Any:
        answer = httpx.get(f"{url}{PATH}", headers=HEADERS, timeout=60)
        return answer.json() if answer.status_code == 200 else None

    return int(until(read)["rounds"])


def is_not_ready_and_says_why(url: str) -> None:
    until(lambda: readiness(url)[0] == 503)
    for _ in range(3):
        status, reason = readiness(url)
        assert status == 503
        assert reason


def test_a_server_whose_files_may_not_grow_answers_503_and_recovers_without_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Server(store, tmp_path / "log") as server, server.client() as client:
        client.create(NAME, ["a", "b", "c"], seed=7)
        client.decide_many(NAME, 1000)
        assert signals_ignored(server.pid) >> (signal.SIGXFSZ - 1) & 1
        load = Load(server.url)
        with load.going_on():
            load.wait_for(200, 20)
            let_files_have(server.pid, ROOM)
            load.wait_for(503, 10)
            assert rounds_read(server.url) > 1000
            let_files_have(server.pid, 0)
            load.wait_for(503, 10)
            is_not_ready_and_says_why(server.url)
            let_files_have(server.pid, resource.RLIM_INFINITY)
            load.wait_for(200, 20)
            let_files_have(server.pid, 0)
            load.wait_for(503, 10)
        let_files_have(server.pid, ROOM)
        assert httpx.get(f"{server.url}{PATH}", headers=HEADERS, timeout=60).status_code == 200
        let_files_have(server.pid, 0)
        is_not_ready_and_says_why(server.url)
        assert httpx.get(f"{server.url}/healthz", timeout=60).status_code == 200
        let_files_have(server.pid, resource.RLIM_INFINITY)
        until(lambda: readiness(server.url)[0] == 200)  # nobody asks for anything else
        assert "ledger_unavailable" in {answer.code for answer in load.answers}
        load.agrees_with(store)
        assert client.decide(NAME).propensity > 0
        server.kill()
        load.agrees_with(store)
