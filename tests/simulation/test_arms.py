"""Arms that come and go in simulations."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import Bandit, Simulation, Trace, audit, learners, simulate
from belated.cli.main import main
from belated.delays import NEVER, delays_for
from belated.environments import Environment, Filled, Rounds, Stretch
from belated.league import LeaguePlan, can_play, competitors
from belated.league.comparison import ComparisonPlan, compare
from belated.league.suite import Cell
from belated.learners import PythonLearner
from belated.simulation.replication import Job, chunks
from belated.simulation.simulation import replay
from support.play_live import informed, told
from support.refusals import refused
from support.sampling import sampled

MOVING = [name for name, learner in learners.catalogue.items() if learner.rearm is not None]
FIXED = [name for name in learners.catalogue if name not in MOVING]


class Table(Environment, registered=False):
    """Losses from a matrix, for arms that come and go as listed: (first round, arms)."""

    def __init__(self, losses: Any, *stretches: tuple[int, Sequence[int]], anew: bool = False) -> None:
        self.losses = np.asarray(losses, dtype=np.float64)
        self.n_arms = self.losses.shape[1]
        self.given = tuple(Stretch(first, np.array(arms), anew) for first, arms in stretches)

    def stretches(self, rounds: int) -> tuple[Stretch, ...]:
        return self.given

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        losses = self.losses[rounds - 1]
        return losses, losses


def play(words: Any, world: Table, delays: Any = None, **options: Any) -> Simulation:
    options = {"rounds": len(world.losses), "replications": 1, "progress": False, "keep_trace": True, **options}
    return simulate(words, world, delays, **options)


def met(world: Table, law: Any, seed: int = 0) -> tuple[list[float], Any]:
    """The draws and the delays of the rounds of the first replication."""
    rounds = len(world.losses)
    job = Job((), world, delays_for(world, law), rounds, seed, np.array([rounds]), False)
    pieces = list(chunks(job, 0))
    draws = np.concatenate([piece.rounds.draws for piece in pieces])
    return draws.tolist(), np.concatenate([piece.rounds.delays[:, 0] for piece in pieces])


def losses(rounds: int, arms: int, seed: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    table = (rng.random((rounds, arms)) < np.linspace(0.2, 0.8, arms)).astype(float)
    table[::3] = rng.random((len(table[::3]), arms))
    return table


def live(words: str, world: Table, draws: list[float], delays: Any) -> Trace:
    """The same rounds through a bandit, whose arms come and go by one at a time."""
    first, *later = world.given
    bandit = Bandit(first.arms.tolist(), informed(words))
    bandit.warns = False
    rounds, changes = len(draws), {each.first: each for each in later}
    shape = (rounds, world.n_arms)
    chosen, skips = np.zeros(rounds, dtype=np.int64), np.zeros(rounds, dtype=np.int64)
    outstanding = np.zeros(rounds, dtype=np.int64)
    distributions, estimates = np.zeros(shape), np.full(shape, np.nan)
    due: dict[int, list[int]] = {}
    for t in range(1, rounds + 1):
        if t in changes:
            here, wanted = set(bandit.playing), set(changes[t].arms.tolist())
            (moving,) = here ^ wanted
            if moving in here:
                bandit.retire_arm(moving)
            elif moving in bandit.arms:
                bandit.restore_arm(moving)
            else:
                bandit.add_arm(moving)
        delay = int(delays[t - 1])
        decision = bandit.decide(draw=draws[t - 1], **told(words, delay))
        chosen[t - 1] = decision.arm
        outstanding[t - 1] = bandit.outstanding - 1
        numbers = np.array(bandit.arms)
        distributions[t - 1, numbers] = bandit.distribution
        if delay < NEVER - rounds:
            due.setdefault(t + delay, []).append(t)
        for s in due.pop(t, []):
            bandit.observe(s, loss=world.losses[s - 1, chosen[s - 1]])
        estimates[t - 1, numbers] = bandit.loss_estimates
        skips[t - 1] = bandit.skipped
    return Trace(chosen, distributions, estimates, outstanding, np.zeros(0), skips, delays, np.zeros(0))


LAWS = ["none", "geometric:mean=30", "dropout:share=0.2,others=3", "constant:delay=400"]


@pytest.mark.parametrize(
    ("name", "law"),
    [*((name, "geometric:mean=90") for name in MOVING), *sampled(product(MOVING, LAWS), 8)],
)
def test_live_equals_bulk_bit_for_bit(name: str, law: str) -> None:
    """An arm comes, another leaves and comes back, the first leaves; delays reach over the changes."""
    world = Table(
        losses(900, 5), (1, [0, 1, 2, 3]), (301, range(5)), (420, [0, 2, 3, 4]), (600, range(5)), (800, range(1, 5))
    )
    draws, delays = met(world, law)
    bulk = play(informed(name), world, law)
    same = live(name, world, draws, delays)
    trace = bulk.traces[0][0]
    np.testing.assert_array_equal(same.arms, trace.arms)
    np.testing.assert_array_equal(same.distributions, trace.distributions)
    np.testing.assert_array_equal(same.outstanding, trace.outstanding)
    np.testing.assert_array_equal(same.loss_estimates, trace.loss_estimates)
    # live, a round is closed when the next one opens
    assert 0 <= bulk.skipped[0, 0] - same.skipped[-1] <= 1


def test_regret_is_against_the_best_arm_of_each_stretch() -> None:
    """Three arms; the best leaves after round 4, a better one comes after round 7."""
    table = np.tile([0.5, 0.2, 0.7, 0.1], (10, 1))
    world = Table(table, (1, [0, 1, 2]), (5, [0, 2]), (8, [0, 2, 3]))
    result = play(["uniform", "ucb"], world, checkpoints=[2, 4, 5, 7, 8, 10])
    assert result.checkpoints.tolist() == [2, 4, 5, 7, 8, 10]
    best = np.cumsum([0.2] * 4 + [0.5] * 3 + [0.1] * 3)[result.checkpoints - 1]
    every = np.cumsum([1.4 / 3] * 4 + [0.6] * 3 + [1.3 / 3] * 3)[result.checkpoints - 1]
    np.testing.assert_allclose(result.uniform_regret[0], every - best, atol=1e-12)
    for k, (trace,) in enumerate(result.traces):
        paid = np.cumsum(table[np.arange(10), trace.arms])[result.checkpoints - 1]
        np.testing.assert_allclose(result.regret[k, 0], paid - best, atol=1e-12)
        assert set(trace.arms[:4]) <= {0, 1, 2}
        assert set(trace.arms[4:7]) <= {0, 2}
        assert set(trace.arms[7:]) <= {0, 2, 3}
        absent = np.ones((10, 4), dtype=bool)
        for stretch, end in zip(world.given, (4, 7, 10), strict=True):
            absent[stretch.first - 1 : end, stretch.arms] = False
        assert (trace.distributions[absent] == 0.0).all()
        np.testing.assert_array_equal(np.isnan(trace.loss_estimates), absent)
        np.testing.assert_allclose(trace.distributions.sum(axis=1), 1.0, atol=1e-12)


def test_where_arms_come_and_go_no_best_arm_is_known() -> None:
    """Even if the one that comes is as good as the one that leaves."""
    words = "arms:means=[0.9,0.1,0.1],enter=[0,0,0.5],leave=[1,0.5,1]"
    result = simulate("uniform", words, rounds=2000, replications=2, known=True)
    assert np.isnan(result.known).all()
    assert not result.known_wrong.any()


def test_outcomes_of_arms_that_left_are_skipped() -> None:
    """Arm 0 leaves after round 10, outcomes take 5 rounds: those of its decisions 6 to 10 come to nothing."""
    world = Table(np.tile([1.0, 0.0, 0.0], (30, 1)), (1, [0, 1, 2]), (11, [1, 2]))
    result = play(["uniform", "thompson"], world, "constant:delay=5")
    for k, (trace,) in enumerate(result.traces):
        assert result.skipped[k, 0] == np.count_nonzero(trace.arms[5:10] == 0) > 0
        assert trace.outstanding[10:16].tolist() == [5] * 6  # until they would have come they are outstanding


def test_an_arm_that_comes_back_is_a_new_one() -> None:
    """It was the worst. Then it is the best: what was known of it is forgotten, and its old decisions stay so."""
    table = np.tile([0.9, 0.5, 0.6], (600, 1))
    table[400:, 0] = 0.1
    world = Table(table, (1, [0, 1, 2]), (301, [1, 2]), (311, [0, 1, 2]))
    trace = play("ucb", world, "constant:delay=20").traces[0][0]
    assert trace.loss_estimates[309, 1] > 0.0
    assert np.isnan(trace.loss_estimates[309, 0])
    assert trace.loss_estimates[310:330, 0].tolist() == [0.0] * 20  # nothing has come of it yet, nor will from before
    assert set(trace.arms[310:331]) == {0}


def test_delays_by_arm_are_those_of_the_arms_that_are_present() -> None:
    world = Table(np.full((60, 4), 0.5), (1, [1, 3]), (31, [0, 3]))
    trace = play("uniform", world, "byarm:laws=[1,2,3]").traces[0][0]
    np.testing.assert_array_equal(trace.delays, np.array([1, 2, 3, 3])[trace.arms])
    assert set(trace.arms[30:]) == {0, 3}


def test_the_oracle_tells_of_arms_that_are_present() -> None:
    """The longest delay is 7 while arm 2 is there, and the run of one that must know it is that of one that is told."""
    world = Table(losses(200, 3), (1, [0, 1]), (101, [0, 1]))
    first, second = (play(words, world, "byarm:laws=[1,2,90]") for words in ("damped", "damped:longest_delay=2"))
    np.testing.assert_array_equal(first.regret, second.regret)


@pytest.mark.parametrize("name", [*learners.catalogue])
def test_starting_anew_is_two_runs(name: str) -> None:
    """Those who cannot change their arms can start anew, too. Outcomes of the first run come to nothing."""
    table = losses(400, 4)
    world = Table(table, (1, [0, 1, 3]), (251, [1, 2, 3]), anew=True)
    draws, delays = met(world, "geometric:mean=10")
    result = play(informed(name), world, "geometric:mean=10")
    trace = result.traces[0][0]
    for begin, end, arms in ((0, 250, [0, 1, 3]), (250, 400, [1, 2, 3])):
        alone = replay(informed(name), table[begin:end, arms], delays[begin:end].tolist(), draws[begin:end])
        np.testing.assert_array_equal(trace.arms[begin:end], np.array(arms)[alone.arms])
        np.testing.assert_array_equal(trace.distributions[begin:end, arms], alone.distributions)
        skipped = np.where(alone.skipped > 0, alone.skipped + begin, 0)
        np.testing.assert_array_equal(trace.skipped[begin : end - 1], skipped[:-1])


def test_coins_are_the_same_for_who_starts_anew() -> None:
    """Arms that never learn play the same arms either way: their outcomes must be the same, too."""
    words = "arms:means=[0.5,0.4,0.3],enter=[0,0,0.3]"
    on, anew = (
        simulate("uniform", f"{words}{more}", rounds=300, replications=1, keep_trace=True, progress=False)
        for more in ("", ",anew=true")
    )
    np.testing.assert_array_equal(on.traces[0][0].losses, anew.traces[0][0].losses)
    assert 0.0 < on.traces[0][0].losses.mean() < 1.0


class Stubborn:
    def __init__(self, n_arms: int, rng: np.random.Generator) -> None:
        self.p = np.full(n_arms, 1.0 / n_arms)

    def decide(self, outstanding: int) -> Any:
        return self.p

    def learn(self, arm: int, loss: float, propensity: float, round: int) -> None:
        assert arm < self.p.size


COMING = "arms:means=[0.5,0.45,0.4],enter=[0,0,0.5]"


@pytest.mark.parametrize("name", FIXED)
def test_learners_whose_arms_are_fixed_are_refused(name: str) -> None:
    with refused("learner", repr(name)):
        simulate(["ucb", name], COMING, rounds=50)
    with refused("learner", repr(name)):
        compare(ComparisonPlan(("ucb", name), ("stochastic:arms=2", COMING), ("none",), rounds=10**12))
    changing, plain = Cell("a", COMING, None, 50), Cell("b", "stochastic:arms=2", None, 50)
    (tuned,) = competitors([name])
    assert not can_play(tuned, changing)
    assert can_play(tuned, plain)
    LeaguePlan((changing, plain), (tuned,))
    with refused("learner", repr(name)):
        LeaguePlan((changing,), (tuned,))


def test_learners_in_plain_python_are_refused_unless_they_start_anew() -> None:
    mine = PythonLearner("mine", Stubborn)
    with refused("learner", "'mine'"):
        simulate(mine, COMING, rounds=50)
    result = simulate([mine, "uniform"], f"{COMING},anew=true", "constant:delay=3", rounds=50, replications=2)
    np.testing.assert_array_equal(result.regret[0], result.regret[1])


def test_a_league_leaves_out_by_name_who_cannot_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["league", "--cells", "arms-leave-k4/100", "--rounds", "60", "--replications", "2", "--out", str(tmp_path)]
    assert main(words) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "'" in line]
    assert len(notes) == len(FIXED)
    for name in FIXED:
        assert len([line for line in notes if repr(name) in line]) == 1


@pytest.mark.parametrize(
    ("stretches", "named"),
    [
        ([(2, [0, 1])], ["round 2"]),
        ([(1, [0, 1]), (1, [0, 2])], ["round 1"]),
        ([(1, [0, 1]), (21, [0, 2])], ["round 21"]),
        ([(1, [0, 1]), (5, [0])], ["[0]", "round 5"]),
        ([(1, [0, 3])], ["[0, 3]", "round 1"]),
        ([(1, [0, 0])], ["[0, 0]", "round 1"]),
    ],
)
def test_stretches_of_ones_own_are_checked(stretches: Any, named: list[str]) -> None:
    with refused(None, *named):
        play("ucb", Table(np.zeros((20, 3)), *stretches))


def test_an_object_of_ones_own_may_have_stretches() -> None:
    class Mine:
        n_arms = 3

        def stretches(self, rounds: int) -> list[Stretch]:
            return [Stretch(1, np.array([0, 1])), Stretch(rounds // 2, np.array([1, 2]))]

        def fill(self, rng: np.random.Generator, rounds: Rounds) -> Any:
            return np.full((1, 3), 0.5), None

    trace = simulate("ucb", Mine(), rounds=40, replications=1, keep_trace=True).traces[0][0]
    assert set(trace.arms[:19]) == {0, 1}
    assert set(trace.arms[19:]) == {1, 2}
    assert Environment.find(Mine()).steady_means is None


def test_floors_are_about_the_arms_that_are_present() -> None:
    world = "arms:means=[0.5,0.4,0.3],leave=[0.5,1,1],enter=[0,0,0.5]"
    simulate("ucb:share_floor=0.5", world, rounds=40, replications=1)
    with refused("share_floor", 0.5, "1/3"):
        simulate("ucb:share_floor=0.5", COMING, rounds=40)


def test_audits_and_bounds_need_arms_that_stay() -> None:
    for look in (audit.run, audit.split):
        with refused("arms"):
            look("robust", COMING, rounds=50)
    with refused("arms"):
        Cell("a", COMING, None, 50).instance()


@pytest.mark.parametrize("name", ["robust", "balanced", "guarded", "thompson"])
def test_pieces_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that ends with a stretch, and chunks of a few rounds, give the same as one."""
    world = Table(losses(300, 3), (1, [0, 1]), (101, range(3)), (221, [0, 2]))
    whole = play(name, world, 15)
    monkeypatch.setattr("belated.simulation.replication.CHUNK_ROUNDS", 20)
    pieces = play(name, world, 15)
    for one, two in zip((whole.regret, whole.skipped), (pieces.regret, pieces.skipped), strict=True):
        np.testing.assert_array_equal(one, two)
    for field in ("arms", "distributions", "loss_estimates", "skipped", "outstanding"):
        np.testing.assert_array_equal(getattr(whole.traces[0][0], field), getattr(pieces.traces[0][0], field))


@pytest.mark.parametrize("name", ["balanced", "robust"])
def test_what_is_skipped_as_an_arm_comes_is_noted(name: str) -> None:
    """Delays are so long that a decision is skipped in about every round, that before the change among them."""
    world = Table(losses(700, 4), (1, range(3)), (301, range(4)))
    result = play(name, world, "constant:delay=400")
    skipped = result.traces[0][0].skipped
    assert skipped[299] > 0
    assert np.count_nonzero(skipped) == np.unique(skipped[skipped > 0]).size == result.skipped[0, 0]


def test_who_starts_anew_skips_what_it_waited_for() -> None:
    """Five decisions are outstanding when the arms change after round 10, and two at most from then on."""
    world = Table(np.full((13, 3), 0.5), (1, [0, 1]), (11, [0, 2]), anew=True)
    result = play(["uniform", "thompson"], world, "constant:delay=5")
    assert result.skipped.tolist() == [[5], [5]]
    assert result.most_outstanding.tolist() == [[5], [5]]
    assert [trace.outstanding.tolist() for (trace,) in result.traces] == [[0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 0, 1, 2]] * 2
