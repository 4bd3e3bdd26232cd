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

from belated.logs.log import Integers
from belated.logs.pieces import Piece
from belated.logs.rejections import NO_OBJECT, NOT_JSON, NOT_UTF8, Reason, Rejections, add_faults
from belated.logs.values import column_of

if TYPE_CHECKING:
    import polars

SIZE = 2**24
"""How many bytes are read at once."""
SAMPLE = 10_000
"""How many objects, from the first on, tell which columns there are."""
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13
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
                cut = len(block) if is_last else block.rfind(b"\n") + 1
                block, rest = block[:cut], block[cut:]
                if block:
                    piece = _read_at_once(block, line, names, label)
                    if piece is None:
                        piece = _read_by_line(block, line, names, rejections)
                    rejections.rows += piece.lines.size
                    yield piece
                    line += block.count(b"\n")


def _read_at_once(block: bytes, line: int, names: Sequence[str], label: str | None) -> Piece | None:
    """Return the rows of a block, as texts, but for labels that are whole numbers.

    None where something is not as it should be.
    """
    import polars

    if not names:
        return None
    lines = line + _filled_lines(block)
    schema = dict.fromkeys(names, polars.String)
    try:
        frame = polars.read_ndjson(io.BytesIO(block), schema=schema)
    except polars.exceptions.PolarsError:
        return None
    if len(frame) != lines.size or not all(_is_faithful(frame[name]) for name in names):
        return None
    if label is not None:
        labels = _typed(block, frame[label])
        if labels is None:
            return None
        frame = frame.with_columns(labels)
    return Piece(frame, lines)


def _filled_lines(block: bytes) -> Integers:
    """Return which lines are not blank; the first is 0."""
    bytes_ = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(bytes_ == _NEWLINE)
    if not block.endswith(b"\n"):
        ends = np.append(ends, bytes_.size)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    return np.flatnonzero((lengths > 1) | ((lengths == 1) & (bytes_[starts] != _RETURN)))


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
        are_texts = set(begins) <= {b'"', b"n"} and len(begins) >= len(column) - column.null_count()
        return column if are_texts else None
    return whole[column.name]


def _read_by_line(block: bytes, first: int, names: Sequence[str], rejections: Rejections) -> Piece:
    import polars

    cells: list[list[Any]] = [[] for _ in names]
    lines: list[int] = []
    faults: list[tuple[int, str, Reason, str]] = []
    for line, text in enumerate(block.split(b"\n"), first):
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
        # the first of two values with one name counts, as in polars
        row = json.loads(line.decode(), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        if not isinstance(row, dict):
            return NO_OBJECT, ""
        for name in names:
            if isinstance(row.get(name), str):
                row[name].encode()
    except UnicodeDecodeError as error:
        return NOT_UTF8, str(error)
    except (ValueError, RecursionError) as error:
        return NOT_JSON, str(error)
    return row
