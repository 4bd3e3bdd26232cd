"""Capital: what a gambler owns who bets against a mean, and bounds from how much that is.

For outcomes r_1, r_2, … in [0, 1] of one arm, each with mean mu given all that came before, and m in (0, 1), the
gambler who suspects that mu is above m owns

    K_n(m) = sum over kappa of  w(kappa)  prod over i of (1 - kappa + kappa r_i / m)

after n outcomes: a mixture of gamblers who each bet the share kappa of what they own in every round. At m = mu each
product is a fair game, so P(K_n(mu) >= 1/alpha for some n) <= alpha (Ville's inequality), whatever the rule by which
arms are chosen and outcomes are looked at. The lower bound is the smallest m with K_n(m) < 1/alpha. The upper bound is
1 minus the lower bound of 1 - r_i. This is a confidence sequence by betting (Waudby-Smith & Ramdas 2024); its bets are
fixed shares instead of shares that follow the outcomes, so nothing depends on the order of outcomes, and their counts
are all that must be kept (`belated.inference.tally`).

log K_n is convex and decreasing in m. So bounds of sums such as mu_1 - mu_2 are convex problems, too: the capitals of
two arms, multiplied, are again the capital of one gambler, and the least sum of w_k m_k over all m with

    prod over k of K_k(m_k) < 1/alpha

is a lower bound of the sum of w_k mu_k (for w_k < 0 the capital of the gambler who suspects that mu_k is below m_k).
That is narrower than the difference of two intervals, by up to sqrt(2), since not both errors are large at once.

Functions here take many problems at once: counts of shape (problems, places). Places are the same from both ends.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS_OF_SHARES = np.arange(-8.0, 41.0)
SHARES: Floats = 1.0 / (1.0 + 2.0 ** (_STEPS_OF_SHARES / 2.0))
"""kappa: their odds are the powers of sqrt(2) from 16 down to 2^-20, enough for a billion outcomes."""
WEIGHTS: Floats = 1.0 / (1.0 + ((_STEPS_OF_SHARES - 6.0) / 6.0) ** 2)
WEIGHTS /= WEIGHTS.sum()
"""w(kappa): most for shares of 0.01 to 0.5, those that matter with some tens to some ten thousands of outcomes."""
LOG_WEIGHTS: Floats = np.log(WEIGHTS)
_LEAST = 1e-300
_HALVINGS = 60
_STEPS = 26
_DUAL_STEPS = 20


def log_capital(counts: Floats, places: Floats, m: Floats) -> Floats:
    """Return log K(m) of the gambler who suspects that the mean is above m; m > 0, one for each row of counts."""
    return _with_slope(counts, places, m)[0]


def _with_slope(counts: Floats, places: Floats, m: Floats) -> tuple[Floats, Floats]:
    """Return log K(m) and its derivative."""
    m = np.maximum(m, _LEAST)
    ratio = (places / m[:, None])[:, None, :]
    factor = 1.0 + SHARES[:, None] * (ratio - 1.0)
    logs = (np.log(factor) @ counts[:, :, None])[:, :, 0] + LOG_WEIGHTS
    slopes = (SHARES[:, None] * ratio / factor @ counts[:, :, None])[:, :, 0]
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1)
    return top[:, 0] + np.log(total), -(shares * slopes).sum(axis=1) / total / m


def lower(counts: Floats, places: Floats, level: float | Floats) -> Floats:
    """Return the smallest m at which the capital is below exp(level): the lower bound of each row's mean."""
    total = counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.where(total > 0.0, counts @ places / np.maximum(total, _LEAST), 0.0)
    low, high = np.zeros(mean.size), mean.copy()
    for _ in range(_HALVINGS):
        m = 0.5 * (low + high)
        is_rejected = log_capital(counts, places, m) >= level
        low = np.where(is_rejected, m, low)
        high = np.where(is_rejected, high, m)
    return low


def least_sum(counts: Floats, places: Floats, weights: Floats, level: float | Floats) -> Floats:
    """Return lower bounds of sums of w_k mu_k, w_k >= 0: counts of shape (problems, arms, places), weights of shape
    (problems, arms).

    By duality: for every theta > 0 the sum over k of min over m of (w_k m + theta log K_k(m)), less theta level, is a
    lower bound of the least sum, and the largest of them is the least sum. So the search for theta need not be exact to
    be valid.
    """
    problems, arms, width = counts.shape
    flat, factors = counts.reshape(-1, width), weights.reshape(-1)
    levels = np.broadcast_to(np.asarray(level, dtype=np.float64), (problems,))

    def dual(log_theta: Floats) -> tuple[Floats, Floats]:
        theta = np.repeat(np.exp(log_theta), arms)
        low, high = np.zeros(flat.shape[0]), np.ones(flat.shape[0])
        for _ in range(_STEPS):
            m = 0.5 * (low + high)
            _, slope = _with_slope(flat, places, m)
            is_falling = factors + theta * slope < 0.0
            low = np.where(is_falling, m, low)
            high = np.where(is_falling, high, m)
        m = np.where(factors > 0.0, 0.5 * (low + high), 1.0)
        value, slope = _with_slope(flat, places, np.maximum(m, _LEAST))
        # m is not the exact minimum: by convexity no m in [0, 1] is lower by more than what the slope allows
        slack = np.minimum((factors + theta * slope) * -m, (factors + theta * slope) * (1.0 - m))
        value = np.where(factors > 0.0, value, 0.0)
        slack = np.where(factors > 0.0, np.minimum(slack, 0.0), 0.0)
        terms = np.where(factors > 0.0, factors * m, 0.0) + theta * value + slack
        capital = value.reshape(problems, arms).sum(axis=1)
        return terms.reshape(problems, arms).sum(axis=1) - np.exp(log_theta) * levels, capital

    low, high = np.full(problems, -40.0), np.full(problems, 3.0)
    best = np.zeros(problems)
    for _ in range(_DUAL_STEPS):
        middle = 0.5 * (low + high)
        value, capital = dual(middle)
        best = np.maximum(best, value)  # 0 is a lower bound, too
        too_rich = capital >= levels
        low = np.where(too_rich, middle, low)
        high = np.where(too_rich, high, middle)
    return best


def log_evidence(first: Floats, second: Floats, places: Floats) -> Floats:
    """Return the log of the capital of the gambler who suspects that the first mean is above the second, one a row.

    It is the least of K_1(m) K_2(m) over all m, K_1 of the gambler who suspects that the first mean is above m, K_2 of
    the one who suspects that the second is below: nobody with mu_1 <= mu_2 lets it grow large.
    """
    second = second[:, ::-1]  # places are the same from both ends
    low, high = np.zeros(first.shape[0]), np.ones(first.shape[0])
    for _ in range(_STEPS):
        m = 0.5 * (low + high)
        is_falling = _with_slope(first, places, m)[1] < _with_slope(second, places, 1.0 - m)[1]
        low = np.where(is_falling, m, low)
        high = np.where(is_falling, high, m)
    # The sum is convex: between the last two points it is nowhere below where their tangents meet, nor below both ends.
    ends = []
    for m in (low, high):
        above, falling = _with_slope(first, places, np.maximum(m, _LEAST))
        below, rising = _with_slope(second, places, np.maximum(1.0 - m, _LEAST))
        ends.append((above + below, falling - rising))
    (left, left_slope), (right, right_slope) = ends
    gap = high - low
    return np.minimum(left, right) - np.minimum(np.abs(left_slope), np.abs(right_slope)) * gap
