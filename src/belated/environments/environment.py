"""What an environment is: a source of losses that fills chunks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from belated.core.ftrl import FEWEST_ARMS, MOST_ARMS
from belated.errors import InvalidValue, check_share, is_whole
from belated.specs import Registry

Floats = NDArray[np.float64]
Rounds = NDArray[np.int64]
Filled = tuple[Floats, Floats | None]
MANY_ROUNDS = 1 << 30


class Stretch(NamedTuple):
    """Consecutive rounds in which the same arms are present."""

    first: int
    """Its first round; it lasts until the next one begins."""
    arms: NDArray[np.int64]
    """The numbers of the arms that are present, in their order. An arm that is not among those of the stretch before
    comes, and those of the stretch before that are not among them leave.
    """
    anew: bool = False
    """Whether learners start from nothing, rather than go on with what they know."""


class Environment(Registry, ABC):
    """A source of losses for `n_arms` arms."""

    kind = "environment"
    n_arms: int
    longest: int | None = None
    """The last round it can fill, or None where there is no last."""
    brings_delays: bool = False
    """Whether it has `fill_with_delays`: the law of delay `own` stands for its delays."""

    @classmethod
    def wrap(cls, thing: Any) -> "Environment":
        return _Wrapped(thing)

    @property
    def steady_means(self) -> Floats | None:
        """The expected losses of the arms where losses are stochastic, the same in all rounds, and no arm comes or
        goes; None elsewhere.
        """
        if self.longest is not None and self.longest < 2:
            return None
        if self.stretches(self.longest or MANY_ROUNDS):
            return None
        expected, _ = self.fill(np.random.default_rng(0), np.array([1, 2]))
        return np.asarray(expected[0], dtype=np.float64) if len(expected) == 1 else None

    def stretches(self, rounds: int) -> tuple[Stretch, ...]:
        """Return the stretches of so many rounds, the first from round 1 on, where arms come and go; nothing where all
        arms are always there. `fill` fills all arms in all rounds, and those that are absent are left out.
        """
        return ()

    @abstractmethod
    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        """Return expected losses, (n, n_arms) or (1, n_arms) where all n rounds have the same, and losses in [0, 1],
        (n, n_arms).

        None for the losses means coins: 1 with the expected probability, else 0. They are flipped where they are
        played.
        """

    def fill_with_delays(
        self, rng: np.random.Generator, rounds: NDArray[np.int64]
    ) -> tuple[Floats, Floats | None, NDArray[np.int64]]:
        """Return what `fill` returns, and the delay that goes with each loss: (n, n_arms)."""
        raise InvalidValue(f"{self!r} brings no delays", "delays")


class FillsLosses(Protocol):
    """Any object that can stand for an environment."""

    n_arms: int

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Any, Any]: ...


class _Wrapped(Environment, registered=False):
    """An object of somebody else's class: it has `n_arms` and `fill`."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.n_arms = check_arms(getattr(thing, "n_arms", None))
        self.longest = getattr(thing, "longest", None)
        self.brings_delays = callable(getattr(thing, "fill_with_delays", None))

    def __repr__(self) -> str:
        return repr(self.thing)

    @property
    def title(self) -> str:
        return str(getattr(self.thing, "title", type(self.thing).__name__))

    def stretches(self, rounds: int) -> tuple[Stretch, ...]:
        given = getattr(self.thing, "stretches", None)
        return tuple(given(rounds)) if callable(given) else ()

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        return self.thing.fill(rng, rounds)

    def fill_with_delays(
        self, rng: np.random.Generator, rounds: NDArray[np.int64]
    ) -> tuple[Floats, Floats | None, NDArray[np.int64]]:
        return self.thing.fill_with_delays(rng, rounds)


def check_same_arms(environment: Environment, rounds: int) -> None:
    """Refuse an environment in which arms come and go."""
    if environment.stretches(rounds):
        raise InvalidValue(f"the same arms in all rounds are needed; the environment is {environment.title}", "arms")


def check_arms(n_arms: Any) -> int:
    """Return a number of arms, or raise."""
    if not is_whole(n_arms) or not FEWEST_ARMS <= n_arms <= MOST_ARMS:
        raise InvalidValue(
            f"the number of arms is {n_arms!r}; a whole number from {FEWEST_ARMS} to {MOST_ARMS} is needed", "arms"
        )
    return int(n_arms)


@dataclass(frozen=True)
class WithGap(Environment, registered=False):
    """An environment of some arms and a gap."""

    arms: int = 10
    gap: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_arms(self.arms))
        object.__setattr__(self, "gap", check_share("gap", self.gap))

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.arms
