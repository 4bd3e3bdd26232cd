"""Tsallis-INF with reduced-variance estimators (Zimmert & Seldin 2021, JMLR 22, Section 3.2), used on arrival with the
quantities of the decision.

    x_t = argmin <L, x> - sqrt(t) sum sqrt(x_i)                       (eta_t = 4 / sqrt(t) in their notation),
    B_{s,i} = 1/2 where x_{s,i} >= c / s, else 0,                     c = 4,
    L_i += [i = I_s] (loss - B_{s,i}) / x_{s,i} + B_{s,i}  for every arm i, when the outcome of s arrives.

B must be that of the decision: which arms had 1/2 is remembered with it, a bit for each arm. Regret without delay:
2 sqrt(KT) + 10 K log T + 16 against any losses, sum_i (log T + 3) / Delta_i + 28 K log T + ... where they are
stochastic (Theorem 1, RV). The paper has no delays; nothing is proved under them.

c: the paper writes eta_s^2 for c / s, which is 16 / s in its own normalisation and 4 / s in that of its first version
(2019, eta_s = 2 / sqrt(s)). Its figures are those of 4: with 16 regret is 15 % larger at K = 8, gap 1/4.
"""

import math

import numpy as np

from belated import pages, simplex
from belated.kernels import Vector, kernel
from belated.learners import leader
from belated.learners.learner import Learner, Pages, Parameter

HEAD = leader.OWN  # of the pages: which arms had B = 1/2, BITS of them in a number
BITS = 48

BASELINE = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    own = state[: int(state[HEAD + pages.FIRST])]
    leader.count(own, outstanding)
    simplex.solve(own, 0.5 * math.sqrt(own[leader.ROUND]), 0.0, p)
    page = pages.take(state, HEAD)
    place = pages.begin(state, HEAD, page) + 1
    threshold = params[BASELINE] / state[leader.ROUND]
    for first in range(0, p.size, BITS):
        bits = np.int64(0)
        for i in range(min(first + BITS, p.size) - 1, first - 1, -1):
            bits = 2 * bits + (p[i] >= threshold)
        state[place] = bits
        place += 1
    return float(page)


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    own = state[: int(state[HEAD + pages.FIRST])]
    page = int(mark)
    place = pages.begin(state, HEAD, page) + 1
    for word in range(int(state[HEAD + pages.SIZE]) - 1):
        bits = np.int64(state[place + word])
        i = BITS * word
        while bits != 0:
            if bits & 1:
                simplex.add_loss(own, i, 0.5)
                if i == arm:
                    loss -= 0.5
            bits >>= 1
            i += 1
    simplex.add_loss(own, arm, loss / propensity)
    pages.give_back(state, HEAD, page)


def page_size(n_arms: int) -> int:
    return 1 + -(-n_arms // BITS)


LEARNER = Learner(
    name="tsallis_rv",
    summary="Tsallis-INF with less noise in its estimates; best of both worlds where nothing is delayed",
    paper="Zimmert & Seldin 2021, Tsallis-INF (RV)",
    size=simplex.size,
    losses_at=simplex.LOSSES_AT,
    decide=decide,
    learn=learn,
    pages=Pages(HEAD, page_size),
    parameters=(Parameter("baseline", 4.0, 0.0, 1e9, "c: arms with x >= c / t are held against a loss of 1/2"),),
)
