"""Thompson sampling plays an arm with the probability that it is best, and says so."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from belated import Bandit, simulate
from belated.learners import thompson
from belated.learners.thompson import LEARNER, smallest
from belated.simulation.simulation import replay

Floats = NDArray[np.float64]


def measured(a: list[float], b: list[float]) -> Floats:
    """Return what the learner makes of posteriors Beta(a_i, b_i)."""
    p = np.zeros(len(a))
    smallest(state_of(a, b), p)
    return p


def state_of(a: list[float], b: list[float]) -> Floats:
    state = LEARNER.new_state(len(a))
    state[12::5] = np.array(a) - 1.0  # ones
    state[13::5] = np.array(a) + np.array(b) - 2.0  # observed
    return state


def reference(a: list[float], b: list[float]) -> Floats:
    """The same by Simpson's rule on a grid that is fine for every arm: some 1e-5 off at most, by its sum."""
    arms = list(zip(a, b, strict=True))
    kinds = sorted(set(arms))
    ends = []
    for x, y in kinds:
        mode, width = math.log(x / y), math.sqrt(1 / x + 1 / y)
        ends.append((mode - 9 * width - 25 / x, mode + 9 * width + 25 / y))
    points = 6000 if len(kinds) < 12 else 1200
    grid = np.unique(np.concatenate([np.linspace(*each, points) for each in ends]))
    grid = grid[grid <= min(high for _, high in ends)]
    above: dict[tuple[float, float], Floats] = {}
    parts: dict[tuple[float, float], Floats] = {}
    middle = (grid[1:] + grid[:-1]) / 2
    for x, y in kinds:
        log_beta = math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)
        f, between = (np.exp(-x * np.logaddexp(0, -z) - y * np.logaddexp(0, z) - log_beta) for z in (grid, middle))
        parts[x, y] = np.diff(grid) * (f[1:] + 4 * between + f[:-1]) / 6
        above[x, y] = np.log(np.maximum(1 - np.concatenate([[0.0], np.cumsum(parts[x, y])]), 1e-300))
    total = sum(above[each] for each in arms)
    found = {}
    for each in kinds:
        others = np.exp(total - above[each])
        found[each] = float(np.sum(parts[each] * (others[1:] + others[:-1]) / 2))
    p = np.array([found[each] for each in arms])
    assert p.sum() == pytest.approx(1.0, abs=1e-4)
    return p / p.sum()


def cases() -> dict[str, tuple[list[float], list[float]]]:
    rng = np.random.default_rng(8)
    found: dict[str, tuple[list[float], list[float]]] = {}
    for k in (2, 10, 100):
        found[f"{k} new"] = ([1.0] * k, [1.0] * k)
        for n in (1.0, 3.0, 30.0, 1e3, 1e6):
            found[f"{k} equal, n = {n:g}"] = ([n] * k, [n] * k)
            apart = 1.0 + n * (1.0 + 0.6 * rng.random(k) / math.sqrt(n))
            found[f"{k} almost equal, n = {n:g}"] = (apart.tolist(), [1.0 + n] * k)
            found[f"{k}, one better, n = {n:g}"] = ([1 + 0.99 * n] + [1 + n + 2 * math.sqrt(n)] * (k - 1), [1 + n] * k)
        rare, common = (1000 + 50 * rng.random(k)).tolist(), (5 + 3 * rng.random(k)).tolist()
        found[f"{k} with rare wins"] = (rare, common)
        found[f"{k} with rare losses"] = (common, rare)
        for ones in (1.0, 2.0, 3.0, 4.0):
            for mean in (0.2, 0.5, 0.8, 0.95, 0.999):
                known, new = (1e6 * mean, 1e6 * (1 - mean)), (ones, 5.0 - ones)
                for name, arms in {"known": [known] + [new] * (k - 1), "new": [known] * (k - 1) + [new]}.items():
                    a, b = zip(*arms, strict=True)
                    found[f"{k}, one {name}, {ones:g} of 3, mean {mean}"] = (list(a), list(b))
        for number in range(20 if k < 100 else 4):
            sizes = 10.0 ** (5 * rng.random(k))
            means = 0.3 + 0.4 * rng.random(k) / sizes**0.3
            hits, misses = np.round(sizes * means), np.round(sizes - sizes * means)
            found[f"{k} of all sizes, {number}"] = ((1 + hits).tolist(), (1 + misses).tolist())
    return found


