"""Steps shared by the learners that keep a mean of the observed losses of each arm and choose one arm by it.

The state: some single numbers, then FIELDS numbers for each arm, side by side.
"""

import math

import numpy as np

from belated.core.kernels import Vector, kernel
from belated.core.layout import Layout

ROUND = 0  # t
OWN = 1  # from here to SINGLES - 1: the learner's own
SINGLES = 12

# For each arm. Unsigned, so that no code is made for negative indices.
LOSSES = np.uint64(0)  # the sum of observed losses
OBSERVED = np.uint64(1)  # n_i
DECISIONS = np.uint64(2)  # made, whether observed or not
ARM_OWN = np.uint64(3)  # two numbers, the learner's own
FIELDS = 5


def size(n_arms: int) -> int:
    """Return how many numbers the state has."""
    return SINGLES + FIELDS * n_arms


LOSSES_AT = Layout(first=SINGLES, step=FIELDS)


@kernel(inline=True)
def at(arm: int) -> np.uint64:
    """Return where the fields of an arm begin in the state."""
    return np.uint64(SINGLES + FIELDS * arm)


@kernel(inline=True)
def mean(state: Vector, arm: int) -> float:
    """Return the mean observed loss of an arm; 0 where there is none."""
    return float(state[at(arm) + LOSSES] / max(state[at(arm) + OBSERVED], 1.0))


@kernel(inline=True)
def unobserved(state: Vector, arms: int) -> int:
    """Return the arm without any outcome that has the fewest decisions, the first of several; -1 if there is none.

    Always taking the first unobserved arm would play it until its first outcome arrives.
    """
    chosen = -1
    fewest = math.inf
    for i in range(arms):
        if state[at(i) + OBSERVED] == 0.0 and state[at(i) + DECISIONS] < fewest:
            chosen = i
            fewest = state[at(i) + DECISIONS]
    return chosen


@kernel(inline=True)
def play(state: Vector, arm: int, exploration: float, p: Vector) -> None:
    """Write the distribution that plays an arm, or with probability exploration any arm; count the decision."""
    for i in range(p.size):
        p[i] = exploration / p.size
    p[arm] += 1.0 - exploration
    state[at(arm) + DECISIONS] += 1.0


@kernel(inline=True)
def play_best(state: Vector, moving: bool, exploration: float, p: Vector) -> None:
    """Play the arm with the smallest mean, or the smallest moving average in ARM_OWN, with some exploration.

    Arms without any outcome are played first.
    """
    best = unobserved(state, p.size)
    if best < 0:
        least = math.inf
        for i in range(p.size):
            value = state[at(i) + ARM_OWN] if moving else mean(state, i)
            if value < least:
                best = i
                least = value
    play(state, best, exploration, p)


@kernel(inline=True)
def most_promising(state: Vector, factor: float, arms: int) -> int:
    """Return the arm with the largest mean reward + sqrt(factor / n_i), the index of UCB1; every arm is observed."""
    chosen = 0
    least = math.inf
    for i in range(arms):
        share = 1.0 / state[at(i) + OBSERVED]
        optimistic = state[at(i) + LOSSES] * share - math.sqrt(factor * share)
        if optimistic < least:
            chosen = i
            least = optimistic
    return chosen


@kernel
def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    """Count one more outcome of an arm."""
    state[at(arm) + LOSSES] += loss
    state[at(arm) + OBSERVED] += 1.0
