"""Estimates by inverse-propensity weights: for means that change with time. Valid at all times at once."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.inference.estimates import Estimate
from belated.inference.method import TRUE_PROPENSITIES, Counted, Method, Options, Pair
from belated.inference.stream import Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]

_HALVINGS = 40


class Weighted(Method):
    """Averages of means that may change, from weighted rewards (`belated.inference.weighted_sums`)."""

    assumptions = (TRUE_PROPENSITIES,)

    def __init__(self, stream: Stream, labels: Sequence[Arm], counted: Counted, options: Options) -> None:
        super().__init__(stream, labels, counted, options)
        self.sums = stream.weighted
        if self.sums.reason:
            raise InvalidValue(
                f"method 'weighted' needs the true propensity of every decision: {self.sums.reason}", "method"
            )
        self.means = self.sums.estimates[:-1]

    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        return self._bounds(math.log(2 * self.n_arms / alpha))

    def differences(self, pairs: Sequence[Pair], alpha: float) -> tuple[Floats, Floats]:
        """Return the differences of the ends of intervals. Those hold together, and so do their differences."""
        lows, highs = self.intervals(alpha)
        first, second = np.array(pairs).T
        return lows[first] - highs[second], highs[first] - lows[second]

    def p_value(self, leader: int) -> float:
        """Return the least alpha at which the leader's lower bound is above the upper bounds of all others.

        A false winner is thought better than an arm that is the best: the upper bound of that arm is wrong, or the
        lower bound of another one. So n_arms bounds must hold.
        """
        low, high = -700.0, 0.0  # of log alpha
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            lows, highs = self._bounds(math.log(self.n_arms) - middle)
            wins = bool((lows[leader] > np.delete(highs, leader)).all())
            low, high = (low, middle) if wins else (middle, high)
        return math.exp(high)

    def margins(self, leader: int) -> Floats:
        lows, highs = self.intervals(self.options.alpha)
        return np.asarray(lows[leader] - np.delete(highs, leader))

    def uplift(self, instead: Floats, alpha: float) -> Estimate:
        bounds = int(np.count_nonzero(instead)) + 1
        lows, highs = self.sums.bounds(math.log(2 * bounds / alpha))
        value = self.sums.estimates[-1] - np.where(instead > 0.0, instead * self.means, 0.0).sum()
        return Estimate(float(value), float(lows[-1] - instead @ highs[:-1]), float(highs[-1] - instead @ lows[:-1]))

    def _bounds(self, level: float) -> tuple[Floats, Floats]:
        lows, highs = self.sums.bounds(level)
        return lows[:-1], highs[:-1]

    @property
    def notes(self) -> tuple[str, ...]:
        return ("Means are averages over the decisions so far.", *super().notes)
