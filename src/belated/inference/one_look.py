"""Estimates for one look at a time that was fixed in advance, by adaptively weighted AIPW. For comparison."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.inference.aipw import aipw
from belated.inference.log import Log
from belated.inference.method import SAME_MEANS, TRUE_PROPENSITIES, Counted, Method, Options, Pair

Floats = NDArray[np.float64]

ONE_LOOK = "This is the only look, at a time that was fixed before the first decision; intervals are approximate."


class OneLook(Method):
    """Normal intervals around estimates by AIPW (`belated.inference.aipw`)."""

    assumptions = (SAME_MEANS, TRUE_PROPENSITIES, ONE_LOOK)

    def __init__(self, log: Log, counted: Counted, options: Options) -> None:
        super().__init__(log.stream(options.outcomes), log.labels, counted, options)
        if log.distributions is None:
            raise InvalidValue(
                "method 'aipw' needs the probability of every arm in every round; this log has at most those of the"
                " arms that were chosen",
                "method",
            )
        used = slice(0, self.stream.rounds)
        if self.stream.rounds:
            found = aipw(log.arms[used], log.rewards[used], log.distributions[used])
            self.means, self.errors = found.estimate, found.standard_error
        else:
            self.means = self.errors = np.full(self.n_arms, np.nan)

    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        half = NormalDist().inv_cdf(1.0 - alpha / (2 * self.n_arms)) * self.errors
        lows, highs = np.maximum(self.means - half, 0.0), np.minimum(self.means + half, 1.0)
        return np.nan_to_num(lows, nan=0.0), np.nan_to_num(highs, nan=1.0)

    def differences(self, pairs: Sequence[Pair], alpha: float) -> tuple[Floats, Floats]:
        first, second = np.array(pairs).T
        middle = self.means[first] - self.means[second]
        half = NormalDist().inv_cdf(1.0 - alpha / (2 * len(pairs))) * np.hypot(self.errors[first], self.errors[second])
        return np.maximum(np.nan_to_num(middle - half, nan=-1.0), -1.0), np.minimum(
            np.nan_to_num(middle + half, nan=1.0), 1.0
        )

    def p_value(self, leader: int) -> float:
        return min(1.0, (self.n_arms - 1) * (1.0 - NormalDist().cdf(float(self.margins(leader).min()))))

    def margins(self, leader: int) -> Floats:
        others = np.arange(self.n_arms) != leader
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = (self.means[leader] - self.means[others]) / np.hypot(self.errors[leader], self.errors[others])
        return np.asarray(np.nan_to_num(scores))
