"""What an environment is: a source of losses that fills chunks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from belated.families import Family
from belated.simplex import FEWEST_ARMS, MOST_ARMS

Floats = NDArray[np.float64]
Rounds = NDArray[np.int64]
Filled = tuple[Floats, Floats | None]


class Environment(Family, ABC):
    """A source of losses for `n_arms` arms."""

    kind = "environment"
    n_arms: int
    longest: int | None = None
    """The last round it can fill, or None where there is no last."""

    @classmethod
    def adopt(cls, stranger: Any) -> "Environment":
        return _Adopted(stranger)

    @property
    def steady_means(self) -> Floats | None:
        """The expected losses of the arms where losses are stochastic, the same in all rounds; None elsewhere."""
        if self.longest is not None and self.longest < 2:
            return None
        expected, _ = self.fill(np.random.default_rng(0), np.array([1, 2]))
        return np.asarray(expected[0], dtype=np.float64) if len(expected) == 1 else None

    @abstractmethod
    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        """Expected losses, (n, n_arms) or (1, n_arms) where all n rounds have the same, and losses in [0, 1], (n,
        n_arms).

        None for the losses means coins: 1 with the expected probability, else 0. They are flipped where they are
        played.
        """


class FillsLosses(Protocol):
    """Any object that can stand for an environment."""

    n_arms: int

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Any, Any]: ...


class _Adopted(Environment):
    """An object of somebody else's class: it has `n_arms` and `fill`."""

    def __init__(self, stranger: Any) -> None:
        self.stranger = stranger
        self.n_arms = check_arms(getattr(stranger, "n_arms", None))
        self.longest = getattr(stranger, "longest", None)

    def __repr__(self) -> str:
        return repr(self.stranger)

    @property
    def title(self) -> str:
        return str(getattr(self.stranger, "title", type(self.stranger).__name__))

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        return self.stranger.fill(rng, rounds)


def check_arms(n_arms: Any) -> int:
    if isinstance(n_arms, bool) or not isinstance(n_arms, int | np.integer) or not FEWEST_ARMS <= n_arms <= MOST_ARMS:
        raise ValueError(
            f"the number of arms is {n_arms!r}; a whole number from {FEWEST_ARMS} to {MOST_ARMS} is needed"
        )
    return int(n_arms)


def check_share(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value!r}; a number from 0 to 1 is needed")
    return float(value)


def check_period(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; a whole number of at least 1 round is needed")
    return int(value)


@dataclass(frozen=True)
class WithGap(Environment):
    """An environment of some arms and a gap."""

    arms: int = 10
    gap: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_arms(self.arms))
        object.__setattr__(self, "gap", check_share("gap", self.gap))

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.arms


del Environment.members["withgap"]  # a base, not an environment to play in
