"""Logs from files (CSV, lines of JSON, Parquet) and from frames of polars or pandas.

They have a row for each decision; or they are exports of a ledger (`belated ledger export`), with a row for each event.
Errors name the line.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from belated.errors import InvalidValue, needs_extra, unknown
from belated.logs.columns import check_known, found_columns, has_events
from belated.logs.csv_files import CsvFile
from belated.logs.decisions import DecisionReader
from belated.logs.exports import EventReader
from belated.logs.frames import Frame, ParquetFile
from belated.logs.json_files import JsonFile
from belated.logs.log import Arm, Log
from belated.logs.pieces import Source
from belated.logs.rejections import Rejections
from belated.logs.scale import Scale

_KINDS: dict[str, Callable[[Path], Source]] = {
    ".csv": CsvFile,
    ".ndjson": JsonFile,
    ".jsonl": JsonFile,
    ".parquet": ParquetFile,
}
FORMATS = tuple(_KINDS)
BAD_ROWS = ("refuse", "leave out")


class ReadLog(NamedTuple):
    """A log and how it was read."""

    log: Log
    columns: dict[str, str]
    """What for -> the name of the column that was used; none, where the file has events."""
    rejections: Rejections
    """The rows that were left out."""
    notes: tuple[str, ...]
    """What was done with the log, in sentences."""


def read_log(
    path: str | Path,
    *,
    bad_rows: str = "refuse",
    arms: Sequence[Arm] | None = None,
    accrual: float | None = None,
    scale: Scale | None = None,
    **columns: str | None,
) -> Log:
    """Return the log in a file.

    Parameters
    ----------
    path
        A file that ends in .csv, .ndjson, .jsonl or .parquet.
    bad_rows
        What becomes of rows that cannot be read: "refuse" raises an error that names the first, "leave out" leaves them
        out; `read_log_file` lists them.
    arms
        The labels of all arms, in their order; otherwise those that were chosen count, sorted.
    accrual
        How many decisions are made in a unit of the delay, where a log has delays, but no times; default: 1.
    scale
        The range of outcomes in units of their own, such as revenue: a column `value` is then read in place of a reward
        or a loss, if there is one. Values beyond the range are clipped and counted, or bad, as the scale says.
    columns
        The names of columns, where they are not what one would guess: arm; reward, loss or value; propensity, of the
        chosen arm; distribution, of every arm, as a JSON object; time, when the decision was made: a round, a number or
        a date; outcome_time, when its outcome came, or delay, how much time it took; id.
    """
    return read_log_file(path, bad_rows=bad_rows, arms=arms, accrual=accrual, scale=scale, **columns).log


def read_log_file(
    path: str | Path,
    *,
    bad_rows: str = "refuse",
    arms: Sequence[Arm] | None = None,
    accrual: float | None = None,
    scale: Scale | None = None,
    **columns: str | None,
) -> ReadLog:
    """Return the log in a file, with the columns that were used, the rows that were left out, and notes.

    Parameters are those of `read_log`.
    """
    check_known(columns)
    return _read(source_of(path), bad_rows, arms, accrual, scale, columns)


def source_of(path: str | Path) -> Source:
    """Return a file as something with rows."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InvalidValue(f"{path} ends in {path.suffix!r}; one of {', '.join(FORMATS)} is needed", "path")
    with needs_extra("reading logs", "logs"):
        import polars  # noqa: F401
    return _KINDS[suffix](path)


def frame_log(
    frame: Any,
    *,
    bad_rows: str = "refuse",
    arms: Sequence[Arm] | None = None,
    accrual: float | None = None,
    scale: Scale | None = None,
    **columns: str | None,
) -> Log:
    """Return the log in a frame of polars or pandas; parameters are those of `read_log`."""
    check_known(columns)
    with needs_extra("reading logs", "logs"):
        import polars  # noqa: F401
    return _read(Frame(frame), bad_rows, arms, accrual, scale, columns).log


def _read(
    source: Source,
    bad_rows: str,
    arms: Sequence[Arm] | None,
    accrual: float | None,
    scale: Scale | None,
    columns: Mapping[str, str | None],
) -> ReadLog:
    check_bad_rows(bad_rows)
    rejections = Rejections(source.name, source.word)
    found: dict[str, str] = {}
    reader: EventReader | DecisionReader | None = None
    if has_events(source.columns):
        reader = EventReader(source, rejections, arms)
    elif source.columns:
        found = found_columns(source.name, source.columns, columns, scale is not None)
        reader = DecisionReader(source, found, rejections, arms, accrual, scale)
    if reader is not None:
        reader.read()
    else:
        # there is not even one row that would tell the columns; the pieces tell why
        for _ in source.pieces((), rejections):
            pass
    check_rows(source, rejections, bad_rows)
    assert reader is not None  # there are columns
    return ReadLog(reader.log(), found, rejections, tuple(reader.notes))


def check_bad_rows(bad_rows: str) -> None:
    """Refuse a way with bad rows that is none."""
    if bad_rows not in BAD_ROWS:
        raise unknown("way with bad rows", bad_rows, BAD_ROWS, "bad_rows")


def check_rows(source: Source, rejections: Rejections, bad_rows: str) -> None:
    """Refuse bad rows unless they may be left out, and a source of which nothing is left."""
    if rejections.total and bad_rows == "refuse":
        raise rejections.error
    if rejections.total == rejections.rows or not source.columns:
        rows = f"rows that can be read: {rejections.sentence}" if rejections.total else "rows"
        raise InvalidValue(f"{source.name} has no {rows}; at least one decision is needed", "path")
