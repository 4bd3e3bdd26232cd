"""Thompson sampling (Thompson 1933) for losses 0 or 1, on the outcomes that have arrived.

    theta_i ~ Beta(1 + ones_i, 1 + zeros_i), independent;       p_i = P(theta_i is the smallest),

ones_i and zeros_i being the outcomes 1 and 0 observed of arm i. Drawing all theta_i and playing the smallest plays arm
i with probability p_i, so the arm is drawn from p instead: the propensity is what it says, and never 0. A loss between
0 and 1 counts as 1 with that probability (Agrawal & Goyal 2012), by a coin made from the draw of the round. Under delay
the posterior is that of the outcomes that have arrived. Without delay regret is (1 + o(1)) sum_i Delta_i log T /
kl(mu_i, mu_best) where losses are stochastic.

The probabilities are integrals,

    p_i = int f_i(y) prod_{j != i} S_j(y) dy,

f_i being the density of y = logit(theta_i), f_i(y) = x^a (1 - x)^b / B(a, b) at x = logistic(y), and S_j the
probability that logit(theta_j) is above y. One pass over nodes, from below, adds up all of them at once (`smallest`),
within 0.001, and within 1 % of probabilities from 1e-4 on.
"""

import math

import numpy as np

from belated.core import random
from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.learner import Learner

DRAW = mean_steps.OWN

# For each arm.
SCALE = mean_steps.ARM_OWN  # -log B(a, b): 0 for a = b = 1, above 0 as soon as there is an outcome
BELOW = mean_steps.ARM_OWN + np.uint64(1)  # while p is computed: the probability that logit(theta_i) is below the node
RATE = mean_steps.DECISIONS  # likewise: its probability of being at the node over that of being above

# The ends of the range of y, and the nodes in it.
WIDTHS = 4.3  # standard deviations to an end,
TAILS = 7.0  # and so many lengths 1/a or 1/b of the exponential tails
SURE = 11.5  # all above y has at most the probability exp(-SURE)
BEND = 4.0  # nodes are even within so many of the smallest standard deviations of the upper end, and grow sparse below
STEP = 0.15
TOLERANCE = 0.0015  # how far from 1 the sum of p may be before more nodes are taken,
MOST_NODES = 400  # and where that ends
NO_DENSITY = -25.0  # the log of a density too small to count
LEAST_ABOVE = 1e-12
LEAST_SHARE = 1e-12  # of an arm, so that every arm can be drawn


@kernel(inline=True)
def scale(a: float, b: float) -> float:
    """Return -log B(a, b)."""
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)


@kernel(inline=True)
def log_logistic(y: float) -> float:
    """Return log x at x = 1 / (1 + exp(-y)); log(1 - x) is that less y."""
    return -math.log1p(math.exp(-y)) if y > 0.0 else y - math.log1p(math.exp(y))


@kernel(inline=True)
def posterior(state: Vector, arm: int) -> tuple[float, float]:
    """Return a = 1 + ones and b = 1 + zeros of an arm."""
    ones = state[mean_steps.at(arm) + mean_steps.LOSSES]
    return 1.0 + ones, 1.0 + state[mean_steps.at(arm) + mean_steps.OBSERVED] - ones


