"""Outcomes in units: how values become losses and back."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated import Scale
from belated.logs.scale import Scaled
from support.refusals import refused


def test_values_become_losses() -> None:
    higher, lower = Scale(-100, 100), Scale(-100, 100, better="lower")
    assert [higher.loss(value).loss for value in (-100, -50, 0, 100)] == [1.0, 0.75, 0.5, 0.0]
    assert [lower.loss(value).loss for value in (-100, -50, 0, 100)] == [0.0, 0.25, 0.5, 1.0]


def test_values_beyond_are_clipped_and_the_ends_are_not() -> None:
    scale = Scale(0, 200)
    assert scale.loss(200.0) == Scaled(0.0, False)
    assert scale.loss(math.nextafter(200.0, 201.0)) == Scaled(0.0, True)
    assert scale.loss(0.0) == Scaled(1.0, False)
    assert scale.loss(-1e-300) == Scaled(1.0, True)
    assert scale.check(1e9) == 1e9


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0.0, 1.0), st.sampled_from(["higher", "lower"]))
def test_losses_become_values_again(lowest: float, span: float, share: float, better: str) -> None:
    scale = Scale(lowest, lowest + span, better=better)
    value = scale.value(share)
    assert scale.loss(value).loss == pytest.approx(share, abs=1e-6)
    assert 0.0 <= scale.loss(value).loss <= 1.0
    assert math.copysign(1.0, scale.loss(value).loss) == 1.0  # never -0.0


def test_differences_are_of_means() -> None:
    assert Scale(0, 200).difference(0.25) == 50.0
    assert Scale(0, 200, better="lower").difference(0.25) == -50.0
    assert Scale(-50, 50).span == 100.0


def test_what_lies_beyond_is_refused_where_that_is_chosen() -> None:
    scale = Scale(0, 200, beyond="refuse")
    assert (scale.check(0), scale.check(200), scale.check(np.float32(1.5))) == (0.0, 200.0, 1.5)
    for value in (-0.001, 200.001):
        with refused("value", value):
            scale.check(value)


@pytest.mark.parametrize("value", ["5", b"5", True, None, math.nan, math.inf, [1.0], 10**400])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with refused("value", repr(value)):
        Scale(0, 200).check(value)


def test_zero_has_no_sign() -> None:
    assert math.copysign(1.0, Scale(-1, 1).check(-0.0)) == 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1, 1), ("highest", "1")),
        ((2, 1), ("highest",)),
        ((-1e308, 1e308), ("highest",)),
        ((math.nan, 1), ("lowest", "nan")),
        ((0, "1"), ("highest", "1")),
        ((0, 1, "more"), ("better", "more", "higher", "lower")),
        ((0, 1, "higher", "drop"), ("beyond", "drop", "clip", "refuse")),
    ],
)
def test_scales_that_make_no_sense_are_refused(given: tuple[Any, ...], words: tuple[str | None, ...]) -> None:
    with refused(*words):
        Scale(*given)
