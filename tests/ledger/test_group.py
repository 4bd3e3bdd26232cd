"""Several experiments in one transaction: locked together, appended together, or passed over where others hold them."""

import asyncio

import pytest

from belated.ledger.base import Appended, LedgerError, Wanted
from belated.ledger.commands import LATER, Decide
from belated.ledger.events import Status
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.service.committer import Committer
from belated.service.counters import WorkerCounters, new_counters
from belated.service.limits import Limits
from support.ledger_helpers import append, decision, experiment, outcome
from support.protocol_model import made, new
from support.serving import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_tails_and_decisions_are_those_of_each_experiment(ledger: SqlLedger) -> None:
    one, two, three = (experiment(ledger, name).number for name in ("one", "two", "three"))
    first = [decision(1, 1, "a"), decision(2, 2, "b"), outcome(3, 1)._replace(id="a")]
    second = [decision(1, 1, "b", arm=2), decision(2, 2, "c")]
    append(ledger, one, first)
    append(ledger, two, second, Status.PAUSED)
    with ledger.transaction() as transaction:
        found = transaction.lock_many([Wanted(one, 1, ["a", "x"]), Wanted(two, 0, ["b"]), Wanted(three, 0, [])])
    assert [found[number].tail for number in (one, two, three)] == [first[1:], second, []]
    assert [sorted(found[number].known) for number in (one, two, three)] == [["a"], ["b"], []]
    assert (found[one].known["a"].loss, found[two].known["b"].arm) == (0.25, 2)
    assert [found[number].status for number in (one, two)] == [Status.ACTIVE, Status.PAUSED]


@pytest.mark.parametrize("kind", KINDS)
def test_all_is_appended_or_nothing(ledger: SqlLedger) -> None:
    one, two = (experiment(ledger, name).number for name in ("one", "two"))
    with ledger.transaction() as transaction:
        transaction.append_many(
            [
                Appended(one, [decision(1, 1)], Status.ACTIVE, 1),
                Appended(two, [decision(1, 1), decision(2, 2)], Status.PAUSED, 2),
            ]
        )
    assert [(each.events, each.status) for each in ledger.positions()] == [(1, Status.ACTIVE), (2, Status.PAUSED)]

    def misfit() -> None:
        with ledger.transaction() as transaction:
            transaction.append_many(
                [
                    Appended(one, [decision(2, 2)], Status.ACTIVE, 2),
                    Appended(two, [decision(4, 4)], Status.ACTIVE, 4),
                ]
            )

    with pytest.raises(LedgerError):
        misfit()
    assert [each.events for each in ledger.positions()] == [1, 2]
    assert len(ledger.events(one)) == 1


@pytest.mark.parametrize("kind", ["postgresql"])
def test_what_others_have_locked_is_passed_over_and_the_rest_is_done(ledger: SqlLedger) -> None:
    for name in ("a", "b", "c"):
        new(ledger, name)
    processor = CommandProcessor(ledger)
    with ledger.transaction() as other:
        other.lock(2, 0, [])
        answers = processor.run([Decide(name, ["x"]) for name in ("c", "b", "a")], wait=False)
        assert answers[1] is LATER
        assert [made(answers[k])[0].round for k in (0, 2)] == [1, 1]
    assert made(processor.run([Decide("b", ["x"])])[0])[0].round == 1


@pytest.mark.parametrize("kind", ["postgresql"])
def test_an_experiment_that_somebody_holds_keeps_no_other_waiting(ledger: SqlLedger) -> None:
    names = ["a", "b", "c"]
    for name in names:
        new(ledger, name)

    async def scenario() -> None:
        committer = Committer(CommandProcessor(ledger), Limits(), WorkerCounters(new_counters(1), 0))
        async with asyncio.timeout(60):
            with ledger.transaction() as other:
                other.lock(2, 0, [])
                held = [committer.submit(Decide("b", [f"x-{k}"]), 1, made) for k in range(3)]
                for k in range(5):
                    others = [committer.submit(Decide(name, [f"x-{k}"]), 1, made) for name in ("a", "c")]
                    assert [each[0].round for each in await asyncio.gather(*others)] == [k + 1, k + 1]
                assert not any(each.done() for each in held)
            assert [each[0].round for each in await asyncio.gather(*held)] == [1, 2, 3]
            await committer.close()

    asyncio.run(scenario())
