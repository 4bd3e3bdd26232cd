"""When the best arm is known: the same as asking `belated.inference` at every look."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from belated import simulate
from belated.delays import NEVER
from belated.inference import Log, estimates
from belated.inference.method import Options
from belated.inference.sources import method_for_log
from belated.learners import PythonLearner, tune
from belated.simulation import known, replication
from belated.simulation.known import BettingWatch, Known, is_wrong, looks, watch_of
from belated.simulation.run import Decided, LearnerRun
from support.plain_exp3 import PlainExp3

NO_ONE = Known(math.inf, -1)


def watched(arms: Any, losses: Any, delays: Any, n_arms: int = 2, piece: int = 10**9) -> Known:
    """Return when the best arm is known by betting, from rounds given in pieces."""
    watch = BettingWatch(n_arms, len(arms))
    certain = np.eye(n_arms)[np.array(arms)]
    decided = Decided(np.array(arms), np.array(losses, dtype=np.float64), np.array(delays), certain)
    for begin in range(0, len(arms), piece):
        watch.add(begin + 1, decided.part(slice(begin, begin + piece)))
    return watch.first()


def asked(log: Log) -> Known:
    """Return when the best arm is known, by asking for the winner at every look."""
    for count in looks(log.arms.size).tolist():
        winner = estimates(log.until(count)).winner
        if winner is not None:
            return Known(count, int(winner))
    return NO_ONE


CASES = {
    "no delay": ("ucb", "bernoulli:means=[0.3,0.8]", "none"),
    "late": ("robust", "bernoulli:means=[0.9,0.2,0.8]", "geometric:mean=30"),
    "by loss": ("uniform", "bernoulli:means=[0.8,0.2]", "byloss:good=0,bad=60"),
    "by arm": ("uniform", "bernoulli:means=[0.2,0.7]", "byarm:laws=[40,0]"),
    "fractions": ("uniform", "beta:arms=2,gap=0.4,concentration=4", "geometric:mean=10"),
    "settled": ("uniform:settled=80", "bernoulli:means=[0.3,0.8]", "none"),
    "never": ("uniform", "bernoulli:means=[0.1,0.9]", "outlier"),
    "too close": ("ucb", "bernoulli:means=[0.5,0.52]", "none"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_first_look_at_which_there_is_a_winner(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from one chunk of 64 rounds to the next."""
    monkeypatch.setattr(known, "LOOKS", 10)
    monkeypatch.setattr(replication, "CHUNK_ROUNDS", 64)
    result = simulate(*CASES[case], rounds=400, replications=1, known=True, keep_trace=True)
    expected = [asked(trace.log()).round for trace in result.traces[0]]
    np.testing.assert_array_equal(result.known[0], expected)
    assert np.isfinite(expected).any() == (case not in ("never", "too close"))
    without_trace = simulate(*CASES[case], rounds=400, replications=1, known=True)
    np.testing.assert_array_equal(without_trace.known, result.known)


