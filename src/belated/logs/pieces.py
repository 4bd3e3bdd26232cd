"""Logs in pieces: frames of rows, with the number of the line that each row begins in."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from belated.logs.log import Integers
from belated.logs.rejections import Rejections

if TYPE_CHECKING:
    import polars


class Piece(NamedTuple):
    """Some rows of a log."""

    frame: "polars.DataFrame"
    lines: Integers


class Source(Protocol):
    """Something with rows."""

    name: str
    """As errors name it."""
    word: str
    """What its rows are counted in: line or row."""
    columns: Sequence[str]
    """The names of its columns; none if it has no rows."""

    def pieces(self, names: Sequence[str], rejections: Rejections, label: str | None = None) -> Iterator[Piece]:
        """Yield the rows with these columns; rows that cannot be read as rows are noted as rejected.

        label: the column in which whole numbers and texts are told apart, if the source can do that.
        """
        ...


def merged(piece: Piece, other: Piece) -> Piece:
    """Return the rows of both in the order of their lines."""
    import polars

    if not other.lines.size:
        return piece
    lines = np.concatenate([piece.lines, other.lines])
    order = np.argsort(lines, kind="stable")
    return Piece(polars.concat([piece.frame, other.frame])[order], lines[order])
