"""How alpha is shared among statements, so that arms may be added and retired as one likes.

With arms that stay, N intervals share alpha equally. With arms that come and go nobody knows beforehand how many there
will be, and whoever adds and retires them may do so after a look at the estimates. So every arm that may ever come has
a share of its own, whatever happens: from the first change on, the K arms of the beginning share one half of alpha, and
the n-th newcomer has 3 / (pi^2 n^2) of it, which adds up to the other half over n = 1, 2, ….

With arms that stay, an arm wins where the evidence against each other arm is K / alpha. Let b be one of the best arms:
whichever other arm wins wrongly was shown to be better than b, and if b itself wins although another arm is as good, it
was shown to be better than that: K statements, ties included.

Where arms come and go, a winner is shown to be better than every other arm that is there. If that is wrong, it was
shown to be better than an arm that is at least as good: one ordered pair (a, b) of arms, mu_a <= mu_b, has more
evidence than it should ever have.
Which arms are there decides only which pairs are looked at. So it is enough that the shares of all ordered pairs of
arms that may ever be add up to at most 1 (union bound): the K (K - 1) pairs of the first arms share one half, and the
pairs of the n-th newcomer with the j arms before it, 2 j of them, share 3 / (pi^2 n^2).

While nothing has changed, alpha is shared among the arms that there are. So all that is said before the first change
is wrong with probability at most alpha, all that is said after it is, too, and both together at most with 2 alpha.

Shares are given as the numbers by which alpha is divided.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Shares(NamedTuple):
    """By what alpha is divided."""

    first: int
    """Arms at the beginning."""
    n_arms: int
    """Arms that there have been."""
    has_changed: bool

    def arms(self, others: int = 0) -> Floats:
        """Return it for each arm, if so many other statements are made with the same alpha as one of a first arm."""
        if not self.has_changed:
            return np.full(self.n_arms, float(self.n_arms + others))
        return np.concatenate([np.full(self.first, 2.0 * (self.first + others)), self._newcomers()])

    def rivals(self, leader: int, rivals: Integers) -> Floats:
        """Return it for the statements that the leader is better than each of its rivals."""
        if not self.has_changed:
            return np.full(rivals.size, float(self.n_arms))
        return self._ordered(np.full(rivals.size, leader), rivals)

    def differences(self, first: Integers, second: Integers) -> Floats:
        """Return it for one side of the difference of each pair, where all pairs of arms are looked at."""
        if not self.has_changed:
            return np.full(first.size, 2.0 * first.size)
        return self._ordered(first, second)

    def differences_to(self, control: int, arms: Integers) -> Floats:
        """Return it for one side of the difference of each arm to a control that was chosen beforehand."""
        if not self.has_changed:
            return np.full(arms.size, 2.0 * arms.size)
        others = self.first - (control < self.first)
        parts = np.concatenate([np.full(self.first, 2.0 * others), self._newcomers()])
        return 2.0 * parts[arms]

    def _newcomers(self) -> Floats:
        return np.arange(1.0, self.n_arms - self.first + 1.0) ** 2 * (math.pi**2 / 3.0)

    def _ordered(self, first: Integers, second: Integers) -> Floats:
        later = np.maximum(first, second)
        n = np.maximum(later - self.first + 1.0, 1.0)
        is_first = later < self.first
        return np.where(is_first, 2.0 * self.first * (self.first - 1.0), 2.0 * later * n**2 * (math.pi**2 / 3.0))


def level(parts: float, alpha: float) -> float:
    """Return the log of the capital that is needed for a share of alpha."""
    return math.log(parts / alpha)


def levels(parts: Floats, alpha: float) -> Floats:
    """Return the same for each of many shares."""
    return np.array([level(each, alpha) for each in parts.tolist()])
