"""The rows of a CSV file, line by line, as they are read where something is wrong with them."""

import csv
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from belated.logs.rejections import NOT_UTF8, NUL, QUOTES, TOO_LONG, Reason

LONGEST = 2**17
"""How many bytes a row may have: as many as the csv module takes for a cell."""


class Fault(NamedTuple):
    """What is wrong with a row."""

    text: str
    reason: Reason
    detail: str


class Rows:
    """The rows in some lines, each with the number of its first line: cells, or what is wrong with it.

    Where quotes are broken, the first line alone counts as a row, and the next line begins another one.
    """

    def __init__(self, lines: Sequence[bytes], numbers: Sequence[int], separator: str, is_last: bool = True) -> None:
        """is_last: whether a row that is not finished will never be."""
        self.used = 0
        """Bytes that were read: the last row may go on after these lines."""
        self._lines, self._numbers, self._separator, self._is_last = lines, numbers, separator, is_last

    def __iter__(self) -> Iterator[tuple[int, list[str] | Fault]]:
        k = 0
        while k < len(self._lines):
            line, taken = self._lines[k], 1
            row: list[str] | Fault | None
            if b'"' in line:
                row, taken = self._quoted_row(k)
                if row is None:
                    return
            else:
                row = self._plain_row(line)
            if row:
                yield self._numbers[k], row
            self.used += len(line) + 1 if taken == 1 else sum(len(each) + 1 for each in self._lines[k : k + taken])
            k += taken

    def _plain_row(self, line: bytes) -> list[str] | Fault:
        """Return the cells of a line without quotes; none if it is blank."""
        line = line.removesuffix(b"\r")
        if not line.strip():
            return []
        if len(line) > LONGEST:
            return _too_long(line)
        text, fault = _decoded(line)
        return fault or text.split(self._separator)

    def _quoted_row(self, k: int) -> tuple[list[str] | Fault | None, int]:
        """Return the row that begins in line k, and how many lines it has; None if it goes on after the block."""
        line = self._lines[k]
        if len(line) > LONGEST:
            return _too_long(line), 1
        feed = _Feed(self._lines, k)
        try:
            row = next(csv.reader(feed, delimiter=self._separator, strict=True))
        except csv.Error as error:
            message = str(error)
            if "unexpected end of data" in message:
                if feed.next == len(self._lines) and not self._is_last and not feed.is_too_long:
                    return None, 0
                message = "a quote is not closed"
            return Fault(line.decode(errors="replace"), QUOTES, message), 1
        return feed.fault or row, feed.next - k


class _Feed:
    """Hands lines to the csv module, until the row gets too long."""

    def __init__(self, lines: Sequence[bytes], first: int) -> None:
        self._lines, self.next, self._size = lines, first, 0
        self.is_too_long = False
        self.fault: Fault | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.next == len(self._lines):
            raise StopIteration
        line = self._lines[self.next]
        self._size += len(line) + 1
        if self._size > LONGEST + 1:
            self.is_too_long = True
            raise StopIteration
        self.next += 1
        text, fault = _decoded(line)
        self.fault = self.fault or fault
        return text + "\n"


def _too_long(line: bytes) -> Fault:
    return Fault(line[:1000].decode(errors="replace"), TOO_LONG, f"at most {LONGEST:,} bytes are read")


def _decoded(line: bytes) -> tuple[str, Fault | None]:
    """Return a line as text, and what is wrong with it."""
    text = line.decode(errors="replace")
    if b"\0" in line:
        text = text.replace("\0", "�")
        return text, Fault(text, NUL, "")
    if "�" in text:
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return text, Fault(text, NOT_UTF8, str(error))
    return text, None
