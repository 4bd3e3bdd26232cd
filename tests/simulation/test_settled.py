"""Settled outcomes alone: a learner hears of an outcome only when its decision is old enough."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import Bandit, audit, learners, simulate
from belated.bounds.waiting import Waiting
from belated.cli.league import variants
from belated.league import LeaguePlan, competitors, play
from belated.league.comparison import ComparisonPlan, compare
from belated.league.store import Store
from belated.league.suite import Cell
from belated.learners import PythonLearner
from belated.simulation import replay
from support.plain_exp3 import PlainExp3
from support.refusals import refused

LEARNERS = ["thompson", "robust", "balanced", "ucb", "bold", "sapo", "hybrid_skipping", "damped", "exp3_dropping"]
PROBLEM: dict[str, Any] = {"rounds": 400, "replications": 2, "seed": 3, "threads": 1, "keep_trace": True}
ARMS = "bernoulli:means=[0.3,0.5,0.6]"


def assert_same(one: Any, other: Any) -> None:
    """Assert that two simulations had every round alike."""
    np.testing.assert_array_equal(one.regret, other.regret)
    np.testing.assert_array_equal(one.skipped, other.skipped)
    for mine, theirs in zip(one.traces, other.traces, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            for name in ("arms", "distributions", "loss_estimates", "outstanding", "skipped", "delays", "losses"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize(
    "law", ["uniform:low=0,high=29", "byloss:good=0,bad=(uniform:low=5,high=30)", "byarm:laws=[0,30,7]"]
)
def test_delays_below_it_make_no_difference(law: str) -> None:
    """With delays of at most 30, `settled=30` is a constant delay of 30: to the bit, for what learners are told too."""
    settled = simulate([f"{name}:settled=30" for name in LEARNERS], ARMS, law, **PROBLEM)
    assert_same(settled, simulate(LEARNERS, ARMS, "constant:delay=30", **PROBLEM))


def test_a_learner_that_is_told_each_delay_is_told_the_settled_one() -> None:
    settled = simulate("exp3_delayed:settled=30", ARMS, "uniform:low=0,high=29", **PROBLEM)
    assert_same(settled, simulate("exp3_delayed", ARMS, "constant:delay=30", **PROBLEM))


def test_longer_delays_stay_as_they_are() -> None:
    """Outcomes come after max(delay, settled) rounds; those that never come do not."""
    losses, draws = np.array([[0.25, 0.75]] * 8), [0.2, 0.9, 0.4, 0.6, 0.1, 0.8, 0.3, 0.7]
    late = replay("exp3:settled=2", losses, [0, 1, 2, 3, 5, None, 0, 2], draws)
    same = replay("exp3", losses, [2, 2, 2, 3, 5, None, 2, 2], draws)
    assert late.delays.tolist() == same.delays.tolist()
    np.testing.assert_array_equal(late.distributions, same.distributions)
    np.testing.assert_array_equal(late.losses, same.losses)
    assert late.outstanding.tolist() == [0, 1, 2, 2, 2, 2, 3, 3]
    unchanged = simulate(["ucb", "ucb:settled=7"], ARMS, "uniform:low=7,high=40", **PROBLEM)
    np.testing.assert_array_equal(unchanged.regret[0], unchanged.regret[1])


def test_learners_of_one_replication_keep_their_own_delays() -> None:
    """Each meets the same draws; those that must know the delays are told their own, short of the last round."""
    names = ["damped", "damped:settled=9", "damped:settled=100", f"damped:settled={1 << 70}"]
    together = simulate(names, ARMS, "uniform:low=0,high=20", **PROBLEM)
    for name in names:
        alone = simulate(name, ARMS, "uniform:low=0,high=20", **PROBLEM)
        np.testing.assert_array_equal(together.regret[names.index(name)], alone.regret[0])
    assert [traces[0].delays.min() for traces in together.traces] == [0, 9, 100, np.iinfo(np.int64).max]
    assert np.isnan(together.traces[3][0].losses).all()


def test_plain_python_takes_it_too() -> None:
    mine = PythonLearner("mine", PlainExp3)
    late = learners.tune(mine, settled=12)
    result = simulate([late, "exp3:settled=12"], ARMS, "geometric:mean=4", **PROBLEM)
    np.testing.assert_array_equal(result.regret[0], result.regret[1])
    assert result.learners == ("mine:settled=12", "exp3:settled=12")
    assert late != mine
    assert late == PythonLearner("mine", PlainExp3, settled=12)
    assert len({late, mine, learners.tune(mine, settled=12)}) == 2
    with refused("setled", "mine", "settled"):
        learners.tune(mine, setled=3)


def test_labels_and_words() -> None:
    """A setting of the run: it stands last in the label, and 0 is not to have set it."""
    label = "robust:delay_constant=1,settled=50"
    for spec in (label, "robust:settled=50,delay_constant=1", {"name": "robust", "settled": 50, "delay_constant": 1}):
        assert learners.tune(spec).label == label
    tuned = learners.tune("robust:delay_constant=1", settled=50)
    assert tuned.label == label
    assert tuned == learners.tune(label)
    assert tuned != learners.tune("robust:delay_constant=1")
    assert learners.tune(tuned, delay_constant=2).label == "robust:delay_constant=2,settled=50"
    assert learners.tune(tuned, settled=0).label == "robust:delay_constant=1"
    assert learners.tune("ucb:settled=0") == learners.tune("ucb")
    assert learners.tune("ucb:settled=1e4").label == "ucb:settled=10000"
    again = pickle.loads(pickle.dumps(learners.tune("ucb:settled=5")))
    assert (again.label, again.settled) == ("ucb:settled=5", 5)
    assert [each.label for each in variants("ucb:settled=0,10")] == ["ucb", "ucb:settled=10"]


@pytest.mark.parametrize("value", [-1, 2.5, True, "soon", float("nan"), float("inf")])
def test_other_numbers_are_refused(value: Any) -> None:
    with refused("settled", repr(value)):
        learners.tune("ucb", settled=value)
    with refused("settled", repr(value)):
        PythonLearner("mine", PlainExp3, settled=value)


def test_bad_delays_are_still_refused() -> None:
    class Early:
        def fill(self, rng: Any, rounds: Any) -> Any:
            return np.where(rounds == 3, -1, 0)

    with refused(None, "round 3", -1):
        simulate("ucb:settled=5", ARMS, Early(), rounds=9, replications=1)


def test_live_it_is_refused_with_advice() -> None:
    words: list[tuple[str, dict[str, Any]]] = [("ucb:settled=5", {}), ("ucb", {"settled": 5})]
    for learner, parameters in words:
        with refused("settled", 5):
            Bandit(2, learner, **parameters)
    Bandit(2, "ucb:settled=0")


def test_a_league_and_its_folder_know_it_by_its_label(tmp_path: Path) -> None:
    cell = Cell("own", ARMS, "geometric:mean=5", 200)
    plan = LeaguePlan((cell,), competitors(["ucb", "ucb:settled=40"]), 2, 1)
    result = play(plan, tmp_path, threads=1).results["own"]
    assert result.learners == ("ucb", "ucb:settled=40")
    assert (result.regret[0] != result.regret[1]).any()
    store = Store(tmp_path, plan)
    assert [store.has(cell, each) for each in competitors(["ucb", "ucb:settled=40", "ucb:settled=41"])] == [1, 1, 0]
    again = play(LeaguePlan((cell,), competitors(["ucb:settled=40"]), 2, 1), tmp_path, threads=1)
    np.testing.assert_array_equal(again.results["own"].regret[0], result.regret[1])


def test_tables_of_a_comparison() -> None:
    table = {"name": "ucb", "settled": 9}
    plan = ComparisonPlan.from_settings(
        {"learners": ["ucb", table], "environments": [ARMS], "delays": ["none"], "rounds": 50, "replications": 2}
    )
    assert compare(plan, threads=1).learners == ("ucb", "ucb:settled=9")


def test_an_audit_counts_settled_waits() -> None:
    trace = replay("robust:settled=2", np.full((6, 2), 0.5), [0, 3, 0, 0, None, 0], [0.3] * 6)
    skipped = Waiting.of(trace).skipped
    waited = np.where(skipped, 0, Waiting.of(trace).waited)
    assert waited.tolist() == np.where(skipped, 0, [2, 3, 2, 2, 1, 0]).tolist()
    late = audit.run("robust:settled=20", ARMS, "uniform:low=0,high=9", rounds=300, replications=2)
    same = audit.run("robust", ARMS, 20, rounds=300, replications=2)
    assert [(each.measured, each.holds) for each in late.findings[:3]] == [
        (each.measured, each.holds) for each in same.findings[:3]
    ]
