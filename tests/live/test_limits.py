"""Limits of shares as they are given: what is refused, and what a learner's distribution is put within."""

from typing import Any

import numpy as np
import pytest

from belated import Bandit, Limits
from support.refusals import refused


def test_a_share_is_a_floor_and_a_ceiling() -> None:
    limits = Limits({"a": 0.2, "b": (0.1, 0.5), "c": [0.3, 0.3]})  # type: ignore[dict-item]
    assert [limits.floor(arm) for arm in "abcd"] == [0.2, 0.1, 0.3, 0.0]
    assert [limits.ceiling(arm) for arm in "abcd"] == [0.2, 0.5, 0.3, 1.0]
    assert limits == Limits({"a": (0.2, 0.2), "b": (0.1, 0.5), "c": 0.3})


def test_nothing_is_no_limits() -> None:
    assert not Limits()
    assert Limits(holdout=0.1)
    assert Limits({"a": (0.0, 1.0)})
    assert Limits({"a": 0.0})


@pytest.mark.parametrize(
    ("shares", "holdout", "field", "value"),
    [
        ({"a": 1.1}, 0.0, "floor of 'a'", 1.1),
        ({"a": (-0.1, 0.5)}, 0.0, "floor of 'a'", -0.1),
        ({"a": (0.1, 1.5)}, 0.0, "ceiling of 'a'", 1.5),
        ({"a": (0.5, 0.4)}, 0.0, "shares", 0.4),
        ({"a": (0.1, 0.2, 0.3)}, 0.0, "floor of 'a'", (0.1, 0.2, 0.3)),
        ({"a": "much"}, 0.0, "floor of 'a'", "'much'"),
        ({"a": float("nan")}, 0.0, "floor of 'a'", "nan"),
        ({}, 1.1, "holdout", 1.1),
        ({}, -0.1, "holdout", -0.1),
    ],
)
def test_what_is_no_limit_is_refused(shares: Any, holdout: float, field: str, value: object) -> None:
    with refused(field, value):
        Limits(shares, holdout)


@pytest.mark.parametrize(
    ("limits", "floor", "field", "values"),
    [
        (Limits({"a": 0.5, "b": 0.6}), 0.0, "shares", [1.1]),
        (Limits(dict.fromkeys("abc", (0.0, 0.3))), 0.0, "shares", [0.9]),
        (Limits({"a": 0.1}, 0.5), 0.0, "shares", ["'a'", 0.1, 0.166667]),
        (Limits({"a": 0.1}), 0.2, "shares", ["'a'", 0.1, 0.2]),
        (Limits(holdout=0.5), 0.2, "holdout", [0.2, 0.5]),
    ],
)
def test_limits_that_arms_cannot_keep_together_are_refused(
    limits: Limits, floor: float, field: str, values: list[object]
) -> None:
    with refused(field, *values):
        limits.bounds("abc", floor)


def test_limits_are_of_the_whole_share_uniform_play_included() -> None:
    """y within the bounds, h / K + (1 - h) y within the limits, and the other way round."""
    limits = Limits({"a": (0.2, 0.4), "b": (0.05, 0.9), "c": 0.3}, holdout=0.3)
    uniform, lows, highs = limits.bounds("abc")
    assert uniform == pytest.approx(0.1)
    assert [uniform + 0.7 * low for low in lows] == pytest.approx([0.2, 0.1, 0.3])
    assert [uniform + 0.7 * high for high in highs] == pytest.approx([0.4, 0.8, 0.3])
    assert Limits(holdout=0.3).bounds("abc")[1:] == ([], [])
    assert Limits(holdout=0.3).bounds("abc").uniform == pytest.approx(0.1)
    assert Limits({"a": 0.25}, holdout=1.0).bounds("abcd") == (0.25, [], [])  # all of it is uniform
    assert limits.bounds("abd", 0.0).lows == pytest.approx([0.1 / 0.7, 0.0, 0.0])  # of those that are there


def test_what_fits_exactly_is_taken_however_it_is_rounded() -> None:
    for arms in (3, 7, 10, 49):
        shares: dict[str | int, float | tuple[float, float]] = dict.fromkeys(range(arms), 1.0 / arms)
        bandit = Bandit(arms, "exp3", seed=1, limits=Limits(shares))
        for _ in range(20):
            bandit.observe(bandit.decide(), loss=0.5)
        assert bandit.distribution == pytest.approx(np.full(arms, 1.0 / arms))


def test_unknown_arms_are_refused_and_those_that_left_are_not() -> None:
    limits = Limits({"a": 0.1})
    limits.check_arms(["a", "b"])
    with refused("shares", "'a'"):
        limits.check_arms(["b", "c"])
