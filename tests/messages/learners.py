"""Messages of learners, live bandits, simulations and the solver."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from belated import Bandit, Decision, Limits, Scale, audit, learners, simulate, suite
from belated.delays import Recorded
from belated.environments import Stretch
from belated.errors import needs_extra
from belated.league import ComparisonPlan, League, LeaguePlan, compare, competitors
from belated.learners import PythonLearner
from belated.live.snapshot import MAGIC
from belated.report.tables import learner_details
from belated.simplex import ftrl_distribution
from belated.simulation import replay
from belated.simulation.rejection import Rejection
from belated.specs import parse
from support.plain_exp3 import PlainExp3

TABLE = np.zeros((2, 2))
COMPARED = ComparisonPlan(("ucb", "uniform"), ("stochastic:arms=3",), ("none", "constant:delay=1"), 4, 2)
LEAGUE = LeaguePlan(tuple(suite.find(["stochastic-k2/none"])), competitors(["uniform", "ucb"]), 2)
COMING = "arms:means=[0.5,0.45,0.4],enter=[0,0,0.5]"


def decided(rounds: int = 1, learner: str = "exp3", **settings: Any) -> Bandit:
    """A bandit of the arms a, b and c that waits for outcomes."""
    bandit = Bandit(["a", "b", "c"], learner, seed=1, **settings)
    bandit.warns = False
    for _ in range(rounds):
        bandit.decide()
    return bandit


def observed() -> Bandit:
    bandit = decided()
    bandit.observe(1, loss=0.5)
    return bandit


def retired() -> Bandit:
    bandit = decided()
    bandit.retire_arm("c")
    return bandit


def missing(_: Path) -> str:
    """What is said where a sixth of the outcomes do not come."""
    bandit = decided(0, "ucb")
    for t in range(1, 401):
        bandit.decide()
        if t > 50:
            bandit.observe(t, loss=0.5)
    return "\n".join(bandit.warnings)


def late(_: Path) -> str:
    """What is said where most outcomes come after their decision was skipped."""
    bandit = decided(400, "robust")
    for number in range(1, 101):
        bandit.observe(number, loss=0.5)
    return "\n".join(bandit.warnings)


def without_matplotlib(_: Path) -> None:
    with needs_extra("a figure", "plots"):
        raise ModuleNotFoundError(name="matplotlib")


class Wrong(PlainExp3):
    """Decides what is no distribution."""

    def decide(self, outstanding: int) -> Any:
        return [0.5, 0.6]


class Filling:
    """An environment of the user's own, or delays."""

    n_arms = 2

    def __init__(self, filled: Any, *stretches: tuple[int, list[int]]) -> None:
        self.filled = filled
        if stretches:
            self.stretches = lambda rounds: [Stretch(first, np.array(arms)) for first, arms in stretches]

    def __repr__(self) -> str:
        return "Filling()"

    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        return self.filled(rounds.size)


def simulated(environment: Any = "stochastic:arms=3", delays: Any = "none", **settings: Any) -> object:
    settings = {"learners": "ucb", "rounds": 9, "replications": 1, "progress": False, **settings}
    return simulate(settings.pop("learners"), environment, delays, **settings)


