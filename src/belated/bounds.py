"""What theory says about a problem, as numbers."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class BestSkipping(NamedTuple):
    """The value of the minimum and the rounds that a minimising set holds, counted from 1."""

    value: float
    skipped: NDArray[np.int64]


def best_skipping(delays: Any, weight: float) -> BestSkipping:
    """min over sets S of rounds of |S| + sqrt(weight D_rest), D_rest being the delays of all rounds outside S.

    Exactly, by one sort: of all sets of r rounds, that of the r longest delays is best. With weight = log K it is the
    price of delay in the bounds of Zimmert & Seldin (2020) and of the paper.

    >>> value, skipped = best_skipping([0, 400, 1, 1], weight=1.0)
    >>> round(value, 4), skipped.tolist()
    (2.4142, [2])
    """
    values = np.asarray(delays, dtype=np.float64)
    if values.ndim != 1 or not (values >= 0.0).all():
        raise ValueError(f"delays has shape {values.shape}; a list of numbers of at least 0 is needed")
    if not 0.0 <= weight < math.inf:
        raise ValueError(f"weight is {weight!r}; a number of at least 0 is needed")
    order = np.argsort(-values, kind="stable")
    rest = np.append(np.cumsum(values[order[::-1]])[::-1], 0.0)  # the sum of all but the r longest, r = 0, 1, ...
    totals = np.arange(values.size + 1) + np.sqrt(weight * rest)
    best = int(np.argmin(totals))
    return BestSkipping(float(totals[best]), np.sort(order[:best]) + 1)


def scale(arms: int, delays: Any) -> float:
    """sqrt(KT) + min over S of (|S| + sqrt(D_rest log K)): the order that no learner can beat against all losses."""
    values = np.asarray(delays)
    return math.sqrt(arms * values.size) + best_skipping(values, math.log(arms)).value
