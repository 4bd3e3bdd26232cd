"""Thune, Cesa-Bianchi & Seldin (2019): delayed exponential weights (DEW), their skipping wrapper and their doubling.

DEW:        x_{t,i} proportional to exp(-eta' L_i),        L_{I_s} += loss / x_{s,I_s}  when the outcome of s arrives,
            eta' = min(eta, 1 / (4 e beta)),               eta = sqrt(log K / (K T e / 2 + D)).
Skipping:   an outcome whose delay is above beta is never used. With beta = d_max this is DEW alone; tuned,
            beta = sqrt((K T e / 2 + D) / log K) / (4 e), so that both rates in eta' are the same.
Doubling:   needs neither T nor D, but the delay d_t of each decision when it is made. Epoch m = 1, 2, ... has
            beta_m = sqrt(2^m) / (4 e log K) and eta_m = log K / sqrt(2^m), restarts DEW, and lasts while
            max(|S_m|^2, (K e / 2 rounds_m + D_m) log K) <= 2^m,
            S_m being its rounds with d_t > beta_m, and D_m the sum of the delays of the others.

Doubling is the default. If horizon and total delay are given, the learner is the wrapper, with beta tuned or as set.
Regret O(sqrt((KT + D) log K)) for DEW, O(min over beta of |S_beta| + beta log K + (KT + D_beta) / beta) for doubling
(abstract). The constants of DEW, wrapper and doubling are recalled, not checked against the paper: e / 2 and 4 e are
parameters. A round counts in its epoch before it is decided; a round that would end the epoch opens the next one.
"""

import math
from collections.abc import Mapping

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import ftrl_steps, rearm
from belated.learners.knowledge import HORIZON, TOTAL_DELAY, optional
from belated.learners.learner import Learner, Parameter, Value

T = 0
D = 1
THRESHOLD = 2
ARMS_CONSTANT = 3
DELAY_CONSTANT = 4

# Places among the solver's single numbers.
DELAY = ftrl_steps.OWN  # of the decision to come, when it is made
EPOCH = ftrl_steps.OWN + 1  # m
ROUNDS = ftrl_steps.OWN + 2  # of the epoch
LONG = ftrl_steps.OWN + 3  # |S_m|
DELAYS = ftrl_steps.OWN + 4  # D_m

NEVER_USED = -1.0  # as a mark; else the epoch


@kernel
def _begin(state: Vector, arms: int) -> None:
    """Begin the next epoch, without a round yet."""
    state[EPOCH] += 1.0
    state[ROUNDS] = 0.0
    state[LONG] = 0.0
    state[DELAYS] = 0.0
    for i in range(arms):  # as before the first round; what is known of the last solution goes too
        state[ftrl.at(i) + ftrl.LOSSES] = 0.0
    state[ftrl.AGE] = 0.0


@kernel
def _double(state: Vector, params: Vector, arms: int) -> float:
    """Put the round into an epoch, the next one if need be, and return sqrt(2^m)."""
    log_arms = math.log(arms)
    if state[EPOCH] == 0.0:
        _begin(state, arms)
    while True:
        size = math.sqrt(2.0 ** state[EPOCH])
        state[ROUNDS] += 1.0
        if state[DELAY] > size / (params[DELAY_CONSTANT] * log_arms):
            state[LONG] += 1.0
        else:
            state[DELAYS] += state[DELAY]
        cost = (params[ARMS_CONSTANT] * arms * state[ROUNDS] + state[DELAYS]) * log_arms
        if max(state[LONG] ** 2, cost) <= size * size:
            return size
        _begin(state, arms)


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    log_arms = math.log(p.size)
    if math.isnan(params[T]):
        size = _double(state, params, p.size)
        rate = log_arms / size
        beta = size / (params[DELAY_CONSTANT] * log_arms)
    else:
        rate = math.sqrt(log_arms / (params[ARMS_CONSTANT] * p.size * params[T] + params[D]))
        beta = params[THRESHOLD] if params[THRESHOLD] > 0.0 else 1.0 / (params[DELAY_CONSTANT] * rate)
        rate = min(rate, 1.0 / (params[DELAY_CONSTANT] * beta))
    ftrl_steps.exponential_weights(state, rate, p)
    return NEVER_USED if state[DELAY] > beta else state[EPOCH]


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    if mark == state[EPOCH]:
        ftrl.add_loss(state, arm, loss / propensity)


def check(values: Mapping[str, Value]) -> None:
    if "threshold" in values and "horizon" not in values:
        raise ValueError(
            f"threshold is {values['threshold']}, but doubling has thresholds of its own;"
            " horizon and total_delay are needed with it"
        )


LEARNER = Learner(
    name="exp3_delayed",
    summary="exponential weights that ignore outcomes with long delays; must know each delay when deciding",
    paper="Thune, Cesa-Bianchi & Seldin 2019, DEW with skipping and doubling",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=learn,
    rearm=rearm.leader,
    delay_at=DELAY,
    check=check,
    parameters=(
        optional(HORIZON, "doubling"),
        optional(TOTAL_DELAY, "doubling"),
        Parameter("threshold", 0.0, 0.0, 1e15, "beta of the wrapper, above which outcomes are not used; 0: tuned"),
        Parameter("arms_constant", math.e / 2.0, 1e-9, 1e9, "the factor of K T; recalled"),
        Parameter("delay_constant", 4.0 * math.e, 1e-9, 1e9, "4 e in eta' and beta; recalled"),
    ),
)