@pytest.mark.parametrize("arms", [2, 10, pytest.param(100, marks=pytest.mark.slow)])
def test_probabilities_are_those_of_the_posterior(arms: int) -> None:
    """Within 0.001, and within 2 % from 1e-4 on; measured are 0.0009 and 0.7 %."""
    for name, (a, b) in cases().items():
        if len(a) != arms:
            continue
        p, expected = measured(a, b), reference(a, b)
        assert np.abs(p - expected).max() < 1e-3, name
        matters = expected >= 1e-4
        assert (np.abs(p[matters] / expected[matters] - 1.0) < 0.02).all(), name
        assert (p > 0.0).all(), name
        assert p.sum() == pytest.approx(1.0, abs=1e-12), name


def test_two_arms_by_hand() -> None:
    """Beta(2, 4) against Beta(3, 3): P(first smaller) = 31/42 by exact summation. Beta(1, 1) against Beta(1, 3):
    1/4.
    """
    np.testing.assert_allclose(measured([2, 3], [4, 3]), [31 / 42, 11 / 42], atol=3e-4)
    np.testing.assert_allclose(measured([1, 1], [1, 3]), [1 / 4, 3 / 4], atol=3e-4)


def test_hopeless_arms_can_still_be_drawn() -> None:
    p = measured([10.0, 1e6, 1e9], [1e6, 10.0, 1.0])
    assert p[0] == pytest.approx(1.0, abs=1e-11)
    np.testing.assert_allclose(p[1:], 1e-12, rtol=1e-6)


def test_huge_and_many() -> None:
    """10,000 arms, and a billion outcomes: p is a distribution, and equal arms have equal shares."""
    p = measured([5.0] * 10_000, [7.0] * 10_000)
    np.testing.assert_allclose(p, 1e-4, rtol=1e-9)
    p = measured([4e8, 4e8, 4e8 + 2e4], [6e8, 6e8, 6e8 - 2e4])  # the third is 1.3 standard deviations worse
    assert p[0] == pytest.approx(p[1], rel=1e-9)
    assert p[2] == pytest.approx(reference([4e8, 4e8, 4e8 + 2e4], [6e8, 6e8, 6e8 - 2e4])[2], abs=1e-3)


def test_more_nodes_are_taken_where_the_first_do_not_do() -> None:
    """Ten arms have their sum at once; that of a hundred, whose least theta is known better, is too far from 1."""
    few, many = [31.0] * 10, [31.0] * 100
    assert smallest(state_of(few, few), np.zeros(10)) < 15
    assert 20 < smallest(state_of(many, many), np.zeros(100)) < thompson.MOST_NODES


def test_what_learning_keeps_is_what_is_made_anew() -> None:
    """A state from before -log B was kept gives the same probabilities, bit for bit."""
    rng = np.random.default_rng(4)
    bandit = Bandit(3, "thompson", seed=1)
    for _ in range(300):
        bandit.observe(bandit.decide(), loss=float(rng.random() < 0.4))
    bandit._catch_up()
    state = bandit._run.state
    ones, observed = state[12::5].copy(), state[13::5].copy()
    again = state_of((1 + ones).tolist(), (1 + observed - ones).tolist())
    p, anew = np.zeros(3), np.zeros(3)
    smallest(state, p)
    smallest(again, anew)
    np.testing.assert_array_equal(p, anew)


