"""Intervals for a mean of weighted rewards that hold however weights depended on earlier outcomes.

A row has the weight w_i = p_i / pi_i: the probability of its arm under the target, over its propensity. Its mean, given
all earlier rows, is 1; that of X_i = w_i r_i is v_i, what the target is worth there. For any c_i in [0, 1] that depends
on earlier rows alone, and any lambda in [0, 1),

    exp( lambda sum of (X_i - v_i) - psi(lambda) sum of (X_i - c_i)^2 ),     psi(l) = -log(1 - l) - l,

is at most a fair game: exp(lambda y - psi(lambda) y^2) <= 1 + lambda y for y >= -1 (Fan, Grama & Liu 2015). A mixture
over lambda bounds the sum of v_i from below, at all times at once (Ville's inequality). The upper bound comes from
w_i (1 - r_i) in the same way. Weights need not be bounded. This is an empirical-Bernstein confidence sequence of the
kind of Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2024).

Where the target plays an arm that had no chance, w_i r_i and w_i (1 - r_i) have means below v_i and 1 - v_i: the
interval still holds, and covers all that the arm may be worth.
"""

import math

import numpy as np
from numpy.typing import NDArray

from belated.core.capital import LOG_WEIGHTS, SHARES

Floats = NDArray[np.float64]

_PENALTIES = -np.log1p(-SHARES) - SHARES
_HALVINGS = 60


def martingale_interval(rewards: Floats, weights: Floats, alpha: float) -> tuple[float, float]:
    """Return an interval for the mean that holds however propensities depended on earlier outcomes.

    c_i is the weighted mean of the rewards before row i.
    """
    before = np.concatenate([np.zeros((2, 1)), np.cumsum([weights * rewards, weights], axis=1)[:, :-1]], axis=1)
    centre = (before[0] + 0.5) / (before[1] + 1.0)
    needed = math.log(2.0 / alpha)
    ends = []
    for part, middle in ((rewards, centre), (1.0 - rewards, 1.0 - centre)):
        weighted = weights * part
        squares = np.array([float(((weighted - middle) ** 2).sum())])
        ends.append(max(float(weighted.sum()) - float(margin(squares, needed)[0]), 0.0) / rewards.size)
    return min(ends[0], 1.0), max(1.0 - ends[1], 0.0)


def margin(squares: Floats, level: float) -> Floats:
    """Return the distance of a sum from its mean at which the mixture's capital is exp(level), by sums of squares."""
    low = np.zeros(squares.size)
    # one lambda alone, with its weight, is a bound from above
    high = ((level - LOG_WEIGHTS + np.outer(squares, _PENALTIES)) / SHARES).min(axis=1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        logs = np.outer(middle, SHARES) - np.outer(squares, _PENALTIES) + LOG_WEIGHTS
        top = logs.max(axis=1)
        capital = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        low = np.where(capital < level, middle, low)
        high = np.where(capital < level, high, middle)
    return high
