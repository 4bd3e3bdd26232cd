"""A floor under the shares of arms: p'_i = f + (1 - K f) p_i is what arms are drawn from, everywhere."""

import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import Bandit, audit, learners, simulate
from belated.cli.league import variants
from belated.core.kernels import Vector, kernel
from belated.core.shares import put_floor
from belated.delays import NoDelay
from belated.environments import Bernoulli
from belated.league import LeaguePlan, competitors, play
from belated.league.comparison import ComparisonPlan, compare
from belated.league.store import Store
from belated.league.suite import Cell
from belated.learners import Learner, PythonLearner
from belated.live.outstanding import Recorded
from belated.live.recorded import RecordedBandit
from belated.simulation.replication import Job, check_job
from belated.simulation.simulation import replay
from support.plain_exp3 import PlainExp3
from support.play_live import TOLD, VARIANTS, informed, play_live
from support.refusals import refused
from support.sampling import sampled

NAMES = sorted(learners.catalogue)
FLOOR = 0.05
ARMS = 4


def floored(words: str, floor: float = FLOOR) -> Any:
    return learners.tune(informed(words), share_floor=floor)


def problem(rounds: int, seed: int = 1) -> tuple[Any, list[int | None], list[float]]:
    """Losses of 4 arms; delays of up to 30 rounds, a tenth of them for ever."""
    rng = np.random.default_rng(seed)
    losses = (rng.random((rounds, ARMS)) < [0.2, 0.4, 0.6, 0.8]).astype(float)
    losses[::3] = rng.random((len(losses[::3]), ARMS))
    delays = [None if rng.random() < 0.1 else int(rng.integers(0, 31)) for _ in range(rounds)]
    return losses, delays, rng.random(rounds).tolist()


@pytest.mark.parametrize("words", sampled([*NAMES, *VARIANTS], 10))
def test_live_equals_bulk_bit_for_bit_with_a_floor(words: str) -> None:
    """And no arm has less than the floor, and arms are drawn as often as propensities say: within four standard
    deviations, sqrt(sum p (1 - p)).
    """
    losses, delays, draws = problem(1000)
    bulk = replay(floored(words), losses, delays, draws)
    live = play_live(Bandit(ARMS, floored(words)), losses, delays, draws)
    np.testing.assert_array_equal(live.arms, bulk.arms)
    np.testing.assert_array_equal(live.distributions, bulk.distributions)
    np.testing.assert_array_equal(live.loss_estimates, bulk.loss_estimates)
    np.testing.assert_array_equal(live.outstanding, bulk.outstanding)
    np.testing.assert_array_equal(live.skipped, bulk.skipped)
    p = bulk.distributions
    assert p.min() >= FLOOR - 1e-12
    assert p.max() <= 1.0 - (ARMS - 1) * FLOOR + 1e-12
    assert np.abs(p.sum(axis=1) - 1.0).max() < 1e-12
    off = np.bincount(bulk.arms, minlength=ARMS) - p.sum(axis=0)
    assert (np.abs(off) <= 4 * np.sqrt((p * (1 - p)).sum(axis=0))).all()
    assert np.isfinite(bulk.loss_estimates).all()


@pytest.mark.parametrize(
    "words", sampled([each for each in (*NAMES, *VARIANTS) if not each.startswith("exp3_delayed")], 8)
)
def test_decisions_on_record_are_those_of_the_simulation(words: str) -> None:
    losses, delays, draws = problem(400)
    bulk = replay(floored(words), losses, delays, draws)
    told = TOLD.get(words.partition(":")[0], {})
    bandit = RecordedBandit(ARMS, words, share_floor=FLOOR, **told)
    made: dict[int, Any] = {}
    waiting: set[int] = set()

    def find(place: int, most: int) -> Sequence[Recorded]:
        rounds = range(place + 1, min(place + most, len(made)) + 1)
        return [Recorded(k, k, made[k].mark or 0.0, k in waiting) for k in rounds]

    bandit.open.find = find
    due: dict[int, list[int]] = {}
    for t in range(1, 401):
        made[t] = bandit.decide(t, draw=draws[t - 1])
        waiting.add(t)
        bandit.open.recorded()
        assert (made[t].arm, made[t].propensity) == (bulk.arms[t - 1], bulk.distributions[t - 1, made[t].arm])
        np.testing.assert_array_equal(bandit.distribution, bulk.distributions[t - 1])
        if (delay := delays[t - 1]) is not None:
            due.setdefault(t + delay, []).append(t)
        for s in due.pop(t, []):
            bandit.observe(made[s], float(losses[s - 1, made[s].arm]))
            waiting.remove(s)
        if t % 150 == 0:
            again = RecordedBandit.from_bytes(bandit.to_bytes())
            assert again.to_bytes() == bandit.to_bytes()
            bandit = again
            bandit.open.find = find


