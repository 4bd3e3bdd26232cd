"""Tallies: how often each arm's outcomes were what, in a fixed number of counts.

The capital of a gambler who bets fixed shares depends on the counts of outcomes alone. Rewards of 0 and 1 are counted
as they are. Others are split between the two nearest of 65 places: a reward of 0.3 between places 0.25 and 0.35 counts
half as one and half as the other. The mean is kept, and since the log of a gambler's gain is concave in the reward, the
capital of the split outcomes is never more than that of the true ones: bounds stay valid. They widen with the variance
that the split adds, at most 0.00015.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_HALF = np.rint((1.0 - np.cos(np.pi * np.arange(32) / 64.0)) * 2.0**39) / 2.0**40  # so that 1 - _HALF is exact
PLACES: Floats = np.concatenate([_HALF, [0.5], 1.0 - _HALF[::-1]])
"""Closer together near 0 and near 1, where small differences matter; the same from both ends."""
ENDS: Floats = np.array([0.0, 1.0])


class Tally:
    """Counts of outcomes by arm and by place. Rewards are added up in order: the same outcomes give the same bits."""

    def __init__(self, n_arms: int) -> None:
        self.places = ENDS
        """ENDS, or PLACES from the first reward on that is neither 0 nor 1."""
        self.counts: Floats = np.zeros((n_arms, 2))
        self.known: Integers = np.zeros(n_arms, dtype=np.int64)
        self.rewards: Floats = np.zeros(n_arms)
        """The sum of each arm's rewards."""

    def grow(self) -> None:
        """Make room for one more arm."""
        self.counts = np.concatenate([self.counts, np.zeros((1, self.counts.shape[1]))])
        self.known = np.append(self.known, 0)
        self.rewards = np.append(self.rewards, 0.0)

    def add(self, arms: Integers, rewards: Floats) -> None:
        """Count outcomes."""
        np.add.at(self.known, arms, 1)
        np.add.at(self.rewards, arms, rewards)
        if self.places is ENDS:
            if not ((rewards == 0.0) | (rewards == 1.0)).all():
                self._use_all_places()
            else:
                np.add.at(self.counts, (arms, rewards.astype(np.int64)), 1.0)
                return
        at = np.clip(np.searchsorted(PLACES, rewards, side="right") - 1, 0, PLACES.size - 2)
        upper = (rewards - PLACES[at]) / (PLACES[at + 1] - PLACES[at])
        places, parts = np.stack([at, at + 1], axis=1), np.stack([1.0 - upper, upper], axis=1)
        np.add.at(self.counts, (arms[:, None], places), parts)

    def _use_all_places(self) -> None:
        counts = np.zeros((len(self.counts), PLACES.size))
        counts[:, [0, -1]] = self.counts
        self.places, self.counts = PLACES, counts

    def copy(self) -> "Tally":
        """Return a tally of its own with the same counts."""
        other = Tally(len(self.known))
        other.places = self.places
        other.counts, other.known, other.rewards = self.counts.copy(), self.known.copy(), self.rewards.copy()
        return other

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything, to go on exactly from here."""
        return {"counts": self.counts, "known": self.known, "rewards": self.rewards}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]]) -> "Tally":
        tally = cls(len(arrays["known"]))
        tally.counts = np.array(arrays["counts"], dtype=np.float64).reshape(len(tally.known), -1)
        tally.places = ENDS if tally.counts.shape[1] == ENDS.size else PLACES
        tally.known = np.array(arrays["known"], dtype=np.int64)
        tally.rewards = np.array(arrays["rewards"], dtype=np.float64)
        return tally
