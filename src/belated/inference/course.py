"""The course of estimates: what would have been said at times along the way, for figures."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_count
from belated.inference.method import Options
from belated.inference.sources import method_for_log
from belated.logs.log import Arm, Log

Floats = NDArray[np.float64]


class Course(NamedTuple):
    """Estimates after some numbers of decisions. Arrays have the shape (looks, arms)."""

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
    means = np.stack([each.means for each in methods])
    winner, known_at = None, None
    for count, each in zip(at.tolist(), methods, strict=True):
        leader = None if np.isnan(each.means).all() else int(np.nanargmax(each.means))
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
        means=means,
        lows=np.stack([low for low, _ in ends]),
        highs=np.stack([high for _, high in ends]),
        known_at=known_at,
        winner=winner,
    )


def _as_of(log: Log, count: int, outcomes: str) -> Log:
    """Return the log when so many decisions were settled, or made."""
    return replace(log, waits=None).until(count) if outcomes == "settled" else log.until(count)
