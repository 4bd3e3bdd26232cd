"""Sums of weighted rewards: against a plain loop, in pieces, and as a game that is at most fair."""

import itertools
import math

import numpy as np
import pytest

from belated.inference.capital import SHARES, WEIGHTS
from belated.inference.weighted_sums import WeightedSums, margin

Floats = np.ndarray


def some_rounds(rounds: int, n_arms: int = 3) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(4)
    arms = rng.integers(0, n_arms, rounds)
    rewards = np.where(rng.random(rounds) < 0.1, np.nan, rng.random(rounds))
    return arms, rewards, rng.uniform(0.05, 0.95, rounds)


def test_sums_against_a_plain_loop() -> None:
    arms, rewards, propensities = some_rounds(200)
    sums = WeightedSums(3)
    sums.add(arms, rewards, propensities)
    lows, highs = sums.bounds(3.0)
    for arm in range(3):
        known, total, up, down, up_squares, down_squares = 0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(200):
            centre = (0.5 + total) / (1 + known)
            x = y = 0.0
            if arms[k] == arm and not math.isnan(rewards[k]):
                x, y = rewards[k] / propensities[k], (1 - rewards[k]) / propensities[k]
                known, total = known + 1, total + rewards[k]
            up, down = up + x, down + y
            up_squares += (x - centre) ** 2
            down_squares += (y - (1 - centre)) ** 2
        assert (sums.rows["up"][arm], sums.rows["down"][arm]) == (pytest.approx(up), pytest.approx(down))
        low = (up - margin(np.array([up_squares]), 3.0)[0]) / 200
        high = 1 - (down - margin(np.array([down_squares]), 3.0)[0]) / 200
        assert lows[arm] == pytest.approx(max(low, 0.0))
        assert highs[arm] == pytest.approx(min(high, 1.0))
        assert sums.estimates[arm] == pytest.approx(up / (up + down))


def test_the_last_row_is_that_of_whoever_decided() -> None:
    arms, _, propensities = some_rounds(50)
    rewards = np.tile([0.0, 1.0], 25)
    sums = WeightedSums(3)
    sums.add(arms, rewards, propensities)
    assert sums.estimates[-1] == 0.5
    low, high = (ends[-1] for ends in sums.bounds(3.0))
    assert 0 < low < 0.5 < high < 1


def test_pieces_do_not_matter() -> None:
    arms, rewards, propensities = some_rounds(300)
    at_once, in_pieces = WeightedSums(3), WeightedSums(3)
    at_once.add(arms, rewards, propensities)
    for begin in range(0, 300, 7):
        piece = slice(begin, begin + 7)
        in_pieces.add(arms[piece], rewards[piece], propensities[piece])
        in_pieces = in_pieces.copy()
    np.testing.assert_array_equal(at_once.rows, in_pieces.rows)


def test_the_margin_is_where_the_mixture_is_exp_level() -> None:
    squares = np.array([0.0, 3.0, 1e4])
    found = margin(squares, 4.0)
    penalties = -np.log1p(-SHARES) - SHARES
    capital = np.exp(np.outer(found, SHARES) - np.outer(squares, penalties)) @ WEIGHTS
    np.testing.assert_allclose(np.log(capital), 4.0, rtol=1e-9)


def test_the_game_is_at_most_fair() -> None:
    """Two arms, shares that depend on what came, means that change: the mean of the capital is at most 1 for each."""
    means = [[0.2, 0.6], [0.5, 0.6], [0.9, 0.1], [0.3, 0.3]]

    def share(rewards: list[int]) -> float:
        return 0.2 + 0.6 * (sum(rewards) % 2)  # of arm 0

    for arm in range(2):
        total = {"up": 0.0, "down": 0.0}
        for arms in itertools.product(range(2), repeat=4):
            for rewards in itertools.product(range(2), repeat=4):
                weight, propensities = 1.0, []
                for k in range(4):
                    first = share(list(rewards[:k]))
                    propensities.append(first if arms[k] == 0 else 1 - first)
                    mean = means[k][arms[k]]
                    weight *= propensities[-1] * (mean if rewards[k] else 1 - mean)
                sums = WeightedSums(2)
                sums.add(np.array(arms), np.array(rewards, dtype=float), np.array(propensities))
                centre = (0.5 + sums.rows["rewards"][arm]) / (1 + sums.rows["known"][arm])
                since = 4 - sums.rows["last"][arm]
                truth = sum(row[arm] for row in means)
                for side, squares, true, middle in (
                    ("up", sums.rows["up_squares"][arm], truth, centre),
                    ("down", sums.rows["down_squares"][arm], 4 - truth, 1 - centre),
                ):
                    distance = sums.rows[side][arm] - true
                    penalties = -np.log1p(-SHARES) - SHARES
                    total[side] += weight * float(
                        np.exp(SHARES * distance - penalties * (squares + since * middle**2)) @ WEIGHTS
                    )
        assert 0.5 < total["up"] <= 1.0 + 1e-12
        assert 0.5 < total["down"] <= 1.0 + 1e-12


@pytest.mark.parametrize(
    ("propensities", "reason"),
    [([0.5, np.nan, 0.5], "decision 2 has no propensity"), ([0.5, 0.4, 1.0], "decision 3 has the propensity 1")],
)
def test_unknown_and_certain_propensities_are_told(propensities: list[float], reason: str) -> None:
    sums = WeightedSums(2)
    sums.add(np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0]), np.array(propensities))
    assert sums.reason.startswith(reason)
    sums.add(np.array([0]), np.array([1.0]), np.array([0.5]))
    assert sums.reason.startswith(reason)
    assert sums.rounds == 4


def test_without_rounds_nothing_is_known() -> None:
    assert [ends.tolist() for ends in WeightedSums(1).bounds(3.0)] == [[0.0, 0.0], [1.0, 1.0]]
