"""Probability matching: against its formula, against Thompson sampling by Monte Carlo, and what must hold exactly."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from belated.learners import matching

Floats = NDArray[np.float64]

MARGIN = 1e-3
"""How far from 1 the sum of probabilities may be before it is made 1: what is left to the solver."""


def match(means: Sequence[float], weights: Sequence[float], middle: float = 0.5, spread: float = 1.0) -> Floats:
    """The probabilities; means and weights stay as they are."""
    q = np.full(len(means), np.nan)
    matching.match(np.array(means, dtype=float), np.array(weights, dtype=float), middle, spread, q)
    return q


def kl(m: float, q: float) -> float:
    first = m * math.log(m / q) if m > 0.0 else 0.0
    return first + ((1.0 - m) * math.log((1.0 - m) / (1.0 - q)) if m < 1.0 else 0.0)


def by_formula(means: Sequence[float], weights: Sequence[float], middle: float, spread: float) -> Floats:
    """The same from the docstring: the root m by bisection, until no number lies between the ends."""
    prior = max(middle, 0.5)
    known = [(n * m + 2.0 * prior) / (n + 2.0) for m, n in zip(means, weights, strict=True)]
    total = [n + 2.0 for n in weights]
    sharp = []
    for i, n in enumerate(total):
        others = [j for j in range(len(known)) if j != i]
        rival = total[min(others, key=lambda j: known[j])]
        sharp.append(1.0 + 2.0 * math.sqrt(n * rival) / (n + rival))

    def below(i: int, m: float) -> float:
        z = math.sqrt(max(2.0 * spread * total[i] * sharp[i] * kl(known[i], m), 0.0))
        tail = 0.5 * math.erfc(z / math.sqrt(2.0))
        return tail if m < known[i] else 1.0 - tail

    low, high = 0.0, sorted(known)[1]
    if high == 1.0:
        high = math.nextafter(1.0, 0.0)
    while low < (m := 0.5 * (low + high)) < high:
        if sum(below(i, m) for i in range(len(known))) < 1.0:
            low = m
        else:
            high = m
    q = np.array([below(i, high) for i in range(len(known))])
    return np.asarray(q / q.sum())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.sampled_from([1.0, 1.7, 100.0]), st.floats(0.0, 1.0))
def test_it_is_as_the_formulas_say(seed: int, arms: int, spread: float, middle: float) -> None:
    """Means anywhere or close together, weights from 1/10 to 10^6; within three times the solver's margin."""
    rng = np.random.default_rng(seed)
    means = rng.random(arms) if seed % 2 else np.clip(0.3 + rng.normal(size=arms) * 10.0 ** rng.uniform(-4, -1), 0, 1)
    weights = 10.0 ** rng.uniform(-1.0, 6.0, arms)
    q = match(means.tolist(), weights.tolist(), middle, spread)
    np.testing.assert_allclose(q, by_formula(means.tolist(), weights.tolist(), middle, spread), atol=3.0 * MARGIN)


def test_the_prior_is_two_outcomes_at_the_middle_or_at_a_half() -> None:
    assert matching.PRIOR == 2.0
    for middle, prior in ((0.0, 0.5), (0.3, 0.5), (0.5, 0.5), (0.8, 0.8), (1.0, 1.0)):
        means, weights, q = np.array([0.1, 0.7, 0.9]), np.array([10.0, 0.0, 3.0]), np.zeros(3)
        matching.match(means, weights, middle, 1.0, q)
        np.testing.assert_allclose(means, [(1.0 + 2 * prior) / 12.0, prior, (2.7 + 2 * prior) / 5.0], rtol=1e-12)


