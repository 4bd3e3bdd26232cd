"""Logs with a deadline: which decisions are old enough, and which outcomes came too late."""

import numpy as np

from belated.logs import Log
from belated.logs.deadlines import with_deadline
from support.refusals import refused

NAN, INF = float("nan"), float("inf")


def timed() -> Log:
    """Six decisions, one in ten seconds; outcomes take 20, 30, 31 and 5, and two have not come. The log ends at 51."""
    return Log(
        labels=("a", "b"),
        arms=np.array([0, 1, 0, 1, 0, 1]),
        rewards=np.array([1.0, 1.0, 1.0, 1.0, NAN, NAN]),
        propensities=np.full(6, 0.5),
        waits=np.array([2.0, 3.0, 3.0, 0.0, INF, INF]),
        times=np.arange(0.0, 60.0, 10.0),
        durations=np.array([20.0, 30.0, 31.0, 5.0, INF, INF]),
    )


def lists(log: Log, deadline: int | None, after: float | None, loss: float | None = None) -> list[list[float]]:
    """Return rewards, which decisions are old enough, and which outcomes are late."""
    found = with_deadline(log, deadline, after, loss)
    assert found is not None
    return [np.nan_to_num(found.log.rewards, nan=-1.0).tolist(), found.old_enough.tolist(), found.late.tolist()]


def test_outcomes_at_the_deadline_are_in_time() -> None:
    """After 20 seconds the second and the third are late, after 30 only the third, after 31 none."""
    assert lists(timed(), None, 20.0) == [[1, 0, 0, 1, -1, -1], [1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 0]]
    assert lists(timed(), None, 30.0, 0.25) == [[1, 1, 0.75, 1, -1, -1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0]]
    assert lists(timed(), None, 31.0) == [[1, 1, 1, 1, -1, -1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]


def test_in_decisions() -> None:
    """After two decisions the second and the third are late, after three none."""
    assert lists(timed(), 2, None) == [[1, 0, 0, 1, -1, -1], [1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 0]]
    assert lists(timed(), 3, None) == [[1, 1, 1, 1, -1, -1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]


def test_of_young_decisions_nothing_is_late() -> None:
    """Whatever is said of them: each outcome takes three decisions, also after the last one."""
    log = Log.from_arrays(["a", "b", "a", "b"], rewards=[1.0, 1.0, 1.0, None], waits=[3.0] * 3 + [INF])
    assert lists(log, 2, None) == [[0, 0, 1, -1], [1, 1, 0, 0], [1, 1, 0, 0]]


def test_where_all_is_known_all_are_old_enough() -> None:
    log = Log.from_arrays(["a", "b", "a"], rewards=[1.0, 1.0, 1.0], waits=[2.0, 0.0, 0.0])
    assert lists(log, 1, None) == [[0, 1, 1], [1, 1, 1], [1, 0, 0]]


def test_one_deadline_or_none() -> None:
    assert with_deadline(timed(), None, None, None) is None
    with refused("deadline"):
        with_deadline(timed(), 3, 3.0, None)
