"""The log that a command is given: of an experiment in the ledger, or in a file."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from belated.cli.output import Output
from belated.errors import InvalidValue, needs_extra
from belated.logs import Log, ReadLog, read_log_file
from belated.logs.columns import GUESSES
from belated.logs.files import FORMATS
from belated.logs.rejections import LEAVE_OUT, Rejections
from belated.logs.scale import Scale


def is_file(source: str) -> bool:
    """Return whether a source is a file with a log, not the name of an experiment."""
    return Path(source).suffix.lower() in FORMATS


def log_of_options(options: argparse.Namespace, out: Output) -> ReadLog:
    """Return the log that is asked for; say how it was read."""
    path = Path(options.source)
    if is_file(options.source):
        return _log_of_file(options, out)
    if path.is_file():
        raise InvalidValue(f"{path} ends in {path.suffix!r}; a file must end in {', '.join(FORMATS)}")
    for what in (*GUESSES, "arms", "accrual", "rejected"):
        if (given := getattr(options, what)) is not None:
            name = what.replace("_", "-")
            raise InvalidValue(f"--{name} is {given!r}, but {options.source!r} is not a file with columns", what)
    return ReadLog(log_of_experiment(options.source, options.store), {}, Rejections(), ())


def scale_of_options(options: argparse.Namespace) -> Scale | None:
    """Return the units of outcomes, if any are given."""
    lowest, highest = options.lowest, options.highest
    if lowest is None and highest is None:
        if options.better is not None:
            raise InvalidValue(f"--better is {options.better!r}; it needs --lowest and --highest", "better")
        return None
    if lowest is None or highest is None:
        missing = "lowest" if lowest is None else "highest"
        raise InvalidValue(f"--{missing} is missing; a range has a lowest and a highest value", missing)
    return Scale(lowest, highest, options.better or "higher")


def scale_of_source(options: argparse.Namespace) -> Scale | None:
    """Return the units of outcomes: those that are given, else those of the experiment, if it is one."""
    given = scale_of_options(options)
    if given is not None or is_file(options.source):
        return given
    with experiment(options.source, options.store) as (_, record):
        own: Scale | None = record.settings.scale
        return own


def _log_of_file(options: argparse.Namespace, out: Output) -> ReadLog:
    columns = {what: getattr(options, what) for what in GUESSES}
    bad_rows = options.bad_rows.replace("-", " ")
    try:
        read = read_log_file(
            options.source,
            bad_rows=bad_rows,
            arms=options.arms,
            accrual=options.accrual,
            scale=scale_of_options(options),
            **columns,
        )
    except InvalidValue as error:
        raise InvalidValue(str(error).replace(LEAVE_OUT, "--bad-rows leave-out"), error.field) from None
    say_how_it_was_read(read.columns, read.notes, read.rejections, options.rejected, out)
    return read


def say_how_it_was_read(
    columns: Mapping[str, str], notes: Sequence[str], rejections: Rejections, rejected: Path | None, out: Output
) -> None:
    """Note which columns of a file were used and which rows were left out; write a list of these where asked."""
    if columns:
        out.note("columns: " + ", ".join(f"{what} is {name!r}" for what, name in columns.items()))
    for note in notes:
        out.note(note)
    if rejections.total:
        out.note(rejections.sentence)
    if rejected is not None:
        rejections.write(rejected)
        out.note(f"written: {rejected}")


@contextmanager
def experiment(name: str, store: str) -> Iterator[tuple[Any, Any]]:
    """Open a ledger to be read; yield it, and what it has of the experiment of that name."""
    with needs_extra("the ledger", "service"):
        from belated.ledger import open_ledger
    with closing(open_ledger(store, read_only=True)) as ledger:
        record = ledger.find(name)
        if record is None:
            names = ", ".join(each.name for each in ledger.all_outlines()) or "none"
            raise InvalidValue(
                f"there is no experiment {name!r} in {ledger.store}: there are {names}; a file must end in"
                f" {', '.join(FORMATS)}"
            )
        yield ledger, record


def log_of_experiment(name: str, store: str) -> Log:
    """Return the log of an experiment in the ledger."""
    with experiment(name, store) as (ledger, record):
        from belated.ledger.estimates import log_of

        return log_of(ledger, record)
