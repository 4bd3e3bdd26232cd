"""Uniform play: every arm with probability 1/K in every round. The baseline that a learner should beat.

Its loss estimates, L_{I_s} += K loss, are unbiased for every arm, so a log of uniform play can be evaluated afterwards.
"""

from belated.core.kernels import Vector, kernel
from belated.learners import rearm
from belated.learners.learner import Learner
from belated.learners.rearm import Floats, Integers


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    for i in range(p.size):
        p[i] = 1.0 / p.size
    return 0.0


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    state[arm] += loss / propensity


def size(n_arms: int) -> int:
    """Return how many numbers the state has."""
    return n_arms


def rearmed(state: Floats, n_arms: int, kept: Integers) -> Floats:
    return rearm.columns(state[None, :], kept)[0]


LEARNER = Learner(
    name="uniform",
    summary="every arm with the same probability in every round",
    paper="none",
    size=size,
    decide=decide,
    learn=learn,
    rearm=rearmed,
)
