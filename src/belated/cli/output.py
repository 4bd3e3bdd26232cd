"""Where commands print: results on standard output, as text or as JSON; notes on standard error."""

import json
import math
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belated.report.columns import Table

LEAST_WIDTH = 100
"""How many columns tables may take, also on a narrower terminal."""


class Output:
    """Prints results as text, or as JSON where `as_json` is set. `wide` prints tables as wide as they are."""

    def __init__(self, as_json: bool = False, wide: bool = False) -> None:
        self.as_json = as_json
        self.width = None if wide else max(LEAST_WIDTH, shutil.get_terminal_size((LEAST_WIDTH, 24)).columns)
        self._begun = False

    def result(self, data: Any, *parts: "str | Table") -> None:
        """Print a result: the data as JSON, or the parts as text, whichever is asked for."""
        self.text(*parts)
        self.json(data)

    def text(self, *parts: "str | Table") -> None:
        """Print texts and tables with an empty line between them, unless JSON is asked for."""
        for part in () if self.as_json else parts:
            if self._begun:
                print()
            print(self._folded(part) if isinstance(part, str) else self._fitted(part))
            self._begun = True

    def line(self, text: str) -> None:
        """Print a line of text, unless JSON is asked for."""
        if not self.as_json:
            print(self._folded(text), flush=True)

    def json(self, data: Any) -> None:
        """Print data as JSON where that is asked for."""
        if self.as_json:
            print(json.dumps(plain(data), indent=1, ensure_ascii=False, allow_nan=False))

    def note(self, text: str) -> None:
        """Say something about what is done, on standard error."""
        print(text, file=sys.stderr, flush=True)

    def raw(self, data: bytes) -> None:
        """Print bytes as they are."""
        rest = memoryview(data)
        while rest:  # with PYTHONUNBUFFERED set, a write may take a part only
            rest = rest[sys.stdout.buffer.write(rest) :]

    def _folded(self, text: str) -> str:
        if self.width is None or all(len(line) <= self.width for line in text.splitlines()):
            return text
        from belated.report.columns import fold

        return "\n".join(line for each in text.splitlines() for line in fold(each, self.width, "  "))

    def _fitted(self, table: "Table") -> str:
        fitted = table.fit(self.width)
        if not fitted.left_out:
            return fitted.text
        note = f"left out: {', '.join(fitted.left_out)}; --wide shows all columns"
        return f"{fitted.text}\n{self._folded(note)}"


def plain(data: Any) -> Any:
    """Return data as JSON has it: numbers that are not finite are null."""
    if isinstance(data, str | bool) or data is None:
        return data
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if hasattr(data, "item"):  # a number of numpy
        return plain(data.item())
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data if isinstance(data, int) else str(data)
