"""How the level of rewards moves: in at most 64 stretches of equal length, whatever the shares of arms did meanwhile.

Each arm's mean in each stretch is compared with its mean over all of them. If means stay the same, the sum of

    n (mean in the stretch - mean)^2 / variance

over arms and stretches is about as large as the number of stretches less one, arm by arm. A sum that is LIMIT standard
deviations above that says that the level moves: nights and days, weekends, a launch.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STRETCHES = 64
FIRST_LENGTH = 16
"""Decisions in a stretch at first; whenever all stretches are full, two become one."""
MIN_OUTCOMES = 10
"""Outcomes of an arm in a stretch that are compared."""
LIMIT = 5.0
"""Standard deviations, so many that looking often does not matter."""


class Movement(NamedTuple):
    """How the level moved."""

    length: int
    """Decisions in a stretch."""
    levels: tuple[float, ...]
    """Of each stretch: the mean reward, had the shares of arms been the same all along; nan where nothing is known."""

    @property
    def low(self) -> float:
        return float(np.nanmin(self.levels))

    @property
    def high(self) -> float:
        return float(np.nanmax(self.levels))


class Level:
    """Outcomes and rewards of each arm, by stretch."""

    def __init__(self, n_arms: int) -> None:
        self.length = FIRST_LENGTH
        self.rounds = 0
        self.counts: Floats = np.zeros((STRETCHES, n_arms))
        self.rewards: Floats = np.zeros((STRETCHES, n_arms))
        self.squares: Floats = np.zeros(n_arms)

    def grow(self) -> None:
        """Make room for one more arm."""
        self.counts = np.pad(self.counts, ((0, 0), (0, 1)))
        self.rewards = np.pad(self.rewards, ((0, 0), (0, 1)))
        self.squares = np.append(self.squares, 0.0)

    def add(self, arms: Integers, rewards: Floats) -> None:
        """Go on by some decisions; a reward that nobody knows is nan."""
        begin = 0
        while begin < arms.size:
            room = STRETCHES * self.length - self.rounds
            if not room:
                self._merge()
                continue
            part = slice(begin, begin + room)
            known = ~np.isnan(rewards[part])
            at = (self.rounds + np.flatnonzero(known)) // self.length
            chosen, came = arms[part][known], rewards[part][known]
            np.add.at(self.counts, (at, chosen), 1.0)
            np.add.at(self.rewards, (at, chosen), came)
            np.add.at(self.squares, chosen, came**2)
            self.rounds += known.size
            begin += room

    def _merge(self) -> None:
        for name in ("counts", "rewards"):
            values = getattr(self, name)
            halved = np.zeros_like(values)
            halved[: STRETCHES // 2] = values[::2] + values[1::2]
            setattr(self, name, halved)
        self.length *= 2

    def movement(self) -> Movement | None:
        """Return how the level moved, if it moved more than chance explains."""
        outcomes = self.counts.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.rewards.sum(axis=0) / outcomes
            variance = self.squares / outcomes - means**2
            compared = (self.counts >= MIN_OUTCOMES) & (variance > 1e-12)
            squares = self.counts * (self.rewards / self.counts - means) ** 2 / variance
            peaked = np.maximum(1.0 / variance - 6.0, 0.0) / self.counts  # how much more a sum of rare outcomes varies
        degrees = np.maximum(compared.sum(axis=0) - 1, 0)
        spread = float(np.where(compared, 2.0 + peaked, 0.0).sum())
        if not degrees.any():
            return None
        excess = float(np.where(compared, squares, 0.0).sum() - degrees.sum())
        if excess <= LIMIT * spread**0.5:
            return None
        expected = (self.counts * np.nan_to_num(means)).sum(axis=1)
        overall = self.rewards.sum() / outcomes.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            levels = np.where(
                self.counts.sum(axis=1) >= MIN_OUTCOMES, overall * self.rewards.sum(axis=1) / expected, np.nan
            )
        stretches = -(-self.rounds // self.length)
        return Movement(self.length, tuple(np.clip(levels, 0.0, 1.0)[:stretches].tolist()))

    def copy(self) -> "Level":
        """Return a level of its own with the same numbers."""
        return Level.from_arrays(self.to_arrays())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything, to go on exactly from here."""
        numbers = np.concatenate([self.counts.ravel(), self.rewards.ravel(), self.squares])
        return {"numbers": numbers, "sizes": np.array([self.length, self.rounds, self.squares.size], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Level":
        length, rounds, n_arms = arrays["sizes"].tolist()
        level = cls(n_arms)
        level.length, level.rounds = length, rounds
        size = STRETCHES * n_arms
        level.counts = np.array(arrays["numbers"][:size]).reshape(STRETCHES, n_arms)
        level.rewards = np.array(arrays["numbers"][size : 2 * size]).reshape(STRETCHES, n_arms)
        level.squares = np.array(arrays["numbers"][2 * size :])
        return level
