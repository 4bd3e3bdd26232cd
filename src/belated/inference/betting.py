"""Estimates by betting: for means that stay the same. Valid at all times at once, however arms are chosen."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated.inference import capital
from belated.inference.estimates import Estimate
from belated.inference.method import SAME_MEANS, Counted, Method, Options, Pair, rounded
from belated.inference.stream import Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]

MOST_MORE = 1e9
"""Decisions beyond which no guess is made of how many more are needed."""


class Betting(Method):
    """Gamblers bet on the outcomes of each arm (`belated.inference.capital`)."""

    assumptions = (SAME_MEANS,)

    def __init__(self, stream: Stream, labels: Sequence[Arm], counted: Counted, options: Options) -> None:
        super().__init__(stream, labels, counted, options)
        with np.errstate(invalid="ignore"):
            self.means = np.where(
                stream.decisions > 0, (stream.tally.rewards + 0.5 * stream.unknown) / stream.decisions, np.nan
            )
        above, below = stream.tally.counts.copy(), stream.tally.counts.copy()
        above[:, 0] += stream.unknown  # what is not known may be 0
        below[:, -1] += stream.unknown  # or 1
        used = np.asarray((above + below).any(axis=0))
        used[[0, -1]] = True
        used |= used[::-1]  # places stay the same from both ends
        self.places = stream.tally.places[used]
        self.above = above[:, used]
        """Counts for gamblers who suspect that a mean is above m."""
        self.below = below[:, used]

    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        level = math.log(2 * self.n_arms / alpha)
        lows = capital.lower(self.above, self.places, level)
        return lows, 1.0 - capital.lower(self.below[:, ::-1], self.places, level)

    def differences(self, pairs: Sequence[Pair], alpha: float) -> tuple[Floats, Floats]:
        weights = np.zeros((len(pairs), self.n_arms))
        for row, (a, b) in enumerate(pairs):
            weights[row, [a, b]] = (1.0, -1.0)
        return self._bounds(weights, math.log(2 * len(pairs) / alpha))

    def p_value(self, leader: int) -> float:
        """Return the least alpha at which the leader wins.

        A false winner is thought better than an arm that is the best. That makes n_arms - 1 pairs, and one side of
        each.
        """
        evidence = float(self.margins(leader).min())
        return min(1.0, (self.n_arms - 1) * math.exp(-max(evidence, -1.0)))

    def margins(self, leader: int) -> Floats:
        return self._log_evidence(leader, self.above, self.below)

    def _log_evidence(self, leader: int, above: Floats, below: Floats) -> Floats:
        """Return the evidence that the leader is better than each other arm."""
        others = np.arange(self.n_arms) != leader
        first = np.broadcast_to(above[leader], (self.n_arms - 1, self.places.size))
        return capital.log_evidence(first, below[others], self.places)

    def more(self, leader: int) -> int | None:
        """Return how many more decisions it takes if shares of arms and frequencies of outcomes stay as they are."""
        if self.options.outcomes != "settled":
            return None
        growth = self.stream.pace / np.maximum(self.stream.decisions, 1)
        wanted = math.log((self.n_arms - 1) / self.options.alpha)

        def is_enough(more: float) -> bool:
            grown = (1.0 + growth * more)[:, None]
            return bool(self._log_evidence(leader, self.above * grown, self.below * grown).min() >= wanted)

        low, high = 0.0, 1.0
        while not is_enough(high):
            low, high = high, 4.0 * high
            if high > MOST_MORE:
                return None
        while high - low > 0.01 * high + 0.5:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        return rounded(high)

    def uplift(self, instead: Floats, alpha: float) -> Estimate:
        weights = self.stream.decisions / self.stream.rounds - instead
        (low,), (high,) = self._bounds(weights[None, :], math.log(2 / alpha))
        value = np.where(weights == 0.0, 0.0, weights * self.means).sum()
        return Estimate(float(value), float(low), float(high))

    def _bounds(self, weights: Floats, level: float) -> tuple[Floats, Floats]:
        """Return bounds of sums of w_k mu_k, a row of weights for each."""
        return self._least(weights, level), -self._least(-weights, level)

    def _least(self, weights: Floats, level: float) -> Floats:
        # w m with w < 0 is w + |w| (1 - m): what the mean leaves to 1 counts instead
        most = int((weights != 0.0).sum(axis=1).max(initial=1))
        order = np.argsort(weights == 0.0, axis=1, kind="stable")[:, :most]
        chosen = np.take_along_axis(weights, order, axis=1)
        counts = np.where((chosen > 0.0)[:, :, None], self.above[order], self.below[order][:, :, ::-1])
        least = capital.least_sum(counts, self.places, np.abs(chosen), level)
        return least + np.minimum(weights, 0.0).sum(axis=1)
