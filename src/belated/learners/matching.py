"""Probability matching in closed form: each arm is played about as probably as it is the best one.

Thompson sampling does that by drawing from a posterior, and the probability with which it chose is not known. Here it
is written down. For arm i with mean m_i and weight n_i, against the arm with the least mean m_*,

    z_i^2 = 2 f (n_i kl(m_i, m) + n_* kl(m_*, m)),       m the mean of both,       kl between Bernoulli distributions,
    q_i proportional to  tail / (1 - tail),  tail = P(standard normal > z_i),       1 for the best arm.

z_i is the signed root of the likelihood ratio between "both arms have the same mean" and what was seen, so that tail
is about the posterior probability that arm i is better, for rare outcomes as well as for even ones. With two arms q_i
is that probability. f >= 1 is how much less losses vary than losses of 0 or 1 with the same mean would. Every arm
starts with PRIOR outcomes at the mean of all.
"""

import math

from belated.core.kernels import Vector, kernel
from belated.learners.klucb import divergence

PRIOR = 2.0


@kernel
def match(means: Vector, weights: Vector, middle: float, spread: float, q: Vector) -> None:
    """Write the probabilities of the arms into q. `means` are moved towards `middle` by the prior."""
    best = 0
    for i in range(q.size):
        means[i] = (weights[i] * means[i] + PRIOR * max(middle, 0.5)) / (weights[i] + PRIOR)
        if means[i] < means[best]:
            best = i
    least = means[best]
    heavy = weights[best] + PRIOR
    total = 0.0
    for i in range(q.size):
        q[i] = 1.0
        if i != best:
            n = weights[i] + PRIOR
            both = (n * means[i] + heavy * least) / (n + heavy)
            ratio = 0.0
            if 0.0 < both < 1.0:
                ratio = spread * (n * divergence(means[i], both) + heavy * divergence(least, both))
            tail = 0.5 * math.erfc(math.sqrt(max(ratio, 0.0)))
            q[i] = tail / (1.0 - tail)
        total += q[i]
    for i in range(q.size):
        q[i] /= total
