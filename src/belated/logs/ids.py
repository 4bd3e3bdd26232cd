"""Decisions that are there twice, told by their ids."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from belated.logs.log import Integers
from belated.logs.pieces import Source
from belated.logs.rejections import TWICE, Checked, Rejections
from belated.logs.values import Mask, is_empty, picked, texts

if TYPE_CHECKING:
    import polars


class Ids:
    """Keeps a hash of each id. Where two are alike, the ids themselves are read once more."""

    def __init__(self, source: Source, name: str, rejections: Rejections) -> None:
        """name: of the column with ids."""
        self._source, self._name, self._rejections = source, name, rejections
        self._hashes: list[NDArray[np.uint64]] = []
        self._lines: list[Integers] = []

    def add(self, rows: Checked) -> None:
        """Note the ids of the good rows."""
        self._hashes.append(texts(rows.frame[self._name]).hash(0).to_numpy()[rows.good])
        self._lines.append(rows.lines[rows.good])

    def is_later(self) -> Mask | None:
        """Return which of the good rows have an id that was there before, None if there are none; reject them.

        Empty ids are not compared.
        """
        if not self._hashes:
            return None
        hashes = np.concatenate(self._hashes)
        in_order = np.sort(hashes)
        alike = in_order[1:][in_order[1:] == in_order[:-1]]
        if not alike.size:
            return None
        places = np.flatnonzero(np.isin(hashes, alike))
        lines = np.concatenate(self._lines)[places]
        twins = self._twins(lines)
        if not len(twins):
            return None
        reject_twins(self._rejections, self._name, twins)
        mask = np.zeros(hashes.size, dtype=np.bool_)
        mask[places[np.searchsorted(lines, twins["line"].to_numpy())]] = True
        return mask

    def _twins(self, lines: Integers) -> "polars.DataFrame":
        """Return line, value and first line of the ids that were there before, out of those in some lines."""
        import polars

        parts = []
        for piece in self._source.pieces([self._name], Rejections()):
            read = np.isin(piece.lines, lines, assume_unique=True)
            values = picked(texts(piece.frame[self._name]), read)
            parts.append(polars.DataFrame({"line": piece.lines[read], "value": values}))
        found = polars.concat(parts)
        return later_twins(found.filter(polars.Series(~is_empty(found["value"]))))


def later_twins(rows: "polars.DataFrame") -> "polars.DataFrame":
    """Return the rows whose value is that of an earlier row, each with the first line that has it."""
    import polars

    first = polars.col("line").first().over("value")
    return rows.with_columns(first.alias("first")).filter(polars.col("line") != polars.col("first"))


def reject_twins(rejections: Rejections, name: str, twins: "polars.DataFrame") -> None:
    """Note decisions that were there before."""
    import polars

    detail = twins.select(polars.format(f"first in {rejections.word} {{}}", "first"))
    rejections.add(twins["line"].to_numpy(), name, twins["value"].cast(polars.String), TWICE, detail.to_series())
