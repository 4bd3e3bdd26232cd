"""A complete learner to copy: the smaller the mean loss of an arm so far, the likelier it is played.

    p_i proportional to exp(-mean observed loss_i / temperature)

Paper: none; this is Boltzmann exploration on what has arrived. `python examples/skeleton_learner.py` plays it.
"""

import math

from belated.core.kernels import Vector, kernel
from belated.core.layout import Layout
from belated.learners.learner import Learner, Parameter

# The state is a vector of zeros of the size asked for below. Here: two numbers for each arm, side by side.
LOSSES = 0  # the sum of observed losses
OBSERVED = 1  # how many
FIELDS = 2

# The parameters, in the order of the table below.
TEMPERATURE = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    """Open a round: write the distribution into p; the number returned is handed back with the outcome."""
    total = 0.0
    for i in range(p.size):
        mean = state[FIELDS * i + LOSSES] / max(state[FIELDS * i + OBSERVED], 1.0)
        p[i] = math.exp(-mean / params[TEMPERATURE])
        total += p[i]
    for i in range(p.size):
        p[i] /= total
    return 0.0


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    """An outcome has arrived, with the propensity and the mark of its decision."""
    state[FIELDS * arm + LOSSES] += loss
    state[FIELDS * arm + OBSERVED] += 1.0


def size(n_arms: int) -> int:
    """How many numbers the state has."""
    return FIELDS * n_arms


LEARNER = Learner(
    name="skeleton",
    summary="the smaller the mean loss so far, the likelier",
    paper="none: Boltzmann exploration",
    size=size,
    losses_at=Layout(first=LOSSES, step=FIELDS),
    decide=decide,
    learn=learn,
    fair_arrivals=True,  # it averages what arrives: bandits warn where many outcomes are missing
    # patience=patience, with patience(state, params) -> rounds, for a learner that gives up on outcomes
    parameters=(Parameter("temperature", 0.05, 0.01, 1e6, "how little a difference of means matters"),),
)


if __name__ == "__main__":  # not to be copied into the package
    from belated import Bandit, simulate

    bandit = Bandit(["blue", "green"], LEARNER, seed=1, temperature=0.1)
    bandit.observe(bandit.decide(), reward=1.0)
    print(bandit)
    result = simulate(
        [LEARNER, "robust:delay_constant=0.01", "ucb"],
        "stochastic:arms=5,gap=0.2",
        "constant:delay=20",
        rounds=20_000,
        replications=8,
    )
    for learner in result.learners:
        mean, low, high = result.final(learner)
        print(f"{learner:<28} regret {mean:6.0f}   95 % interval {low:6.0f} to {high:6.0f}")
