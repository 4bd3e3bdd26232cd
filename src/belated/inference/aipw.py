"""Fixed-time intervals from propensities: adaptively weighted augmented inverse-propensity weighting (AIPW).

The mean of an arm under adaptive allocation is biased, and its usual interval wrong. Where every decision was drawn
from a known distribution, each round t has an unbiased score for each arm w, whatever arm it played:

    Gamma_t(w) = m_t(w) + 1{A_t = w} / e_t(w) * (R_t - m_t(w)),

e_t(w) the probability that arm w had in round t, m_t(w) the mean of the arm's earlier rewards, 0 before the first.
A weighted mean of the scores is the estimate,

    Q(w) = sum h_t(w) Gamma_t(w) / sum h_t(w),    V(w) = sum h_t(w)^2 (Gamma_t(w) - Q(w))^2 / (sum h_t(w))^2,

and Q(w) +- z sqrt(V(w)) the interval. Weights depend on earlier rounds alone; those that spread the variance evenly
over the rounds make Q asymptotically normal though propensities shrink, at the price of a bias smaller than its error.
They come from allocation rates lambda_t(w), the share of the variance not yet spent that round t may spend:

    h_t(w)^2 / e_t(w) = lambda_t(w) prod over s < t of (1 - lambda_s(w)).

constant
    lambda_t = 1 / (T - t + 1), which makes h_t = sqrt(e_t).
two-point
    lambda_t = e_t / (T - t + 1) + (1 - e_t) t^-a / (t^-a + integral from t to T of s^-a ds). Either the arm turns out
    to be the best and its propensity stays, or it falls as t^-a: spend what is right on average. a is `decay`; a = 0
    is "constant". It gives the earlier rounds of a losing arm more weight, as their scores vary least.
uniform
    h_t = 1: plain AIPW. Exactly unbiased, but wider, and normal only where propensities stay away from 0 or settle.

Hadad, Hirshberg, Zhan, Wager & Athey 2021, "Confidence intervals for policy evaluation in adaptive experiments" (PNAS
118; arXiv 1911.02768). Scores, estimate, variance and both rates were checked against the authors' program and numbers
that it printed (tests/inference/test_published.py); the equations of the paper are (5) for Q, (11) for V and (15) for
constant rates, as others quote them. Its theory asks for propensities that fall no faster than t^-a with a < 1
(recalled). The interval holds for large T at one T chosen beforehand, not under repeated looks, and needs plays: of an
arm that loses and whose propensity falls to 0.5 t^-0.7, intervals at T = 1,000 had the mean in them in 92 % of trials,
not in 95. Propensities must be true: those of a learner that reports 1 for the arm it picks cannot be used, and are
refused because the other arms have 0.
"""

from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated.errors import InvalidValue, check_count, unknown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NOT_ONE = 1e-6
"""How far the sum of a distribution may be from 1."""


class Intervals(NamedTuple):
    """What is known about each arm: arrays with one number per arm."""

    estimate: Floats
    """nan for an arm that was never played"""
    low: Floats
    high: Floats
    """Neither is cut to the range of rewards. All that is possible for an arm that was never played."""
    standard_error: Floats


def aipw(
    arms: ArrayLike,
    rewards: ArrayLike,
    distributions: ArrayLike,
    *,
    weights: str = "two-point",
    decay: float = 0.7,
    level: float = 0.95,
) -> Intervals:
    """Return the estimate and the interval of every arm's mean reward.

    Parameters
    ----------
    arms
        The arm of each round, T whole numbers from 0.
    rewards
        What it brought, T numbers from 0 to 1, in the order of the decisions. Each is known: take rounds only as far
        as all of them are settled.
    distributions
        The probability of each arm in each round, T x K, each positive.
    weights
        two-point, constant or uniform; see above.
    decay
        a of the two-point rates, 0 <= a < 1. The theory does not need the right one; intervals are narrowest where the
        propensities of losing arms fall like t^-a. Where they do not fall at all, take 0, or constant weights.
    level
        The share of experiments whose interval has the mean in it, for each arm by itself.

    >>> found = aipw([0, 1, 0, 1], [1.0, 0.0, 1.0, 1.0], [[0.5, 0.5]] * 4, weights="uniform")
    >>> found.estimate.tolist(), found.standard_error.round(4).tolist()
    ([1.25, 0.5], [0.2165, 0.433])
    """
    logs = _check(arms, rewards, distributions)
    quantile = _quantile(level)
    spend = _weights(weights, decay)
    found = [_estimate(*terms) for terms in _terms(*logs, spend)]
    estimate = np.array([value for value, _ in found])
    error = np.array([np.sqrt(np.sum(shares**2)) for _, shares in found])
    played = np.bincount(logs[0], minlength=logs[2].shape[1]) > 0
    return _intervals(estimate, error, quantile, played, least=0.0)


def aipw_differences(
    arms: ArrayLike,
    rewards: ArrayLike,
    distributions: ArrayLike,
    base: int,
    *,
    weights: str = "two-point",
    decay: float = 0.7,
    level: float = 0.95,
) -> Intervals:
    """Return the estimate and the interval of every arm's mean reward less that of the arm `base`; 0 for itself.

    It is the difference of the two weighted estimates, each with weights of its own. Weighting the differences of the
    scores would be unbiased, too, but one set of weights would have to serve both arms, and the arm with the smaller
    propensities would set it. A round's shares in both errors are subtracted before they are squared, so that the
    variance has their covariance in it (as in the authors' program).
    """
    logs = _check(arms, rewards, distributions)
    number = logs[2].shape[1]
    if check_count("base", base, 0) >= number:
        raise InvalidValue(f"base is {base}; an arm from 0 to {number - 1} is needed", "base")
    quantile = _quantile(level)
    spend = _weights(weights, decay)
    [own_terms] = _terms(*logs, spend, only=base)
    value, own = _estimate(*own_terms)
    found = [_estimate(*terms) for terms in _terms(*logs, spend)]
    estimate = np.array([each - value for each, _ in found])
    error = np.array([np.sqrt(np.sum((shares - own) ** 2)) for _, shares in found])
    counts = np.bincount(logs[0], minlength=number)
    known = (counts > 0) & (counts[base] > 0)
    known[base] = True
    return _intervals(estimate, error, quantile, known, least=-1.0)


