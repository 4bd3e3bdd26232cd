"""Estimates by inverse-propensity weights: for means that change with time. Valid at all times at once."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.inference.estimates import Estimate
from belated.inference.method import TRUE_PROPENSITIES, Counted, Method, Options, Pair
from belated.inference.shares import level, levels
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
        if stream.has_changed:
            self.assumptions = (f"{TRUE_PROPENSITIES.removesuffix('.')} for which it was there.",)

    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        return self._bounds(levels(2.0 * self.shares.arms(), alpha))

    def differences(self, pairs: Sequence[Pair], alpha: float, control: int | None) -> tuple[Floats, Floats]:
        """Return the differences of the ends of intervals. Those hold together, and so do their differences."""
        lows, highs = self.intervals(alpha)
        first, second = np.array(pairs).T
        return lows[first] - highs[second], highs[first] - lows[second]

    def p_value(self, leader: int) -> float:
        """Return the least alpha at which the leader's lower bound is above the upper bounds of its rivals.

        A false winner is thought better than an arm that is the best: the upper bound of that arm is wrong, or the
        lower bound of another one. So n_arms bounds must hold; where arms come and go, both bounds of all of them.
        """
        rivals = self.rivals(leader)
        parts = 2.0 * self.shares.arms() if self.stream.has_changed else np.array([float(self.n_arms)])
        needed = levels(parts, 1.0)
        low, high = -700.0, 0.0  # of log alpha
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            lows, highs = self._bounds(needed - middle)
            wins = bool((lows[leader] > highs[rivals]).all())
            low, high = (low, middle) if wins else (middle, high)
        return math.exp(high)

    def margins(self, leader: int) -> Floats:
        lows, highs = self.intervals(self.options.alpha)
        return np.asarray(lows[leader] - highs[self.rivals(leader)])

    def uplift(self, instead: Floats, alpha: float) -> Estimate:
        lows, highs = self.sums.bounds(self._levels_of_uplift(instead, alpha))
        value = self.sums.estimates[-1] - np.where(instead > 0.0, instead * self.means, 0.0).sum()
        return Estimate(float(value), float(lows[-1] - instead @ highs[:-1]), float(highs[-1] - instead @ lows[:-1]))

    def _levels_of_uplift(self, instead: Floats, alpha: float) -> float | Floats:
        """Return the levels of the bounds that must hold: those of whoever decided, and of all arms instead."""
        bounds = int(np.count_nonzero(instead)) + 1
        if bounds == 2 or not self.stream.has_changed:
            return level(2.0 * bounds, alpha)
        parts = self.shares.arms(others=1)
        return levels(2.0 * np.append(parts, parts[0]), alpha)

    def _bounds(self, needed: Floats) -> tuple[Floats, Floats]:
        lows, highs = self.sums.bounds(np.append(needed, needed[-1]) if needed.size > 1 else needed[0])
        return lows[:-1], highs[:-1]

    @property
    def notes(self) -> tuple[str, ...]:
        note = "Means are averages over the decisions so far."
        if self.stream.has_changed:
            note = (
                "The mean of an arm is its average over the decisions for which it was there; uniform play is taken to"
                " have had these means."
            )
        return (note, *super().notes)
