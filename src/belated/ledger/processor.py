"""How a worker answers commands: one transaction of the ledger for all that came together.

`CommandProcessor.run` takes commands of any experiments and answers them in the order in which they came, in one
transaction: group commit. Every answer is committed before anybody hears it. Where the commit fails, the states that
this worker had loaded are thrown away and read anew.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from belated.api.types import Deadline
from belated.errors import SnapshotError
from belated.ledger.base import Ledger, LedgerUnavailable, LockedExperiment, Transaction, Uncertain
from belated.ledger.clock import event_time
from belated.ledger.commands import Answer, Command, Read, Refused, Work
from belated.ledger.events import SECOND, Event, ExperimentRecord
from belated.ledger.state import ExperimentState
from belated.live.warning import next_look

logger = logging.getLogger("belated.ledger")

SNAPSHOT_EVERY = 20_000
"""Events from one snapshot to the next, at least."""
BYTES_AN_EVENT = 100
"""A snapshot waits until there are so many of its bytes for each event: writing it costs less than the events did."""
DEADLINES = 500
"""Decisions of an experiment whose deadlines are taken care of in one transaction."""
RESOLVE_SECONDS = 5.0
"""How long to find out whether a commit went through, when the ledger was lost in the middle of it."""


class _Loaded:
    """An experiment whose state this worker holds."""

    def __init__(self, record: ExperimentRecord, state: ExperimentState) -> None:
        self.record = record
        self.state = state
        self.looked_at = state.bandit.open.low_place - 1
        """The number of an event up to which no decision has anything to learn at its deadline."""
        self.snapshot_bytes = 0
        """Of the last one that this worker kept."""
        self.wake = 0
        """No deadline passes before this time."""
        self.slept = 0
        """When that was found out."""
        self.look_at = 0
        """The number of events at which to look for warnings."""

    def sleeps(self, now: int) -> bool:
        """Return whether no deadline can have passed; a clock that went back is looked after anew."""
        return self.slept <= now < self.wake


class _Done(NamedTuple):
    """What came of the commands of one experiment."""

    answers: list[Answer]
    first: Event | None
    """The first event appended."""


class CommandProcessor:
    """The experiments of one worker. Two threads may use it at once if their commands are of different experiments."""

    def __init__(self, ledger: Ledger, snapshot_every: int = SNAPSHOT_EVERY) -> None:
        self.ledger = ledger
        self._loaded: dict[str, _Loaded] = {}
        self._snapshot_every = snapshot_every
        self.wrote = 0.0
        """When something was last committed, by time.monotonic."""
        self._warned: set[tuple[str, str]] = set()
        """(experiment, kind) of the warnings that the log has."""

    def run(self, commands: Sequence[Command]) -> list[Answer]:
        """Return the answers, committed.

        `LedgerUnavailable`: nothing has happened. `Uncertain`: all of it has happened, or nothing.
        """
        answers: list[Answer] = [None] * len(commands)
        waiting: dict[str, list[int]] = {}
        for k, command in enumerate(commands):
            waiting.setdefault(command.name, []).append(k)
        while waiting:
            # In the same order for every worker: two that lock the same experiments never wait for each other.
            loaded = {name: self._load(name) for name in sorted(waiting)}
            done: dict[str, _Done] = {}
            try:
                with self.ledger.transaction() as transaction:
                    for name, experiment in loaded.items():
                        mine = [commands[k] for k in waiting[name]]
                        done[name] = self._carry_out(transaction, experiment, mine)
            except Uncertain as error:
                self._forget(waiting)
                self._find_out(done, error)
            except BaseException:
                self._forget(waiting)
                raise
            if any(came.first for came in done.values()):
                self.wrote = time.monotonic()
            for name, came in done.items():
                self._log_warnings(loaded[name], [commands[k] for k in waiting[name]])
                for k, answer in zip(waiting.pop(name), came.answers, strict=True):
                    answers[k] = answer
        return answers

    def _log_warnings(self, loaded: _Loaded | None, commands: Sequence[Command]) -> None:
        """Log each kind of warning of an experiment once. They are looked for where it was read, or where the number of
        its events has passed a power of two.
        """
        if loaded is None:
            return
        state = loaded.state
        if state.position < loaded.look_at and not any(isinstance(command, Read) for command in commands):
            return
        loaded.look_at = next_look(state.position)
        name = state.settings.name
        for kind, sentence in state.bandit.warnings_by_kind.items():
            if (name, kind) not in self._warned:
                self._warned.add((name, kind))
                logger.warning("experiment %s: %s", name, sentence)

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._loaded.pop(name, None)

    def _load(self, name: str) -> _Loaded | None:
        loaded = self._loaded.get(name)
        if loaded is None:
            record = self.ledger.find(name)
            if record is None:
                return None
            loaded = self._loaded[name] = _Loaded(record, load(self.ledger, record))
        return loaded

    def _find_out(self, done: dict[str, _Done], cause: Uncertain) -> None:
        """Return if a transaction was committed whose end nobody saw; raise if not.

        What is refused must stay away: a commit that SQLite wrote but could not sync would come back after a crash,
        unless another one has been written over it.
        """
        written = next(((name, came.first) for name, came in done.items() if came.first is not None), None)
        give_up = time.monotonic() + RESOLVE_SECONDS
        while written:
            try:
                recorded = self._is_recorded(*written)
                if not recorded:
                    self.ledger.probe()
            except LedgerUnavailable as error:
                if time.monotonic() > give_up:
                    raise Uncertain(
                        f"{error}; whether it was recorded is not known: ask again with the same id"
                    ) from error
                time.sleep(0.1)
                continue
            if recorded:
                return
            raise LedgerUnavailable(f"{cause}; nothing was recorded")

    def _is_recorded(self, name: str, event: Event) -> bool:
        """Return whether an event is in the ledger. Locking the experiment waits until the lost transaction is over."""
        record = self.ledger.find(name)
        if record is None:
            return False
        with self.ledger.transaction() as transaction:
            transaction.lock(record.number, record.events, [])
        found = self.ledger.events(record.number, event.number - 1, 1)
        return [event if each == event._replace(id=None) else each for each in found] == [event]  # or its id was erased

    def _carry_out(self, transaction: Transaction, loaded: _Loaded | None, commands: Sequence[Command]) -> _Done:
        """Carry out the commands of one experiment."""
        if loaded is None:
            name = commands[0].name
            return _Done(
                [Refused("unknown_experiment", f"there is no experiment {name!r}", "name")] * len(commands), None
            )
        record, state = loaded.record, loaded.state
        ids = [id for command in commands for id in command.decision_ids]
        locked = transaction.lock(record.number, state.position, ids)
        for event in locked.tail:
            state.apply(event)
        state.look_in(partial(transaction.decisions, record.number, record.settings.holds))
        now = event_time(locked.now, state.at, self.ledger.clock.bound)
        work = Work(record, state, locked.status, locked.known, now, [])
        work.more_due = self._apply_deadlines(transaction, loaded, work)
        answers = [command.answer(work) for command in commands]
        if work.events:
            transaction.append(record.number, work.events, work.status, state.bandit.rounds)
        self._keep_snapshot(transaction, loaded, locked, any(command.snapshot for command in commands))
        return _Done(answers, work.events[0] if work.events else None)

    def _keep_snapshot(self, transaction: Transaction, loaded: _Loaded, locked: LockedExperiment, wanted: bool) -> None:
        state = loaded.state
        since = state.position - locked.snapshot
        if since >= max(self._snapshot_every, loaded.snapshot_bytes // BYTES_AN_EVENT) or (wanted and since):
            snapshot = state.to_bytes()
            transaction.keep(loaded.record.number, state.position, snapshot)
            loaded.snapshot_bytes = len(snapshot)

    def _apply_deadlines(self, transaction: Transaction, loaded: _Loaded, work: Work) -> bool:
        """Learn from what is due, held outcomes and default losses, in the order of the decisions: DEADLINES of them,
        so that nobody waits for many. Return whether more may be due.
        """
        settings = loaded.record.settings
        missing = settings.missing
        if not isinstance(missing, Deadline) or loaded.sleeps(work.now):
            return False
        span = int(missing.deadline * SECOND)
        loaded.wake, loaded.slept = 0, work.now
        left = DEADLINES
        while left > 0:
            due = transaction.due(
                loaded.record.number, loaded.looked_at, work.now - span, settings.holds, left, work.now
            )
            for id, made in due.decisions:
                work.settle(id, made)
            loaded.looked_at = due.looked_at
            if not due.more:
                loaded.wake = min(work.now, work.now if due.next is None else due.next) + span
                return False
            left -= len(due.decisions)
        return True

    def names(self) -> list[str]:
        """Return the experiments that this worker has met."""
        return list(self._loaded)

    def may_be_due(self, name: str, now: int) -> bool:
        """Return whether a deadline of this experiment may have passed."""
        loaded = self._loaded.get(name)
        return loaded is None or not loaded.sleeps(now)


def load(ledger: Ledger, record: ExperimentRecord) -> ExperimentState:
    """Return the state of an experiment: the newest snapshot that can be read, and the events after it."""
    state = None
    for _, snapshot in ledger.snapshots(record.number):
        try:
            state = ExperimentState.from_bytes(record.settings, snapshot)
            break
        except SnapshotError:
            continue
    state = state or ExperimentState(record.settings)
    source = partial(ledger.decisions, record.number, record.settings.holds)
    for events in ledger.all_events(record.number, state.position):
        state.look_in(source)
        for event in events:
            state.apply(event)
    state.look_in(source)
    return state
