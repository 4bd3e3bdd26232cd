"""`belated ledger`: verify, export, back up, restore, copy and migrate what the service has recorded."""

import argparse
import time
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

from belated.cli.output import Output
from belated.errors import InvalidValue, check_count
from belated.ledger import Ledger, open_ledger, read_ledger
from belated.ledger.events import SECOND
from belated.ledger.export import create_private, pieces
from belated.ledger.integrity import faults
from belated.ledger.migrations import MIGRATIONS
from belated.ledger.reading import Damaged, ReadingLedger
from belated.ledger.verify import Verdict
from belated.ledger.verify import verify as replay

if TYPE_CHECKING:
    from belated.client import Client

MOST_FAULTS = 20
VERIFY_RETRY_SECONDS = 5.0
"""Seconds to wait for a service whose live state is wanted."""


def ledger(options: argparse.Namespace, out: Output) -> int:
    """Do one of these."""
    return {
        "verify": _verify,
        "export": _export,
        "backup": _backup,
        "restore": _restore,
        "copy": _copy,
        "migrate": _migrate,
        "forget": _forget,
    }[options.action](options, out)


def _export(options: argparse.Namespace, out: Output) -> int:
    with closing(open_ledger(options.store, read_only=True)) as opened:
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


def _backup(options: argparse.Namespace, out: Output) -> int:
    from belated.ledger.backup import back_up

    begin = time.monotonic()
    back_up(options.store, options.file, options.force, out.note)
    _tell(f"sqlite:///{options.file}", begin, out)
    return 0


def _restore(options: argparse.Namespace, out: Output) -> int:
    from belated.ledger.backup import restore

    begin = time.monotonic()
    restore(options.file, options.store, out.note)
    _tell(options.store, begin, out)
    return 0


def _copy(options: argparse.Namespace, out: Output) -> int:
    from belated.ledger.backup import copy

    begin = time.monotonic()
    digest = copy(options.source, options.target, out.note)
    _tell(options.target, begin, out, f"; the digest of both is {digest}")
    return 0


def _forget(options: argparse.Namespace, out: Output) -> int:
    from belated.cli.forget import forget

    read_ledger(options.store).close()  # an error where there is no ledger: none is made
    with closing(open_ledger(options.store)) as opened:
        return forget(opened, options, out)


def _tell(store: str, begin: float, out: Output, more: str = "") -> None:
    """Say what a store has now."""
    with closing(read_ledger(store)) as written, written.committing() as connection:
        ((experiments, events),) = written.run(
            connection, "SELECT count(*), coalesce(sum(position), 0) FROM experiments"
        )
        ((keys,),) = written.run(connection, "SELECT count(*) FROM keys")
        counts = {"experiment": experiments, "event": int(events), "key": keys}
        counted = ", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for word, count in counts.items())
        out.line(f"{written.store}: {counted}, in {time.monotonic() - begin:.1f} s{more}")


def _migrate(options: argparse.Namespace, out: Output) -> int:
    with closing(read_ledger(options.store)) as there, there.committing() as connection:
        before = there.version(connection)  # an error where there is no ledger: none is made
    with closing(open_ledger(options.store)) as opened:
        done = MIGRATIONS[before:]
        for migration in done:
            out.line(f"{migration.number}: {migration.name}")
        out.line(f"{opened.store} is up to date" if done else f"{opened.store} was up to date")
    return 0


def _verify(options: argparse.Namespace, out: Output) -> int:
    with closing(read_ledger(options.store)) as opened:
        if wrong := _faults(opened):
            out.line(f"{opened.store}: FAULTY")
            _show_faults(wrong, out)
            out.json([{"experiment": None, "sound": False, "faults": wrong}])
            return 1
        opened.check_current()
        names = options.experiments or [record.settings.name for record in opened.experiments()]
        if not names:
            out.note("no experiments")
        found = []
        with _client(options.url) if options.url else nullcontext() as client:
            for name in names:
                verdict = _verdict(opened, name, client, options)
                _show(verdict, out)
                found.append(verdict)
    out.json([_described(verdict) for verdict in found])
    return 1 if any(verdict.faults for verdict in found) else 0


def _faults(opened: ReadingLedger) -> list[str]:
    try:
        return faults(opened)
    except Damaged as error:
        return [str(error)]


def _client(url: str) -> "Client":
    from belated.client import Client

    return Client(url, retry_seconds=VERIFY_RETRY_SECONDS)


def _verdict(opened: Ledger, name: str, client: "Client | None", options: argparse.Namespace) -> Verdict:
    live = None
    if client:
        state = client.experiment(name, digest=True)
        live = (state.events, str(state.digest))
    record = opened.find(name)
    if record is None:
        raise _unknown(opened, name)
    return replay(opened, record, live, tolerance=options.tolerance, bound=int(options.clock_bound * SECOND))


def _show(verdict: Verdict, out: Output) -> None:
    exact = (
        "bit for bit" if verdict.propensity_error == 0 else f"propensities off by up to {verdict.propensity_error:.3g}"
    )
    counted = f"{verdict.events:,} events, {verdict.rounds:,} rounds, {verdict.compared:,} states compared"
    out.line(f"{verdict.name}: {counted}: " + ("FAULTY" if verdict.faults else f"replayed {exact}"))
    _show_faults(verdict.faults, out)
    for note in verdict.notes[:MOST_FAULTS]:
        out.line(f"  note: {note}")
    if len(verdict.notes) > MOST_FAULTS:
        out.line(f"  and {len(verdict.notes) - MOST_FAULTS} more notes; --json prints all")


def _show_faults(found: list[str], out: Output) -> None:
    for fault in found[:MOST_FAULTS]:
        out.line(f"  {fault}")
    if len(found) > MOST_FAULTS:
        out.line(f"  and {len(found) - MOST_FAULTS} more; --json prints all")


def _described(verdict: Verdict) -> dict[str, Any]:
    content = verdict._asdict()
    return {"experiment": content.pop("name"), "sound": not verdict.faults, **content}


def _unknown(opened: Ledger, name: str) -> InvalidValue:
    names = [record.settings.name for record in opened.experiments()]
    return InvalidValue(f"there is no experiment {name!r}; there are {', '.join(names) or 'none'}")
