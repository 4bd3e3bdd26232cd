"""The course of estimates: what would have been said at times along the way, for figures."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_count
from belated.inference.method import Method, Options
from belated.inference.sources import method_for_log
from belated.logs.log import Arm, Log
from belated.logs.scale import Scale

Floats = NDArray[np.float64]


class Course(NamedTuple):
    """Estimates after some numbers of decisions. Arrays have the shape (looks, arms); nan before an arm has come."""

    labels: tuple[Arm, ...]
    alpha: float
    outcomes: str
    decisions: NDArray[np.int64]
    """How many decisions were settled at each look; how many had been made, where all count."""
    used: NDArray[np.int64]
    """How many of them were used."""
    means: Floats
    lows: Floats
    highs: Floats
    known_at: int | None
    """The first look, in decisions, from which on one arm wins at every look; None: there is none."""
    winner: Arm | None
    scale: Scale | None = None
    """The units of means and intervals; None: they are of rewards."""

    def in_units(self, scale: Scale) -> "Course":
        """Return the same in units of the user's own."""
        means, lows, highs = (scale.value(1.0 - each) for each in (self.means, self.lows, self.highs))
        if scale.better == "lower":
            lows, highs = highs, lows
        return self._replace(means=means, lows=lows, highs=highs, scale=scale)


class Point(NamedTuple):
    """What was known at one time."""

    decisions: int
    used: int
    means: Floats
    """Of each arm that there was; nan where nothing was known of it."""
    lows: Floats
    highs: Floats
    winner: int | None
    """The arm that won, by its number."""


def point(method: Method, decisions: int) -> Point:
    """Return what a method knows after so many decisions."""
    alpha, leader = method.options.alpha, method.leader
    wins = leader is not None and method.p_value(leader) <= alpha
    lows, highs = method.intervals(alpha)
    return Point(decisions, method.stream.rounds, method.means, lows, highs, leader if wins else None)


def course_of(points: Sequence[Point], labels: Sequence[Arm], options: Options) -> Course:
    """Return the course that goes through these points, at least one."""
    winner, known_at = None, None
    for each in points:
        if each.winner is None or each.winner != winner:
            winner, known_at = each.winner, None if each.winner is None else each.decisions
    n_arms = len(labels)
    return Course(
        labels=tuple(labels),
        alpha=options.alpha,
        outcomes=options.outcomes,
        decisions=np.array([each.decisions for each in points]),
        used=np.array([each.used for each in points]),
        means=_stacked([each.means for each in points], n_arms),
        lows=_stacked([each.lows for each in points], n_arms),
        highs=_stacked([each.highs for each in points], n_arms),
        known_at=known_at,
        winner=None if winner is None else labels[winner],
    )


def course(
    log: Log, *, alpha: float = 0.05, method: str | None = None, outcomes: str = "settled", looks: int = 100
) -> Course:
    """Return what would have been said of the arms at so many times, by equal factors apart.

    Times are counted in settled decisions; where all decisions or outcomes count, in decisions made.
    """
    check_count("looks", looks, least=2)
    options = Options(alpha, None, method, outcomes).check(log.labels)
    last = log.settled if outcomes == "settled" else log.arms.size
    if not last:
        what = "settled decisions" if outcomes == "settled" else "decisions"
        raise InvalidValue(f"the log has no {what}; at least one is needed", "log")
    at = np.unique(np.rint(np.geomspace(1, last, looks)).astype(np.int64)).tolist()
    points = [point(method_for_log(_as_of(log, count, outcomes), options), count) for count in at]
    return course_of(points, log.labels, options)


def _stacked(rows: list[Floats], n_arms: int) -> Floats:
    """Return rows as one array; arms that were still to come have nan."""
    return np.stack([np.append(row, np.full(n_arms - row.size, np.nan)) for row in rows])


def _as_of(log: Log, count: int, outcomes: str) -> Log:
    """Return the log when so many decisions were settled, or made."""
    return replace(log, waits=None).until(count) if outcomes == "settled" else log.until(count)
