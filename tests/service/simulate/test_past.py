"""Outcomes of an experiment to draw from: which decisions are used, and what is said of the others."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from belated.api.types import Deadline
from belated.ledger import open_ledger
from belated.ledger.base import Ledger
from belated.ledger.events import SECOND, Event, ExperimentRecord, Kind
from belated.service.simulate import past
from belated.service.simulate.past import past_of
from support.ledger_helpers import MOST, append, decision, settings
from support.refusals import refused
from support.serving import Stores

TOO_YOUNG = "deadline"
"""A word of the note that no decision is older than that."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(Stores.fresh(request.param, tmp_path))) as ledger:
        yield ledger


def came(number: int, round: int, loss: float, made: float, at: float, kind: Kind = Kind.OUTCOME) -> Event:
    return Event(number, int(kind), int(at * SECOND), round, f"d{round}", 0, None, loss, 1, int((at - made) * SECOND))


def experiment(ledger: Ledger, events: list[Event], deadline: float | None = None) -> ExperimentRecord:
    missing = None if deadline is None else Deadline(deadline, 1.0)
    record, _ = ledger.create(settings("one", deadline=missing), 0, MOST)
    if events:
        append(ledger, record.number, events)
    found = ledger.find("one")
    assert found is not None
    return found


def made(number: int, round: int, at: float, arm: int) -> Event:
    return decision(number, round, at=int(at * SECOND), arm=arm)


def test_outcomes_come_with_their_delays(ledger: Ledger) -> None:
    events = [made(1, 1, 0, 0), made(2, 2, 10, 1), made(3, 3, 20, 2), made(4, 4, 30, 1), made(5, 5, 40, 0)]
    events += [
        came(6, 2, 0.25, 10, 50, Kind.DEFAULT),
        came(7, 1, 1.0, 0, 60),
        came(8, 3, 0.0, 20, 61),
        came(9, 5, 0.5, 40, 70),
    ]
    events += [came(10, 2, 1.0, 10, 80)]  # what came first stays
    found = past_of(ledger, experiment(ledger, events))
    assert found.log.labels == ("blue", "green", "red")
    assert found.log.arms.tolist() == [0, 1, 2, 0]
    assert found.log.rewards.tolist() == [0.0, 0.75, 1.0, 0.5]
    assert found.log.durations is not None
    assert found.log.durations.tolist() == [60.0, 40.0, 41.0, 30.0]
    assert found.a_day == pytest.approx(5 / 40 * 86400)
    drawn, beware, left_out = found.notes
    assert "4 settled" in drawn
    assert "20%" in beware
    assert "1 decision" in left_out


def test_with_a_deadline_only_decisions_as_old_as_that_count(ledger: Ledger) -> None:
    """Of younger ones only those that ended well would count."""
    events = [made(1, 1, 0, 0), made(2, 2, 1, 1), came(3, 1, 0.0, 0, 5), came(4, 2, 1.0, 1, 101, Kind.DEFAULT)]
    events += [made(5, 3, 102, 0), came(6, 3, 0.0, 102, 103)]
    found = past_of(ledger, experiment(ledger, events, deadline=100.0))
    assert found.log.rewards.tolist() == [1.0, 0.0]
    assert found.log.durations is not None
    assert found.log.durations.tolist() == [5.0, 100.0]


def test_time_goes_on_after_the_last_decision(ledger: Ledger) -> None:
    events = [made(1, 1, 0, 0), made(2, 2, 1, 1), came(3, 1, 0.0, 0, 5), came(4, 2, 1.0, 1, 101, Kind.DEFAULT)]
    found = past_of(ledger, experiment(ledger, events, deadline=100.0))
    assert found.log.rewards.tolist() == [1.0, 0.0]
    assert not any(TOO_YOUNG in note for note in found.notes)


def test_where_all_are_young_that_is_said(ledger: Ledger) -> None:
    events = [made(1, 1, 0, 0), made(2, 2, 1, 1), came(3, 1, 0.0, 0, 5), came(4, 2, 0.0, 1, 6)]
    found = past_of(ledger, experiment(ledger, events, deadline=100.0))
    assert found.log.arms.size == 2
    assert any(TOO_YOUNG in note for note in found.notes)


def test_arms_that_have_left_or_have_no_outcome_are_left_out(ledger: Ledger) -> None:
    events = [made(n, n, n, (n - 1) % 3) for n in range(1, 7)]
    events += [came(6 + n, n, 0.5, n, 10 + n) for n in (1, 2, 3, 4, 5, 6)]
    events += [Event(13, int(Kind.RETIRE_ARM), 20 * SECOND, 6, None, 0)]
    events += [Event(14, int(Kind.ADD_ARM), 20 * SECOND, 6, None, 3, detail='"violet"')]
    found = past_of(ledger, experiment(ledger, events))
    assert found.log.labels == ("green", "red")
    assert found.log.arms.tolist() == [0, 1, 0, 1]
    assert "violet" in found.notes[1]


def test_only_the_latest_events_are_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [made(1, 1, 0, 0), made(2, 2, 1, 1), made(3, 3, 2, 2), came(4, 1, 1.0, 0, 9), came(5, 2, 0.0, 1, 9)]
    events += [came(6, 3, 0.5, 2, 10)]
    record = experiment(ledger, events)
    monkeypatch.setattr(past, "MOST_EVENTS", 5)
    found = past_of(ledger, record)
    assert found.log.labels == ("green", "red")
    assert np.array_equal(found.log.rewards, [1.0, 0.5])


def test_too_little_is_refused(ledger: Ledger) -> None:
    record = experiment(ledger, [])
    with refused("experiment", "one"):
        past_of(ledger, record)
    append(ledger, record.number, [made(1, 1, 0, 0), made(2, 2, 1, 1), came(3, 1, 0.0, 0, 5)])
    with refused("experiment", "one", "1 arm", "2 to 20"):
        past_of(ledger, record._replace(events=3))
