"""When snapshots are kept, and that what was asked for before may be asked for again."""

from itertools import pairwise

from belated.ledger.commands import Change, Decide, KeepSnapshot, View
from belated.ledger.events import Kind, Status
from belated.ledger.processor import BYTES_AN_EVENT, CommandProcessor
from belated.ledger.sql import SqlLedger
from support.ledger_helpers import experiment, settings


def test_a_snapshot_asked_for_again_without_news_is_not_kept_again(ledger: SqlLedger) -> None:
    number = experiment(ledger).number
    processor = CommandProcessor(ledger)
    processor.run([KeepSnapshot("one")])
    assert ledger.snapshots(number) == []
    processor.run([Decide("one", ["a"])])
    for worker in (processor, processor, CommandProcessor(ledger)):
        assert worker.run([KeepSnapshot("one")]) == [False]
        assert [position for position, _ in ledger.snapshots(number)] == [1]
    processor.run([Decide("one", ["b"]), KeepSnapshot("one")])
    assert [position for position, _ in ledger.snapshots(number)] == [2, 1]


def test_a_large_snapshot_waits_for_more_events(ledger: SqlLedger) -> None:
    """After one of n bytes, n / 100 events come before the next, however few are asked for."""
    number = experiment(ledger).number
    processor = CommandProcessor(ledger, snapshot_every=5)
    kept: list[tuple[int, int]] = []
    for k in range(250):
        processor.run([Decide("one", [f"d{k}"])])
        (position, state), *_ = ledger.snapshots(number) or [(0, b"")]
        if position and (not kept or kept[-1][0] != position):
            kept.append((position, len(state)))
    assert len(kept) >= 3
    assert kept[0][0] == 5
    for (before, size), (after, _) in pairwise(kept):
        assert after - before == size // BYTES_AN_EVENT > 5


def test_a_small_snapshot_is_kept_as_often_as_asked_for(ledger: SqlLedger) -> None:
    record, _ = ledger.create(settings("one", learner="ucb"), 0, 9)
    processor = CommandProcessor(ledger, snapshot_every=100)
    for k in range(250):
        processor.run([Decide("one", [f"d{k}"])])
    (newer, _), (older, state) = ledger.snapshots(record.number)
    assert (newer, older) == (200, 100)
    assert len(state) // BYTES_AN_EVENT < 100


def test_a_status_that_is_set_already_changes_nothing(ledger: SqlLedger) -> None:
    number = experiment(ledger).number
    processor = CommandProcessor(ledger)
    for status in (Status.ACTIVE, Status.PAUSED, Status.PAUSED, Status.ARCHIVED, Status.ARCHIVED):
        (view,) = processor.run([Change("one", status)])
        assert isinstance(view, View)
        assert view.status == status
    assert [event.kind for event in ledger.events(number)] == [Kind.PAUSE, Kind.ARCHIVE]
