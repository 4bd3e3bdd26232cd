"""Bistritz, Zhou, Chen, Bambos & Blanchet (2019), "Online EXP3 Learning in Adversarial Bandits with Delayed Feedback":
exponential weights that skip outcomes that take too long.

    x_{t,i} proportional to exp(-eta L_i),      eta = sqrt(log K / (K T / 2 + D)),
    L_{I_s} += loss / x_{s,I_s}                 when the outcome of s arrives,

and a decision that has waited `drop` / eta rounds is skipped. It must know the horizon T and the total delay D. Regret
O(sqrt((KT + D) log K)) against any losses (abstract). Their result without that knowledge, by doubling, is reported to
have an error (György & Joulani 2021, footnote 1) and is not implemented.

The constants 1/2 and 1 (`drop`) are recalled, not checked against the paper; they are parameters.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.knowledge import HORIZON, TOTAL_DELAY
from belated.learners.learner import Learner, Parameter

T = 0
D = 1
ARMS_CONSTANT = 2
DROP = 3

PATIENCE = ftrl_steps.OWN


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    rate = math.sqrt(math.log(p.size) / (params[ARMS_CONSTANT] * p.size * params[T] + params[D]))
    state[PATIENCE] = params[DROP] / rate
    ftrl_steps.exponential_weights(state, rate, p)
    return 0.0


@kernel
def patience(state: Vector, params: Vector) -> float:
    return state[PATIENCE]


LEARNER = Learner(
    name="exp3_dropping",
    summary="exponential weights that skip outcomes that take too long; must know horizon and total delay",
    paper="Bistritz, Zhou, Chen, Bambos & Blanchet 2019",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.leader,
    patience=patience,
    parameters=(
        HORIZON,
        TOTAL_DELAY,
        Parameter("arms_constant", 0.5, 1e-9, 1e9, "the factor of K T; recalled"),
        Parameter("drop", 1.0, 1e-9, 1e9, "how many times 1/eta to wait; recalled"),
    ),
)
