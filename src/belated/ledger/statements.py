"""The statements that both databases run, with `?` for what is given, and how their rows are read."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from belated.api.types import Deadline
from belated.ledger.base import LedgerError, Outline, Position
from belated.ledger.events import (
    SECOND,
    ApiKey,
    DecisionRecord,
    Event,
    ExperimentRecord,
    ExperimentSettings,
    Hears,
    Status,
)
from belated.live.outstanding import Recorded

COLUMNS = """
number, kind, at, round, id, arm, propensity, loss, fate, waited, mark, cumulative, value, total, report, detail, key
"""
WIDTH = 18
"""Numbers of a row: the experiment's number and the columns of an event."""
SNAPSHOTS_KEPT = 2
MINUTE = 60 * SECOND

RECORD = "SELECT key, settings, status, created, position, rounds FROM experiments"
FAR = "SELECT key, name, status, position, snapshot FROM experiments"
OUTLINE = """
SELECT key, name, status, created, position, rounds, settings, arms FROM experiments WHERE key > ? ORDER BY key LIMIT ?
"""
EVENTS = f"SELECT {COLUMNS} FROM events WHERE experiment = ? AND number > ? ORDER BY number LIMIT ?"
TAIL = f"SELECT {COLUMNS} FROM events WHERE experiment = ? AND number > ? ORDER BY number"
_OUTCOME = "FROM events o WHERE o.experiment = d.experiment AND o.round = d.round AND o.kind"
KNOWN = f"""
d.id, d.round, d.arm, d.propensity, d.at,
(SELECT o.loss {_OUTCOME} = 2), (SELECT o.fate {_OUTCOME} = 2), (SELECT o.number {_OUTCOME} = 3) IS NOT NULL,
d.mark, d.cumulative
"""
"""Of a decision d. Look-ups one by one, so that no statistics can suggest anything but an index."""
TOTAL = f"(SELECT o.total {_OUTCOME} = 8 ORDER BY o.number DESC LIMIT 1)"
SETTLED = f"(SELECT o.fate {_OUTCOME} = 7)"
"""Of a decision d, where several reports count."""
REPORT = "SELECT round, report, value, fate FROM events WHERE experiment = ? AND kind = 8 AND round = ? AND report = ?"
FALLBACKS = "SELECT number FROM events WHERE experiment = ? AND kind = 13 AND id = ?"
CHANGES = f"""
SELECT {COLUMNS} FROM events {{by}}
WHERE experiment = ? AND number > ? AND number <= ? AND kind > 8 ORDER BY number
"""
DECISION = f"SELECT {COLUMNS} FROM events WHERE experiment = ? AND kind = 1 AND id = ?"
LATEST_DECISIONS = f"""
SELECT {COLUMNS} FROM events
WHERE experiment = ? AND number > ? AND number <= ? AND kind = 1 ORDER BY number DESC LIMIT ?
"""
OUTCOMES = f"SELECT {COLUMNS} FROM events {{by}} WHERE experiment = ? AND kind = {{kind}} AND round IN ({{marks}})"
"""One for each of OUTCOME_KINDS, so that each goes by its index."""
OUTCOME_KINDS = {2: "outcomes_by_round", 3: "defaults_by_round", 7: "settled_by_round", 8: "reports_by_round"}
"""The kinds of events that come of decisions, and their indexes."""
STATUSES = f"""
SELECT {COLUMNS} FROM events {{by}}
WHERE experiment = ? AND kind > 3 AND kind < 7 ORDER BY number
"""
_DECISIONS = """
SELECT d.number, d.at, d.id, d.round, d.arm, d.propensity, d.mark, d.cumulative, {loss}, {is_open}
FROM events d WHERE d.experiment = ? AND d.number > ? AND d.number <= ? AND d.kind = 1 ORDER BY d.number LIMIT ?
"""
_OPEN = f"(SELECT o.number {_OUTCOME} = {{kind}} AND o.number <= ?) IS NULL"
"""Not by EXISTS, for which PostgreSQL may read all outcomes of the experiment into a table of its own."""
_IS_HELD = f"{_OPEN.format(kind=7)} AND {_OPEN.format(kind=3)}"
DECISIONS = {
    Hears.ARRIVAL: _DECISIONS.format(loss="NULL", is_open=f"{_OPEN.format(kind=2)} AND {_OPEN.format(kind=3)}"),
    Hears.DEADLINE: _DECISIONS.format(loss=f"(SELECT o.loss {_OUTCOME} = 2)", is_open=_IS_HELD),
    Hears.REPORTS: _DECISIONS.format(loss=TOTAL, is_open=_IS_HELD),
}
"""With the loss that is held, or what reports amount to."""
_RESULTS = f"""
SELECT d.number, d.arm, d.propensity, coalesce((SELECT o.loss {_OUTCOME} = 3), (SELECT o.loss {_OUTCOME} = {{kind}})),
d.detail
FROM events d WHERE d.experiment = ? AND d.number > ? AND d.number <= ? AND d.kind = 1 ORDER BY d.number LIMIT ?
"""
"""An outcome after a default came too late."""
RESULTS = {
    Hears.ARRIVAL: _RESULTS.format(kind=2),
    Hears.DEADLINE: _RESULTS.format(kind=2),
    Hears.REPORTS: _RESULTS.format(kind=7),
}
NO_END = 1 << 62
NOT_AHEAD = """
SELECT d.at FROM events d WHERE d.experiment = ? AND d.number > ? AND d.kind = 1 AND d.at <= ?
ORDER BY d.number LIMIT 1
"""
"""The date of the next decision that does not lie ahead."""
PROBE = """
INSERT INTO probes (number, at, filler) VALUES (?, ?, ?)
ON CONFLICT (number) DO UPDATE SET at = excluded.at, filler = excluded.filler
"""
PROBE_BYTES = 16_384
"""More than a small commit needs, and new each time, so that there is room for a commit where there is for a probe."""
MOST_PROBES = 1_000
"""Rows of the table of probes: each worker takes one at random, so that they seldom wait for each other."""
KEYS = "SELECT id, name, role, digest, created, revoked, number, experiments, expires, used, rate FROM keys"
ADD_KEY = """
INSERT INTO keys (id, name, role, digest, created, revoked, number, experiments, expires, used, rate)
VALUES (?, ?, ?, ?, ?, ?, (SELECT coalesce(max(number), 0) + 1 FROM keys), ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING
"""
USED = "UPDATE keys SET used = ? WHERE id = ? AND (used IS NULL OR used <= ?)"
REVOKE_KEY = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id"
ERASE_DECISIONS = "UPDATE events SET id = NULL WHERE experiment = ? AND kind = 1 AND id IN ({marks})"
ERASE_OUTCOMES = """
UPDATE events {by} SET id = NULL, report = NULL WHERE experiment = ? AND kind = {kind} AND round IN ({marks})
"""
"""One for each of OUTCOME_KINDS, so that each goes by its index."""
ERASURES = "SELECT at, experiment, ids, what, key, through FROM erasures {where} ORDER BY at, experiment"
NOTE_ERASURE = """
INSERT INTO erasures (at, experiment, ids, what, key, through) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (experiment, at) DO UPDATE SET ids = excluded.ids, through = excluded.through
"""
KEEP = (
    "INSERT INTO snapshots (experiment, position, state) VALUES (?, ?, ?) ON CONFLICT (experiment, position) DO NOTHING"
)
DROP = """
DELETE FROM snapshots WHERE experiment = ? AND position NOT IN
(SELECT position FROM snapshots WHERE experiment = ? ORDER BY position DESC LIMIT ?)
"""
KEEP_SETTLED = """
INSERT INTO settled (experiment, position, state) VALUES (?, ?, ?)
ON CONFLICT (experiment) DO UPDATE SET position = excluded.position, state = excluded.state
WHERE settled.position <= excluded.position
"""
"""What has read further stays. What has read as far may be of another version, and goes."""