@kernel
def smallest(state: Vector, p: Vector) -> int:
    """Write p_i = P(theta_i is the smallest) into p; return how many nodes it took.

    The upper end of the range is where prod_j S_j <= exp(-SURE) for sure: S_j(y) <= exp(-D_j(y)), where D_j = log of
    the likelihood a log x + b log(1 - x) at its mode less that at y. sum_j D_j is convex, so Newton's steps from above
    never step over it. An arm that matters has a part of its bulk below that end, so the nodes can grow sparse with the
    distance from it: y = end + c sinh(v), v = -u, ..., -h, 0, by the trapezoidal rule, whose error falls exponentially
    in 1 / h for functions as smooth as these. S_j is a running sum with the Euler-Maclaurin term h^2/12 phi', where
    phi = f_j dy/dv and f' = f (a - (a + b) x). The p_i sum to 1 if the nodes are dense enough.
    """
    end = math.inf
    low = math.inf
    for i in range(p.size):
        a, b = posterior(state, i)
        place = mean_steps.at(i)
        if state[place + SCALE] == 0.0 and a + b > 2.0:  # a snapshot from before it was kept
            state[place + SCALE] = scale(a, b)
        mode = math.log(a / b)
        width = math.sqrt(1.0 / a + 1.0 / b)
        log_x = log_logistic(mode)
        p[i] = mode  # p, BELOW and RATE hold what the next two loops need
        state[place + BELOW] = width
        state[place + RATE] = (a + b) * log_x - b * mode
        end = min(end, mode + WIDTHS * width + TAILS / b)
        low = min(low, mode - WIDTHS * width - TAILS / a)
    for _ in range(4):
        log_x = log_logistic(end)
        x = math.exp(log_x)
        more = -SURE
        slope = 0.0
        for i in range(p.size):
            if p[i] < end:
                a, b = posterior(state, i)
                more += state[mean_steps.at(i) + RATE] - (a + b) * log_x + b * end
                slope += (a + b) * x - a
        if more <= 0.5:
            break
        end -= more / slope
    narrowest = math.inf
    for i in range(p.size):
        width = state[mean_steps.at(i) + BELOW]
        if p[i] < end + 2.0 * width:
            narrowest = min(narrowest, width)
    c = BEND * narrowest
    u = math.asinh((end - low) / c)
    intervals = math.ceil(u / STEP)
    taken = 0
    while True:
        total = _integrate(state, p, end, c, u / intervals, intervals)
        taken += intervals + 1
        if abs(total - 1.0) <= TOLERANCE or taken >= MOST_NODES:
            break
        intervals += intervals // 2 + 1
    shares = 0.0
    for i in range(p.size):
        p[i] = max(p[i] / total, LEAST_SHARE)
        shares += p[i]
    for i in range(p.size):
        p[i] /= shares
    return taken


@kernel
def _integrate(state: Vector, p: Vector, end: float, c: float, h: float, intervals: int) -> float:
    """Write the integrals over y = end + c sinh(v), v = -intervals h, ..., -h, 0, into p; return their sum."""
    for i in range(p.size):
        p[i] = 0.0
        state[mean_steps.at(i) + BELOW] = 0.0
    for k in range(intervals, -1, -1):
        growth = math.exp(-h * k)
        sinh = 0.5 * (growth - 1.0 / growth)
        cosh = 0.5 * (growth + 1.0 / growth)
        y = end + c * sinh
        weight = c * cosh * h  # h dy/dv
        bending = sinh / cosh * h
        log_x = log_logistic(y)
        x = math.exp(log_x)
        all_above = 1.0
        for i in range(p.size):
            a, b = posterior(state, i)
            place = mean_steps.at(i)
            density = (a + b) * log_x - b * y + state[place + SCALE]
            below = state[place + BELOW]
            if density > NO_DENSITY:
                here = math.exp(density) * weight
                correction = ((a - (a + b) * x) * weight + bending) / 12.0
                above = max(1.0 - below - here * (0.5 - correction), LEAST_ABOVE)
                state[place + BELOW] = below + here
                state[place + RATE] = here / above
            else:
                above = max(1.0 - below, LEAST_ABOVE)
                state[place + RATE] = 0.0
            all_above *= above
        for i in range(p.size):
            p[i] += state[mean_steps.at(i) + RATE] * all_above
    total = 0.0
    for i in range(p.size):
        total += p[i]
    return total


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[mean_steps.ROUND] += 1.0
    smallest(state, p)
    key = random.seed_of_draw(state[DRAW], state[mean_steps.ROUND])
    return random.uniform(key, 0)  # what a loss between 0 and 1 will be held against


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    mean_steps.learn(state, params, arm, 1.0 if mark < loss else 0.0, propensity, mark)
    a, b = posterior(state, arm)
    state[mean_steps.at(arm) + SCALE] = scale(a, b)


LEARNER = Learner(
    name="thompson",
    summary="Thompson sampling on the outcomes that have arrived; for stochastic losses only",
    paper="Thompson 1933; Agrawal & Goyal 2012",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=learn,
    rearm=rearm.means,
    draw_at=DRAW,
    fair_arrivals=True,
)
