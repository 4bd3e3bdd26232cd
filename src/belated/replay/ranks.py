"""Whether delays depend on something: the test of Kruskal & Wallis (1952), by ranks."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RankTest(NamedTuple):
    """What the test found."""

    statistic: float
    freedom: int
    p_value: float
    """Small where the groups differ; 1 where all values are equal."""


def kruskal_wallis(values: Floats, groups: Integers) -> RankTest | None:
    """Return whether values of several groups come from one distribution; None where fewer than two groups have any.

    H = (12 / (n (n + 1)) sum_g n_g (mean rank of g)^2 - 3 (n + 1)) / (1 - sum_j (t_j^3 - t_j) / (n^3 - n)), where t_j
    values are equal to each other; about chi-squared with one degree of freedom less than groups. inf is the largest
    value, equal to every other inf.
    """
    counts = np.bincount(groups) if groups.size else np.zeros(0, dtype=np.int64)
    present = counts > 0
    freedom = int(present.sum()) - 1
    if freedom < 1:
        return None
    size = float(values.size)
    _, inverse, ties = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(ties)
    ranks = (last - (ties - 1) / 2.0)[inverse]  # the mean of those that equal values share
    tied = float((ties.astype(np.float64) ** 3 - ties).sum()) / (size**3 - size) if size > 1 else 1.0
    if tied >= 1.0:
        return RankTest(0.0, freedom, 1.0)
    sums = np.bincount(groups, ranks)[present]
    deviations = sums / counts[present] - (size + 1.0) / 2.0
    statistic = 12.0 / (size * (size + 1.0)) * float(counts[present] @ deviations**2) / (1.0 - tied)
    return RankTest(statistic, freedom, chi_squared_tail(statistic, freedom))


def chi_squared_tail(value: float, freedom: int) -> float:
    """Return P(X >= value) for X chi-squared with so many degrees of freedom: a finite sum.

    With x = value / 2: exp(-x) sum_{j < k/2} x^j / j! for even k; for odd k erfc(sqrt x) + exp(-x) sum_{j=1}^{(k-1)/2}
    x^{j - 1/2} / Gamma(j + 1/2) (Abramowitz & Stegun 26.4.4, 26.4.5).
    """
    x = value / 2.0
    if x <= 0.0:
        return 1.0
    odd = freedom % 2
    tail = math.erfc(math.sqrt(x)) if odd else 0.0
    for j in range(1, freedom // 2 + 1):
        power = j - 0.5 if odd else j - 1.0
        tail += math.exp(power * math.log(x) - x - math.lgamma(power + 1.0))
    return min(tail, 1.0)
