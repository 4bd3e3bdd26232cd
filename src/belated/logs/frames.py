"""Parquet files, and frames of polars and pandas, in pieces."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.errors import InvalidValue
from belated.logs.pieces import Piece
from belated.logs.rejections import Rejections
from belated.logs.values import column_of

if TYPE_CHECKING:
    import polars

ROWS = 2**19
"""How many rows are read at once."""


class ParquetFile:
    """A Parquet file."""

    word = "row"

    def __init__(self, path: Path) -> None:
        import polars

        self.name, self._path = str(path), path
        with path.open("rb"):
            pass  # what the system says of files that are not there is clearer
        self._frame = polars.scan_parquet(path, glob=False)
        try:
            self.columns: Sequence[str] = self._frame.collect_schema().names()
            self._rows = self._frame.select(polars.len()).collect().item()
        except polars.exceptions.PolarsError as error:
            raise InvalidValue(f"{path} is not a Parquet file: {error}", "path") from None
        if not self._rows:
            self.columns = ()

    def pieces(self, names: Sequence[str], rejections: Rejections, label: str | None = None) -> Iterator[Piece]:
        """Yield the rows with these columns."""
        chosen = self._frame.select(names)
        for start in range(0, self._rows, ROWS):
            yield _piece(chosen.slice(start, ROWS).collect(), start, rejections)


class Frame:
    """A frame of polars or pandas."""

    name, word = "the frame", "row"

    def __init__(self, frame: Any) -> None:
        self._frame = frame.collect() if hasattr(frame, "collect") else frame
        self.columns: Sequence[str] = [str(name) for name in self._frame.columns] if len(self._frame) else ()

    def pieces(self, names: Sequence[str], rejections: Rejections, label: str | None = None) -> Iterator[Piece]:
        """Yield the rows with these columns."""
        import polars

        if not isinstance(self._frame, polars.DataFrame):
            given = {str(name): name for name in self._frame.columns}
            for start in range(0, len(self._frame), ROWS):
                part = self._frame.iloc[start : start + ROWS]
                yield _piece(
                    polars.DataFrame([_from_pandas(name, part[given[name]]) for name in names]), start, rejections
                )
            return
        for start in range(0, len(self._frame), ROWS):
            yield _piece(self._frame.slice(start, ROWS).select(names), start, rejections)


def _piece(frame: "polars.DataFrame", start: int, rejections: Rejections) -> Piece:
    rejections.rows += len(frame)
    return Piece(frame, np.arange(start + 1, start + 1 + len(frame)))


def _from_pandas(name: str, column: Any) -> "polars.Series":
    """Return a column of pandas as one of polars, without pyarrow."""
    import polars

    is_zoned = getattr(column.dtype, "tz", None) is not None
    if is_zoned:
        column = column.dt.tz_convert(None)
    kind = getattr(column.dtype, "kind", "O") if isinstance(column.dtype, np.dtype) else "O"
    if kind in "biuf":
        return polars.Series(name, column.to_numpy())
    if kind in "mM":
        values = polars.Series(name, column.to_numpy().astype(f"{kind}8[us]"))
        return values.dt.replace_time_zone("UTC") if is_zoned else values
    missing = column.isna().tolist()
    return column_of(name, [None if none else value for value, none in zip(column.tolist(), missing, strict=True)])
