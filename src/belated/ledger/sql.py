"""What the two databases have in common: transactions, the pool of connections, the migrations.

Each database tells how it runs statements (`belated.ledger.statements`), locks an experiment, finds decisions by their
ids and appends many rows.
"""

import os
import random
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar

import msgspec

from belated.ledger.base import (
    CHUNK,
    LATEST,
    OUTLINES,
    Due,
    Erasure,
    ExperimentExists,
    KeyChange,
    Ledger,
    LedgerError,
    LedgerUnavailable,
    NewerLedger,
    Outline,
    Position,
    Result,
    TooManyExperiments,
    Transaction,
    Uncertain,
)
from belated.ledger.clock import Clock
from belated.ledger.events import (
    SECOND,
    ApiKey,
    DecisionRecord,
    Event,
    ExperimentRecord,
    ExperimentSettings,
    Fate,
    Hears,
    Reported,
    Status,
)
from belated.ledger.migrations import HISTORY, MIGRATIONS, Migration
from belated.ledger.statements import (
    ADD_KEY,
    CHANGES,
    DECISION,
    DROP,
    ERASE_DECISIONS,
    ERASE_OUTCOMES,
    ERASURES,
    EVENTS,
    FALLBACKS,
    FAR,
    KEEP,
    KEEP_SETTLED,
    KEYS,
    LATEST_DECISIONS,
    MINUTE,
    MOST_PROBES,
    NO_END,
    NOT_AHEAD,
    NOTE_ERASURE,
    OUTCOME_KINDS,
    OUTCOMES,
    OUTLINE,
    PROBE,
    PROBE_BYTES,
    RECORD,
    REPORT,
    RESULTS,
    REVOKE_KEY,
    SNAPSHOTS_KEPT,
    STATUSES,
    USED,
    decisions,
    event_of,
    key_of,
    outline_of,
    position_of,
    record_of,
    recorded,
)
from belated.live.outstanding import Recorded