@pytest.mark.parametrize(("logs", "fractional", "guesses"), [(8, False, True), (4, True, True), (8, False, False)])
def test_it_is_exact_for_all_kinds_of_logs(
    logs: int, fractional: bool, guesses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against p-values at every look, in pieces of any size; best arms first, last and in the middle.

    Also where the arm that the leader is weighed against first is not the one that is hardest to tell from it.
    """
    if not guesses:
        monkeypatch.setattr(BettingWatch, "_closest", lambda self, *numbers: (numbers[-1] + 1) % self.n_arms)
    rng = np.random.default_rng(4)
    found = 0
    for number in range(logs):
        n_arms, rounds = int(rng.integers(2, 7)), int(rng.integers(200, 1200))
        means = rng.uniform(0.0, 1.0, n_arms)
        arms = rng.choice(n_arms, rounds, p=rng.dirichlet(np.full(n_arms, 3.0)))
        losses = (rng.random(rounds) < means[arms]).astype(np.float64)
        if fractional:
            losses = rng.beta(2.0 * means[arms] + 0.1, 2.1 - 2.0 * means[arms])
        delays = rng.geometric(1.0 / (1 + 10 * (number % 4)), rounds) - 1
        log = Log.from_arrays(arms, losses=losses, waits=delays.astype(float), labels=range(n_arms))
        expected = NO_ONE
        for count in looks(rounds).tolist():
            method = method_for_log(log.until(count), Options())
            if np.isnan(method.means).all():
                continue
            leader = int(np.nanargmax(method.means))
            if method.p_value(leader) <= 0.05:
                expected = Known(count, leader)
                break
        assert watched(arms, losses, delays, n_arms, piece=int(rng.integers(1, rounds))) == expected
        found += expected.arm >= 0
    assert logs // 4 <= found < logs


def two_arms(rounds: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return rounds in which both arms are chosen in turn; arm 1 never loses, arm 0 always; no delays."""
    arms = np.arange(rounds, dtype=np.int64) % 2
    return arms, (1 - arms).astype(np.float64), np.zeros(rounds, dtype=np.int64)


def test_a_late_outcome_holds_up_all_later_ones() -> None:
    arms, losses, delays = two_arms(1000)
    soon = watched(arms, losses, delays)
    assert (soon.round < 40, soon.arm) == (True, 1)
    delays[3] = 500
    late = watched(arms, losses, delays)
    assert late == Known(looks(1000)[looks(1000) >= 504].min(), 1)
    at_the_look = delays.copy()
    at_the_look[3] = late.round - 4  # decision 4 has its outcome at the end of the round of the look
    assert watched(arms, losses, at_the_look) == late
    at_the_look[3] += 1
    assert watched(arms, losses, at_the_look).round == looks(1000)[looks(1000) > late.round].min()
    delays[:] = 0
    delays[int(soon.round)] = 500  # after the round that matters
    assert watched(arms, losses, delays) == soon


@pytest.mark.parametrize("piece", [1000, 7])
@pytest.mark.parametrize("delay", [1000, 10**6, NEVER])
def test_outcomes_that_never_come(delay: int, piece: int) -> None:
    """Nothing is known from later ones, in the same piece or in another."""
    arms, losses, delays = two_arms(1000)
    delays[0] = delay
    assert watched(arms, losses, delays, piece=piece) == NO_ONE
    delays[0], delays[-1] = 0, delay
    assert watched(arms, losses, delays, piece=piece).arm == 1


def test_an_outcome_in_the_last_round_counts() -> None:
    arms, losses, delays = two_arms(1000)
    delays[0] = 999
    assert watched(arms, losses, delays) == Known(1000, 1)


def test_an_arm_without_outcomes_is_not_known_to_be_worse() -> None:
    arms, losses, delays = two_arms(500)
    assert watched(arms, losses, delays, n_arms=3) == NO_ONE


def test_the_first_look_counts_though_later_ones_know_nothing() -> None:
    """Arm 1 wins for 60 rounds and loses from then on."""
    arms, losses, delays = two_arms(2000)
    soon = watched(arms, losses, delays)
    losses[60:] = arms[60:]
    assert watched(arms, losses, delays) == soon
    log = Log.from_arrays(arms, losses=losses, labels=[0, 1])
    assert estimates(log.until(120)).winner is None  # which is where a search by halves would look
    assert estimates(log).winner == 0


def test_many_arms() -> None:
    """A thousand arms in 100,000 rounds, one of which never loses."""
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 1000, 100_000)
    losses = (rng.random(arms.size) < np.where(arms == 700, 0.0, 0.5)).astype(np.float64)
    found = watched(arms, losses, np.zeros(arms.size, dtype=np.int64), n_arms=1000)
    assert found.arm == 700
    assert 10_000 < found.round < 100_000


@pytest.mark.parametrize("piece", [1, 7, 3000])
def test_pieces_of_any_size_say_the_same_by_randomisation(piece: int) -> None:
    """As `belated.inference` does at every look, also with a floor; delays by outcome hold decisions up."""
    rng = np.random.default_rng(1)
    arms = rng.choice(3, 3000, p=[0.2, 0.3, 0.5])
    losses = (rng.random(3000) < np.array([0.7, 0.6, 0.3])[arms]).astype(np.float64)
    delays = np.where(losses > 0.0, 40, 3)
    shares = np.tile([0.2, 0.3, 0.5], (3000, 1))
    log = Log.from_arrays(arms, losses=losses, distributions=shares, waits=delays.astype(float), labels=range(3))
    expected = asked(log.with_floor(0.1))
    assert 100 < expected.round < 3000
    watch = watch_of(tune("uniform:share_floor=0.1"), 3, 3000)
    for begin in range(0, 3000, piece):
        part = slice(begin, begin + piece)
        watch.add(begin + 1, Decided(arms[part], losses[part], delays[part], shares[part]))
    assert watch.first() == expected


def test_looks() -> None:
    assert (looks(100_000)[0], looks(100_000)[-1], looks(100_000).size) == (10, 100_000, 60)
    assert looks(4).tolist() == [4]
    ratios = looks(100_000)[1:] / looks(100_000)[:-1]
    assert ratios[20:] == pytest.approx(10_000 ** (1 / 59), rel=0.01)


