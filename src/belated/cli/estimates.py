"""`belated estimates`: which arm wins, and how sure."""

import argparse
from contextlib import closing
from pathlib import Path

from belated import inference
from belated.cli.output import Output
from belated.errors import InvalidValue, needs_extra
from belated.inference import Log, course, read_log
from belated.logs.files import FORMATS, GUESSES, columns_of
from belated.report import figures
from belated.report.estimates import arms_table, differences_table, draw_course, sentences


def estimates(options: argparse.Namespace, out: Output) -> int:
    """Print what is known of the arms of an experiment, or of a log; draw intervals over time."""
    kind = _kind(options.figure)
    log = _log(options, out)
    labels = {str(label): label for label in log.labels}
    found = inference.estimates(
        log,
        alpha=options.alpha,
        control=labels.get(options.control, options.control),
        method=options.method,
        outcomes=options.outcomes,
        deadline=options.deadline,
        missing_loss=options.missing_loss,
    )
    out.text(found.verdict, arms_table(found))
    if found.differences:
        out.text(differences_table(found))
    out.result(found.as_dict(), sentences(found))
    if options.figure is not None:
        if options.deadline is not None:
            log = log.with_deadline(options.deadline, 1.0 if options.missing_loss is None else options.missing_loss)
        drawn = draw_course(course(log, alpha=options.alpha, method=options.method, outcomes=options.outcomes))
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        out.note("written: " + ", ".join(map(str, figures.save(drawn, options.figure, [kind]))))
    return 0


def _kind(figure: Path | None) -> str:
    """Return which kind of file a figure is to be."""
    kind = "png" if figure is None else figure.suffix.removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise InvalidValue(f"the figure is {str(figure)!r}; a name that ends in .png, .svg or .pdf is needed")
    return kind


def _log(options: argparse.Namespace, out: Output) -> Log:
    """Return the log in a file, or of an experiment in the ledger."""
    path = Path(options.source)
    columns = {what: getattr(options, what) for what in GUESSES}
    if path.suffix in FORMATS:
        log = read_log(path, **columns)
        if found := columns_of(path, **columns):
            out.note("columns: " + ", ".join(f"{what} is {name!r}" for what, name in found.items()))
        return log
    if path.is_file():
        raise InvalidValue(f"{path} ends in {path.suffix!r}; a file must end in {', '.join(FORMATS)}")
    for what, name in columns.items():
        if name is not None:
            raise InvalidValue(f"--{what} is {name!r}, but {options.source!r} is not a file with columns", what)
    with needs_extra("the ledger", "service"):
        from belated.ledger import open_ledger
        from belated.ledger.estimates import log_of
    with closing(open_ledger(options.store, read_only=True)) as ledger:
        record = ledger.find(options.source)
        if record is None:
            names = ", ".join(each.name for each in ledger.all_outlines()) or "none"
            raise InvalidValue(
                f"there is no experiment {options.source!r} in {ledger.store}: there are {names}; a file must end in"
                f" {', '.join(FORMATS)}"
            )
        return log_of(ledger, record)
