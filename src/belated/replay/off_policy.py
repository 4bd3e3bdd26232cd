"""Off-policy estimates: what another way of deciding would have been worth, from rows that were decided otherwise.

Row i has a reward r_i, the arm's propensity pi_i in the log, and its probability p_i under the other way, the target.
With w_i = p_i / pi_i, and q any predictions of rewards that do not depend on row i:

    ips     mean of w_i r_i                                       (Horvitz & Thompson 1952)
    snips   sum of w_i r_i / sum of w_i                           (Hajek 1971; Swaminathan & Joachims 2015)
    dr      mean of sum_a p(a) q(a) + w_i (r_i - q(arm_i))        (Robins, Rotnitzky & Zhao 1994; Dudik et al. 2011)

Normal intervals need rows that are drawn independently. Where propensities follow earlier outcomes, as those of a
learner do, sums of w_i r_i are far from normal, but their errors are still a martingale: `belated.replay.martingale`.

The effective sample size is (sum w)^2 / sum w^2 (Kish 1965): as many rows decided by the target would tell as much.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_alpha
from belated.inference import Estimate
from belated.logs import Log
from belated.replay.martingale import martingale_interval

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATORS = ("ips", "snips", "dr")
FEWEST = 20
"""Effective rows with a reward, and without, that a normal interval needs."""
ROUNDING = 1e-9
"""By how much a propensity may be off, of its value."""
ADAPTIVE = (
    "The propensities of an arm differ, as those of a learner do, which follow earlier outcomes. The interval is a wide"
    " one that holds however they did."
)
RARE = 0.1
"""The largest mean of rewards that are taken for counts."""


class Range(NamedTuple):
    """Where a mean lies, where some rewards are missing that may be anything from 0 to 1: its interval alone.

    No value within it is more likely than another, however many rewards are known.
    """

    low: float
    high: float


class OffPolicy(NamedTuple):
    """What a target is worth: the mean reward of a decision."""

    estimates: dict[str, Estimate]
    """By the names of `ESTIMATORS`."""
    effective_size: float
    warning: str | None
    """Why the log can hardly carry it; None if it can. Intervals are then those of `wide_interval`, or of
    `martingale_interval`.
    """


class Sums(NamedTuple):
    """Estimates of one set of rows, with standard errors: an entry for each of `ESTIMATORS`."""

    values: Floats
    errors: Floats


def sums(rewards: Floats, weights: Floats, baselines: Floats) -> Sums:
    """Return the estimates, and their standard errors. `baselines` are sum_a p(a) q(a) - w q(arm)."""
    size = rewards.size
    weighted = weights * rewards
    robust = baselines + weighted
    total = max(float(weights.sum()), np.finfo(float).tiny)
    normalised = float(weighted.sum()) / total
    residuals = weights * (rewards - normalised)
    root = math.sqrt(size)
    spread = 1 if size > 1 else 0
    return Sums(
        np.array([weighted.mean(), normalised, robust.mean()]),
        np.array(
            [
                weighted.std(ddof=spread) / root,
                math.sqrt(float(residuals @ residuals)) / total,
                robust.std(ddof=spread) / root,
            ]
        ),
    )


def effective_size(weights: Floats) -> float:
    """Return (sum w)^2 / sum w^2; 0 where all weights are."""
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def hardly(rewards: Floats, weights: Floats) -> str | None:
    """Return why a normal interval cannot be trusted here; None if it can."""
    size = min(effective_size(weights * rewards), effective_size(weights * (1.0 - rewards)))
    if size >= FEWEST:
        return None
    return (
        f"The log can hardly carry this: by weight, it has about {size:.2g} rows with a reward, or without one;"
        f" {FEWEST} are needed. The interval is a wide one."
    )


def wide_interval(rewards: Floats, weights: Floats, largest: float, alpha: float) -> tuple[float, float]:
    """Return an interval where a normal one cannot be trusted: `rare` for rare rewards, else `bernstein`."""
    weighted = weights * rewards
    if float(weighted.mean()) <= RARE:
        return rare(weighted, largest, alpha)
    return bernstein(weighted, largest, alpha)


def rare(weighted: Floats, largest: float, alpha: float) -> tuple[float, float]:
    """Return an interval for the mean of weighted rewards that are rare, as counts of Poisson (Fay & Feuer 1997).

    With y the mean, v the sum of squares over n^2, w = largest / n and G(a, p) the p-quantile of the gamma distribution
    of shape a: from y G(a, alpha/2) / a, a = y^2 / v, to (y + w) G(b, 1 - alpha/2) / b, b = (y + w)^2 / (v + w^2).
    """
    size = weighted.size
    y, v, w = float(weighted.mean()), float(weighted @ weighted) / size**2, largest / size
    shape = (y + w) ** 2 / (v + w**2)
    high = min((y + w) * gamma_quantile(shape, 1.0 - alpha / 2.0) / shape, 1.0)
    return (y * gamma_quantile(y**2 / v, alpha / 2.0) / (y**2 / v) if y else 0.0), high


def gamma_quantile(shape: float, probability: float) -> float:
    """Return a quantile of the gamma distribution of scale 1, about (Wilson & Hilferty 1931)."""
    z = NormalDist().inv_cdf(probability)
    return float(shape * max(1.0 - 1.0 / (9.0 * shape) + z / (3.0 * math.sqrt(shape)), 0.0) ** 3)


def bernstein(weighted: Floats, largest: float, alpha: float) -> tuple[float, float]:
    """Return an interval for the mean that holds for every number of rows, where none is above `largest`.

    mean +- sqrt(2 v x / n) + 3 b x / n with x = log(3 / alpha), v the variance, b = largest (Audibert, Munos &
    Szepesvari 2009, Theorem 1).
    """
    x = math.log(3.0 / alpha)
    half = math.sqrt(2.0 * float(weighted.var()) * x / weighted.size) + 3.0 * largest * x / weighted.size
    return max(float(weighted.mean()) - half, 0.0), min(float(weighted.mean()) + half, 1.0)


def clipped(value: float, half: float) -> Estimate:
    """Return an estimate with the ends of its interval, which are not beyond 0 and 1."""
    return Estimate(value, min(max(value - half, 0.0), 1.0), max(min(value + half, 1.0), 0.0))


def off_policy(
    rewards: Floats,
    weights: Floats,
    baselines: Floats,
    *,
    largest: float | None = None,
    alpha: float = 0.05,
    adaptive: bool = False,
) -> OffPolicy:
    """Return the estimates of rows whose rewards are all known, with normal intervals where the rows can carry them.

    adaptive: propensities depended on earlier outcomes, so that rows are not independent; no interval is normal.
    """
    check_alpha(alpha)
    if not rewards.size:
        raise InvalidValue("there are no rows; at least one is needed", "rewards")
    if not weights.any():
        raise InvalidValue("all weights are 0: no row was decided as the target might have decided it", "weights")
    found = sums(rewards, weights, baselines)
    warning = ADAPTIVE if adaptive else hardly(rewards, weights)
    if warning is None:
        z = NormalDist().inv_cdf(1.0 - alpha / 2.0)
        estimates = {
            name: clipped(value, z * error)
            for name, value, error in zip(ESTIMATORS, found.values.tolist(), found.errors.tolist(), strict=True)
        }
    else:
        if adaptive:
            low, high = martingale_interval(rewards, weights, alpha)
        else:
            low, high = wide_interval(rewards, weights, float(weights.max()) if largest is None else largest, alpha)
        estimates = {
            name: Estimate(value, min(low, value), max(high, value))
            for name, value in zip(ESTIMATORS, found.values.tolist(), strict=True)
        }
    return OffPolicy(estimates, effective_size(weights), warning)


def value_of(log: Log, target: Floats, *, means: Floats | None = None, alpha: float = 0.05) -> OffPolicy:
    """Return what a fixed way of deciding would have been worth on a log.

    Parameters
    ----------
    log
        With true propensities and an outcome for every decision. Where the propensities of an arm differ, they are
        taken to depend on earlier outcomes, as those of a learner do: intervals then hold however they did, and are
        wider. If they depend on something else, such as the visitor, `off_policy` takes rows as independent.
    target
        The probability of each arm, in the order of `log.labels`: the same in all rows, (arms,), or one row for each
        decision, (decisions, arms).
    means
        Predictions q of each arm's reward for `dr`, of the same shapes; by default means of the arms, for each half of
        the rows from the other half.
    alpha
        The probability with which each interval may be wrong.

    Raises
    ------
    InvalidValue
        Also where the target plays an arm that had no chance: it was never chosen, it was not there, or another one had
        a propensity of 1. Nothing is known of what it would have brought.
    """
    check_alpha(alpha)
    _check_chances(log, _checked_target(log, target))
    weights, baselines = weighted(log, target, means=means)
    return off_policy(log.rewards, weights, baselines, alpha=alpha, adaptive=propensities_vary(log))


def weighted(log: Log, target: Floats, *, means: Floats | None = None) -> tuple[Floats, Floats]:
    """Return weights and baselines of a log's rows, for `off_policy`; arguments are those of `value_of`.

    An arm that was never chosen counts with a reward of 0 in ips and snips, whatever its chances were.
    """
    size, n_arms = log.arms.size, len(log.labels)
    target = _checked_target(log, target)
    rows = np.arange(size)
    weights = target[np.minimum(rows, len(target) - 1), log.arms] / log.propensities
    if means is None:
        half = rows % 2
        crossed = arm_means(log.arms, log.rewards, n_arms, 1 - half)
        expected = np.sum(target * crossed[half], axis=1)
        predicted = crossed[half, log.arms]
    else:
        means = _matrix("means", means, size, n_arms)
        if not np.isfinite(means).all():
            raise InvalidValue("means has a value that is no finite number; predictions of rewards are needed", "means")
        expected = np.broadcast_to(np.sum(target * means, axis=1), size)
        predicted = means[np.minimum(rows, len(means) - 1), log.arms]
    return weights, expected - weights * predicted


def _checked_target(log: Log, target: Floats) -> Floats:
    target = _matrix("target", target, log.arms.size, len(log.labels))
    if not (target >= 0.0).all() or not np.allclose(target.sum(axis=1), 1.0, atol=1e-6):
        raise InvalidValue(
            "target has rows that are not probabilities; numbers from 0 on that sum to 1 are needed", "target"
        )
    if np.isnan(log.propensities).any():
        raise InvalidValue("the log lacks propensities; the true probability of each decision is needed", "propensity")
    if (row := _first(np.isnan(log.rewards))) is not None:
        raise InvalidValue(
            f"decision {row + 1:,} of {log.arms.size:,} has no outcome; a deadline that gives it one is needed, and"
            f" decisions that are younger than the deadline are left out by log.head({row})",
            "reward",
        )
    return target


def propensities_vary(log: Log) -> bool:
    """Return whether the propensities of an arm differ, by more than rounding."""
    lowest, highest = np.full(len(log.labels), np.inf), np.zeros(len(log.labels))
    np.minimum.at(lowest, log.arms, log.propensities)
    np.maximum.at(highest, log.arms, log.propensities)
    return bool((highest > lowest * (1.0 + ROUNDING)).any())


def _check_chances(log: Log, target: Floats) -> None:
    """Refuse a target that plays an arm where it had no chance."""
    if not (size := log.arms.size):
        return
    rows = np.broadcast_to(target, (size, target.shape[1]))
    chosen = np.bincount(log.arms, minlength=len(log.labels)) > 0
    for arm in np.flatnonzero(~chosen & np.any(target > 0.0, axis=0)).tolist():
        raise InvalidValue(
            f"arm {log.labels[arm]!r} was never chosen, and the target plays it with probability"
            f" {target[:, arm].max():.3g}: nothing is known of it",
            "target",
        )
    if log.distributions is not None:
        had_none = (log.distributions == 0.0) & (rows > 0.0)
        if (row := _first(np.any(had_none, axis=1))) is not None:
            arm = int(np.argmax(had_none[row]))
            raise InvalidValue(
                f"arm {log.labels[arm]!r} had no chance in decision {row + 1:,}, and the target plays it there with"
                f" probability {rows[row, arm]:.3g}: nothing is known of it",
                "target",
            )
    had_none = log.propensities == 1.0
    others = rows[np.arange(size), log.arms] < 1.0 - ROUNDING
    if (row := _first(had_none & others)) is not None:
        raise InvalidValue(
            f"decision {row + 1:,} has a propensity of 1, so that other arms had no chance, and the target plays"
            f" {log.labels[log.arms[row]]!r} there with probability {rows[row, log.arms[row]]:.3g} only",
            "target",
        )
    present = np.arange(len(log.labels)) < log.first_arms
    begin = 0
    for after, arm, is_there in (*log.changes, (size, 0, True)):
        if (row := _first(np.any(rows[begin:after, ~present] > 0.0, axis=1))) is not None:
            absent = int(np.argmax((rows[begin + row] > 0.0) & ~present))
            raise InvalidValue(
                f"arm {log.labels[absent]!r} was not there in decision {begin + row + 1:,}, and the target plays it"
                f" with probability {rows[begin + row, absent]:.3g}: a row of 0 for it is needed there",
                "target",
            )
        present[arm], begin = is_there, max(after, begin)


def _first(found: Any) -> int | None:
    """Return the first place where something is so; None where it never is."""
    return int(np.argmax(found)) if found.any() else None


def arm_means(arms: Integers, rewards: Floats, n_arms: int, half: Integers) -> Floats:
    """Return the mean reward of each arm in each half of the rows: (2, arms). Few rows are drawn to the mean of all."""
    place = half * n_arms + arms
    counts = np.bincount(place, minlength=2 * n_arms).reshape(2, n_arms)
    totals = np.bincount(place, rewards, minlength=2 * n_arms).reshape(2, n_arms)
    overall = (totals.sum(axis=1) + 0.5) / (counts.sum(axis=1) + 1.0)
    found: Floats = (totals + overall[:, None]) / (counts + 1.0)
    return found


def _matrix(name: str, values: Floats, size: int, n_arms: int) -> Floats:
    given = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if given.shape not in ((1, n_arms), (size, n_arms)):
        raise InvalidValue(
            f"{name} has the shape {np.shape(values)}; ({n_arms},) or ({size}, {n_arms}) is needed", name
        )
    return given
