"""Epsilon-greedy on the outcomes that have arrived: widely used, without any guarantee.

    p_i = exploration / K + (1 - exploration) [i = argmin of mean observed loss]

Arms without any outcome are played first, the one with the fewest decisions before the others. With a constant
exploration regret grows by exploration (mean gap) in every round.
"""

from belated.core.kernels import Vector, kernel
from belated.learners import mean_steps, rearm
from belated.learners.learner import Learner, Parameter

EXPLORATION = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    mean_steps.play_best(state, False, params[EXPLORATION], p)
    return 0.0


LEARNER = Learner(
    name="epsilon_greedy",
    summary="the arm with the smallest mean loss, or with some probability any arm; no guarantee",
    paper="folklore",
    size=mean_steps.size,
    losses_at=mean_steps.LOSSES_AT,
    decide=decide,
    learn=mean_steps.learn,
    rearm=rearm.means,
    fair_arrivals=True,
    parameters=(Parameter("exploration", 0.1, 0.0, 1.0, "the share of decisions drawn uniformly"),),
)
