"""Estimates for one look at a time that was fixed in advance, by adaptively weighted AIPW. For comparison."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.inference.aipw import Intervals, aipw, aipw_differences
from belated.inference.method import SAME_MEANS, TRUE_PROPENSITIES, Counted, Method, Options, Pair
from belated.inference.stream import stream_of
from belated.logs.log import Log

Floats = NDArray[np.float64]

ONE_LOOK = "This is the only look, at a time that was fixed before the first decision; intervals are approximate."


class OneLook(Method):
    """Normal intervals around estimates by AIPW (`belated.inference.aipw`)."""

    name = "aipw"
    assumptions = (SAME_MEANS, TRUE_PROPENSITIES, ONE_LOOK)

    def __init__(self, log: Log, counted: Counted, options: Options) -> None:
        if log.changes:
            raise InvalidValue("method 'aipw' needs arms that stay; in this log some came or left", "method")
        super().__init__(stream_of(log, options.outcomes), log.labels, counted, options)
        if log.distributions is None:
            raise InvalidValue(
                "method 'aipw' needs the probability of every arm in every round; this log has at most those of the"
                " arms that were chosen",
                "method",
            )
        used = slice(0, self.stream.rounds)
        self._log = log.arms[used], log.rewards[used], log.distributions[used]
        self._kept: dict[int, Intervals] = {}
        """Differences to each arm that was asked for."""
        self.means = self.errors = np.full(self.n_arms, np.nan)
        if self.stream.rounds:
            found = aipw(*self._log)
            self.means, self.errors = found.estimate, found.standard_error

    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        half = NormalDist().inv_cdf(1.0 - alpha / (2 * self.n_arms)) * self.errors
        lows, highs = np.maximum(self.means - half, 0.0), np.minimum(self.means + half, 1.0)
        return np.nan_to_num(lows, nan=0.0), np.nan_to_num(highs, nan=1.0)

    def differences(self, pairs: Sequence[Pair], alpha: float, control: int | None) -> tuple[Floats, Floats]:
        z = NormalDist().inv_cdf(1.0 - alpha / (2 * len(pairs)))
        found = [self._less(second) for _, second in pairs]
        middle = np.array([each.estimate[first] for each, (first, _) in zip(found, pairs, strict=True)])
        half = z * np.array([each.standard_error[first] for each, (first, _) in zip(found, pairs, strict=True)])
        lows, highs = np.nan_to_num(middle - half, nan=-1.0), np.nan_to_num(middle + half, nan=1.0)
        return np.maximum(lows, -1.0), np.minimum(highs, 1.0)

    def _less(self, base: int) -> Intervals:
        """Return the means of all arms less that of one."""
        if base not in self._kept:
            if self.stream.rounds:
                self._kept[base] = aipw_differences(*self._log, base)
            else:
                self._kept[base] = Intervals(self.means, self.means, self.means, self.means)
        return self._kept[base]

    def p_value(self, leader: int) -> float:
        return min(1.0, self.n_arms * (1.0 - NormalDist().cdf(float(self.margins(leader).min()))))

    def margins(self, leader: int) -> Floats:
        less = self._less(leader)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = -np.delete(less.estimate, leader) / np.delete(less.standard_error, leader)
        return np.asarray(np.nan_to_num(scores))
