"""`belated ledger forget`: erase the ids of decisions."""

import argparse

from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.ledger import Ledger
from belated.ledger.events import ExperimentRecord, when
from belated.ledger.forget import Ids, Matching, Older, Which, count
from belated.ledger.forget import forget as erase


def forget(opened: Ledger, options: argparse.Namespace, out: Output) -> int:
    """Erase ids, count what would be erased, or list what was."""
    if options.list:
        _list(opened, out)
        return 0
    which = _which(options)
    found = {}
    for record in _records(opened, options):
        name = record.settings.name
        found[name] = count(opened, record, which) if options.dry_run else erase(opened, record, which)
        out.line(f"{name}: {found[name]:,} ids {'would be ' if options.dry_run else ''}erased")
    out.json({"erased": not options.dry_run, "ids": found})
    is_due = options.rewrite or any(found.values())
    if not options.dry_run and is_due and not opened.scrub(options.rewrite):
        raise InvalidValue("the ids are erased, but readers kept their last copies in the log; run the command again")
    return 0


def _which(options: argparse.Namespace) -> Which:
    if options.id:
        return Ids(tuple(options.id))
    if options.matching is not None:
        return Matching(options.matching)
    if options.older_than is not None:
        return Older(options.older_than)
    raise InvalidValue("nothing to erase is named; one of --id, --matching and --older-than is needed")


def _records(opened: Ledger, options: argparse.Namespace) -> list[ExperimentRecord]:
    records = opened.experiments()
    if options.all and options.experiment is None:
        return records
    if options.all or options.experiment is None:
        raise InvalidValue("an experiment is needed, or --all for all experiments, not both")
    named = [record for record in records if record.settings.name == options.experiment]
    if not named:
        known = ", ".join(record.settings.name for record in records)
        raise InvalidValue(f"there is no experiment {options.experiment!r}; there are {known or 'none'}")
    return named


def _list(opened: Ledger, out: Output) -> None:
    from belated.report.columns import Column, Table

    names = {record.number: record.settings.name for record in opened.experiments()}
    done = [(when(each.at), names[each.experiment], each.ids, each.what) for each in opened.erasures()]
    data = [dict(zip(("at", "experiment", "ids", "what"), each, strict=True)) for each in done]
    columns = [Column("at"), Column("experiment", fold=True), Column("ids", right=True), Column("what")]
    out.result(data, Table(columns, [[at[:19], name, f"{ids:,}", what] for at, name, ids, what in done]))
