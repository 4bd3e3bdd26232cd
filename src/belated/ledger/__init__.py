"""The ledger: the durable, append-only record of decisions and outcomes, in SQLite or PostgreSQL.

`open_ledger("sqlite:///belated.db")` opens one; `Ledger` says what it promises; a `CommandProcessor` makes decisions
with it.
"""

import re
from collections.abc import Callable

from belated.ledger.base import Ledger
from belated.ledger.clock import Clock
from belated.ledger.waiting import migrate_when_up


def open_ledger(
    store: str, clock: Clock | None = None, wait: float = 0.0, stopped: Callable[[], bool] = lambda: False
) -> Ledger:
    """Return the ledger of a store, brought up to date: sqlite:///PATH (sqlite:////PATH from the root) or
    postgresql://…

    A database that is still coming up is waited for so many seconds, or until told to stop.
    """
    kind, slashes, rest = store.partition("://")
    if kind == "sqlite" and slashes:
        path = rest.removeprefix("/")
        if not path or not rest.startswith("/"):
            raise ValueError(f"store is {store!r}: sqlite:///PATH is needed, or sqlite:////PATH from the root")
        from belated.ledger.sqlite import SqliteLedger

        ledger: Ledger = SqliteLedger(path)
    elif kind in ("postgresql", "postgres") and slashes:
        from belated.ledger.postgres import PostgresLedger

        ledger = PostgresLedger(store)
    else:
        shown = re.sub(r"//[^/]*@", "//…@", store)  # without a password
        raise ValueError(f"store is {shown!r}: sqlite:///PATH or postgresql://USER@HOST/DATABASE is needed")
    ledger.clock = clock or ledger.clock
    try:
        migrate_when_up(ledger, wait, stopped)
    except BaseException:
        ledger.close()
        raise
    return ledger


__all__ = ["Ledger", "open_ledger"]
