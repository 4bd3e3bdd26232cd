"""Logs: what they hold, what they refuse, and which decisions of them count."""

from typing import Any

import numpy as np
import pytest

from belated import Bandit, simulate
from belated.inference.stream import stream_of
from belated.logs import EventLog, Log
from belated.logs.log import waits_of
from support.refusals import refused

NAN = float("nan")


def small(**changes: Any) -> Log:
    parts: dict[str, Any] = {
        "labels": ("a", "b"),
        "arms": np.array([0, 1, 1, 0]),
        "rewards": np.array([1.0, 0.0, NAN, 1.0]),
        "propensities": np.array([0.5, 0.5, 0.7, 0.3]),
        "waits": np.array([0.0, 2.0, np.inf, 0.0]),
    }
    return Log(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"propensities": np.array([0.5, 0.0, 0.5, 0.5])}, ("propensities", "0.0")),
        ({"propensities": np.array([0.5, 0.5, 0.5, 1.01])}, ("propensities", "1.01")),
        ({"rewards": np.array([1.0, 0.0, 1.5, 0.0])}, ("rewards", "1.5")),
        ({"rewards": np.array([1.0, -0.1, 1.0, 0.0])}, ("rewards", "-0.1")),
        ({"rewards": np.array([1.0, 0.0])}, ("rewards", "(2,)")),
        ({"arms": np.array([0, 1, 2, 0])}, ("arms", "2")),
        ({"arms": np.array([0, -1, 1, 0])}, ("arms", "-1")),
        ({"waits": np.array([0.0, -1.0, 0.0, 0.0])}, ("waits", "-1.0")),
        ({"labels": ("a", "a")}, ("arms", "a")),
        ({"labels": ("a",)}, ("arms", "1")),
        ({"distributions": np.ones((4, 3))}, ("distributions", "(4, 3)", "(4, 2)")),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        small(**changes)


def test_decisions_and_outcomes_as_lists() -> None:
    log = Log.from_decisions([(1, "x", 0.5), (2, "y", 0.5), (5, "x", 0.25)], losses=[(5, 0.25), (1, 1)])
    assert log.labels == ("x", "y")
    assert log.arms.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(log.rewards, [0.0, NAN, 0.75])
    assert log.propensities.tolist() == [0.5, 0.5, 0.25]
    named = Log.from_decisions([("i", "x"), ("h", "y")], rewards={"h": 1}, labels=["z", "y", "x"])
    assert named.labels == ("z", "y", "x")
    assert named.arms.tolist() == [2, 1]
    assert np.isnan(named.propensities).all()


def test_decisions_with_the_probabilities_of_all_arms() -> None:
    """In the order of the labels; those of arms that were still to come may be missing."""
    decisions: list[tuple[Any, ...]] = [
        (1, "x", 0.5, [0.5, 0.5]), (2, "y", 0.25, np.array([0.75, 0.25])), (3, "x"), (4, "y", 0.5, None),
        (5, "z", 0.25, (0.25, 0.5, 0.25)), (6, "x", None, [0.5, 0.5, 0.0]),
    ]  # fmt: skip
    log = Log.from_decisions(decisions, rewards={1: 1}, labels=["x", "y", "z"], changes=iter([(4, "z", True)]))
    np.testing.assert_array_equal(
        log.distributions,
        [[0.5, 0.5, 0], [0.75, 0.25, 0], [NAN] * 3, [NAN] * 3, [0.25, 0.5, 0.25], [0.5, 0.5, 0]],
    )
    np.testing.assert_array_equal(log.propensities, [0.5, 0.25, NAN, 0.5, 0.25, NAN])
    assert Log.from_decisions([(1, "x", 0.5, None), (2, "y", 0.5)], rewards={}).distributions is None
    bandit = Bandit(["x", "y", "z"], "exp3", seed=1)
    made = [(*bandit.decide(), bandit.distribution) for _ in range(20)]
    again = Log.from_decisions(made, rewards={}, labels=["x", "y", "z"]).distributions
    np.testing.assert_array_equal(again, [shares for *_, shares in made])


