"""The ledger in PostgreSQL: for several workers, on several machines.

A transaction locks the experiment's row, so that transactions of one experiment follow each other whoever makes them,
reads what others appended since, appends, commits. Statements of one step travel together. Times are those of the
database.

A server that is frozen, or behind a network that swallows what it is sent, says nothing at all. Each wait for its
answer is therefore bounded here, too: then the connection is hung up, and another one takes its place.
"""

import socket
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from belated.ledger.base import Appended, LockedExperiment, Wanted
from belated.ledger.events import Event, Hears, Reported, Status
from belated.ledger.sql import SqlLedger, SqlTransaction
from belated.ledger.statements import COLUMNS, KNOWN, SETTLED, TOTAL, does_not_fit, ends_of, event_of, known_of

CONNECT_SECONDS = 5
CHECK_SECONDS = 5
"""How long a connection of the pool may take to say that it works: it waits for nobody."""
LOCK_SECONDS = 10
"""How long to wait for another worker's transaction."""
STATEMENT_SECONDS = 12
"""How long the server works on a statement."""
ANSWER_SECONDS = 15
"""How long to wait for an answer: longer than the server needs to say that it took too long."""
MIGRATE_SECONDS = 3600
"""The same, where tables are changed."""
UNACKNOWLEDGED_SECONDS = 10
"""How long the other machine may take to acknowledge what it was sent."""
ABANDONED_SECONDS = 30
"""How long the transaction of a worker that is heard of no more may hold up the others."""
_SETTINGS = {
    "lock_timeout": LOCK_SECONDS * 1000,
    "statement_timeout": STATEMENT_SECONDS * 1000,
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": ABANDONED_SECONDS * 1000,
    # every statement here goes by an index, whatever the statistics of a young table suggest
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # the next decisions are read in the order of an index, not found among all of the experiment
    "enable_bitmapscan": "off",
}
_LOCK_NUMBER = 0x62656C61746564  # any number: who creates or migrates holds it

_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_LOCK_ROWS = f"""
SELECT key, status, position, snapshot, {_NOW} FROM (
    SELECT key, status, position, snapshot FROM experiments WHERE key = ANY(%s) ORDER BY key FOR UPDATE{{how}}
) AS locked
"""
"""Rows are locked in the order of their numbers, so that two workers never wait for each other. The time is that after
the wait for a lock.
"""
_LOCK, _LOCK_FREE = _LOCK_ROWS.format(how=""), _LOCK_ROWS.format(how=" SKIP LOCKED")
_MOVE = """
UPDATE experiments SET position = w.position, status = w.status, rounds = w.rounds,
arms = coalesce(w.arms, experiments.arms)
FROM unnest(%s::int8[], %s::int8[], %s::int8[], %s::int2[], %s::int8[], %s::int4[])
AS w (key, before, position, status, rounds, arms)
WHERE experiments.key = w.key AND experiments.position = w.before RETURNING experiments.key
"""
"""The time is that after the wait for the lock."""
_TYPES = (
    "int8",
    "int8",
    "int2",
    "int8",
    "int8",
    "text",
    "int4",
    "float8",
    "float8",
    "int2",
    "int8",
    "float8",
    "int8",
    "float8",
    "float8",
    "text",
    "text",
    "int4",
)
_APPEND = f"COPY events (experiment, {COLUMNS}) FROM STDIN (FORMAT BINARY)"


def _text(statement: str) -> str:
    return statement.replace("?", "%s")


