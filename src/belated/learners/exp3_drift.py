"""The delay-adapted estimator of Jin, Lancewicki, Luo, Mansour & Rosenberg (2022), for a bandit: an outcome is weighted
by the larger of two probabilities of its arm, at the decision and at the arrival.

    x_{t,i} proportional to exp(-eta_t L_i),    eta_t = sqrt(log K / (a K t + b D_t)),     gamma_t = eta_t / 2,
    L_{I_s} += loss / (max(x_{s,I_s}, x_{t,I_s}) + gamma_s)      when the outcome of s arrives at the end of round t.

Drift between decision and arrival does harm where an arm has become more probable but its loss is still divided by the
old, small probability. The maximum prevents this. Their paper is on adversarial Markov decision processes, with D and T
known or found by doubling. Here the rate is that of György & Joulani (2021), which needs neither, and gamma is that of
EXP3-IX. Without delay this learner is EXP3-IX. Regret O(sqrt((KT + D) log K)) with high probability in their paper.
Estimator and constants are recalled, not checked against the paper: a, b and gamma / eta (`exploration`) are
parameters.
"""

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.exp3_adaptive import ARMS_CONSTANT, DELAY_CONSTANT, PRICES, adaptive_rate
from belated.learners.learner import Learner, Parameter

EXPLORATION = 2


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    ftrl_steps.count(state, outstanding)
    rate = adaptive_rate(state, params[ARMS_CONSTANT], params[DELAY_CONSTANT], p.size)
    ftrl_steps.exponential_weights(state, rate, p)
    return params[EXPLORATION] * rate


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    ftrl.add_loss(state, arm, loss / (max(propensity, ftrl.share(state, arm)) + mark))


LEARNER = Learner(
    name="exp3_drift",
    summary="exponential weights; divides a loss by the larger probability of its arm, at decision or at arrival",
    paper="Jin, Lancewicki, Luo, Mansour & Rosenberg 2022, estimator",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=learn,
    rearm=rearm.growing_leader,
    bias="a weight from the arrival, implicit exploration",
    parameters=(*PRICES, Parameter("exploration", 0.5, 0.0, 1e9, "gamma / eta; recalled")),
)
