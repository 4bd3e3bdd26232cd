"""States that nobody asks for leave the memory, and nothing else changes."""

from belated.api.types import Deadline
from belated.ledger.commands import ApplyDeadlines, Decide
from belated.ledger.events import SECOND, ExperimentSettings
from belated.ledger.keeper import Snapshot
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from support.ledger_helpers import MOST, observe
from support.protocol_model import START, Controls, made, new, read

HOUR = 3600.0


def test_an_idle_state_is_dropped_with_a_snapshot_and_comes_back(ledger: SqlLedger) -> None:
    new(ledger)
    processor = CommandProcessor(ledger)
    processor.run([Decide("one", ["a", "b"]), observe("one", [("a", 0.5)])])
    digest = read(processor, "one").state.digest()
    assert processor.evict(HOUR) == []
    assert processor.names() == ["one"]
    assert processor.evict(0.0) == ["one"]
    assert processor.names() == []
    assert [position for position, _ in ledger.snapshots(1)] == [3]
    assert read(processor, "one").state.digest() == digest
    assert made(processor.run([Decide("one", ["c"])])[0])[0].round == 3


def test_a_snapshot_is_kept_only_where_there_is_something_new(ledger: SqlLedger) -> None:
    new(ledger)
    kept: list[Snapshot] = []
    processor = CommandProcessor(ledger, keep_snapshot=kept.append)
    processor.run([Decide("one", ["a"])])
    for _ in range(3):
        read(processor, "one")
        processor.evict(0.0)
        for snapshot in kept:
            ledger.keep(snapshot.number, snapshot.position, snapshot.state)
    assert [(snapshot.name, snapshot.position) for snapshot in kept] == [("one", 1)]


def test_beyond_the_budget_those_go_that_were_used_least_lately(ledger: SqlLedger) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        new(ledger, name)
    processor = CommandProcessor(ledger)
    for name in [*names, "a"]:
        processor.run([Decide(name, [None])])
    sizes = [processor._loaded[name].size for name in names]
    assert processor.evict(HOUR, sum(sizes)) == []
    assert processor.evict(HOUR, sum(sizes[:2])) == ["b", "c"]
    assert sorted(processor.names()) == ["a", "d"]


def test_a_state_in_use_stays(ledger: SqlLedger) -> None:
    new(ledger)
    processor = CommandProcessor(ledger)
    processor.run([Decide("one", ["a"])])
    assert processor.read("one", lambda view: processor.evict(0.0)) == []
    assert processor.evict(0.0) == ["one"]


def test_deadlines_are_remembered_without_the_state(ledger: SqlLedger) -> None:
    new(ledger, missing=Deadline(10.0, 1.0))
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    assert processor.may_be_due("one", 0, 0)
    processor.run([ApplyDeadlines("one")])
    assert not processor.may_be_due("one", 0, START + 100 * SECOND)  # nothing waits
    controls.now += SECOND
    processor.run([Decide("one", ["a"])])
    controls.now += SECOND
    processor.run([ApplyDeadlines("one")])
    assert wakes_at(processor, 1, START + 10 * SECOND)  # not looked at again before
    controls.now = START + 10 * SECOND
    processor.run([ApplyDeadlines("one")])
    assert wakes_at(processor, 1, START + 11 * SECOND)
    processor.evict(0.0)
    assert wakes_at(processor, 1, START + 11 * SECOND)
    assert processor.read("one", lambda view: view.state.position) == 1  # without a transaction: nobody looks again
    assert wakes_at(processor, 1, START + 11 * SECOND)
    processor.evict(0.0)
    controls.now = START + 11 * SECOND
    processor.run([ApplyDeadlines("one")])
    assert read(processor, "one").state.defaults == 1
    controls.now += 60 * SECOND
    processor.run([ApplyDeadlines("one")])
    assert not processor.may_be_due("one", 2, START + 1000 * SECOND)
    processor.evict(0.0)
    assert not processor.may_be_due("one", 2, START + 1000 * SECOND)
    assert processor.may_be_due("one", 3, START + 1000 * SECOND)  # another worker has decided


def wakes_at(processor: CommandProcessor, events: int, at: int) -> bool:
    """Return whether no deadline is looked for before a time, and then one is."""
    return not processor.may_be_due("one", events, at - 1) and processor.may_be_due("one", events, at)


def test_a_large_state_with_few_events_leaves_no_snapshot(ledger: SqlLedger) -> None:
    """A thousand experiments with ten thousand arms would otherwise leave gigabytes behind."""
    arms: list[str | int] = list(range(2_000))
    record, _ = ledger.create(ExperimentSettings("large", arms, "guarded", {}, 5, "wait"), START, MOST)
    processor = CommandProcessor(ledger)
    (first,) = processor.run([Decide("large", ["a", "b"])])
    state = read(processor, "large").state.to_bytes()
    assert len(state) > 1 << 20
    assert processor.evict(0.0) == ["large"]
    assert ledger.snapshots(record.number) == []
    assert read(processor, "large").state.to_bytes() == state
    assert processor.run([Decide("large", ["a", "b"])]) == [first]