Weights = Callable[[Floats], Floats]


def _terms(
    arms: Integers, rewards: Floats, distributions: Floats, weights: Weights, only: int | None = None
) -> Iterator[tuple[Floats, Floats]]:
    """Yield the scores and the weights of each arm. One arm at a time keeps memory at a few arrays of T numbers."""
    for arm in range(distributions.shape[1]) if only is None else (only,):
        propensity = np.ascontiguousarray(distributions[:, arm])
        played = arms == arm
        yield _scores(played, rewards, propensity), weights(propensity)


def _scores(played: NDArray[np.bool_], rewards: Floats, propensity: Floats) -> Floats:
    """Return Gamma_t of one arm."""
    sums = np.cumsum(np.where(played, rewards, 0.0))
    counts = np.cumsum(played)
    means = np.zeros(len(rewards))
    means[1:] = sums[:-1] / np.maximum(counts[:-1], 1)
    return means + np.where(played, (rewards - means) / propensity, 0.0)


def _estimate(scores: Floats, weights: Floats) -> tuple[float, Floats]:
    """Return Q and the share of each round in its error; the squares of the shares add up to V."""
    shares = weights / weights.sum()
    value = float(shares @ scores)
    return value, shares * (scores - value)


def _weights(name: str, decay: float) -> Weights:
    if not 0.0 <= decay < 1.0:
        raise InvalidValue(f"decay is {decay!r}; a number from 0 to below 1 is needed", "decay")
    named: dict[str, Weights] = {
        "constant": np.sqrt,
        "two-point": lambda propensity: _two_point(propensity, decay),
        "uniform": np.ones_like,
    }
    if name not in named:
        raise unknown("weights", name, named)
    return named[name]


def _two_point(propensity: Floats, decay: float) -> Floats:
    rounds = len(propensity)
    t = np.arange(1.0, rounds + 1.0)
    best = 1.0 / (rounds - t + 1.0)
    # Both parts of the fraction times (1 - a) t^a: no power of t can overflow or vanish.
    losing = (1.0 - decay) / ((1.0 - decay) + rounds * (t / rounds) ** decay - t)
    rates = np.minimum(propensity * best + (1.0 - propensity) * losing, 1.0)  # rounding may pass 1 at the end
    unspent = np.ones(rounds)
    np.cumprod(1.0 - rates[:-1], out=unspent[1:])
    return np.sqrt(propensity * rates * unspent)


def _intervals(estimate: Floats, error: Floats, quantile: float, known: NDArray[np.bool_], least: float) -> Intervals:
    estimate, error = np.where(known, estimate, np.nan), np.where(known, error, np.nan)
    low = np.where(known, estimate - quantile * error, least)
    high = np.where(known, estimate + quantile * error, 1.0)
    return Intervals(estimate, low, high, error)


def _quantile(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise InvalidValue(f"level is {level!r}; a number between 0 and 1 is needed", "level")
    return NormalDist().inv_cdf((1.0 + level) / 2.0)


def _check(arms: ArrayLike, rewards: ArrayLike, distributions: ArrayLike) -> tuple[Integers, Floats, Floats]:
    """Return what was logged as arrays, or raise for the first round that cannot be right."""
    p = np.asarray(distributions, dtype=np.float64)
    if p.ndim != 2 or p.shape[0] < 1 or p.shape[1] < 2:
        raise InvalidValue(
            f"distributions has shape {p.shape}; a row for each round and 2 or more columns of arms are needed",
            "distributions",
        )
    played, y = np.asarray(arms), np.asarray(rewards, dtype=np.float64)
    for name, given in (("arms", played), ("rewards", y)):
        if given.shape != p.shape[:1]:
            raise InvalidValue(f"{name} has shape {given.shape}; {p.shape[:1]} is needed, as distributions has", name)
    if not np.issubdtype(played.dtype, np.integer):
        raise InvalidValue(f"arms has numbers of type {played.dtype}; whole numbers are needed", "arms")
    _first(played, (played >= 0) & (played < p.shape[1]), "arms", f"an arm from 0 to {p.shape[1] - 1}")
    _first(y, (y >= 0.0) & (y <= 1.0), "rewards", "a number from 0 to 1")
    wrong = np.argwhere(~((p > 0.0) & (p <= 1.0)))
    if len(wrong):
        round_, arm = (int(place) for place in wrong[0])
        raise InvalidValue(
            f"distributions[{round_}, {arm}] is {p[round_, arm]}: in round {round_}, arm {arm} had no known chance; "
            "a probability above 0 and up to 1 is needed for every arm in every round",
            "distributions",
        )
    sums = p.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1.0) > NOT_ONE)
    if off.size:
        raise InvalidValue(f"distributions[{off[0]}] adds up to {sums[off[0]]}; 1 is needed", "distributions")
    return played.astype(np.int64, copy=False), y, p


def _first(values: Integers | Floats, right: NDArray[np.bool_], name: str, needed: str) -> None:
    wrong = np.flatnonzero(~right)
    if wrong.size:
        raise InvalidValue(f"{name}[{wrong[0]}] is {values[wrong[0]]}; {needed} is needed", name)