def test_weights_are_those_of_differences() -> None:
    """c_i is 2 between arms of equal weight, 1 next to one that is known, and the best arm looks at the next one."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [1, 0, 2], [2, 0, 1]):
        means, weights, q = np.array([0.1, 0.2, 0.9])[order], np.array([98.0, 98.0, 1e12])[order], np.zeros(3)
        matching.match(means, weights, 0.5, 3.0, q)
        places = np.argsort(order)
        np.testing.assert_allclose(weights[places[:2]], [600.0, 600.0], rtol=1e-12)
        assert weights[places[2]] == pytest.approx(3e12, rel=1e-4)


# What Thompson sampling plays.

CLOSE = 0.04
"""Of a probability: what the closed form may differ from the posterior; measured is 0.037 where an arm has one
outcome, 0.01 where both have fifty or more."""


def thompson(means: Sequence[float], weights: Sequence[float], middle: float = 0.5, draws: int = 40_000) -> Floats:
    """How often each arm has the smallest draw from its posterior; a standard error is 0.0025 at most."""
    m, n = np.array(means, dtype=float), np.array(weights, dtype=float)
    ones = n * m + 2.0 * max(middle, 0.5)
    zeros = n * (1.0 - m) + 2.0 * (1.0 - max(middle, 0.5))
    theta = np.random.default_rng(11).beta(ones, zeros, size=(draws, m.size))
    return np.bincount(theta.argmin(axis=1), minlength=m.size) / draws


@pytest.mark.parametrize(
    ("means", "weights", "margin"),
    [
        ([0.3, 0.35], [100, 100], 0.012),
        ([0.3, 0.35], [1000, 50], 0.015),
        ([0.35, 0.3], [1000, 50], 0.015),
        ([0.01, 0.02], [500, 500], 0.012),
        ([0.97, 0.99], [300, 300], 0.012),
        ([0.0, 1.0], [1, 1], CLOSE),
        ([0.0, 0.5], [3, 2], CLOSE),
        ([0.5, 0.5], [0, 0], 0.01),
        ([0.2, 0.5], [1000, 0], CLOSE),
        ([0.3, *[0.5] * 8, 0.5], [*[1000] * 9, 0], CLOSE),
        ([0.05, *[0.5] * 8, 0.5], [*[1000] * 9, 0], CLOSE),
        ([0.3, 0.32, 0.4], [200, 20, 5], CLOSE),
        ([0.3] * 10, [50] * 10, 0.01),
        ([0.2, 0.2, *[0.5] * 98], [200] * 100, 0.012),
        (np.linspace(0.2, 0.6, 10).tolist(), [50] * 10, 0.06),  # many are close: the best one gets more than it should
    ],
)
def test_it_plays_as_thompson_sampling_does(means: list[float], weights: list[float], margin: float) -> None:
    np.testing.assert_allclose(match(means, weights), thompson(means, weights), atol=margin)


@pytest.mark.parametrize("known", [1, 9])
def test_one_unknown_arm_among_known_ones_is_tried_as_thompson_sampling_would(known: int) -> None:
    """The probability of the unknown arm alone, within 0.03; it is the better the worse the best known arm is."""
    tried = []
    for best in (0.05, 0.2, 0.4, 0.6):
        means = [best, *[min(best + 0.2, 1.0)] * (known - 1), 0.5]
        weights = [1000.0] * known + [0.0]
        tried.append(match(means, weights)[-1])
        assert tried[-1] == pytest.approx(thompson(means, weights)[-1], abs=0.03)
    assert tried == sorted(tried)


# What must hold exactly.

PROBLEMS = st.integers(2, 12).flatmap(
    lambda arms: st.tuples(
        st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=arms, max_size=arms),
        st.lists(st.floats(0.0, 1e9) | st.sampled_from([0.0, 1.0, 1e9]), min_size=arms, max_size=arms),
    )
)


@settings(max_examples=50, deadline=None)
@given(PROBLEMS, st.sampled_from([0.0, 0.4, 0.9, 1.0]), st.sampled_from([1.0, 30.0, 100.0]))
def test_probabilities_sum_to_1_whatever_comes(
    problem: tuple[list[float], list[float]], middle: float, spread: float
) -> None:
    q = match(*problem, middle, spread)
    assert (q >= 0.0).all()
    assert q.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("arms", [2, 3, 1000])
@pytest.mark.parametrize("mean", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("weight", [0.0, 1.0, 1e9])
def test_equal_arms_are_equal(arms: int, mean: float, weight: float) -> None:
    for middle in (0.0, 0.5, 1.0):
        np.testing.assert_allclose(match([mean] * arms, [weight] * arms, middle), 1.0 / arms, rtol=1e-12)


@pytest.mark.parametrize("weight", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("arms", [2, 1000])
def test_a_known_best_arm_is_played_alone(arms: int, weight: float) -> None:
    for best, others in ((0.0, 1.0), (0.0, 0.5), (0.4, 0.6), (0.5, 1.0)):
        q = match([best] + [others] * (arms - 1), [weight] * arms)
        assert q[0] > 1.0 - 1e-6
        assert np.ptp(q[1:]) == 0.0


def test_a_thousand_arms_are_as_the_formulas_say() -> None:
    rng = np.random.default_rng(4)
    for scale in (1.0, 1e9):
        means, weights = rng.random(1000).tolist(), (rng.random(1000) * scale).tolist()
        np.testing.assert_allclose(match(means, weights), by_formula(means, weights, 0.5, 1.0), atol=3.0 * MARGIN)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20))
def test_the_order_of_the_arms_does_not_matter(seed: int, arms: int) -> None:
    """Many means are equal: of these the best known arm counts as the best."""
    rng = np.random.default_rng(seed)
    means, weights, order = rng.integers(0, 4, arms) / 4.0, 10.0 ** rng.uniform(0.0, 4.0, arms), rng.permutation(arms)
    q = match(means.tolist(), weights.tolist())
    again = match(means[order].tolist(), weights[order].tolist())
    np.testing.assert_allclose(again, q[order], atol=1e-9)


@pytest.mark.parametrize("others", [[0.4], [0.4, 0.5], [0.2, 0.9, 0.4], [0.5] * 30])
@pytest.mark.parametrize("weight", [0.5, 20.0, 3000.0])
def test_an_arm_is_played_the_less_the_more_it_loses(others: list[float], weight: float) -> None:
    """Weights are equal: c_i jumps where arms of unequal weight change places. Steps as small as the solver's margin
    may go the other way by that much.
    """
    means = np.linspace(0.0, 1.0, 101)
    arms = len(others) + 1
    q = np.array([match([mean, *others], [weight] * arms)[0] for mean in means])
    assert (np.diff(q) <= 2.0 * MARGIN).all()
    assert (q[10:] - q[:-10] <= 1e-6).all()
    assert q[0] > q[20] > q[60] or weight == 3000.0


@pytest.mark.parametrize("weights", [(1.0, 1e4), (1e4, 1.0), (30.0, 7.0), (0.0, 500.0)])
def test_of_two_arms_one_is_played_the_less_the_more_it_loses_whatever_they_weigh(weights: tuple[float, float]) -> None:
    q = np.array([match([mean, 0.4], weights)[0] for mean in np.linspace(0.0, 1.0, 101)])
    assert (np.diff(q) <= MARGIN).all()
    assert (q[10:] - q[:-10] <= 1e-6).all()


@pytest.mark.parametrize(("weight", "spread"), [(50.0, 1.0), (50.0, 4.0), (800.0, 1.0), (800.0, 10.0)])
def test_two_arms_with_equal_weights_differ_as_normal_means_do(weight: float, spread: float) -> None:
    """A difference of z standard errors, of losses that vary f times less than those of 0 or 1, is played with
    P(standard normal > z): within 0.003, the means being near 1/2.
    """
    for z in (0.0, 0.3, 1.0, 2.0):
        gap = z * math.sqrt(2.0 * 0.25 / (spread * (weight + 2.0)))
        gap *= (weight + 2.0) / weight  # what the prior takes away
        q = match([0.5 - gap / 2.0, 0.5 + gap / 2.0], [weight] * 2, 0.5, spread)
        assert q[1] == pytest.approx(0.5 * math.erfc(z / math.sqrt(2.0)), abs=0.003)


def test_more_outcomes_of_the_same_mean_settle_it() -> None:
    settled = [match([0.3, 0.4], [n, n])[0] for n in (0.0, 1.0, 10.0, 100.0, 1000.0, 1e9)]
    assert settled == sorted(settled)
    assert settled[0] == 0.5
    assert settled[-1] == 1.0
