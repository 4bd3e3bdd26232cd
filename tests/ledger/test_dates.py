"""Events that a wrong clock dated ahead: dates go back, later deadlines pass, and a replay finds no fault in it."""

import time
from collections.abc import Callable

import pytest

from belated.api.types import Deadline
from belated.ledger import postgres
from belated.ledger.commands import ApplyDeadlines, Decide
from belated.ledger.events import SECOND, Event, Kind
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import Verdict, verify
from support.ledger_helpers import observe
from support.protocol_model import START, Controls, new
from support.serving import KINDS

HOUR = 3600 * SECOND
SPAN = 10 * SECOND


class Bench:
    """An experiment with deadlines of ten seconds, on a clock under the test's control: a clock that was accepted."""

    def __init__(self, ledger: SqlLedger, learn: str = "arrival") -> None:
        self.ledger = ledger
        new(ledger, missing=Deadline(10.0, 0.9, learn))  # type: ignore[arg-type]
        self.controls = Controls(ledger)
        self.processor = CommandProcessor(ledger)

    def at(self, seconds: float) -> "Bench":
        self.controls.now = START + int(seconds * SECOND)
        return self

    def decide(self, *ids: str) -> None:
        self.processor.run([Decide("one", ids)])

    def observe(self, id: str) -> None:
        self.processor.run([observe("one", [(id, 0.5)])])

    def look(self) -> list[str]:
        """Let deadlines pass: the ids of those that have, in this order."""
        before = len(self.events)
        self.processor.run([ApplyDeadlines("one")])
        return [event.id for event in self.events[before:] if event.kind in (Kind.DEFAULT, Kind.SETTLED)]

    @property
    def events(self) -> list[Event]:
        return self.ledger.events(1)

    def dates(self) -> list[float]:
        return [(event.at - START) / SECOND for event in self.events]

    def verdict(self) -> Verdict:
        record = self.ledger.find("one")
        assert record is not None
        return verify(self.ledger, record)

    def restart(self) -> None:
        self.processor = CommandProcessor(self.ledger)


@pytest.mark.parametrize(("kind", "restarted"), [("sqlite", False), ("sqlite", True), ("postgresql", True)])
def test_what_was_dated_ahead_does_not_stop_later_deadlines(ledger: SqlLedger, restarted: bool) -> None:
    bench = Bench(ledger)
    bench.at(0).decide("a")
    bench.at(3600).decide("ahead")  # the clock was wrong, and "a" has its default
    bench.at(2).decide("b", "c")
    if restarted:
        bench.restart()
    assert bench.at(11.9).look() == []
    assert bench.at(12).look() == ["ahead", "b", "c"]
    assert bench.dates() == [0, 3600, 3600, 2, 2, 12, 12, 12]
    assert [event.waited for event in bench.events[5:]] == [0, SPAN, SPAN]
    verdict = bench.verdict()
    assert verdict.faults == []
    (note,) = verdict.notes
    assert [word for word in ("event 4", "3,598 s", "event 3") if word not in note] == []


def test_dates_do_not_go_back_by_less_than_the_bound(ledger: SqlLedger) -> None:
    bench = Bench(ledger)
    bench.at(60).decide("a")
    bench.at(0).decide("b")
    assert bench.dates() == [60, 60]
    bench.at(-0.001).decide("c")
    assert bench.dates() == [60, 60, -0.001]
    assert bench.at(9.9).look() == []
    assert bench.at(10).look() == ["a", "b", "c"]
    assert bench.verdict().faults == []


def test_more_decisions_dated_ahead_than_are_looked_at_at_once_hide_nothing(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 4)
    bench = Bench(ledger)
    ahead = [f"ahead-{k}" for k in range(11)]
    bench.at(3600).decide(*ahead)
    bench.at(0).decide("a")
    bench.at(5).decide("b")
    bench.restart()
    assert bench.at(9.9).look() == []
    assert [bench.at(10).look() for _ in range(4)] == [ahead[:4], ahead[4:8], [*ahead[8:], "a"], []]
    assert bench.at(14.9).look() == []
    assert bench.at(15).look() == ["b"]
    assert bench.verdict().faults == []


def test_a_decision_dated_ahead_that_none_follows_waits_for_its_date_or_the_next(ledger: SqlLedger) -> None:
    bench = Bench(ledger)
    bench.at(3600).decide("ahead")
    for seconds in (0, 10, 20, 1000):
        assert bench.at(seconds).look() == []
        assert not bench.processor.may_be_due("one", 1, START + int((seconds + 9.9) * SECOND))
        assert bench.processor.may_be_due("one", 1, START + (seconds + 10) * SECOND)
    bench.at(1001).decide("next")
    assert bench.at(1011).look() == ["ahead", "next"]
    bench.at(9000).decide("ahead again")
    bench.at(2000)
    bench.restart()
    assert bench.look() == []
    assert bench.at(9010).look() == ["ahead again"]


