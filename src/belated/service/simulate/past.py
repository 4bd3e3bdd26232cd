"""What an experiment has on record, as outcomes to draw from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.api.types import Deadline
from belated.errors import InvalidValue
from belated.ledger.base import Ledger
from belated.ledger.events import SECOND, Event, ExperimentRecord, Kind, labels_of
from belated.logs import Log
from belated.service.simulate.plan import MOST_ARMS
from belated.service.words import DAY
from belated.templates.display import counted, shortened

MOST_EVENTS = 400_000
"""The latest events of an experiment that are read: decisions, and what came of them."""
MANY = 0.1
"""The share of decisions without an outcome above which it must be said what that may mean."""
_OUTCOMES = (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED)


class Past(NamedTuple):
    """Decisions to draw from: settled ones, of the arms that take part now."""

    log: Log
    a_day: float
    """How many decisions were made in a day, on average."""
    notes: tuple[str, ...]
    """What was left out."""


class _Decisions(NamedTuple):
    """The latest decisions in their order."""

    arms: NDArray[np.int64]
    at: NDArray[np.float64]
    losses: NDArray[np.float64]
    """nan where nothing has come."""
    waited: NDArray[np.float64]
    """Seconds that outcomes took."""


def past_of(ledger: Ledger, record: ExperimentRecord) -> Past:
    """Return the decisions of an experiment to draw from; `InvalidValue` where there is too little."""
    name, deadline = record.settings.name, record.settings.missing
    made = _decisions(ledger, record)
    if not made.arms.size:
        raise InvalidValue(f"{name} has no decision yet; guess rates instead", "experiment")
    notes = []
    usable = ~np.isnan(made.losses)
    if isinstance(deadline, Deadline):
        old = made.at <= _end(made) - deadline.deadline
        if (usable & old).any():
            usable &= old  # of younger ones good news may have come, and bad news not
        else:
            notes.append("No decision is older than the deadline yet, so good outcomes count for too much.")
    left_out = int(np.count_nonzero(~usable))
    changes = ledger.changes(record.number, record.events)
    labels, present = _arms(record, changes)
    if record.settings.share_floor or record.settings.limits or any(event.kind == Kind.LIMITS for event in changes):
        notes.append("Left out: the experiment's limits of shares. Learners choose freely here.")
    counts = np.bincount(made.arms[usable], minlength=len(labels))
    kept = np.flatnonzero(present & (counts > 0))
    if not 2 <= kept.size <= MOST_ARMS:
        arms = counted(kept.size, "arm")
        raise InvalidValue(f"{name} has {arms} with settled outcomes; 2 to {MOST_ARMS} are needed", "experiment")
    if silent := [str(labels[k]) for k in np.flatnonzero(present & (counts == 0))]:
        notes.append(f"Left out, since nothing of them is settled yet: {shortened(silent)}.")
    if left_out:
        notes.append(f"Left out, since they are not settled yet: {counted(left_out, 'decision')}.")
    if not isinstance(deadline, Deadline) and left_out > MANY * made.arms.size:
        share = left_out / made.arms.size
        notes.insert(
            0,
            f"Beware: {share:.0%} of the decisions have no outcome, and are left out. If bad outcomes are not reported,"
            " arms look better than they are, and the best may be another one. A deadline would tell.",
        )
    usable &= np.isin(made.arms, kept)
    log = Log(
        labels=tuple(labels[k] for k in kept),
        arms=np.searchsorted(kept, made.arms[usable]),
        rewards=1.0 - made.losses[usable],
        propensities=np.full(int(usable.sum()), np.nan),
        times=made.at[usable],
        durations=made.waited[usable],
        in_seconds=True,
    )
    first, last = np.quantile(made.at, [0.05, 0.95])  # a clock that was wrong at first, or jumped, does no harm
    span = max(float(last - first) / 0.9, 1.0)
    drawn = f"Outcomes and delays are drawn from {counted(log.arms.size, 'settled decision')} of {name}."
    return Past(log, made.arms.size / span * DAY, (drawn, *notes))


def _end(made: _Decisions) -> float:
    """Return the time of the last thing that is on record."""
    came = ~np.isnan(made.losses)
    return float((made.at + made.waited)[came].max(initial=made.at[-1]))


def _decisions(ledger: Ledger, record: ExperimentRecord) -> _Decisions:
    """Return the latest decisions and what came of them. A default at the deadline is an outcome."""
    rows: dict[int, list[float]] = {}
    for events in ledger.all_events(record.number, max(0, record.events - MOST_EVENTS)):
        for event in events:
            if event.kind == Kind.DECISION:
                rows[event.round] = [event.arm, event.at / SECOND, np.nan, np.nan]
            elif event.kind in _OUTCOMES and np.isnan(rows.get(event.round, [0.0, 0.0, 0.0])[2]):
                rows[event.round][2:] = event.loss, event.waited / SECOND
    columns = np.array(list(rows.values()), dtype=np.float64).reshape(-1, 4).T
    return _Decisions(columns[0].astype(np.int64), *columns[1:])


def _arms(record: ExperimentRecord, changes: list[Event]) -> tuple[list[str | int], NDArray[np.bool_]]:
    """Return the labels of all arms, and which of them take part now."""
    labels = labels_of(record.settings, changes)
    present = np.ones(len(labels), dtype=np.bool_)
    for event in changes:
        if event.kind in (Kind.RETIRE_ARM, Kind.RESTORE_ARM):
            present[event.arm] = event.kind == Kind.RESTORE_ARM
    return labels, present
