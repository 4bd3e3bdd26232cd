"""EXP3 for losses, anytime (Auer et al. 2002, in the form without uniform mixing), used on arrival.

    x_{t,i} proportional to exp(-eta_t L_i),   eta_t = sqrt(log K / (t K)),
    L_{I_s} += loss / x_{s,I_s}                when the outcome of s arrives, with the propensity of its decision.

The constants are recalled, not read; this form reproduces the EXP3 curves of Zimmert & Seldin (2021, Figure 1).
"""

import math

from belated import simplex
from belated.kernels import Vector, kernel
from belated.learners.learner import Learner

ROUND = simplex.OWN


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    state[ROUND] += 1.0
    simplex.solve(state, 0.0, math.sqrt(state[ROUND] * p.size / math.log(p.size)), p)
    return 0.0


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    simplex.add_loss(state, arm, loss / propensity)


LEARNER = Learner(
    name="exp3",
    summary="exponential weights; adversarial rate where nothing is delayed",
    paper="Auer, Cesa-Bianchi, Freund & Schapire 2002, EXP3 (anytime, losses)",
    size=simplex.size,
    losses_at=simplex.LOSSES_AT,
    decide=decide,
    learn=learn,
)
