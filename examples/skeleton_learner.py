"""A complete learner to copy: play the arm with the smallest mean loss so far, and any arm with a small probability.

    p_i = exploration / K + (1 - exploration) [i = argmin of mean observed loss]

Paper: none; this is epsilon-greedy on what has arrived. `python examples/skeleton_learner.py` plays it.
"""

from belated.kernels import Vector, kernel
from belated.layout import Layout
from belated.learners.learner import Learner, Parameter

# The state is a vector of zeros of the size asked for below. Here: two numbers for each arm, side by side.
LOSSES = 0  # the sum of observed losses
OBSERVED = 1  # how many
FIELDS = 2

# The parameters, in the order of the table below.
EXPLORATION = 0


@kernel
def decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    """Open a round: write the distribution into p; the number returned is handed back with the outcome."""
    best = 0
    least = 2.0
    for i in range(p.size):
        p[i] = params[EXPLORATION] / p.size
        mean = state[FIELDS * i + LOSSES] / max(state[FIELDS * i + OBSERVED], 1.0)
        if mean < least:
            best = i
            least = mean
    p[best] += 1.0 - params[EXPLORATION]
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
    summary="the best mean so far, with a share of exploration",
    paper="none: epsilon-greedy",
    size=size,
    losses_at=Layout(first=LOSSES, step=FIELDS),
    decide=decide,
    learn=learn,
    # patience=patience, with patience(state, params) -> rounds, for a learner that gives up on outcomes
    parameters=(Parameter("exploration", 0.05, 0.0, 1.0, "the share of decisions drawn uniformly"),),
)


if __name__ == "__main__":  # not to be copied into the package
    from belated import Bandit, simulate

    bandit = Bandit(["blue", "green"], LEARNER, seed=1, exploration=0.1)
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
