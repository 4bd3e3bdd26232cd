"""Algorithm 1 of Masoudian, Zimmert & Seldin (2024): best of both worlds, robust to excessive delays.

Follow the regularised leader on the losses that have arrived, with two regularisers: Tsallis entropy for exploration,
negative entropy for delay. In round t, with sigma_t outstanding decisions,

    D_t = D_{t-1} + sigma_t
    x_t = argmin <L, x> - 2 sqrt(t) sum sqrt(x_i) + sqrt(c D_t / log K) sum x_i (log x_i - 1)         Eq. (regularizer)

An outcome of round s that arrives in round t is weighted by its propensity, but never by less than the implicit
exploration

    lambda_{s,t} = exp(-D_t / (D_t - D_s)),     L_{I_s} += loss / max(x_{s,I_s}, lambda_{s,t})  Eq. (lossestimation)

and a decision that has waited sqrt(D_t / (c K^(2/3) log K)) rounds is skipped. The proof needs c = 49. sigma_t counts
the decisions that are outstanding when round t opens, since x_t must be known then (docs/math.md).
"""

import math

from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.learners import rearm
from belated.learners.learner import Learner, Parameter

# Places among the solver's single numbers.
ROUND = ftrl.OWN  # t
CUMULATIVE_OUTSTANDING = ftrl.OWN + 1  # D_t
ENTROPY_UNIT = ftrl.OWN + 2  # c / log K
PATIENCE_UNIT = ftrl.OWN + 3  # 1 / (c K^(2/3) log K)
ARMS = ftrl.OWN + 4  # K, for which these were computed

DELAY_CONSTANT = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    if state[ARMS] != p.size:
        state[ARMS] = p.size
        log_arms = math.log(p.size)
        state[ENTROPY_UNIT] = params[DELAY_CONSTANT] / log_arms
        state[PATIENCE_UNIT] = 1.0 / (params[DELAY_CONSTANT] * p.size ** (2.0 / 3.0) * log_arms)
    state[ROUND] += 1.0
    state[CUMULATIVE_OUTSTANDING] += outstanding
    tsallis_rate = math.sqrt(state[ROUND])
    entropy_rate = math.sqrt(state[ENTROPY_UNIT] * state[CUMULATIVE_OUTSTANDING])
    ftrl.solve(state, tsallis_rate, entropy_rate, p)
    return state[CUMULATIVE_OUTSTANDING]


@kernel(inline=True)
def implicit_exploration(now: float, then: float, propensity: float) -> float:
    """Return max(propensity, lambda_{s,t}) for D_t = now and D_s = then."""
    if now > then:
        z = now / (now - then)
        # exp(-z) < 1 / (1 + z + z^2/2 + z^3/6) needs no exponential to see that it is the smaller one, as it mostly is.
        if propensity * (1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0)))) < 1.0:
            return max(propensity, math.exp(-z))
    return propensity


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    weight = implicit_exploration(state[CUMULATIVE_OUTSTANDING], mark, propensity)
    ftrl.add_loss(state, arm, loss / weight)


@kernel
def patience(state: Vector, params: Vector) -> float:
    return math.sqrt(state[CUMULATIVE_OUTSTANDING] * state[PATIENCE_UNIT])


LEARNER = Learner(
    name="robust",
    summary="best of both worlds under any delays; skips outcomes that take too long",
    paper="Masoudian, Zimmert & Seldin 2024, Algorithm 1",
    size=ftrl.size,
    losses_at=ftrl.LOSSES_AT,
    decide=decide,
    learn=learn,
    rearm=rearm.growing_leader,
    patience=patience,
    proof_constant="delay_constant",
    bias="implicit exploration",
    parameters=(
        Parameter(
            "delay_constant",
            49.0,
            1e-9,
            1e9,
            "c, the constant in the entropy rate and in the patience; the proof needs 49",
        ),
    ),
)