class SqlTransaction(Transaction):
    """A transaction on a connection."""

    def __init__(self, ledger: "SqlLedger", connection: Any) -> None:
        self._ledger = ledger
        self._connection = connection

    def _run(self, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        return self._ledger.run(self._connection, statement, given)

    def decisions(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> list[Recorded]:
        return recorded(self._decisions(experiment, hears, after, until, most))

    def _decisions(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> list[Any]:
        return self._run(*decisions(experiment, hears, after, until, most))

    def reports(self, experiment: int, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Reported]:
        rows = [row for round, id in wanted for row in self._run(REPORT, (experiment, round, id))]
        return {(round, id): Reported(value, fate) for round, id, value, fate in rows}

    def fallbacks(self, experiment: int, id: str) -> bool:
        return bool(self._run(FALLBACKS, (experiment, id)))

    def due(self, experiment: int, after: int, before: int, hears: Hears, most: int, now: int | None = None) -> Due:
        rows = self._decisions(experiment, hears, after, NO_END, most)
        found: list[tuple[str, DecisionRecord]] = []
        made = self._when_made(experiment, [(row[0], row[1]) for row in rows], len(rows) == most, now)
        for (number, at, id, round, arm, propensity, mark, cumulative, held, is_open), when in zip(
            rows, made, strict=True
        ):
            if when > before:
                return Due(found, after, False, when)
            if is_open:
                fate = 0 if held is None else Fate.HELD
                loss, total = (None, held) if hears == Hears.REPORTS else (held, None)
                record = DecisionRecord(round, arm, propensity, at, loss, fate, False, mark, cumulative, total)
                found.append((id, record))
            after = number
        return Due(found, after, len(rows) == most, None)

    def _when_made(self, experiment: int, dated: Sequence[tuple[int, int]], more: bool, now: int | None) -> list[int]:
        """Return when decisions were made, given (number, date) of each: at its date, or at that of a later decision
        where that is before it, since a clock that went back had dated it ahead.
        """
        made = []
        least = None
        if now is not None and more and dated[-1][1] > now:
            rows = self._run(NOT_AHEAD, (experiment, dated[-1][0], now))
            least = rows[0][0] if rows else None
        for _, at in reversed(dated):
            least = at if least is None else min(at, least)
            made.append(least)
        made.reverse()
        return made

    @staticmethod
    def by(index: str) -> str:
        """Return how a statement names the index that it goes by, where it has to."""
        return ""

    def erase(self, known: Mapping[str, DecisionRecord], erasure: Erasure) -> None:
        marks, experiment = ", ".join("?" * len(known)), erasure.experiment
        rounds = [made.round for made in known.values()]
        self._run(ERASE_DECISIONS.format(marks=marks), (experiment, *known))
        for kind, index in OUTCOME_KINDS.items():
            self._run(ERASE_OUTCOMES.format(by=self.by(index), kind=kind, marks=marks), (experiment, *rounds))
        self._run(NOTE_ERASURE, tuple(erasure))


class SqlLedger(Ledger):
    """A ledger in a database."""

    words: ClassVar[dict[str, str]]
    """What stands for the {words} of the migrations."""
    transactions: type[SqlTransaction]

    def __init__(self, store: str) -> None:
        self.store = self.address = store
        self.clock = Clock()
        self._probe_number = random.SystemRandom().randrange(1, MOST_PROBES + 1)
        self._idle: list[Any] = []
        self._lock = Lock()
        self._closed = False

    @abstractmethod
    def connect(self) -> Any:
        """Return a new connection."""

    @abstractmethod
    def run(self, connection: Any, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        """Run a statement: its rows."""

    def by(self, index: str) -> str:
        """Return how a statement names the index that it goes by, where it has to."""
        return self.transactions.by(index)

    @abstractmethod
    def begin(self, connection: Any) -> None:
        """Begin a transaction that writes."""

    def check(self, connection: Any) -> None:
        """Raise an error if a connection of the pool does not work any more, where it may be lost unseen."""

    def surely_failed(self, error: Exception) -> bool:
        """Return whether an error during a commit leaves no doubt that nothing was committed."""
        return False

    @abstractmethod
    def shut(self, connection: Any) -> None:
        """Close a connection, whatever state it is in."""

    @abstractmethod
    def read_clock(self, connection: Any) -> int:
        """Return what the ledger's clock says."""

    def lock_to_write(self, connection: Any, names: Sequence[str]) -> None:
        """Take the locks that a commit takes, of experiments of these names too, where a transaction has not got them
        by itself.
        """

    def take_time(self, connection: Any) -> None:
        """Let the statements of this transaction take as long as they need."""

    @abstractmethod
    def lock_all(self, connection: Any) -> None:
        """Let nobody else migrate or create experiments until the transaction ends."""

    errors: tuple[type[Exception], ...]
    """What the database's own errors are called."""
    waited_for_others: tuple[type[Exception], ...]
    """Those of them that mean that somebody else writes, for too long."""
    refusals: tuple[type[Exception], ...]
    """Those of them that mean that what is to be written does not fit what is on record."""

    def _take(self, begin: bool) -> Any:
        """Return a connection that works, of the pool or a new one, within a transaction if need be."""
        while True:
            with self._lock:
                if self._closed:
                    raise LedgerUnavailable("the ledger is closed")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self.connect()
                if begin:
                    self._or_shut(connection, self.begin)
                return connection
            try:
                self._or_shut(connection, self.begin if begin else self.check)
                return connection
            except self.waited_for_others:
                raise
            except self.errors:
                continue  # it was lost while nobody used it; of a new one we would know why

    def _or_shut(self, connection: Any, use: Callable[[Any], None]) -> None:
        try:
            use(connection)
        except BaseException:
            self.shut(connection)
            raise

    def drop_idle(self) -> None:
        """Close the connections that nobody uses, as they are probably as dead as the one that did not answer."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self.shut(connection)

    @contextmanager
    def connection(self, begin: bool = False) -> Iterator[Any]:
        """Give a connection of the pool; one that saw an error is thrown away."""
        connection = None
        try:
            connection = self._take(begin)
            yield connection
        except BaseException as error:
            if connection is not None:
                self.shut(connection)
            if isinstance(error, self.refusals):
                raise LedgerError(f"the ledger {self.store} refuses it: {self.said(error)}") from error
            if isinstance(error, self.errors):
                raise LedgerUnavailable(f"the ledger {self.store} cannot be used: {self.said(error)}") from error
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        self.shut(connection)

    def said(self, error: Exception) -> str:
        """Return what the database said, in one line."""
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else 'no more is known'}"

    @contextmanager
    def committing(self) -> Iterator[Any]:
        """Give a connection within a transaction that is committed at the end."""
        with self.connection(begin=True) as connection:
            yield connection
            try:
                self.run(connection, "COMMIT")
            except self.errors as error:
                if self.surely_failed(error):
                    raise
                raise Uncertain(f"the ledger {self.store} was lost during a commit: {self.said(error)}") from error

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self.committing() as connection:
            yield self.transactions(self, connection)

    def _read(self, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        with self.connection() as connection:
            return self.run(connection, statement, given)

    def _write(self, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        with self.committing() as connection:
            return self.run(connection, statement, given)

    def migrate(self, migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
        done = []
        with self.committing() as connection:
            self.take_time(connection)
            self.lock_all(connection)
            self.run(connection, HISTORY)
            applied = {row[0] for row in self.run(connection, "SELECT number FROM migrations")}
        if newer := sorted(applied - {migration.number for migration in migrations}):
            raise NewerLedger(
                f"the ledger {self.store} was made by a newer belated: it has migration {newer[-1]},"
                f" this one knows {migrations[-1].number}"
            )
        for migration in migrations:
            if migration.number in applied:
                continue
            with self.committing() as connection:
                self.take_time(connection)
                self.lock_all(connection)
                if self.run(connection, "SELECT 1 FROM migrations WHERE number = ?", (migration.number,)):
                    continue
                for statement in migration.statements:
                    self.run(connection, statement.format(**self.words))
                self.run(
                    connection,
                    "INSERT INTO migrations (number, name, applied) VALUES (?, ?, ?)",
                    (migration.number, migration.name, int(time.time() * SECOND)),
                )
            done.append(migration.name)
        return done

    def create(self, settings: ExperimentSettings, at: int, most: int) -> tuple[ExperimentRecord, bool]:
        with self.committing() as connection:
            self.lock_all(connection)
            if rows := self.run(connection, f"{RECORD} WHERE name = ?", (settings.name,)):
                record = record_of(rows[0])
                if msgspec.structs.replace(record.settings, seed=settings.seed) != settings:
                    raise ExperimentExists(f"there is an experiment {settings.name!r} with other settings")
                return record, False
            counts = {int(status): 0 for status in Status}
            counts.update(self.run(connection, "SELECT status, count(*) FROM experiments GROUP BY status"))
            active, paused = counts[Status.ACTIVE], counts[Status.PAUSED]
            if active + paused >= most:
                raise TooManyExperiments(
                    f"there are {active + paused} experiments ({active} active, {paused} paused, archived ones not"
                    " counted), as many as this service allows"
                )
            ((last,),) = self.run(connection, "SELECT coalesce(max(key), 0) FROM experiments")
            self.run(
                connection,
                "INSERT INTO experiments (key, name, settings, status, created, position, rounds, snapshot)"
                " VALUES (?, ?, ?, ?, ?, 0, 0, 0)",
                (last + 1, settings.name, msgspec.json.encode(settings).decode(), int(Status.ACTIVE), at),
            )
        return ExperimentRecord(last + 1, settings, Status.ACTIVE, at, 0, 0), True

    def experiments(self) -> list[ExperimentRecord]:
        return [record_of(row) for row in self._read(f"{RECORD} ORDER BY key")]

    def find(self, name: str) -> ExperimentRecord | None:
        if "\0" in name:
            return None  # PostgreSQL would not even look
        rows = self._read(f"{RECORD} WHERE name = ?", (name,))
        return record_of(rows[0]) if rows else None

    def positions(self) -> list[Position]:
        return [position_of(row) for row in self._read(f"{FAR} ORDER BY key")]

    def position(self, experiment: int) -> Position:
        rows = self._read(f"{FAR} WHERE key = ?", (experiment,))
        if not rows:
            raise LedgerError(f"there is no experiment number {experiment}")
        return position_of(rows[0])

    def outlines(self, after: int = 0, limit: int = OUTLINES) -> list[Outline]:
        return [outline_of(row) for row in self._read(OUTLINE, (after, limit))]

    def events(self, experiment: int, after: int = 0, limit: int = CHUNK) -> list[Event]:
        return [event_of(row) for row in self._read(EVENTS, (experiment, after, limit))]

    def changes(self, experiment: int, until: int, after: int = 0) -> list[Event]:
        statement = CHANGES.format(by=self.by("changes_by_number"))
        return [event_of(row) for row in self._read(statement, (experiment, after, until))]

    def status_changes(self, experiment: int) -> list[Event]:
        return [event_of(row) for row in self._read(STATUSES.format(by=self.by("statuses_by_number")), (experiment,))]

    def decisions(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> list[Recorded]:
        return recorded(self._read(*decisions(experiment, hears, after, until, most)))

    def results(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> list[Result]:
        return [Result(*row) for row in self._read(RESULTS[hears], (experiment, after, until, most))]

    def decision(self, experiment: int, id: str) -> Event | None:
        rows = [] if "\0" in id else self._read(DECISION, (experiment, id))
        return event_of(rows[0]) if rows else None

    def latest(self, experiment: int, until: int, most: int) -> list[Event]:
        return [event_of(row) for row in self._read(LATEST_DECISIONS, (experiment, until - LATEST, until, most))]

    def outcomes(self, experiment: int, rounds: Sequence[int]) -> list[Event]:
        marks = ", ".join("?" * len(rounds))
        found = [
            event_of(row)
            for kind, index in (OUTCOME_KINDS.items() if rounds else ())
            for row in self._read(OUTCOMES.format(by=self.by(index), kind=kind, marks=marks), (experiment, *rounds))
        ]
        return sorted(found, key=lambda event: event.number)

    def snapshots(self, experiment: int) -> list[tuple[int, bytes]]:
        rows = self._read(
            "SELECT position, state FROM snapshots WHERE experiment = ? ORDER BY position DESC", (experiment,)
        )
        return [(position, bytes(state)) for position, state in rows]

    def keep(self, experiment: int, position: int, state: bytes) -> None:
        with self.committing() as connection:
            self.run(connection, KEEP, (experiment, position, state))
            self.run(connection, DROP, (experiment, experiment, SNAPSHOTS_KEPT))
            # last: from here on whoever decides has to wait
            self.run(
                connection,
                "UPDATE experiments SET snapshot = ? WHERE key = ? AND snapshot < ?",
                (position, experiment, position),
            )

    def settled(self, experiment: int, after: int = 0) -> bytes | None:
        rows = self._read("SELECT state FROM settled WHERE experiment = ? AND position > ?", (experiment, after))
        return bytes(rows[0][0]) if rows else None

    def keep_settled(self, experiment: int, position: int, state: bytes) -> None:
        self._write(KEEP_SETTLED, (experiment, position, state))

    def all_keys(self) -> list[ApiKey]:
        return [key_of(row) for row in self._read(f"{KEYS} ORDER BY created, id")]

    def add_key(self, key: ApiKey) -> None:
        self.change_keys(lambda keys: KeyChange(key))

    def change_keys(self, change: Callable[[list[ApiKey]], KeyChange]) -> KeyChange:
        with self.committing() as connection:
            self.lock_all(connection)  # numbers are given one after the other
            wanted = change([key_of(row) for row in self.run(connection, f"{KEYS} ORDER BY created, id")])
            if key := wanted.add:
                experiments = None if key.experiments is None else msgspec.json.encode(key.experiments).decode()
                self.run(connection, ADD_KEY, (*key[:6], experiments, key.expires, key.used, key.rate))
            for id in wanted.revoke:
                self.run(connection, REVOKE_KEY, (int(time.time() * SECOND), id))
        return wanted

    def revoke_key(self, id: str, at: int) -> bool:
        return bool(self._write(REVOKE_KEY, (at, id)))

    def note_use(self, ids: Sequence[str], at: int) -> None:
        with self.committing() as connection:
            for id in sorted(ids):  # in the same order for every worker: none waits for one that waits for it
                self.run(connection, USED, (at, id, at - MINUTE))

    def newest_migration(self) -> int:
        return int(self._read("SELECT coalesce(max(number), 0) FROM migrations")[0][0])

    def erasures(self, experiment: int | None = None) -> list[Erasure]:
        where, given = ("", ()) if experiment is None else ("WHERE experiment = ?", (experiment,))
        return [Erasure(*row) for row in self._read(ERASURES.format(where=where), given)]

    def probe(self, names: Sequence[str] = ()) -> None:
        with self.committing() as connection:
            self.lock_to_write(connection, names)
            at = self.read_clock(connection)
            self.run(connection, PROBE, (self._probe_number, at, os.urandom(PROBE_BYTES)))
        self.clock.read(at)

    def erased_through(self, experiment: int) -> int:
        return int(
            self._read("SELECT coalesce(max(through), 0) FROM erasures WHERE experiment = ?", (experiment,))[0][0]
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.drop_idle()
