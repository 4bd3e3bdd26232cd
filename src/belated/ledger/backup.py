"""Backups: a ledger in one SQLite file, whichever database it comes from, whole or not there at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from belated.errors import InvalidValue
from belated.ledger import read_ledger, sqlite_path
from belated.ledger.base import LedgerError
from belated.ledger.copy import Note, PostgresTarget, SqliteTarget, check_empty, copy_rows
from belated.ledger.integrity import faults
from belated.ledger.reading import ReadingLedger
from belated.ledger.reading_sqlite import SqliteReader

BUSY_MS = 1_000


def back_up(store: str, file: Path, replace: bool, note: Note) -> None:
    """Write a ledger to a file, as it is at one moment, while others may go on writing to the ledger."""
    path = sqlite_path(store)
    if path is not None and file.exists() and Path(path).exists() and file.samefile(path):
        raise InvalidValue(f"{file} is the ledger itself; give another file for its backup")
    with closing(read_ledger(store)) as source, _new_file(file, replace) as unnamed:
        _copy_to_file(source, unnamed, note)


def restore(file: Path, store: str, note: Note) -> None:
    """Make a ledger of a backup, in a store that is empty. It is what it was, however old: nothing is migrated."""
    with closing(SqliteReader(str(file))) as source:
        _refuse(source.store, faults(source))
        path = sqlite_path(store)
        if path is None:
            with closing(PostgresTarget(store)) as target:
                copy_rows(source, target, note)
        else:
            with _emptied(Path(path)) as unnamed:
                _copy_to_file(source, unnamed, note)


def copy(source: str, target: str, note: Note) -> str:
    """Copy a ledger row by row into a store that is empty; return the digest of all rows."""
    with closing(read_ledger(source)) as reader:
        path = sqlite_path(target)
        if path is None:
            with closing(PostgresTarget(target)) as database:
                return copy_rows(reader, database, note).digest
        with _emptied(Path(path)) as unnamed, closing(SqliteTarget(str(unnamed))) as file:
            return copy_rows(reader, file, note).digest


def _copy_to_file(source: ReadingLedger, unnamed: Path, note: Note) -> None:
    if isinstance(source, SqliteReader):
        source.vacuum_into(unnamed)
        return
    with closing(SqliteTarget(str(unnamed))) as target:
        copy_rows(source, target, note)


@contextmanager
def _new_file(file: Path, replace: bool) -> Iterator[Path]:
    """Give an empty file without a name that anybody knows. What was written is verified and synced, then named."""
    if not file.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file.parent))
    _check_free(file, replace)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)  # mode 0600
    try:
        yield Path(name)
        with closing(SqliteReader(name)) as written:
            _refuse(f"what was written of {file}", faults(written))
        os.fsync(handle)
        _check_free(file, replace)
        os.rename(name, file)
        _sync_folder(file.parent)
    finally:
        os.close(handle)
        with suppress(FileNotFoundError):
            os.unlink(name)


def _check_free(file: Path, replace: bool) -> None:
    """Refuse to write over a file, or beside the log of another one, which would be taken for its own."""
    if file.exists() and not (replace and file.is_file()):
        raise InvalidValue(f"{file} is there already" + ("; --force replaces it" if file.is_file() else ""))
    for log in (Path(f"{file}-wal"), Path(f"{file}-journal")):
        if log.exists():
            raise InvalidValue(
                f"{log} is there: {file} is or was in use, and this belongs to it;"
                " stop what uses it, and move both away together"
            )


@contextmanager
def _emptied(file: Path) -> Iterator[Path]:
    """Give an empty file that takes the name of one that is not there, or holds an empty ledger that nobody uses."""
    if file.exists() and file.stat().st_size:
        with closing(SqliteReader(str(file))) as there, there.committing() as connection:
            there.version(connection)
            check_empty(there, connection)
        _close_log(file)
    with _new_file(file, replace=True) as unnamed:
        yield unnamed


def _close_log(file: Path) -> None:
    """End the write-ahead log of a file, which is refused while anybody else has it open."""
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.set_busy_timeout(BUSY_MS)
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except apsw.BusyError:
            raise LedgerError(f"{file} is open elsewhere: stop the service that uses it first") from None


def _refuse(what: str, found: list[str]) -> None:
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise LedgerError(f"{what} is not sound: {found[0]}{more}; `belated ledger verify` tells all")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
