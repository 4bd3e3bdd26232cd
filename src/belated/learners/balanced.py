"""Sets its regularisation from the measured cost of delay. docs/theory.md derives it in part.

Follow the regularised leader with two regularisers, as Masoudian, Zimmert & Seldin (2024) do: Tsallis entropy for
exploration, negative entropy for delay. They set the entropy rate from the number of outstanding decisions. Here it is
set from the measured cost of delay. When the outcome of round s arrives in round t,

    cost = (loss - 1/2) (1 - x_{t,I_s} / max(x_{s,I_s}, lambda_{s,t})),

in expectation <x_s - x_t, loss_s>: the loss from playing x_s instead of the later x_t. (The 1/2 cancels in expectation
and halves the noise.) Where several outcomes come in one round they are taken one by one, each compared with the
distribution after those before it were added, so that a batch costs what its parts cost. With B_t the largest value
that the running sum of costs has had,

    x_t = argmin <L, x> - sqrt(t) sum sqrt(x_i) + (kappa B_t / log K) sum x_i (log x_i - 1),          kappa = 2.

So the penalty b log K is kappa times the cost, as in AdaHedge. Estimates have reduced variance
(`belated.learners.reduced_variance`) and the paper's implicit exploration, lambda_{s,t} = exp(-D_t / (D_t - D_s)). The
patience is the paper's with another constant: sqrt(D_t / c) with c = 1 where the paper has 49 K^(2/3) log K. Without
delay it is Tsallis-INF (RV).
"""

import math
from collections.abc import Mapping

from belated.core import ftrl, pages
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm, reduced_variance, robust
from belated.learners.learner import Gauge, Learner, Pages, Parameter
from belated.learners.rearm import Floats, Integers

COST = ftrl_steps.OWN  # the running sum of costs
HIGHEST = ftrl_steps.OWN + 1  # B, the largest value it has had
RATE_UNIT = ftrl_steps.OWN + 2  # kappa / log K
ARMS = ftrl_steps.OWN + 3
MOVED = ftrl_steps.OWN + 4  # whether an outcome has come in this round
HEAD = ftrl_steps.OWN + 5  # of the pages

KAPPA = 0
PATIENCE_CONSTANT = 1
BASELINE = 2


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    own = state[: int(state[HEAD + pages.FIRST])]
    if own[ARMS] != p.size:
        own[RATE_UNIT] = params[KAPPA] / math.log(p.size)
        own[ARMS] = p.size
    own[MOVED] = 0.0
    ftrl_steps.count(own, outstanding)
    ftrl.solve(own, 0.5 * math.sqrt(own[ftrl_steps.ROUND]), own[RATE_UNIT] * own[HIGHEST], p)
    return reduced_variance.note(
        state, HEAD, p, params[BASELINE] / own[ftrl_steps.ROUND], own[ftrl_steps.CUMULATIVE_OUTSTANDING]
    )


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    now = state[ftrl_steps.CUMULATIVE_OUTSTANDING]
    then = reduced_variance.kept(state, HEAD, mark)
    weight = 1.0 / robust.implicit_exploration(now, then, propensity)
    if now > then or state[MOVED] != 0.0:  # else nothing has moved since the decision
        if state[MOVED] != 0.0:
            ftrl.settle(state[: int(state[HEAD + pages.FIRST])], int(state[ARMS]))
        state[COST] += (loss - 0.5) * (1.0 - ftrl.share(state, arm) * weight)
        state[HIGHEST] = max(state[HIGHEST], state[COST])
    state[MOVED] = 1.0
    reduced_variance.add(state, HEAD, arm, loss, weight, mark)


@kernel
def patience(state: Vector, params: Vector) -> float:
    return math.sqrt(state[ftrl_steps.CUMULATIVE_OUTSTANDING] / params[PATIENCE_CONSTANT])


@kernel
def forget(state: Vector, params: Vector, mark: float) -> None:
    reduced_variance.forget(state, HEAD, mark)


def rearmed(state: Floats, n_arms: int, kept: Integers) -> Floats:
    """Rearm the leader, whose measured cost is taken back with its rates; a newcomer was below no threshold."""
    before = float(state[ftrl_steps.ROUND])
    new = rearm.growing_leader(state[: int(state[HEAD + pages.FIRST])], n_arms, kept)
    if before:
        new[[COST, HIGHEST]] *= math.sqrt(new[ftrl_steps.ROUND] / before)
    return reduced_variance.rearmed(state, new, HEAD, n_arms, kept)


def allowed_cost(values: Mapping[str, float], n_arms: int, total_outstanding: float) -> float:
    """Return sqrt(2 D_T log K / kappa), what B should not exceed (docs/theory.md, a sketch)."""
    kappa = values["kappa"]
    return math.sqrt(2.0 * total_outstanding * math.log(n_arms) / kappa) if kappa else math.inf


LEARNER = Learner(
    name="balanced",
    summary="sets its regularisation from the measured cost of delay; measured, not proved",
    paper="this project, docs/theory.md",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=learn,
    patience=patience,
    forget=forget,
    rearm=rearmed,
    pages=Pages(HEAD, reduced_variance.page_size),
    gauges=(Gauge("balance", "B, against √(2 D_T log K / κ)", "docs/theory.md, a sketch", HIGHEST, allowed_cost),),
    bias="implicit exploration",
    parameters=(
        Parameter("kappa", 2.0, 0.0, 1e9, "κ, the factor of the measured cost of delay in the entropy rate"),
        Parameter(
            "patience_constant", 1.0, 1e-9, 1e9, "the patience is sqrt(D_t / this); the paper has 49 K^(2/3) log K"
        ),
        reduced_variance.BASELINE,
    ),
)
