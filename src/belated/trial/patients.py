"""Patients: what each would do on each arm, drawn beforehand.

Which outcomes a patient would have on all arms is fixed before anybody is treated, so that every design meets the same
patients, and the outcomes of the last patients are known although they come after the last decision.
"""

from collections.abc import Sequence

import numpy as np

from belated.environments import Environment
from belated.environments.environment import Filled, Floats, Rounds


class Patients(Environment, registered=False):
    """Success or failure at the rates of the arms; the loss of a success is 0, that of a failure 1."""

    def __init__(self, rates: Sequence[float]) -> None:
        self.rates: Floats = np.array(rates, dtype=np.float64)
        self.n_arms = self.rates.size

    def __repr__(self) -> str:
        return f"Patients({self.rates.tolist()})"

    @property
    def title(self) -> str:
        return f"success rates {', '.join(f'{rate:g}' for rate in self.rates)}"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        fails = rng.random((rounds.size, self.n_arms)) >= self.rates
        return 1.0 - self.rates[None, :], fails.astype(np.float64)
