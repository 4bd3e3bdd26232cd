"""KL-UCB (Garivier & Cappé 2011) on the outcomes that have arrived.

    play the arm with the largest  max{q : n_i kl(mean reward_i, q) <= ln t + c ln ln t},
    kl(m, q) = m ln(m / q) + (1 - m) ln((1 - m) / (1 - q)),        n_i = outcomes observed of arm i.

Arms without any outcome are played first, as in `ucb`. Its authors recommend c = 0; their theorem has c = 3. Without
delay regret is at most (1 + o(1)) sum_i Delta_i log T / kl(mu_i, mu_best) where losses are stochastic, which is optimal
for Bernoulli losses. This is recalled, not checked against the paper. Nothing is proved under delay.
"""

import math

from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.learner import Learner, Parameter

C = 0


@kernel(inline=True)
def divergence(m: float, q: float) -> float:
    """Return kl(m, q) between Bernoulli distributions, q inside (0, 1)."""
    first = m * math.log(m / q) if m > 0.0 else 0.0
    second = (1.0 - m) * math.log((1.0 - m) / (1.0 - q)) if m < 1.0 else 0.0
    return first + second


@kernel
def upper(m: float, level: float) -> float:
    """Return the largest q in [m, 1] with kl(m, q) <= level."""
    if m >= 1.0:
        return 1.0
    if level <= 0.0:
        return m
    if m <= 0.0:
        return -math.expm1(-level)
    # kl(m, q) - level is convex and increasing in q above m: Newton from a point where it is positive descends to the
    # root. kl is at least 2 (q - m)^2, and at least (1 - m) ln(1 / (1 - q)) - ln 2.
    q = min(m + math.sqrt(0.5 * level), -math.expm1(-(level + math.log(2.0)) / (1.0 - m)))
    if q >= 1.0:
        return 1.0
    for _ in range(60):
        step = (divergence(m, q) - level) * q * (1.0 - q) / (q - m)
        q -= step
        if abs(step) <= 1e-15 * q:
            break
    return q


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[mean_steps.ROUND] += 1.0
    chosen = mean_steps.unobserved(state, p.size)
    if chosen < 0:
        log_round = math.log(state[mean_steps.ROUND])
        level = log_round + params[C] * math.log(max(log_round, 1.0))
        largest = -1.0
        for i in range(p.size):
            observed = state[mean_steps.at(i) + mean_steps.OBSERVED]
            m = 1.0 - mean_steps.mean(state, i)
            # only an arm whose bound goes beyond the largest so far needs to be solved for
            if m > largest or (largest < 1.0 and observed * divergence(m, largest) < level):
                bound = upper(m, level / observed)
                if bound > largest:
                    largest = bound
                    chosen = i
    mean_steps.play(state, chosen, 0.0, p)
    return 0.0


LEARNER = Learner(
    name="klucb",
    summary="KL-UCB on the outcomes that have arrived; for stochastic losses only",
    paper="Garivier & Cappé 2011, KL-UCB",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=mean_steps.learn,
    rearm=rearm.means,
    fair_arrivals=True,
    deterministic=True,
    parameters=(Parameter("loglog", 0.0, 0.0, 100.0, "c, the factor of ln ln t"),),
)