_TAILS = f"""
SELECT e.* FROM unnest(%s::int8[], %s::int8[]) AS w (experiment, position)
CROSS JOIN LATERAL (
    SELECT experiment, {COLUMNS} FROM events e WHERE e.experiment = w.experiment AND e.number > w.position
) e ORDER BY e.experiment, e.number
"""
_KNOWN = f"""
SELECT d.experiment, {KNOWN}, CASE WHEN wanted.reports THEN {TOTAL} END, CASE WHEN wanted.reports THEN {SETTLED} END
FROM unnest(%s::int8[], %s::text[], %s::bool[]) AS wanted (experiment, id, reports)
CROSS JOIN LATERAL (
    SELECT * FROM events e WHERE e.experiment = wanted.experiment AND e.kind = 1 AND e.id = wanted.id LIMIT 1
) d
"""
_REPORTS = """
SELECT e.round, e.report, e.value, e.fate FROM unnest(%s::int8[], %s::text[]) AS wanted (round, report)
CROSS JOIN LATERAL (
    SELECT * FROM events o
    WHERE o.experiment = %s AND o.kind = 8 AND o.round = wanted.round AND o.report = wanted.report LIMIT 1
) e
"""


class Unanswered(psycopg.OperationalError):
    """The server has not answered in time."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is hung up where an answer takes too long."""

    bound: float = CONNECT_SECONDS
    """Seconds that a statement may take."""
    unanswered = False
    """Whether one took longer."""

    def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
        """Wait as psycopg does, which looks up ten times a second, until the bound."""
        return super().wait(self._until(gen, time.monotonic() + self.bound), *given, **named)

    def _until(self, gen: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
        try:
            wanted = next(gen)
            while True:
                wanted = gen.send((yield wanted))
                if time.monotonic() > end:
                    break
        except StopIteration as stopped:
            return stopped.value
        self.unanswered = True
        self.hang_up()
        raise self.silence()

    def silence(self) -> Unanswered:
        """Return the error for a statement that took too long."""
        return Unanswered(f"no answer for {self.bound:g} s")

    def hang_up(self) -> None:
        """End the connection at once, so that nothing waits for it any more."""
        with suppress(OSError, psycopg.Error), socket.fromfd(self.fileno(), socket.AF_INET, socket.SOCK_STREAM) as way:
            way.shutdown(socket.SHUT_RDWR)


class PostgresTransaction(SqlTransaction):
    """A transaction that locks the rows of the experiments it opens."""

    def lock_many(self, wanted: Sequence[Wanted], wait: bool = True) -> dict[int, LockedExperiment]:
        connection: BoundedConnection = self._connection
        numbers = [each.experiment for each in wanted]
        asked = [(each.experiment, id, each.hears == Hears.REPORTS) for each in wanted for id in each.ids]
        try:
            with connection.pipeline():
                rows = connection.execute(_LOCK if wait else _LOCK_FREE, (numbers,), binary=True)
                tails = connection.execute(_TAILS, (numbers, [each.position for each in wanted]), binary=True)
                known = connection.execute(_KNOWN, _columns(asked), binary=True) if asked else None
        except psycopg.OperationalError as error:
            if connection.unanswered:  # the pipeline says only that it was left too early
                raise connection.silence() from error
            raise
        tail: dict[int, list[Event]] = {number: [] for number in numbers}
        for number, *event in tails.fetchall():
            tail[number].append(event_of(event))
        found: dict[int, list[Any]] = {number: [] for number in numbers}
        for number, *row in known.fetchall() if known else ():
            found[number].append(row)
        read = self._ledger.clock.read
        return {
            number: LockedExperiment(Status(status), tail[number], known_of(found[number]), read(now), snapshot)
            for number, status, _, snapshot, now in rows.fetchall()
        }

    def reports(self, experiment: int, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Reported]:
        rows = self._connection.execute(_REPORTS, (*_columns(wanted), experiment), binary=True).fetchall()
        return {(round, id): Reported(value, fate) for round, id, value, fate in rows}

    def append_many(self, appended: Sequence[Appended]) -> None:
        connection: psycopg.Connection[Any] = self._connection
        moves = []
        for experiment, events, status, rounds, arms in appended:
            first, last = ends_of(experiment, events)
            moves.append((experiment, first - 1, last, int(status), rounds, arms))
        try:
            with connection.cursor() as cursor, cursor.copy(_APPEND) as copy:
                copy.set_types(_TYPES)
                for experiment, events, *_ in appended:
                    for event in events:
                        copy.write_row((experiment, *event))
        except ValueError as error:
            if not connection.broken:
                raise
            raise psycopg.OperationalError("the connection was lost in the middle of a copy") from error
        moved = {row[0] for row in connection.execute(_MOVE, _columns(moves), binary=True).fetchall()}
        for experiment, events, *_ in appended:
            if experiment not in moved:
                raise does_not_fit(experiment, events)


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


class PostgresLedger(SqlLedger):
    """A ledger in a database of its own."""

    writers = 4
    words: ClassVar[dict[str, str]] = {"clustered": "", "bytes": "BYTEA"}
    transactions = PostgresTransaction
    errors = (psycopg.Error,)
    waited_for_others = ()
    refusals = (psycopg.IntegrityError, psycopg.DataError)

    def __init__(self, store: str) -> None:
        try:
            parts = conninfo_to_dict(store)
        except psycopg.Error:  # which would repeat the address, password and all
            raise ValueError("the store is not an address of PostgreSQL: postgresql://USER@HOST/DATABASE") from None
        host = parts.get("host") or urlsplit(store).hostname or "localhost"
        super().__init__(f"postgresql://{host}/{parts.get('dbname') or ''}")
        self.address = store

    def connect(self) -> BoundedConnection:
        connection = BoundedConnection.connect(
            self.address,
            autocommit=True,
            row_factory=tuple_row,
            connect_timeout=CONNECT_SECONDS,
            application_name="belated",
            keepalives_idle=10,
            keepalives_interval=3,
            keepalives_count=3,
            tcp_user_timeout=UNACKNOWLEDGED_SECONDS * 1000,
            options=" ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
        )
        connection.prepare_threshold = 0
        connection.bound = ANSWER_SECONDS
        return connection

    def run(self, connection: BoundedConnection, statement: str, given: Sequence[Any] = ()) -> list[Any]:
        cursor = connection.execute(_text(statement), given, binary=True)
        return cursor.fetchall() if cursor.description else []

    def begin(self, connection: BoundedConnection) -> None:
        self._ask(connection, "BEGIN ISOLATION LEVEL READ COMMITTED")

    def check(self, connection: BoundedConnection) -> None:
        self._ask(connection, "SELECT 1")

    def _ask(self, connection: BoundedConnection, statement: str) -> None:
        """Send what waits for nobody."""
        connection.bound = CHECK_SECONDS
        connection.execute(statement)
        connection.bound = ANSWER_SECONDS

    def read_clock(self, connection: BoundedConnection) -> int:
        return int(self.run(connection, f"SELECT {_NOW}")[0][0])

    def lock_to_write(self, connection: BoundedConnection, names: Sequence[str]) -> None:
        connection.execute("LOCK TABLE events, experiments IN ROW EXCLUSIVE MODE")
        for name in sorted(name for name in names if "\0" not in name):  # in the order of the processor
            connection.execute("SELECT key FROM experiments WHERE name = %s FOR UPDATE", (name,))

    def take_time(self, connection: BoundedConnection) -> None:
        connection.bound = MIGRATE_SECONDS
        for setting in ("statement_timeout", "lock_timeout"):
            connection.execute(f"SET LOCAL {setting} = {MIGRATE_SECONDS * 1000}")

    def is_coming_up(self) -> bool:
        wanted = make_conninfo(self.address, connect_timeout=CONNECT_SECONDS)
        return pq.PGconn.ping(wanted.encode()) in (pq.Ping.REJECT, pq.Ping.NO_RESPONSE)

    def surely_failed(self, error: Exception) -> bool:
        """Return whether the server said no, rather than nothing; while it shuts down (57…) it may not know."""
        state = getattr(error, "sqlstate", None)
        return state is not None and not state.startswith(("57", "08"))

    def lock_all(self, connection: BoundedConnection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_NUMBER,))

    def shut(self, connection: BoundedConnection) -> None:
        with suppress(psycopg.Error):  # the server rolls back when the connection is gone
            connection.close()
        if connection.unanswered:
            self.drop_idle()
