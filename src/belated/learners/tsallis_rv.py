"""Tsallis-INF with reduced-variance estimates (Zimmert & Seldin 2021, JMLR 22, Section 3.2), which use the
quantities of the decision when its outcome arrives (`belated.learners.reduced_variance`).

    x_t = argmin <L, x> - sqrt(t) sum sqrt(x_i)                       (eta_t = 4 / sqrt(t) in their notation),
    B_{s,i} = 1/2 where x_{s,i} >= c / s, else 0,                     c = 4.

Regret without delay: 2 sqrt(KT) + 10 K log T + 16 against any losses, sum_i (log T + 3) / Delta_i + 28 K log T + ...
where they are stochastic (Theorem 1, RV). Nothing is proved under delay.

The constant c: the paper writes eta_s^2 for c / s. This is 16 / s in its own normalisation and 4 / s in that of its
first version (2019, eta_s = 2 / sqrt(s)). c = 4 reproduces its figures; with 16 regret is 15 % larger at K = 8, gap
1/4.
"""

import math

from belated.core import ftrl, pages
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm, reduced_variance
from belated.learners.learner import Learner, Pages
from belated.learners.rearm import Floats, Integers

HEAD = ftrl_steps.OWN  # of the pages

BASELINE = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    own = state[: int(state[HEAD + pages.FIRST])]
    ftrl_steps.count(own, outstanding)
    ftrl.solve(own, 0.5 * math.sqrt(own[ftrl_steps.ROUND]), 0.0, p)
    return reduced_variance.note(state, HEAD, p, params[BASELINE] / own[ftrl_steps.ROUND], 0.0)


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    reduced_variance.add(state, HEAD, arm, loss, 1.0 / propensity, mark)


@kernel
def forget(state: Vector, params: Vector, mark: float) -> None:
    reduced_variance.forget(state, HEAD, mark)


def rearmed(state: Floats, n_arms: int, kept: Integers) -> Floats:
    new = rearm.growing_leader(state[: int(state[HEAD + pages.FIRST])], n_arms, kept)
    return reduced_variance.rearmed(state, new, HEAD, n_arms, kept)


LEARNER = Learner(
    name="tsallis_rv",
    summary="Tsallis-INF with reduced-variance estimates; best of both worlds without delay",
    paper="Zimmert & Seldin 2021, Tsallis-INF (RV)",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=learn,
    forget=forget,
    rearm=rearmed,
    pages=Pages(HEAD, reduced_variance.page_size),
    parameters=(reduced_variance.BASELINE,),
)
