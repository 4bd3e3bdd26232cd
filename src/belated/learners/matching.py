"""Probability matching in closed form: each arm is played about as probably as it is the best one.

Thompson sampling does that by drawing from a posterior, and the probability with which it chose is not known. Here it
is written down. For arm i with mean m_i and weight n_i, the probability that its true mean is below m is about

    P_i(m) = P(standard normal > z_i(m)),       z_i(m)^2 = 2 f n_i c_i kl(m_i, m),       z_i of the sign of m_i - m,

kl being that between Bernoulli distributions: z_i is the signed root of the likelihood ratio, right for rare outcomes
as well as for even ones. Let m be the mean below which one arm is expected,

    sum_i P_i(m) = 1;       then q_i = P_i(m).

c_i = 1 + 2 sqrt(n_i n) / (n_i + n), n the weight of the best other arm, makes this the probability that the difference
of two arms has its sign, since errors of two arms add up as squares. It is 1 where one of the two is known. f >= 1 is
how much less losses vary than losses of 0 or 1 with the same mean would.

Every arm starts with PRIOR outcomes at the mean of all, or at 1/2 where that is higher: an arm of which nothing is
known is not taken to be as good as good ones.
"""

import math

from belated.core.kernels import Vector, kernel
from belated.learners.klucb import divergence

PRIOR = 2.0
_STEPS = 30
_CLOSE = 1e-3


@kernel(inline=True)
def below(mean: float, weight: float, m: float) -> float:
    """Return P_i(m); the weight has f in it."""
    tail = 0.5 * math.erfc(math.sqrt(max(weight * divergence(mean, m), 0.0)))
    return tail if m < mean else 1.0 - tail


@kernel
def _fill(means: Vector, weights: Vector, m: float, q: Vector) -> float:
    """Write P_i(m) into q and return their sum."""
    total = 0.0
    for i in range(q.size):
        q[i] = below(means[i], weights[i], m)
        total += q[i]
    return total


@kernel(inline=True)
def _before(means: Vector, weights: Vector, i: int, j: int) -> bool:
    """Return whether arm i is better than arm j, or as good and better known."""
    return means[i] < means[j] or (means[i] == means[j] and weights[i] > weights[j])


@kernel
def match(means: Vector, weights: Vector, middle: float, spread: float, q: Vector) -> None:
    """Write the probabilities of the arms into q. The prior is added to means and weights, f and c_i to weights."""
    best = 0
    rival = 1
    for i in range(q.size):
        means[i] = (weights[i] * means[i] + PRIOR * max(middle, 0.5)) / (weights[i] + PRIOR)
        weights[i] += PRIOR
        if i > 0 and _before(means, weights, i, best):
            rival = best
            best = i
        elif i > 1 and _before(means, weights, i, rival):
            rival = i
    heavy, light = weights[best], weights[rival]
    for i in range(q.size):
        other = light if i == best else heavy
        weights[i] *= spread * (1.0 + 2.0 * math.sqrt(weights[i] * other) / (weights[i] + other))
    # The sum grows with m. At 0 no arm is below; at the rival's mean one is, or more. Regula falsi, of the Illinois
    # kind.
    low, high = 0.0, means[rival]
    short = -1.0
    over = _fill(means, weights, high, q) - 1.0
    total = over + 1.0
    for _ in range(_STEPS):
        if abs(total - 1.0) < _CLOSE:
            break
        m = (low * over - high * short) / (over - short)
        total = _fill(means, weights, m, q)
        if total < 1.0:
            low = m
            short = total - 1.0
            over *= 0.5
        else:
            high = m
            over = total - 1.0
            short *= 0.5
    for i in range(q.size):
        q[i] /= total
