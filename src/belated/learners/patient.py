"""PatientBandits (Manegueu, Vernade, Carpentier & Valko 2020): a missing outcome counts as zero reward.

    mean_i = (rewards arrived of arm i) / T_i,      T_i = decisions for arm i, whether their outcome has come or not,
    play the arm with the largest  mean_i + sqrt(2 log(2 K T^3) / T_i) + 2 T_i^(-min(alpha, 1/2)).

The last term bounds what has not come yet, where P(delay > n) <= n^-alpha. (Simulations give it the alpha of the law of
delay, for which this holds up to a factor.) It must know the horizon T and the tail index alpha. Regret O(sum_i
(Delta_i^(1 - 1/min(alpha, 1/2)) + log T / Delta_i)) up to logarithms where losses are stochastic; this is recalled, not
checked against the paper. Arms without any decision are played first.
"""

import math

from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.knowledge import HORIZON, TAIL_INDEX
from belated.learners.learner import Learner

T = 0
ALPHA = 1


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    factor = 2.0 * (math.log(2.0 * p.size) + 3.0 * math.log(params[T]))
    power = -min(params[ALPHA], 0.5)
    best = 0
    largest = -math.inf
    for i in range(p.size):
        decisions = state[mean_steps.at(i) + mean_steps.DECISIONS]
        if decisions == 0.0:
            best = i
            break
        rewards = state[mean_steps.at(i) + mean_steps.OBSERVED] - state[mean_steps.at(i) + mean_steps.LOSSES]
        index = rewards / decisions + math.sqrt(factor / decisions) + 2.0 * decisions**power
        if index > largest:
            best = i
            largest = index
    for i in range(p.size):
        p[i] = 0.0
    p[best] = 1.0
    return 0.0


@kernel
def chosen(state: Vector, params: Vector, arm: int, propensity: float, mark: float) -> float:
    """Count the decision of the arm that is played, which the run's floor may have drawn."""
    state[mean_steps.at(arm) + mean_steps.DECISIONS] += 1.0
    return mark


LEARNER = Learner(
    name="patient",
    summary="UCB that counts missing outcomes as zero reward; for stochastic losses only",
    paper="Manegueu, Vernade, Carpentier & Valko 2020, PatientBandits",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    chosen=chosen,
    learn=mean_steps.learn,
    rearm=rearm.means,
    deterministic=True,
    parameters=(HORIZON, TAIL_INDEX),
)
