"""Confidence sequences for bounded means as published, plain and slow: what a faster or narrower one is compared with.

All take outcomes from 0 to 1 in their order. They were written from the formulas; `tests/inference/test_published.py`
holds them to numbers that the package confseq 0.0.11 printed.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def bets(outcomes: Floats, alpha: float) -> Floats:
    """Return the predictable plug-in bets of Waudby-Smith & Ramdas 2024, Section 3.2 and Theorem 3.

    lambda_t = sqrt(2 log(1/alpha) / (s_{t-1} t log(1 + t))), s_t = (1/4 + sum (x_i - mu_i)^2) / (t + 1),
    mu_t = (1/2 + sum x_i) / (t + 1). For two sides at alpha, both take alpha/2 here.
    """
    t = np.arange(1.0, len(outcomes) + 1.0)
    means = (0.5 + np.cumsum(outcomes)) / (t + 1.0)
    variances = (0.25 + np.cumsum((outcomes - means) ** 2)) / (t + 1.0)
    earlier = np.concatenate(([0.25], variances[:-1]))
    return np.sqrt(2.0 * math.log(1.0 / alpha) / (earlier * t * np.log1p(t)))


def hedged(
    outcomes: ArrayLike,
    alpha: float = 0.05,
    grid: ArrayLike | None = None,
    *,
    most: float = 0.5,
    intersect: bool = True,
) -> tuple[Floats, Floats]:
    """Return the hedged capital confidence sequence over time (Waudby-Smith & Ramdas 2024, Theorem 3).

    For each mean m of an evenly spaced grid: two gamblers share the capital in halves; one bets min(lambda_t, most / m)
    on more than m, the other min(lambda_t, most / (1 - m)) on less. m is out once one has 1/alpha. The ends are those
    of the means still in, a step of the grid further out, so that the grid never makes the interval narrower.

    With intersect, a mean that is out stays out.
    """
    x = np.asarray(outcomes, dtype=np.float64)
    means = np.linspace(0.0, 1.0, 1001) if grid is None else np.asarray(grid, dtype=np.float64)
    step = means[1] - means[0]
    base = bets(x, alpha / 2.0)
    low, high = np.full(len(x), np.inf), np.full(len(x), -np.inf)
    threshold = math.log(2.0 / alpha)
    for m in means:
        more = np.minimum(base, most / m if m > 0.0 else np.inf)
        less = np.minimum(base, most / (1.0 - m) if m < 1.0 else np.inf)
        capital = np.maximum(np.cumsum(np.log1p(more * (x - m))), np.cumsum(np.log1p(-less * (x - m))))
        inside = capital <= threshold
        low[inside] = np.minimum(low[inside], m)
        high[inside] = np.maximum(high[inside], m)
    empty = low > high
    low[empty], high[empty] = 0.0, 1.0
    low, high = np.maximum(low - step, 0.0), np.minimum(high + step, 1.0)
    return (np.maximum.accumulate(low), np.minimum.accumulate(high)) if intersect else (low, high)


def empirical_bernstein(
    outcomes: ArrayLike, alpha: float = 0.05, *, first: float | None = None
) -> tuple[Floats, Floats]:
    """Return the predictable plug-in empirical-Bernstein confidence sequence over time (the same paper, Theorem 2).

    sum lambda_i x_i / sum lambda_i +- (log(2/alpha) + sum (x_i - mu_{i-1})^2 (-log(1 - lambda_i) - lambda_i)) / sum
    lambda_i, with the bets above at alpha/2 and at most 1/2, mu as there. With `first`, mu is the plain mean of the
    earlier outcomes, `first` before there are any: confseq takes 0, for the upper end that of 1 - x.
    """
    x = np.asarray(outcomes, dtype=np.float64)
    low = _bernstein_low(x, alpha / 2.0, first)
    high = 1.0 - _bernstein_low(1.0 - x, alpha / 2.0, first)
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def _bernstein_low(x: Floats, alpha: float, first: float | None) -> Floats:
    t = np.arange(1.0, len(x) + 1.0)
    bet = np.minimum(bets(x, alpha), 0.5)
    means = (0.5 + np.cumsum(x)) / (t + 1.0) if first is None else np.cumsum(x) / t
    earlier = np.concatenate(([0.5 if first is None else first], means[:-1]))
    spent = np.cumsum((x - earlier) ** 2 * (-np.log1p(-bet) - bet))
    return (np.cumsum(bet * x) - math.log(1.0 / alpha) - spent) / np.cumsum(bet)


def log_mixture(successes: float, trials: float, mean: float, a: float, b: float) -> float:
    """Return the log of the beta-binomial mixture's capital against `mean` after so many successes of 0/1 outcomes.

    The likelihood ratio of a mean drawn from Beta(a, b) to `mean` (Robbins 1970; a = b = 1/2 is that of Krichevsky and
    Trofimov, and of Cover's universal portfolio between heads and tails).
    """
    failures = trials - successes
    mixed = _log_beta(a + successes, b + failures) - _log_beta(a, b)
    single = (successes * math.log(mean) if successes else 0.0) + (failures * math.log1p(-mean) if failures else 0.0)
    return mixed - single


def beta_binomial(outcomes: ArrayLike, alpha: float = 0.05, *, a: float = 0.5, b: float = 0.5) -> tuple[float, float]:
    """Return the interval after all 0/1 outcomes, from counts alone: means whose mixture has less than 1/alpha.

    For outcomes between 0 and 1 it holds as well, with their sum for the successes, and is as wide as for 0 and 1.
    """
    x = np.asarray(outcomes, dtype=np.float64)
    successes, trials = float(x.sum()), float(len(x))
    centre = successes / trials

    def inside(mean: float) -> bool:
        return log_mixture(successes, trials, mean, a, b) <= math.log(1.0 / alpha)

    low = 0.0 if successes == 0.0 else bisect(inside, centre, 0.0)
    high = 1.0 if successes == trials else bisect(inside, centre, 1.0)
    return low, high


def universal(outcomes: ArrayLike, alpha: float = 0.05, nodes: int = 400) -> tuple[float, float]:
    """Return the interval after all outcomes by Cover's universal portfolio (Orabona & Jun 2023), by quadrature.

    The capital against m is the mean over b of prod (b x_i / m + (1 - b) (1 - x_i) / (1 - m)), b from Beta(1/2, 1/2):
    b = sin^2 of evenly spread angles. For 0/1 outcomes that is the mixture above with a = b = 1/2. The nodes must be
    dense against the peak, whose width is m (1 - m) / (deviation sqrt(n)).
    """
    x = np.asarray(outcomes, dtype=np.float64)
    b = np.sin((np.arange(nodes) + 0.5) * math.pi / (2 * nodes))[:, None] ** 2

    def inside(mean: float) -> bool:
        # One outcome at a time adds its log to every node; the largest is taken out before the sum.
        logs = np.log(b * (x / mean) + (1.0 - b) * ((1.0 - x) / (1.0 - mean))).sum(axis=1)
        return float(logs.max() + np.log(np.exp(logs - logs.max()).mean())) <= math.log(1.0 / alpha)

    centre = float(x.mean())
    reach = 8.0 * (float(x.std()) + 1.0 / math.sqrt(len(x))) / math.sqrt(len(x))
    return (
        bisect(inside, centre, max(centre - reach, 1e-12), steps=20),
        bisect(inside, centre, min(centre + reach, 1.0 - 1e-12), steps=20),
    )


def bisect(inside: Callable[[float], bool], within: float, beyond: float, steps: int = 100) -> float:
    """Return where `inside` ends, on the way from a point within to one beyond."""
    for _ in range(steps):
        middle = 0.5 * (within + beyond)
        if inside(middle):
            within = middle
        else:
            beyond = middle
    return 0.5 * (within + beyond)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
