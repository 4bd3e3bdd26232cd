"""A learner of your own in simulations and in the league, without touching the package: in plain Python, or compiled.

`python examples/own_learner.py` plays both against UCB1.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from skeleton_learner import LEARNER as COMPILED

from belated import league, learners, simulate
from belated.league import suite


class FollowTheLeader:
    """Plain Python: play the arm with the smallest mean loss so far, and any arm one time in twenty."""

    def __init__(self, n_arms: int, rng: np.random.Generator) -> None:
        self.losses = np.zeros(n_arms)
        self.observed = np.zeros(n_arms)

    def decide(self, outstanding: int) -> Any:
        """The probabilities of the arms, with so many decisions outstanding."""
        means = self.losses / np.maximum(self.observed, 1)
        p = np.full(means.size, 0.05 / means.size)
        p[means.argmin()] += 0.95
        return p

    def learn(self, arm: int, loss: float, propensity: float, round: int) -> None:
        """The outcome of a round has arrived."""
        self.losses[arm] += loss
        self.observed[arm] += 1


if __name__ == "__main__":
    mine = learners.PythonLearner("follow the leader", FollowTheLeader)
    result = simulate(
        [mine, COMPILED, "ucb"], "stochastic:arms=5,gap=0.2", "constant:delay=20", rounds=5000, replications=4
    )
    for name in result.learners:
        mean, low, high = result.final(name)
        print(f"{name:<20} regret {mean:6.0f}   95 % interval {low:6.0f} to {high:6.0f}")

    cells = tuple(cell.at(2000) for cell in suite.find(["stochastic-k10/100", "resonant-k2/100"]))
    plan = league.LeaguePlan(cells, league.competitors([mine, COMPILED, "ucb"]), replications=3)
    with tempfile.TemporaryDirectory() as folder:
        played = league.play(plan, Path(folder))
    print("mean regret, learner by learner, cell by cell:", played.finals().mean(axis=2).round().tolist())
