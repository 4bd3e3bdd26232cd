"""Limits of shares, compared with the exact solution in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from belated.core.shares import draw_arm, put_limits

Limit = tuple[float, float]


def exact(p: list[float], limits: list[Limit]) -> list[Fraction]:
    """min(max(c p_i, l_i), h_i) with c such that they sum to 1, or such that what the others leave is shared evenly."""
    shares = [Fraction(each) for each in p]
    lows, highs = [Fraction(low) for low, _ in limits], [Fraction(high) for _, high in limits]
    if all(low <= share <= high for share, low, high in zip(shares, lows, highs, strict=True)):
        return shares
    reach = sum(high if share > 0 else low for share, low, high in zip(shares, lows, highs, strict=True))
    if reach < 1:
        left = [k for k, share in enumerate(shares) if share == 0]
        rest = 1 - sum((highs[k] for k in range(len(p)) if k not in left), Fraction(0))
        even = solved([Fraction(1)] * len(left), [lows[k] for k in left], [highs[k] for k in left], rest)
        return [even[left.index(k)] if k in left else highs[k] for k in range(len(p))]
    return solved(shares, lows, highs, Fraction(1))


def solved(p: list[Fraction], lows: list[Fraction], highs: list[Fraction], total: Fraction) -> list[Fraction]:
    """The sum is linear between the places where a share meets a limit."""

    def at(c: Fraction) -> list[Fraction]:
        return [min(max(c * each, low), high) for each, low, high in zip(p, lows, highs, strict=True)]

    places = sorted({limit / each for each, *both in zip(p, lows, highs, strict=True) if each for limit in both})
    places = [Fraction(0), *places]
    for left, right in zip(places, [*places[1:], places[-1] + 1], strict=True):
        low, high = sum(at(left)), sum(at(right))
        if low <= total <= high:
            return at(left if high == low else left + (right - left) * (total - low) / (high - low))
    assert total - high < Fraction(1, 10**12), "limits that cannot be kept"
    return at(right)


def limited(p: list[float], limits: list[Limit]) -> list[float]:
    found = np.array(p)
    params = np.array([7.0, 7.0, *(low for low, _ in limits), *(high for _, high in limits), 7.0])
    put_limits(found, params, 2)
    return [float(each) for each in found]


def compare(p: list[float], limits: list[Limit]) -> None:
    found = limited(p, limits)
    expected = exact(p, limits)
    assert found == pytest.approx([float(each) for each in expected], abs=1e-12, rel=1e-9)
    for share, (low, high) in zip(found, limits, strict=True):
        assert low <= share <= high
    assert sum(found) == pytest.approx(1.0, abs=1e-12)


CASES: list[tuple[list[float], list[Limit]]] = [
    ([0.5, 0.3, 0.2], [(0.0, 1.0)] * 3),
    ([0.5, 0.3, 0.2], [(0.0, 0.4), (0.0, 1.0), (0.0, 1.0)]),
    ([0.5, 0.3, 0.2], [(0.0, 1.0), (0.4, 1.0), (0.0, 1.0)]),
    ([0.5, 0.3, 0.2], [(0.1, 0.1), (0.0, 1.0), (0.0, 1.0)]),
    ([0.5, 0.3, 0.2], [(0.2, 0.2), (0.3, 0.3), (0.5, 0.5)]),
    ([1.0, 0.0, 0.0], [(0.0, 0.4), (0.0, 1.0), (0.1, 1.0)]),
    ([1.0, 0.0, 0.0], [(0.0, 0.4), (0.0, 0.2), (0.0, 1.0)]),
    ([1.0, 0.0, 0.0], [(0.0, 1.0), (0.2, 1.0), (0.0, 1.0)]),
    ([1.0, 0.0, 0.0], [(0.0, 0.5), (0.5, 1.0), (0.0, 1.0)]),
    ([0.0, 1.0], [(1.0, 1.0), (0.0, 0.0)]),
    ([1.0 - 1e-12, 1e-12], [(0.0, 0.5), (0.0, 1.0)]),
    ([1.0 - 1e-15, 1e-15, 0.0], [(0.0, 0.5), (0.0, 0.25), (0.0, 1.0)]),
    ([1e-100, 1.0, 1e-50], [(0.25, 1.0), (0.0, 0.5), (0.0, 1.0)]),
    ([0.25] * 4, [(0.25, 0.25), (0.0, 1.0), (0.0, 0.2), (0.3, 1.0)]),
    ([0.9, 0.1], [(0.0, 0.1), (0.0, 0.9)]),
]


@pytest.mark.parametrize(("p", "limits"), CASES)
def test_limits_that_were_worked_out(p: list[float], limits: list[Limit]) -> None:
    compare(p, limits)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], list[Limit]]:
    """Any distribution, zeros and tiny shares among it, with limits that can be kept."""
    arms = draw(st.integers(2, 6))
    weight = st.sampled_from([0.0, 1.0, 1e-12, 1e-40]) | st.floats(1e-6, 1.0)
    weights = np.array(draw(st.lists(weight, min_size=arms, max_size=arms)))
    weights[draw(st.integers(0, arms - 1))] = 1.0
    middle = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=arms, max_size=arms)))
    middle /= middle.sum()
    widths = draw(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(1.0, 5.0)), min_size=arms, max_size=arms))
    limits = [(low * each, min(1.0, high * each)) for each, (low, high) in zip(middle.tolist(), widths, strict=True)]
    if sum(high for _, high in limits) < 1.0 or sum(low for low, _ in limits) > 1.0:
        limits[0] = (0.0, 1.0)
    return [float(each) for each in weights / weights.sum()], limits


@settings(max_examples=80, deadline=None, derandomize=True)
@given(problems())
@example(([0.5, 0.5], [(0.5, 0.5), (0.0, 1.0)]))
def test_any_limits_that_can_be_kept(problem: tuple[list[float], list[Limit]]) -> None:
    compare(*problem)


def test_shares_within_their_limits_stay_bit_for_bit() -> None:
    p = [0.1, 0.2, 0.7 - 1e-17]
    assert limited(p, [(0.1, 0.2), (0.2, 0.3), (0.0, 0.7)]) == p


def test_arms_that_no_limit_touches_keep_their_proportions() -> None:
    found = limited([0.6, 0.3, 0.1], [(0.0, 0.2), (0.0, 1.0), (0.0, 1.0)])
    assert found == pytest.approx([0.2, 0.6, 0.2])


def test_many_arms() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(2000, 0.05))
    lows, highs = rng.random(2000) / 4000, 0.0005 + rng.random(2000) / 100
    found = np.array(p)
    put_limits(found, np.concatenate([lows, highs]), 0)
    assert ((lows <= found) & (found <= highs)).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-10)
    free = (found > lows) & (found < highs)
    assert free.sum() > 50
    np.testing.assert_allclose((found / p)[free], (found / p)[free][0], rtol=1e-9)


def test_the_last_arm_with_a_share_is_drawn_where_rounding_leaves_a_gap() -> None:
    assert draw_arm(np.array([0.5, 0.5 - 1e-12, 0.0]), 1.0 - 1e-16) == 1