class _Settings(msgspec.Struct):
    """What a list shows of settings: all else is passed over."""

    learner: str
    arms: list[msgspec.Raw]
    missing: str | Deadline


_decode_settings = msgspec.json.Decoder(_Settings).decode


def decisions(experiment: int, hears: Hears, after: int, until: int, most: int) -> tuple[str, tuple[int, ...]]:
    """Return a statement and what is given to it: decisions after an event, as they were after another."""
    return DECISIONS[hears], (until, until, experiment, after, until, most)


def recorded(rows: Sequence[Sequence[Any]]) -> list[Recorded]:
    return [Recorded(row[0], row[3], row[6], bool(row[9])) for row in rows]


def event_of(row: Sequence[Any]) -> Event:
    return Event(*row)


def known_of(rows: Sequence[Sequence[Any]]) -> dict[str, DecisionRecord]:
    return {
        row[0]: DecisionRecord(
            row[1], row[2], row[3], row[4], row[5], row[6] or 0, bool(row[7]), row[8], row[9], row[10], row[11] or 0
        )
        for row in rows
    }


def ends_of(experiment: int, events: Sequence[Event]) -> tuple[int, int]:
    """Return the first and the last number of events, which must have no gap."""
    first, last = events[0].number, events[-1].number
    if last - first + 1 != len(events):
        raise does_not_fit(experiment, events)
    return first, last


def does_not_fit(experiment: int, events: Sequence[Event]) -> LedgerError:
    first, last = events[0].number, events[-1].number
    return LedgerError(f"events {first} to {last} do not go on from the last one of experiment {experiment}")


def key_of(row: Sequence[Any]) -> ApiKey:
    id, name, role, digest, created, revoked, number, experiments, *limits = row
    only = None if experiments is None else msgspec.json.decode(experiments, type=tuple[str, ...])
    return ApiKey(id, name, role, bytes(digest), created, revoked, number, only, *limits)


def record_of(row: Sequence[Any]) -> ExperimentRecord:
    number, settings, status, *rest = row
    try:
        decoded = msgspec.json.decode(settings, type=ExperimentSettings)
    except msgspec.MsgspecError as error:
        raise LedgerError(f"the settings of experiment number {number} cannot be read: {error}") from error
    return ExperimentRecord(number, decoded, Status(status), *rest)


def position_of(row: Sequence[Any]) -> Position:
    number, name, status, events, snapshot = row
    return Position(number, name, Status(status), events, snapshot)


def outline_of(row: Sequence[Any]) -> Outline:
    number, name, status, created, events, rounds, settings, arms = row
    learner, deadline = None, None
    with suppress(msgspec.MsgspecError):
        decoded = _decode_settings(settings)
        learner, arms = decoded.learner, len(decoded.arms) if arms is None else arms
        deadline = decoded.missing if isinstance(decoded.missing, Deadline) else None
    return Outline(number, name, Status(status), created, events, rounds, learner, arms or 0, deadline)
