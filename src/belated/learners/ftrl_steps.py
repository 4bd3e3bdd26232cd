"""Steps shared by the learners that follow the regularised leader on the solver's state (`belated.core.ftrl`).

Exponential weights are among them: their only regulariser is the entropy.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel

# Places among the solver's single numbers.
ROUND = ftrl.OWN  # t
CUMULATIVE_OUTSTANDING = ftrl.OWN + 1  # D_t
OWN = ftrl.OWN + 2  # from here to ftrl.SINGLES - 1: the learner's own


@kernel(inline=True)
def count(state: Vector, outstanding: int) -> None:
    """Open a round: update t and D_t = D_{t-1} + outstanding."""
    state[ROUND] += 1.0
    state[CUMULATIVE_OUTSTANDING] += outstanding


@kernel(inline=True)
def entropy_rate(state: Vector, constant: float, arms: int) -> float:
    """Return sqrt(constant D_t / log K)."""
    return math.sqrt(constant * state[CUMULATIVE_OUTSTANDING] / math.log(arms))


@kernel(inline=True)
def exponential_weights(state: Vector, rate: float, p: Vector) -> None:
    """Write p_i proportional to exp(-rate L_i)."""
    ftrl.solve(state, 0.0, 1.0 / rate, p)


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    """Add loss / x_{s,I_s} to L_{I_s}, the propensity being that of the decision: importance weighting."""
    ftrl.add_loss(state, arm, loss / propensity)
