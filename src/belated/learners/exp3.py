"""EXP3 for losses, anytime (Auer et al. 2002, in the form without uniform mixing).

    x_{t,i} proportional to exp(-eta_t L_i),   eta_t = sqrt(log K / (t K)),
    L_{I_s} += loss / x_{s,I_s}                when the outcome of s arrives, with the propensity of its decision.

The constants are recalled, not checked against the paper; this form reproduces the EXP3 curves of Zimmert & Seldin
(2021, Figure 1). Regret O(sqrt(KT log K)) against any losses, without delay.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.learner import Learner


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    ftrl_steps.exponential_weights(state, math.sqrt(math.log(p.size) / (state[ftrl_steps.ROUND] * p.size)), p)
    return 0.0


LEARNER = Learner(
    name="exp3",
    summary="exponential weights; adversarial rate without delay",
    paper="Auer, Cesa-Bianchi, Freund & Schapire 2002, EXP3 (anytime, losses)",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.growing_leader,
)
