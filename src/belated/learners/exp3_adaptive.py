"""György & Joulani (2021), "Adapting to Delays and Data in Adversarial Multi-Armed Bandits": exponential weights
whose rate is set from the number of outstanding decisions.

    D_t = D_{t-1} + sigma_t,       eta_t = sqrt(log K / (a K t + b D_t)),       a = b = 1,
    x_{t,i} proportional to exp(-eta_t L_i),    L_{I_s} += loss / x_{s,I_s}     when the outcome of s arrives.

Regret O(sqrt((KT + D) log K)) against any losses and delays, without knowing T or D. The form of the rate is recalled,
not checked against the paper; a and b are parameters.
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.learner import Learner, Parameter

ARMS_CONSTANT = 0
DELAY_CONSTANT = 1


@kernel(inline=True)
def adaptive_rate(state: Vector, arms_constant: float, delay_constant: float, arms: int) -> float:
    """Return sqrt(log K / (a K t + b D_t))."""
    price = arms_constant * arms * state[ftrl_steps.ROUND] + delay_constant * state[ftrl_steps.CUMULATIVE_OUTSTANDING]
    return math.sqrt(math.log(arms) / price)


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    rate = adaptive_rate(state, params[ARMS_CONSTANT], params[DELAY_CONSTANT], p.size)
    ftrl_steps.exponential_weights(state, rate, p)
    return 0.0


PRICES = (
    Parameter("arms_constant", 1.0, 1e-9, 1e9, "a, the factor of K t in the rate; recalled"),
    Parameter("delay_constant", 1.0, 0.0, 1e9, "b, the factor of D_t in the rate; recalled"),
)

LEARNER = Learner(
    name="exp3_adaptive",
    summary="exponential weights whose rate is set from the number of outstanding decisions",
    paper="György & Joulani 2021",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=ftrl_steps.learn,
    rearm=rearm.growing_leader,
    parameters=PRICES,
)
