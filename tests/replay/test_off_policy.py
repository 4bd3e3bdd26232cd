"""Off-policy estimates: by hand, against another package, and how often their intervals hold."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from belated import Bandit
from belated.core.capital import SHARES, WEIGHTS
from belated.logs import Log
from belated.logs.changes import Change
from belated.logs.public import DATA, missing, read_open_bandit
from belated.replay import learner_values, off_policy, value_of
from belated.replay.martingale import margin, martingale_interval
from belated.replay.off_policy import (
    ADAPTIVE,
    FEWEST,
    arm_means,
    bernstein,
    clipped,
    effective_size,
    gamma_quantile,
    hardly,
    odd_weights,
    rare,
    sums,
    weighted,
    wide_interval,
)
from support.refusals import refused

OBP = json.loads((Path(__file__).parents[1] / "data" / "obp.json").read_text())
"""Values of the package obp on the Open Bandit sample, with the distributions that it simulated."""

Z = NormalDist().inv_cdf(0.975)


def small() -> Log:
    """Four rows of two arms."""
    return Log(("a", "b"), np.array([0, 1, 0, 1]), np.array([1.0, 0.0, 0.5, 1.0]), np.array([0.5, 0.5, 0.8, 0.2]))


def drawn(rng: np.random.Generator, rows: int, shares: list[float], means: list[float]) -> Log:
    arms = rng.choice(len(shares), rows, p=shares)
    rewards = (rng.random(rows) < np.array(means)[arms]).astype(float)
    return Log(tuple(range(len(shares))), arms, rewards, np.array(shares)[arms])


def test_no_rows_are_refused() -> None:
    nothing = Log(("a", "b"), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    with refused("rewards"):
        value_of(nothing, np.array([0.5, 0.5]))


def test_four_rows_by_hand() -> None:
    """Target (0.4, 0.6): weights 0.8, 1.2, 0.5, 3. q = (0.75, 0.5): sum of p q = 0.6."""
    found = value_of(small(), np.array([0.4, 0.6]), means=np.array([0.75, 0.5]))
    ips = (0.8 + 0.0 + 0.25 + 3.0) / 4
    snips = 4.05 / 5.5
    robust = 0.6 + (0.8 * 0.25 + 1.2 * -0.5 + 0.5 * -0.25 + 3.0 * 0.5) / 4
    values = [found.estimates[name].value for name in ("ips", "snips", "dr")]
    assert values == pytest.approx([ips, snips, robust], rel=1e-14)
    assert found.effective_size == pytest.approx(5.5**2 / (0.64 + 1.44 + 0.25 + 9.0), rel=1e-14)


def test_standard_errors_by_hand() -> None:
    """ips and dr: those of a mean; snips: sqrt(sum w^2 (r - v)^2) / sum w."""
    rewards, weights = np.array([1.0, 0.0, 0.5]), np.array([2.0, 1.0, 0.5])
    baselines = np.array([0.3, -0.1, 0.2])
    found = sums(rewards, weights, baselines)
    v = 2.25 / 3.5
    assert found.values == pytest.approx([2.25 / 3, v, (2.25 + 0.4) / 3], rel=1e-14)
    products, robust = [2.0, 0.0, 0.25], [2.3, -0.1, 0.45]
    residuals = 4.0 * (1.0 - v) ** 2 + v**2 + 0.25 * (0.5 - v) ** 2
    expected = [np.std(products, ddof=1) / math.sqrt(3), math.sqrt(residuals) / 3.5, np.std(robust, ddof=1) / 3**0.5]
    assert found.errors == pytest.approx(expected, rel=1e-14)
    one = sums(np.array([0.5]), np.array([2.0]), np.array([0.0]))
    assert one.values.tolist() == [1.0, 0.5, 1.0]
    assert one.errors.tolist() == [0.0, 0.0, 0.0]
    nothing = sums(rewards, np.zeros(3), baselines)
    assert nothing.values[:2].tolist() == [0.0, 0.0]


def test_effective_size_by_hand() -> None:
    assert effective_size(np.ones(7)) == 7.0
    assert effective_size(np.array([3.0, 1.0])) == 1.6
    assert effective_size(np.array([5.0, 0.0, 0.0])) == 1.0
    assert effective_size(np.zeros(4)) == 0.0


def test_bernstein_by_hand() -> None:
    """Mean 0.5 of 1, 0, 1, 0 …: variance 1/4, over 800 rows, x = log 60."""
    rewards, x = np.array([1.0, 0.0] * 400), math.log(60.0)
    half = math.sqrt(2 * 0.25 * x / 800) + 3 * 2.0 * x / 800
    assert bernstein(rewards, 2.0, 0.05) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-14)
    assert bernstein(rewards[:6], 2.0, 0.05) == (0.0, 1.0)  # no further than a mean can be
    wider, narrower = (bernstein(rewards, 2.0, alpha) for alpha in (0.01, 0.2))
    assert wider[0] < narrower[0] < 0.5 < narrower[1] < wider[1]


def test_intervals_end_at_0_and_1() -> None:
    assert clipped(0.5, 0.1) == pytest.approx((0.5, 0.4, 0.6))
    assert clipped(0.05, 0.1) == pytest.approx((0.05, 0.0, 0.15))
    assert clipped(0.95, 0.1) == pytest.approx((0.95, 0.85, 1.0))
    assert clipped(1.3, 0.1) == (1.3, 1.0, 1.0)
    assert clipped(-0.3, 0.1) == (-0.3, 0.0, 0.0)


def test_normal_intervals_where_the_rows_can_carry_them() -> None:
    rewards = np.array([1.0, 0.0] * FEWEST)
    found = off_policy(rewards, np.ones(2 * FEWEST), np.zeros(2 * FEWEST))
    assert found.warning is None
    half = Z * math.sqrt(0.25 * 2 * FEWEST / (2 * FEWEST - 1)) / math.sqrt(2 * FEWEST)
    assert found.estimates["ips"] == pytest.approx((0.5, 0.5 - half, 0.5 + half), rel=1e-12)
    snips = Z * math.sqrt(0.25 / (2 * FEWEST))
    assert found.estimates["snips"] == pytest.approx((0.5, 0.5 - snips, 0.5 + snips), rel=1e-12)
    sure = off_policy(rewards, np.ones(2 * FEWEST), np.zeros(2 * FEWEST), alpha=0.5)
    assert sure.estimates["ips"].high - 0.5 == pytest.approx(half * NormalDist().inv_cdf(0.75) / Z, rel=1e-12)


@pytest.mark.parametrize(("scarce", "interval"), [(0.0, bernstein), (1.0, rare)])
def test_wide_intervals_where_rewards_or_their_absence_are_rare(scarce: float, interval: Any) -> None:
    """19 rows of 400 are not enough, 20 are. All three estimates then have the one interval around ips."""
    ones, zeros = np.ones(400), np.zeros(400)
    rewards = np.where(np.arange(400) < FEWEST, scarce, 1.0 - scarce)
    assert hardly(rewards, ones) is None
    rewards[0] = 1.0 - scarce
    found = off_policy(rewards, ones, zeros, largest=1.0)
    assert all(each in str(found.warning) for each in ("19", "20"))
    low, high = interval(rewards, 1.0, 0.05)
    assert all(each[1:] == (low, high) for each in found.estimates.values())
    wider = off_policy(rewards, ones, zeros, largest=3.0)
    assert wider.estimates["ips"][1:] == interval(rewards, 3.0, 0.05)
    weights = np.tile([0.5, 1.5], 200)
    heaviest = off_policy(rewards, weights, zeros)  # the largest weight, where nobody says what it may be
    assert heaviest.estimates["ips"][1:] == wide_interval(rewards, weights, 1.5, 0.05)


def test_rewards_are_rare_by_weight() -> None:
    """One in twenty rows has a reward, with weights that make it a half; one in two, with weights that make it 0.1."""
    rewards = np.where(np.arange(100) < 5, 1.0, 0.0)
    heavy = np.where(rewards == 1.0, 10.0, 0.5)
    assert wide_interval(rewards, heavy, 10.0, 0.05) == bernstein(heavy * rewards, 10.0, 0.05)
    rewards = np.where(np.arange(100) < 50, 1.0, 0.0)
    light = np.where(rewards == 1.0, 0.2, 1.8)
    assert wide_interval(rewards, light, 2.0, 0.05) == rare(light * rewards, 2.0, 0.05)


def test_gamma_quantiles_against_tables() -> None:
    """Half the quantiles of chi-squared with 2, 10, 40 and 200 degrees of freedom, as tables have them."""
    for shape, low, high in ((5.0, 1.6235, 10.2416), (20.0, 12.2165, 29.6709), (100.0, 81.3640, 120.5288)):
        assert gamma_quantile(shape, 0.025) == pytest.approx(low, rel=8e-3)
        assert gamma_quantile(shape, 0.975) == pytest.approx(high, rel=8e-3)
    assert gamma_quantile(1.0, 0.975) == pytest.approx(-math.log(0.025), rel=0.01)


def test_counts_of_equal_weight_have_the_exact_interval_of_a_poisson_mean() -> None:
    """Fay & Feuer's interval is Garwood's (1936) where all weights are equal: 7 events, 2.814 to 14.423."""
    weighted = np.where(np.arange(1000) < 7, 1.0, 0.0)
    assert rare(weighted, 1.0, 0.05) == pytest.approx((2.814e-3, 14.423e-3), rel=8e-3)
    low, high = rare(np.zeros(1000), 1.0, 0.05)  # nothing happened: up to log(40) events
    assert low == 0.0
    assert high == pytest.approx(3.689e-3, rel=0.01)
    assert rare(weighted, 50.0, 0.05)[1] > 3 * 14.423e-3  # what was not seen may weigh more
    assert rare(np.zeros(10), 50.0, 0.05) == (0.0, 1.0)


@pytest.mark.parametrize(("arms", "rows", "rate"), [(34, 10_000, 0.0046), (10, 2_000, 0.005), (5, 3_000, 0.01)])
def test_rare_rewards_are_covered(arms: int, rows: int, rate: float) -> None:
    """400 logs: at least 95 % hold the truth, less three standard errors, 0.033. A normal interval holds it in 78 to 93
    % of them.
    """
    start = np.random.default_rng(5)
    means, target = rate * start.gamma(2.0, 0.5, arms), start.dirichlet(np.full(arms, 0.2))
    truth = float(target @ means)
    held = 0
    for k in range(400):
        rng = np.random.default_rng([1, k])
        chosen = rng.integers(0, arms, rows)
        weights = target[chosen] * arms
        low, high = rare(weights * (rng.random(rows) < means[chosen]), float(weights.max()), 0.05)
        held += low <= truth <= high
    assert held / 400 >= 0.95 - 0.033


def test_a_wide_interval_holds_its_own_estimate() -> None:
    found = off_policy(np.array([1.0, 0.0, 1.0]), np.array([0.1, 0.1, 5.0]), np.array([-3.0, -3.0, -3.0]))
    for estimate in found.estimates.values():
        assert estimate.low <= estimate.value <= estimate.high
    assert found.estimates["dr"].low == found.estimates["dr"].value < 0.0
    assert found.estimates["ips"].high == found.estimates["ips"].value > 1.0


def test_a_log_by_its_own_policy_is_worth_its_mean() -> None:
    """All weights are 1; where propensities differ from row to row, the target does."""
    log = drawn(np.random.default_rng(1), 300, [0.2, 0.3, 0.5], [0.2, 0.5, 0.7])
    found = value_of(log, np.array([0.2, 0.3, 0.5]))
    mean = float(log.rewards.mean())
    assert found.estimates["ips"].value == pytest.approx(mean, rel=1e-13)
    assert found.estimates["snips"].value == pytest.approx(mean, rel=1e-13)
    assert abs(found.estimates["dr"].value - mean) < 0.01  # the mean, but for how often each arm was drawn
    assert found.effective_size == pytest.approx(300.0)
    rows = np.array([[0.5, 0.5], [0.5, 0.5], [0.8, 0.2], [0.8, 0.2]])
    assert value_of(small(), rows).estimates["ips"].value == pytest.approx(2.5 / 4)
    turned = value_of(small(), rows[::-1])
    assert turned.estimates["ips"].value == pytest.approx((0.8 / 0.5 + 0.5 * 0.5 / 0.8 + 0.5 / 0.2) / 4)


def test_predictions_for_each_row() -> None:
    """The same for all rows, or one for each: what is predicted counts, weighted by the target."""
    target, means = np.array([0.4, 0.6]), np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]])
    found = value_of(small(), target, means=means).estimates["dr"].value
    weights, rewards = np.array([0.8, 1.2, 0.5, 3.0]), small().rewards
    predicted = np.array([0.1, 0.8, 0.3, 0.6])
    expected = means @ target + weights * (rewards - predicted)
    assert found == pytest.approx(expected.mean(), rel=1e-14)
    same = [value_of(small(), target, means=each).estimates for each in (means[0], np.tile(means[0], (4, 1)))]
    assert same[0] == same[1]


def test_by_default_each_half_is_predicted_from_the_other() -> None:
    """Rows 0 and 2 are one half, 1 and 3 the other. Each arm's mean counts as many rows as it has, and one of all."""
    log = small()
    even = (1.5 + 0.5) / 3.0  # the mean of all: of the rewards 1 and 0.5, and half a reward
    odd = (1.0 + 0.5) / 3.0
    first, second = [(1.5 + even) / 3, even], [odd, (1.0 + odd) / 3]
    assert arm_means(log.arms, log.rewards, 2, np.array([0, 1, 0, 1])) == pytest.approx(np.array([first, second]))
    predictions = np.array([second, first, second, first])
    target = np.array([0.4, 0.6])
    assert value_of(log, target).estimates["dr"] == value_of(log, target, means=predictions).estimates["dr"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([0.5, 0.6], ("target", "[0]", "1.1")),
        ([1.5, -0.5], ("target", "[0, 1]", "-0.5")),
        ([math.nan, 1.0], ("target", "[0, 0]", "nan")),
        ([[0.5, 0.5]] * 3 + [[0.7, 0.7]], ("target", "[3]", "1.4")),
        ([0.5, 0.25, 0.25], ("target", "(3,)", "(2,)", "(4, 2)")),
        ([[0.5, 0.5]] * 3, ("target", "(3, 2)", "(2,)", "(4, 2)")),
    ],
)
def test_targets_that_are_none(target: list[float], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        value_of(small(), np.array(target))


def test_logs_that_tell_too_little() -> None:
    log = small()
    with refused("means", "(3,)"):
        value_of(log, np.array([0.5, 0.5]), means=np.zeros(3))
    with refused("propensity", "decision 2 of 4 "):
        value_of(Log(log.labels, log.arms, log.rewards, np.array([0.5, np.nan, 0.5, 0.5])), np.array([0.5, 0.5]))


def test_decisions_that_are_younger_than_a_deadline() -> None:
    """Rewards come sooner than their absence. The error says what to do, and the value is then right; the first
    decisions of those that have an outcome are no fair sample: good news have come already.
    """
    rng = np.random.default_rng(9)
    arms, rewards = rng.integers(0, 2, 3000), (rng.random(3000) < 0.3).astype(float)
    came = np.arange(3000) + np.where(rewards == 1.0, 10, 500) < 3000
    log = Log(("a", "b"), arms, np.where(came, rewards, np.nan), np.full(3000, 0.5), np.where(came, 10.0, np.inf))
    target = np.array([0.5, 0.5])
    settled = log.with_deadline(100, 1.0)
    first = int(np.argmax(np.isnan(settled.rewards)))
    assert 2900 <= first < 2905
    with refused("reward", f"decision {first + 1:,} of 3,000 ", "log.with_deadline(", ".head(3000 - deadline)"):
        value_of(settled, target)
    told = value_of(settled.head(3000 - 100), target)
    assert told.estimates["ips"].value == pytest.approx(rewards[:2900].mean())


def three_arms(propensities: Sequence[float] = (0.5, 0.25, 0.25), **more: Any) -> Log:
    """Forty rows in which the third arm was never chosen."""
    arms = np.arange(40) % 2
    return Log(("a", "b", "c"), arms, (arms == 1).astype(float), np.array(propensities)[arms], **more)


@pytest.mark.parametrize(
    ("log", "target", "named"),
    [
        (three_arms(), [0.0, 0.0, 1.0], ("'c'", "1")),
        (three_arms(), [0.5, 0.25, 0.25], ("'c'", "0.25")),
        (three_arms((1.0, 0.5, 0.5)), [0.5, 0.5, 0.0], ("decision 1 ", "'a'", "0.5")),
        (
            three_arms((0.5, 1.0, 0.25), distributions=np.tile([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], (20, 1))),
            [0.5, 0.5, 0.0],
            ("'a'", "decision 2,"),
        ),
    ],
    ids=["never", "never, a part", "certain", "no chance"],
)
def test_an_arm_that_had_no_chance(log: Log, target: list[float], named: tuple[str, ...]) -> None:
    with refused("target", *named):
        value_of(log, np.array(target))


def test_arms_that_came_later_or_have_left() -> None:
    """Rows count where an arm was there; a target that plays it elsewhere is refused."""
    arms = np.concatenate([np.arange(20) % 2, np.arange(40) % 3])
    rewards, was_there = (arms == 2).astype(float), (np.arange(60) >= 20)[:, None]
    shares = np.where(was_there, [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0])
    target = np.where(was_there, [0.25, 0.25, 0.5], [0.5, 0.5, 0.0])
    log = Log(("a", "b", "c"), arms, rewards, shares[np.arange(60), arms], changes=(Change(20, 2, True),))
    assert value_of(log, target).estimates["ips"].value == pytest.approx(1.5 * 13 / 60)
    with refused("target", "'c'", "decision 1,"):
        value_of(log, np.array([0.25, 0.25, 0.5]))
    left = Log(log.labels, arms[::-1], rewards, log.propensities[::-1], changes=(Change(40, 2, False),))
    with refused("target", "'c'", "decision 41,"):
        value_of(left, np.array([0.25, 0.25, 0.5]))


def test_an_arm_that_came_later_where_the_log_does_not_say_so() -> None:
    """The third arm has 0.7 of the target and a rate of 0.7, and came after 1,000 of 1,500 rows: ips is far below 0.57.
    Intervals hold nevertheless, and are warned of.
    """
    rng = np.random.default_rng(3)
    arms = np.concatenate([rng.integers(0, 2, 1000), rng.integers(0, 3, 500)])
    rewards = (rng.random(1500) < np.array([0.2, 0.3, 0.7])[arms]).astype(float)
    log = Log(("a", "b", "c"), arms, rewards, np.repeat([1 / 2, 1 / 3], [1000, 500]))
    target = np.array([0.1, 0.2, 0.7])
    weights, _ = weighted(log, target)
    for adaptive, warning in ((None, ADAPTIVE), (False, odd_weights(weights))):
        found = value_of(log, target, adaptive=adaptive)
        assert (found.warning, warning is None) == (warning, False)
        assert found.estimates["ips"].value < 0.4
        assert all(each.low < 0.57 < each.high for each in found.estimates.values())


def test_a_target_that_nothing_was_decided_by() -> None:
    log = Log(("a", "b"), np.array([0, 1] * 4), np.ones(8), np.full(8, 0.5))
    with refused("weights"):
        value_of(log, np.array([[0.0, 1.0], [1.0, 0.0]] * 4))


@pytest.mark.parametrize("alpha", [0, 1, 2, -0.1, math.nan, True, "0.05"])
def test_what_is_no_alpha(alpha: Any) -> None:
    with refused("alpha", alpha):
        value_of(small(), np.array([0.5, 0.5]), alpha=alpha)
    with refused("alpha", alpha):
        learner_values(small(), ["ucb"], alpha=alpha)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_predictions_are_numbers(value: float) -> None:
    with refused("means", "[0, 1]", value):
        value_of(small(), np.array([0.5, 0.5]), means=np.array([0.5, value]))
    with refused("means", "[2, 0]", value):
        value_of(small(), np.array([0.5, 0.5]), means=np.array([[0.5, 0.5]] * 2 + [[value, 0.5]] * 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rewards", math.nan),
        ("rewards", -0.5),
        ("rewards", 1.5),
        ("weights", math.nan),
        ("weights", math.inf),
        ("weights", -1.0),
        ("baselines", math.nan),
        ("baselines", math.inf),
    ],
)
def test_rows_are_numbers(name: str, value: float) -> None:
    rows: dict[str, Any] = {"rewards": np.ones(4), "weights": np.ones(4), "baselines": np.zeros(4)}
    rows[name][2] = value
    with refused(name, f"{name}[2]", value):
        off_policy(**rows)


@pytest.mark.parametrize("name", ["weights", "baselines"])
def test_there_is_a_number_for_each_row(name: str) -> None:
    rows: dict[str, Any] = {"rewards": np.ones(4), "weights": np.ones(4), "baselines": np.zeros(4)}
    for shape in ((3,), (4, 1), (1,)):
        with refused(name, shape, "(4,)"):
            off_policy(**(rows | {name: np.ones(shape)}))


@pytest.mark.parametrize("largest", [0, -1.0, math.nan, math.inf, 1.5])
def test_what_is_no_largest_weight(largest: float) -> None:
    with refused("largest", largest):
        off_policy(np.ones(4), np.array([0.0, 0.0, 2.0, 2.0]), np.zeros(4), largest=largest)


def test_weights_whose_mean_is_not_1() -> None:
    """Two arms of three had a chance, and the target plays the third with 0.4: rows are worth 0.25, the target 0.55.
    Normal intervals are tight around 0.15; the one that is told holds the truth, whatever it is.
    """
    rng = np.random.default_rng(4)
    arms = rng.integers(0, 2, 2000)
    rewards = (rng.random(2000) < np.array([0.2, 0.3])[arms]).astype(float)
    weights = np.array([0.3, 0.3])[arms] / 0.5
    found = off_policy(rewards, weights, np.zeros(2000))
    assert found.warning == odd_weights(weights)
    assert "0.6," in str(found.warning)
    for estimate in found.estimates.values():
        assert estimate.low < 0.15 < 0.55 < estimate.high
    assert found.estimates["ips"][1:] == martingale_interval(rewards, weights, 0.05)
    with refused("target", "'c'"):
        value_of(Log(("a", "b", "c"), arms, rewards, np.full(2000, 0.5)), np.array([0.3, 0.3, 0.4]))


@pytest.mark.parametrize("propensities", [[0.5, 0.5], [0.9, 0.3]])
def test_propensities_that_are_not_true_are_warned_of(propensities: list[float]) -> None:
    """Arms are drawn with 0.7 and 0.3. By the target (0.1, 0.9) the mean of weights is 0.68 or 0.98 of what it is."""
    log = drawn(np.random.default_rng(5), 4000, [0.7, 0.3], [0.2, 0.5])
    target = np.array([0.1, 0.9])
    assert value_of(log, target).warning is None
    false = value_of(Log(log.labels, log.arms, log.rewards, np.array(propensities)[log.arms]), target)
    mean = (target / np.array(propensities))[log.arms].mean()
    assert (false.warning is None) == (abs(mean - 1.0) < 0.1)


def test_weights_are_seldom_odd_where_propensities_are_true() -> None:
    """Shares from 0.02 to 0.98, 300 rows, 500 logs: none is. Nor are those that are rounded to three digits."""
    rng = np.random.default_rng(6)
    for _ in range(500):
        shares = rng.dirichlet([1.0, 1.0, 1.0]) * 0.94 + 0.02
        weights = (rng.dirichlet([1.0, 1.0, 1.0]) / shares)[rng.choice(3, 300, p=shares)]
        assert odd_weights(weights) is None
    assert odd_weights(np.full(10**5, (1 / 3) / 0.333)) is None
    assert odd_weights(np.full(100, 0.98)) is not None
    assert odd_weights(np.full(10_000, 1.02)) is not None


def test_whether_propensities_follow_outcomes_can_be_said() -> None:
    """By default they are taken to where those of an arm differ, or chances of an arm that was not chosen do."""
    rng = np.random.default_rng(7)
    first = np.where(np.arange(400) % 2 == 0, 0.4, 0.6)
    arms = (rng.random(400) >= first).astype(np.int64)
    rewards = (rng.random(400) < 0.4).astype(float)
    log = Log(("a", "b"), arms, rewards, np.where(arms == 0, first, 1.0 - first))
    target = np.array([0.5, 0.5])
    assert value_of(log, target).warning == value_of(log, target, adaptive=True).warning == ADAPTIVE
    independent = value_of(log, target, adaptive=False)
    assert independent == off_policy(rewards, *weighted(log, target))
    assert independent.warning is None
    fixed = Log(("a", "b"), arms, rewards, np.full(400, 0.5))
    assert value_of(fixed, target).warning is None
    assert value_of(fixed, target, adaptive=True).warning == ADAPTIVE
    other = np.where((arms == 1) | (np.arange(400) < 200), 0.5, 0.4)
    chances = np.column_stack([np.full(400, 0.5), other, 0.5 - other])
    moving = Log(("a", "b", "c"), arms, rewards, np.full(400, 0.5), None, chances)
    assert value_of(moving, np.array([0.5, 0.5, 0.0])).warning == ADAPTIVE
    with refused("target", "'c'"):
        value_of(Log(("a", "b", "c"), arms, rewards, log.propensities), np.full(3, 1 / 3), adaptive=False)


def test_the_interval_of_a_martingale_by_hand() -> None:
    """Two rows, weights 2 and 0.5, rewards 1 and 0; c is 1/2, then 2.5 / 3. Capital at the ends: 2 / alpha."""
    rewards, weights, alpha = np.array([1.0, 0.0] * 200), np.array([2.0, 0.5] * 200), 0.1
    low, high = martingale_interval(rewards, weights, alpha)
    centres, seen = [], (0.5, 1.0)
    for reward, weight in zip(rewards, weights, strict=True):
        centres.append(seen[0] / seen[1])
        seen = seen[0] + weight * reward, seen[1] + weight
    assert centres[:2] == [0.5, 2.5 / 3.0]
    for end, part, middles in ((low, rewards, centres), (1.0 - high, 1.0 - rewards, [1.0 - c for c in centres])):
        above = sum(weights * part) - 400 * end
        squares = sum((weights * part - np.array(middles)) ** 2)
        capital = WEIGHTS @ np.exp(SHARES * above - (-np.log1p(-SHARES) - SHARES) * squares)
        assert capital == pytest.approx(2.0 / alpha, rel=1e-9)


def test_the_margin_is_where_the_capital_is_exp_level() -> None:
    squares = np.array([0.0, 3.0, 1e4])
    penalties = -np.log1p(-SHARES) - SHARES
    capital = np.exp(np.outer(margin(squares, 4.0), SHARES) - np.outer(squares, penalties)) @ WEIGHTS
    assert np.log(capital) == pytest.approx(np.full(3, 4.0), rel=1e-9)


@pytest.mark.parametrize("learner", ["thompson", "guarded"])
def test_intervals_hold_on_logs_of_learners(learner: str) -> None:
    """60 logs of 400 rows whose propensities follow the outcomes: nearly all hold."""
    target, means = np.array([0.1, 0.3, 0.6]), np.array([0.3, 0.4, 0.6])
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        bandit = Bandit(3, learner, seed=1000 + seed)
        arms, propensities = np.empty(400, dtype=np.int64), np.empty(400)
        rewards = np.empty(400)
        for t in range(400):
            decision = bandit.decide()
            arms[t], propensities[t] = decision.arm, decision.propensity
            rewards[t] = float(rng.random() < means[arms[t]])
            bandit.observe(decision, reward=rewards[t])
        found = value_of(Log((0, 1, 2), arms, rewards, propensities), target)
        assert found.warning == ADAPTIVE
        assert len({each[1:] for each in found.estimates.values() if low_high(each)}) == 1
        low, high = martingale_interval(rewards, target[arms] / propensities, 0.05)
        held += low <= float(target @ means) <= high
    assert held >= 57


def low_high(estimate: Any) -> bool:
    """Whether the interval was not widened to hold its estimate."""
    return bool(estimate.low < estimate.value < estimate.high)


@pytest.mark.skipif(missing("open-bandit-men") is not None, reason="needs obp")
@pytest.mark.parametrize("campaign", ["all", "men", "women"])
@pytest.mark.parametrize(("source", "target"), [("random", "bts"), ("bts", "random")])
def test_open_bandit_as_obp_has_it(campaign: str, source: str, target: str) -> None:
    """To 1e-9. obp's model is the mean of each item over all rows, and 0 for one that was never shown."""
    rows = read_open_bandit(campaign, source)
    log, items = rows.log, len(OBP["thompson"][campaign])
    assert len(log.labels) == items
    policy = np.array(OBP["thompson"][campaign]) if target == "bts" else np.full((items, 3), 1.0 / items)
    shown = np.bincount(log.arms, minlength=items)
    means = np.bincount(log.arms, log.rewards, minlength=items) / np.maximum(shown, 1)
    found = off_policy(log.rewards, *weighted(log, policy.T[rows.positions], means=means))
    theirs = {
        each["estimator"]: each["value"]
        for each in OBP["values"]
        if (each["campaign"], each["from"], each["to"]) == (campaign, source, target)
    }
    assert theirs.keys() == found.estimates.keys()
    for name, value in theirs.items():
        assert found.estimates[name].value == pytest.approx(value, abs=1e-9, rel=1e-9), name
    size = OBP["effective_sample_size"][campaign][f"{source}->{target}"]
    assert found.effective_size == pytest.approx(size, rel=1e-9)
    assert int(log.rewards.sum()) == OBP["clicks"][campaign][source]
    assert (
        OBP["sha256"] | {f"obp/{path}": digest for path, digest in DATA[f"open-bandit-{campaign}"].files.items()}
        == (OBP["sha256"])
    )


@pytest.mark.parametrize(
    ("shares", "means", "rows"),
    [
        ([1 / 3, 1 / 3, 1 / 3], [0.3, 0.4, 0.6], 400),
        ([0.6, 0.25, 0.15], [0.3, 0.4, 0.6], 800),
        ([1 / 3, 1 / 3, 1 / 3], [0.02, 0.03, 0.06], 3000),
        ([0.5, 0.3, 0.2], [0.02, 0.03, 0.06], 3500),
    ],
    ids=["uniform", "unequal", "uniform, rare", "unequal, rare"],
)
def test_intervals_hold_as_often_as_they_say(shares: list[float], means: list[float], rows: int) -> None:
    """600 logs: 95 % of the intervals, less or more 3 % and a half: four standard errors. No log is too small."""
    target = np.array([0.1, 0.3, 0.6])
    truth = float(target @ means)
    rng = np.random.default_rng(7)
    hits = dict.fromkeys(("ips", "snips", "dr"), 0)
    for _ in range(600):
        found = value_of(drawn(rng, rows, shares, means), target)
        assert found.warning is None
        for name, estimate in found.estimates.items():
            hits[name] += estimate.low <= truth <= estimate.high
    assert all(0.915 <= each / 600 <= 0.985 for each in hits.values()), hits


@pytest.mark.parametrize(("means", "rows"), [([0.002, 0.003, 0.02], 200), ([0.99, 0.97, 0.999], 300)])
def test_wide_intervals_hold_at_least_as_often(means: list[float], rows: int) -> None:
    """500 logs, nearly all of them warned of."""
    target, shares = np.array([0.1, 0.3, 0.6]), [0.6, 0.25, 0.15]
    truth = float(target @ means)
    rng = np.random.default_rng(8)
    hits, warned = dict.fromkeys(("ips", "snips", "dr"), 0), 0
    for _ in range(500):
        found = value_of(drawn(rng, rows, shares, means), target)
        if found.warning is not None:
            warned += 1
            for name, estimate in found.estimates.items():
                hits[name] += estimate.low <= truth <= estimate.high
    assert warned > 375
    assert all(each / warned >= 0.95 for each in hits.values()), hits
