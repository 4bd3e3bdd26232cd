"""Zimmert & Seldin (2020), Algorithm 2, advanced tuning (Section 4.2): decisions that wait too long are not counted.

    D_t = D_{t-1} + sigma_t,                       sigma_t counts outstanding decisions that were not skipped,
    x_t = argmin <L, x> - 2 sqrt(t) sum sqrt(x_i) + b_t sum x_i log x_i,      b_t = sqrt(D_t / log K),

and a decision s with t - s > b_t is skipped: it is not counted from then on. Its outcome is still used when it comes,
L_{I_s} += loss / x_{s,I_s}. Skipping affects the rate only, and what was counted before stays in D_t. At most one
decision is skipped in a round (Lemma 7).

Regret at most 4 sqrt(KT) + 10 max(min over sets S of |S| + sqrt(D_rest log K), 2 log K) against any losses and delays
(Theorem 2). Until the first skip it is `hybrid:delay_constant=1`; without delay it is Tsallis-INF.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.learner import Learner


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    ftrl.solve(state, math.sqrt(state[ftrl_steps.ROUND]), ftrl_steps.entropy_rate(state, 1.0, p.size), p)
    return 0.0


@kernel
def patience(state: Vector, params: Vector) -> float:
    """Return the least whole number of rounds above b_t, as the rule is strict."""
    return math.floor(state[ftrl.ENTROPY_RATE]) + 1.0


LEARNER = Learner(
    name="hybrid_skipping",
    summary="adversarial rate under any delays; stops counting outcomes that take too long, uses them if they come",
    paper="Zimmert & Seldin 2020, advanced tuning",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.growing_leader,
    patience=patience,
    keeps_skipped=True,
)
