"""What was changed in an experiment, when, and by which key."""

from typing import NamedTuple

import msgspec

from belated.api.types import ShareLimits
from belated.ledger.base import Ledger
from belated.ledger.events import SECOND, Event, Kind, labels_of
from belated.service.pages.parts import limits_words
from belated.service.words import moment
from belated.templates.display import counted

MOST = 200
"""Lines that are shown."""
_STATUSES = {Kind.PAUSE: "paused", Kind.RESUME: "resumed", Kind.ARCHIVE: "archived"}
_ARMS = {Kind.ADD_ARM: "added", Kind.RETIRE_ARM: "retired", Kind.RESTORE_ARM: "restored"}


class Entry(NamedTuple):
    """A line of the history."""

    at: str
    what: str
    who: str
    seconds: float | None
    """When it was, in seconds since 1970."""


def history(ledger: Ledger, name: str) -> list[Entry]:
    """Return what was changed, the newest first, with who asked for it."""
    record = ledger.find(name)
    if record is None:
        return []
    changes = ledger.changes(record.number, record.events)
    labels = labels_of(record.settings, changes)
    changes = _together(changes)
    keys = {key.number: key.name for key in ledger.all_keys()}
    found: list[tuple[int, str, int | None]] = [(record.created, "created", None)]
    events = [*changes, *ledger.status_changes(record.number)]
    found += [(each.at, _words(each, labels), each.key) for each in events]
    found += [
        (each.at, f"{counted(each.ids, 'id')} erased, {each.what}", each.key) for each in ledger.erasures(record.number)
    ]
    found.sort(key=lambda each: -each[0])
    shown = [Entry(moment(at), what, keys.get(key, "–"), at / SECOND) for at, what, key in found[:MOST]]
    return [*shown, Entry("", f"and {len(found) - MOST:,} before", "", None)] if len(found) > MOST else shown


def _together(changes: list[Event]) -> list[Event]:
    """Return changes with fallbacks that were told one after another as one, of the last arm and key."""
    told: list[Event] = []
    for event in changes:
        if told and event.kind == told[-1].kind == Kind.FALLBACKS:
            total = int(told[-1].detail) + int(event.detail)
            event = told.pop() and event._replace(detail=str(total))
        told.append(event)
    return told


def _words(event: Event, labels: list[str | int]) -> str:
    kind = Kind(event.kind)
    if kind in _STATUSES:
        return _STATUSES[kind]
    if kind in _ARMS:
        return f"arm '{labels[event.arm]}' {_ARMS[kind]}"
    if kind == Kind.FALLBACKS:
        return f"{counted(int(event.detail), 'fallback')} told, the last to '{labels[event.arm]}'"
    limits = limits_words(msgspec.json.decode(event.detail, type=ShareLimits))
    return f"limits set: {limits}" if limits else "limits lifted"
