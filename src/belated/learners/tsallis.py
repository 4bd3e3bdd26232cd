"""Tsallis-INF with importance weighting (Zimmert & Seldin 2021, JMLR 22, Algorithm 1): best of both worlds, no delay.

    x_t = argmin <L, x> - 2 sqrt(t) sum sqrt(x_i),      L_{I_s} += loss / x_{s,I_s}     when the outcome of s arrives.

Their eta_t = 2 / sqrt(t) with regulariser -(4 / eta_t) sum sqrt(x_i) is the same. Regret without delay: at most
4 sqrt(KT) + 1 against any losses, sum_i (4 log T + 12) / Delta_i + ... where they are stochastic (Theorem 1). It takes
no account of delay: outcomes are used when they arrive, with the propensity of the decision. Without delay `robust` is
this learner.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.learner import Learner


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    ftrl.solve(state, math.sqrt(state[ftrl_steps.ROUND]), 0.0, p)
    return 0.0


LEARNER = Learner(
    name="tsallis",
    summary="best of both worlds without delay; takes no account of delay",
    paper="Zimmert & Seldin 2021, Tsallis-INF (IW)",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.growing_leader,
)
