"""CSV files in pieces.

polars reads the rows that are laid out as they should be. The others are read one by one, which knows what is wrong
with which line.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from belated.errors import InvalidValue
from belated.logs.csv_layout import Block, Layout, layout_of
from belated.logs.csv_rows import Fault, Rows
from belated.logs.lines import whole_lines
from belated.logs.pieces import Piece, merged
from belated.logs.rejections import CELLS, Reason, Rejections, add_faults

if TYPE_CHECKING:
    import polars

SIZE = 2**24
"""How many bytes are read at once."""
_BOM = b"\xef\xbb\xbf"


class CsvFile:
    """A CSV file, with a header."""

    word = "line"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        with path.open("rb") as file:
            text, self._start, self._line = self._header(file)
        self._separator = max(",;\t", key=text.count)
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
                block, rest = whole_lines(rest + data, is_last)
                if block:
                    piece, used = self._read(Block(block, line, is_last), places, names, rejections)
                    yield piece
                    line += block.count(b"\n", 0, used)
                    rest = block[used:] + rest

    def _read(
        self, block: Block, places: Sequence[int], names: Sequence[str], rejections: Rejections
    ) -> tuple[Piece, int]:
        """Return the rows of a block, and how many bytes they take: a row may go on in the next block."""
        layout = layout_of(block, self._separator, len(self.columns))
        frame = None if layout is None else _read_at_once(layout, self._separator, places, names)
        if layout is None or frame is None:
            data = block.data.split(b"\n")[:-1]
            rows = Rows(data, range(block.line, block.line + len(data)), self._separator, block.is_last)
            return self._read_by_line(rows, places, names, rejections), rows.used
        rejections.rows += len(frame)
        piece = Piece(frame, layout.lines)
        if layout.odd:
            rows = Rows(layout.odd.split(b"\n")[:-1], layout.odd_lines.tolist(), self._separator)
            piece = merged(piece, self._read_by_line(rows, places, names, rejections))
        return piece, layout.used

    def _read_by_line(self, rows: Rows, places: Sequence[int], names: Sequence[str], rejections: Rejections) -> Piece:
        """Return rows that are read one by one; what is wrong with the others is noted."""
        import polars

        cells: list[list[str]] = [[] for _ in places]
        lines: list[int] = []
        faults: list[tuple[int, str, Reason, str]] = []
        needed = len(self.columns)
        for line, row in rows:
            if isinstance(row, Fault):
                faults.append((line, *row))
            elif len(row) != needed:
                told = f"{needed} cells are needed, as in the first line; there are {len(row)}"
                faults.append((line, self._separator.join(row), CELLS, told))
            else:
                lines.append(line)
                for place, column in zip(places, cells, strict=True):
                    column.append(row[place])
        add_faults(rejections, faults)
        rejections.rows += len(lines) + len(faults)
        frame = polars.DataFrame(dict(zip(names, cells, strict=True)), schema=dict.fromkeys(names, polars.String))
        return Piece(frame, np.array(lines, dtype=np.int64))


def _read_at_once(
    layout: Layout, separator: str, places: Sequence[int], names: Sequence[str]
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
