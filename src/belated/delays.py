"""What generates delays: how many rounds an outcome takes. 0 is before the next decision; NEVER does not come at all.

Delays fill chunks, as environments do. To add a law, subclass `Delays`: the class is then known by its name in small
letters on the command line and in TOML files.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.environments import check_share
from belated.families import Family

Integers = NDArray[np.int64]

NEVER = int(np.iinfo(np.int64).max)


class Delays(Family, ABC):
    """A source of delays."""

    kind = "delays"
    longest: int | None = None
    """The last round it can fill, or None where there is no last."""
    tail_index: float | None = math.inf
    """alpha with P(delay > n) <= n^-alpha for large n: inf for all light tails, 0 where outcomes are lost, None where
    nobody knows.
    """

    @classmethod
    def find(cls, wanted: Any) -> "Delays":
        """As in every family; and a whole number is that constant delay."""
        if isinstance(wanted, int | np.integer) and not isinstance(wanted, bool):
            return Constant(int(wanted))
        return super().find(wanted)

    @abstractmethod
    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        """The delay of each round: shape (n,)."""


def whole(values: NDArray[np.float64]) -> Integers:
    """Round down to whole rounds; what is beyond counting is NEVER."""
    never = ~(values < 2.0**62)
    return np.where(never, NEVER, np.where(never, 0.0, values).astype(np.int64))


def check_delay(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= NEVER:
        raise ValueError(f"{name} is {value!r}; a whole number of rounds, at least 0 and below 2^63, is needed")
    return int(value)


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int | float | np.number) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}; a positive number is needed")


@dataclass(frozen=True)
class Constant(Delays):
    """Every outcome takes the same number of rounds."""

    delay: int

    def __post_init__(self) -> None:
        check_delay("delay", self.delay)

    @property
    def title(self) -> str:
        return f"delay {self.delay}" if self.delay else "no delay"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.full(rounds.size, self.delay, dtype=np.int64)


class NoDelay(Constant):
    """No delay: each outcome comes before the next decision."""

    def __init__(self) -> None:
        super().__init__(0)

    def __repr__(self) -> str:
        return "NoDelay()"


Delays.members["none"] = Delays.members.pop("nodelay")  # the word for it on the command line


@dataclass(frozen=True)
class Geometric(Delays):
    """P(delay = n) = (1 - q) q^n with the given mean q / (1 - q): an outcome comes in each round with the same
    probability.
    """

    mean: float

    def __post_init__(self) -> None:
        check_positive("mean", self.mean)

    @property
    def title(self) -> str:
        return f"geometric delays, mean {self.mean:g}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return rng.geometric(1.0 / (1.0 + self.mean), rounds.size).astype(np.int64) - 1


@dataclass(frozen=True)
class Uniform(Delays):
    """Every whole number from low to high, both included, with the same probability."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if check_delay("high", self.high) < check_delay("low", self.low):
            raise ValueError(f"high is {self.high!r}; at least low, {self.low!r}, is needed")

    @property
    def title(self) -> str:
        return f"delays from {self.low} to {self.high}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return rng.integers(self.low, self.high, rounds.size, dtype=np.int64, endpoint=True)


@dataclass(frozen=True)
class Pareto(Delays):
    """Heavy tails: P(delay >= n) = (scale / n)^shape for n >= scale. With shape <= 1 the mean is infinite."""

    shape: float = 1.0
    scale: float = 10.0

    def __post_init__(self) -> None:
        check_positive("shape", self.shape)
        check_positive("scale", self.scale)

    @property
    def tail_index(self) -> float:  # type: ignore[override]
        return self.shape

    @property
    def title(self) -> str:
        return f"Pareto delays, shape {self.shape:g}, scale {self.scale:g}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        with np.errstate(over="ignore"):
            return whole(self.scale * (1.0 - rng.random(rounds.size)) ** (-1.0 / self.shape))


class _Spoiled:
    """Another law, `others`, some of whose outcomes never come."""

    others: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", Delays.find(self.others))

    @property
    def longest(self) -> int | None:
        return self.others.longest


@dataclass(frozen=True)
class Outlier(_Spoiled, Delays):  # type: ignore[override]
    """The first outcome never comes, the others follow another law (a number: that constant delay).

    One endless delay makes d_max as large as the horizon while hardly anything is outstanding: the paper's example for
    what bounds in d_max cost (Section 1).
    """

    others: Any = 0

    @property
    def tail_index(self) -> float | None:  # type: ignore[override]
        return self.others.tail_index

    @property
    def title(self) -> str:
        return f"the first outcome never comes, others: {self.others.title}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.where(rounds == 1, NEVER, self.others.fill(rng, rounds))


@dataclass(frozen=True)
class Dropout(_Spoiled, Delays):  # type: ignore[override]
    """Each outcome is lost with probability `share`; the others follow another law (a number: that constant delay)."""

    share: float = 0.1
    others: Any = 0
    tail_index = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "share", check_share("share", self.share))

    @property
    def title(self) -> str:
        return f"{self.share:.0%} never come, others: {self.others.title}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        lost = rng.random(rounds.size) < self.share
        return np.where(lost, NEVER, self.others.fill(rng, rounds))


class Recorded(Delays):
    """Delays from a list, one for each round; None (or nan) never comes."""

    tail_index = None

    def __init__(self, delays: Sequence[int | None]) -> None:
        checked = [
            NEVER
            if delay is None or (isinstance(delay, float) and math.isnan(delay))
            else check_delay(f"delays[{t}]", delay)
            for t, delay in enumerate(delays)
        ]
        self.delays = np.array(checked, dtype=np.int64)
        self.longest = self.delays.size

    def __repr__(self) -> str:
        return f"Recorded({self.longest} delays)"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return self.delays[rounds - 1]
