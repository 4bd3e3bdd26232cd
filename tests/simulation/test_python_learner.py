"""Learners, environments and delays of somebody else's making."""

from typing import Any

import numpy as np
import pytest

from belated import Bandit, learners, simulate
from belated.learners import PythonLearner
from support.plain_exp3 import PlainExp3
from support.refusals import refused


class Patient(PlainExp3):
    """Gives up after five rounds."""

    def patience(self) -> float:
        return 5.0


@pytest.mark.parametrize(
    "law", ["none", "constant:delay=7", "dropout:share=0.3,others=(geometric:mean=4)", "byarm:laws=[0,9]"]
)
def test_plain_python_plays_as_compiled_code_does(law: str) -> None:
    problem: Any = {"rounds": 400, "replications": 3, "seed": 2, "keep_trace": True}
    result = simulate([PythonLearner("mine", PlainExp3), "exp3"], "stochastic:arms=4,gap=0.3", law, **problem)
    np.testing.assert_array_equal(result.regret[0], result.regret[1])
    for mine, theirs in zip(*result.traces, strict=True):
        np.testing.assert_allclose(mine.distributions, theirs.distributions, rtol=1e-9)
        np.testing.assert_array_equal(mine.outstanding, theirs.outstanding)


def test_patience_of_plain_python() -> None:
    result = simulate(PythonLearner("p", Patient), "stochastic:arms=2", "constant:delay=9", rounds=100, replications=1)
    assert result.skipped[0, 0] == 95  # rounds 1 to 95 have waited five rounds before the end
    assert result.most_outstanding[0, 0] == 5


def test_chance_of_its_own_follows_the_seed() -> None:
    class Restless(PlainExp3):
        def __init__(self, n_arms: int, rng: np.random.Generator) -> None:
            super().__init__(n_arms, rng)
            self.rng = rng

        def decide(self, outstanding: int) -> Any:
            super().decide(outstanding)
            return self.rng.dirichlet(np.ones(self.estimates.size))

    def regret(seed: int) -> Any:
        return simulate(PythonLearner("r", Restless), "stochastic:arms=3", rounds=50, replications=2, seed=seed).regret

    np.testing.assert_array_equal(regret(1), regret(1))
    assert (regret(1) != regret(2)).any()


def test_nonsense_is_refused() -> None:
    class Wrong(PlainExp3):
        def decide(self, outstanding: int) -> Any:
            return [0.5, 0.6]

    with refused(None, "round 1", "'w'", [0.5, 0.6]):
        simulate(PythonLearner("w", Wrong), "stochastic:arms=2", rounds=5, replications=1)
    with refused(None, "int", "decide", error=ValueError):
        PythonLearner("i", int)
    with refused("learner", "'mine'"):
        Bandit(3, PythonLearner("mine", PlainExp3))


class Tide:
    n_arms = 2

    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return np.stack([0.5 + 0.4 * np.sin(rounds / 50), np.full(rounds.size, 0.5)], axis=1), None


class Odd:
    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return rounds % 2 * 3


def test_any_object_that_fills_will_do() -> None:
    result = simulate("uniform", Tide(), Odd(), rounds=200, replications=1, keep_trace=True)
    assert result.environment.title == "Tide"
    assert result.delays.title == "Odd"
    assert result.most_outstanding[0, 0] == 2
    with refused("arms", None):
        simulate("uniform", Odd(), rounds=5, replications=1)  # type: ignore[arg-type]
    assert learners.tune(PythonLearner("mine", PlainExp3)).label == "mine"
