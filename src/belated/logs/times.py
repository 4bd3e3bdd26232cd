"""Times in logs: numbers in any unit, or dates, which become seconds since 1970."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from belated.logs.log import Floats
from belated.logs.rejections import BELOW_ZERO, NO_NUMBER, NO_TIME, OTHER_TIME, Checked
from belated.logs.values import Mask, Numbers, is_empty, numbers, picked, texts

if TYPE_CHECKING:
    import polars

_OFFSET = "[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
_FORM = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?"
    f" ?(?:{_OFFSET})?)?$"
)
"""A date, alone or with a time, which may have a zone."""
_ZONE = f"({_OFFSET})$"
_AFTER_MINUTES = 16
"""Where a zone may begin in a date with a time."""
_MICROSECONDS = 1e6


class _Dates(NamedTuple):
    """A column of dates."""

    seconds: Floats
    """Since 1970; nan where there is no date."""
    is_zoned: Mask


class Clock:
    """Reads the columns with the times of a log, all of which must be of one kind, told by the first time there is."""

    def __init__(self, word: str) -> None:
        """word: what rows are counted in."""
        self._word = word
        self._first: int | None = None
        self.in_seconds = False
        """Whether times are dates, given as seconds."""
        self._is_zoned = False

    def times(self, rows: Checked, name: str) -> Numbers:
        """Return the times in a column; rows with another kind of time are bad."""
        import polars

        column = rows.frame[name]
        if column.dtype in (polars.Datetime, polars.Date):
            return self._of_one_kind(rows, name, _no_numbers(column.is_null().to_numpy()), _native(column))
        if not column.dtype.is_numeric():
            column = texts(column)
        if column.dtype == polars.String and self._expects_dates(column):
            given = _no_numbers(is_empty(column))
        else:
            given = numbers(column)
        dates = _parsed(texts(column), given.is_wrong) if given.is_wrong.any() else _no_dates(len(column))
        return self._of_one_kind(rows, name, given, dates)

    def _expects_dates(self, column: "polars.Series") -> bool:
        """Return whether the first of some texts, or of all before, is a date; then numbers are not looked for."""
        if self._first is not None:
            return self.in_seconds
        return bool(column.drop_nulls().head(1).str.contains(_FORM).any())

    def _of_one_kind(self, rows: Checked, name: str, given: Numbers, dates: _Dates) -> Numbers:
        """Return times of the kind that the first one has."""
        is_date = ~np.isnan(dates.seconds)
        is_number = ~given.is_wrong & ~given.is_empty
        unread = ~is_date & given.is_wrong
        if unread.any():
            is_number[unread] = ~numbers(texts(picked(rows.frame[name], unread))).is_wrong
        rows.reject(unread & ~is_number, name, NO_TIME)
        known = (is_date | is_number) & rows.good
        if self._first is None and known.any():
            k = int(np.argmax(known))
            self._first = int(rows.lines[k])
            self.in_seconds, self._is_zoned = bool(is_date[k]), bool(dates.is_zoned[k])
        where = f"where {self._word} {self._first} has"
        if not self.in_seconds:
            rows.reject(is_date, name, OTHER_TIME, f"is a date, {where} a number")
            return numbers(texts(rows.frame[name])) if unread.any() else given
        rows.reject(is_number, name, OTHER_TIME, f"is a number, {where} a date")
        differs = f"has no time zone, {where} one" if self._is_zoned else f"has a time zone, {where} none"
        rows.reject(is_date & (dates.is_zoned != self._is_zoned), name, OTHER_TIME, differs)
        return Numbers(dates.seconds, given.is_empty, ~is_date & ~given.is_empty)


def durations(rows: Checked, name: str) -> Numbers:
    """Return how much time outcomes took, from a column; rows in which that is below 0 are bad."""
    import polars

    column = rows.frame[name]
    if is_duration(column):
        column = polars.Series(_ratio(column.dt.total_microseconds(), _MICROSECONDS))
    given = numbers(column)
    rows.reject(given.is_wrong, name, NO_NUMBER)
    rows.reject(given.values < 0, name, BELOW_ZERO)
    return given


def is_duration(column: "polars.Series") -> bool:
    """Return whether a column has lengths of time, which are known to be in seconds."""
    import polars

    return bool(column.dtype == polars.Duration)


def _no_numbers(is_empty: Mask) -> Numbers:
    return Numbers(np.full(is_empty.size, np.nan), is_empty, ~is_empty)


def _no_dates(size: int) -> _Dates:
    return _Dates(np.full(size, np.nan), np.zeros(size, dtype=np.bool_))


def _native(column: "polars.Series") -> _Dates:
    """Return a column of dates as seconds."""
    import polars

    is_zoned = getattr(column.dtype, "time_zone", None) is not None
    is_fine = getattr(column.dtype, "time_unit", None) == "ns"
    ticks = column.cast(polars.Datetime("ns" if is_fine else "us")).to_physical()
    return _Dates(_ratio(ticks, 1e9 if is_fine else _MICROSECONDS), np.full(len(column), is_zoned))


def _ratio(ticks: "polars.Series", unit: float) -> Floats:
    """Return whole numbers in a unit, nan where there is none; polars itself would multiply by the inverse."""
    seconds = ticks.fill_null(0).to_numpy() / unit
    seconds[ticks.is_null().to_numpy()] = np.nan
    return seconds


def _parsed(column: "polars.Series", wanted: Mask) -> _Dates:
    """Return the dates in texts, where they are wanted."""
    import polars

    seconds = np.full(len(column), np.nan)
    is_zoned = np.zeros(len(column), dtype=np.bool_)
    part = column if wanted.all() else picked(column, wanted)
    part = part.str.strip_chars()
    has_form = part.str.contains(_FORM)
    part = part.set(~has_form, None) if not has_form.all() else part
    text = polars.col("text")

    def whole(start: int) -> "polars.Expr":
        return text.str.slice(start, 2).cast(polars.Int64, strict=False).fill_null(0)

    tail = text.str.slice(_AFTER_MINUTES)
    fields = (
        part.alias("text")
        .to_frame()
        .select(
            text.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False).cast(polars.Int64).alias("day"),
            whole(11).alias("hour"),
            whole(14).alias("minute"),
            polars.when(text.str.slice(_AFTER_MINUTES, 1) == ":").then(whole(17)).otherwise(0).alias("second"),
            tail.str.contains(".", literal=True).any().alias("has_fractions"),
            tail.str.contains("[Zz+-]").any().alias("has_zones"),
        )
    )
    day, hour, minute, second = (fields[name] for name in ("day", "hour", "minute", "second"))
    micros = (((day * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000
    if fields["has_fractions"][0]:
        digits = part.str.extract("[.]([0-9]+)") + "000000"
        micros += digits.str.slice(0, 6).cast(polars.Int64).fill_null(0)
    if fields["has_zones"][0]:
        zone = part.str.slice(_AFTER_MINUTES).str.extract(_ZONE)
        micros -= _offsets(zone)
        is_zoned[wanted] = zone.is_not_null().to_numpy()
    seconds[wanted] = _ratio(micros, _MICROSECONDS)
    return _Dates(seconds, is_zoned)


def _offsets(zones: "polars.Series") -> "polars.Series":
    """Return how far zones are ahead of UTC, in microseconds; 0 where there is none."""
    import polars

    kinds = zones.unique()
    digits = kinds.str.replace_all("[^0-9]", "")
    minutes = digits.str.slice(0, 2).cast(polars.Int64, strict=False).fill_null(0) * 60
    minutes += digits.str.slice(2, 2).cast(polars.Int64, strict=False).fill_null(0)
    signs = polars.Series([-1 if (kind or "").startswith("-") else 1 for kind in kinds], dtype=polars.Int64)
    return zones.replace_strict(kinds, minutes * signs * 60_000_000, return_dtype=polars.Int64).fill_null(0)
