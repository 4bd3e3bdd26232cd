"""Exponential weights for one fixed delay d (Cesa-Bianchi, Gentile & Mansour 2019, JMLR 20, Section 7, one player).

    x_{t,i} proportional to exp(-eta L_i),      L_{I_s} += loss / x_{s,I_s}  as soon as the outcome of s arrives,
    eta = gamma / (K e (d + 1)),                gamma in (0, 1].

Their Theorem 4: regret at most 2 d + K e (d + 1) log K / gamma + gamma (1 / (2 (1 - 1/e) (d + 1)) + 3 / (K e)) T.
gamma is chosen to minimise this bound, which gives O(d + sqrt((K + d) T log K)). So the learner must know d and the
horizon T. Where delays vary, d is the longest.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.knowledge import HORIZON, LONGEST_DELAY
from belated.learners.learner import Learner

T = 0
DELAY = 1


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    unit = p.size * math.e * (params[DELAY] + 1.0)
    slope = 1.0 / (2.0 * (1.0 - 1.0 / math.e) * (params[DELAY] + 1.0)) + 3.0 / (p.size * math.e)
    gamma = min(1.0, math.sqrt(unit * math.log(p.size) / (slope * params[T])))
    ftrl_steps.exponential_weights(state, gamma / unit, p)
    return 0.0


LEARNER = Learner(
    name="exp3_fixed",
    summary="exponential weights tuned for one fixed delay; must know horizon and longest delay",
    paper="Cesa-Bianchi, Gentile & Mansour 2019",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.leader,
    parameters=(HORIZON, LONGEST_DELAY),
)