def test_a_clock_that_goes_back_wakes_who_waits_for_a_deadline(ledger: SqlLedger) -> None:
    """What was found out by the clock before, that nothing is due for long, is not true any more."""
    bench = Bench(ledger)
    bench.at(3600).decide("ahead")
    assert bench.look() == []
    assert not bench.processor.may_be_due("one", 1, START + 3605 * SECOND)
    assert bench.processor.may_be_due("one", 1, START + 5 * SECOND)
    bench.at(0).decide("a")
    assert bench.at(10).look() == ["ahead", "a"]


@pytest.mark.parametrize("learn", ["arrival", "deadline"])
def test_no_wait_is_negative_and_outcomes_of_decisions_dated_ahead_are_sound(ledger: SqlLedger, learn: str) -> None:
    bench = Bench(ledger, learn)
    bench.at(3600).decide("ahead", "other")
    bench.at(1).observe("ahead")
    bench.at(2).decide("a")
    bench.at(12).look()
    bench.at(4000).observe("other")
    waits = [(Kind(event.kind).name, event.id, event.waited / SECOND) for event in bench.events if event.loss]
    settled = [("SETTLED", "ahead", 0.0)] if learn == "deadline" else []
    assert waits == [
        ("OUTCOME", "ahead", 0.0),
        *settled,
        ("DEFAULT", "other", 0.0),
        ("DEFAULT", "a", 10.0),
        ("OUTCOME", "other", 400.0),
    ]
    assert bench.verdict().faults == []


def set_date(ledger: SqlLedger, number: int, at: int) -> None:
    with ledger.committing() as connection:
        ledger.run(connection, "UPDATE events SET at = ? WHERE number = ?", (at, number))


def a_little_back(bench: Bench) -> str:
    """Less than any clock that jumped."""
    set_date(bench.ledger, 2, bench.events[0].at - 59 * SECOND)
    return "event 2"


def default_too_soon(bench: Bench) -> str:
    """Before the deadline of a decision that was not dated ahead."""
    last = bench.events[-1]
    with bench.ledger.committing() as connection:
        bench.ledger.run(
            connection,
            "UPDATE events SET at = at - 1, waited = waited - 1 WHERE number = ?",
            (last.number,),
        )
    return f"event {last.number}"


def wrong_wait(bench: Bench) -> str:
    """Of a decision that was dated ahead, whose wait is counted from its date nevertheless."""
    event = next(event for event in bench.events if event.id == "ahead" and event.kind == Kind.DEFAULT)
    with bench.ledger.committing() as connection:
        bench.ledger.run(connection, "UPDATE events SET waited = 5 WHERE number = ?", (event.number,))
    return f"event {event.number}"


@pytest.mark.parametrize("damage", [a_little_back, default_too_soon, wrong_wait])
def test_faults_stay_faults(ledger: SqlLedger, damage: Callable[[Bench], str]) -> None:
    bench = Bench(ledger)
    bench.at(3590).decide("a")
    bench.at(3600).decide("ahead")
    bench.at(0).decide("b")
    assert bench.at(10).look()[-1] == "b"
    assert bench.verdict().faults == []
    at = damage(bench)
    assert any(fault.startswith(f"{at} ") for fault in bench.verdict().faults)


def test_a_default_before_the_deadline_is_a_fault_where_only_earlier_dates_went_back(ledger: SqlLedger) -> None:
    bench = Bench(ledger)
    bench.at(3600).decide("ahead")
    bench.at(0).decide("a")
    bench.at(100).decide("b")
    assert bench.at(110).look() == ["b"]
    last = bench.events[-1]
    with ledger.committing() as connection:
        ledger.run(connection, "UPDATE events SET at = at - 1, waited = waited - 1 WHERE number = ?", (last.number,))
    (fault,) = bench.verdict().faults
    assert f"event {last.number}" in fault


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_whose_clock_jumps_for_a_moment_takes_no_default(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the clock of the ledger itself, that of the database for PostgreSQL."""
    new(ledger, missing=Deadline(10.0, 0.9))
    processor = CommandProcessor(ledger)
    processor.run([Decide("one", ["a"])])
    with monkeypatch.context() as patch:
        patch.setattr(
            postgres, "_LOCK", postgres._LOCK.replace("clock_timestamp()", "(clock_timestamp() + interval '1 hour')")
        )
        patch.setattr("belated.ledger.sqlite.wall_time", lambda: time.time_ns() // 1000 + HOUR)
        processor.run([Decide("one", ["b"]), ApplyDeadlines("one")])
        assert abs(ledger.clock.jump - HOUR) < HOUR / 2
        assert ledger.clock.warning
    processor.run([Decide("one", ["c"])])
    assert ledger.clock.warning is None
    events = ledger.events(1)
    assert [(event.kind, event.id) for event in events] == [(1, "a"), (1, "b"), (1, "c")]
    assert events[-1].at - events[0].at < HOUR / 2
    assert sorted(event.at for event in events) == [event.at for event in events]
