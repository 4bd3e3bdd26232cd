"""`belated serve` and `ledger`: the service and its records."""

import argparse
import os
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belated.cli.forget import forget
from belated.cli.output import Output
from belated.errors import InvalidValue, check_count
from belated.ledger import Ledger, open_ledger
from belated.ledger.events import SECOND
from belated.ledger.export import create_private, pieces
from belated.ledger.keys import ensure_admin
from belated.ledger.verify import Verdict
from belated.ledger.verify import verify as replay

if TYPE_CHECKING:
    from belated.client import Client

MOST_FAULTS = 20
VERIFY_RETRY_SECONDS = 5.0
"""Seconds to wait for a service whose live state is wanted."""


def serve(options: argparse.Namespace, out: Output) -> int:
    """Serve until stopped."""
    from belated.service.limits import Limits
    from belated.service.server import MOST_WORKERS, ServerSettings, listen, start_log
    from belated.service.server import serve as run

    if not 1 <= options.workers <= MOST_WORKERS:
        raise InvalidValue(f"workers is {options.workers}; 1 to {MOST_WORKERS} are possible")
    if not 0 <= options.port < 65536:
        raise InvalidValue(f"port is {options.port}; 0 to 65535 is possible")
    for name, value in (("ready-wait", options.ready_wait), ("clock-bound", options.clock_bound)):
        if value < 1:
            raise InvalidValue(f"{name} is {value:g}; at least 1 second is needed")
    start_log()
    listen(options.host, options.port).close()  # before a key is shown that nobody could use
    with closing(open_ledger(options.store, wait=options.wait)) as ledger:
        first = ensure_admin(ledger, os.environ.get("BELATED_ADMIN_KEY"))
    if first:
        out.note(f"The first admin key of this ledger, shown this once:\n\n    {first}\n")
    limits = Limits(wait=options.ready_wait, rate=options.rate, forget_after=options.forget_after)
    return run(
        ServerSettings(
            options.store,
            options.host,
            options.port,
            options.workers,
            limits,
            options.wait,
            options.clock_bound,
            options.clock_settle,
        )
    )


def ledger(options: argparse.Namespace, out: Output) -> int:
    """Verify or export the records of experiments."""
    path = options.store.removeprefix("sqlite:///")
    if path != options.store and not Path(path).exists():
        raise InvalidValue(f"there is no ledger at {path}")
    with closing(open_ledger(options.store)) as opened:
        if options.action == "forget":
            return forget(opened, options, out)
        return _verify(opened, options, out) if options.action == "verify" else _export(opened, options, out)


def _export(opened: Ledger, options: argparse.Namespace, out: Output) -> int:
    check_count("after", options.after, least=0)
    record = opened.find(options.experiment)
    if record is None:
        raise _unknown(opened, options.experiment)
    parts = pieces(opened, record, options.format, options.after)
    if options.out is None:
        for part in parts:
            out.raw(part)
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with create_private(options.out) as file:
        for part in parts:
            file.write(part)
    out.note(f"written: {options.out}")
    return 0


def _verify(opened: Ledger, options: argparse.Namespace, out: Output) -> int:
    names = options.experiments or [record.settings.name for record in opened.experiments()]
    if not names:
        out.note("no experiments")
    found = []
    with _client(options.url) if options.url else nullcontext() as client:
        for name in names:
            verdict = _verdict(opened, name, client, options.clock_bound)
            _show(verdict, out)
            found.append(verdict)
    out.json([_described(verdict) for verdict in found])
    return 1 if any(verdict.faults for verdict in found) else 0


def _client(url: str) -> "Client":
    from belated.client import Client

    return Client(url, retry_seconds=VERIFY_RETRY_SECONDS)


def _verdict(opened: Ledger, name: str, client: "Client | None", bound: float) -> Verdict:
    live = None
    if client:
        state = client.experiment(name, digest=True)
        live = (state.events, str(state.digest))
    record = opened.find(name)
    if record is None:
        raise _unknown(opened, name)
    return replay(opened, record, live, bound=int(bound * SECOND))


def _show(verdict: Verdict, out: Output) -> None:
    exact = (
        "bit for bit" if verdict.propensity_error == 0 else f"propensities off by up to {verdict.propensity_error:.3g}"
    )
    counted = f"{verdict.events:,} events, {verdict.rounds:,} rounds, {verdict.compared:,} states compared"
    out.line(f"{verdict.name}: {counted}: " + ("FAULTY" if verdict.faults else f"replayed {exact}"))
    for fault in verdict.faults[:MOST_FAULTS]:
        out.line(f"  {fault}")
    if len(verdict.faults) > MOST_FAULTS:
        out.line(f"  and {len(verdict.faults) - MOST_FAULTS} more; --json prints all")
    for note in verdict.notes[:MOST_FAULTS]:
        out.line(f"  note: {note}")
    if len(verdict.notes) > MOST_FAULTS:
        out.line(f"  and {len(verdict.notes) - MOST_FAULTS} more notes; --json prints all")


def _described(verdict: Verdict) -> dict[str, Any]:
    content = verdict._asdict()
    return {"experiment": content.pop("name"), "sound": not verdict.faults, **content}


def _unknown(opened: Ledger, name: str) -> InvalidValue:
    names = [record.settings.name for record in opened.experiments()]
    return InvalidValue(f"there is no experiment {name!r}; there are {', '.join(names) or 'none'}")
