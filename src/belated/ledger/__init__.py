"""The ledger: the durable, append-only record of decisions and outcomes, in SQLite or PostgreSQL.

`open_ledger("sqlite:///belated.db")` opens one; `Ledger` says what it promises; a `CommandProcessor` makes decisions
with it.
"""

import re

from belated.ledger.base import Ledger


def open_ledger(store: str) -> Ledger:
    """Return the ledger of a store, brought up to date: sqlite:///PATH (sqlite:////PATH from the root) or
    postgresql://…
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
    try:
        ledger.migrate()
    except BaseException:
        ledger.close()
        raise
    return ledger


__all__ = ["Ledger", "open_ledger"]
