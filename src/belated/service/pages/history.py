"""What was changed in an experiment, when, and by which key."""

from typing import NamedTuple

import msgspec

from belated.api.types import ShareLimits
from belated.ledger.base import Ledger
from belated.ledger.events import Event, Kind, labels_of
from belated.service.words import moment, percent
from belated.templates.display import counted

_STATUSES = {Kind.PAUSE: "paused", Kind.RESUME: "resumed", Kind.ARCHIVE: "archived"}
_ARMS = {Kind.ADD_ARM: "added", Kind.RETIRE_ARM: "retired", Kind.RESTORE_ARM: "restored"}


class Entry(NamedTuple):
    """A line of the history."""

    at: str
    what: str
    who: str


def history(ledger: Ledger, name: str) -> list[Entry]:
    """Return what was changed, the newest first, with who asked for it."""
    record = ledger.find(name)
    if record is None:
        return []
    changes = ledger.changes(record.number, record.events)
    labels = labels_of(record.settings, changes)
    keys = {key.number: key.name for key in ledger.all_keys()}
    found: list[tuple[int, str, int | None]] = [(record.created, "created", None)]
    events = [*changes, *ledger.status_changes(record.number)]
    found += [(each.at, _words(each, labels), each.key) for each in events]
    found += [
        (each.at, f"{counted(each.ids, 'id')} erased, {each.what}", each.key)
        for each in ledger.erasures()
        if each.experiment == record.number
    ]
    return [Entry(moment(at), what, keys.get(key, "–")) for at, what, key in sorted(found, key=lambda each: -each[0])]


def _words(event: Event, labels: list[str | int]) -> str:
    kind = Kind(event.kind)
    if kind in _STATUSES:
        return _STATUSES[kind]
    if kind in _ARMS:
        return f"arm '{labels[event.arm]}' {_ARMS[kind]}"
    if kind == Kind.FALLBACKS:
        return f"{counted(int(event.detail), 'fallback')} to '{labels[event.arm]}' told"
    return _limits(msgspec.json.decode(event.detail, type=ShareLimits))


def _limits(limits: ShareLimits) -> str:
    parts = []
    for each in limits.arms:
        low, high = each.range
        parts.append(f"'{each.arm}' from {percent(low)} to {percent(high)}")
    if limits.holdout:
        parts.append(f"holdout {percent(limits.holdout)}")
    return f"limits set: {', '.join(parts)}" if parts else "limits lifted"
