"""An environment and a law of delay of your own, in simulations and in the league, without touching the package.

`python examples/own_environment.py` plays a shop whose customers buy by day and answer at night.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from belated import league, simulate
from belated.league import suite

DAY = 1000  # rounds


class Shop:
    """Any object with `n_arms` and `fill` will do: expected losses (rounds, arms), and losses, or None for coins."""

    n_arms = 3
    title = "a shop by day and by night"

    def fill(self, rng: np.random.Generator, rounds: Any) -> tuple[Any, None]:
        """By day the second banner is best, by night the third; the second is better on the whole."""
        night = (rounds % DAY) > 0.7 * DAY
        means = np.where(night[:, None], [0.95, 0.92, 0.88], [0.9, 0.8, 0.9])
        return means, None


class Evening:
    """Any object with `fill` will do: a delay, in rounds, for each round. Here outcomes come in the evening."""

    title = "outcomes in the evening"

    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return -rounds % DAY + rng.integers(0, 50, rounds.size)


if __name__ == "__main__":
    result = simulate(
        ["robust:delay_constant=0.01", "hybrid_skipping", "thompson", "uniform"],
        Shop(),
        Evening(),
        rounds=50_000,
        replications=8,
    )
    print(f"{result.environment.title}, {result.delays.title}")
    for learner in result.learners:
        mean, low, high = result.final(learner)
        print(f"{learner:<28} regret {mean:6.0f}   95 % interval {low:6.0f} to {high:6.0f}")

    cells = (suite.Cell("shop/evening", Shop(), Evening(), 5000), suite.suite["stochastic-k10/batches"].at(5000))
    settings = league.LeaguePlan(cells, league.competitors(["hybrid_skipping", "thompson"]), replications=3)
    with tempfile.TemporaryDirectory() as folder:
        played = league.play(settings, Path(folder))
    print("mean regret, learner by learner, cell by cell:", played.finals().mean(axis=2).round().tolist())
