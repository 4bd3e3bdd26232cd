"""What generates losses. Oblivious, as in the paper: losses do not depend on what was played.

An environment fills chunks: for an array of round numbers it returns the expected losses of every arm and, unless
they are coins (`belated.coins`), the losses. All learners of one replication meet the same. To add one, subclass
`Environment`: the class is then known by its name in small letters on the command line and in TOML files.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated.families import Family
from belated.simplex import FEWEST_ARMS, MOST_ARMS

Floats = NDArray[np.float64]


class Environment(Family, ABC):
    """A source of losses for `n_arms` arms."""

    kind = "environment"
    n_arms: int
    longest: int | None = None
    """The last round it can fill, or None where there is no last."""

    @abstractmethod
    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        """Expected losses, (n, n_arms) or (1, n_arms) where all n rounds have the same, and losses in [0, 1], (n,
        n_arms).

        None for the losses means coins: 1 with the expected probability, else 0. They are flipped where they are
        played.
        """


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


@dataclass(frozen=True)
class Bernoulli(Environment):
    """Stochastic: losses 0 or 1, the loss of arm i is 1 with probability means[i] in every round."""

    means: Sequence[float]

    def __post_init__(self) -> None:
        if not isinstance(self.means, Sequence | np.ndarray) or isinstance(self.means, str):
            raise ValueError(f"means is {self.means!r}; a list of numbers from 0 to 1 is needed")
        means = tuple(check_share(f"means[{i}]", mean) for i, mean in enumerate(self.means))
        check_arms(len(means))
        object.__setattr__(self, "means", means)

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(self.means)

    @property
    def title(self) -> str:
        means = ", ".join(f"{mean:g}" for mean in self.means[:6])
        return f"Bernoulli({means}{', …' if self.n_arms > 6 else ''})"

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        means = np.array([self.means])
        return means, None


@dataclass(frozen=True)
class Stochastic(Environment):
    """Stochastic with one best arm: Bernoulli losses, mean (1 - gap)/2 for arm 0 and (1 + gap)/2 for the others.

    Environment of Figures 1 and 2 in Zimmert & Seldin (2021).
    """

    arms: int = 10
    gap: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_arms(self.arms))
        object.__setattr__(self, "gap", check_share("gap", self.gap))

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.arms

    @property
    def title(self) -> str:
        return f"stochastic, {self.arms} arms, gap {self.gap:g}"

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        means = np.full((1, self.arms), (1.0 + self.gap) / 2.0)
        means[0, 0] = (1.0 - self.gap) / 2.0
        return means, None


@dataclass(frozen=True)
class Constrained(Environment):
    """The stochastically constrained adversary: the gap stays, the level of all losses jumps.

    Arm 0 and the others have means (0, gap) in odd phases and (1 - gap, 1) in even ones; each phase is `growth`
    times as long as the one before. Environment of Figures 3 and 4 in Zimmert & Seldin (2021); growth = 1.6 is
    theirs; the length of the first phase they do not state: of 1, 3, 10, 30 and 100, 30 comes closest to their
    curve of UCB1.
    """

    arms: int = 10
    gap: float = 0.1
    growth: float = 1.6
    first: int = 30

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_arms(self.arms))
        object.__setattr__(self, "gap", check_share("gap", self.gap))
        if not isinstance(self.growth, int | float) or not 1.0 <= self.growth <= 100.0:
            raise ValueError(f"growth is {self.growth!r}; a number from 1 to 100 is needed")
        if not isinstance(self.first, int) or not self.first >= 1:
            raise ValueError(f"first is {self.first!r}; a first phase of at least 1 round is needed")

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.arms

    @property
    def title(self) -> str:
        return f"constrained adversary, {self.arms} arms, gap {self.gap:g}"

    def high(self, rounds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each round lies in a phase of high losses."""
        if self.growth == 1.0:
            phase = (rounds - 1) // self.first
        else:  # phase k begins after first (growth^k - 1) / (growth - 1) rounds
            begun = (rounds - 1) * (self.growth - 1.0) / self.first + 1.0
            phase = np.floor(np.log(begun) / np.log(self.growth) + 1e-12).astype(np.int64)
        return np.asarray(phase % 2 == 1)

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        low = np.full(self.arms, self.gap)
        low[0] = 0.0
        means = low + (1.0 - self.gap) * self.high(rounds)[:, None]
        return means, None


class Recorded(Environment):
    """Losses from a matrix, (rounds, arms). They are their own expectation: regret is against the best arm in
    hindsight.
    """

    def __init__(self, losses: ArrayLike) -> None:
        matrix = np.array(losses, dtype=np.float64)
        if matrix.ndim != 2:
            raise ValueError(f"losses has shape {matrix.shape}; a matrix of rounds x arms is needed")
        self.n_arms = check_arms(matrix.shape[1])
        wrong = np.argwhere(~((matrix >= 0.0) & (matrix <= 1.0)))
        if wrong.size:
            t, arm = (int(index) for index in wrong[0])
            raise ValueError(f"losses[{t}, {arm}] is {matrix[t, arm]}; a number from 0 to 1 is needed")
        self.losses = matrix
        self.longest = matrix.shape[0]

    def __repr__(self) -> str:
        return f"Recorded({self.longest} rounds x {self.n_arms} arms)"

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[Floats, Floats | None]:
        losses = self.losses[rounds - 1]
        return losses, losses
