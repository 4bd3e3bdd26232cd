"""Off-policy estimates: what another way of deciding would have been worth, from rows that were decided otherwise.

Row i has a reward r_i, the arm's propensity pi_i in the log, and its probability p_i under the other way, the target.
With w_i = p_i / pi_i, and q any predictions of rewards that do not depend on row i:

    ips     mean of w_i r_i                                       (Horvitz & Thompson 1952)
    snips   sum of w_i r_i / sum of w_i                           (Hajek 1971; Swaminathan & Joachims 2015)
    dr      mean of sum_a p(a) q(a) + w_i (r_i - q(arm_i))        (Robins, Rotnitzky & Zhao 1994; Dudik et al. 2011)

The effective sample size is (sum w)^2 / sum w^2 (Kish 1965): as many rows decided by the target would tell as much.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.inference import Estimate
from belated.logs import Log

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATORS = ("ips", "snips", "dr")
FEWEST = 20
"""Effective rows with a reward, and without, that a normal interval needs."""


class OffPolicy(NamedTuple):
    """What a target is worth: the mean reward of a decision."""

    estimates: dict[str, Estimate]
    """By the names of `ESTIMATORS`."""
    effective_size: float
    warning: str | None
    """Why the log can hardly carry it; None if it can. Intervals are then the wide ones of `bernstein`."""


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
        f"The log can hardly carry this: by weight, it has about {size:.3g} rows with a reward, or without one;"
        f" {FEWEST} are needed. The interval is the wide one of the empirical Bernstein bound."
    )


def bernstein(rewards: Floats, weights: Floats, largest: float, alpha: float) -> tuple[float, float]:
    """Return an interval for the mean that holds for every number of rows, where no weight is above `largest`.

    mean +- sqrt(2 v x / n) + 3 b x / n with x = log(3 / alpha), v the variance, b = largest (Audibert, Munos &
    Szepesvari 2009, Theorem 1).
    """
    weighted = weights * rewards
    x = math.log(3.0 / alpha)
    half = math.sqrt(2.0 * float(weighted.var()) * x / weighted.size) + 3.0 * largest * x / weighted.size
    return max(float(weighted.mean()) - half, 0.0), min(float(weighted.mean()) + half, 1.0)


def clipped(value: float, half: float) -> Estimate:
    """Return an estimate with the ends of its interval, which are not beyond 0 and 1."""
    return Estimate(value, min(max(value - half, 0.0), 1.0), max(min(value + half, 1.0), 0.0))


def off_policy(
    rewards: Floats, weights: Floats, baselines: Floats, *, largest: float | None = None, alpha: float = 0.05
) -> OffPolicy:
    """Return the estimates of rows whose rewards are all known, with normal intervals where the rows can carry them."""
    if not rewards.size:
        raise InvalidValue("there are no rows; at least one is needed", "rewards")
    found = sums(rewards, weights, baselines)
    warning = hardly(rewards, weights)
    if warning is None:
        z = NormalDist().inv_cdf(1.0 - alpha / 2.0)
        estimates = {
            name: clipped(value, z * error)
            for name, value, error in zip(ESTIMATORS, found.values.tolist(), found.errors.tolist(), strict=True)
        }
    else:
        low, high = bernstein(rewards, weights, float(weights.max()) if largest is None else largest, alpha)
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
        With true propensities and an outcome for every decision.
    target
        The probability of each arm, in the order of `log.labels`: the same in all rows, (arms,), or one row for each
        decision, (decisions, arms).
    means
        Predictions q of each arm's reward for `dr`, of the same shapes; by default means of the arms, for each half of
        the rows from the other half.
    alpha
        The probability with which each interval may be wrong.
    """
    size, n_arms = log.arms.size, len(log.labels)
    target = _matrix("target", target, size, n_arms)
    if not (target >= 0.0).all() or not np.allclose(target.sum(axis=1), 1.0, atol=1e-6):
        raise InvalidValue(
            "target has rows that are not probabilities; numbers from 0 on that sum to 1 are needed", "target"
        )
    if np.isnan(log.propensities).any():
        raise InvalidValue("the log lacks propensities; the true probability of each decision is needed", "propensity")
    if np.isnan(log.rewards).any():
        raise InvalidValue(
            "the log has decisions without an outcome; a deadline that gives them one is needed", "reward"
        )
    rows = np.arange(size)
    weights = target[np.minimum(rows, len(target) - 1), log.arms] / log.propensities
    if means is None:
        half = rows % 2
        crossed = arm_means(log.arms, log.rewards, n_arms, 1 - half)
        expected = np.sum(target * crossed[half], axis=1)
        predicted = crossed[half, log.arms]
    else:
        means = _matrix("means", means, size, n_arms)
        expected = np.broadcast_to(np.sum(target * means, axis=1), size)
        predicted = means[np.minimum(rows, len(means) - 1), log.arms]
    largest = float(1.0 / log.propensities.min(initial=1.0))
    return off_policy(log.rewards, weights, expected - weights * predicted, largest=largest, alpha=alpha)


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
