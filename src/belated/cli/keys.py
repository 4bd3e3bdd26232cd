"""`belated keys`: create, list and revoke the keys of the service."""

import argparse
import time
from contextlib import closing

from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.ledger import Ledger, open_ledger
from belated.ledger.events import SECOND, ApiKey, when
from belated.ledger.keys import new_key


def keys(options: argparse.Namespace, out: Output) -> int:
    """Create, list or revoke keys."""
    with closing(open_ledger(options.store)) as ledger:
        if options.action == "create":
            _create(ledger, options, out)
        elif options.action == "list":
            _list(ledger.all_keys(), out)
        else:
            _revoke(ledger, options.id, out)
    return 0


def _create(ledger: Ledger, options: argparse.Namespace, out: Output) -> None:
    expires = None if options.expires is None else int(options.expires * SECOND)
    secret, key = new_key(
        options.name, options.role, experiments=options.experiments, expires=expires, rate=options.rate
    )
    ledger.add_key(key)
    out.note(f"key {key.id} may {key.role}; it is shown this once:")
    out.line(secret)


def _list(keys: list[ApiKey], out: Output) -> None:
    from belated.report.columns import Column, Table

    columns = [
        Column("id"),
        Column("role"),
        Column("created", drop=1),
        Column("used"),
        Column("expires"),
        Column("revoked"),
        Column("rate", right=True, drop=2),
        Column("experiments", fold=True),
        Column("name", fold=True),
    ]
    data, rows = [], []
    for key in keys:
        times = {name: _time(getattr(key, name)) for name in ("created", "used", "expires", "revoked")}
        rate, only = key.rate, key.experiments
        data.append({"id": key.id, "role": key.role, **times, "rate": rate, "experiments": only, "name": key.name})
        cells = [text[:10] if text else "-" for text in times.values()]
        rows.append([key.id, key.role, *cells, f"{rate:g}" if rate else "-", ", ".join(only or ["all"]), key.name])
    out.result(data, Table(columns, rows))


def _time(at: int | None) -> str | None:
    return None if at is None else when(at)


def _revoke(ledger: Ledger, id: str, out: Output) -> None:
    if not ledger.revoke_key(id, int(time.time() * SECOND)):
        keys = ledger.all_keys()
        if any(key.id == id for key in keys):
            raise InvalidValue(f"key {id!r} was revoked before")
        known = [key.id for key in keys if key.revoked is None]
        raise InvalidValue(f"there is no key {id!r} to revoke; there are {', '.join(known) or 'none'}")
    out.line(f"key {id} is revoked; workers refuse it within a second")
