"""What every ledger promises of its transactions: one at a time, all or nothing, everything once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest

from belated.ledger import Ledger, open_ledger
from belated.ledger.base import LedgerError, LedgerUnavailable
from belated.ledger.events import Event, ExperimentRecord, Status
from support.ledger_helpers import append, decision, default, experiment, outcome, together
from support.serving import KINDS, Stores


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return Stores.fresh(request.param, tmp_path)


@pytest.fixture
def ledger(store: str) -> Iterator[Ledger]:
    with closing(open_ledger(store)) as ledger:
        yield ledger


@pytest.mark.parametrize("shared", [True, False], ids=["one ledger", "two ledgers"])
def test_a_second_turn_waits_and_sees_what_the_first_appended(store: str, shared: bool) -> None:
    with closing(open_ledger(store)) as ledger, closing(open_ledger(store)) as another:
        record = experiment(ledger)
        seen: list[Event] = []
        ended = Flag()

        def second() -> None:
            with (ledger if shared else another).transaction() as transaction:
                seen.extend(transaction.lock(record.number, 0, []).tail)
                transaction.append(
                    record.number, [decision(len(seen) + 1, len(seen) + 1)], Status.ACTIVE, len(seen) + 1
                )
            ended.set()

        thread = Thread(target=second, daemon=True)
        with ledger.transaction() as transaction:
            transaction.lock(record.number, 0, [])
            thread.start()
            transaction.append(record.number, [decision(1, 1), decision(2, 2)], Status.ACTIVE, 2)
            assert not ended.wait(0.25)
            assert (
                ledger.events(record.number) == another.events(record.number) == []
            )  # readers neither wait nor see it
        assert ended.wait(10)
        thread.join(10)
        assert seen == [decision(1, 1), decision(2, 2)]
        assert ledger.events(record.number) == [decision(1, 1), decision(2, 2), decision(3, 3)]


def test_turns_of_many_threads_leave_no_gap(store: str) -> None:
    with closing(open_ledger(store)) as one, closing(open_ledger(store)) as two:
        record = experiment(one)

        def work(ledger: Ledger, name: str) -> None:
            position = 0
            for k in range(15):
                with ledger.transaction() as transaction:
                    position += len(transaction.lock(record.number, position, []).tail) + 1
                    transaction.append(
                        record.number, [decision(position, position, f"{name}{k}")], Status.ACTIVE, position
                    )

        together([partial(work, ledger, name) for ledger, name in ((one, "a"), (one, "b"), (two, "c"), (two, "d"))])
        events = one.events(record.number)
        assert [event.number for event in events] == [event.round for event in events] == list(range(1, 61))
        assert len({event.id for event in events}) == 60
        assert one.find("one") == ExperimentRecord(record.number, record.settings, Status.ACTIVE, 0, 60, 60)


def test_turns_of_other_experiments_do_not_wait_where_there_are_several_writers(tmp_path: Path) -> None:
    with closing(open_ledger(Stores.fresh("postgresql", tmp_path))) as ledger:
        assert ledger.writers > 1
        one, other = experiment(ledger, "one"), experiment(ledger, "other")
        with ledger.transaction() as transaction:
            transaction.lock(one.number, 0, [])
            transaction.append(one.number, [decision(1, 1)], Status.ACTIVE, 1)
            together([lambda: append(ledger, other.number, [decision(1, 1)])], 9.0)
            assert ledger.events(other.number) == [decision(1, 1)]
        assert ledger.events(one.number) == [decision(1, 1)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_within_a_turn_leaves_nothing_of_it(ledger: Ledger, error: type[BaseException]) -> None:
    one, other = experiment(ledger, "one"), experiment(ledger, "other")
    append(ledger, one.number, [decision(1, 1)])
    before = ledger.experiments(), ledger.events(one.number)

    def fail() -> None:
        with ledger.transaction() as transaction:
            transaction.lock(one.number, 1, [])
            transaction.append(one.number, [decision(2, 2), outcome(3, 1)], Status.PAUSED, 2)
            transaction.lock(other.number, 0, [])
            transaction.append(other.number, [decision(1, 1)], Status.ACTIVE, 1)
            raise error

    with pytest.raises(error):
        fail()
    assert (ledger.experiments(), ledger.events(one.number)) == before
    assert ledger.events(other.number) == []
    append(ledger, one.number, [decision(2, 2, "again")])
    assert ledger.events(one.number) == [decision(1, 1), decision(2, 2, "again")]


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from belated.ledger import open_ledger
from belated.ledger.events import Status
from support.ledger_helpers import append, decision
ledger = open_ledger(sys.argv[1])
append(ledger, 1, [decision(n, n) for n in range(1, 301)])
with ledger.transaction() as transaction:
    transaction.lock(1, 300, [])
    transaction.append(1, [decision(n, n) for n in range(301, 901)], Status.PAUSED, 900)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_of_a_process_that_is_killed_whole_turns_stay(store: str, ledger: Ledger) -> None:
    record = experiment(ledger)
    assert record.number == 1
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, store, os.path.dirname(os.path.dirname(__file__))], timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    assert ledger.events(record.number) == [decision(n, n) for n in range(1, 301)]
    assert ledger.find("one") == record._replace(events=300, rounds=300)
    append(ledger, record.number, [decision(301, 301)])
    assert len(ledger.events(record.number)) == 301


VIOLATIONS = {
    "an id of before": [decision(5, 3, "d1")],
    "an id twice at once": [decision(5, 3, "x"), decision(6, 4, "x")],
    "a second outcome": [outcome(5, 1, 0.5)],
    "the same outcome again": [outcome(5, 1, 0.25)],
    "two outcomes at once": [outcome(5, 2), outcome(6, 2)],
    "a second default": [default(5, 1)],
    "a number of before": [decision(4, 3)],
}


@pytest.mark.parametrize("events", list(VIOLATIONS.values()), ids=list(VIOLATIONS))
def test_what_may_be_once_is_refused_twice_and_nothing_of_the_turn_stays(ledger: Ledger, events: list[Event]) -> None:
    one, other = experiment(ledger, "one"), experiment(ledger, "other")
    kept = [decision(1, 1), decision(2, 2), default(3, 1), outcome(4, 1)]
    append(ledger, one.number, kept)
    before = ledger.experiments()

    def violate() -> None:
        with ledger.transaction() as transaction:
            transaction.lock(other.number, 0, [])
            transaction.append(other.number, [decision(1, 1)], Status.ACTIVE, 1)
            transaction.lock(one.number, 4, [])
            transaction.append(one.number, events, Status.PAUSED, 4)

    with pytest.raises(LedgerError):
        violate()
    assert (ledger.events(one.number), ledger.events(other.number)) == (kept, [])
    assert ledger.experiments() == before
    append(ledger, other.number, [decision(1, 1), outcome(2, 1), default(3, 1)])  # the same ids, elsewhere
    append(ledger, one.number, [outcome(5, 2)])
    assert len(ledger.events(one.number)) == 5


def test_a_gap_is_refused(ledger: Ledger) -> None:
    record = experiment(ledger)
    append(ledger, record.number, [decision(1, 1)])
    for events in ([decision(3, 2)], [decision(2, 2), decision(4, 3)]):
        with pytest.raises((LedgerError, LedgerUnavailable)):
            append(ledger, record.number, events)
    assert ledger.events(record.number) == [decision(1, 1)]
    assert ledger.find("one") == record._replace(events=1, rounds=1)
