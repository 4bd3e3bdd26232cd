"""Drift, followed round by round, against every pair of rounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from belated import simulate
from belated.audit.audit import check, pieces
from belated.audit.drift import Drift

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEVELS = np.array([0.0, 1e-300, 1e-12, 1e-3, 0.01, 0.1, 0.2, 0.25, 0.5, 1.0])
ROOM = 64


def by_pairs(p: Floats, cumulative: Integers, oldest: Integers) -> Floats:
    """max over arms and rounds s, from the oldest to t, of x_t / max(x_s, lambda_{s,t}), pair by pair."""
    worst = np.ones(len(p))
    for t in range(1, len(p) + 1):
        window = slice(int(oldest[t - 1]) - 1, t)
        now = float(cumulative[t - 1])
        grown = now - cumulative[window]
        with np.errstate(divide="ignore", invalid="ignore"):
            explored = np.where(grown > 0.0, np.exp(-now / grown), 0.0)
            ratios = np.where(p[t - 1] > 0.0, p[t - 1] / np.maximum(p[window], explored[:, None]), 0.0)
        worst[t - 1] = max(1.0, float(ratios.max()))
    return worst


def still_needed(oldest: Integers) -> Integers:
    return np.array([oldest[t:].min() for t in range(oldest.size)], dtype=np.int64)


def in_one_piece(p: Floats, cumulative: Integers, oldest: Integers) -> Floats:
    return Drift(p.shape[1]).add(p, cumulative, oldest, still_needed(oldest))


def sliding(rounds: int, window: int) -> Integers:
    return np.maximum(np.arange(1, rounds + 1) - window, 1)


@settings(max_examples=200, deadline=None)
@given(rounds=st.integers(1, 40), arms=st.integers(1, 4), steps=st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_drift_is_the_largest_of_all_pairs(rounds: int, arms: int, steps: int, seed: int) -> None:
    """Few levels, so that there are ties and zeros; D that stands still; windows of any length, back and forth."""
    rng = np.random.default_rng(seed)
    p = rng.choice(LEVELS, (rounds, arms))
    cumulative = np.cumsum(rng.integers(0, steps + 1, rounds))
    oldest = rng.integers(1, np.arange(1, rounds + 1) + 1)
    np.testing.assert_allclose(in_one_piece(p, cumulative, oldest), by_pairs(p, cumulative, oldest), rtol=1e-9)


@settings(max_examples=100, deadline=None)
@given(rounds=st.integers(1, 60), arms=st.integers(2, 5), window=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_drift_of_distributions_that_sharpen(rounds: int, arms: int, window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.exp(np.cumsum(rng.normal(0.0, 1.0, (rounds, arms)), axis=0))
    p = weights / weights.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(rng.integers(0, 10, rounds))
    oldest = sliding(rounds, window)
    np.testing.assert_allclose(in_one_piece(p, cumulative, oldest), by_pairs(p, cumulative, oldest), rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(noise=st.sampled_from([0.0, 0.01, 0.3]), still=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_queues_grow_when_a_window_does(noise: float, still: int, seed: int) -> None:
    """Rising probabilities, of which none can be forgotten; a window that slides, stands still, then slides again."""
    rng = np.random.default_rng(seed)
    rounds, arms = 260, 2
    p = np.linspace(0.01, 0.4, rounds)[:, None] * rng.uniform(1.0 - noise, 1.0, (rounds, arms))
    cumulative = np.cumsum(rng.integers(0, 4, rounds))
    oldest = np.minimum(sliding(rounds, 50), np.where(np.arange(rounds) < 250, still, rounds))
    np.testing.assert_allclose(in_one_piece(p, cumulative, oldest), by_pairs(p, cumulative, oldest), rtol=1e-9)


def test_a_window_longer_than_the_room_is_remembered_whole() -> None:
    rounds = 500
    p = np.stack([np.linspace(0.001, 0.9, rounds), np.linspace(0.9, 0.001, rounds)], axis=1)
    cumulative = np.arange(rounds)
    oldest = np.minimum(sliding(rounds, 50), 200)  # slides, so that queues begin anywhere, then stands still
    drift = Drift(2)
    before = drift.memory
    found = drift.add(p, cumulative, oldest, still_needed(oldest))
    assert drift.memory >= 4 * before
    assert drift.sizes.tolist() == [301, 1]
    np.testing.assert_allclose(found, by_pairs(p, cumulative, oldest), rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=12), window=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_pieces_leave_no_seam(cuts: list[int], window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds = 300
    p = np.sort(rng.random((rounds, 3)), axis=0) * rng.choice([1.0, 0.5, 0.0], (rounds, 3), p=[0.8, 0.15, 0.05])
    cumulative = np.cumsum(rng.integers(0, 3, rounds))
    oldest = np.maximum(np.arange(1, rounds + 1) - rng.integers(0, window + 1, rounds), 1)
    needed = still_needed(oldest)
    drift = Drift(3)
    found = [
        drift.add(p[begin:end], cumulative[begin:end], oldest[begin:end], needed[begin:end])
        for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), rounds], strict=True)
    ]
    np.testing.assert_array_equal(np.concatenate(found), in_one_piece(p, cumulative, oldest))
    assert drift.rounds == rounds


def test_what_an_arm_gains_out_of_nothing_is_infinite() -> None:
    p = np.array([[1.0, 0.0], [0.5, 0.5]])
    oldest = np.array([1, 1])
    assert in_one_piece(p, np.array([0, 0]), oldest).tolist() == [1.0, math.inf]
    explored = in_one_piece(p, np.array([1, 3]), oldest)
    np.testing.assert_allclose(explored, [1.0, 0.5 / math.exp(-3 / 2)], rtol=1e-12)


def test_no_rounds_have_no_drift() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert Drift(3).add(np.empty((0, 3)), nothing, nothing, nothing).size == 0


@pytest.mark.parametrize("law", ["pareto:shape=1,scale=10", "constant:delay=40", "dropout:share=0.2,others=5"])
def test_drift_of_a_run(law: str) -> None:
    """robust with a small constant, whose patience is long: the window is t - s <= patience_t."""
    trace = simulate(
        "robust:delay_constant=0.01",
        "stochastic:arms=5,gap=0.2",
        law,
        rounds=400,
        replications=1,
        seed=5,
        keep_trace=True,
    ).traces[0][0]
    oldest = np.array([min(s for s in range(1, t + 1) if t - s <= trace.patience[t - 1]) for t in range(1, 401)])
    found = check(trace, 0.01)["drift control"]
    expected = by_pairs(trace.distributions, np.cumsum(trace.outstanding), oldest)
    assert expected.max() > 1.5
    assert found.measured == pytest.approx(expected.max(), rel=1e-9)
    assert found.shares is not None
    np.testing.assert_allclose(found.shares, np.maximum.reduceat(expected, pieces(400)) / 4.0, rtol=1e-9)


def test_memory_is_that_of_the_window() -> None:
    rounds, window = 20_000, 50
    p = np.stack([np.linspace(0.1, 0.9, rounds), np.linspace(0.9, 0.1, rounds)], axis=1)
    cumulative = np.arange(rounds)
    oldest = sliding(rounds, window)
    drift = Drift(2)
    for begin in range(0, rounds, 1000):
        here = slice(begin, begin + 1000)
        drift.add(p[here], cumulative[here], oldest[here], oldest[here])
        assert drift.memory == Drift(2).memory == 2 * ROOM * 3 * 8
        assert drift.sizes.max() <= window + 1