@pytest.mark.parametrize("name", [name for name in NAMES if learners.find(name).chosen is None])
def test_the_floor_is_put_under_what_the_learner_wants(name: str) -> None:
    """Where nothing is ever heard, a learner that does not ask which arm was drawn wants the same with and without."""
    losses, _, draws = problem(300)
    plain = replay(informed(name), losses, [None] * 300, draws)
    mixed = replay(floored(name), losses, [None] * 300, draws)
    np.testing.assert_allclose(mixed.distributions, FLOOR + (1 - ARMS * FLOOR) * plain.distributions, rtol=1e-14)


def test_the_formula() -> None:
    p = np.array([0.7, 0.2, 0.1, 0.0])
    put_floor(p, 0.1)
    np.testing.assert_allclose(p, [0.1 + 0.6 * 0.7, 0.1 + 0.6 * 0.2, 0.1 + 0.6 * 0.1, 0.1], rtol=1e-15)
    p = np.array([1.0, 0.0, 0.0])
    put_floor(p, 1 / 3)
    assert p.tolist() == [1 / 3] * 3
    assert all(1.0 - k * (1 / k) >= 0.0 for k in range(2, 10_001))


def test_unobserved_arms_take_turns_whatever_the_floor_draws() -> None:
    """ucb wants each of 4 arms in a quarter of the rounds before anything is heard."""
    losses, _, draws = problem(200)
    wanted = replay(floored("ucb"), losses, [None] * 200, draws).distributions.argmax(axis=1)
    assert np.bincount(wanted, minlength=ARMS).tolist() == [50] * ARMS


def test_patient_counts_the_arms_that_are_played() -> None:
    """Its means are rewards over decisions: with those that it wanted instead they would go beyond 1."""
    bandit = Bandit(ARMS, floored("patient", 0.2), seed=4)
    arms = [bandit.decide().arm for _ in range(500)]
    assert bandit._run.state[14::5].tolist() == np.bincount(arms, minlength=ARMS).tolist()


