"""Thompson sampling (Thompson 1933) for losses 0 or 1, on the outcomes that have arrived.

    theta_i ~ Beta(1 + ones_i, 1 + zeros_i);       play the arm with the smallest theta_i,

ones_i and zeros_i being the outcomes 1 and 0 observed of arm i. A loss between 0 and 1 counts as 1 with that
probability (Agrawal & Goyal 2012). Under delay the posterior is that of the outcomes that have arrived. Without
delay regret is (1 + o(1)) sum_i Delta_i log T / kl(mu_i, mu_best) where losses are stochastic.

Its random numbers are made from the draw of the round, so the same draws give the same decisions. Once theta is drawn
the arm is certain, so the reported propensity is 1, not the probability over theta. Do not use it for importance
weighting.
"""

import math

import numpy as np

from belated.core import random
from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps
from belated.learners.learner import Learner

DRAW = mean_steps.OWN

_LOG_4 = math.log(4.0)
_ONE_AND_LOG_5 = 1.0 + math.log(5.0)
_POSITIONS = 1 << 16  # random numbers for each arm: more than any arm can use


@kernel
def beta(a: float, b: float, key: np.uint64, position: int) -> float:
    """Return a draw from Beta(a, b) for a, b >= 1, made from the random numbers of a seed, starting at a position.

    Rejection from a log-logistic envelope: algorithm BB of Cheng (1978).
    """
    if a == 1.0 or b == 1.0:
        u = random.uniform(key, position)
        return -math.expm1(math.log(u) / b) if a == 1.0 else u ** (1.0 / a)
    small = min(a, b)
    large = max(a, b)
    both = a + b
    slope = math.sqrt((both - 2.0) / (2.0 * small * large - both))
    gamma = small + 1.0 / slope
    w = small
    for _ in range(_POSITIONS // 2):
        u1 = random.uniform(key, position)
        u2 = random.uniform(key, position + 1)
        position += 2
        v = slope * math.log(u1 / (1.0 - u1))
        w = small * math.exp(v)
        z = u1 * u1 * u2
        r = gamma * v - _LOG_4
        s = small + r - w
        if s + _ONE_AND_LOG_5 >= 5.0 * z:
            break
        log_z = math.log(z)
        if s >= log_z or r + both * math.log(both / (large + w)) >= log_z:
            break
    return w / (large + w) if a == small else large / (large + w)


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[mean_steps.ROUND] += 1.0
    key = random.seed_of_draw(state[DRAW], state[mean_steps.ROUND])
    chosen = 0
    least = math.inf
    for i in range(p.size):
        ones = state[mean_steps.at(i) + mean_steps.LOSSES]
        zeros = state[mean_steps.at(i) + mean_steps.OBSERVED] - ones
        theta = beta(1.0 + ones, 1.0 + zeros, key, (i + 1) * _POSITIONS)
        if theta < least:
            chosen = i
            least = theta
    mean_steps.play(state, chosen, 0.0, p)
    return random.uniform(key, 0)  # what a loss between 0 and 1 will be held against


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    mean_steps.learn(state, params, arm, 1.0 if mark < loss else 0.0, propensity, mark)


LEARNER = Learner(
    name="thompson",
    summary="Thompson sampling on the outcomes that have arrived; for stochastic losses only",
    paper="Thompson 1933; Agrawal & Goyal 2012",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=learn,
    draw_at=DRAW,
    fair_arrivals=True,
)
