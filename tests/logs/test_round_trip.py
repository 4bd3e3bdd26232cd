"""A log written in any format is read back as it was."""

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.logs import Log, frame_log, read_log

LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text.strip() not in ("", "null", "NA", "nan", "NaN")
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Columns of a log, in the order of time."""
    size = draw(st.integers(2, 12))
    labels = draw(st.lists(LABELS, min_size=2, max_size=3, unique=True))
    arms = [*labels[:2], *draw(st.lists(st.sampled_from(labels), min_size=size - 2, max_size=size - 2))]
    columns: dict[str, list[Any]] = {"id": [f"d{k}" for k in range(size)], "arm": arms}

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    columns["reward"] = column(st.none() | st.floats(0.0, 1.0, exclude_min=True))
    columns["propensity"] = column(st.none() | st.floats(0.0, 1.0, exclude_min=True))
    kind = draw(st.sampled_from(["none", "numbers", "dates", "delays"]))
    if kind == "none":
        return columns
    took = [
        None if reward is None else more
        for reward, more in zip(columns["reward"], column(st.integers(0, 10**9)), strict=True)
    ]
    if kind == "delays":
        return columns | {"delay": took}
    times = sorted(column(st.integers(-(10**9), 2 * 10**9)))
    outcome_times = [None if more is None else time + more for time, more in zip(times, took, strict=True)]
    if kind == "dates":
        times = [EPOCH + timedelta(milliseconds=time) for time in times]
        outcome_times = [None if time is None else EPOCH + timedelta(milliseconds=time) for time in outcome_times]
    return columns | {"time": times, "outcome_time": outcome_times}


def log_of(columns: dict[str, list[Any]]) -> Log:
    """The log, made by hand."""
    labels = tuple(sorted(set(columns["arm"])))

    def numbers(name: str, none: float) -> Any:
        if name not in columns:
            return None
        values = [
            (value - EPOCH) / timedelta(microseconds=1) / 1e6 if isinstance(value, datetime) else value
            for value in columns[name]
        ]
        return np.array([none if value is None else value for value in values], dtype=np.float64)

    times, ends, took = numbers("time", np.nan), numbers("outcome_time", np.inf), numbers("delay", np.inf)
    waits = took
    if times is not None:
        took = ends - times
        made = columns["time"]
        ends = columns["outcome_time"]
        waits = np.array(
            [np.inf if end is None else sum(time <= end for time in made) - 1.0 - k for k, end in enumerate(ends)]
        )
    return Log(
        labels,
        np.array([labels.index(arm) for arm in columns["arm"]]),
        numbers("reward", np.nan),
        numbers("propensity", np.nan),
        waits,
        times=times,
        durations=took,
        in_seconds=isinstance(columns.get("time", [None])[0], datetime),
    )


def assert_same(log: Log, other: Log) -> None:
    assert log.labels == other.labels
    assert log.in_seconds == other.in_seconds
    for name in ("arms", "rewards", "propensities", "waits", "times"):
        np.testing.assert_array_equal(getattr(log, name), getattr(other, name), strict=True)
    assert (log.durations is None) == (other.durations is None)
    if log.durations is not None and other.durations is not None:
        # a difference may be rounded up
        np.testing.assert_allclose(log.durations, other.durations, rtol=1e-15)


def plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


@settings(max_examples=20, deadline=None)
@given(tables(), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.booleans())
def test_any_format_gives_the_same_log(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[Any]], quoting: int, ensure_ascii: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "log.csv"
    expected = log_of(columns)
    rows = [dict(zip(columns, map(plain, values), strict=True)) for values in zip(*columns.values(), strict=True)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(columns), quoting=quoting)  # type: ignore[arg-type]
        writer.writeheader()
        writer.writerows(rows)
    assert_same(read_log(path), expected)
    path = path.with_suffix(".ndjson")
    path.write_text("".join(json.dumps(row, ensure_ascii=ensure_ascii) + "\n" for row in rows), encoding="utf-8")
    assert_same(read_log(path), expected)
    frame = polars.DataFrame(columns, infer_schema_length=None)
    assert_same(frame_log(frame), expected)
    path = path.with_suffix(".parquet")
    frame.write_parquet(path)
    assert_same(read_log(path), expected)
    assert_same(frame_log(pandas.DataFrame(columns)), expected)
    assert_same(frame_log(pandas.DataFrame(columns).iloc[::-1].sort_index()), expected)


def test_paths_may_be_texts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\na,1\nb,0\n")
    assert_same(read_log(str(path)), read_log(path))
