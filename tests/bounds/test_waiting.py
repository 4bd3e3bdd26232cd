"""How decisions were waited for, from traces."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated import learners
from belated.audit import audit
from belated.bounds.waiting import Waiting, follow
from belated.delays import NEVER, Delays
from belated.simulation.simulation import replay
from support.audited import hand_trace
from support.refusals import refused


def test_waiting_of_a_trace_by_hand() -> None:
    waiting = Waiting.of(hand_trace())
    assert waiting.rounds == 4
    assert waiting.outstanding.tolist() == [0, 1, 2, 0]
    assert waiting.patience.tolist() == [0.0, 0.5, 1.0, 1.0]
    assert waiting.ended.tolist() == [3, 3, 3, 0]
    assert waiting.skipped.tolist() == [False, True, False, False]
    assert waiting.cumulative.tolist() == [0, 1, 3, 3]
    assert waiting.last.tolist() == [3, 3, 3, 4]
    assert waiting.waited.tolist() == [2, 1, 0, 0]
    assert waiting.most_outstanding.tolist() == [0, 1, 2, 2]
    explored = waiting.exploration(waiting.last)
    np.testing.assert_allclose(explored, [math.exp(-1.0), math.exp(-1.5), 0.0, 0.0], rtol=1e-15)
    np.testing.assert_allclose(waiting.exploration(np.array([2, 2, 4, 4])), [math.exp(-1.0), 0.0, 0.0, 0.0], rtol=1e-15)


def test_a_skip_ends_a_wait_before_its_outcome() -> None:
    """Round 1 would come at the end of round 4; it is given up on after round 2, and for good."""
    waiting = Waiting.of(
        hand_trace(delays=np.array([3, 0, 0, 0]), skipped=np.array([0, 1, 0, 0]), outstanding=np.array([0, 1, 0, 0]))
    )
    assert waiting.ended.tolist() == [2, 2, 3, 4]
    assert waiting.skipped.tolist() == [True, False, False, False]


def test_waits_that_end_with_the_last_round_have_ended() -> None:
    waiting = Waiting.of(hand_trace(delays=np.array([3, 3, NEVER, NEVER - 1]), skipped=np.zeros(4, dtype=np.int64)))
    assert waiting.ended.tolist() == [4, 0, 0, 0]
    assert waiting.waited.tolist() == [3, 2, 1, 0]


def test_a_trace_of_no_rounds() -> None:
    empty = replay("robust", np.zeros((0, 2)), [], [])
    assert Waiting.of(empty).most_outstanding.size == 0
    assert audit.check(empty, 49.0).holds


@pytest.mark.parametrize("name", ["outstanding", "patience", "ended", "skipped"])
def test_waiting_needs_a_number_for_each_round(name: str) -> None:
    waiting = Waiting.of(hand_trace())
    with refused(None, name, (3,)):
        dataclasses.replace(waiting, **{name: getattr(waiting, name)[:3]})
    with refused(None, name, (4, 1)):
        dataclasses.replace(waiting, **{name: getattr(waiting, name)[:, None]})


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        ([3, 1, 3, 0], (None, "1", "0", "2", "4")),
        ([3, 3, 3, 5], (None, "5", "0", "4")),
        ([-1, 3, 3, 0], (None, "-1", "0", "1", "4")),
    ],
)
def test_a_wait_cannot_end_before_it_begins_or_after_the_last_round(
    ended: list[int], message: tuple[str | None, ...]
) -> None:
    with refused(*message):
        dataclasses.replace(Waiting.of(hand_trace()), ended=np.array(ended))


@settings(max_examples=60, deadline=None)
@given(
    delays=st.lists(st.integers(0, 30) | st.just(NEVER), min_size=1, max_size=80),
    constant=st.sampled_from([49.0, 1.0, 0.02]),
    seed=st.integers(0, 2**32 - 1),
)
def test_robust_waits_in_the_same_way_whatever_it_loses(delays: list[int], constant: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tuned = learners.tune("robust", delay_constant=constant)
    losses = rng.integers(0, 2, (len(delays), 3)).astype(float)
    waits = [None if delay == NEVER else delay for delay in delays]
    lost = Waiting.of(replay(tuned, losses, waits, rng.random(len(delays)).tolist()))
    alone = follow(tuned, 3, delays)
    for name in ("outstanding", "patience", "ended", "skipped"):
        np.testing.assert_array_equal(getattr(lost, name), getattr(alone, name))


def test_following_leaves_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays.find("pareto:shape=1,scale=10").fill(np.random.default_rng(0), np.arange(1, 2001))
    whole = follow(learners.tune("robust:delay_constant=0.1"), 5, delays)
    monkeypatch.setattr("belated.bounds.waiting.PIECE", 77)
    pieces = follow(learners.tune("robust:delay_constant=0.1"), 5, delays)
    np.testing.assert_array_equal(whole.ended, pieces.ended)
    np.testing.assert_array_equal(whole.outstanding, pieces.outstanding)
