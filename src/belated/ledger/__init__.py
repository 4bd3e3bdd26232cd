"""The ledger: the durable, append-only record of decisions and outcomes, in SQLite or PostgreSQL.

`open_ledger("sqlite:///belated.db")` opens one; `Ledger` says what it promises; a `CommandProcessor` makes decisions
with it.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from belated.ledger.base import Ledger
from belated.ledger.clock import Clock
from belated.ledger.waiting import migrate_when_up

if TYPE_CHECKING:
    from belated.ledger.reading import ReadingLedger


def open_ledger(
    store: str,
    clock: Clock | None = None,
    wait: float = 0.0,
    stopped: Callable[[], bool] = lambda: False,
    *,
    read_only: bool = False,
) -> Ledger:
    """Return the ledger of a store, brought up to date: sqlite:///PATH (sqlite:////PATH from the root) or
    postgresql://…

    A database that is still coming up is waited for so many seconds, or until told to stop.

    read_only: nothing is made or changed; an error where there is no ledger, or one of another version of belated.
    """
    if read_only:
        reader = read_ledger(store)
        try:
            reader.check_current()
        except BaseException:
            reader.close()
            raise
        return reader
    path = sqlite_path(store)
    if path is None:
        from belated.ledger.postgres import PostgresLedger

        ledger: Ledger = PostgresLedger(store)
    else:
        from belated.ledger.sqlite import SqliteLedger

        ledger = SqliteLedger(path)
    ledger.clock = clock or ledger.clock
    try:
        migrate_when_up(ledger, wait, stopped)
    except BaseException:
        ledger.close()
        raise
    return ledger


def read_ledger(store: str) -> "ReadingLedger":
    """Return what is in a store, to be read only, whatever it is: nothing was looked at yet."""
    path = sqlite_path(store)
    if path is None:
        from belated.ledger.reading_postgres import PostgresReader

        return PostgresReader(store)
    from belated.ledger.reading_sqlite import SqliteReader

    return SqliteReader(path)


def sqlite_path(store: str) -> str | None:
    """Return the path of a store in SQLite, None of one in PostgreSQL; an error if it is neither."""
    kind, slashes, rest = store.partition("://")
    if kind == "sqlite" and slashes:
        path = rest.removeprefix("/")
        if not path or not rest.startswith("/"):
            raise ValueError(f"store is {store!r}: sqlite:///PATH is needed, or sqlite:////PATH from the root")
        return path
    if kind in ("postgresql", "postgres") and slashes:
        return None
    shown = re.sub(r"//[^/]*@", "//…@", store)  # without a password
    raise ValueError(f"store is {shown!r}: sqlite:///PATH or postgresql://USER@HOST/DATABASE is needed")


__all__ = ["Ledger", "open_ledger", "read_ledger", "sqlite_path"]
