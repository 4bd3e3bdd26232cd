"""A column of a file in the user's own units, with the arm of each row: revenue, minutes, errors."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from belated.errors import InvalidValue
from belated.logs.columns import GUESSES
from belated.logs.files import check_bad_rows, check_rows, source_of
from belated.logs.labels import Labels
from belated.logs.log import Arm, Floats
from belated.logs.pieces import Source
from belated.logs.rejections import NO_NUMBER, Checked, Rejections
from belated.logs.values import numbers

VALUE_GUESSES = ("value", "revenue", "amount", "reward", "loss")
"""The names by which the column is found, if none is given."""


class ReadValues(NamedTuple):
    """Values and how they were read."""

    values: Floats
    """nan where a cell is empty."""
    arms: list[Arm] | None
    """The arm of each value; None if the file has no column for it."""
    columns: dict[str, str]
    """What for -> the name of the column that was used."""
    rejections: Rejections
    """The rows that were left out."""


def read_values(
    path: str | Path, *, value: str | None = None, arm: str | None = None, bad_rows: str = "refuse"
) -> ReadValues:
    """Return the values in a column of a CSV, NDJSON or Parquet file, whatever their size.

    Parameters
    ----------
    path
        A file that ends in .csv, .ndjson, .jsonl or .parquet.
    value, arm
        The names of columns, where they are not what one would guess. A file need not have arms.
    bad_rows
        What becomes of rows that cannot be read: "refuse" or "leave out".
    """
    check_bad_rows(bad_rows)
    source = source_of(path)
    rejections = Rejections(source.name, source.word)
    columns = _columns(source, value, arm)
    labels, parts = Labels(), [(np.zeros(0), np.zeros(0, dtype=np.int64))]
    for piece in source.pieces(list(dict.fromkeys(columns.values())), rejections, columns.get("arm")):
        rows = Checked(piece.frame, piece.lines, rejections)
        if columns:
            found = numbers(rows.frame[columns["value"]], truths=True)
            rows.reject(found.is_wrong, columns["value"], NO_NUMBER)
            places = labels.places(rows, columns["arm"]) if "arm" in columns else np.zeros_like(piece.lines)
            parts.append((found.values[rows.good], places[rows.good]))
    check_rows(source, rejections, bad_rows)
    values, arms = (np.concatenate(each) for each in zip(*parts, strict=True))
    if "arm" not in columns:
        return ReadValues(values, None, columns, rejections)
    known, arms, _ = labels.sorted(arms)
    return ReadValues(values, [known[k] for k in arms], columns, rejections)


def _columns(source: Source, value: str | None, arm: str | None) -> dict[str, str]:
    """Return what for -> the name of a column, as it is given or found; none of a source without rows."""
    found = {}
    for what, given, guesses in (("value", value, VALUE_GUESSES), ("arm", arm, GUESSES["arm"])):
        names = source.columns
        if given is not None and names and given not in names:
            raise InvalidValue(f"{source.name} has no column {given!r}; there are {', '.join(names)}", what)
        name = next((name for name in ([given] if given else guesses) if name in names), None)
        if name is not None and names.count(name) > 1:
            raise InvalidValue(f"{source.name} has the column {name!r} twice; it is needed once", what)
        if name is not None:
            found[what] = name
        elif what == "value" and names:
            raise InvalidValue(
                f"{source.name} has no column for the value; name it: there are {', '.join(names)}", what
            )
    return found
