"""Successive elimination under delay (Lancewicki, Segal, Koren & Mansour 2021, "Stochastic Multi-Armed Bandits with
Unrestricted Delay Distributions", Algorithm 1).

Active arms, all of them at first, are played in turn. With n_i outcomes observed of arm i and the radius
r_i = sqrt(c log T / n_i), c = 2, infinite where n_i = 0,

    arm i is eliminated where   mean reward_i + r_i < max over active j of  mean reward_j - r_j.

It must know the horizon T. Regret O(min over q of sum_i log T / (q Delta_i) + max_i d_i(q)) where losses are
stochastic, d_i(q) being the q-quantile of the delays of arm i. The constant 2 is
recalled, not checked against the paper; it is a parameter.
"""

import math

import numpy as np

from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.knowledge import HORIZON
from belated.learners.learner import Learner, Parameter
from belated.learners.rearm import Floats, Integers

T = 0
C = 1

LAST = mean_steps.OWN  # the arm played last, plus 1
ELIMINATED = mean_steps.ARM_OWN  # 1 where it is


@kernel(inline=True)
def _radius(state: Vector, params: Vector, arm: int) -> float:
    """Return the radius of an arm's interval; inf for an arm without any outcome, about which nothing is known."""
    observed = state[mean_steps.at(arm) + mean_steps.OBSERVED]
    return math.sqrt(params[C] * math.log(params[T]) / observed) if observed > 0.0 else math.inf


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    worst = math.inf  # the smallest upper end of an active arm's losses
    for i in range(p.size):
        if state[mean_steps.at(i) + ELIMINATED] == 0.0:
            worst = min(worst, mean_steps.mean(state, i) + _radius(state, params, i))
    for i in range(p.size):
        if mean_steps.mean(state, i) - _radius(state, params, i) > worst:
            state[mean_steps.at(i) + ELIMINATED] = 1.0
    chosen = int(state[LAST]) % p.size
    while state[mean_steps.at(chosen) + ELIMINATED] != 0.0:
        chosen = (chosen + 1) % p.size
    state[LAST] = chosen + 1.0
    mean_steps.play(state, chosen, 0.0, p)
    return 0.0


def rearmed(state: Floats, n_arms: int, kept: Integers) -> Floats:
    """Rearm the means. All arms are active again: those that are clearly worse are eliminated at the next decision.

    The turn goes on behind the arm that was played last, or begins with the first where that has left.
    """
    new = rearm.means(state, n_arms, kept)
    new[mean_steps.SINGLES + int(ELIMINATED) :: mean_steps.FIELDS] = 0.0
    last = np.flatnonzero(kept == int(state[LAST]) - 1) if state[LAST] else kept[:0]
    new[LAST] = last[0] + 1.0 if last.size else 0.0
    return new


LEARNER = Learner(
    name="elimination",
    summary="plays arms in turn and eliminates those that are clearly worse; for stochastic losses only",
    paper="Lancewicki, Segal, Koren & Mansour 2021, successive elimination",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=mean_steps.learn,
    rearm=rearmed,
    fair_arrivals=True,
    deterministic=True,
    parameters=(HORIZON, Parameter("radius_constant", 2.0, 1e-9, 1e6, "c in sqrt(c log T / n); recalled")),
)
