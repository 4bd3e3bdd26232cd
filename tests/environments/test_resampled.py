"""Losses from a log, drawn again: their law, what is left out, and what is refused."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import simulate
from belated.delays import NEVER
from belated.environments import Environment, Resampled
from belated.logs import Log
from support.refusals import refused

NAN, INF = float("nan"), float("inf")


def small(**parts: Any) -> Log:
    """Three decisions of a and two of b; losses and waits tell all of them apart."""
    given: dict[str, Any] = {
        "losses": [0.0, 0.25, 0.5, 1.0, 0.75],
        "waits": [1, 0, 2, 5, 7],
    }
    return Log.from_arrays(["a", "b", "a", "a", "b"], **(given | parts))


def timed(**parts: Any) -> Log:
    """Six decisions, one in ten seconds; the second outcome comes after 45, the fourth does not come."""
    given: dict[str, Any] = {
        "labels": ("a", "b"),
        "arms": np.array([0, 1, 0, 1, 0, 1]),
        "rewards": np.array([1.0, 1.0, 0.5, NAN, 0.0, 1.0]),
        "propensities": np.full(6, 0.5),
        "waits": np.array([0.0, 4.0, 2.0, INF, 0.0, 0.0]),
        "times": np.arange(0.0, 60.0, 10.0),
        "durations": np.array([5.0, 45.0, 20.0, INF, 4.0, 10.0]),
    }
    return Log(**(given | parts))


ROUNDS = np.arange(1, 30_001)


def test_outcomes_are_drawn_by_arm_each_with_its_delay() -> None:
    """30,000 rounds: each decision of an arm as often as the others, within four standard errors, 4 sqrt(0.25 / 30,000)
    = 0.0116.
    """
    world = Resampled(small())
    expected, losses, delays = world.fill_with_delays(np.random.default_rng(1), ROUNDS)
    np.testing.assert_array_equal(expected, [[0.5, 0.5]])
    pairs = [{(0.0, 1), (0.5, 2), (1.0, 5)}, {(0.25, 0), (0.75, 7)}]
    for arm, wanted in enumerate(pairs):
        found, counts = np.unique(np.stack([losses[:, arm], delays[:, arm]]), axis=1, return_counts=True)
        assert {(loss, int(delay)) for loss, delay in found.T} == wanted
        assert np.abs(counts / 30_000 - 1 / len(wanted)).max() < 0.0116
    assert delays.dtype == np.int64
    assert abs(np.corrcoef(losses[:, 0], losses[:, 1])[0, 1]) < 4 / np.sqrt(30_000)
    assert abs(np.corrcoef(losses[1:, 0], losses[:-1, 0])[0, 1]) < 4 / np.sqrt(30_000)


def test_losses_alone_are_the_same() -> None:
    world = Resampled(small())
    both = world.fill_with_delays(np.random.default_rng(2), ROUNDS[:100])
    alone = world.fill(np.random.default_rng(2), ROUNDS[:100])
    np.testing.assert_array_equal(alone[0], both[0])
    np.testing.assert_array_equal(alone[1], both[1])
    assert np.asarray(world.steady_means).tolist() == [0.5, 0.5]


def test_what_it_is_made_of() -> None:
    world = Resampled(small(losses=[0.0, 0.25, 0.5, 1.0, 1.0]))
    assert (world.labels, world.n_arms, world.brings_delays) == (("a", "b"), 2, True)
    assert world.counts.tolist() == [3, 2]
    assert world.losses.tolist() == [0.0, 0.5, 1.0, 0.25, 1.0]
    assert world.waits.tolist() == [1, 2, 5, 0, 7]
    assert world.means.tolist() == [0.5, 0.625]
    assert not world.loses_outcomes
    assert world.title == "outcomes as in a log, arms a, b"
    assert repr(world) == f"Resampled(a log, 5 decisions, {world.digest})"
    at_once = Resampled(small(waits=None))
    assert at_once.waits.tolist() == [0] * 5


def test_the_digest_is_that_of_what_is_drawn_from() -> None:
    """Losses, delays, and which arm has them."""
    logs = [
        small(),
        small(losses=[0.0, 0.25, 0.5, 1.0, 0.5]),
        small(waits=[1, 0, 2, 5, 8]),
        Log.from_arrays(["a", "b", "a", "b", "b"], losses=[0.0, 0.25, 0.5, 1.0, 0.75], waits=[1, 0, 2, 5, 7]),
    ]
    digests = [Resampled(log).digest for log in logs]
    assert len(set(digests)) == 4
    more_of_b = [Resampled(Log.from_arrays(arms, losses=[0.0, 0.5, 1.0])).digest for arms in ("aab", "abb")]
    assert more_of_b[0] != more_of_b[1]
    assert Resampled(small()).digest == digests[0]
    assert all(len(digest) == 12 for digest in digests)
    assert repr(Resampled(logs[0])) != repr(Resampled(logs[1]))


def test_pickled_it_draws_the_same() -> None:
    world = Resampled(small())
    again = pickle.loads(pickle.dumps(world))
    for mine, theirs in zip(
        world.fill_with_delays(np.random.default_rng(3), ROUNDS[:50]),
        again.fill_with_delays(np.random.default_rng(3), ROUNDS[:50]),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert repr(again) == repr(world)


def test_outcomes_that_are_missing_must_mean_something() -> None:
    with refused("missing_loss", 1, 6):
        Resampled(timed())
    never = Resampled(timed(), missing_loss=0.75)
    assert never.loses_outcomes
    assert never.losses.tolist() == [0.0, 0.5, 1.0, 0.0, 0.75, 0.0]
    assert never.waits.tolist() == [0, 2, 0, 4, NEVER, 0]
    assert never.means.tolist() == pytest.approx([0.5, 0.75 / 3])
    late = Resampled(timed(waits=np.full(6, 3.0), durations=np.full(6, 9.0)), missing_loss=1.0)
    for same in (late, late.at(2.0)):
        assert (same.waits == NEVER).tolist() == [False] * 4 + [True, False]  # without a reward nothing came


def test_a_deadline_in_decisions() -> None:
    """After 3 more decisions: the second outcome is late, the fourth decision and younger ones are too young."""
    world = Resampled(timed(), deadline=3)
    assert world.counts.tolist() == [2, 1]
    assert world.losses.tolist() == [0.0, 0.5, 1.0]
    assert world.waits.tolist() == [0, 2, 3]
    assert not world.loses_outcomes
    kind = Resampled(timed(), deadline=3, missing_loss=0.25)
    assert kind.losses.tolist() == [0.0, 0.5, 0.25]
    assert Resampled(timed(), deadline=2).counts.tolist() == [3, 3]  # all is known then
    in_time = Resampled(timed(), deadline=4)
    assert (in_time.losses.tolist(), in_time.waits.tolist()) == ([0.0, 0.0], [0, 4])


def test_a_deadline_in_decisions_at_another_pace(tmp_path: Path) -> None:
    """Delays without times, one decision in a unit: a deadline after two decisions is one after six at thrice the pace.
    What is taken as missing comes then.
    """
    path = tmp_path / "log.csv"
    path.write_text("arm,reward,delay\na,1,1\nb,1,5\na,0,\nb,1,2\na,1,0\nb,1,0\n")
    world = Resampled(path, deadline=2)
    assert (world.losses.tolist(), world.waits.tolist()) == ([0.0, 1.0, 0.0, 1.0, 0.0, 0.0], [1, 2, 0, 2, 2, 0])
    for faster in (world.at(3.0), Resampled(path, deadline=2, accrual=3.0)):
        assert faster.waits.tolist() == [3, 6, 0, 6, 6, 0]
        assert not faster.loses_outcomes


def test_a_deadline_in_time() -> None:
    """The log ends at 60. After 30.1, the outcome of the second is late, and its default comes 3 decisions later; those
    made after 29.9 are too young. After 30 the fourth has its default, so that all is known.
    """
    world = Resampled(timed(), deadline_after=30.1)
    assert world.counts.tolist() == [2, 1]
    assert world.losses.tolist() == [0.0, 0.5, 1.0]
    assert world.waits.tolist() == [0, 2, 3]
    known = Resampled(timed(), deadline_after=30.0)
    assert known.counts.tolist() == [3, 3]
    assert known.losses.tolist() == [0.0, 0.5, 1.0, 1.0, 1.0, 0.0]
    assert known.waits.tolist() == [0, 2, 0, 3, 2, 0]  # of the fourth, all decisions that there are
    with refused("deadline"):
        Resampled(small(), deadline_after=30.0)


def test_accrual_turns_time_into_decisions() -> None:
    """Rounded up; what is whole but for rounding stays."""
    log = timed(rewards=np.array([1.0, 1.0, 0.5, 1.0, 0.0, 1.0]), durations=np.array([5.0, 45.0, 20.0, 0.0, 4.0, 10.0]))
    assert Resampled(log, accrual=0.1).waits.tolist() == [1, 2, 1, 5, 0, 1]
    assert Resampled(log, accrual=2).waits.tolist() == [10, 40, 8, 90, 0, 20]
    tenths = timed(rewards=np.ones(6), durations=np.array([1.1, 2.2, 0.3, 4.4, 0.6, 0.7]))
    assert 1.1 * 100 > 110.0
    assert Resampled(tenths, accrual=100).waits.tolist() == [110, 30, 60, 220, 440, 70]
    assert Resampled(timed(), accrual=0.1, missing_loss=1.0).waits.tolist() == [1, 2, 1, 5, NEVER, 1]
    with refused("accrual", 2):
        Resampled(small(), accrual=2)
    for wrong in (0, -1.0, INF):
        with refused("accrual", wrong):
            Resampled(log, accrual=wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline": 3, "deadline_after": 5.0}, ("deadline",)),
        ({"deadline": 6}, ("deadline",)),
        ({"deadline": 5}, ("arm", "b")),
        ({"deadline": 0}, ("deadline", "0")),
        ({"deadline_after": -1.0}, ("deadline", "-1.0")),
        ({"missing_loss": 2.0}, ("missing_loss", "2.0")),
        ({"deadline": 2, "missing_loss": -0.1}, ("missing_loss", "-0.1")),
        ({"arm": "variant"}, ("arm",)),
        ({"outcome_time": "at"}, ("outcome_time",)),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Resampled(timed(), **options)


def test_other_things_are_refused() -> None:
    with refused("file", 3):
        Resampled(3)  # type: ignore[arg-type]
    with refused("arm", "c"):
        Resampled(small(labels=["a", "b", "c"]))


def test_only_one_arm() -> None:
    """All arms have the outcomes and delays of one: there is nothing to learn."""
    world = Resampled(small())
    same = world.only("b")
    expected, losses, delays = same.fill_with_delays(np.random.default_rng(4), ROUNDS[:2000])
    np.testing.assert_array_equal(expected, [[0.5, 0.5]])
    assert {(loss, int(delay)) for loss, delay in zip(losses.flat, delays.flat, strict=True)} == {(0.25, 0), (0.75, 7)}
    assert (losses[:, 0] != losses[:, 1]).mean() == pytest.approx(0.5, abs=0.05)
    assert (same.n_arms, same.labels) == (2, ("a", "b"))
    assert (same.source, same.digest) == ("b in a log", f"{world.digest}-1")
    assert same.only("a").losses.tolist() == [0.25, 0.75]
    assert world.only("a").losses.tolist() == [0.0, 0.5, 1.0]
    assert simulate("ucb", same, rounds=50, replications=2).regret.max() == 0.0


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\nblue,1\ngreen,0\nblue,0\ngreen,0.5\n")
    words = Environment.find(f"resampled:file={path}")
    assert isinstance(words, Resampled)
    assert words.labels == ("blue", "green")
    assert words.means.tolist() == [0.5, 0.75]
    assert words.source == str(path)
    by_path = Resampled(path)
    assert by_path.source == "log.csv"
    assert by_path.digest == words.digest
    named = tmp_path / "named.csv"
    named.write_text("choice,paid\nblue,1\ngreen,0\nblue,0\ngreen,0.5\n")
    paid = Environment.find(f"resampled:file={named},arm=choice,reward=paid")
    assert np.asarray(paid.steady_means).tolist() == [0.5, 0.75]
    assert Resampled(named, arm="choice", loss="paid").means.tolist() == [0.5, 0.25]


def test_threads_make_no_difference() -> None:
    world = Resampled(small())
    one, two = (
        simulate(["robust", "ucb", "damped"], world, rounds=3000, replications=4, seed=2, threads=threads)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.regret, two.regret)
    np.testing.assert_array_equal(one.most_outstanding, two.most_outstanding)
    assert one.most_outstanding.max() > 2
