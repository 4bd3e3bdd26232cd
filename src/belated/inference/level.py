"""How the level of rewards moves: in at most 64 stretches of equal length, whatever the shares of arms did meanwhile.

The rewards of each stretch are compared with what the arms that were played there bring on average over all stretches.
If means stay the same, the sum over stretches of

    (rewards - expected)^2 / variance

is about as large as the number of stretches less one. A sum that is LIMIT standard deviations above that says that the
level moves: nights and days, weekends, a launch. Arms that take turns while the level stays are another matter.
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
        """The level that one stretch in ten is below."""
        return float(np.nanquantile(self.levels, 0.1))

    @property
    def high(self) -> float:
        """The level that one stretch in ten is above."""
        return float(np.nanquantile(self.levels, 0.9))


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
        means = self.rewards.sum(axis=0) / np.maximum(outcomes, 1.0)
        variances = np.maximum(self.squares / np.maximum(outcomes, 1.0) - means**2, 0.0)
        expected, variance = self.counts @ means, self.counts @ variances
        compared = (self.counts.sum(axis=1) >= MIN_OUTCOMES) & (variance > 1e-9)
        if np.count_nonzero(compared) < 2:
            return None
        squares = (self.rewards.sum(axis=1) - expected)[compared] ** 2 / variance[compared]
        # a square of a sum of rare outcomes varies more than that of a normal one
        peaked = (
            np.maximum(self.counts @ (variances * (1.0 - 6.0 * variances)), 0.0)[compared] / variance[compared] ** 2
        )
        excess = float(squares.sum()) - (squares.size - 1)
        if excess <= LIMIT * float((2.0 + peaked).sum()) ** 0.5:
            return None
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
