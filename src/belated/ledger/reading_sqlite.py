"""A ledger in an SQLite file, only read.

Reading a file with a write-ahead log may make the files of the log, and whoever closes it last tidies up, if it can.
So a log that is there is joined by a connection that cannot write, and stays as it is; where there is none, a
connection that could write is opened, told not to, and leaves nothing behind when it is closed.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from belated.ledger.base import LedgerUnavailable
from belated.ledger.reading import ReadingLedger
from belated.ledger.shape import Shape, Table, found_in
from belated.ledger.sqlite import BUSY_SECONDS, SqliteLedger

MOST_FAULTS = 1_000


class SqliteReader(ReadingLedger, SqliteLedger):
    """A file that is read."""

    damage = (apsw.CorruptError, apsw.NotADBError)

    def connect(self) -> apsw.Connection:
        path = Path(self._path)
        if not path.exists():
            raise LedgerUnavailable(f"there is no ledger at {self._path}")
        if Path(f"{path}-wal").exists():
            return self._opened(apsw.SQLITE_OPEN_READONLY)
        try:
            return self._opened(apsw.SQLITE_OPEN_READWRITE)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if not path.is_file():
                raise
            # the files of a log cannot be made in this folder; there is none, so the file is all there is
            return self._opened(apsw.SQLITE_OPEN_READONLY, "?immutable=1")

    def _opened(self, flags: int, options: str = "") -> apsw.Connection:
        name = f"file:{quote(os.path.abspath(self._path))}{options}"
        connection = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI, vfs=self._vfs)
        try:
            connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
            connection.execute("PRAGMA query_only = 1")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except BaseException:
            connection.close(True)
            raise
        return connection

    def begin(self, connection: apsw.Connection) -> None:
        connection.execute("BEGIN")

    def shape(self, connection: apsw.Connection) -> Shape:
        return found_in(connection)

    def stream(self, connection: apsw.Connection, table: Table, plus_zero: bool = False) -> Iterator[Sequence[Any]]:
        order = ", ".join(table.key)
        return iter(connection.execute(f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {order}"))

    def storage_faults(self, connection: apsw.Connection, shape: Shape) -> Iterator[str]:
        for (said,) in connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})").fetchall():
            if said != "ok":
                yield from str(said).splitlines()

    def vacuum_into(self, path: Path) -> None:
        """Write all of it to a file that is empty: one picture, also while others write."""
        with self.connection() as connection:
            connection.execute("PRAGMA query_only = 0")
            connection.execute("VACUUM INTO ?", (str(path),))
            connection.execute("PRAGMA query_only = 1")
