"""The capital of gamblers who bet on outcomes, and bounds from it, compiled: for `belated.inference.capital`.

The GIL is released while they run, so that a service which estimates goes on deciding.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import types

from belated.core.kernels import VECTOR, Matrix, Vector, entry, kernel

_STEPS_OF_SHARES = np.arange(-8.0, 41.0)
SHARES: Vector = 1.0 / (1.0 + 2.0 ** (_STEPS_OF_SHARES / 2.0))
"""kappa: their odds are the powers of sqrt(2) from 16 down to 2^-20, enough for a billion outcomes."""
WEIGHTS: Vector = 1.0 / (1.0 + ((_STEPS_OF_SHARES - 6.0) / 6.0) ** 2)
WEIGHTS /= WEIGHTS.sum()
"""w(kappa): most for shares of 0.01 to 0.5, those that matter with some tens to some ten thousands of outcomes."""
LOG_WEIGHTS: Vector = np.log(WEIGHTS)

_LEAST = 1e-300
_HALVINGS = 60
_STEPS = 26
_DUAL_STEPS = 20

_MATRIX = types.float64[:, ::1]
_CUBE = types.float64[:, :, ::1]


@kernel(inline=True)
def _capital(counts: Vector, places: Vector, m: float, shares: Vector, log_weights: Vector) -> tuple[float, float]:
    """Return log K(m) and its derivative, for the counts of one arm."""
    m = max(m, _LEAST)
    top, total, slope = -math.inf, 0.0, 0.0
    for j in range(shares.size):
        share = shares[j]
        value, rise = log_weights[j], 0.0
        for i in range(places.size):
            if counts[i] != 0.0:
                ratio = places[i] / m
                factor = 1.0 + share * (ratio - 1.0)
                value += counts[i] * math.log(factor)
                rise += counts[i] * share * ratio / factor
        if value > top:  # sums are kept relative to the largest term
            scale = math.exp(top - value)
            total, slope, top = total * scale + 1.0, slope * scale + rise, value
        else:
            part = math.exp(value - top)
            total, slope = total + part, slope + part * rise
    return top + math.log(total), -slope / total / m


@kernel
def fill_capital(
    counts: Matrix, places: Vector, m: Vector, shares: Vector, log_weights: Vector, values: Vector, slopes: Vector
) -> None:
    """Write log K(m) and its derivative, a row of counts and an m for each."""
    for row in range(m.size):
        values[row], slopes[row] = _capital(counts[row], places, m[row], shares, log_weights)


@kernel
def fill_lower(
    counts: Matrix, places: Vector, levels: Vector, shares: Vector, log_weights: Vector, bounds: Vector
) -> None:
    """Write the smallest m at which the capital of each row is below exp(level)."""
    for row in range(levels.size):
        total = mean = 0.0
        for i in range(places.size):
            total += counts[row, i]
            mean += counts[row, i] * places[i]
        low, high = 0.0, mean / max(total, _LEAST)
        for _ in range(_HALVINGS):
            m = 0.5 * (low + high)
            if _capital(counts[row], places, m, shares, log_weights)[0] >= levels[row]:
                low = m
            else:
                high = m
        bounds[row] = low


@kernel(inline=True)
def _dual(
    counts: Matrix, places: Vector, weights: Vector, level: float, theta: float, shares: Vector, log_weights: Vector
) -> tuple[float, float]:
    """Return the sum over arms of min over m of (w m + theta log K(m)), less theta level, and that of log K there."""
    bound, capital = -theta * level, 0.0
    for k in range(weights.size):
        weight = weights[k]
        if weight <= 0.0:
            continue
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            m = 0.5 * (low + high)
            if weight + theta * _capital(counts[k], places, m, shares, log_weights)[1] < 0.0:
                low = m
            else:
                high = m
        m = 0.5 * (low + high)
        value, slope = _capital(counts[k], places, m, shares, log_weights)
        # m is not the exact minimum: by convexity no m in [0, 1] is lower by more than what the slope allows
        tilt = weight + theta * slope
        bound += weight * m + theta * value + min(-tilt * m, tilt * (1.0 - m), 0.0)
        capital += value
    return bound, capital


@kernel
def fill_least_sums(
    counts: Any, places: Vector, weights: Matrix, levels: Vector, shares: Vector, log_weights: Vector, bounds: Vector
) -> None:
    """Write a lower bound of the sum of w_k mu_k for each problem: counts of shape (problems, arms, places)."""
    for row in range(levels.size):
        low, high, best = -40.0, 3.0, 0.0  # 0 is a lower bound, too
        for _ in range(_DUAL_STEPS):
            middle = 0.5 * (low + high)
            bound, capital = _dual(
                counts[row], places, weights[row], levels[row], math.exp(middle), shares, log_weights
            )
            best = max(best, bound)
            if capital >= levels[row]:
                low = middle
            else:
                high = middle
        bounds[row] = best


@kernel
def fill_evidence(
    first: Matrix, second: Matrix, places: Vector, shares: Vector, log_weights: Vector, evidence: Vector
) -> None:
    """Write the least of log K_1(m) + log K_2(1 - m) over all m, for each pair of rows."""
    for row in range(evidence.size):
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            m = 0.5 * (low + high)
            falling = _capital(first[row], places, m, shares, log_weights)[1]
            rising = _capital(second[row], places, 1.0 - m, shares, log_weights)[1]
            if falling < rising:
                low = m
            else:
                high = m
        # The sum is convex: between the last two points it is nowhere below where their tangents meet, nor below both
        # ends.
        above, falling = _capital(first[row], places, low, shares, log_weights)
        below, rising = _capital(second[row], places, 1.0 - low, shares, log_weights)
        left, left_slope = above + below, abs(falling - rising)
        above, falling = _capital(first[row], places, high, shares, log_weights)
        below, rising = _capital(second[row], places, 1.0 - high, shares, log_weights)
        right, right_slope = above + below, abs(falling - rising)
        evidence[row] = min(left, right) - min(left_slope, right_slope) * (high - low)


@cache
def compiled() -> tuple[Any, Any, Any, Any]:
    """Return the four functions above as Python calls them."""
    mixture = (VECTOR, VECTOR)
    return (
        entry(fill_capital, types.void(_MATRIX, VECTOR, VECTOR, *mixture, VECTOR, VECTOR)),
        entry(fill_lower, types.void(_MATRIX, VECTOR, VECTOR, *mixture, VECTOR)),
        entry(fill_least_sums, types.void(_CUBE, VECTOR, _MATRIX, VECTOR, *mixture, VECTOR)),
        entry(fill_evidence, types.void(_MATRIX, _MATRIX, VECTOR, *mixture, VECTOR)),
    )
