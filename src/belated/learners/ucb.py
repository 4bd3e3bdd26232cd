"""Delayed-UCB1 (Joulani, György & Szepesvári 2013, Eq. 6): UCB1 on what has arrived.

    play the arm with the largest  mean reward_i + sqrt(exploration ln t / n_i),    n_i = outcomes observed of arm i.

t counts decisions, not outcomes. Arms without any outcome come first, the one with the fewest decisions before the
others (the paper leaves this open; always taking the same one would play it until its first outcome arrives).
exploration = 2 is UCB1; 1.5 is the UCB1 of the figures in Zimmert & Seldin (2021).
"""

import math

from belated.kernels import Vector, kernel
from belated.layout import Layout
from belated.learners.learner import Learner, Parameter

ROUND = 0  # t; then for each arm
LOSSES = 1  # the sum of observed losses
OBSERVED = 2  # n_i
DECISIONS = 3  # made, whether observed or not
FIELDS = 3

EXPLORATION = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[ROUND] += 1.0
    bonus = params[EXPLORATION] * math.log(state[ROUND])
    chosen = -1
    fewest = math.inf
    for i in range(p.size):
        p[i] = 0.0
        if state[FIELDS * i + OBSERVED] == 0.0 and state[FIELDS * i + DECISIONS] < fewest:
            chosen = i
            fewest = state[FIELDS * i + DECISIONS]
    if chosen < 0:
        least = math.inf
        for i in range(p.size):
            share = 1.0 / state[FIELDS * i + OBSERVED]
            optimistic = state[FIELDS * i + LOSSES] * share - math.sqrt(bonus * share)
            if optimistic < least:
                chosen = i
                least = optimistic
    state[FIELDS * chosen + DECISIONS] += 1.0
    p[chosen] = 1.0
    return 0.0


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    state[FIELDS * arm + LOSSES] += loss
    state[FIELDS * arm + OBSERVED] += 1.0


def size(n_arms: int) -> int:
    """How many numbers the state has."""
    return 1 + FIELDS * n_arms


LEARNER = Learner(
    name="ucb",
    summary="optimism on what has arrived; for stochastic losses only",
    paper="Joulani, György & Szepesvári 2013, Delayed-UCB1",
    size=size,
    losses_at=Layout(first=LOSSES, step=FIELDS),
    decide=decide,
    learn=learn,
    parameters=(Parameter("exploration", 2.0, 0.0, 1e6, "the factor in sqrt(exploration ln t / n)"),),
)
