"""The ledger in an SQLite file: the embedded default, nothing to set up.

Write-ahead log with synchronous=FULL: a commit is on disk when it returns. One writer at a time, many processes if need
be; readers do not wait. apsw brings an SQLite of known age and shows it as it is: no hidden transactions, every error
by its name.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, ClassVar

import apsw
import msgspec

from belated.ledger.base import Appended, Erasure, LockedExperiment, Wanted
from belated.ledger.clock import wall_time
from belated.ledger.events import DecisionRecord, Hears, Status
from belated.ledger.sql import SqlLedger, SqlTransaction
from belated.ledger.statements import (
    COLUMNS,
    KNOWN,
    SETTLED,
    TAIL,
    TOTAL,
    WIDTH,
    does_not_fit,
    ends_of,
    event_of,
    known_of,
)

BUSY_SECONDS = 10.0
"""How long to wait for another process that writes."""
SCRUB_TIMEOUT_MS = 500
"""How long deciders may wait while the log is emptied."""
SCRUB_ATTEMPTS = 20
PRIVATE = 0o600
WAIT_SECONDS = 0.0003
"""How long to wait before looking again: SQLite's own waits grow to a tenth of a second."""
LOG_PAGES = 16_000
"""Pages of the log, of 4 KiB, from which a commit empties it itself; before, `tidy` does."""
MOST_ROWS = 256
"""Rows in one statement: each statement costs a change of threads."""

_INSERTS = {
    1 << k: f"INSERT INTO events (experiment, {COLUMNS}) VALUES "
    + ", ".join([f"({', '.join('?' * WIDTH)})"] * (1 << k))
    for k in range(MOST_ROWS.bit_length())
}
_LOOK_UP = """
SELECT {known} FROM json_each(?) AS wanted
CROSS JOIN events AS d INDEXED BY decisions_by_id
ON d.experiment = ? AND d.kind = 1 AND d.id = wanted.value
"""
_KNOWN = _LOOK_UP.format(known=f"{KNOWN}, NULL, NULL")
_KNOWN_REPORTS = _LOOK_UP.format(known=f"{KNOWN}, {TOTAL}, {SETTLED}")
_MOVE = """
UPDATE experiments SET position = ?, status = ?, rounds = ?, arms = coalesce(?, arms)
WHERE key = ? AND position = ? RETURNING key
"""


class SqliteTransaction(SqlTransaction):
    """A transaction of the one writer."""

    @staticmethod
    def by(index: str) -> str:
        return f"INDEXED BY {index}"  # it would rather read all events of the experiment

    def lock_many(self, wanted: Sequence[Wanted], wait: bool = True) -> dict[int, LockedExperiment]:
        now = self._ledger.clock.read(wall_time())
        return {each.experiment: self._looked_up(each, now) for each in wanted}

    def _looked_up(self, wanted: Wanted, now: int) -> LockedExperiment:
        experiment, position, ids, hears = wanted
        ((status, last, snapshot),) = self._run(
            "SELECT status, position, snapshot FROM experiments WHERE key = ?", (experiment,)
        )
        tail = [event_of(row) for row in self._run(TAIL, (experiment, position))] if last > position else []
        look_up = _KNOWN_REPORTS if hears == Hears.REPORTS else _KNOWN
        known = known_of(self._run(look_up, (msgspec.json.encode(ids).decode(), experiment))) if ids else {}
        return LockedExperiment(Status(status), tail, known, now, snapshot)

    def append_many(self, appended: Sequence[Appended]) -> None:
        rows = [(each.experiment, *event) for each in appended for event in each.events]
        at = 0
        while at < len(rows):
            count = min(MOST_ROWS, 1 << ((len(rows) - at).bit_length() - 1))
            self._run(_INSERTS[count], tuple(chain.from_iterable(rows[at : at + count])))
            at += count
        for experiment, events, status, rounds, arms in appended:
            first, last = ends_of(experiment, events)
            if not self._run(_MOVE, (last, int(status), rounds, arms, experiment, first - 1)):
                raise does_not_fit(experiment, events)

    def erase(self, known: Mapping[str, DecisionRecord], erasure: Erasure) -> None:
        self._run("PRAGMA secure_delete = ON")  # what is erased is overwritten with zeros
        super().erase(known, erasure)


