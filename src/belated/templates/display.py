"""How values are shown: numbers and counts in words, and tables for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 20
"""Of a table of arms: there may be thousands."""
MOST_VALUES = 6
"""Of a list within a title."""


def number(value: float) -> str:
    """Return a number with as many digits as a table needs: 12,345, 17.3, 0.00123."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"inf": "∞", "-inf": "-∞"}.get(str(value), "–")
    if abs(value) >= 1e12:
        return f"{value:.3g}"
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 100.0:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """Return `1 arm`, `1,000 arms`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortened(values: Iterable[str], separator: str = ", ") -> str:
    """Return values in a row. Of many, equal neighbours are counted (9 × 0.5), and the middle is left out."""
    shown = list(values)
    if len(shown) > MOST_VALUES:
        runs = [(value, len(list(run))) for value, run in groupby(shown)]
        shown = [value if count == 1 else f"{count} × {value}" for value, count in runs]
    if len(shown) > MOST_VALUES:
        shown = [*shown[: MOST_VALUES // 2], "…", *shown[-(MOST_VALUES // 2) :]]
    return separator.join(shown)


def largest(values: NDArray[Any]) -> list[int]:
    """Return the places of the largest values, at most as many as a table in a notebook has room for, in order."""
    return sorted(np.argsort(-values, kind="stable")[:MOST_ROWS].tolist())


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return an HTML table, its text escaped. The first `left` columns are aligned left, the others right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = ["left" if k < left else "right" for k in range(len(cells))]
        parts = (f'<{tag} style="text-align: {s}">{escape(c)}</{tag}>' for s, c in zip(sides, cells, strict=True))
        return f"<tr>{''.join(parts)}</tr>"

    title = f'<caption style="caption-side: top; text-align: left">{escape(caption)}</caption>'
    body = "".join(line("td", row) for row in rows)
    return f"<table>{title}<thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"
