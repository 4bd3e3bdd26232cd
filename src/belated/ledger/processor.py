"""How a worker answers commands: one transaction of the ledger for all that came together.

`CommandProcessor.run` takes commands of any experiments and answers them in the order in which they came, in one
transaction: group commit. Every answer is committed before anybody hears it. Where the commit fails, the states that
this worker had loaded are thrown away and read anew.

`CommandProcessor.read` looks at a state without a transaction. An experiment whose events or settings make no sense is
damaged: its commands are refused, the others go on.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from threading import Lock
from typing import NamedTuple, TypeVar

import msgspec

from belated.api.types import Deadline
from belated.errors import BelatedError, SnapshotError
from belated.ledger.base import (
    Appended,
    Ledger,
    LedgerError,
    LedgerUnavailable,
    LockedExperiment,
    Transaction,
    Uncertain,
    Wanted,
)
from belated.ledger.clock import event_time
from belated.ledger.commands import LATER, Answer, Command, Read, Refused, View, Work
from belated.ledger.events import SECOND, Event, ExperimentRecord, ExperimentSettings, Hears
from belated.ledger.keeper import Snapshot, keep
from belated.ledger.loaded import AWAKE, Loaded, Sleep, status_after
from belated.ledger.state import ExperimentState, Source
from belated.live.warning import next_look

logger = logging.getLogger("belated.ledger")
T = TypeVar("T")

SNAPSHOT_EVERY = 20_000
"""Events from one snapshot to the next, at least."""
BYTES_AN_EVENT = 100
"""A snapshot waits until there are so many of its bytes for each event: writing it costs less than the events did."""
DEADLINES = 500
"""Decisions of an experiment whose deadlines are taken care of in one transaction."""
RESOLVE_SECONDS = 5.0
"""How long to find out whether a commit went through, when the ledger was lost in the middle of it."""
BITE = 100
"""Events that a reader applies at once: whoever decides waits no longer than that."""
DAMAGED_SECONDS = 30.0
"""How long a damaged experiment is left alone before it is read again."""
IDLE_SECONDS = 600.0
"""How long a state that nobody asks for stays in memory."""
MOST_BYTES = 256 << 20
"""Of the states in memory, about; those used least lately go first."""
SMALL_BYTES = 1 << 20
BYTES_REPLAYED = 1_000
"""A state that goes leaves a snapshot if it is small, or if it has more new events than one for so many bytes:
replaying fewer takes no longer than reading it.
"""
_DAMAGE = (BelatedError, LookupError, ValueError, TypeError, ArithmeticError, ImportError, msgspec.MsgspecError)
"""What reading events or settings that make no sense raises."""


class _Done(NamedTuple):
    """What came of the commands of one experiment."""

    answers: list[Answer]
    added: Appended | None = None


class _Damage(NamedTuple):
    """What is wrong with an experiment, and until when it is left alone."""

    refusal: Refused
    until: float


class CommandProcessor:
    """The experiments of one worker. Threads may use it at once: those that run commands, of different experiments;
    those that read, of any.
    """

    def __init__(
        self,
        ledger: Ledger,
        snapshot_every: int = SNAPSHOT_EVERY,
        keep_snapshot: Callable[[Snapshot], object] | None = None,
        prepare: Callable[[ExperimentSettings], object] | None = None,
    ) -> None:
        """keep_snapshot writes a snapshot, or has it written; prepare comes before a state is made."""
        self.ledger = ledger
        self._loaded: dict[str, Loaded] = {}
        self._damaged: dict[str, _Damage] = {}
        self._asleep: dict[str, Sleep] = {}
        """Of experiments with a deadline whose states are gone."""
        self.wrote = 0.0
        """When something was last committed, by time.monotonic."""
        self._loading: dict[str, Lock] = {}
        self._guard = Lock()
        self._snapshot_every = snapshot_every
        self._keep = keep_snapshot or (lambda snapshot: keep(ledger, snapshot))
        self._prepare = prepare
        self._warned: set[tuple[str, str]] = set()
        """(experiment, kind) of the warnings that the log has."""

    def run(self, commands: Sequence[Command], wait: bool = True) -> list[Answer]:
        """Return the answers, committed; LATER for the commands of experiments that others have locked, unless `wait`.

        `LedgerUnavailable`: nothing has happened. `Uncertain`: all of it has happened, or nothing. `LedgerError`: one
        of several experiments is damaged, and nothing has happened.
        """
        answers: list[Answer] = [None] * len(commands)
        waiting: dict[str, list[int]] = {}
        for k, command in enumerate(commands):
            waiting.setdefault(command.name, []).append(k)
        asked = {name: [commands[k] for k in places] for name, places in waiting.items()}
        for name, came in self._turn(asked, wait, 1).items() if asked else ():
            for k, answer in zip(waiting[name], came.answers, strict=True):
                answers[k] = answer
        return answers

    def _turn(self, asked: dict[str, list[Command]], wait: bool, again: int) -> dict[str, _Done]:
        """Do in one transaction what can be done in one. What is held of a damaged experiment may be at fault, and not
        what is on record: it is read anew, `again` times.
        """
        damage = None
        snapshots: list[Snapshot] = []
        with ExitStack() as locks:
            loaded, done = self._hold(asked, locks)
            if not loaded:
                return done
            try:
                done |= self._commit(loaded, asked, wait)
            except LedgerError as error:
                if len(loaded) > 1:
                    raise
                damage = error
            else:
                for name, each in loaded.items():
                    snapshots += self._after(each, asked[name])
        for snapshot in snapshots:
            self._keep(snapshot)
        if damage:
            ((name, _),) = loaded.items()
            if again:
                return done | self._turn({name: asked[name]}, wait, again - 1)
            done[name] = _Done([self._damage(name, damage)] * len(asked[name]))
        return done

    def _after(self, loaded: Loaded, commands: Sequence[Command]) -> list[Snapshot]:
        """Do what comes after a commit, which fails nobody's command; return snapshots to be kept."""
        loaded.used = time.monotonic()
        try:
            self._log_warnings(loaded, commands)
            return [] if loaded.gone else self._snapshot(loaded, any(command.snapshot for command in commands))
        except Exception:
            logger.exception("looking at experiment %s after a commit failed", loaded.record.settings.name)
            return []

    def _hold(self, asked: dict[str, list[Command]], locks: ExitStack) -> tuple[dict[str, Loaded], dict[str, _Done]]:
        """Lock the states of experiments, in the order of their numbers. Return them, and what the others are told."""
        while True:
            found = {name: self.load(name) for name in asked}
            refused = {name: each for name, each in found.items() if isinstance(each, Refused)}
            loaded = {name: each for name, each in found.items() if isinstance(each, Loaded)}
            with ExitStack() as attempt:
                for each in sorted(loaded.values(), key=lambda each: each.record.number):
                    attempt.enter_context(each.lock)
                if not any(each.gone for each in loaded.values()):
                    locks.push(attempt.pop_all())
                    return loaded, {name: _Done([told] * len(asked[name])) for name, told in refused.items()}

    def _commit(self, loaded: dict[str, Loaded], asked: dict[str, list[Command]], wait: bool) -> dict[str, _Done]:
        done: dict[str, _Done] = {}
        wanted = {
            name: Wanted(
                each.record.number,
                each.state.position,
                [id for command in asked[name] for id in command.decision_ids],
                each.record.settings.hears,
            )
            for name, each in loaded.items()
        }
        try:
            with self.ledger.transaction() as transaction:
                locked = transaction.lock_many(sorted(wanted.values()), wait)
                for name, each in loaded.items():
                    mine = locked.get(each.record.number)
                    if mine is None:
                        done[name] = _Done([LATER] * len(asked[name]))
                    else:
                        done[name] = self._carry_out(transaction, each, mine, asked[name])
                if added := [came.added for came in done.values() if came.added]:
                    transaction.append_many(added)
        except Uncertain as error:
            self._forget(loaded)
            self._find_out(done, error)
        except BaseException:
            self._forget(loaded)
            raise
        if any(came.added for came in done.values()):
            self.wrote = time.monotonic()
        return done

    def _forget(self, loaded: dict[str, Loaded]) -> None:
        """Hold states no more, whose locks the caller has: they may be wrong."""
        for name, each in loaded.items():
            each.gone = True
            if self._loaded.get(name) is each:
                del self._loaded[name]

    def _log_warnings(self, loaded: Loaded, commands: Sequence[Command]) -> None:
        """Log each kind of warning of an experiment once. They are looked for where it was read, or where the number of
        its events has passed a power of two.
        """
        state = loaded.state
        if state.position < loaded.look_at and not any(isinstance(command, Read) for command in commands):
            return
        loaded.look_at = next_look(state.position)
        self.log_warnings(state.settings.name, state.bandit.warnings_by_kind)

    def log_warnings(self, name: str, by_kind: dict[str, str]) -> None:
        """Log warnings of kinds that were not logged before."""
        for kind, sentence in by_kind.items():
            if (name, kind) not in self._warned:
                self._warned.add((name, kind))
                logger.warning("experiment %s: %s", name, sentence)

    def is_loaded(self, name: str) -> bool:
        """Return whether an experiment's commands can be answered without reading its state first."""
        if name in self._loaded:
            return True
        damage = self._damaged.get(name)
        return damage is not None and time.monotonic() < damage.until

    def load(self, name: str) -> Loaded | Refused:
        """Return the state of an experiment, read from the ledger if need be; or why there is none."""
        loaded = self._loaded.get(name)
        if loaded is not None:
            return loaded
        with self._guard:
            alone = self._loading.setdefault(name, Lock())
        try:
            with alone:
                loaded = self._loaded.get(name)
                if loaded is not None:
                    return loaded
                damage = self._damaged.get(name)
                if damage and time.monotonic() < damage.until:
                    return damage.refusal
                return self._load(name)
        finally:
            self._loading.pop(name, None)

    def _load(self, name: str) -> Loaded | Refused:
        try:
            record = self.ledger.find(name)
            if record is None:
                return Refused("unknown_experiment", f"there is no experiment {name!r}", "name")
            if self._prepare:
                self._prepare(record.settings)
            state = load(self.ledger, record)
            if state.position < record.events:
                raise LedgerError(f"there are {state.position} events where {record.events} are counted")
            status = record.status
            if since := state.position - record.events:  # appended while we read
                for event in self.ledger.events(record.number, record.events, since):
                    status = status_after(event, status)
            loaded = Loaded(record, state, status)
            loaded.snapshot = self.ledger.position(record.number).snapshot
        except LedgerUnavailable:
            raise
        except _DAMAGE as error:
            return self._damage(name, error)
        loaded.sleep = self._asleep.pop(name, AWAKE)
        self._loaded[name] = loaded
        if self._damaged.pop(name, None):
            logger.warning("experiment %s can be read again", name)
        return loaded

    def _damage(self, name: str, error: Exception) -> Refused:
        """Note that an experiment is damaged; return what its commands are told."""
        before = self._damaged.get(name)
        message = (
            f"experiment {name!r} is damaged, its records cannot be replayed: {error};"
            f" `belated ledger verify {name}` says more"
        )
        refusal = Refused("damaged", message)
        self._damaged[name] = _Damage(refusal, time.monotonic() + DAMAGED_SECONDS)
        if before is None or before.refusal != refusal:
            logger.error("%s; it is tried again every %g s", message, DAMAGED_SECONDS)
        return refusal

    @property
    def damaged(self) -> list[str]:
        """The experiments that could not be read."""
        return list(self._damaged)

    def read(self, name: str, take: Callable[[View], T]) -> T | Refused:
        """Return what is taken from the state of an experiment, which has everything that any worker acknowledged
        before now.

        Nobody's transaction waits, but for `take` and for a few events of other workers at a time.
        """
        while True:
            loaded = self.load(name)
            if isinstance(loaded, Refused):
                return loaded
            if not self._catch_up(loaded):
                continue
            with loaded.lock:
                if not loaded.gone:
                    loaded.used = time.monotonic()
                    return take(View(loaded.record, loaded.status, loaded.state))

    def _catch_up(self, loaded: Loaded) -> bool:
        """Apply what others have appended; return False where the state is held no more."""
        name, number = loaded.record.settings.name, loaded.record.number
        events = self.ledger.position(number).events
        while (position := loaded.state.position) < events:
            tail = self.ledger.events(number, position, BITE)
            with loaded.lock:
                if loaded.gone:
                    return False
                try:
                    if not tail:
                        raise LedgerError(f"there are {position} events where {events} are counted")
                    loaded.state.look_in(_source(self.ledger, loaded.record))
                    loaded.apply(tail)
                except _DAMAGE as error:
                    self._forget({name: loaded})
                    self._damage(name, error)
                    return False
        return True

    def _find_out(self, done: dict[str, _Done], cause: Uncertain) -> None:
        """Return if a transaction was committed whose end nobody saw; raise if not.

        What is refused must stay away: a commit that SQLite wrote but could not sync would come back after a crash,
        unless another one has been written over it.
        """
        written = next(((name, came.added.events[0]) for name, came in done.items() if came.added), None)
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
        return self.ledger.events(record.number, event.number - 1, 1) == [event]

    def _carry_out(
        self, transaction: Transaction, loaded: Loaded, locked: LockedExperiment, commands: Sequence[Command]
    ) -> _Done:
        """Carry out the commands of one experiment."""
        record, state = loaded.record, loaded.state
        state.look_in(_source(transaction, record))
        try:
            loaded.apply(locked.tail)
        except _DAMAGE as error:
            raise LedgerError(str(error)) from error
        loaded.snapshot = max(loaded.snapshot, locked.snapshot)
        now = event_time(locked.now, state.at, self.ledger.clock.bound)
        work = Work(record, state, locked.status, locked.known, now, [])
        if record.settings.hears == Hears.REPORTS:
            named = [pair for command in commands for pair in command.report_ids if pair[0] in work.known]
            wanted = [(work.known[decision].round, id) for decision, id in named]
            work.reported = transaction.reports(record.number, wanted) if wanted else {}
        told: set[str] = set()
        work.has_fallbacks = partial(_is_told, transaction, record.number, told)
        playing = state.playing
        work.more_due = self._apply_deadlines(transaction, loaded, work)
        answers = [command.answer(work) for command in commands]
        loaded.status = work.status
        if not work.events:
            return _Done(answers)
        arms = None if state.playing == playing else state.playing
        return _Done(answers, Appended(record.number, work.events, work.status, state.bandit.rounds, arms))

    def _snapshot(self, loaded: Loaded, wanted: bool) -> list[Snapshot]:
        """Return a snapshot to be kept, if it is time for one."""
        state = loaded.state
        since = state.position - loaded.snapshot
        if since >= max(self._snapshot_every, loaded.snapshot_bytes // BYTES_AN_EVENT) or (wanted and since > 0):
            return [self._taken(loaded)]
        return []

    def _taken(self, loaded: Loaded) -> Snapshot:
        snapshot = loaded.state.to_bytes()
        loaded.snapshot, loaded.snapshot_bytes = loaded.state.position, len(snapshot)
        return Snapshot(loaded.record.settings.name, loaded.record.number, loaded.snapshot, snapshot)

    def _apply_deadlines(self, transaction: Transaction, loaded: Loaded, work: Work) -> bool:
        """Learn from what is due, held outcomes and default losses, in the order of the decisions: DEADLINES of them,
        so that nobody waits for many. Return whether more may be due.
        """
        settings = loaded.record.settings
        missing = settings.missing
        if not isinstance(missing, Deadline) or loaded.sleep.lasts(work.now):
            return False
        span = int(missing.deadline * SECOND)
        loaded.sleep = AWAKE
        left = DEADLINES
        while left > 0:
            due = transaction.due(
                loaded.record.number, loaded.looked_at, work.now - span, settings.hears, left, work.now
            )
            for id, made in due.decisions:
                work.settle(id, made)
            loaded.looked_at = due.looked_at
            if not due.more:
                quiet_at = work.state.position if due.next is None else -1
                until = min(work.now, work.now if due.next is None else due.next) + span
                loaded.sleep = Sleep(work.now, until, quiet_at)
                return False
            left -= len(due.decisions)
        return True

    def names(self) -> list[str]:
        """Return the experiments whose states this worker holds."""
        return list(self._loaded)

    def may_be_due(self, name: str, events: int, now: int) -> bool:
        """Return whether a deadline of this experiment may have passed, if it has so many events."""
        loaded = self._loaded.get(name)
        if loaded is None:
            sleep = self._asleep.get(name, AWAKE)
        else:
            sleep, events = loaded.sleep, max(events, loaded.state.position)
        return sleep.quiet_at != events and not sleep.lasts(now)

    def evict(self, idle_seconds: float = IDLE_SECONDS, most_bytes: int = MOST_BYTES) -> list[str]:
        """Let go of states that nobody has asked for lately, and of as many more as are over what may be kept, the
        least lately used first; a snapshot of each is kept. Return their names.
        """
        now = time.monotonic()
        held = sorted(self._loaded.items(), key=lambda item: item[1].used)
        size = sum(each.size for _, each in held)
        gone = []
        for name, loaded in held:
            if size <= most_bytes and now - loaded.used < idle_seconds:
                break
            if not loaded.lock.acquire(blocking=False):
                continue  # somebody uses it
            try:
                if loaded.gone:
                    continue
                since = loaded.state.position - loaded.snapshot
                snapshots = self._snapshot(loaded, loaded.size < SMALL_BYTES or since > loaded.size // BYTES_REPLAYED)
                self._asleep[name] = loaded.sleep
                self._forget({name: loaded})
            finally:
                loaded.lock.release()
            for snapshot in snapshots:
                self._keep(snapshot)
            size -= loaded.size
            gone.append(name)
        return gone


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
    for events in ledger.all_events(record.number, state.position):
        state.look_in(_source(ledger, record))
        for event in events:
            state.apply(event)
    return state


def _source(record: Ledger | Transaction, experiment: ExperimentRecord) -> Source:
    """Return where the outstanding decisions of an experiment are looked up."""
    return partial(record.decisions, experiment.number, experiment.settings.hears)


def _is_told(transaction: Transaction, experiment: int, told: set[str], id: str) -> bool:
    """Return whether fallbacks were told of under an id, on record or by an earlier command; note that they were."""
    if id in told or transaction.fallbacks(experiment, id):
        return True
    told.add(id)
    return False
