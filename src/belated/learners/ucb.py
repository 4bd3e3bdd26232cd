"""Delayed-UCB1 (Joulani, György & Szepesvári 2013, Eq. 6): UCB1 on the outcomes that have arrived.

    play the arm with the largest  mean reward_i + sqrt(exploration ln t / n_i),    n_i = outcomes observed of arm i.

t counts decisions, not outcomes. Arms without any outcome are played first, the one with the fewest decisions before
the others. (The paper leaves this open; always taking the same one would play it until its first outcome arrives.)
exploration = 2 is UCB1; 1.5 is the UCB1 of the figures in Zimmert & Seldin (2021). Regret at most
sum_i (8 log T / Delta_i + 3.5 Delta_i) + sum_i Delta_i E[G_i] where losses are stochastic (Theorem 7), G_i being the
largest number of outstanding outcomes of arm i.
"""

import math

from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.learner import Learner, Parameter

EXPLORATION = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[mean_steps.ROUND] += 1.0
    chosen = mean_steps.unobserved(state, p.size)
    if chosen < 0:
        chosen = mean_steps.most_promising(state, params[EXPLORATION] * math.log(state[mean_steps.ROUND]), p.size)
    mean_steps.play(state, chosen, 0.0, p)
    return 0.0


LEARNER = Learner(
    name="ucb",
    summary="UCB1 on the outcomes that have arrived; for stochastic losses only",
    paper="Joulani, György & Szepesvári 2013, Delayed-UCB1",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=mean_steps.learn,
    rearm=rearm.means,
    fair_arrivals=True,
    deterministic=True,
    parameters=(Parameter("exploration", 2.0, 0.0, 1e6, "the factor in sqrt(exploration ln t / n)"),),
)
