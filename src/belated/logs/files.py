"""Logs from files (CSV, lines of JSON, Parquet) and from frames of polars or pandas.

It has a row for each decision, in the order in which they were made; or it is an export of a ledger (`belated
ledger export`), with a row for each event. Errors name the line.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from belated.errors import InvalidValue, needs_extra, unknown
from belated.logs.events import EventLog
from belated.logs.log import Log

GUESSES = {
    "arm": ("arm", "action", "variant", "treatment", "arm_name", "item_id"),
    "reward": ("reward", "outcome", "success", "converted", "conversion", "click"),
    "loss": ("loss",),
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "action_prob"),
    "order": ("round", "time", "timestamp", "at", "date", "datetime"),
    "id": ("decision", "decision_id", "id"),
}
"""What a column is for -> the names by which it is found, if none is given."""
FORMATS = (".csv", ".ndjson", ".jsonl", ".parquet")
_OUTCOMES = ("outcome", "default")
_EMPTY = (None, "", "null", "NA", "nan", "NaN")

Row = Mapping[str, Any]


def read_log(path: str | Path, **columns: str | None) -> Log:
    """Return the log in a file.

    Parameters
    ----------
    path
        A file that ends in .csv, .ndjson, .jsonl or .parquet.
    columns
        The names of columns, where they are not what one would guess: arm, reward or loss, propensity, order (a round
        or a time, which must not go back), id.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise InvalidValue(f"{path} ends in {path.suffix!r}; one of {', '.join(FORMATS)} is needed", "path")
    return _log(str(path), _rows(path), columns)


def columns_of(path: str | Path, **columns: str | None) -> dict[str, str]:
    """Return which columns of a file are used, and what for; none, where it has events."""
    _, first = next(_rows(Path(path)))
    return {} if _has_events(first) else _named(str(path), first, columns)


def _has_events(row: Row) -> bool:
    """Return whether a row is one of an exported ledger."""
    return "kind" in row and "receipt" in row


def frame_log(frame: Any, **columns: str | None) -> Log:
    """Return the log in a frame of polars or pandas; columns are found and named as in `read_log`."""
    rows = frame.iter_rows(named=True) if hasattr(frame, "iter_rows") else iter(frame.to_dict("records"))
    return _log("the frame", enumerate(rows, 1), columns)


