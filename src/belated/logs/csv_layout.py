"""Where the rows of a CSV file begin and end, told by its separators, quotes and ends of lines, all at once."""

from typing import NamedTuple

import numpy as np

from belated.logs.csv_rows import LONGEST
from belated.logs.lines import NEWLINE, RETURN, Bytes, blank_lines, chosen_lines
from belated.logs.log import Integers
from belated.logs.values import Mask

_QUOTE, _ASCII = 34, 128


class Block(NamedTuple):
    """Whole lines of a file."""

    data: bytes
    line: int
    """The number of the first line."""
    is_last: bool


class Layout(NamedTuple):
    """The rows of a block."""

    data: bytes
    """Rows that have all their cells, one after the other."""
    lines: Integers
    """The line in which each of them begins."""
    has_quotes: bool
    odd: bytes
    """The other rows, but for blank lines."""
    odd_lines: Integers
    """The number of each line of the other rows."""
    used: int
    """How many bytes of the block there are in rows: the last row may go on in the next block."""


def layout_of(block: Block, separator: str, cells: int) -> Layout | None:
    """Return the rows of a block; None where quotes are not as they should be."""
    bytes_ = np.frombuffer(block.data, dtype=np.uint8)
    all_ends = ends = np.flatnonzero(bytes_ == NEWLINE)
    marks = np.flatnonzero(bytes_ == ord(separator))
    if has_quotes := b'"' in block.data:
        inside = _inside_quotes(block, bytes_, ord(separator))
        if inside is None:
            return None
        ends, marks = ends[~inside[ends]], marks[~inside[marks]]
        if not ends.size or (block.is_last and ends[-1] != all_ends[-1]):
            return None
    used = int(ends[-1]) + 1
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    if has_quotes and (lengths.max() > LONGEST or len(block.data) - used > LONGEST):
        return None
    is_blank = blank_lines(bytes_, starts, ends)
    is_odd = (np.diff(np.searchsorted(marks, ends), prepend=0) != cells - 1) | (lengths > LONGEST)
    strange = _strange(block.data, bytes_)
    is_odd[np.searchsorted(ends, strange[strange < used])] = True
    is_odd &= ~is_blank
    first = np.searchsorted(all_ends, starts)
    is_good = ~(is_odd | is_blank)
    rows = np.repeat(np.arange(ends.size), np.diff(first, append=np.searchsorted(all_ends, used)))
    return Layout(
        data=chosen_lines(block.data, starts, ends, is_good),
        lines=block.line + first[is_good],
        has_quotes=has_quotes,
        odd=chosen_lines(block.data, starts, ends, is_odd),
        odd_lines=block.line + np.flatnonzero(is_odd[rows]),
        used=used,
    )


def _strange(data: bytes, bytes_: Bytes) -> Integers:
    """Return where bytes are that need a closer look: NUL, returns that end no line, what may not be UTF-8."""
    found = []
    if b"\0" in data:
        found.append(np.flatnonzero(bytes_ == 0))
    if data.count(b"\r") != data.count(b"\r\n"):
        returns = np.flatnonzero(bytes_ == RETURN)
        found.append(returns[bytes_[returns + 1] != NEWLINE])
    if not _is_utf8(data):
        found.append(np.flatnonzero(bytes_ >= _ASCII))
    return np.concatenate([np.array([], dtype=np.int64), *found])


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inside_quotes(block: Block, bytes_: Bytes, separator: int) -> Mask | None:
    """Return which bytes are inside quotes; None if a quote is not at the begin or the end of a cell, or doubled."""
    if block.data.count(b"\r") != block.data.count(b"\r\n"):
        return None
    is_quote = bytes_ == _QUOTE
    inside = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(np.bool_)
    places = np.flatnonzero(is_quote)
    before = bytes_[np.maximum(places[::2] - 1, 0)]
    begins = (before == separator) | (before == NEWLINE) | (before == _QUOTE)
    begins[0] |= places[0] == 0
    after = bytes_[places[1::2] + 1]
    closes = (after == separator) | (after == NEWLINE) | (after == RETURN) | (after == _QUOTE)
    return inside if begins.all() and closes.all() else None
