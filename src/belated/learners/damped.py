"""Masoudian, Zimmert & Seldin (2022), "A Best-of-Both-Worlds Algorithm for Bandits with Delayed Feedback": the learner
that their paper of 2024 (`robust`) improves on. It must know the longest delay, d.

    x_t = argmin <L, x> - 2 sqrt(t + eta_0) sum sqrt(x_i) + sqrt((D_t + gamma_0) / log K) sum x_i (log x_i - 1),
    eta_0 = 10 d + d^2 / (K^(1/3) log K)^2,         gamma_0 = 24^2 d^2 K^(2/3) log K,
    L_{I_s} += loss / x_{s,I_s}                     when the outcome of s arrives.

Regret O(sqrt(KT) + sqrt(D log K) + d K^(1/3) log K) against any losses and O(sum_i (log T / Delta_i + sigma_max /
(Delta_i log K)) + d K^(1/3) log K) where they are stochastic (abstract). One outcome that never comes makes d as large
as the horizon; gamma_0 then keeps the distribution near uniform in every round.

The constants 10 and 24 are recalled, that is from memory and not checked against the paper; they are parameters.
Outstanding decisions are counted when the round opens, as in `robust`. With d = 0 and no delay it is Tsallis-INF.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.knowledge import LONGEST_DELAY
from belated.learners.learner import Learner, Parameter

LONGEST = 0
TSALLIS_CONSTANT = 1
ENTROPY_CONSTANT = 2

# Places among the solver's single numbers.
TSALLIS_START = ftrl_steps.OWN  # eta_0
ENTROPY_START = ftrl_steps.OWN + 1  # gamma_0
ARMS = ftrl_steps.OWN + 2  # K, for which these were computed


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    log_arms = math.log(p.size)
    if state[ARMS] != p.size:
        state[ARMS] = p.size
        delay = params[LONGEST]
        root = p.size ** (1.0 / 3.0)
        state[TSALLIS_START] = params[TSALLIS_CONSTANT] * delay + (delay / (root * log_arms)) ** 2
        state[ENTROPY_START] = (params[ENTROPY_CONSTANT] * delay * root) ** 2 * log_arms
    ftrl_steps.count(state, outstanding)
    tsallis_rate = math.sqrt(state[ftrl_steps.ROUND] + state[TSALLIS_START])
    entropy_rate = math.sqrt((state[ftrl_steps.CUMULATIVE_OUTSTANDING] + state[ENTROPY_START]) / log_arms)
    ftrl.solve(state, tsallis_rate, entropy_rate, p)
    return 0.0


LEARNER = Learner(
    name="damped",
    summary="best of both worlds under delay; must know the longest delay",
    paper="Masoudian, Zimmert & Seldin 2022",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.leader,
    parameters=(
        LONGEST_DELAY,
        Parameter("tsallis_constant", 10.0, 0.0, 1e9, "10 in eta_0; recalled"),
        Parameter("entropy_constant", 24.0, 0.0, 1e9, "24 in gamma_0; recalled"),
    ),
)
