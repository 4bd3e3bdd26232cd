"""The gambler's capital: against its definition, as a fair game, and its bounds against brute force."""

import itertools
import math

import numpy as np
import pytest

from belated.inference import capital
from belated.inference.capital import SHARES, WEIGHTS
from belated.inference.tally import ENDS, PLACES, Tally

LEVEL = math.log(2 / 0.05)


def counts_of(ones: int, zeros: int) -> np.ndarray:
    return np.array([[zeros, ones]], dtype=float)


def capital_of(rewards: list[float], m: float) -> float:
    """Return the capital by its definition, one outcome after the other."""
    return sum(
        weight * math.prod(1 - share + share * reward / m for reward in rewards)
        for share, weight in zip(SHARES, WEIGHTS, strict=True)
    )


@pytest.mark.parametrize("m", [0.01, 0.3, 0.9])
def test_capital_is_what_its_definition_says(m: float) -> None:
    rewards = [1.0, 0.0, 0.0, 1.0, 1.0]
    found = capital.log_capital(counts_of(3, 2), ENDS, np.array([m]))[0]
    assert found == pytest.approx(math.log(capital_of(rewards, m)), rel=1e-12)


@pytest.mark.parametrize("mu", [0.05, 0.4, 0.8])
def test_at_the_true_mean_the_game_is_fair(mu: float) -> None:
    """The mean of the capital over all sequences of eight outcomes, each with its probability, is 1."""
    expected = 0.0
    for rewards in itertools.product([0, 1], repeat=8):
        ones = sum(rewards)
        log_capital = capital.log_capital(counts_of(ones, 8 - ones), ENDS, np.array([mu]))[0]
        expected += mu**ones * (1 - mu) ** (8 - ones) * math.exp(log_capital)
    assert expected == pytest.approx(1.0, rel=1e-12)


def test_rewards_between_0_and_1_make_no_game_better_than_fair() -> None:
    """Split between places, they lose a little and never gain: at the true mean the capital is at most 1 on average."""
    values, weights = [0.07, 0.31, 0.9], [0.5, 0.3, 0.2]
    mu = float(np.dot(values, weights))
    expected = 0.0
    for drawn in itertools.product(range(3), repeat=6):
        tally = Tally(1)
        tally.add(np.zeros(6, dtype=np.int64), np.array([values[k] for k in drawn]))
        log_capital = capital.log_capital(tally.counts, tally.places, np.array([mu]))[0]
        assert log_capital <= math.log(capital_of([values[k] for k in drawn], mu)) + 1e-12
        expected += math.prod(weights[k] for k in drawn) * math.exp(log_capital)
    assert 0.99 < expected <= 1.0


def test_capital_falls_with_m_and_is_convex() -> None:
    rng = np.random.default_rng(0)
    counts = np.repeat(rng.integers(0, 40, (1, PLACES.size)).astype(float), 999, axis=0)
    grid = np.linspace(0.001, 0.999, 999)
    values, slopes = capital.with_slope(counts, PLACES, grid)
    assert (np.diff(values) < 0).all()
    assert (np.diff(values, 2) > -1e-6).all()
    np.testing.assert_allclose(slopes[1:-1], (values[2:] - values[:-2]) / (grid[2:] - grid[:-2]), rtol=0.1)


@pytest.mark.parametrize(("ones", "zeros"), [(3, 7), (120, 880), (5, 995), (5_000, 5_000), (10_000, 990_000)])
def test_the_lower_bound_is_where_the_capital_is_exp_level(ones: int, zeros: int) -> None:
    low = capital.lower(counts_of(ones, zeros), ENDS, LEVEL)
    assert 0 < low[0] < ones / (ones + zeros)
    assert capital.log_capital(counts_of(ones, zeros), ENDS, low)[0] == pytest.approx(LEVEL, abs=1e-6)


def test_nothing_is_known_without_outcomes_or_without_successes() -> None:
    counts = np.array([[0.0, 0.0], [50.0, 0.0]])
    assert capital.lower(counts, ENDS, LEVEL).tolist() == [0.0, 0.0]
    assert 0.85 < capital.lower(counts_of(50, 0), ENDS, LEVEL)[0] < 1.0


@pytest.mark.parametrize("ones", [2, 30, 77])
def test_the_least_sum_of_one_mean_is_its_lower_bound(ones: int) -> None:
    counts = counts_of(ones, 100 - ones)
    least = capital.least_sum(counts[None], ENDS, np.array([[2.5]]), LEVEL)[0]
    assert least == pytest.approx(2.5 * capital.lower(counts, ENDS, LEVEL)[0], rel=1e-4)
    assert least <= 2.5 * capital.lower(counts, ENDS, LEVEL)[0]


@pytest.mark.parametrize(
    ("first", "second", "weights"), [((30, 70), (55, 45), (1.0, 1.0)), ((4, 96), (400, 600), (0.3, 2.0))]
)
def test_the_least_sum_of_two_means_against_brute_force(
    first: tuple[int, int], second: tuple[int, int], weights: tuple[float, float]
) -> None:
    counts = np.array([[first[::-1], second[::-1]]], dtype=float)
    least = capital.least_sum(counts, ENDS, np.array([weights]), LEVEL)[0]
    grid = np.linspace(0.0005, 0.9995, 2000)
    one, two = (capital.log_capital(np.repeat(counts[0, k][None], grid.size, axis=0), ENDS, grid) for k in range(2))
    allowed = one[:, None] + two[None, :] < LEVEL
    sums = weights[0] * grid[:, None] + weights[1] * grid[None, :]
    brute = float(sums[allowed].min())
    step = (weights[0] + weights[1]) * (grid[1] - grid[0])
    assert brute - step <= least <= brute


def test_arms_with_weight_0_change_nothing() -> None:
    counts = np.array([[[70.0, 30.0], [45.0, 55.0], [10.0, 90.0]]])
    with_third = capital.least_sum(counts, ENDS, np.array([[1.0, 1.0, 0.0]]), LEVEL)
    without = capital.least_sum(counts[:, :2], ENDS, np.array([[1.0, 1.0]]), LEVEL)
    np.testing.assert_allclose(with_third, without, rtol=1e-12)


@pytest.mark.parametrize(("first", "second"), [((60, 40), (30, 70)), ((9, 991), (2, 998)), ((50, 50), (50, 50))])
def test_evidence_against_brute_force(first: tuple[int, int], second: tuple[int, int]) -> None:
    one, two = counts_of(*first), counts_of(*second)
    found = capital.log_evidence(one, two, ENDS)[0]
    grid = np.concatenate([np.linspace(1e-5, 0.02, 4000), np.linspace(0.02, 0.99999, 4000)])
    above = capital.log_capital(np.repeat(one, grid.size, axis=0), ENDS, grid)
    below = capital.log_capital(np.repeat(two[:, ::-1], grid.size, axis=0), ENDS, 1 - grid)
    brute = float((above + below).min())
    assert brute - 1e-3 <= found <= brute


def test_evidence_is_a_fair_game_at_most_where_the_means_are_equal() -> None:
    """Over all outcomes of five decisions of each of two equal arms, its mean is at most 1."""
    mu = 0.3
    expected = 0.0
    for ones, others in itertools.product(range(6), repeat=2):
        weight = math.comb(5, ones) * math.comb(5, others) * mu ** (ones + others) * (1 - mu) ** (10 - ones - others)
        evidence = capital.log_evidence(counts_of(ones, 5 - ones), counts_of(others, 5 - others), ENDS)[0]
        expected += weight * math.exp(evidence)
    assert expected <= 1.0
