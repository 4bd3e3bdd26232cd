"""An experiment whose state this worker holds, and who may touch it."""

import time
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

from belated.ledger.events import Event, ExperimentRecord, Kind, Status
from belated.ledger.state import STATUS_AFTER, ExperimentState

BYTES = 20_000
BYTES_AN_ARM = 200
"""What a state takes in memory besides the learner's numbers, about."""


class Sleep(NamedTuple):
    """How long no deadline of an experiment can pass."""

    since: int
    """When that was found out."""
    until: int
    quiet_at: int
    """The number of events after which no decision waited for its deadline; -1 where that is not known."""

    def lasts(self, now: int) -> bool:
        """Return whether no deadline can have passed; a clock that went back is looked after anew."""
        return self.since <= now < self.until


AWAKE = Sleep(0, 0, -1)


class Loaded:
    """The state of an experiment, and a lock for it: whoever changes it holds the lock until the change is committed,
    so that whoever reads it under the lock sees only what was committed.
    """

    def __init__(self, record: ExperimentRecord, state: ExperimentState, status: Status) -> None:
        self.record = record
        self.state = state
        self.status = status
        """After the last event of the state."""
        self.lock = Lock()
        self.gone = False
        """Whether it is held no more: whoever waited for the lock looks for another."""
        self.used = time.monotonic()
        self.looked_at = state.bandit.open.low_place - 1
        """The number of an event up to which no decision has anything to learn at its deadline."""
        self.snapshot = 0
        """The position of the newest snapshot, as far as this worker knows."""
        self.snapshot_bytes = 0
        """Of the last one that this worker kept."""
        self.sleep = AWAKE
        self.look_at = 0
        """The number of events at which to look for warnings."""

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return BYTES + BYTES_AN_ARM * len(self.state.decisions) + self.state.bandit.nbytes

    def apply(self, events: Iterable[Event]) -> None:
        """Go on by events that are on record; those that the state has seen are passed over."""
        for event in events:
            if event.number > self.state.position:
                self.state.apply(event)
                self.status = status_after(event, self.status)


def status_after(event: Event, status: Status) -> Status:
    """Return the status after an event, from the one before it."""
    return STATUS_AFTER[Kind(event.kind)] if Kind.PAUSE <= event.kind <= Kind.ARCHIVE else status
