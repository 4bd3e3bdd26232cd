"""EXP3 as a user would write it, in plain Python."""

from typing import Any

import numpy as np


class PlainExp3:
    """EXP3 in plain Python, to be compared with the compiled one."""

    def __init__(self, n_arms: int, rng: np.random.Generator) -> None:
        self.round = 0
        self.estimates = np.zeros(n_arms)
        self.heard: list[tuple[int, int]] = []

    def decide(self, outstanding: int) -> Any:
        self.round += 1
        k = self.estimates.size
        weights = np.exp(-np.sqrt(np.log(k) / (self.round * k)) * (self.estimates - self.estimates.min()))
        return weights / weights.sum()

    def learn(self, arm: int, loss: float, propensity: float, round: int) -> None:
        assert round <= self.round
        self.estimates[arm] += loss / propensity
