"""Tables of text that fit a width: columns are left out, folded, or printed in several parts."""

import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NARROWEST = 16
"""To how many characters a column may be folded."""
GAP = "  "


@dataclass(frozen=True)
class Column:
    """The heading of a column, and what may be done with it where room is short."""

    name: str
    right: bool = False
    """Whether its cells are aligned to the right."""
    fold: bool = False
    """Whether its cells may take several lines."""
    drop: int = 0
    """When it is left out: 1 first, then 2, …; 0: never."""


class Fitted(NamedTuple):
    """A table as text, and the names of the columns that are left out."""

    text: str
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Columns and rows. `keys` columns stand at the left of every part where the others need several parts."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    keys: int = 0
    """0: the table is never parted."""
    headings: Mapping[int, str] = field(default_factory=dict)
    """Lines that begin a group of rows: the number of its first row -> the text."""

    def fit(self, width: int | None = None) -> Fitted:
        """Return the table in at most so many characters a line, if its columns allow it; None: as wide as it is."""
        widths = [
            max(map(shown_width, [column.name, *(row[k] for row in self.rows)]))
            for k, column in enumerate(self.columns)
        ]
        shown = list(range(len(self.columns)))
        if width is None:
            return Fitted(self._text(shown, widths), ())
        for k in sorted((k for k in shown if self.columns[k].drop), key=lambda k: self.columns[k].drop):
            if _total(shown, widths) <= width:
                break
            shown.remove(k)
        while _total(shown, widths) > width:
            folding = [k for k in shown if self.columns[k].fold and widths[k] > NARROWEST]
            if not folding:
                break
            widths[max(folding, key=widths.__getitem__)] -= 1
        left_out = tuple(column.name for k, column in enumerate(self.columns) if k not in shown)
        return Fitted("\n\n".join(self._text(part, widths) for part in self._parts(shown, widths, width)), left_out)

    def _parts(self, shown: list[int], widths: list[int], width: int) -> list[list[int]]:
        """Return the columns of each part."""
        if not self.keys or _total(shown, widths) <= width:
            return [shown]
        keys = shown[: self.keys]
        parts = [keys]
        for k in shown[self.keys :]:
            if len(parts[-1]) > len(keys) and _total([*parts[-1], k], widths) > width:
                parts.append(keys)
            parts[-1] = [*parts[-1], k]
        return parts

    def _text(self, shown: list[int], widths: list[int]) -> str:
        lines = self._lines([column.name for column in self.columns], shown, widths)
        lines.append(GAP.join("─" * widths[k] for k in shown))
        for number, row in enumerate(self.rows):
            if number in self.headings:
                lines += [""] if number else []
                lines += fold(self.headings[number], max(_total(shown, widths), NARROWEST), GAP)
            lines += self._lines(row, shown, widths)
        return "\n".join(lines)

    def _lines(self, row: Sequence[str], shown: list[int], widths: list[int]) -> list[str]:
        """Return a row: one line, or more where cells are folded."""
        folded = {k: fold(row[k], widths[k]) for k in shown}
        lines = []
        for number in range(max(len(each) for each in folded.values())):
            cells = []
            for k in shown:
                text = folded[k][number] if number < len(folded[k]) else ""
                blank = " " * (widths[k] - shown_width(text))
                cells.append(blank + text if self.columns[k].right else text + blank)
            lines.append(GAP.join(cells).rstrip())
        return lines


def _total(shown: list[int], widths: list[int]) -> int:
    return sum(widths[k] for k in shown) + len(GAP) * (len(shown) - 1)


def fold(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return the lines of a text, at most so wide; all but the first are indented."""
    if width is None or shown_width(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def shown_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: hats stand over their letters."""
    return sum(not unicodedata.combining(character) for character in text)
