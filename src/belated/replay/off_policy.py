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

from belated.errors import InvalidValue, check_alpha, check_positive
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
    "Propensities are taken to follow earlier outcomes, as those of a learner do. The interval is a wide one that holds"
    " however they did; a share floor makes it narrower. If they follow something else, such as the visitor,"
    " adaptive=False takes rows as independent."
)
FAR = 5.0
"""Standard errors beyond which the mean of weights is not 1, as it must be."""
LITTLE = 0.01
"""How far it may be off in any case: propensities may be rounded."""
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
    """Why the log can hardly carry it; None if it can. With a warning, all three intervals are a wide one."""


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


def odd_weights(weights: Floats) -> str | None:
    """Return what is wrong with weights whose mean is not 1; None if it may be.

    Their mean is 1 where propensities are true, and every arm of the target had a chance.
    """
    mean, square = float(weights.mean()), float(weights @ weights) / weights.size
    # The variance as it is, and as it would be were the mean 1: few rows of an arm tell too little of it.
    variance = max(square - mean**2, square / mean - 1.0, 0.0)
    if abs(mean - 1.0) <= max(FAR * math.sqrt(variance / weights.size), LITTLE):
        return None
    return (
        f"The mean of the weights is {mean:.3g}, and it must be 1: the target plays arms that had no chance, or"
        " propensities are not the true ones. The estimates are wrong. The interval is a wide one, which holds if"
        " propensities are true."
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

    Parameters
    ----------
    rewards, weights, baselines
        A number for each row: its reward, from 0 to 1; its weight, the probability of its arm under the target over its
        propensity; and sum_a p(a) q(a) - w q(arm), as `weighted` makes them.
    largest
        The largest weight that a row may have; by default the largest that one has.
    alpha
        The probability with which each interval may be wrong.
    adaptive
        Propensities depended on earlier outcomes: rows are not independent, and no interval is normal.

    Raises
    ------
    InvalidValue
        Where a number is none, or not in its range; where there are no rows; where all weights are 0.
    """
    check_alpha(alpha)
    if not rewards.size:
        raise InvalidValue("there are no rows; at least one is needed", "rewards")
    for name, values, lowest, highest in (
        ("rewards", rewards, 0.0, 1.0),
        ("weights", weights, 0.0, math.inf),
        ("baselines", baselines, -math.inf, math.inf),
    ):
        _check_numbers(name, values, rewards.size, lowest, highest)
    if not weights.any():
        raise InvalidValue("all weights are 0: no row was decided as the target might have decided it", "weights")
    if largest is not None and check_positive("largest", largest) < weights.max():
        raise InvalidValue(f"largest is {largest!r}, but a weight is {weights.max():.4g}; none may be above", "largest")
    found = sums(rewards, weights, baselines)
    odd = odd_weights(weights)
    warning = ADAPTIVE if adaptive else odd or hardly(rewards, weights)
    if warning is None:
        z = NormalDist().inv_cdf(1.0 - alpha / 2.0)
        estimates = {
            name: clipped(value, z * error)
            for name, value, error in zip(ESTIMATORS, found.values.tolist(), found.errors.tolist(), strict=True)
        }
    else:
        if adaptive or odd:
            low, high = martingale_interval(rewards, weights, alpha)
        else:
            low, high = wide_interval(rewards, weights, float(weights.max()) if largest is None else largest, alpha)
        estimates = {
            name: Estimate(value, min(low, value), max(high, value))
            for name, value in zip(ESTIMATORS, found.values.tolist(), strict=True)
        }
    return OffPolicy(estimates, effective_size(weights), warning)


def _check_numbers(name: str, values: Floats, size: int, lowest: float, highest: float) -> None:
    """Refuse values that are not one finite number for each row, in this range."""
    if values.shape != (size,):
        raise InvalidValue(f"{name} has the shape {values.shape}; ({size},) is needed", name)
    if (row := _first(~(np.isfinite(values) & (values >= lowest) & (values <= highest)))) is not None:
        ends = (f" from {lowest:g}" if lowest == 0.0 else "") + (f" to {highest:g}" if highest == 1.0 else "")
        raise InvalidValue(f"{name}[{row}] is {values[row].item()}; a finite number{ends} is needed", name)


def value_of(
    log: Log, target: Floats, *, means: Floats | None = None, alpha: float = 0.05, adaptive: bool | None = None
) -> OffPolicy:
    """Return what a fixed way of deciding would have been worth on a log.

    Parameters
    ----------
    log
        With true propensities and an outcome for every decision.
    target
        The probability of each arm, in the order of `log.labels`: the same in all rows, (arms,), or one row for each
        decision, (decisions, arms).
    means
        Predictions q of each arm's reward for `dr`, of the same shapes; by default means of the arms, for each half of
        the rows from the other half.
    alpha
        The probability with which each interval may be wrong.
    adaptive
        Whether propensities depended on earlier outcomes, as those of a learner do: intervals then hold however they
        did, and are wider. By default they are taken to, where those of an arm differ. False, where they depend on
        something else, such as the visitor: rows are then taken as independent.

    Raises
    ------
    InvalidValue
        Also where the target plays an arm that had no chance: it was never chosen, it was not there, or another one had
        a propensity of 1. Nothing is known of what it would have brought.
    """
    check_alpha(alpha)
    _check_chances(log, _checked_target(log, target))
    weights, baselines = weighted(log, target, means=means)
    return off_policy(
        log.rewards, weights, baselines, alpha=alpha, adaptive=propensities_vary(log) if adaptive is None else adaptive
    )


def weighted(log: Log, target: Floats, *, means: Floats | None = None) -> tuple[Floats, Floats]:
    """Return weights and baselines of a log's rows, for `off_policy`; arguments are those of `value_of`.

    Unlike `value_of`, it does not check chances: in ips and snips an arm that was never chosen counts with a reward of
    0.
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
        if (place := _first(~np.isfinite(means))) is not None:
            row, arm = divmod(place, n_arms)
            raise InvalidValue(
                f"means[{row}, {arm}] is {means[row, arm]}; a finite prediction of the arm's reward is needed", "means"
            )
        expected = np.broadcast_to(np.sum(target * means, axis=1), size)
        predicted = means[np.minimum(rows, len(means) - 1), log.arms]
    return weights, expected - weights * predicted


def _checked_target(log: Log, target: Floats) -> Floats:
    target = _matrix("target", target, log.arms.size, len(log.labels))
    if (place := _first(~(target >= 0.0))) is not None:
        row, arm = divmod(place, target.shape[1])
        raise InvalidValue(f"target[{row}, {arm}] is {target[row, arm]}; a probability is needed", "target")
    totals = target.sum(axis=1)
    if (row := _first(~(np.abs(totals - 1.0) <= 1e-6))) is not None:
        raise InvalidValue(f"target[{row}] sums to {totals[row]:.6g}; probabilities that sum to 1 are needed", "target")
    size = log.arms.size
    if (row := _first(np.isnan(log.propensities))) is not None:
        raise InvalidValue(
            f"decision {row + 1:,} of {size:,} has no propensity; the true probability of each decision is needed",
            "propensity",
        )
    if (row := _first(np.isnan(log.rewards))) is not None:
        raise InvalidValue(
            f"decision {row + 1:,} of {size:,} has no outcome; log.with_deadline(deadline, loss) gives one to decisions"
            f" that are old enough, and .head({size} - deadline) leaves out the younger ones, whatever came of them",
            "reward",
        )
    return target


def propensities_vary(log: Log) -> bool:
    """Return whether the propensities of an arm differ, by more than rounding."""
    if log.distributions is not None and np.ptp(log.distributions, axis=0).max(initial=0.0) > ROUNDING:
        return True
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
    """Return the first place where something is so, row by row; None where it never is."""
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
