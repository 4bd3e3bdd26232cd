"""Logs: what they hold, what they refuse, and which decisions of them count."""

from typing import Any

import numpy as np
import pytest

from belated import Bandit, InvalidValue, simulate
from belated.inference.stream import stream_of
from belated.logs import EventLog, Log

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
        ({"propensities": np.array([0.5, 0.0, 0.5, 0.5])}, r"propensities\[1\] is 0.0; allowed is above 0, at most 1"),
        ({"propensities": np.array([0.5, 0.5, 0.5, 1.01])}, r"propensities\[3\] is 1.01"),
        ({"rewards": np.array([1.0, 0.0, 1.5, 0.0])}, r"rewards\[2\] is 1.5; allowed is 0 to 1"),
        ({"rewards": np.array([1.0, -0.1, 1.0, 0.0])}, r"rewards\[1\] is -0.1"),
        ({"rewards": np.array([1.0, 0.0])}, r"rewards has the shape \(2,\); one for each of 4 decisions"),
        ({"arms": np.array([0, 1, 2, 0])}, r"arms\[2\] is 2; allowed is 0 to 1"),
        ({"arms": np.array([0, -1, 1, 0])}, r"arms\[1\] is -1"),
        ({"waits": np.array([0.0, -1.0, 0.0, 0.0])}, r"waits\[1\] is -1.0"),
        ({"labels": ("a", "a")}, "arm 'a' is named twice"),
        ({"labels": ("a",)}, "1 arms; at least 2"),
        ({"distributions": np.ones((4, 3))}, r"\(4, 3\); \(4, 2\) is needed"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
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


@pytest.mark.parametrize(
    ("decisions", "outcomes", "message"),
    [
        ([(1, "x"), (1, "y")], {}, r"decision 1 is given twice: decisions\[0\] and decisions\[1\]"),
        ([(2, "x"), (1, "y")], {}, "decision 1 follows decision 2; decisions are needed in the order"),
        ([(1, "x"), (2, "y")], {3: 1.0}, "an outcome of decision 3, which is not among the decisions"),
        ([(1, "x"), (2, "y")], [(1, 0.0), (1, 1.0)], "two outcomes of decision 1"),
        ([(1, "x"), (2, "y")], {1: 2.0}, r"rewards\[0\] is 2.0"),
        ([(1, "x"), (2, "y")], {1: "much"}, r"rewards\[0\] is 'much'; a number is needed"),
        ([(1, "x", 0.0), (2, "y", 0.5)], {}, r"propensities\[0\] is 0.0"),
        ([(1,)], {}, r"decisions\[0\] is \(1,\); \(id, arm\)"),
    ],
)
def test_lists_that_make_no_sense_are_refused(decisions: Any, outcomes: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Log.from_decisions(decisions, rewards=outcomes)


def test_rewards_or_losses_are_needed() -> None:
    with pytest.raises(InvalidValue, match="neither rewards nor losses"):
        Log.from_arrays([0, 1])
    with pytest.raises(InvalidValue, match="both rewards and losses"):
        Log.from_arrays([0, 1], [1, 1], losses=[0, 0])
    with pytest.raises(InvalidValue, match=r"losses\[1\] is 3"):
        Log.from_arrays([0, 1], losses=[0, 3])
    with pytest.raises(InvalidValue, match=r"decisions\[1\] has the arm 'c'; known are 'a', 'b'"):
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
    with pytest.raises(InvalidValue, match="deadline is 0"):
        log.with_deadline(0, 1.0)
    with pytest.raises(InvalidValue, match="missing_loss is 2"):
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
    with pytest.raises(InvalidValue, match="decision 3 is there twice"):
        events.decided(3, "a", 0.5)
    with pytest.raises(InvalidValue, match="decision 4 has the arm 'c'"):
        events.decided(4, "c", 0.5)
    with pytest.raises(InvalidValue, match="outcome of decision 9, which was not made before"):
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
