"""Delays that follow one law throughout."""

from dataclasses import dataclass

import numpy as np

from belated.delays.law import NEVER, Delays, Integers, check_delay, whole
from belated.errors import InvalidValue, check_positive


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

    word = "none"

    def __init__(self) -> None:
        super().__init__(0)

    def __repr__(self) -> str:
        return "NoDelay()"


class Never(Delays):
    """No outcome ever comes. For one kind of outcome among others: `byloss:good=100,bad=never`."""

    tail_index = 0.0

    def __repr__(self) -> str:
        return "Never()"

    @property
    def title(self) -> str:
        return "never"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.full(rounds.size, NEVER, dtype=np.int64)


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
            raise InvalidValue(f"high is {self.high!r}; at least low, {self.low!r}, is needed")

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


@dataclass(frozen=True)
class Batches(Delays):
    """Outcomes are released together, every `every` rounds: all that were decided since the last release.

    How outcomes come where a job collects them at night; the form of delay in Chapelle & Li (2011, Table 1).
    """

    every: int

    def __post_init__(self) -> None:
        if check_delay("every", self.every) < 1:
            raise InvalidValue(f"every is {self.every!r}; a whole number of at least 1 round is needed")

    @property
    def title(self) -> str:
        return f"released every {self.every} rounds"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return -rounds % self.every
