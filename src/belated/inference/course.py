"""The course of estimates: what would have been said at times along the way, for figures."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_count
from belated.inference.method import Options
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


def course(
    log: Log, *, alpha: float = 0.05, method: str = "betting", outcomes: str = "settled", looks: int = 100
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
    at = np.unique(np.rint(np.geomspace(1, last, looks)).astype(np.int64))
    methods = [method_for_log(_as_of(log, int(count), outcomes), options) for count in at]
    ends = [each.intervals(alpha) for each in methods]
    n_arms = len(log.labels)
    winner, known_at = None, None
    for count, each in zip(at.tolist(), methods, strict=True):
        leader = each.leader
        wins = leader is not None and each.p_value(leader) <= alpha
        found = log.labels[leader] if wins and leader is not None else None
        if found is None or found != winner:
            winner, known_at = found, count if found is not None else None
    return Course(
        labels=log.labels,
        alpha=alpha,
        outcomes=outcomes,
        decisions=at,
        used=np.array([each.stream.rounds for each in methods]),
        means=_stacked([each.means for each in methods], n_arms),
        lows=_stacked([low for low, _ in ends], n_arms),
        highs=_stacked([high for _, high in ends], n_arms),
        known_at=known_at,
        winner=winner,
    )


def _stacked(rows: list[Floats], n_arms: int) -> Floats:
    """Return rows as one array; arms that were still to come have nan."""
    return np.stack([np.append(row, np.full(n_arms - row.size, np.nan)) for row in rows])


def _as_of(log: Log, count: int, outcomes: str) -> Log:
    """Return the log when so many decisions were settled, or made."""
    return replace(log, waits=None).until(count) if outcomes == "settled" else log.until(count)
