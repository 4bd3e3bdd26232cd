"""CSV files in pieces.

A piece that is laid out as it should be is read by polars; whether it is, is told by the places of its separators,
quotes and ends of lines. All others are read line by line, which knows what is wrong with which line.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.logs.csv_rows import LONGEST, Block, Fault, Rows
from belated.logs.log import Integers
from belated.logs.pieces import Piece
from belated.logs.rejections import CELLS, Reason, Rejections, add_faults
from belated.logs.values import Mask

if TYPE_CHECKING:
    import polars

SIZE = 2**24
"""How many bytes are read at once."""
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


class CsvFile:
    """A CSV file, with a header."""

    word = "line"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with path.open("rb") as file:
            text, self._start, self._line = self._header(file)
        self._separator = "," if "," in text else max(";\t,", key=text.count)
        try:
            cells = next(csv.reader([text], delimiter=self._separator, strict=True), [])
        except csv.Error as error:
            raise InvalidValue(f"{path}, line {self._line - 1}: {error}", "path") from None
        self.columns: Sequence[str] = [cell.strip() for cell in cells]

    def _header(self, file: BinaryIO) -> tuple[str, int, int]:
        """Return the first line that is not blank, where the next one begins, and its number."""
        number, start = 0, 0
        for line in file:
            number, start = number + 1, start + len(line)
            try:
                text = line.removeprefix(_BOM if number == 1 else b"").decode().strip("\r\n")
            except UnicodeDecodeError as error:
                raise InvalidValue(f"{self._path}, line {number}: not UTF-8: {error}", "path") from None
            if text.strip():
                return text, start, number + 1
        return "", start, number + 1

    def pieces(self, names: Sequence[str], rejections: Rejections, label: str | None = None) -> Iterator[Piece]:
        """Yield the rows with these columns."""
        places = [self.columns.index(name) for name in names]
        line, rest = self._line, b""
        with self._path.open("rb") as file:
            file.seek(self._start)
            is_last = False
            while not is_last:
                data = file.read(SIZE)
                is_last = not data
                block, rest = _whole_lines(rest + data, is_last)
                if block:
                    piece, used = self._read(Block(block, line, is_last), places, names, rejections)
                    yield piece
                    line += block.count(b"\n", 0, used)
                    rest = block[used:] + rest

    def _read(
        self, block: "Block", places: Sequence[int], names: Sequence[str], rejections: Rejections
    ) -> tuple[Piece, int]:
        """Return the rows of a block, and how many bytes they take: a row may go on in the next block."""
        layout = _layout(block, ord(self._separator), len(self.columns) - 1)
        frame = None if layout is None else _read_at_once(layout, self._separator, places, names)
        if layout is not None and frame is not None:
            rejections.rows += len(frame)
            return Piece(frame, layout.lines), layout.used
        return self._read_by_line(block, places, names, rejections)

    def _read_by_line(
        self, block: "Block", places: Sequence[int], names: Sequence[str], rejections: Rejections
    ) -> tuple[Piece, int]:
        import polars

        cells: list[list[str]] = [[] for _ in places]
        lines: list[int] = []
        faults: list[tuple[int, str, Reason, str]] = []
        rows = Rows(block, self._separator)
        for line, row in rows:
            if isinstance(row, Fault):
                faults.append((line, *row))
            elif len(row) != len(self.columns):
                told = f"{len(self.columns)} cells are needed, as in the first line; there are {len(row)}"
                faults.append((line, self._separator.join(row), CELLS, told))
            else:
                lines.append(line)
                for place, column in zip(places, cells, strict=True):
                    column.append(row[place])
        add_faults(rejections, faults)
        rejections.rows += len(lines) + len(faults)
        frame = polars.DataFrame(dict(zip(names, cells, strict=True)), schema=dict.fromkeys(names, polars.String))
        return Piece(frame, np.array(lines, dtype=np.int64)), rows.used


def _whole_lines(data: bytes, is_last: bool) -> tuple[bytes, bytes]:
    """Return the whole lines, and what is left of the last one."""
    if is_last:
        return (data if data.endswith(b"\n") or not data else data + b"\n"), b""
    cut = data.rfind(b"\n") + 1
    return data[:cut], data[cut:]


class _Layout(NamedTuple):
    """A block in which every row has its cells."""

    data: bytes
    """Without blank lines."""
    lines: Integers
    """The line in which each row begins."""
    has_quotes: bool
    used: int
    """Bytes of the block."""


def _layout(block: Block, separator: int, separators: int) -> _Layout | None:
    """Return how a block is laid out; None where it is not as it should be."""
    data = block.data
    # a return that ends no line is a blank; polars takes some for more
    if not separators or b"\0" in data or data.count(b"\r") != data.count(b"\r\n") or not _is_utf8(data):
        return None
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    all_ends = ends = np.flatnonzero(bytes_ == _NEWLINE)
    marks = np.flatnonzero(bytes_ == separator)
    has_quotes = b'"' in data
    if has_quotes:
        inside = _inside_quotes(bytes_, separator)
        if inside is None:
            return None
        ends, marks = ends[~inside[ends]], marks[~inside[marks]]
        if not ends.size or (block.is_last and ends[-1] != all_ends[-1]):
            return None
    used = int(ends[-1]) + 1
    starts = np.concatenate([[0], ends[:-1] + 1])
    lines = block.line + (np.arange(ends.size) if ends.size == all_ends.size else np.searchsorted(all_ends, starts))
    lengths = ends - starts
    if lengths.max() > LONGEST or len(data) - used > LONGEST:
        return None
    is_blank = (lengths == 0) | ((lengths == 1) & (bytes_[starts] == _RETURN))
    if is_blank.any():
        kept = np.ones(used, dtype=np.bool_)
        kept[ends[is_blank]] = False
        kept[starts[is_blank]] = False
        data = bytes_[:used][kept].tobytes()
        starts, ends, lines = starts[~is_blank], ends[~is_blank], lines[~is_blank]
    elif used < len(data):
        data = data[:used]
    marks = marks[: np.searchsorted(marks, used)]
    if marks.size != separators * ends.size:
        return None
    table = marks.reshape(-1, separators)
    if (table[:, 0] < starts).any() or (table[:, -1] > ends).any():
        return None
    return _Layout(data, lines, has_quotes, used)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inside_quotes(bytes_: NDArray[np.uint8], separator: int) -> Mask | None:
    """Return which bytes are inside quotes; None if a quote is not at the begin or the end of a cell, or doubled."""
    is_quote = bytes_ == _QUOTE
    inside = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(np.bool_)
    places = np.flatnonzero(is_quote)
    before = bytes_[np.maximum(places[::2] - 1, 0)]
    begins = (before == separator) | (before == _NEWLINE) | (before == _QUOTE)
    begins[0] |= places[0] == 0
    after = bytes_[np.minimum(places[1::2] + 1, bytes_.size - 1)]
    closes = (after == separator) | (after == _NEWLINE) | (after == _RETURN) | (after == _QUOTE)
    return inside if begins.all() and closes.all() else None


def _read_at_once(
    layout: _Layout, separator: str, places: Sequence[int], names: Sequence[str]
) -> "polars.DataFrame | None":
    import polars

    if not layout.lines.size:
        return polars.DataFrame(schema=dict.fromkeys(names, polars.String))
    try:
        frame = polars.read_csv(
            layout.data,
            has_header=False,
            infer_schema_length=0,
            separator=separator,
            quote_char='"' if layout.has_quotes else None,
            columns=sorted(places),
        )
    except polars.exceptions.PolarsError:
        return None
    if len(frame) != layout.lines.size:
        return None
    # polars names columns without a header in different ways
    frame.columns = [name for _, name in sorted(zip(places, names, strict=True))]
    return frame.select(names)