class SqliteLedger(SqlLedger):
    """A ledger in a file."""

    writers = 1
    words: ClassVar[dict[str, str]] = {"clustered": "WITHOUT ROWID", "bytes": "BLOB"}
    transactions = SqliteTransaction
    errors = (apsw.Error,)
    waited_for_others = (apsw.BusyError,)
    refusals = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError)

    def __init__(self, path: str, vfs: str | None = None) -> None:
        super().__init__(f"sqlite:///{path}")
        self._path = path
        self._vfs = vfs

    def connect(self) -> apsw.Connection:
        if self._vfs is None:
            _make_private(self._path)
        connection = apsw.Connection(self._path, vfs=self._vfs, statementcachesize=200)
        try:
            connection.set_busy_handler(_Patience(BUSY_SECONDS))
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            connection.execute("PRAGMA secure_delete = FAST")  # fewer copies of what is erased later, at no cost
        except BaseException:
            connection.close(True)
            raise
        return connection

    def run(self, connection: apsw.Connection, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        return connection.execute(statement, given).fetchall()

    def begin(self, connection: apsw.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def tidy(self) -> None:
        """Move what is in the log to its place in the file, as far as that holds up nobody."""
        with self.connection() as connection:
            self.run(connection, "PRAGMA wal_checkpoint(PASSIVE)")

    def read_clock(self, connection: apsw.Connection) -> int:
        return wall_time()

    def scrub(self, rewrite: bool = False) -> bool:
        """Empty the write-ahead log, which has pages as they were before; False where readers were in the way.

        Pages that were split once may have copies of ids in the space that is free since. Only rewriting removes them.
        """
        if rewrite:
            with self.connection() as connection:
                self.run(connection, "VACUUM")
        for attempt in range(SCRUB_ATTEMPTS):
            with self.connection() as connection:
                connection.set_busy_timeout(SCRUB_TIMEOUT_MS)
                try:
                    ((blocked, _, _),) = self.run(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
                except apsw.BusyError:
                    blocked = True
                finally:
                    connection.set_busy_handler(_Patience(BUSY_SECONDS))
            if not blocked:
                return True
            time.sleep(0.05 * (attempt + 1))
        return False

    def readable_by_others(self) -> str | None:
        for path in (self._path, f"{self._path}-wal", f"{self._path}-shm"):
            with suppress(OSError):
                if (mode := os.stat(path).st_mode & 0o777) & 0o077:
                    return f"{path} (mode {mode:o})"
        return None

    def surely_failed(self, error: Exception) -> bool:
        """Return whether the write itself failed: the frame that makes a commit is the last one written."""
        return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE

    def lock_all(self, connection: apsw.Connection) -> None:
        """Do nothing: a transaction has the file to itself."""

    def shut(self, connection: apsw.Connection) -> None:
        with suppress(apsw.Error):  # closing rolls back too
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        with suppress(apsw.Error):  # nothing that was committed depends on it
            connection.close(True)


def _make_private(path: str) -> None:
    """Make a missing file that only its owner may read; SQLite gives its log the same mode."""
    with suppress(OSError):  # it is there, or SQLite says what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, PRIVATE))


class _Patience:
    """Waits a moment for somebody else who writes, each time it is called; gives up after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        """Return whether to try once more, after so many tries."""
        now = time.monotonic()
        if tries == 0:
            self._until = now + self._seconds
        if now > self._until:
            return False
        time.sleep(WAIT_SECONDS)
        return True


def _write_ahead(connection: apsw.Connection) -> None:
    """Switch the log on. Where another process does so at the same moment, SQLite does not wait by itself."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)
