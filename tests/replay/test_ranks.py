"""The test of Kruskal & Wallis, and the tail of the chi-squared distribution, against scipy 1.16."""

import math

import numpy as np
import pytest

from belated.replay.ranks import RankTest, chi_squared_tail, kruskal_wallis


@pytest.mark.parametrize(
    ("value", "freedom", "tail"),
    [
        (0.5, 1, 0.47950012218695337),
        (3.84, 1, 0.05004352124870519),
        (100.0, 1, 1.5239706048320995e-23),
        (10.0, 2, 0.006737946999085468),
        (7.5, 3, 0.0575584519726364),
        (1e-9, 3, 0.9999999999999916),
        (2.0, 4, 0.7357588823428847),
        (700.0, 5, 4.911986103573117e-149),
        (30.0, 7, 9.495972508134177e-05),
        (80.0, 79, 0.4473988039665908),
        (50.0, 100, 0.9999930466947524),
    ],
)
def test_tails_of_chi_squared(value: float, freedom: int, tail: float) -> None:
    assert chi_squared_tail(value, freedom) == pytest.approx(tail, rel=1e-11)


def test_the_tail_is_a_probability() -> None:
    assert chi_squared_tail(0.0, 3) == chi_squared_tail(-1.0, 2) == 1.0
    tails = [chi_squared_tail(value, 80) for value in np.linspace(0.0, 300.0, 500)]
    assert 0.0 < min(tails) < 1e-20 < 1.0 == max(tails)
    assert np.diff(tails).max() < 1e-14  # it falls, but for rounding


def compared(*groups: list[float]) -> RankTest | None:
    return kruskal_wallis(np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(each) for each in groups]))


@pytest.mark.parametrize(
    ("groups", "statistic", "p_value"),
    [
        (([1.0, 2, 3], [4.0, 5, 6, 7]), 4.5, 0.033894853524689295),
        (([1.0, 2, 2, 5, 9], [2.0, 3, 3, 3, 7, 8], [10.0, 10, 11, 4]), 5.884573502722322, 0.05274497607947301),
        (
            ([1, 3, math.inf, math.inf], [2, math.inf, 4], [5, 6, 7, 8, math.inf]),
            0.5141304347826152,
            0.7733177783526781,
        ),
    ],
    ids=["no ties", "ties", "never"],
)
def test_as_scipy_has_it(groups: tuple[list[float], ...], statistic: float, p_value: float) -> None:
    """For scipy, inf was written as a number larger than all others."""
    found = compared(*groups)
    assert found is not None
    assert found.statistic == pytest.approx(statistic, rel=1e-12)
    assert found.freedom == len(groups) - 1
    assert found.p_value == pytest.approx(p_value, rel=1e-11)


def test_order_and_names_of_groups_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    values, groups = rng.integers(0, 9, 60).astype(float), rng.integers(0, 4, 60)
    found = kruskal_wallis(values, groups)
    order = rng.permutation(60)
    again = kruskal_wallis(np.exp(values[order]), np.array([7, 0, 3, 9])[groups[order]])
    assert found is not None
    assert again is not None
    assert again.freedom == 3
    assert again.p_value == pytest.approx(found.p_value)


def test_nothing_to_compare() -> None:
    assert kruskal_wallis(np.zeros(0), np.zeros(0, dtype=np.int64)) is None
    assert kruskal_wallis(np.array([1.0, 2.0]), np.array([3, 3])) is None
    for equal in (5.0, math.inf):
        assert kruskal_wallis(np.full(6, equal), np.array([0, 1, 0, 1, 2, 2])) == RankTest(0.0, 2, 1.0)
    assert kruskal_wallis(np.array([1.0, 2.0]), np.array([0, 1])) is not None


@pytest.mark.parametrize("distinct", [4, 10**9], ids=["many ties", "none"])
def test_size(distinct: int) -> None:
    """2,000 samples of one distribution: 5 % are below 0.05, within four standard errors, 4 sqrt(0.05 * 0.95 / 2000) =
    0.0195, and the exact size for so many values is that within 0.002.
    """
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(3), [30, 50, 70])
    found = [kruskal_wallis(rng.integers(0, distinct, 150).astype(float), groups) for _ in range(2000)]
    share = np.mean([each is not None and each.p_value < 0.05 for each in found])
    assert abs(share - 0.05) < 0.0215
