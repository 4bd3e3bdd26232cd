"""EXP3-IX (Neu 2015), "Explore No More": implicit exploration instead of mixing.

    x_{t,i} proportional to exp(-eta_t L_i),    L_{I_s} += loss / (x_{s,I_s} + gamma_s)   when the outcome of s arrives.

Anytime, eta_t = 2 gamma_t = sqrt(log K / (K t)): without delay, with probability 1 - delta, regret at most
4 sqrt(KT log K) + (2 sqrt(KT / log K) + 1) log(2 / delta). With a known horizon, eta = 2 gamma =
sqrt(2 log K / (K T)), and regret is at most 2 sqrt(2 KT log K) + (sqrt(2 KT / log K) + 1) log(2 / delta). gamma_s is
that of the decision.

The constants are recalled, not checked against the paper; another public implementation has the same pair.
`exploration` is gamma in units of eta.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.knowledge import HORIZON, optional
from belated.learners.learner import Learner, Parameter

T = 0
EXPLORATION = 1


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    if math.isnan(params[T]):
        rate = math.sqrt(math.log(p.size) / (p.size * state[ftrl_steps.ROUND]))
    else:
        rate = math.sqrt(2.0 * math.log(p.size) / (p.size * params[T]))
    ftrl_steps.exponential_weights(state, rate, p)
    return params[EXPLORATION] * rate


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    ftrl.add_loss(state, arm, loss / (propensity + mark))


LEARNER = Learner(
    name="exp3_ix",
    summary="exponential weights with implicit exploration; takes no account of delay",
    paper="Neu 2015, EXP3-IX",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=learn,
    rearm=rearm.leader,
    bias="implicit exploration",
    parameters=(
        optional(HORIZON, "anytime"),
        Parameter("exploration", 0.5, 0.0, 1e9, "gamma / eta; recalled"),
    ),
)
