"""Rows that cannot be read: where they are and what is wrong with them, counted and listed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.errors import InvalidValue
from belated.logs.log import Integers
from belated.logs.values import Mask, picked, texts

if TYPE_CHECKING:
    import polars

LONGEST_VALUE = 80
"""How many characters are kept of a value."""
LEAVE_OUT = "bad_rows='leave out'"


class Reason(NamedTuple):
    """What can be wrong with a row."""

    counted: str
    """As it is counted, with the name of the column."""
    told: str
    """As an error tells it of one row: {column}, {value!r}, {detail}."""


NOT_UTF8 = Reason("not UTF-8", "not UTF-8: {detail}")
NUL = Reason("a NUL byte", "there is a NUL byte, which no text has")
CELLS = Reason("wrong number of cells", "{detail}")
QUOTES = Reason("broken quotes", "broken quotes: {detail}")
TOO_LONG = Reason("too long", "the row is too long: {detail}")
NOT_JSON = Reason("not JSON", "not JSON: {detail}")
NO_OBJECT = Reason("not an object", "an object is needed, {value!r} is none")
NO_ARM = Reason("{column} is empty", "{column} is empty; the label of an arm is needed")
NO_LABEL = Reason("{column} is no label", "{column} is {value!r}; the label of an arm is needed, a text or a number")
UNKNOWN_ARM = Reason("{column} is not a known arm", "{column} is {value!r}; {detail}")
NO_NUMBER = Reason("{column} is not a number", "{column} is {value!r}; a number is needed")
NO_SHARE = Reason("{column} is not from 0 to 1", "{column} is {value!r}; a number from 0 to 1 is needed")
NOT_A_REWARD = Reason(
    NO_SHARE.counted,
    NO_SHARE.told + " (in other units: name {column} as value, and give lowest and highest)",
)
BEYOND = Reason("{column} is beyond the range", "{column} is {value!r}; a number {detail} is needed")
NO_PROPENSITY = Reason(
    "{column} is not above 0 and at most 1", "{column} is {value!r}; a number above 0, at most 1 is needed"
)
NO_ROUND = Reason("{column} is not a whole number", "{column} is {value!r}; a whole number is needed")
NO_DISTRIBUTION = Reason(
    "{column} is not a distribution", "{column} is {value!r}; a JSON object of arms and probabilities is needed"
)
EMPTY_TIME = Reason("{column} is empty", "{column} is empty; a number or a date is needed")
NO_TIME = Reason(
    "{column} is not a time",
    "{column} is {value!r}; a number is needed, or a date such as 2030-12-31 or 2030-12-31T12:00:00Z",
)
OTHER_TIME = Reason("{column} is another kind of time", "{column} is {value!r}, which {detail}")
BELOW_ZERO = Reason("{column} is below 0", "{column} is {value!r}; a number of at least 0 is needed")
TOO_EARLY = Reason("{column} is before the decision", "{column} is {value!r}, before the decision was made")
NO_REWARD = Reason("{column} is there without a {detail}", "{column} is {value!r}, but {detail} is empty")
NO_OUTCOME_TIME = Reason("{column} is there without {detail}", "{column} is {value!r}, but {detail} is empty")
TWICE = Reason("the decision is there twice", "{column} is {value!r}; the decision is there twice, {detail}")
NOT_MADE = Reason(
    "an outcome of no decision",
    "{column} is {value!r}; there is an outcome of this decision, which was not made before it",
)


class Rejection(NamedTuple):
    """A row that cannot be read."""

    line: int
    column: str
    value: str
    reason: str


class _Part(NamedTuple):
    """Rows with the same fault."""

    lines: Integers
    column: str
    values: "polars.Series"
    reason: Reason
    detail: "str | polars.Series"
    """The same for all rows, or one for each."""

    @property
    def counted(self) -> str:
        """The reason as it is counted."""
        return self.reason.counted.format(column=self.column, detail=self.detail)

    @property
    def listed(self) -> "polars.Expr":
        """The reason as it is listed: with the detail, where each row has its own."""
        import polars

        reason = polars.lit(self.counted)
        return reason if isinstance(self.detail, str) else reason + ": " + polars.lit(self.detail)


class Rejections:
    """The rows of a log that cannot be read."""

    def __init__(self, source: str = "the log", word: str = "line") -> None:
        """source: what is read; word: what its rows are counted in."""
        self.source, self.word = source, word
        self.rows = 0
        """How many rows there were, bad ones included."""
        self._parts: list[_Part] = []

    def add(
        self,
        lines: Integers,
        column: str,
        values: "polars.Series",
        reason: Reason,
        detail: "str | polars.Series" = "",
    ) -> None:
        """Note rows, at least one, that have the same fault; values and details are texts."""
        cut = values.str.slice(0, LONGEST_VALUE - 1) + "…"
        short = cut.zip_with(values.str.len_chars() > LONGEST_VALUE, values)
        self._parts.append(_Part(lines, column, short.fill_null(""), reason, detail))

    @property
    def total(self) -> int:
        """How many rows are bad."""
        return sum(part.lines.size for part in self._parts)

    @property
    def counts(self) -> dict[str, int]:
        """Reason -> how many rows, the most frequent first."""
        return {reason: count for reason, (count, _, _) in self._reasons().items()}

    def _reasons(self) -> dict[str, tuple[int, int, str]]:
        """Return reason -> how many rows, the first line and its value; the most frequent first."""
        found: dict[str, tuple[int, int, str]] = {}
        for part in self._parts:
            k = int(np.argmin(part.lines))
            count, line, value = found.get(part.counted, (0, np.inf, ""))
            line, value = min((line, value), (int(part.lines[k]), part.values[k]))
            found[part.counted] = count + part.lines.size, int(line), value
        return dict(sorted(found.items(), key=lambda each: (-each[1][0], each[1][1])))

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[Rejection]:
        """Yield the bad rows in the order of their lines."""
        return map(Rejection._make, self.frame().iter_rows())

    def frame(self) -> "polars.DataFrame":
        """Return all bad rows as a frame of polars, in the order of their lines."""
        import polars

        kinds = {"line": polars.Int64, "column": polars.String, "value": polars.String, "reason": polars.String}
        parts = [
            polars.DataFrame({"line": part.lines, "value": part.values})
            .with_columns(polars.lit(part.column).alias("column"), part.listed.alias("reason"))
            .select(Rejection._fields)
            for part in self._parts
        ]
        return polars.concat([polars.DataFrame(schema=kinds), *parts]).sort("line", maintain_order=True)

    def examples(self, n: int = 5) -> list[Rejection]:
        """Return the first bad rows."""
        return [Rejection(*row) for row in self.frame().head(n).iter_rows()]

    def write(self, path: str | Path) -> None:
        """Write all bad rows to a CSV file: line (or row), column, value, reason."""
        self.frame().rename({"line": self.word}).write_csv(path)

    @property
    def error(self) -> InvalidValue:
        """The error that tells of the first bad row, and how many more there are."""
        part = min(self._parts, key=lambda part: part.lines.min())
        k = int(np.argmin(part.lines))
        detail = part.detail if isinstance(part.detail, str) else part.detail[k]
        told = part.reason.told.format(column=part.column, value=part.values[k], detail=detail)
        more = self.total - 1
        are = "row is" if more == 1 else "rows are"
        rest = f"; {more:,} more {are} bad: {LEAVE_OUT} leaves them out and lists them" if more else ""
        return InvalidValue(f"{self.source}, {self.word} {part.lines[k]}: {told}{rest}", part.column or "path")

    @property
    def sentence(self) -> str:
        """How many rows are left out and why, with the first of each reason."""
        reasons = ", ".join(
            f"{count:,} {why} ({self.word} {line}: {value!r})" for why, (count, line, value) in self._reasons().items()
        )
        return f"left out: {self.total:,} of {self.rows:,} rows: {reasons}"


class Checked:
    """The rows of a piece, and which of them are still good."""

    def __init__(self, frame: "polars.DataFrame", lines: Integers, rejections: Rejections) -> None:
        self.frame, self.lines, self._rejections = frame, lines, rejections
        self.good: Mask = np.ones(lines.size, dtype=np.bool_)

    def reject(self, wrong: Mask, column: str, reason: Reason, detail: str = "") -> None:
        """Note the rows that are wrong, unless they were wrong before, with what stands in the column."""
        wrong = wrong & self.good
        if wrong.any():
            shown = texts(picked(self.frame[column], wrong))
            self._rejections.add(self.lines[wrong], column, shown, reason, detail)
            self.good &= ~wrong


def add_faults(rejections: Rejections, faults: Sequence[tuple[int, str, Reason, str]]) -> None:
    """Note rows that were found one by one: line, text, reason, detail."""
    import polars

    for reason in dict.fromkeys(fault[2] for fault in faults):
        lines, values, _, details = zip(*(fault for fault in faults if fault[2] is reason), strict=True)
        shown = polars.Series(values, dtype=polars.String)
        rejections.add(np.array(lines, dtype=np.int64), "", shown, reason, polars.Series(details, dtype=polars.String))