class Steps:
    """Losses that stay the same within each chunk, and change between chunks where `changes` is set."""

    n_arms = 2

    def __init__(self, changes: bool) -> None:
        self.changes = changes

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> Any:
        return np.array([[0.1, 0.9 if self.changes and rounds[0] > 300 else 0.8]]), None


def test_where_losses_change_there_is_nothing_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("constrained:arms=2,gap=0.5", "switching:arms=2", "rhythm:rates=[0.2,0.6]", "blocks:arms=2,length=5"):
        result = simulate("uniform", words, rounds=300, replications=2, known=True)
        assert np.isnan(result.known).all(), words
        assert not result.known_wrong.any()
        assert math.isnan(result.known_after("uniform"))
    monkeypatch.setattr(replication, "CHUNK_ROUNDS", 100)
    for changes in (False, True):
        result = simulate("uniform", Steps(changes), rounds=600, replications=2, known=True)
        assert np.isnan(result.known).all() == changes
        assert np.isfinite(result.known).all() != changes


def test_nobody_asks() -> None:
    result = simulate(["ucb", "uniform"], "bernoulli:means=[0.1,0.9]", rounds=300, replications=3)
    assert result.known.shape == result.known_wrong.shape == (2, 3)
    assert np.isnan(result.known).all()


LEARNERS = ["guarded", "robust", PythonLearner("mine", PlainExp3)]


def test_asking_changes_nothing_else_and_threads_change_nothing() -> None:
    problem: Any = (LEARNERS, "bernoulli:means=[0.1,0.9]", "geometric:mean=5")
    plain = simulate(*problem, rounds=400, replications=4, threads=1)
    one = simulate(*problem, rounds=400, replications=4, threads=1, known=True)
    three = simulate(*problem, rounds=400, replications=4, threads=3, known=True)
    for name in ("regret", "skipped", "most_outstanding", "drift"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(one, name))
    np.testing.assert_array_equal(one.known, three.known)
    np.testing.assert_array_equal(one.known_wrong, three.known_wrong)
    assert np.isfinite(one.known).any()
    assert len(np.unique(one.known)) > 4


def test_the_median_over_replications() -> None:
    result = simulate("uniform", "bernoulli:means=[0.1,0.9]", rounds=100, replications=4, known=True)
    for rounds, median in (
        ([10, 20, 30, 99], 25.0),
        ([10, 20, 30, math.inf], 25.0),
        ([9, 9, math.inf, math.inf], math.inf),
    ):
        result.known[0] = rounds
        assert result.known_after("uniform") == median


class Reversed:
    """What it says of its arms is the wrong way around."""

    n_arms = 2

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> Any:
        return np.array([[0.2, 0.8]]), (rng.random((rounds.size, 2)) < [0.8, 0.2]).astype(np.float64)


def test_a_wrong_arm_is_noted() -> None:
    result = simulate("uniform", Reversed(), rounds=500, replications=3, known=True)
    assert np.isfinite(result.known).all()
    assert result.known_wrong.all()
    right = simulate("uniform", "bernoulli:means=[0.2,0.8]", rounds=500, replications=3, known=True)
    assert np.isfinite(right.known).all()
    assert not right.known_wrong.any()
    assert is_wrong(0, np.array([0.5, 0.5]))  # not better than every other
    assert is_wrong(2, np.array([0.9, 0.2, 0.3]))
    assert not is_wrong(1, np.array([0.9, 0.2, 0.3]))
    assert not is_wrong(-1, np.array([0.9, 0.2]))


def test_a_wrong_arm_is_rarely_named() -> None:
    """Three equal arms: whatever is named is wrong. Betting is careful; 1 of 80 would be 1.3 %, allowed are 5 %."""
    result = simulate(
        "thompson", "bernoulli:means=[0.5,0.5,0.5]", "geometric:mean=3", rounds=400, replications=80, known=True
    )
    np.testing.assert_array_equal(result.known_wrong, np.isfinite(result.known))
    assert result.known_wrong.mean() <= 0.05


def test_a_run_keeps_the_rounds_of_a_chunk_alone() -> None:
    run = LearnerRun(tune("robust"), 3, 10_000, False, {}, recent=64)
    assert (run.notes.columns.shape, run.notes.losses.shape) == ((64, 4), (64,))
    assert run.notes.distributions.shape == (64, 3)
    assert run.notes.estimates.size == run.notes.patience.size == 0
