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

Where arms come and go, an arm's rounds are those for which it is there: its average is over them, and the others do not
exist for it.
"""

import numpy as np
from numpy.typing import NDArray

from belated.core.weighted_rewards import ROW, compiled_add
from belated.inference.capital import LOG_WEIGHTS, SHARES

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PENALTIES = -np.log1p(-SHARES) - SHARES
_HALVINGS = 60


class WeightedSums:
    """The sums that weighted bounds need: a row of numbers for each arm, and one more.

    The last row is that of a single arm that is always chosen: the reward of whoever decided.
    """

    def __init__(self, n_arms: int) -> None:
        self.rounds = 0
        self.reason = ""
        """Why there are no bounds; nothing where there are some."""
        self.rows: NDArray[np.void] = np.zeros(n_arms + 1, dtype=ROW)
        self.present: NDArray[np.bool_] = np.ones(n_arms, dtype=np.bool_)
        """Which arms are there."""
        self.absent: Integers = np.zeros(n_arms, dtype=np.int64)
        """The rounds so far for which each arm was not there."""

    def grow(self) -> None:
        """Make room for one more arm, which is not there yet."""
        self.rows = np.concatenate([self.rows[:-1], np.zeros(1, dtype=ROW), self.rows[-1:]])
        self.present = np.append(self.present, False)
        self.absent = np.append(self.absent, self.rounds)

    def change(self, arm: int, present: bool) -> None:
        """Let an arm come or leave."""
        self.present[arm] = present

    def add(self, arms: Integers, rewards: Floats, propensities: Floats) -> None:
        """Go on by some rounds, in order. A reward that nobody will ever know is nan, and counts as 0 on both sides."""
        before = self.rounds
        self.rounds += arms.size
        self.absent[~self.present] += arms.size
        if self.reason or not arms.size:
            return
        unknown = np.flatnonzero(np.isnan(propensities))
        certain = np.flatnonzero(propensities == 1.0)
        if unknown.size:
            self.reason = f"decision {before + 1 + unknown[0]} has no propensity"
        elif certain.size:
            self.reason = (
                f"decision {before + 1 + certain[0]} has the propensity 1: the other arms had no chance, so nothing"
                " can be said about their means at that time"
            )
        if self.reason:
            return
        compiled_add()(
            np.ascontiguousarray(arms, dtype=np.int64),
            np.ascontiguousarray(rewards, dtype=np.float64),
            np.ascontiguousarray(propensities, dtype=np.float64),
            before,
            self.absent,
            self.rows,
        )

    @property
    def estimates(self) -> Floats:
        """Each row's weighted mean: sum of r / pi over sum of 1 / pi; nan where it has no reward."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.rows["up"] / (self.rows["up"] + self.rows["down"]))

    def bounds(self, level: float | Floats) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of each row's average mean so far, each wrong with probability exp(-level).

        level: the same for all rows, or one for each.
        """
        rows = self.rows
        rounds = self.rounds - np.append(self.absent, 0)
        centre = (0.5 + rows["rewards"]) / (1.0 + rows["known"])
        since = rounds - rows["last"]
        low = rows["up"] - margin(rows["up_squares"] + since * centre**2, level)
        high = rows["down"] - margin(rows["down_squares"] + since * (1.0 - centre) ** 2, level)
        rounds = np.maximum(rounds, 1)  # of no rounds nothing is known: sums of 0 leave 0 and 1
        return np.maximum(low / rounds, 0.0), 1.0 - np.maximum(high / rounds, 0.0)

    def copy(self) -> "WeightedSums":
        """Return sums of its own with the same values."""
        other = WeightedSums.from_rows(self.rows, self.rounds, self.reason)
        other.present, other.absent = self.present.copy(), self.absent.copy()
        return other

    @classmethod
    def from_rows(cls, rows: NDArray[np.void], rounds: int, reason: str) -> "WeightedSums":
        """Go on from what another one had, all of whose arms were always there."""
        weighted = cls(rows.size - 1)
        weighted.rounds, weighted.reason = rounds, reason
        weighted.rows[:] = rows
        return weighted


def margin(squares: Floats, level: float | Floats) -> Floats:
    """Return the distance of a sum from its mean at which the mixture's capital is exp(level), by sums of squares."""
    levels = np.broadcast_to(np.asarray(level, dtype=np.float64), squares.shape)
    low = np.zeros(squares.size)
    # one lambda alone, with its weight, is a bound from above
    high = ((levels[:, None] - LOG_WEIGHTS + np.outer(squares, _PENALTIES)) / SHARES).min(axis=1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        logs = np.outer(middle, SHARES) - np.outer(squares, _PENALTIES) + LOG_WEIGHTS
        top = logs.max(axis=1)
        capital = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        low = np.where(capital < levels, middle, low)
        high = np.where(capital < levels, high, middle)
    return high
