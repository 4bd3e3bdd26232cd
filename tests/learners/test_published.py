"""What others have published, reproduced: curves, a ratio, and the headline of the paper."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import simulate
from belated.delays import Delays

FIGURES = Path(__file__).parents[1] / "data" / "tsallis_inf_figures.csv"
pytestmark = pytest.mark.slow
REPLICATIONS = 100
CURVES = {"tsallis_rv": "TINF_RV", "thompson": "TS", "ucb:exploration=1.5": "UCB1", "exp3": "EXP3"}


def published(arms: int, gap: str, algorithm: str) -> float:
    """Pseudo-regret at 10,000 rounds, stochastic losses: the mean of Figures 1 and 2, which show the same runs."""
    with FIGURES.open() as file:
        found = [
            float(row["pseudo_regret"])
            for row in csv.DictReader(file)
            if (row["environment"], row["K"], row["Delta"], row["algorithm"], row["t"])
            == ("stochastic", str(arms), gap, algorithm, "10000")
        ]
    assert len(found) == 2
    return sum(found) / 2


@pytest.mark.parametrize("gap", ["0.03125", "0.0625", "0.125", "0.25"])
@pytest.mark.parametrize("arms", [2, 8])
def test_figures_of_zimmert_and_seldin(arms: int, gap: str) -> None:
    """Zimmert & Seldin 2021, Figures 1 and 2: within 10 %, or within 3.5 standard errors where that is more.

    The published curves are means of 100 runs, ours of as many: the difference has the standard error of one times the
    root of 2. With two arms one is up to 11 % (from the spread measured here), with eight 3 %.
    """
    result = simulate(
        list(CURVES),
        f"stochastic:arms={arms},gap={gap}",
        rounds=10_000,
        replications=REPLICATIONS,
        seed=1,
        checkpoints=[10_000],
    )
    for learner, regret in zip(result.learners, result.regret[:, :, -1], strict=True):
        noise = math.sqrt(2.0 / REPLICATIONS) * regret.std() / regret.mean()
        margin = max(0.10, 3.5 * noise)
        assert regret.mean() == pytest.approx(published(arms, gap, CURVES[learner]), rel=margin), learner


class PositiveNormal(Delays):
    """A normal distribution given that it is positive, rounded down."""

    def __init__(self, mean: float, deviation: float) -> None:
        self.mean, self.deviation = mean, deviation

    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        values = rng.normal(self.mean, self.deviation, rounds.size)
        while (negative := values < 0.0).any():
            values[negative] = rng.normal(self.mean, self.deviation, np.count_nonzero(negative))
        return values.astype(np.int64)


def test_longer_delays_hardly_hurt_queued() -> None:
    """Pike-Burke et al. 2018, Appendix E.1: QPM-D under N+(100, 100) delays has 1.05 times its regret under N+(0, 100).

    Rewards 0.5 and 0.6, 250,000 rounds as there, 60 replications; the second parameter is the variance. The ratio has
    a standard error of 0.035; the margin is 0.12.
    """
    means = [
        simulate(
            "queued",
            "bernoulli:means=[0.4,0.5]",
            PositiveNormal(mean, 10.0),
            rounds=250_000,
            replications=60,
            seed=1,
            checkpoints=[250_000],
        )
        .final("queued")
        .mean
        for mean in (0.0, 100.0)
    ]
    assert means[1] / means[0] == pytest.approx(1.05, abs=0.12)


def test_one_endless_delay() -> None:
    """The paper's headline: K = 10, gap 0.1, 100,000 rounds, the first outcome never comes, the others at once.

    damped, told that the longest delay is the horizon, stays within 5 % of uniform play; robust and hybrid_skipping
    within 20 % of tsallis without delays. 20 replications; standard errors are 0.15 % and 4 %.
    """
    problem: dict[str, Any] = {"rounds": 100_000, "replications": 20, "seed": 3, "checkpoints": [100_000]}
    names = ["damped", "robust", "hybrid_skipping"]
    spoiled = simulate(names, "stochastic:arms=10,gap=0.1", "outlier", **problem)
    plain = simulate("tsallis", "stochastic:arms=10,gap=0.1", "none", **problem)
    assert spoiled.final("damped").mean == pytest.approx(spoiled.uniform_regret[:, -1].mean(), rel=0.05)
    for name in names[1:]:
        assert spoiled.final(name).mean == pytest.approx(plain.final("tsallis").mean, rel=0.20)
