"""Cells of a log, a column at a time: empty ones, numbers, texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.logs.log import Floats

if TYPE_CHECKING:
    import polars

Mask = NDArray[np.bool_]
EMPTY = ("", "null", "NA", "nan", "NaN")
"""What stands for nothing, with blanks around it or not."""
_TRUTHS = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}


class Numbers(NamedTuple):
    """A column of numbers."""

    values: Floats
    """nan where there is none."""
    is_empty: Mask
    is_wrong: Mask
    """Whether a cell is not empty, and not a finite number."""


def numbers(column: "polars.Series", truths: bool = False) -> Numbers:
    """Return the numbers in a column. With `truths`, true is 1 and false is 0."""
    import polars

    if not (column.dtype.is_numeric() or (truths and column.dtype == polars.Boolean)):
        column = texts(column)
    read = column.cast(polars.Float64, strict=False)
    values = read.to_numpy(writable=True)
    is_empty = np.isnan(values) & (read.is_not_null() | column.is_null()).to_numpy()
    is_wrong = ~np.isfinite(values) & ~is_empty
    if column.dtype == polars.String and is_wrong.any():
        rest = picked(column, is_wrong).str.strip_chars()
        is_empty[is_wrong] = rest.is_in(EMPTY).to_numpy()
        rest = rest.replace(_TRUTHS) if truths else rest
        values[is_wrong] = rest.cast(polars.Float64, strict=False).to_numpy()
        is_wrong = ~np.isfinite(values) & ~is_empty
    return Numbers(np.where(is_empty, np.nan, values), is_empty, is_wrong)


def picked(column: "polars.Series", chosen: Mask) -> "polars.Series":
    """Return some cells of a column."""
    import polars

    return column.filter(polars.Series(chosen))


def texts(column: "polars.Series") -> "polars.Series":
    """Return a column as texts."""
    import polars

    if column.dtype == polars.String:
        return column
    if column.dtype == polars.Object or column.dtype.is_nested():
        return polars.Series(map(_text, column.to_list()), dtype=polars.String)
    return column.cast(polars.String)


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def is_empty(texts: "polars.Series") -> Mask:
    """Return which of the texts stand for nothing."""
    found: Mask = (texts.is_null() | texts.str.strip_chars().is_in(EMPTY)).to_numpy()
    return found


def column_of(name: str, values: Sequence[Any]) -> "polars.Series":
    """Return a column of plain values: of one kind, if they are; objects otherwise."""
    import polars

    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int} and not all(value is None or -(2**63) <= value < 2**63 for value in values):
        return polars.Series(name, values, dtype=polars.Object)
    for allowed, dtype in (
        ({str}, polars.String),
        ({int}, polars.Int64),
        ({bool}, polars.Boolean),
        ({int, float}, polars.Float64),
    ):
        if kinds <= allowed:
            return polars.Series(name, values, dtype=dtype, strict=False)
    return polars.Series(name, values, dtype=polars.Object)