@pytest.mark.parametrize("delay", [0, 50])
def test_arms_are_played_as_often_as_propensities_say(delay: int) -> None:
    """The count of an arm less the sum of its propensities is a martingale: within four of its standard deviations,
    sqrt(sum p (1 - p)), in each of 4 arms and 10 replications.
    """
    result = simulate(
        "thompson",
        "bernoulli:means=[0.4,0.45,0.5,0.6]",
        f"constant:delay={delay}",
        rounds=3000,
        replications=10,
        seed=6,
        keep_trace=True,
    )
    for trace in result.traces[0]:
        p = trace.distributions
        count = np.bincount(trace.arms, minlength=4)
        assert (np.abs(count - p.sum(axis=0)) < 4 * np.sqrt((p * (1 - p)).sum(axis=0))).all()
        assert 0.0 < p.min() < 0.05
        assert p.max() < 1.0


def test_inverse_propensity_weighting_is_unbiased() -> None:
    """Two equal arms of mean loss 0.5, 400 replications of 200 rounds: the mean of [arm = k] loss / propensity is
    0.5, within four standard errors of the replications, 0.045 at most.
    """
    result = simulate("thompson", "bernoulli:means=[0.5,0.5]", rounds=200, replications=400, seed=3, keep_trace=True)
    estimates = np.array(
        [
            [
                np.mean((trace.arms == k) * trace.losses / trace.distributions[np.arange(200), trace.arms])
                for k in range(2)
            ]
            for trace in result.traces[0]
        ]
    )
    error = estimates.std(axis=0) / math.sqrt(len(estimates))
    assert (error < 0.0112).all()
    assert (np.abs(estimates.mean(axis=0) - 0.5) < 4 * error).all()


def test_regret_is_that_of_sampling() -> None:
    """Against a plain sampler, 1,000 rounds, 200 replications each: within four standard errors of the difference, a
    third of the regret at most.
    """
    means = np.array([0.3, 0.4, 0.5])
    ours = simulate("thompson", f"bernoulli:means={means.tolist()}", rounds=1000, replications=200, seed=5)
    found = ours.regret[0, :, -1]
    rng = np.random.default_rng(9)
    a, b, each = np.ones((200, 3)), np.ones((200, 3)), np.arange(200)
    regret = np.zeros(200)
    for _ in range(1000):
        arm = rng.beta(a, b).argmin(axis=1)
        loss = rng.random(200) < means[arm]
        a[each, arm] += loss
        b[each, arm] += ~loss
        regret += means[arm] - 0.3
    error = math.sqrt(found.var() / 200 + regret.var() / 200)
    assert 4 * error < 0.34 * regret.mean()
    assert abs(found.mean() - regret.mean()) < 4 * error


def test_losses_in_between_are_binarised() -> None:
    """Losses of 0.3 throughout: the observed ones are a share of 0.3, four standard errors being 0.026."""
    trace = replay("thompson", np.full((5000, 2), 0.3), [0] * 5000, np.random.default_rng(1).random(5000).tolist())
    ones = trace.loss_estimates[-1].sum()
    assert ones == int(ones)
    assert ones / 5000 == pytest.approx(0.3, abs=0.026)


def test_the_coin_does_not_depend_on_the_arm() -> None:
    """Where both arms have a loss of 0.5, each has ones for half of its outcomes: four standard errors, 0.04 each. A
    coin that were the draw itself would give the first arm zeros alone.
    """
    trace = replay("thompson", np.full((5000, 2), 0.5), [4999] * 5000, np.random.default_rng(2).random(5000).tolist())
    assert trace.loss_estimates[-1].sum() <= 1.0  # nothing is heard of before the end
    bandit = Bandit(2, "thompson", seed=3)
    for decision in [bandit.decide() for _ in range(5000)]:
        bandit.observe(decision, loss=0.5)
    observed = bandit._run.state
    for arm in range(2):
        bandit._catch_up()
        assert observed[12 + 5 * arm] / observed[13 + 5 * arm] == pytest.approx(0.5, abs=0.04)
