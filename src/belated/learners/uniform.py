"""Uniform play: every arm with probability 1/K, whatever happens. The scale against which learning shows.

Its loss estimates, L_{I_s} += K loss, are unbiased for every arm: a log of uniform play can be evaluated afterwards.
"""

from belated.kernels import kernel
from belated.learners.learner import Learner


@kernel
def decide(state, params, outstanding, p):  # type: ignore[no-untyped-def]
    for i in range(p.size):
        p[i] = 1.0 / p.size
    return 0.0


@kernel
def learn(state, params, arm, loss, propensity, mark):  # type: ignore[no-untyped-def]
    state[arm] += loss / propensity


LEARNER = Learner(
    name="uniform",
    summary="every arm with the same probability, for ever",
    paper="none",
    size=lambda n_arms: n_arms,
    decide=decide,
    learn=learn,
)
