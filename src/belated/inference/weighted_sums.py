"""Sums and bounds for means that change with time, by inverse-propensity weights.

In round s arm k has the mean mu_{k,s} given the past, and is chosen with probability pi_{k,s}. Of its average so far,
(1/t) sum of mu_{k,s}, the weighted rewards X_s = [a_s = k] r_s / pi_{k,s} >= 0 tell, since their means are mu_{k,s}.
For any c_s in [0, 1] known before round s, and any lambda in [0, 1),

    exp( lambda sum of (X_s - mu_{k,s}) - psi(lambda) sum of (X_s - c_s)^2 ),     psi(l) = -log(1 - l) - l,

is at most a fair game: exp(lambda y - psi(lambda) y^2) <= 1 + lambda y for y >= -1 (Fan, Grama & Liu 2015). A mixture
over lambda bounds sum of mu_{k,s} from below, at all times at once (Ville's inequality). The upper bound comes from (1
- r_s) in the same way, so no bound on the weights is needed. This is an empirical-Bernstein confidence sequence of the
kind of Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2024), with a mixture in place of a lambda that is chosen as
it goes. c_s is the mean of the arm's rewards before round s.

It needs the true propensity of every decision, and every arm must have had a chance in every round.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from belated.inference.capital import LOG_WEIGHTS, SHARES

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PENALTIES = -np.log1p(-SHARES) - SHARES
_HALVINGS = 60
FIELDS = ("known", "rewards", "last", "up", "down", "up_squares", "down_squares")


class WeightedSums:
    """The sums that weighted bounds need: a row of numbers for each arm, and one more.

    The last row is that of a single arm that is always chosen: the reward of whoever decided.
    """

    def __init__(self, n_arms: int) -> None:
        self.rounds = 0
        self.reason = ""
        """Why there are no bounds; nothing where there are some."""
        self.known, self.rewards, self.last = (np.zeros(n_arms + 1) for _ in range(3))
        """Of each row: rewards so far, their sum, and the round of its last decision."""
        self.up, self.down = np.zeros(n_arms + 1), np.zeros(n_arms + 1)
        """The sums of r / pi and of (1 - r) / pi."""
        self.up_squares, self.down_squares = np.zeros(n_arms + 1), np.zeros(n_arms + 1)
        """The sums of their squared distances from c, up to the last decision of the row."""

    def add(self, arms: Integers, rewards: Floats, propensities: Floats) -> None:
        """Go on by some rounds, in order. A reward that nobody will ever know is nan, and counts as 0 on both sides."""
        numbers: Floats = self.rounds + 1.0 + np.arange(arms.size, dtype=np.float64)
        self.rounds += arms.size
        if self.reason or not arms.size:
            return
        unknown = np.flatnonzero(np.isnan(propensities))
        certain = np.flatnonzero(propensities == 1.0)
        if unknown.size:
            self.reason = f"decision {numbers[unknown[0]]:.0f} has no propensity"
        elif certain.size:
            self.reason = (
                f"decision {numbers[certain[0]]:.0f} has the propensity 1: the other arms had no chance, so nothing"
                " can be said about their means at that time"
            )
        if self.reason:
            return
        order = np.argsort(arms, kind="stable")
        bounds = np.flatnonzero(np.diff(arms[order], prepend=-1, append=-1))
        for begin, end in pairwise(bounds.tolist()):
            rows = order[begin:end]
            self._add(int(arms[rows[0]]), numbers[rows], rewards[rows], propensities[rows])
        self._add(-1, numbers, rewards, np.ones(arms.size))

    def _add(self, row: int, numbers: Floats, rewards: Floats, propensities: Floats) -> None:
        # np.cumsum adds one by one: the same rounds give the same bits, in however many pieces they come
        is_known = ~np.isnan(rewards)
        reward = np.where(is_known, rewards, 0.0)
        known = np.cumsum(np.concatenate([[self.known[row]], is_known]))
        total = np.cumsum(np.concatenate([[self.rewards[row]], reward]))
        centre = (0.5 + total[:-1]) / (1.0 + known[:-1])
        passed = numbers - np.concatenate([[self.last[row]], numbers[:-1]]) - 1.0
        up = reward / propensities
        down = np.where(is_known, 1.0 - rewards, 0.0) / propensities
        for field, terms in (
            ("up", up),
            ("down", down),
            ("up_squares", (up - centre) ** 2 + passed * centre**2),
            ("down_squares", (down - (1.0 - centre)) ** 2 + passed * (1.0 - centre) ** 2),
        ):
            sums = getattr(self, field)
            sums[row] = np.cumsum(np.concatenate([[sums[row]], terms]))[-1]
        self.known[row], self.rewards[row], self.last[row] = known[-1], total[-1], numbers[-1]

    @property
    def estimates(self) -> Floats:
        """Each row's weighted mean: sum of r / pi over sum of 1 / pi; nan where it has no reward."""
        with np.errstate(invalid="ignore"):
            return self.up / (self.up + self.down)

    def bounds(self, level: float) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of each row's average mean so far, each wrong with probability exp(-level)."""
        if not self.rounds:
            return np.zeros(self.up.size), np.ones(self.up.size)
        centre = (0.5 + self.rewards) / (1.0 + self.known)
        since = self.rounds - self.last
        low = self.up - _margin(self.up_squares + since * centre**2, level)
        high = self.down - _margin(self.down_squares + since * (1.0 - centre) ** 2, level)
        return np.maximum(low / self.rounds, 0.0), 1.0 - np.maximum(high / self.rounds, 0.0)

    def copy(self) -> "WeightedSums":
        """Return sums of its own with the same values."""
        return WeightedSums.from_arrays(self.to_arrays(), self.rounds, self.reason)

    def to_arrays(self) -> dict[str, Floats]:
        """Return the sums, to go on exactly from here."""
        return {field: getattr(self, field) for field in FIELDS}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Floats], rounds: int, reason: str) -> "WeightedSums":
        weighted = cls(len(arrays["known"]) - 1)
        weighted.rounds, weighted.reason = rounds, reason
        for field in FIELDS:
            setattr(weighted, field, np.array(arrays[field], dtype=np.float64))
        return weighted


def _margin(squares: Floats, level: float) -> Floats:
    """Return the distance at which the mixture's capital is exp(level)."""
    low = np.zeros(squares.size)
    # one lambda alone, with its weight, is a bound from above
    high = ((level - LOG_WEIGHTS + np.outer(squares, _PENALTIES)) / SHARES).min(axis=1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        logs = np.outer(middle, SHARES) - np.outer(squares, _PENALTIES) + LOG_WEIGHTS
        top = logs.max(axis=1)
        capital = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        low = np.where(capital < level, middle, low)
        high = np.where(capital < level, high, middle)
    return high