@kernel
def _decide(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    for i in range(p.size):
        p[i] = 0.0
    p[0] = 1.0
    return 0.0


@kernel
def _chosen(state: Vector, params: Vector, arm: int, propensity: float, mark: float) -> float:
    state[arm] = propensity
    return propensity


@kernel
def _learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
    state[2 + arm] = propensity
    state[4 + arm] = mark


def test_learners_are_told_the_propensity_with_the_floor() -> None:
    learner = Learner("first", "", "none", size=lambda n: 6, decide=_decide, chosen=_chosen, learn=_learn)
    bandit = Bandit(2, learner, seed=1, share_floor=0.25)
    for _ in range(60):
        decision = bandit.decide()
        assert decision.propensity == (0.25 if decision.arm else 0.75)
        bandit.observe(decision, loss=0.5)
    bandit._catch_up()
    assert bandit._run.state.tolist() == [0.75, 0.25] * 3
    assert bandit.distribution.tolist() == [0.75, 0.25]
    trace = replay(learners.tune(learner, share_floor=0.25), np.zeros((60, 2)), [2] * 60, [0.9, 0.1] * 30)
    assert trace.arms.tolist() == [1, 0] * 30
    assert (trace.distributions == [0.75, 0.25]).all()


def test_learners_in_plain_python_have_it_too() -> None:
    mine = PythonLearner("mine", PlainExp3)
    with_floor = learners.tune(mine, share_floor=0.05)
    result = simulate(
        [with_floor, "exp3:share_floor=0.05"],
        "bernoulli:means=[0.3,0.5,0.6]",
        "geometric:mean=4",
        rounds=300,
        replications=2,
        keep_trace=True,
    )
    assert result.learners == ("mine:share_floor=0.05", "exp3:share_floor=0.05")
    for ours, theirs in zip(*result.traces, strict=True):
        np.testing.assert_array_equal(ours.arms, theirs.arms)
        np.testing.assert_allclose(ours.distributions, theirs.distributions, rtol=1e-9)
        assert ours.distributions.min() >= 0.05
    assert with_floor == PythonLearner("mine", PlainExp3, share_floor=0.05) != mine
    assert learners.tune(with_floor, settled=3) == PythonLearner("mine", PlainExp3, 3, 0.05)


def test_its_price_is_uniform_play_with_probability_k_f() -> None:
    """thompson, 4 arms, mean gap 0.15, 8,000 rounds, 6 replications: (1 - K f) times its regret and K f times that of
    uniform play, 1,200, within 8 %.
    """
    words = ["thompson", "thompson:share_floor=0.05", "uniform"]
    result = simulate(words, "bernoulli:means=[0.3,0.5,0.5,0.5]", "geometric:mean=20", rounds=8_000, replications=6)
    plain, paid, uniform = (float(result.final(each).mean) for each in words)
    assert paid == pytest.approx(0.8 * plain + 0.2 * uniform, rel=0.08)


def test_a_bandit_keeps_its_floor() -> None:
    bandit = Bandit(["a", "b", "c"], "ucb", seed=3, share_floor=0.1)
    assert bandit.learner == "ucb:share_floor=0.1"
    bandit.observe(bandit.decide(), loss=0.5)
    again, copy = Bandit.from_bytes(bandit.to_bytes()), pickle.loads(pickle.dumps(bandit))
    decisions = [bandit.decide() for _ in range(200)]
    assert [again.decide() for _ in range(200)] == [copy.decide() for _ in range(200)] == decisions
    assert {each.propensity for each in decisions} == {0.1, 0.1 + 0.7}
    assert Bandit(2, share_floor=0.5, seed=1).decide().propensity == 0.5
    assert Bandit(2, "ucb:share_floor=0.2", share_floor=0).decide().propensity == 1.0


def test_without_a_floor_nothing_is_kept_of_it() -> None:
    """Snapshots are as they were before there were floors."""
    for kind in (Bandit(3, "ucb", seed=1), Bandit(3, "ucb", seed=1, share_floor=0.0), RecordedBandit(3, "ucb")):
        assert b"share_floor" not in kind.to_bytes()
    assert b"share_floor" in RecordedBandit(3, "ucb", share_floor=0.1).to_bytes()


def test_words_and_labels() -> None:
    label = "robust:delay_constant=1,settled=50,share_floor=0.02"
    table = {"name": "robust", "share_floor": 0.02, "settled": 50, "delay_constant": 1}
    for spec in (label, "robust:share_floor=0.02,settled=50,delay_constant=1", table):
        assert learners.tune(spec).label == label
    tuned = learners.tune(label)
    assert (tuned.share_floor, tuned.settled) == (0.02, 50)
    assert learners.tune(tuned, delay_constant=2).label == label.replace("=1", "=2")
    assert learners.tune(tuned, share_floor=0).label == "robust:delay_constant=1,settled=50"
    assert learners.tune("ucb:share_floor=0") == learners.tune("ucb", share_floor=-0.0) == learners.tune("ucb")
    assert "-" not in repr(learners.tune("ucb", share_floor=-0.0).share_floor)
    assert pickle.loads(pickle.dumps(tuned)).label == label
    assert [each.label for each in variants("ucb:share_floor=0,0.1")] == ["ucb", "ucb:share_floor=0.1"]
    assert [each.label for each in competitors(["ucb:share_floor=0.1"])] == ["ucb:share_floor=0.1"]


@pytest.mark.parametrize("value", [-0.1, math.nan, 1.5, math.inf, "much", True, None, [0.1]])
def test_bad_floors_are_refused(value: Any) -> None:
    with refused("share_floor", repr(value)):
        learners.tune("ucb", share_floor=value)
    with refused("share_floor", repr(value)):
        PythonLearner("mine", PlainExp3, share_floor=value)
    if value is not None:  # which is the default of Bandit
        with refused("share_floor", repr(value)):
            Bandit(3, "ucb", share_floor=value)


def test_a_floor_that_not_all_arms_can_have_is_refused() -> None:
    job = Job(
        learners=(learners.tune("ucb:share_floor=0.34"),),
        environment=Bernoulli([0.1, 0.2, 0.3]),
        delays=NoDelay(),
        rounds=9,
        seed=0,
        checkpoints=np.array([9]),
        keep_trace=False,
    )
    ways: list[Any] = [
        lambda: Bandit(3, "ucb", share_floor=0.34),
        lambda: RecordedBandit(3, "ucb", share_floor=0.34),
        lambda: simulate("ucb:share_floor=0.34", "bernoulli:means=[0.1,0.2,0.3]", rounds=9, replications=1),
        lambda: check_job(job),
        lambda: replay("ucb:share_floor=0.34", np.zeros((2, 3)), [0, 0], [0.1, 0.2]),
    ]
    for way in ways:
        with refused("share_floor", 0.34, "1/3"):
            way()
    for arms in (2, 3, 7, 49, 1000):
        Bandit(arms, "ucb", share_floor=1 / arms).decide()


def test_audits_are_of_the_learner_alone() -> None:
    for run in (audit.run, audit.split):
        with refused("share_floor", 0.1):
            run("robust:share_floor=0.1", "bernoulli:means=[0.1,0.2]", rounds=50, replications=1)


def test_a_league_and_its_folder_know_it_by_its_label(tmp_path: Path) -> None:
    cell = Cell("own", "bernoulli:means=[0.3,0.5,0.6]", "geometric:mean=5", 200)
    plan = LeaguePlan((cell,), competitors(["ucb", "ucb:share_floor=0.1"]), 2, 1)
    result = play(plan, tmp_path, threads=1).results["own"]
    assert result.learners == ("ucb", "ucb:share_floor=0.1")
    assert (result.regret[0] != result.regret[1]).any()
    known = [
        Store(tmp_path, plan).has(cell, each) for each in competitors(["ucb:share_floor=0.1", "ucb:share_floor=0.2"])
    ]
    assert known == [1, 0]


def test_tables_of_a_comparison() -> None:
    plan = ComparisonPlan.from_settings(
        {
            "learners": ["ucb", {"name": "ucb", "share_floor": 0.1}],
            "environments": ["bernoulli:means=[0.4,0.5]"],
            "delays": ["none"],
            "rounds": 50,
            "replications": 2,
        }
    )
    assert compare(plan, threads=1).learners == ("ucb", "ucb:share_floor=0.1")
