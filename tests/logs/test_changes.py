"""Logs of arms that come and go: what they hold, what they refuse, and what they keep."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from belated.logs import EventLog, Log
from belated.logs.changes import Change, arms_at_first
from support.refusals import refused


def a_log(changes: Any, arms: list[int] | None = None) -> Log:
    arms = [0, 1, 2, 0, 2, 1] if arms is None else arms
    return Log(("a", "b", "c"), np.array(arms), np.ones(len(arms)), np.full(len(arms), 0.5), changes=changes)


def test_changes_are_kept() -> None:
    log = a_log(((2, 2, True), (5, 0, False)), [0, 1, 2, 0, 2, 1])
    assert log.changes == (Change(2, 2, True), Change(5, 0, False))
    assert log.first_arms == 2
    assert a_log(()).first_arms == 3
    assert a_log(((3, 1, False), (5, 1, True))).first_arms == 3
    for other in (
        log.with_deadline(1, 1.0),
        replace(log, durations=np.ones(6)).with_deadline_after(2.0, 1.0),
        replace(log, waits=np.zeros(6)).until(3),
        log.head(3),
    ):
        assert other.changes == log.changes
        assert other.first_arms == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (((3, 2, True),), ("arms", "3", "2")),
        (((2, 0, False),), ("arms", "4", "0")),
        (((2, 2, True), (1, 0, False)), ("after", "1", "2")),
        (((1, 1, True), (1, 2, True)), ("changes", "1")),
        (((2, 0, False), (2, 1, False)), ("arm", "1", "2")),
        (((6, 0, False), (6, 0, False)), ("arm", "0")),
        (((6, 3, True),), ("changes", "3")),
        (((-1, 0, False),), ("after", "-1")),
    ],
)
def test_changes_that_cannot_be_are_refused(changes: Any, words: tuple[str | None, ...]) -> None:
    with refused(*words):
        a_log(changes)


def test_newcomers_are_the_last_labels_in_the_order_of_their_coming() -> None:
    def log(*changes: tuple[int, str, bool]) -> Log:
        arms = ["a", "b", "d", "c"]
        return Log.from_arrays(arms, [1, 0, 1, 1], labels=["a", "b", "c", "d"], changes=changes)

    assert log((2, "c", True), (2, "d", True)).first_arms == 2
    with refused("arm", 3, 2):
        log((2, "d", True), (3, "c", True))
    with refused("changes", "e", "a", "b", "c", "d"):
        log((2, "e", True))


def test_decisions_as_a_list() -> None:
    decisions = [(1, "x"), (2, "y"), (3, "z")]
    log = Log.from_decisions(decisions, rewards={1: 1}, labels=["x", "y", "z"], changes=[(2, "z", True)])
    assert log.changes == (Change(2, 2, True),)
    assert log.first_arms == 2


def test_events() -> None:
    """Arms of the beginning are sorted by their labels, those that come later follow."""
    events = EventLog()
    events.decided(1, "m", 0.5)
    events.decided(2, "c", 0.5)
    events.changed("b", True)
    events.changed("a", True)
    events.decided(3, "b", 0.3)
    events.changed("m", False)
    events.came(3, 0.0)
    events.decided(4, "a", 0.3)
    log = events.log()
    assert log.labels == ("c", "m", "b", "a")
    assert log.arms.tolist() == [1, 0, 2, 3]
    assert log.changes == (Change(2, 2, True), Change(2, 3, True), Change(3, 1, False))
    assert log.first_arms == 2


def test_events_of_arms_that_are_known() -> None:
    events = EventLog(["x", "y"])
    events.decided(1, "y", 0.5)
    with refused("arm", "z"):
        events.changed("z", False)
    events.changed("z", True)
    events.decided(2, "z", 0.5)
    events.changed("x", False)
    events.changed("x", True)
    log = events.log()
    assert log.labels == ("x", "y", "z")
    assert log.changes == (Change(1, 2, True), Change(2, 0, False), Change(2, 0, True))
    with refused("arm"):
        events.decided(3, "w", 0.5)


def test_who_was_there_at_first() -> None:
    assert arms_at_first(3, []) == 3
    assert arms_at_first(4, [Change(1, 3, True), Change(2, 3, False), Change(2, 0, False), Change(3, 0, True)]) == 3
