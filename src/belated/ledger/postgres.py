"""The ledger in PostgreSQL: for several workers, on several machines.

A transaction locks the experiment's row, so that transactions of one experiment follow each other whoever makes them,
reads what others appended since, appends, commits. Statements of one step travel together. Times are those of the
database.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from belated.ledger.base import LockedExperiment
from belated.ledger.events import Event, Status
from belated.ledger.sql import COLUMNS, KNOWN, TAIL, SqlLedger, SqlTransaction, event_of, known_of

CONNECT_SECONDS = 5
LOCK_SECONDS = 10
"""How long to wait for another worker's transaction."""
ABANDONED_SECONDS = 30
"""How long the transaction of a worker that is heard of no more may hold up the others."""
_SETTINGS = {
    "lock_timeout": LOCK_SECONDS * 1000,
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": ABANDONED_SECONDS * 1000,
    # every statement here goes by an index, whatever the statistics of a young table suggest
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_LOCK_NUMBER = 0x62656C61746564  # any number: who creates or migrates holds it

_LOCK = """
SELECT status, position, snapshot, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM experiments WHERE key = %s FOR UPDATE
"""
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
    "int4",
)
_APPEND = f"COPY events (experiment, {COLUMNS}) FROM STDIN (FORMAT BINARY)"


def _text(statement: str) -> str:
    return statement.replace("?", "%s")


_TAIL = _text(TAIL)
_KNOWN = f"""
SELECT {KNOWN} FROM unnest(%s::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM events e WHERE e.experiment = %s AND e.kind = 1 AND e.id = wanted.id LIMIT 1
) d
"""


class PostgresTransaction(SqlTransaction):
    """A transaction that locks the rows of the experiments it opens."""

    def lock(self, experiment: int, position: int, ids: Sequence[str]) -> LockedExperiment:
        connection: psycopg.Connection[Any] = self._connection
        with connection.pipeline():
            row = connection.execute(_LOCK, (experiment,), binary=True)
            tail = connection.execute(_TAIL, (experiment, position), binary=True)
            known = connection.execute(_KNOWN, (list(ids), experiment), binary=True) if ids else None
        status, _, snapshot, now = row.fetchall()[0]
        found = known_of(known.fetchall()) if known else {}
        return LockedExperiment(Status(status), [event_of(each) for each in tail.fetchall()], found, now, snapshot)

    def append(self, experiment: int, events: Sequence[Event], status: Status, rounds: int) -> None:
        connection: psycopg.Connection[Any] = self._connection
        try:
            with connection.cursor() as cursor, cursor.copy(_APPEND) as copy:
                copy.set_types(_TYPES)
                for event in events:
                    copy.write_row((experiment, *event))
        except ValueError as error:
            if not connection.broken:
                raise
            raise psycopg.OperationalError("the connection was lost in the middle of a copy") from error
        self._move(experiment, events, status, rounds)


class PostgresLedger(SqlLedger):
    """A ledger in a database of its own."""

    writers = 4
    words: ClassVar[dict[str, str]] = {"clustered": "", "bytes": "BYTEA"}
    transactions = PostgresTransaction
    errors = (psycopg.Error,)
    waited_for_others = ()

    def __init__(self, store: str) -> None:
        try:
            parts = conninfo_to_dict(store)
        except psycopg.Error:  # which would repeat the address, password and all
            raise ValueError("the store is not an address of PostgreSQL: postgresql://USER@HOST/DATABASE") from None
        host = parts.get("host") or urlsplit(store).hostname or "localhost"
        super().__init__(f"postgresql://{host}/{parts.get('dbname') or ''}")
        self._conninfo = store

    def connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._conninfo,
            autocommit=True,
            row_factory=tuple_row,
            connect_timeout=CONNECT_SECONDS,
            application_name="belated",
            keepalives_idle=10,
            options=" ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
        )
        connection.prepare_threshold = 0
        return connection

    def run(self, connection: psycopg.Connection[Any], statement: str, given: Sequence[Any] = ()) -> list[Any]:
        cursor = connection.execute(_text(statement), given, binary=True)
        return cursor.fetchall() if cursor.description else []

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")

    def alive(self, connection: psycopg.Connection[Any]) -> bool:
        connection.execute("SELECT 1")
        return True

    def probe(self) -> None:
        self._write("UPDATE migrations SET applied = applied WHERE number = 1")

    def surely_failed(self, error: Exception) -> bool:
        """Return whether the server said no, rather than nothing; while it shuts down (57…) it may not know."""
        state = getattr(error, "sqlstate", None)
        return state is not None and not state.startswith(("57", "08"))

    def lock_all(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_NUMBER,))

    def shut(self, connection: psycopg.Connection[Any]) -> None:
        with suppress(psycopg.Error):  # the server rolls back when the connection is gone
            connection.close()
