"""Outcomes in the user's own units: revenue, minutes, errors. A scale says how they become losses from 0 to 1."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)

BETTER = ("higher", "lower")
BEYOND = ("clip", "refuse")


class Scaled(NamedTuple):
    """A value as a loss, and whether it had to be clipped for that."""

    loss: float
    clipped: bool


@dataclass(frozen=True)
class Scale:
    """The range of outcomes in the user's units, and which end of it is the better one.

    A value v becomes the loss (highest - v) / (highest - lowest) where higher is better, else (v - lowest) / (highest -
    lowest). Learners see losses alone; everything that is shown is in the user's units again.

    >>> Scale(0, 200).loss(150.0)
    Scaled(loss=0.25, clipped=False)
    >>> Scale(0, 30, better="lower").loss(45.0)
    Scaled(loss=1.0, clipped=True)
    """

    lowest: float
    highest: float
    better: str = "higher"
    beyond: str = "clip"
    """What becomes of a value beyond the range: it is taken as the end of the range and counted, or refused."""

    def __post_init__(self) -> None:
        for name in ("lowest", "highest"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if not self.lowest < self.highest or math.isinf(self.highest - self.lowest):
            raise InvalidValue(
                f"lowest is {self.lowest:g} and highest is {self.highest:g}; lowest must be below highest", "highest"
            )
        for name, allowed in (("better", BETTER), ("beyond", BEYOND)):
            if getattr(self, name) not in allowed:
                raise InvalidValue(
                    f"{name} is {getattr(self, name)!r}; {' or '.join(map(repr, allowed))} is needed", name
                )

    @property
    def span(self) -> float:
        return self.highest - self.lowest

    def check(self, value: Any) -> float:
        """Return a value as a number; refuse what is none, and what lies beyond the range if that is to be refused."""
        number = _number("value", value)
        if self.beyond == "refuse" and not self.lowest <= number <= self.highest:
            raise InvalidValue(
                f"value is {value!r}; a number from {self.lowest:g} to {self.highest:g} is needed", "value"
            )
        return number

    def loss(self, value: float) -> Scaled:
        """Return the loss that a value stands for; beyond the range, that of its end."""
        inside = min(max(value, self.lowest), self.highest)
        share = (inside - self.lowest) / self.span
        return Scaled((1.0 - share if self.better == "higher" else share) + 0.0, inside != value)

    def losses(self, values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the losses of many values, nan for nan, and which of them were clipped."""
        inside = np.clip(values, self.lowest, self.highest)
        shares = (inside - self.lowest) / self.span
        return (1.0 - shares if self.better == "higher" else shares) + 0.0, (inside != values) & ~np.isnan(values)

    def value(self, loss: Number) -> Number:
        """Return the value that a loss stands for, the mean value where it is a mean loss."""
        return self.lowest + (1.0 - loss if self.better == "higher" else loss) * self.span

    def difference(self, reward: Number) -> Number:
        """Return a difference of mean rewards as a difference of mean values."""
        return reward * self.span if self.better == "higher" else -reward * self.span


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidValue(f"{name} is {value!r}; a number is needed", name)
    return number + 0.0