CASES: dict[str, Callable[[Path], object]] = {
    "arms: labels that are equal": lambda _: Bandit(["a", "b", "a"]),
    "arms: a label that is neither a string nor an integer": lambda _: Bandit([1.5, 2.5]),  # type: ignore[list-item]
    "arms: neither a number nor a list": lambda _: Bandit("ab"),
    "learner: none": lambda _: Bandit(2, None),  # type: ignore[arg-type]
    "learner: a parameter out of its range": lambda _: Bandit(2, "balanced", patience_constant=0.0),
    "learner: an unknown word of a choice": lambda _: learners.tune("bold:base=exp33"),
    "learner: not told what it must know": lambda _: Bandit(3, "exp3_fixed"),
    "learner: told half of what goes together": lambda _: learners.tune("exp3_delayed:horizon=100"),
    "learner: told what its doubling knows": lambda _: learners.tune("exp3_delayed:threshold=3"),
    "learner: details": lambda _: learner_details(learners.find("exp3_delayed")),
    "learner: details of one that plays with certainty": lambda _: learner_details(learners.find("ucb")),
    "share_floor: above 1 over the number of arms": lambda _: Bandit(3, "ucb", share_floor=0.34),
    "settled: live": lambda _: Bandit(2, "ucb:settled=5"),
    "spec: not key=value": lambda _: parse("a:b"),
    "spec: twice": lambda _: parse("a:b=1,b=2"),
    "decide: a draw of 1": lambda _: decided().decide(draw=1.0),
    "decide: a delay that must be known": lambda _: Bandit(3, "exp3_delayed").decide(),
    "decide: a delay that is no number of rounds": lambda _: Bandit(3, "exp3_delayed").decide(delay=-1),
    "decide: a delay that nobody asks for": lambda _: decided().decide(delay=3),
    "observe: a loss that is no number": lambda _: decided().observe(1, loss=math.nan),
    "observe: a loss beyond 1": lambda _: decided().observe(1, loss=1.5),
    "observe: nothing": lambda _: decided().observe(1),
    "observe: two outcomes": lambda _: decided().observe(1, loss=0.5, reward=0.5),
    "observe: a decision that was not made": lambda _: decided().observe(2, loss=0.5),
    "observe: no number of a round": lambda _: decided().observe("third", loss=0.5),  # type: ignore[arg-type]
    "observe: twice": lambda _: observed().observe(1, loss=0.5),
    "observe: a value without a scale": lambda _: decided().observe(1, value=5),
    "observe: a value that is none": lambda _: decided(outcome=Scale(0, 200)).observe(1, value="much"),  # type: ignore[arg-type]
    "observe: a value beyond a scale that refuses": lambda _: decided(outcome=Scale(0, 200, beyond="refuse")).observe(
        1, value=201
    ),
    "redo: not the next round": lambda _: decided().redo(Decision(3, "a", 0.5), draw=0.0),
    "redo: an arm that left": lambda _: retired().redo(Decision(2, "c", 0.5), draw=0.0),
    "arms: one that is there comes": lambda _: decided().add_arm("a"),
    "arms: one that left comes as a new one": lambda _: retired().add_arm("c"),
    "arms: one that left leaves": lambda _: retired().retire_arm("c"),
    "arms: one of the last two leaves": lambda _: retired().retire_arm("a"),
    "arms: one that has not left comes back": lambda _: decided().restore_arm("a"),
    "arms: an unknown one leaves": lambda _: decided().retire_arm("x"),
    "arms: of a learner that cannot": lambda _: decided(learner="bold").add_arm("d"),
    "limits: a floor that is no share": lambda _: Limits({"a": -0.1}),
    "limits: a floor above its ceiling": lambda _: Limits({"a": (0.5, 0.4)}),
    "limits: floors beyond 1": lambda _: decided(limits=Limits({"a": 0.7, "b": 0.7})),
    "limits: ceilings below 1": lambda _: decided(limits=Limits(dict.fromkeys("abc", (0.0, 0.3)))),
    "limits: uniform play beyond a ceiling": lambda _: decided(limits=Limits({"a": 0.1}, 0.5)),
    "limits: a holdout beside a floor": lambda _: decided(limits=Limits(holdout=0.1), share_floor=0.1),
    "limits: no limits": lambda _: decided().set_limits({"a": 0.1}),  # type: ignore[arg-type]
    "estimates: an unknown control": lambda _: decided().estimates(control="x"),
    "estimates: a method for traces": lambda _: decided().estimates(method="aipw"),
    "snapshot: something else": lambda _: Bandit.from_bytes(b"PK\x03\x04 something else entirely"),
    "snapshot: a version to come": lambda _: Bandit.from_bytes(MAGIC + b"\x09\x00" + decided().to_bytes()[10:]),
    "snapshot: damaged": lambda _: Bandit.from_bytes(decided().to_bytes()[:-1]),
    "snapshot: no bytes": lambda _: Bandit.from_bytes("text"),  # type: ignore[arg-type]
    "snapshot: of another learner": lambda _: Bandit.from_bytes(decided().to_bytes(), learners.find("ucb")),
    "warning: outcomes are missing": missing,
    "warning: outcomes come late": late,
    "solver: a loss that is no number": lambda _: ftrl_distribution([1.0, math.nan], 1.0, 0.0),
    "solver: no rate": lambda _: ftrl_distribution([1.0, 2.0], 0.0, 0.0),
    "simulate: no learner": lambda _: simulated(learners=[]),
    "simulate: a learner twice": lambda _: simulated(learners=["ucb", "ucb"]),
    "simulate: no rounds": lambda _: simulated(rounds=0),
    "simulate: checkpoints beyond the rounds": lambda _: simulated(checkpoints=[10]),
    "simulate: a setting that is missing": lambda _: simulated("bernoulli"),
    "simulate: an unknown setting": lambda _: simulated(delays="pareto:shap=1"),
    "simulate: delays that end": lambda _: simulated(delays=Recorded([1, 2, 3])),
    "simulate: a tail that nobody knows": lambda _: simulated(
        learners="patient", delays=Recorded([1, 2, 3, 4, 5]), rounds=5
    ),
    "simulate: arms that come, of a learner that cannot": lambda _: simulated(COMING, learners="bold"),
    "simulate: losses of another shape": lambda _: simulated(Filling(lambda size: (np.full((1, 3), 0.5), None))),
    "simulate: losses beyond 1": lambda _: simulated(Filling(lambda size: (np.full((size, 2), 2.0), None))),
    "simulate: a negative delay": lambda _: simulated(delays=Filling(lambda size: np.full(size, -1))),
    "simulate: a stretch of one arm": lambda _: simulated(
        Filling(lambda size: (np.full((1, 2), 0.5), None), (1, [0, 1]), (5, [0]))
    ),
    "simulate: a learner's own nonsense": lambda _: simulated("stochastic:arms=2", learners=PythonLearner("w", Wrong)),
    "learner of the user's own: without methods": lambda _: PythonLearner("i", int),
    "learner of the user's own: live": lambda _: Bandit(3, PythonLearner("mine", PlainExp3)),
    "replay: lists of other lengths": lambda _: replay("ucb", TABLE, [0, 0], [0.1, 0.2, 0.3]),
    "replay: a draw of 1": lambda _: replay("ucb", TABLE, [0, 0], [0.1, 1.0]),
    "a log: a learner that must know the delays": lambda _: Rejection(learners.tune("damped"), 4, 100),
    "a log: a learner in plain Python": lambda _: Rejection(PythonLearner("mine", PlainExp3), 4, 100),
    "an extra that is not installed": without_matplotlib,
    "shown: a simulation": lambda _: repr(simulated(learners=["robust", "damped"])),
    "shown: a simulation of many learners": lambda _: repr(
        simulated(learners=[f"robust:delay_constant={c}" for c in range(1, 8)], rounds=1)
    ),
    "shown: a comparison": lambda _: repr(compare(COMPARED)),
    "shown: a league": lambda _: repr(League(LEAGUE, {})),
    "shown: a league with a failed cell": lambda _: repr(League(LEAGUE, {}, {"x": "an error"})),
    "shown: a bandit": lambda _: repr(observed()),
    "shown: a trace": lambda _: repr(replay("uniform", TABLE, [0, 4], [0.25, 0.75])),
    "shown: a learner": lambda _: repr(learners.find("robust")),
    "shown: a cell": lambda _: repr(suite.suite["stochastic-k2/100"]),
    "shown: an audit": lambda _: repr(audit.run("robust", "stochastic:arms=3,gap=0.5", 2, rounds=30, replications=1)),
}