@pytest.mark.parametrize(
    ("decision", "labels", "message"),
    [
        ((2, "x", 0.5, [0.5, 0.5], 1), ["x", "y"], ("decisions", "decisions[1]")),
        ((2, "x", 0.5, [0.5, 0.5]), None, ("labels", None)),
        ((2, "x", 0.5, [0.5, 0.25, 0.25]), ["x", "y"], ("decisions", "decisions[1]", 0.25, 2)),
        ((2, "x", 0.5, [0.5, 0.5]), ["x", "y", "z"], ("decisions", "decisions[1]", [0.5, 0.5], 3)),
        ((2, "x", 0.5, 0.5), ["x", "y"], ("decisions", "decisions[1]", 0.5)),
        ((2, "x", 0.5, "half"), ["x", "y"], ("decisions", "decisions[1]", "half")),
        ((2, "x", 0.5, {"x": 0.5, "y": 0.5}), ["x", "y"], ("decisions", "decisions[1]")),
        ((2, "x", 0.5, [0.5, "half"]), ["x", "y"], ("decisions", "decisions[1]", "half")),
        ((2, "x", 0.5, np.full((1, 2), 0.5)), ["x", "y"], ("decisions", "decisions[1]")),
        ((2, "x", 0.5, [0.5, 0.4]), ["x", "y"], ("distributions", "distributions[1]", 0.4)),
        ((2, "x", 0.5, [1.5, -0.5]), ["x", "y"], ("distributions", "distributions[1]", 1.5)),
        ((2, "x", 0.5, [0.25, 0.75]), ["x", "y"], ("propensities", "propensities[1]", 0.5, 0.25)),
    ],
)
def test_probabilities_that_cannot_be_are_refused(
    decision: tuple[Any, ...], labels: list[str] | None, message: tuple[Any, ...]
) -> None:
    with refused(*message):
        Log.from_decisions([(1, "x", 0.5), decision], rewards={}, labels=labels)


def test_a_small_floor_is_kept_as_closely_as_a_large_one() -> None:
    assert small(propensities=np.array([0.5, 0.5, 0.7, 0.3 - 5e-7]), floors=(0.3, 0.3)).floors == (0.3, 0.3)
    with refused("floors", 1e-9, 1e-7):
        small(propensities=np.array([0.5, 0.5, 0.7, 1e-9]), floors=(1e-7, 1e-7))


@pytest.mark.parametrize(
    ("floors", "message"),
    [
        ((0.5,), ("floors", 1, 2)),
        ((0.5, 0.6), ("floors", 1.1)),
        ((0.5, -0.1), ("floors[1]", -0.1)),
        ((0.0, 0.6), ("floors", "propensities[1]", 0.5, 0.6)),
    ],
)
def test_floors_that_were_not_kept_are_refused(floors: tuple[float, ...], message: tuple[Any, ...]) -> None:
    with refused(*message):
        small(floors=floors)


def test_a_floor_and_fixed_shares() -> None:
    log = small()
    assert log.with_floor(0.3).floors == (0.3, 0.3)
    fixed = small(propensities=np.full(4, NAN)).with_shares([0.25, 0.75])
    assert fixed.propensities.tolist() == [0.25, 0.75, 0.75, 0.25]
    assert fixed.floors == (0.25, 0.75)
    assert fixed.distributions is not None
    assert fixed.distributions.tolist() == [[0.25, 0.75]] * 4
    for shares in ([0.5, 0.4], [1.0, 0.0], [1.0]):
        with refused("shares", shares[0]):
            log.with_shares(shares)


