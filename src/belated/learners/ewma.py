"""Play the arm whose moving average of losses is smallest, as dashboards do; no guarantee.

    m_{I_s} += weight (loss - m_{I_s})                  when the outcome of s arrives; the first outcome sets m,
    p_i = exploration / K + (1 - exploration) [i = argmin m]

Arms without any outcome are played first, the one with the fewest decisions before the others. It follows changes
faster than a mean over all time, and never converges.
"""

from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.learner import Learner, Parameter

AVERAGE = mean_steps.ARM_OWN

WEIGHT = 0
EXPLORATION = 1


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    mean_steps.play_best(state, True, params[EXPLORATION], p)
    return 0.0


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    place = mean_steps.at(arm) + AVERAGE
    weight = params[WEIGHT] if state[mean_steps.at(arm) + mean_steps.OBSERVED] > 0.0 else 1.0
    state[place] += weight * (loss - state[place])
    mean_steps.learn(state, params, arm, loss, propensity, mark)


LEARNER = Learner(
    name="ewma",
    summary="the arm with the smallest moving average of losses, or with some probability any arm; no guarantee",
    paper="folklore",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=learn,
    rearm=rearm.means,
    fair_arrivals=True,
    parameters=(
        Parameter("weight", 0.02, 1e-9, 1.0, "of the newest outcome in the average"),
        Parameter("exploration", 0.1, 0.0, 1.0, "the share of decisions drawn uniformly"),
    ),
)
