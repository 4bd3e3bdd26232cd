"""BOLD (Joulani, György & Szepesvári 2013, Algorithm 1): copies of a learner made for feedback without delay.

Each round is played by a free copy, or by a new one if none is free. The copy waits for the outcome, learns from it,
and is free again. So no copy ever sees a delay:

    x_t = x of the free copy,    the copy of s learns (I_s, loss) when the outcome of s arrives.

The base is `tsallis` or `exp3`. With at most sigma_max decisions outstanding there are sigma_max + 1 copies. If the
base has regret f(T), regret is at most (sigma_max + 1) f(T / (sigma_max + 1)) (Theorem 1): sqrt(sigma_max KT) up to
constants. Under a constant delay d there are d + 1 copies that play in turn, as in Neu et al. (2010, 2014). A copy
whose outcome never comes waits for ever. Of several free copies the one freed last is used; the paper leaves this open.
"""

from belated.core import ftrl, pages
from belated.core.kernels import Vector, kernel
from belated.core.layout import Layout
from belated.learners import exp3, ftrl_steps, tsallis
from belated.learners.learner import Learner, Pages, Parameter

HEAD = 0  # of the pages, a copy on each
LOSSES = pages.HEAD_FIELDS  # the sum of all copies' loss estimates, for each arm

BASE = 0
BASES = ("tsallis", "exp3")


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    page = pages.take(state, HEAD)
    begin = pages.begin(state, HEAD, page)
    copy = state[begin + 1 : begin + int(state[HEAD + pages.SIZE])]
    if params[BASE] == 0.0:
        tsallis.decide(copy, params, 0, p)
    else:
        exp3.decide(copy, params, 0, p)
    return float(page)


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    page = int(mark)
    begin = pages.begin(state, HEAD, page)
    ftrl_steps.learn(state[begin + 1 : begin + int(state[HEAD + pages.SIZE])], params, arm, loss, propensity, 0.0)
    state[LOSSES + arm] += loss / propensity
    pages.give_back(state, HEAD, page)


def size(n_arms: int) -> int:
    """Return how many numbers the state has, without its copies."""
    return LOSSES + n_arms


def page_size(n_arms: int) -> int:
    return 1 + ftrl.size(n_arms)


LEARNER = Learner(
    name="bold",
    summary="copies of tsallis or exp3, one for each outstanding decision",
    paper="Joulani, György & Szepesvári 2013, BOLD",
    size=size,
    losses_at=Layout(first=LOSSES),
    decide=decide,
    learn=learn,
    fixed_arms="each of its copies has the arms that there were when it was made",
    pages=Pages(HEAD, page_size),
    parameters=(Parameter("base", "tsallis", 0.0, 1.0, "the learner to copy: tsallis or exp3", choices=BASES),),
)
