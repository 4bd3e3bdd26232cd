"""The commands about the service: serve, keys and ledger."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

from belated.client import Client
from belated.ledger import Ledger, open_ledger
from belated.ledger.events import SECOND, ExperimentRecord, when
from belated.ledger.export import pieces
from belated.ledger.keys import ensure_admin, new_key
from belated.ledger.verify import verify as replay

Say = Callable[[str], None]
MOST_FAULTS = 20
VERIFY_RETRY_SECONDS = 5.0
"""Seconds to wait for a service whose live state is wanted."""


def serve(options: argparse.Namespace, say: Say) -> int:
    """`belated serve`."""
    from belated.service.server import MOST_WORKERS, ServerSettings, listen
    from belated.service.server import serve as run

    if not 1 <= options.workers <= MOST_WORKERS:
        raise ValueError(f"workers is {options.workers}; 1 to {MOST_WORKERS} are possible")
    if not 0 <= options.port < 65536:
        raise ValueError(f"port is {options.port}; 0 to 65535 is possible")
    listen(options.host, options.port).close()  # before a key is shown that nobody could use
    with closing(open_ledger(options.store)) as ledger:
        first = ensure_admin(ledger, os.environ.get("BELATED_ADMIN_KEY"))
    if first:
        text = f"The first admin key of this ledger, shown this once:\n\n    {first}\n"
        print(text, file=sys.stderr, flush=True)
    return run(ServerSettings(options.store, options.host, options.port, options.workers))


def keys(options: argparse.Namespace, say: Say) -> int:
    """`belated keys create | list | revoke`."""
    with closing(open_ledger(options.store)) as ledger:
        if options.action == "create":
            secret, key = new_key(options.name, options.role)
            ledger.add_key(key)
            print(f"key {key.id} may {key.role}; it is shown this once:", file=sys.stderr, flush=True)
            say(secret)
        elif options.action == "list":
            rows = [("id", "role", "created", "revoked", "name")]
            for key in ledger.all_keys():
                revoked = when(key.revoked)[:19] if key.revoked else "-"
                rows.append((key.id, key.role, when(key.created)[:19], revoked, key.name))
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for row in rows:
                say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        else:
            _revoke(ledger, options.id, say)
    return 0


def _revoke(ledger: Ledger, id: str, say: Say) -> None:
    import time

    if not ledger.revoke_key(id, int(time.time() * SECOND)):
        keys = ledger.all_keys()
        if any(key.id == id for key in keys):
            raise ValueError(f"key {id!r} was revoked before")
        known = [key.id for key in keys if key.revoked is None]
        raise ValueError(f"there is no key {id!r} to revoke; there are {', '.join(known) or 'none'}")
    say(f"key {id} is revoked; workers refuse it within a second")


def ledger(options: argparse.Namespace, say: Say) -> int:
    """`belated ledger verify | export`."""
    path = options.store.removeprefix("sqlite:///")
    if path != options.store and not Path(path).exists():
        raise ValueError(f"there is no ledger at {path}")
    with closing(open_ledger(options.store)) as opened:
        if options.action == "verify":
            return _verify(opened, options, say)
        if options.after < 0:
            raise ValueError(f"after is {options.after}; a number of at least 0 is needed")
        record = opened.find(options.experiment)
        if record is None:
            raise _unknown(opened, options.experiment)
        if options.out is None:
            for part in pieces(opened, record, options.format, options.after):
                sys.stdout.buffer.write(part)
            sys.stdout.flush()
            return 0
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with Path(options.out).open("wb") as file:
            for part in pieces(opened, record, options.format, options.after):
                file.write(part)
        say(f"written: {options.out}")
    return 0


def _verify(opened: Ledger, options: argparse.Namespace, say: Say) -> int:
    names = options.experiments or [record.settings.name for record in opened.experiments()]
    if not names:
        say("no experiments")
    with Client(options.url, retry_seconds=VERIFY_RETRY_SECONDS) if options.url else nullcontext() as client:
        broken = sum(_is_broken(opened, name, client, say) for name in names)
    return 1 if broken else 0


def _is_broken(opened: Ledger, name: str, client: Client | None, say: Say) -> bool:
    live = None
    if client:
        state = client.experiment(name, digest=True)
        live = (state.events, str(state.digest))
    record: ExperimentRecord | None = opened.find(name)
    if record is None:
        raise _unknown(opened, name)
    verdict = replay(opened, record, live)
    exact = (
        "bit for bit" if verdict.propensity_error == 0 else f"propensities off by up to {verdict.propensity_error:.3g}"
    )
    counted = f"{verdict.events:,} events, {verdict.rounds:,} rounds, {verdict.compared:,} states compared"
    say(f"{name}: {counted}: " + ("FAULTY" if verdict.faults else f"replayed {exact}"))
    for fault in verdict.faults[:MOST_FAULTS]:
        say(f"  {fault}")
    return bool(verdict.faults)


def _unknown(opened: Ledger, name: str) -> ValueError:
    names = [record.settings.name for record in opened.experiments()]
    return ValueError(f"there is no experiment {name!r}; there are {', '.join(names) or 'none'}")
