"""Commands of many experiments in one transaction: locks in one order for all workers, answers in the order asked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from belated.ledger.base import LockedExperiment, Transaction, Wanted
from belated.ledger.commands import Decide, Read, Refused, View
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from support.ledger_helpers import observe, together
from support.protocol_model import Controls, made, new, told
from support.serving import KINDS


def locks_of(ledger: SqlLedger) -> list[int]:
    """Return a list to which the number of every experiment is added when it is locked."""
    locked: list[int] = []
    inner = ledger.transaction

    @contextmanager
    def watched() -> Iterator[Transaction]:
        with inner() as transaction:
            lock = transaction.lock_many

            def noted(wanted: Sequence[Wanted], wait: bool = True) -> dict[int, LockedExperiment]:
                locked.extend(each.experiment for each in wanted)
                return lock(wanted, wait)

            transaction.lock_many = noted  # type: ignore[method-assign]
            yield transaction

    ledger.transaction = watched  # type: ignore[method-assign]
    return locked


def test_experiments_are_locked_in_the_order_of_their_numbers(ledger: SqlLedger) -> None:
    """However the commands came: two workers that lock the same experiments can never wait for each other."""
    for name in ("c", "a", "d", "b"):
        new(ledger, name)
    locked = locks_of(ledger)
    CommandProcessor(ledger).run([Decide(name, [None]) for name in ("d", "b", "c", "a", "b")])
    assert locked == [1, 2, 3, 4]
    locked.clear()
    CommandProcessor(ledger).run([Read(name) for name in ("a", "c", "b", "d")])
    assert locked == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_workers_with_the_same_experiments_in_opposite_orders_do_not_stop_each_other(ledger: SqlLedger) -> None:
    names = ["a", "b", "c"]
    for name in names:
        new(ledger, name)

    def work(processor: CommandProcessor, order: list[str]) -> None:
        for _ in range(20):
            processor.run([Decide(name, [None]) for name in order])

    together([partial(work, CommandProcessor(ledger), order) for order in (names, names[::-1])])
    for record in ledger.experiments():
        verdict = verify(ledger, record)
        assert (verdict.rounds, verdict.faults) == (40, [])


def test_answers_come_in_the_order_of_the_commands(ledger: SqlLedger) -> None:
    for name in ("b", "a"):
        new(ledger, name)
    Controls(ledger)
    processor = CommandProcessor(ledger)
    first, unknown, second, receipts, view = processor.run(
        [
            Decide("b", ["x", "y"]),
            Decide("nowhere", ["x"]),
            Decide("a", ["x"]),
            observe("b", [("y", 0.5), ("x", 0.5), ("z", 0.5)]),
            Read("a"),
        ]
    )
    assert [(each.id, each.round) for each in made(first)] == [("x", 1), ("y", 2)]
    assert isinstance(unknown, Refused)
    assert unknown.code == "unknown_experiment"
    assert [(each.id, each.round) for each in made(second)] == [("x", 1)]
    assert told(receipts) == [("used", None), ("used", None), ("unknown", None)]
    assert isinstance(view, View)
    assert view.record.settings.name == "a"
    assert view.state.position == 1
