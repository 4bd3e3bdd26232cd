"""Which arms are played. Arms keep their numbers for good; the learner numbers those that are present anew."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.core.ftrl import FEWEST_ARMS, MOST_ARMS
from belated.core.rounds import FOREVER, NONE
from belated.errors import InvalidValue


class Roster(NamedTuple):
    """The arms that there have been, and those of them that are present. It is not changed; a change makes a new one.

    A decision is learned from if its arm has been present since: an arm that comes back is a new one for the learner.
    """

    entered: tuple[int, ...]
    """For each arm, the round after which it came, the last time that it did; FOREVER where it has left."""
    present: tuple[int, ...]
    """The arms that are played, in the learner's order."""

    @classmethod
    def of(cls, n_arms: int) -> "Roster":
        """Return the roster of a bandit that begins with so many arms."""
        return cls((0,) * n_arms, tuple(range(n_arms)))

    @property
    def is_plain(self) -> bool:
        """Whether all arms are present, in their order, since before the first round."""
        return not any(self.entered) and self.present == tuple(range(len(self.entered)))

    def has(self, arm: int) -> bool:
        """Return whether an arm is present."""
        return self.entered[arm] != FOREVER

    def add(self, rounds: int) -> "Roster":
        """Return the roster with a new arm, after so many rounds."""
        if len(self.entered) >= MOST_ARMS:
            raise InvalidValue(f"there have been {MOST_ARMS:,} arms, which is as many as there can be", "arm")
        return Roster((*self.entered, rounds), (*self.present, len(self.entered)))

    def restore(self, arm: int, rounds: int) -> "Roster":
        """Return the roster with an arm that had left, after so many rounds."""
        return Roster(_with(self.entered, arm, rounds), tuple(sorted((*self.present, arm))))

    def retire(self, arm: int) -> "Roster":
        """Return the roster without an arm."""
        if len(self.present) <= FEWEST_ARMS:
            raise InvalidValue(
                f"only {len(self.present)} arms are left, and a learner needs at least {FEWEST_ARMS}:"
                " add another one first, or archive the experiment",
                "arm",
            )
        return Roster(_with(self.entered, arm, FOREVER), tuple(each for each in self.present if each != arm))

    def kept(self, before: "Roster") -> NDArray[np.int64]:
        """Return the learner's former number of each arm that is present, NONE for one that came since."""
        places = {arm: place for place, arm in enumerate(before.present)}
        return np.array([places.get(arm, NONE) for arm in self.present], dtype=np.int64)

    def by_arm(self, values: NDArray[np.float64], absent: float) -> NDArray[np.float64]:
        """Return the learner's values by arm, another value for arms that have left."""
        spread = np.full(len(self.entered), absent)
        spread[list(self.present)] = values
        return spread

    def labels(self, labels: Sequence[str | int]) -> list[str | int]:
        """Return the labels of the arms that are present, in the learner's order."""
        return [labels[arm] for arm in self.present]


def _with(entered: tuple[int, ...], arm: int, value: int) -> tuple[int, ...]:
    return (*entered[:arm], value, *entered[arm + 1 :])
