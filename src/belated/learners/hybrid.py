"""Zimmert & Seldin (2020), "An Optimal Algorithm for Adversarial Bandits with Arbitrary Delays", Algorithm 1, simple
tuning (Section 4.1): FTRL with two regularisers, one for exploration, one for delay.

In round t, with sigma_t decisions outstanding when it opens,

    D_t = D_{t-1} + sigma_t
    x_t = argmin <L, x> - 2 sqrt(t) sum sqrt(x_i) + sqrt(c D_t / log K) sum x_i log x_i,      c = 2,
    L_{I_s} += loss / x_{s,I_s}                          when the outcome of s arrives.

Regret at most 4 sqrt(KT) + sqrt(8 D log K) against any losses and delays (Theorem 1), D being the sum of all delays.
Without delay it is Tsallis-INF.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.learner import Learner, Parameter

DELAY_CONSTANT = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    entropy_rate = ftrl_steps.entropy_rate(state, params[DELAY_CONSTANT], p.size)
    ftrl.solve(state, math.sqrt(state[ftrl_steps.ROUND]), entropy_rate, p)
    return 0.0


LEARNER = Learner(
    name="hybrid",
    summary="adversarial rate under any delays; its bound grows with the sum of all delays",
    paper="Zimmert & Seldin 2020, simple tuning",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.growing_leader,
    parameters=(
        Parameter("delay_constant", 2.0, 0.0, 1e9, "c, the factor of D_t in the entropy rate; the proof uses 2"),
    ),
)
