"""Files with lines of JSON, in pieces.

polars reads a piece, unless something in it is not as it should be; then it is read line by line, which knows what is
wrong with which line.
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.logs.lines import NEWLINE, blank_lines, chosen_lines, whole_lines
from belated.logs.log import Integers
from belated.logs.pieces import Piece
from belated.logs.rejections import NO_OBJECT, NOT_JSON, NOT_UTF8, Reason, Rejections, add_faults
from belated.logs.values import column_of

if TYPE_CHECKING:
    import polars

SIZE = 2**24
"""How many bytes are read at once."""
PART = 2**20
"""How many bytes are read at once where not all lines can be."""
SAMPLE = 10_000
"""How many objects, from the first on, tell which columns there are."""
_BOM = b"\xef\xbb\xbf"
_BEGINS, _ENDS = np.frombuffer(b"{ \t\r", np.uint8), np.frombuffer(b"} \t\r", np.uint8)
"""What a line with an object may begin and end with."""
_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: dict(reversed(pairs)))
"""Of two values with one name the first counts, as in polars."""
_MAYBE_NO_TEXT = r"^(?:-?[0-9]|[\[{]|true$|false$)"
"""Texts that polars makes of numbers, lists, objects and truths, too."""


class JsonFile:
    """A file with an object in each line."""

    word = "line"

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        found: dict[str, None] = {}
        with path.open("rb") as file:
            rows = (_parsed(line.removeprefix(_BOM)) for line in file)
            for row in islice((row for row in rows if isinstance(row, dict)), SAMPLE):
                found |= dict.fromkeys(reversed(row))
        self.columns: Sequence[str] = list(found)

    def pieces(self, names: Sequence[str], rejections: Rejections, label: str | None = None) -> Iterator[Piece]:
        """Yield the rows with these columns; what a row does not have is empty."""
        line, rest = 1, b""
        with self._path.open("rb") as file:
            is_last = False
            while not is_last:
                data = file.read(SIZE)
                is_last = not data
                block = rest + data
                if line == 1:
                    block = block.removeprefix(_BOM)
                block, rest = whole_lines(block, is_last)
                for piece in _pieces_of(block, line, names, label, rejections) if block else ():
                    rejections.rows += piece.lines.size
                    yield piece
                line += block.count(b"\n")


def _pieces_of(
    block: bytes, line: int, names: Sequence[str], label: str | None, rejections: Rejections
) -> Iterator[Piece]:
    """Yield the rows of a block: all at once if that can be done, otherwise in parts, by line where it must be."""
    data, lines, odd, odd_lines = _screened(block, line)
    if odd:
        _read_by_line(odd, odd_lines, (), rejections)
    whole = _read_at_once(data, lines, names, label)
    if whole is not None:
        yield whole
        return
    start, row = 0, 0
    while start < len(data):
        cut = data.find(b"\n", start + PART) + 1 or len(data)
        part = data[start:cut]
        its_lines = lines[row : row + part.count(b"\n")]
        yield _read_at_once(part, its_lines, names, label) or _read_by_line(part, its_lines, names, rejections)
        start, row = cut, row + its_lines.size


def _screened(block: bytes, line: int) -> tuple[bytes, Integers, bytes, Integers]:
    """Return the lines that may be objects, with their numbers, and those that cannot be; blank ones are left out."""
    bytes_ = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(bytes_ == NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    is_filled = ~blank_lines(bytes_, starts, ends)
    may_be = np.isin(bytes_[starts], _BEGINS) & np.isin(bytes_[ends - 1], _ENDS)
    good, odd = is_filled & may_be, is_filled & ~may_be
    numbers = np.arange(line, line + ends.size)
    return chosen_lines(block, starts, ends, good), numbers[good], chosen_lines(block, starts, ends, odd), numbers[odd]


def _read_at_once(data: bytes, lines: Integers, names: Sequence[str], label: str | None) -> Piece | None:
    """Return the rows in some lines, as texts, but for labels that are whole numbers.

    None where something is not as it should be.
    """
    import polars

    if not data or not names:
        return None
    try:
        frame = polars.read_ndjson(io.BytesIO(data), schema=dict.fromkeys(names, polars.String))
    except polars.exceptions.PolarsError:
        return None
    if len(frame) != lines.size or not all(_is_faithful(frame[name]) for name in names):
        return None
    if label is not None:
        labels = _typed(data, frame[label])
        if labels is None:
            return None
        frame = frame.with_columns(labels)
    return Piece(frame, lines)


def _is_faithful(column: "polars.Series") -> bool:
    """Return whether texts are what stands in the file: polars makes a NUL of a half of a surrogate pair."""
    return not column.str.contains("\0", literal=True).any()


def _typed(block: bytes, column: "polars.Series") -> "polars.Series | None":
    """Return a column as it is, if all are texts, or as whole numbers, if all are; None if there are others."""
    import polars

    if not column.unique().str.contains(_MAYBE_NO_TEXT).any():
        return column
    try:
        whole = polars.read_ndjson(io.BytesIO(block), schema={column.name: polars.Int64})
    except polars.exceptions.PolarsError:
        key = re.escape(json.dumps(column.name, ensure_ascii=False).encode())
        begins = re.findall(key + rb"\s*:\s*(.)", block)
        are_texts = set(begins) <= {b'"', b"n"} and begins.count(b'"') >= len(column) - column.null_count()
        return column if are_texts else None
    return whole[column.name]


def _read_by_line(data: bytes, numbers: Integers, names: Sequence[str], rejections: Rejections) -> Piece:
    """Return the rows in some lines, read one by one; what is wrong with the others is noted."""
    import polars

    cells: list[list[Any]] = [[] for _ in names]
    lines: list[int] = []
    faults: list[tuple[int, str, Reason, str]] = []
    for line, text in zip(numbers.tolist(), data.split(b"\n"), strict=False):
        if not text.strip():
            continue
        row = _parsed(text, names)
        if isinstance(row, dict):
            lines.append(line)
            for name, column in zip(names, cells, strict=True):
                column.append(row.get(name))
        else:
            faults.append((line, text.strip().decode(errors="replace").replace("\0", "�"), *row))
    add_faults(rejections, faults)
    rejections.rows += len(faults)
    frame = polars.DataFrame([column_of(name, column) for name, column in zip(names, cells, strict=True)])
    return Piece(frame, np.array(lines, dtype=np.int64))


def _parsed(line: bytes, names: Sequence[str] = ()) -> dict[str, Any] | tuple[Reason, str]:
    """Return the object in a line, or what is wrong with it; texts under these names must be whole."""
    try:
        row = _DECODER.decode(line.decode())
        if not isinstance(row, dict):
            return NO_OBJECT, ""
        for name in names:
            if isinstance(row.get(name), str):
                row[name].encode()
    except UnicodeDecodeError as error:
        return NOT_UTF8, str(error)
    except ValueError as error:
        return NOT_JSON, str(error)
    except RecursionError:
        return NOT_JSON, "nested too deeply"
    return row