def _log(source: str, rows: Iterator[tuple[int, Row]], columns: Mapping[str, str | None]) -> Log:
    for what in columns:
        if what not in GUESSES:
            raise unknown("column", what, GUESSES)
    begin = next(rows, None)
    if begin is None:
        raise InvalidValue(f"{source} has no rows; at least one decision is needed", "path")
    first, rows = begin[1], chain([begin], rows)
    if _has_events(first):
        return _from_events(source, rows)
    return _from_decisions(source, rows, _named(source, first, columns))


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the number of each line, the first is 1, and what stands in it."""
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    with path.open(newline="", encoding="utf-8-sig") as file:
        if path.suffix == ".csv":
            reader = csv.DictReader(file, strict=True)
            try:
                for row in reader:
                    if None in row or None in row.values():
                        raise InvalidValue(
                            f"{path}, line {reader.line_num}: {len(reader.fieldnames or ())} cells are needed, as in"
                            " the first line",
                            "path",
                        )
                    yield reader.line_num, row
            except (csv.Error, UnicodeDecodeError) as error:
                raise InvalidValue(f"{path}, line {reader.line_num + 1}: {error}", "path") from None
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise InvalidValue(f"{path}, line {number}: not JSON: {error}", "path") from None
                if not isinstance(row, dict):
                    raise InvalidValue(
                        f"{path}, line {number}: an object is needed, {line.strip()[:40]!r} is none", "path"
                    )
                yield number, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with needs_extra("Parquet", "parquet"):
        import pyarrow.parquet
    number = 0
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, row


def _named(source: str, first: Row, columns: Mapping[str, str | None]) -> dict[str, str]:
    """Return what each column is for -> its name."""
    found = {}
    for what, guesses in GUESSES.items():
        given = columns.get(what)
        if given is not None:
            if given not in first:
                raise InvalidValue(f"{source} has no column {given!r}; there are {', '.join(first)}", what)
            found[what] = given
            continue
        name = next((guess for guess in guesses if guess in first), None)
        if name is not None and not (what in ("reward", "loss") and (columns.get("reward") or columns.get("loss"))):
            found[what] = name
    if "arm" not in found:
        raise InvalidValue(f"{source} has no column for the arm; name it: there are {', '.join(first)}", "arm")
    if "reward" in found and "loss" in found:
        raise InvalidValue(
            f"{source} has the columns {found['reward']!r} and {found['loss']!r}; name the one that counts", "reward"
        )
    if "reward" not in found and "loss" not in found:
        raise InvalidValue(
            f"{source} has no column for the reward or the loss; name it: there are {', '.join(first)}", "reward"
        )
    return found


def _from_decisions(source: str, rows: Iterator[tuple[int, Row]], named: dict[str, str]) -> Log:
    events = EventLog()
    outcome = "loss" if "loss" in named else "reward"
    before: Any = None

    def note(number: int, row: Row) -> None:
        nonlocal before
        id = row[named["id"]] if "id" in named else number
        arm = row[named["arm"]]
        if arm in _EMPTY:
            raise InvalidValue(f"{named['arm']} is empty; the label of an arm is needed", "arm")
        if "order" in named:
            before = _in_order(named["order"], row[named["order"]], before)
        events.decided(id, arm, _number(row, named.get("propensity")))
        if _number(row, named[outcome]) is not None:
            value = _share(row, named[outcome])
            events.came(id, value if outcome == "loss" else 1.0 - value)

    _note_all(source, rows, note)
    log = events.log()
    # a row does not say when its outcome came
    return Log(log.labels, log.arms, log.rewards, log.propensities)


def _from_events(source: str, rows: Iterator[tuple[int, Row]]) -> Log:
    events = EventLog()

    def note(number: int, row: Row) -> None:
        if row["kind"] == "decision":
            events.decided(_whole(row, "round"), row["arm"], _number(row, "propensity"))
        elif row["kind"] in _OUTCOMES:
            events.came(_whole(row, "round"), _share(row, "loss"))

    _note_all(source, rows, note)
    return events.log()


def _note_all(source: str, rows: Iterator[tuple[int, Row]], note: Callable[[int, Row], None]) -> None:
    """Note all rows; an error names the line."""
    for number, row in rows:
        try:
            note(number, row)
        except InvalidValue as error:
            raise InvalidValue(f"{source}, line {number}: {error}", error.field) from None
        except KeyError as error:
            raise InvalidValue(f"{source}, line {number}: there is no {error.args[0]!r}", "path") from None


def _share(row: Row, name: str) -> float:
    value = _number(row, name)
    if value is None or not 0.0 <= value <= 1.0:
        raise InvalidValue(f"{name} is {row[name]!r}; a number from 0 to 1 is needed", name)
    return value


def _number(row: Row, name: str | None) -> float | None:
    if name is None or row[name] in _EMPTY:
        return None
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        raise InvalidValue(f"{name} is {row[name]!r}; a number is needed", name) from None
    return None if value != value else value


def _whole(row: Row, name: str) -> int:
    try:
        return int(row[name])
    except (TypeError, ValueError):
        raise InvalidValue(f"{name} is {row[name]!r}; a whole number is needed", name) from None


def _in_order(name: str, value: Any, before: Any) -> Any:
    """Return a round or a time that must not go back: numbers as numbers, all else as it is written."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        value = str(value)
    if before is not None and type(value) is type(before) and value < before:
        raise InvalidValue(
            f"{name} goes back from {before} to {value}; decisions are needed in the order in which they were made",
            name,
        )
    return value
