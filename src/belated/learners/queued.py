"""QPM-D around UCB1 (Joulani, György & Szepesvári 2013, Algorithm 2): UCB1 fed from queues, one for each arm.

Outcomes that arrive go into the queue of their arm. In each round: while the queue of the arm that UCB1 wants is not
empty, feed UCB1 one outcome from it. Then play the arm that it wants. The wanted arm is

    the first arm never fed, else the arm with the largest  mean fed reward_i + sqrt(exploration ln n / n_i),

n being one more than the number of outcomes fed so far. Any outcome of the arm serves, not only that of this round.
Regret is at most that of UCB1 without delay plus sum_i Delta_i E[G_i] where losses are stochastic (Theorem 6), G_i
being the largest number of outstanding outcomes of arm i.
"""

import math

import numpy as np

from belated.core import pages
from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps
from belated.learners.learner import Learner, Pages, Parameter

FED = mean_steps.ROUND  # outcomes fed so far; means and counts are of those
HEAD = mean_steps.OWN  # of the pages: one for each outcome that will be queued
QUEUE = mean_steps.ARM_OWN  # the two ends of an arm's queue

LOSS = 1  # on a page, behind the link

EXPLORATION = 0


@kernel(inline=True)
def _wanted(state: Vector, exploration: float, arms: int) -> int:
    """Return the arm that UCB1 plays after the outcomes it was fed."""
    arm = mean_steps.unobserved(state, arms)
    return arm if arm >= 0 else mean_steps.most_promising(state, exploration * math.log(state[FED] + 1.0), arms)


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    wanted = _wanted(state, params[EXPLORATION], p.size)
    while state[mean_steps.at(wanted) + QUEUE] != 0.0:
        page = pages.pop(state, HEAD, np.int64(mean_steps.at(wanted) + QUEUE))
        mean_steps.learn(state, params, wanted, state[pages.begin(state, HEAD, page) + LOSS], 1.0, 0.0)
        state[FED] += 1.0
        pages.give_back(state, HEAD, page)
        wanted = _wanted(state, params[EXPLORATION], p.size)
    for i in range(p.size):
        p[i] = 0.0
    p[wanted] = 1.0
    return float(pages.take(state, HEAD))


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    page = int(mark)
    state[pages.begin(state, HEAD, page) + LOSS] = loss
    pages.append(state, HEAD, np.int64(mean_steps.at(arm) + QUEUE), page)


def page_size(n_arms: int) -> int:
    return 2


LEARNER = Learner(
    name="queued",
    summary="UCB1 fed from one queue of outcomes for each arm; for stochastic losses only",
    paper="Joulani, György & Szepesvári 2013, QPM-D",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=learn,
    fixed_arms="outcomes wait in queues, one for each of the arms that it began with",
    pages=Pages(HEAD, page_size),
    fair_arrivals=True,
    deterministic=True,
    parameters=(Parameter("exploration", 2.0, 0.0, 1e6, "the factor in sqrt(exploration ln n / n_i)"),),
)