@pytest.mark.parametrize(
    ("decisions", "outcomes", "message"),
    [
        ([(1, "x"), (1, "y")], {}, ("decisions", "[0]", "[1]", "1")),
        ([(2, "x"), (1, "y")], {}, ("decisions", "1", "2")),
        ([(1, "x"), (2, "y")], {3: 1.0}, ("rewards", "3")),
        ([(1, "x"), (2, "y")], [(1, 0.0), (1, 1.0)], ("rewards", "1")),
        ([(1, "x"), (2, "y")], {1: 2.0}, ("rewards", "2.0")),
        ([(1, "x"), (2, "y")], {1: "much"}, ("rewards", "much")),
        ([(1, "x", 0.0), (2, "y", 0.5)], {}, ("propensities", "0.0")),
        ([(1,)], {}, ("decisions", "(1,)")),
    ],
)
def test_lists_that_make_no_sense_are_refused(decisions: Any, outcomes: Any, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Log.from_decisions(decisions, rewards=outcomes)


def test_rewards_or_losses_are_needed() -> None:
    with refused("rewards"):
        Log.from_arrays([0, 1])
    with refused("rewards"):
        Log.from_arrays([0, 1], [1, 1], losses=[0, 0])
    with refused("losses", 3):
        Log.from_arrays([0, 1], losses=[0, 3])
    with refused("arms", "c", "a", "b"):
        Log.from_arrays(["a", "c"], [1, 1], labels=["a", "b"])


def test_which_decisions_count() -> None:
    log = small()
    assert log.settled == 2
    for outcomes, decisions, known in (
        ("settled", [1, 1], [1, 1]),
        ("arrived", [2, 1], [2, 1]),
        ("bounded", [2, 2], [2, 1]),
    ):
        stream = stream_of(log, outcomes)
        assert stream.decisions.tolist() == decisions
        assert stream.tally.known.tolist() == known
    assert small(rewards=np.ones(4)).settled == 4


def test_the_log_as_it_was() -> None:
    log = small()
    np.testing.assert_array_equal(log.until(2).rewards, [1.0, NAN])
    np.testing.assert_array_equal(log.until(3).rewards, [1.0, NAN, NAN])
    np.testing.assert_array_equal(log.until(4).rewards, log.rewards)
    at_once = small(waits=None)
    np.testing.assert_array_equal(at_once.until(3).rewards, [1.0, 0.0, NAN])


def test_a_deadline_takes_a_default_and_leaves_out_what_comes_later() -> None:
    log = small(waits=np.array([0.0, 2.0, np.inf, 0.0]))
    after_one = log.with_deadline(1, 1.0)
    np.testing.assert_array_equal(after_one.rewards, [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(after_one.waits, [0.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(log.with_deadline(1, 0.0).rewards, [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(log.with_deadline(2, 0.5).rewards, [1.0, 0.0, NAN, 1.0])  # not over yet
    at_some_time = small(waits=None).with_deadline(1, 1.0)  # what has come counts
    np.testing.assert_array_equal(at_some_time.rewards, [1.0, 0.0, 0.0, 1.0])
    assert at_some_time.waits is None
    with refused("deadline", 0):
        log.with_deadline(0, 1.0)
    with refused("missing_loss", 2):
        log.with_deadline(1, 2)


def test_a_trace_is_a_log() -> None:
    result = simulate(
        "robust", "bernoulli:means=[0.2,0.6]", "geometric:mean=5", rounds=50, replications=1, keep_trace=True
    )
    trace = result.traces[0][0]
    log = trace.log()
    np.testing.assert_array_equal(log.rewards, 1 - trace.losses)
    np.testing.assert_array_equal(log.propensities, trace.propensities)
    assert log.distributions is trace.distributions
    assert log.until(20).settled <= 20


def test_events_make_a_log() -> None:
    events = EventLog(["a", "b"])
    events.decided(1, "b", 0.4)
    events.decided(2, "a", None)
    events.came(1, 0.0)
    events.decided(3, "a", 0.9)
    events.came(1, 1.0)  # too late: the first stays
    events.came(2, 1.0)
    log = events.log()
    np.testing.assert_array_equal(log.rewards, [1.0, 0.0, NAN])
    np.testing.assert_array_equal(log.waits, [1.0, 1.0, np.inf])
    np.testing.assert_array_equal(log.propensities, [0.4, NAN, 0.9])
    with refused("decision", 3):
        events.decided(3, "a", 0.5)
    with refused("arm", "c", 4):
        events.decided(4, "c", 0.5)
    with refused("decision", 9):
        events.came(9, 0.5)


def test_decisions_of_a_bandit_are_a_log() -> None:
    bandit = Bandit(["a", "b"], seed=1)
    decisions = [bandit.decide() for _ in range(10)]
    for decision in decisions[:9]:
        bandit.observe(decision, reward=1.0)
    log = Log.from_decisions(decisions, rewards={decision.round: 1.0 for decision in decisions[:9]}, labels=["a", "b"])
    from belated import inference

    assert inference.estimates(log) == bandit.estimates()


def timed(**changes: Any) -> Log:
    """Five decisions, at 0, 1, 1, 4 and 9; the third has no outcome."""
    parts: dict[str, Any] = {
        "labels": ("a", "b"),
        "arms": np.array([0, 1, 1, 0, 1]),
        "rewards": np.array([1.0, 0.0, NAN, 1.0, 0.0]),
        "propensities": np.full(5, 0.5),
        "waits": np.array([2.0, 3.0, np.inf, 0.0, 0.0]),
        "times": np.array([0.0, 1.0, 1.0, 4.0, 9.0]),
        "durations": np.array([1.0, 8.0, np.inf, 4.5, 3.0]),
    }
    return Log(**(parts | changes))


def test_a_deadline_in_time_without_waits() -> None:
    """Decisions are then counted by times: outcomes that came in time still count as come."""
    found = timed(waits=None).with_deadline_after(5.0, 1.0)
    np.testing.assert_array_equal(found.waits, [2.0, 2.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(found.rewards, [1.0, 0.0, 0.0, 1.0, 0.0])


def test_the_end_is_that_of_what_was_known_then() -> None:
    log = timed()
    assert log.end == 12.0
    early = log.until(4)  # the second outcome comes at 9
    np.testing.assert_array_equal(early.rewards, [1.0, NAN, NAN, 1.0])
    assert early.end == 8.5
    np.testing.assert_array_equal(early.with_deadline_after(7.5, 1.0).rewards, [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(early.with_deadline_after(7.6, 1.0).rewards, [1.0, NAN, NAN, 1.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"times": np.array([0.0, 2.0, 1.0, 4.0, 9.0])},
            ("times", "1.0"),
        ),
        ({"times": np.array([0.0, 1.0, NAN, 4.0, 9.0])}, ("times", "nan")),
        ({"times": np.array([0.0, 1.0, 1.0, 4.0, np.inf])}, ("times", "inf")),
        ({"times": np.array([0.0, 1.0])}, ("times", "(2,)")),
        ({"durations": np.array([1.0, 8.0, np.inf, -0.5, 3.0])}, ("durations", "-0.5")),
        ({"durations": np.array([1.0, 8.0, NAN, 4.5, 3.0])}, ("durations", "nan")),
        ({"durations": np.zeros(4)}, ("durations", "(4,)")),
        ({"waits": np.array([0.0, NAN, 0.0, 0.0, 0.0])}, ("waits", "nan")),
    ],
)
def test_times_that_cannot_be(changes: dict[str, Any], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        timed(**changes)


def test_waits_by_times() -> None:
    """Decisions made until an outcome came, at the very moment included; itself not."""
    times = np.array([0.0, 1.0, 1.0, 4.0, 9.0])
    assert waits_of(times, np.zeros(5)).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert waits_of(times, np.array([0.9, 2.9, 3.0, 5.0, 99.0])).tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert waits_of(times, np.array([1.0, np.inf, 100.0, 4.9, np.inf])).tolist() == [2.0, np.inf, 2.0, 0.0, np.inf]
    assert waits_of(np.zeros(0), np.zeros(0)).size == 0
    rng = np.random.default_rng(1)
    times, durations = np.sort(rng.integers(0, 50, 60)).astype(float), rng.integers(0, 30, 60).astype(float)
    counted = [sum(times[j] <= times[i] + durations[i] for j in range(i + 1, 60)) for i in range(60)]
    assert waits_of(times, durations).tolist() == counted


def test_the_end_of_a_log() -> None:
    assert np.isnan(small().end)
    assert timed(durations=None).end == 9.0
    assert timed().end == 12.0
    assert timed(durations=np.array([1.0, 2.0, np.inf, 0.5, np.inf])).end == 9.0
    nothing = Log(("a", "b"), np.zeros(0, int), np.zeros(0), np.zeros(0), times=np.zeros(0), durations=np.zeros(0))
    assert np.isnan(nothing.end)


def test_a_deadline_in_time() -> None:
    """The log ends at 12. After 5: the second and third get a default, two decisions later and one; after 4.5 the
    fourth is in time; after 11 only the first and the second and third are old enough.
    """
    log = timed()
    after = log.with_deadline_after(5.0, 0.75)
    np.testing.assert_array_equal(after.rewards, [1.0, 0.25, 0.25, 1.0, 0.0])
    np.testing.assert_array_equal(after.durations, [1.0, 5.0, 5.0, 4.5, 3.0])
    np.testing.assert_array_equal(after.waits, [2.0, 2.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(log.with_deadline_after(4.4, 0.0).rewards, [1.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(log.with_deadline_after(4.4, 0.0).durations, [1.0, 4.4, 4.4, 4.4, 3.0])
    np.testing.assert_array_equal(log.with_deadline_after(4.5, 0.0).durations, [1.0, 4.5, 4.5, 4.5, 3.0])
    np.testing.assert_array_equal(log.with_deadline_after(8.0, 0.75).rewards, [1.0, 0.0, 0.25, 1.0, 0.0])
    np.testing.assert_array_equal(log.with_deadline_after(11.0, 0.75).rewards, [1.0, 0.0, 0.25, 1.0, 0.0])
    np.testing.assert_array_equal(log.with_deadline_after(11.1, 0.75).rewards, log.rewards)
    young = timed(rewards=np.array([1.0, 0.0, NAN, NAN, 0.0]), durations=np.array([1.0, 8.0, np.inf, np.inf, 3.0]))
    np.testing.assert_array_equal(young.with_deadline_after(8.0, 1.0).rewards, [1.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(young.with_deadline_after(8.1, 1.0).rewards, [1.0, 0.0, 0.0, NAN, 0.0])
    with refused("deadline"):
        timed(durations=None).with_deadline_after(5.0, 1.0)
    with refused("deadline", "0.0"):
        log.with_deadline_after(0.0, 1.0)
    with refused("missing_loss", "2.0"):
        log.with_deadline_after(5.0, 2.0)


def test_a_deadline_in_time_where_only_delays_are_known() -> None:
    """Such a log is complete. Two decisions in a unit of time: a deadline after 2.5 is five decisions."""
    log = Log.from_arrays(["a", "b", "a"], rewards=[1.0, 0.0, None], waits=[1.0, 8.0, np.inf])
    log = Log(**{**vars(log), "durations": np.array([0.5, 4.0, np.inf])})
    found = log.with_deadline_after(2.5, 0.25)
    np.testing.assert_array_equal(found.rewards, [1.0, 0.75, 0.75])
    np.testing.assert_array_equal(found.durations, [0.5, 2.5, 2.5])
    np.testing.assert_array_equal(found.waits, [1.0, 5.0, 5.0])
    np.testing.assert_array_equal(log.with_deadline_after(2.6, 1.0).waits, [1.0, 6.0, 6.0])  # not before its time
    assert np.isinf(log.ages).all()


def test_a_deadline_in_decisions_where_only_delays_are_known() -> None:
    """Two decisions in a unit of time: a deadline after three decisions is 1.5. Where no outcome took time, one
    decision is made in a unit.
    """
    log = Log.from_arrays(["a", "b", "a", "b", "a"], rewards=[1.0, 0.0, 1, 1, 1], waits=[1.0, 8.0, 0.0, 0.0, 0.0])
    log = Log(**{**vars(log), "durations": np.array([0.5, 4.0, 0.0, 0.0, 0.0])})
    found = log.with_deadline(3, 0.25)
    np.testing.assert_array_equal(found.rewards, [1.0, 0.75, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(found.waits, [1.0, 3.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(found.durations, [0.5, 1.5, 0.0, 0.0, 0.0])
    silent = Log.from_arrays(["a", "b", "a"], rewards=[None, 0.0, 0.0], waits=[np.inf, 0.0, 0.0])
    silent = Log(**{**vars(silent), "durations": np.array([np.inf, 0.0, 0.0])})
    np.testing.assert_array_equal(silent.with_deadline(2, 1.0).durations, [2.0, 0.0, 0.0])


def test_a_deadline_in_decisions_has_its_time() -> None:
    """After 2 decisions: the second, whose outcome comes after 3, at 4; the third at 9."""
    after = timed().with_deadline(2, 1.0)
    np.testing.assert_array_equal(after.rewards, [1.0, 0.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(after.waits, [2.0, 2.0, 2.0, 0.0, 0.0])
    np.testing.assert_array_equal(after.durations, [1.0, 3.0, 8.0, 4.5, 3.0])
    assert after.times is not None
    assert timed(durations=None).with_deadline(2, 1.0).durations is None


def test_the_log_as_it_was_has_its_times() -> None:
    early = timed(distributions=np.full((5, 2), 0.5)).until(3)
    np.testing.assert_array_equal(early.rewards, [1.0, NAN, NAN])
    assert early.times is not None
    assert early.durations is not None
    assert early.distributions is not None
    assert (early.times.size, early.durations.size, len(early.distributions), early.propensities.size) == (3, 3, 3, 3)
    assert early.end == 1.0
    none = small().until(2)
    assert none.times is none.durations is None


def test_events_with_times_make_a_log_with_times() -> None:
    """A clock that goes back stands still."""
    events = EventLog(["a", "b"])
    events.decided(1, "b", 0.4, at=100.0)
    events.decided(2, "a", 0.5, at=110.0)
    events.came(1, 0.0, at=112.5)
    events.decided(3, "a", 0.9, at=105.0)
    events.came(1, 1.0, at=200.0)  # too late: the first stays
    events.came(3, 0.5, at=113.0)
    log = events.log()
    assert log.in_seconds
    np.testing.assert_array_equal(log.times, [100.0, 110.0, 112.5])
    np.testing.assert_array_equal(log.durations, [12.5, np.inf, 0.5])
    np.testing.assert_array_equal(log.waits, [1.0, np.inf, 0.0])
    assert log.end == 113.0


@pytest.mark.parametrize("gap", ["decision", "outcome", "all"])
def test_events_of_which_some_have_no_time(gap: str) -> None:
    events = EventLog(["a", "b"])
    events.decided(1, "b", 0.4, at=None if gap in ("decision", "all") else 100.0)
    events.decided(2, "a", 0.5, at=None if gap == "all" else 110.0)
    events.came(1, 0.0, at=None if gap in ("outcome", "all") else 112.0)
    log = events.log()
    assert log.times is log.durations is None
    assert not log.in_seconds
    np.testing.assert_array_equal(log.waits, [1.0, np.inf])
    assert EventLog(["a", "b"]).log().times is None
