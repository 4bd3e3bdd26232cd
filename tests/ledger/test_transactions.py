"""What every ledger promises of its transactions: one at a time, all or nothing, everything once."""

import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest

from belated.ledger import Ledger, open_ledger
from belated.ledger.base import LedgerError, LedgerUnavailable
from belated.ledger.events import Event, ExperimentRecord, Status
from support.histories import run
from support.ledger_helpers import append, decision, default, experiment, outcome, together
from support.serving import KINDS, Stores
from support.waiting import SECONDS, until

WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [True, False], ids=["one ledger", "two ledgers"])
def test_a_second_turn_waits_and_sees_what_the_first_appended(kind: str, store: str, shared: bool) -> None:
    with closing(open_ledger(store)) as ledger, closing(open_ledger(store)) as another:
        record = experiment(ledger)
        seen: list[Event] = []
        begun = Flag()

        def second() -> None:
            begun.set()
            with (ledger if shared else another).transaction() as transaction:
                seen.extend(transaction.lock(record.number, 0, []).tail)
                transaction.append(
                    record.number, [decision(len(seen) + 1, len(seen) + 1)], Status.ACTIVE, len(seen) + 1
                )

        thread = Thread(target=second, daemon=True)
        with ledger.transaction() as transaction:
            transaction.lock(record.number, 0, [])
            thread.start()
            transaction.append(record.number, [decision(1, 1), decision(2, 2)], Status.ACTIVE, 2)
            assert begun.wait(SECONDS)
            if kind == "postgresql":
                until(lambda: run(store, WAITING))
            # readers neither wait nor see it
            assert ledger.events(record.number) == another.events(record.number) == seen == []
        thread.join(SECONDS)
        assert seen == [decision(1, 1), decision(2, 2)]
        assert ledger.events(record.number) == [decision(1, 1), decision(2, 2), decision(3, 3)]


@pytest.mark.parametrize("kind", KINDS)
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
            together([lambda: append(ledger, other.number, [decision(1, 1)])])
            assert ledger.events(other.number) == [decision(1, 1)]
        assert ledger.events(one.number) == [decision(1, 1)]


@pytest.mark.parametrize("kind", KINDS)
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


# Appends, and is killed in the middle of the next turn, once in each store.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from belated.ledger import open_ledger, postgres, sqlite
from belated.ledger.events import Status
from support.ledger_helpers import append, decision
for store in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        ledger = open_ledger(store)
        append(ledger, 1, [decision(n, n) for n in range(1, 301)])
        with ledger.transaction() as transaction:
            transaction.lock(1, 300, [])
            transaction.append(1, [decision(n, n) for n in range(301, 901)], Status.PAUSED, 900)
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""


def test_of_a_process_that_is_killed_whole_turns_stay(tmp_path: Path) -> None:
    stores = [Stores.fresh(kind, tmp_path) for kind in KINDS]
    with closing(open_ledger(stores[0])) as one, closing(open_ledger(stores[1])) as two:
        records = [experiment(ledger) for ledger in (one, two)]
        assert [record.number for record in records] == [1, 1]
        subprocess.run([sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), *stores], check=True)
        for ledger, record in zip((one, two), records, strict=True):
            assert ledger.events(1) == [decision(n, n) for n in range(1, 301)]
            assert ledger.find("one") == record._replace(events=300, rounds=300)
            append(ledger, 1, [decision(301, 301)])
            assert len(ledger.events(1)) == 301


VIOLATIONS = [
    [decision(5, 3, "d1")],  # an id of before
    [decision(5, 3, "x"), decision(6, 4, "x")],  # an id twice at once
    [outcome(5, 1, 0.5)],  # a second outcome
    [outcome(5, 1, 0.25)],  # the same outcome again
    [outcome(5, 2), outcome(6, 2)],  # two outcomes at once
    [default(5, 1)],  # a second default
    [decision(4, 3)],  # a number of before
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_once_is_refused_twice_and_nothing_of_the_turn_stays(ledger: Ledger) -> None:
    one, other = experiment(ledger, "one"), experiment(ledger, "other")
    kept = [decision(1, 1), decision(2, 2), default(3, 1), outcome(4, 1)]
    append(ledger, one.number, kept)
    before = ledger.experiments()

    def violate(events: list[Event]) -> None:
        with ledger.transaction() as transaction:
            transaction.lock(other.number, 0, [])
            transaction.append(other.number, [decision(1, 1)], Status.ACTIVE, 1)
            transaction.lock(one.number, 4, [])
            transaction.append(one.number, events, Status.PAUSED, 4)

    for events in VIOLATIONS:
        with pytest.raises(LedgerError):
            violate(events)
        assert (ledger.events(one.number), ledger.events(other.number)) == (kept, []), events
        assert ledger.experiments() == before, events
    append(ledger, other.number, [decision(1, 1), outcome(2, 1), default(3, 1)])  # the same ids, elsewhere
    append(ledger, one.number, [outcome(5, 2)])
    assert len(ledger.events(one.number)) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_is_refused(ledger: Ledger) -> None:
    record = experiment(ledger)
    append(ledger, record.number, [decision(1, 1)])
    for events in ([decision(3, 2)], [decision(2, 2), decision(4, 3)]):
        with pytest.raises((LedgerError, LedgerUnavailable)):
            append(ledger, record.number, events)
    assert ledger.events(record.number) == [decision(1, 1)]
    assert ledger.find("one") == record._replace(events=1, rounds=1)
