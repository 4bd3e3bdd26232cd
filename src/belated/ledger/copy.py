"""Copying a ledger row by row, from one database to another: everything that is in it, in one picture.

The copy is there as a whole or not at all. Before it is, what was written is read again and compared with what was
read. What services write to see whether they can write is left out: nobody ever reads it. So is what is kept of settled
decisions: it is read from the events again.
"""

import hashlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import apsw
import msgspec

from belated.ledger.base import CHUNK, LedgerError
from belated.ledger.migrations import HISTORY, MIGRATIONS
from belated.ledger.postgres import BoundedConnection, PostgresLedger
from belated.ledger.reading import NEWEST, ReadingLedger
from belated.ledger.reading_postgres import TYPES, PostgresReader
from belated.ledger.reading_sqlite import SqliteReader
from belated.ledger.shape import Shape, Table, expected

LEFT_OUT = ("probes", "settled")
CACHE_KIB = 1 << 17
"""Ids come in any order, so that each row changes other pages of their index."""
NOTE_SECONDS = 5.0
"""How often to say how far it is."""
Rows = Iterable[Sequence[Any]]
Note = Callable[[str], None]


class Copied(NamedTuple):
    """What was copied: the number of rows of each table, and a digest of all of them."""

    rows: dict[str, int]
    digest: str


class TargetLedger(ReadingLedger):
    """A ledger that is written as a copy."""

    signed_zero: ClassVar[bool]
    """Whether the database tells -0.0 from 0.0."""

    @abstractmethod
    def fill(self, connection: Any, table: Table, chunks: Iterable[Rows]) -> None:
        """Append rows to a table."""


class SqliteTarget(TargetLedger, SqliteReader):
    """A file that is empty, and that nobody else knows of yet; whoever gives it its name syncs it."""

    signed_zero = False

    def connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        return connection

    def fill(self, connection: apsw.Connection, table: Table, chunks: Iterable[Rows]) -> None:
        places = ", ".join("?" * len(table.columns))
        statement = f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})"
        for chunk in chunks:
            connection.executemany(statement, chunk)


class PostgresTarget(TargetLedger, PostgresReader):
    """A database whose ledger, if it has one, is empty."""

    signed_zero = True

    def connect(self) -> BoundedConnection:
        return PostgresLedger.connect(self)

    def begin(self, connection: BoundedConnection) -> None:
        PostgresLedger.begin(self, connection)
        self.take_time(connection)
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # the source may take its time

    def fill(self, connection: BoundedConnection, table: Table, chunks: Iterable[Rows]) -> None:
        statement = f"COPY {table.name} ({', '.join(table.columns)}) FROM STDIN (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([TYPES[kind] for kind in table.columns.values()])
            for chunk in chunks:
                for row in chunk:
                    copy.write_row(row)


class _Tally:
    """Rows on their way: counted, digested, and told of now and then."""

    def __init__(self, doing: str, note: Note) -> None:
        self.rows: dict[str, int] = {}
        self._digest = hashlib.blake2b(digest_size=16)
        self._encode = msgspec.msgpack.Encoder().encode
        self._doing = doing
        self._note = note
        self._told = time.monotonic()

    def chunks(self, table: Table, rows: Iterator[Sequence[Any]]) -> Iterator[Rows]:
        self.rows[table.name] = 0
        while chunk := [tuple(row) for row in islice(rows, CHUNK)]:
            self.rows[table.name] += len(chunk)
            self._digest.update(self._encode(chunk))
            if time.monotonic() > self._told + NOTE_SECONDS:
                self._told = time.monotonic()
                self._note(f"{self._doing} {table.name}: {self.rows[table.name]:,} rows")
            yield chunk

    def result(self) -> Copied:
        return Copied(self.rows, self._digest.hexdigest())


def copy_rows(source: ReadingLedger, target: TargetLedger, note: Note) -> Copied:
    """Copy a ledger, of this belated or an older one, into one that is empty. One transaction reads, one writes."""
    written = _Tally("copied", note)
    with source.committing() as here, target.committing() as there:
        target.lock_all(there)
        version = source.version(here)
        shape = expected(version)
        _make_tables(target, there, version)
        for table in _tables(shape):
            rows = source.stream(here, table, plus_zero=not target.signed_zero)
            target.fill(there, table, written.chunks(table, rows))
        made, found = written.result(), _read(target, there, shape, note)
        if made != found:
            raise LedgerError(
                f"the copy of {source.store} in {target.store} is not what was read: {found.rows} rows with the digest"
                f" {found.digest}, where {made.rows} with {made.digest} were read; nothing is kept of it"
            )
    return made


def _read(ledger: ReadingLedger, connection: Any, shape: Shape, note: Note) -> Copied:
    tally = _Tally("compared", note)
    for table in _tables(shape):
        for _ in tally.chunks(table, ledger.stream(connection, table)):
            pass
    return tally.result()


def _tables(shape: Shape) -> list[Table]:
    return [table for name, table in shape.tables.items() if name not in LEFT_OUT]


def _make_tables(target: TargetLedger, connection: Any, version: int) -> None:
    """Make the tables as they are in the source, however old it is."""
    has = 0
    if expected(NEWEST).tables.keys() & target.shape(connection).tables.keys():
        has = target.version(connection)
        check_empty(target, connection)
    if has > version:
        raise LedgerError(
            f"{target.store} has migration {has}, what is to be copied has {version} only:"
            f" copy into a new database, or bring the source up to date first, with `belated ledger migrate`"
        )
    target.run(connection, HISTORY)
    for migration in MIGRATIONS[has:version]:
        for statement in migration.statements:
            target.run(connection, statement.format(**target.words))
    target.run(connection, "DELETE FROM migrations")  # they are copied as all else is


def check_empty(ledger: ReadingLedger, connection: Any) -> None:
    """Raise an error if a ledger holds anything."""
    for name in ("experiments", "events", "keys"):
        ((count,),) = ledger.run(connection, f"SELECT count(*) FROM {name}")
        if count:
            raise LedgerError(
                f"{ledger.store} holds a ledger already, with {count:,} {name if count > 1 else name[:-1]}:"
                f" nothing is written over it; give another store, or move this one away"
            )
