"""Settled decisions of an experiment: the course of what is known, and going on from what was kept."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from belated.errors import SnapshotError
from belated.inference.course import Point, point
from belated.inference.method import Options
from belated.inference.sources import method_for_log
from belated.ledger.base import Ledger
from belated.ledger.estimates import MOST_ARMS, VERSION, SettledDecisions, Totals, log_of, next_point
from belated.ledger.events import Event, ExperimentRecord, ExperimentSettings, Hears, Kind
from belated.live.snapshot import pack
from support.ledger_helpers import append, decision, experiment, outcome
from support.refusals import refused

ARMS = ["blue", "green", "red"]


def played(decisions: int, changes: dict[int, tuple[Kind, int]], seed: int = 1) -> list[Event]:
    """Decisions with outcomes that come up to three decisions later, and arms that come and go after some of them."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    present = [0, 1, 2]
    waiting: list[int] = []

    def add(make: Any, *given: Any, **more: Any) -> None:
        events.append(make(len(events) + 1, *given, **more))

    for round in range(1, decisions + 1):
        arm = int(rng.choice(present))
        add(decision, round, arm=arm, propensity=1.0 / len(present))
        waiting.append(round)
        while waiting and (len(waiting) > 3 or rng.random() < 0.5):
            other = waiting.pop(int(rng.integers(len(waiting))))
            add(outcome, other, loss=float(rng.random() < 0.4))
        if round in changes:
            kind, arm = changes[round]
            events.append(Event(len(events) + 1, int(kind), 0, round, None, arm, detail='"new"'))
            present = [k for k in present if k != arm] + ([] if kind == Kind.RETIRE_ARM else [arm])
    return events


CHANGES = {37: (Kind.ADD_ARM, 3), 41: (Kind.RETIRE_ARM, 0), 90: (Kind.RESTORE_ARM, 0)}


def same(found: Sequence[Point], expected: Sequence[Point]) -> None:
    assert [(each.decisions, each.used, each.winner) for each in found] == [
        (each.decisions, each.used, each.winner) for each in expected
    ]
    for one, other in zip(found, expected, strict=True):
        for numbers, others in zip(one[2:5], other[2:5], strict=True):
            assert np.array_equal(numbers, others, equal_nan=True)


def test_points_are_by_equal_factors_apart() -> None:
    points = [10]
    while points[-1] < 1000:
        points.append(next_point(points[-1]))
    assert points[:8] == [10, 13, 16, 20, 25, 32, 40, 50]
    assert [next_point(rounds) for rounds in (0, 9, 12, 13)] == [10, 10, 13, 16]
    ratios = np.array(points[9:]) / np.array(points[8:-1])
    assert np.abs(ratios - 2 ** (1 / 3)).max() < 0.02
    assert next_point(10 * 2**20 - 1) == 10 * 2**20


@pytest.mark.parametrize("piece", [1, 7, None])
def test_the_course_says_what_a_log_would_have_said_then(ledger: Ledger, piece: int | None) -> None:
    """In however many pieces it is read, and whether or not changes are known before their decisions are settled."""
    record = experiment(ledger)
    events = played(200, CHANGES)
    settled = SettledDecisions(3)
    if piece is None:
        append(ledger, record.number, events)
        settled.advance(ledger, record.number, len(events))
    else:
        for first in range(0, len(events), piece):
            append(ledger, record.number, events[first : first + piece])
            settled.advance(ledger, record.number, first + piece)
    log = log_of(ledger, record._replace(events=len(events)))
    at = [each.decisions for each in settled.points]
    assert at[0] == 10
    assert at[-1] == max(k for k in range(1, log.settled + 1) if k == next_point(k - 1))
    assert len(settled.points[-1].means) == 4
    assert len(settled.points[0].means) == 3
    same(settled.points, [point(method_for_log(log.head(count), Options()), count) for count in at])


def totals(record: ExperimentRecord, n_arms: int, decisions: int) -> Totals:
    labels = [*ARMS, "new"][:n_arms]
    return Totals(labels, [decisions // n_arms] * n_arms, 0)


def test_a_change_that_the_stream_has_not_come_to_counts_in_estimates(ledger: Ledger) -> None:
    record = experiment(ledger)
    events = [decision(1, 1, arm=0), decision(2, 2, arm=1), outcome(3, 1)]
    append(ledger, record.number, [*events, Event(4, int(Kind.RETIRE_ARM), 0, 2, None, 1)])
    settled = SettledDecisions(3)
    settled.advance(ledger, record.number, 4)
    found = settled.method(ledger, record, totals(record, 3, 3), 4, Options()).estimates()
    assert (found.used, found.retired) == (1, ("green",))
    assert not settled.stream.has_changed


def test_what_is_kept_goes_on_as_if_nothing_had_been(ledger: Ledger) -> None:
    record = experiment(ledger)
    events = played(200, CHANGES)
    append(ledger, record.number, events)
    whole = SettledDecisions(3)
    whole.advance(ledger, record.number, len(events))
    for cut in (0, 20, 80, 82, 84, 90, 250, len(events)):
        part = SettledDecisions(3)
        part.advance(ledger, record.number, cut)
        again = SettledDecisions.from_bytes(part.to_bytes(), Hears.ARRIVAL)
        assert again.to_bytes() == part.to_bytes()
        again.advance(ledger, record.number, len(events))
        assert again.to_bytes() == whole.to_bytes()
    course = whole.course(whole.method(ledger, record, totals(record, 4, 200), len(events), Options()))
    assert course is not None
    assert course.decisions.tolist() == [*(each.decisions for each in whole.points), whole.stream.rounds]
    assert np.isnan(course.means[0, 3])
    assert course.lows[-1, 3] < course.means[-1, 3] < course.highs[-1, 3]


def test_what_another_version_kept_is_refused() -> None:
    with refused(None, None, VERSION, error=SnapshotError):
        SettledDecisions.from_bytes(pack({"position": 1}, {}), Hears.ARRIVAL)
    with refused(None, 99, VERSION, error=SnapshotError):
        SettledDecisions.from_bytes(pack({"settled": {"version": 99}}, {}), Hears.ARRIVAL)


def test_a_course_that_ends_at_one_of_its_points_has_it_once(ledger: Ledger) -> None:
    record = experiment(ledger)
    append(ledger, record.number, [decision(k, k, arm=k % 3) for k in range(1, 14)])
    append(ledger, record.number, [outcome(13 + k, k) for k in range(1, 14)])
    settled = SettledDecisions(3)
    settled.advance(ledger, record.number, 26)
    course = settled.course(settled.method(ledger, record, Totals(ARMS, [4, 5, 4], 0), 26, Options()))
    assert course is not None
    assert course.decisions.tolist() == [10, 13]


@pytest.mark.parametrize("n_arms", [MOST_ARMS, MOST_ARMS + 1])
def test_of_very_many_arms_there_is_no_course(ledger: Ledger, n_arms: int) -> None:
    record, _ = ledger.create(ExperimentSettings("many", list(range(n_arms)), "balanced", {}, 7, "wait"), 0, 10)
    events = [decision(k, k, arm=k % n_arms) for k in range(1, 31)]
    append(ledger, record.number, [*events, *(outcome(30 + k, k) for k in range(1, 31))])
    settled = SettledDecisions(n_arms)
    settled.advance(ledger, record.number, 60)
    method = settled.method(ledger, record, Totals(range(n_arms), [1] * n_arms, 0), 60, Options())
    assert (settled.course(method) is None) == (n_arms > MOST_ARMS)
    assert bool(settled.points) == (n_arms <= MOST_ARMS)
    assert SettledDecisions(2).course(method) is None
