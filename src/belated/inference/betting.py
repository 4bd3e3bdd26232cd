"""Estimates by betting: for means that stay the same. Valid at all times at once, however arms are chosen."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated.inference import capital, forecast
from belated.inference.estimates import Estimate
from belated.inference.method import SAME_MEANS, Counted, Method, Options, Pair
from belated.inference.shares import level, levels
from belated.inference.stream import Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Betting(Method):
    """Gamblers bet on the outcomes of each arm (`belated.inference.capital`)."""

    name = "betting"
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
        needed = levels(2.0 * self.shares.arms(), alpha)
        lows = capital.lower(self.above, self.places, needed)
        return lows, 1.0 - capital.lower(self.below[:, ::-1], self.places, needed)

    def differences(self, pairs: Sequence[Pair], alpha: float, control: int | None) -> tuple[Floats, Floats]:
        weights = np.zeros((len(pairs), self.n_arms))
        for row, (a, b) in enumerate(pairs):
            weights[row, [a, b]] = (1.0, -1.0)
        first, second = np.array(pairs).T
        parts = (
            self.shares.differences(first, second) if control is None else self.shares.differences_to(control, first)
        )
        return self._bounds(weights, levels(parts, alpha))

    def p_value(self, leader: int) -> float:
        """Return the least alpha at which the leader wins.

        `Shares` says by which statements a winner may be false, where arms stay, and where they come and go.
        """
        rivals = self.rivals(leader)
        evidence = self._log_evidence(leader, rivals, self.above, self.below)
        parts = self.shares.rivals(leader, rivals)
        least = zip(parts.tolist(), evidence.tolist(), strict=True)
        return min(1.0, max(part * math.exp(-max(each, -1.0)) for part, each in least))

    def margins(self, leader: int) -> Floats:
        rivals = self.rivals(leader)
        parts = self.shares.rivals(leader, rivals)
        return self._log_evidence(leader, rivals, self.above, self.below) - np.log(parts / parts.min())

    def _log_evidence(self, leader: int, rivals: Integers, above: Floats, below: Floats) -> Floats:
        """Return the evidence that the leader is better than each of its rivals."""
        first = np.broadcast_to(above[leader], (rivals.size, self.places.size))
        return capital.log_evidence(first, below[rivals], self.places)

    @property
    def candidates(self) -> list[int]:
        leader = self.leader
        if leader is None:
            return super().candidates
        rivals = self.rivals(leader)
        needed = levels(self.shares.rivals(leader, rivals), self.options.alpha)
        is_out = self._log_evidence(leader, rivals, self.above, self.below) >= needed
        return sorted([leader, *rivals[~is_out].tolist()])

    def progress(self, leader: int) -> float:
        rivals = self.rivals(leader)
        needed = levels(self.shares.rivals(leader, rivals), self.options.alpha)
        return float(np.clip(self._log_evidence(leader, rivals, self.above, self.below) / needed, 0.0, 1.0).min())

    def more(self, leader: int) -> forecast.Range | None:
        if self.options.outcomes != "settled":
            return None
        arms = forecast.leading(self.means, self.present)
        shares = np.where(self.present, self.stream.pace, 0.0)
        tally = self.stream.tally
        if not (tally.known[arms] > 0).all() or not (shares[arms] > 0.0).all():
            return None
        futures = forecast.simulate(tally, shares / shares.sum(), arms, self.stream.rounds)
        place = int(np.flatnonzero(arms == leader)[0])
        others = np.delete(np.arange(arms.size), place)
        needed = levels(self.shares.rivals(leader, arms[others]), self.options.alpha)
        used = np.isin(tally.places, futures.places)
        above = np.zeros((forecast.FUTURES, arms.size, tally.places.size))

        def is_enough(coming: Floats) -> NDArray[np.bool_]:
            above[:, :, used] = coming
            counts = above + tally.counts[arms]
            first = np.repeat(counts[:, place], others.size, axis=0)
            second = counts[:, others].reshape(-1, tally.places.size)
            evidence = capital.log_evidence(first, second, tally.places).reshape(-1, others.size)
            return np.asarray((evidence >= needed).all(axis=1))

        return forecast.by_search(futures, is_enough)

    def uplift(self, control: int | None, alpha: float) -> Estimate:
        instead = self.stream.uniform if control is None else (np.arange(self.n_arms) == control).astype(np.float64)
        weights = self.stream.decisions / self.stream.rounds - instead
        (low,), (high,) = self._bounds(weights[None, :], level(2.0, alpha))
        value = np.where(weights == 0.0, 0.0, weights * self.means).sum()
        return Estimate(float(value), float(low), float(high))

    def _bounds(self, weights: Floats, needed: float | Floats) -> tuple[Floats, Floats]:
        """Return bounds of sums of w_k mu_k, a row of weights for each."""
        return self._least(weights, needed), -self._least(-weights, needed)

    def _least(self, weights: Floats, needed: float | Floats) -> Floats:
        # w m with w < 0 is w + |w| (1 - m): what the mean leaves to 1 counts instead
        most = int((weights != 0.0).sum(axis=1).max(initial=1))
        order = np.argsort(weights == 0.0, axis=1, kind="stable")[:, :most]
        chosen = np.take_along_axis(weights, order, axis=1)
        counts = np.where((chosen > 0.0)[:, :, None], self.above[order], self.below[order][:, :, ::-1])
        least = capital.least_sum(counts, self.places, np.abs(chosen), needed)
        return least + np.minimum(weights, 0.0).sum(axis=1)
