"""What a law of delay is, and the checks that all of them share."""

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, is_whole
from belated.specs import Registry

Integers = NDArray[np.int64]

NEVER = int(np.iinfo(np.int64).max)


class Delays(Registry, ABC):
    """A source of delays."""

    kind = "delays"
    longest: int | None = None
    """The last round it can fill, or None where there is no last."""
    tail_index: float | None = math.inf
    """alpha, where P(delay > n) falls like n^-alpha, up to a factor: inf for all light tails, 0 where outcomes are
    lost, None where nobody knows.
    """

    @classmethod
    def find(cls, wanted: Any) -> "Delays":
        """Return the law for a spec, as every registry does; a whole number is that constant delay."""
        if is_whole(wanted):
            wanted = {"name": "constant", "delay": int(wanted)}
        return super().find(wanted)

    @classmethod
    def wrap(cls, thing: Any) -> "Delays":
        return _Wrapped(thing)

    by: str = "round"
    """What a delay depends on: the round alone, or also the `arm` that is played, or the `loss` that it brings."""

    @abstractmethod
    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        """Return the delay of each round: shape (n,). By arm: (n, arms), arms beyond the last column as the last. By
        loss: (n, 2), for losses below 1/2 and for the others.
        """


class FillsDelays(Protocol):
    """Any object that can stand for a law of delay."""

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Any: ...


class _Wrapped(Delays, registered=False):
    """An object of somebody else's class: it has `fill`."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.longest = getattr(thing, "longest", None)
        self.tail_index = getattr(thing, "tail_index", None)
        self.by = getattr(thing, "by", "round")

    def __repr__(self) -> str:
        return repr(self.thing)

    @property
    def title(self) -> str:
        return str(getattr(self.thing, "title", type(self.thing).__name__))

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return self.thing.fill(rng, rounds)


def whole(values: NDArray[np.float64]) -> Integers:
    """Round down to whole rounds; what is beyond counting is NEVER."""
    never = ~(values < 2.0**62)
    return np.where(never, NEVER, np.where(never, 0.0, values).astype(np.int64))


def check_delay(name: str, value: Any) -> int:
    """Return a delay in rounds, or raise."""
    if not is_whole(value) or not 0 <= value <= NEVER:
        raise InvalidValue(f"{name} is {value!r}; a whole number of rounds, at least 0 and below 2^63, is needed", name)
    return int(value)
