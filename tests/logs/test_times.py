"""Times and delays in logs: numbers, dates, zones, outcomes before and after decisions."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.logs import Log, ReadLog, frame_log, read_log, read_log_file
from belated.logs.log import waits_of
from support.refusals import refused


def read(path: Path, text: str, **options: Any) -> ReadLog:
    path = path / "log.csv"
    path.write_text(text)
    return read_log_file(path, **options)


def times_of(path: Path, *times: str, **options: Any) -> list[float]:
    rows = "".join(f"{'ab'[k % 2]},1,{time}\n" for k, time in enumerate(times))
    log = read(path, f"arm,reward,time\n{rows}", **options).log
    assert log.times is not None
    return log.times.tolist()


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-03-01", "2026-03-01T00:00:00"),
        ("2026-03-01 10:20", "2026-03-01T10:20:00"),
        ("2026-03-01T10:20", "2026-03-01T10:20:00"),
        ("2026-03-01t10:20:30", "2026-03-01T10:20:30"),
        (" 2026-03-01T10:20:30.5 ", "2026-03-01T10:20:30.500000"),
        ("2026-03-01T10:20:30.123456789", "2026-03-01T10:20:30.123456"),
        ("2026-03-01T10:20:30.000001", "2026-03-01T10:20:30.000001"),
        ("1969-12-31T23:59:59", "1969-12-31T23:59:59"),
        ("0001-01-01", "0001-01-01T00:00:00"),
        ("9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999"),
        ("2024-02-29", "2024-02-29T00:00:00"),
    ],
)
def test_dates_without_a_zone(text: str, iso: str, tmp_path: Path) -> None:
    expected = (datetime.fromisoformat(iso) - datetime(1970, 1, 1)) / timedelta(microseconds=1) / 1e6
    assert times_of(tmp_path, text, text) == [expected, expected]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-03-01T10:20:30Z", "2026-03-01T10:20:30+00:00"),
        ("2026-03-01T10:20:30z", "2026-03-01T10:20:30+00:00"),
        ("2026-03-01 10:20Z", "2026-03-01T10:20:00+00:00"),
        ("2026-03-01T10:20:30+02:00", "2026-03-01T10:20:30+02:00"),
        ("2026-03-01T10:20:30.25+0530", "2026-03-01T10:20:30.250000+05:30"),
        ("2026-03-01T10:20-03:30", "2026-03-01T10:20:00-03:30"),
        ("2026-03-01 10:20:30.000000 +0000", "2026-03-01T10:20:30+00:00"),
        ("2026-03-01 10:20:30-08", "2026-03-01T10:20:30-08:00"),
    ],
)
def test_dates_with_a_zone(text: str, iso: str, tmp_path: Path) -> None:
    expected = datetime.fromisoformat(iso).timestamp()
    assert times_of(tmp_path, text, text) == [expected, expected]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=2, max_size=9),
    st.sampled_from(["T", " "]),
    st.booleans(),
)
def test_dates_as_python_writes_them(
    tmp_path_factory: pytest.TempPathFactory, dates: list[datetime], separator: str, is_zoned: bool
) -> None:
    dates = [each.replace(tzinfo=UTC) for each in dates] if is_zoned else dates
    epoch = datetime(1970, 1, 1, tzinfo=UTC if is_zoned else None)
    expected = sorted((each - epoch) / timedelta(microseconds=1) / 1e6 for each in dates)
    texts = [each.isoformat(separator) for each in dates]
    assert times_of(tmp_path_factory.getbasetemp(), *texts) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("2026-02-30", "2026-13-01", "2026-3-1", "26-03-01", "01/03/2026", "2026-03-01T24:00", "2026-03-01T10:60"),
        *("2026-03-01T10:20:60", "2026-03-01T10", "2026-03-01T10:20:30.", "2026-03-01Z", "2026-03-01T10:20:30+25:00"),
        *("2026-03-01T10:20:30 UTC", "-2026-03-01", "+12026-03-01", "yesterday", "true", "inf", "1e400", "0x10"),
    ],
)
@pytest.mark.parametrize("first", ["5", "2026-01-01"])
def test_what_is_no_time(text: str, first: str, tmp_path: Path) -> None:
    with refused("time", 3):
        times_of(tmp_path, first, text)
    assert times_of(tmp_path, text, first, first, bad_rows="leave out") == times_of(tmp_path, first, first)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (("1", "2", "2026-01-01"), ("time", "2026-01-01", "4", "2")),
        (
            ("2026-01-01", "5", "6"),
            ("time", "5", "3", "2"),
        ),
        (("2026-01-01", "2026-01-01T00:00Z"), ("time", "3", "2")),
        (("2026-01-01T00:00Z", "2026-01-01"), ("time", "3", "2")),
        (
            ("2026-02-30", "5", "2026-01-01"),
            ("time", "2026-02-30", "2"),
        ),
        (("5", ""), ("time", "3")),
        (("2026-01-01", "NA"), ("time", "3")),
    ],
)
def test_times_are_of_one_kind(times: tuple[str, ...], message: tuple[str | None, ...], tmp_path: Path) -> None:
    with refused(*message):
        times_of(tmp_path, *times)


def test_the_first_time_that_can_be_read_decides(tmp_path: Path) -> None:
    times = times_of(tmp_path, "2026-02-30", "7", "2026-01-01", "6", "6", bad_rows="leave out")
    assert times == [6.0, 6.0, 7.0]


def test_rows_are_sorted_by_time_and_that_is_told(tmp_path: Path) -> None:
    read_ = read(tmp_path, "round,arm,reward\n3,a,0.3\n1,b,0.1\n3,b,0.4\n2,b,0.2\n")
    assert read_.log.rewards.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert read_.log.arms.tolist() == [1, 1, 0, 1]
    assert read_.log.times is not None
    assert read_.log.times.tolist() == [1, 2, 3, 3]
    (note,) = read_.notes
    assert "2 " in note
    assert "round" in note
    assert not read_.log.in_seconds
    assert read_.log.waits is None
    assert read_.log.durations is None
    assert read(tmp_path, "round,arm,reward\n1,a,0\n1,b,1\n2,b,0\n").notes == ()


def test_rows_of_the_same_time_stay_in_their_order(tmp_path: Path) -> None:
    rows = "".join(f"{k % 3},{'ab'[k % 2]},{k / 300}\n" for k in range(300))
    log = read(tmp_path, f"round,arm,reward\n{rows}").log
    for moment in range(3):
        assert (np.diff(log.rewards[100 * moment : 100 * (moment + 1)]) > 0).all()


def test_when_outcomes_came(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "arm,reward,decided_at,converted_at\n"
        "a,1,2026-01-01T00:00:00Z,2026-01-01T02:00:00+01:00\n"
        "b,0,2026-01-01T00:30:00Z,2026-01-01T00:30:00Z\n"
        "b,,2026-01-01T01:00:00Z,\n"
        "b,0.5,2026-01-01T01:00:01Z,2026-01-02T00:00:00Z\n",
    ).log
    assert log.in_seconds
    assert log.times is not None
    assert log.durations is not None
    assert log.waits is not None
    assert log.times.tolist() == [datetime(2026, 1, 1, tzinfo=UTC).timestamp() + s for s in (0, 1800, 3600, 3601)]
    assert log.durations.tolist() == [3600.0, 0.0, np.inf, 82799.0]
    assert log.waits.tolist() == [2.0, 0.0, np.inf, 0.0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=30))
def test_an_outcome_at_the_very_moment_of_a_decision_is_known_after_it(steps: list[tuple[int, int]]) -> None:
    """In tenths, which numbers with a point cannot say exactly."""
    times = sorted(step for step, _ in steps)
    ends = [time + more for time, (_, more) in zip(times, steps, strict=True)]
    frame = polars.DataFrame(
        {
            "arm": ["a", "b"] * (len(times) // 2) + ["a"] * (len(times) % 2),
            "reward": [1] * len(times),
            "time": [time / 10 for time in times],
            "outcome_time": [end / 10 for end in ends],
        }
    )
    log = frame_log(frame)
    assert log.waits is not None
    assert log.waits.tolist() == [sum(other <= end for other in times) - 1.0 - k for k, end in enumerate(ends)]
    assert log.times is not None
    assert log.durations is not None
    np.testing.assert_array_equal(waits_of(log.times, log.durations), log.waits)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1,5,4\n", ("converted_at", "4", "2")),
        ("a,,5,6\n", ("converted_at", "6", "2")),
        ("a,1,5,\n", ("reward", "1", "2")),
        ("a,0.5,5,NA\n", ("reward", "0.5", "2")),
        ("a,1,5,2026-01-01\n", ("converted_at", "2026-01-01", "2")),
        ("a,1,2026-01-01,2026-01-01T00:00Z\n", ("converted_at", "2")),
        ("a,1,5,soon\n", ("converted_at", "soon", "2")),
    ],
)
def test_outcome_times_that_cannot_be(rows: str, message: tuple[str | None, ...], tmp_path: Path) -> None:
    with refused(*message):
        read(tmp_path, f"arm,reward,time,converted_at\n{rows}b,,6,\n")


def test_reward_0_without_an_outcome_time_has_not_come_and_that_is_told(tmp_path: Path) -> None:
    rows = "a,0,1,\nb,1,2,3\nb,0,3,4\nb,,4,\na,0.0,5,null\n"
    read_ = read(tmp_path, f"arm,reward,time,converted_at\n{rows}")
    np.testing.assert_array_equal(read_.log.rewards, [np.nan, 1, 0, np.nan, np.nan])
    np.testing.assert_array_equal(read_.log.waits, [np.inf, 1, 1, np.inf, np.inf])
    np.testing.assert_array_equal(read_.log.durations, [np.inf, 1, 1, np.inf, np.inf])
    (note,) = read_.notes
    assert all(each in note for each in ("2 ", "reward 0", "converted_at"))
    read_ = read(tmp_path, "arm,loss,delay\na,1,\nb,0,3\n")
    np.testing.assert_array_equal(read_.log.rewards, [np.nan, 1])
    (note,) = read_.notes
    assert all(each in note for each in ("1 ", "loss 1", "delay"))


def test_a_delay_with_times(tmp_path: Path) -> None:
    log = read(tmp_path, "arm,reward,round,delay\na,1,1,2\nb,0,2,0\na,,3,\nb,1,4,1.5\n").log
    np.testing.assert_array_equal(log.times, [1, 2, 3, 4])
    np.testing.assert_array_equal(log.durations, [2, 0, np.inf, 1.5])
    np.testing.assert_array_equal(log.waits, [2, 0, np.inf, 0])
    log = read(tmp_path, "arm,reward,date,delay\na,1,2026-01-01,86400\nb,0,2026-01-02,1\n").log
    np.testing.assert_array_equal(log.waits, [1, 0])
    assert log.in_seconds


def test_a_delay_without_times(tmp_path: Path) -> None:
    text = "arm,reward,delay\na,1,1.1\nb,0,0\na,,\nb,1,2\n"
    log = read(tmp_path, text).log
    assert log.times is None
    assert not log.in_seconds
    np.testing.assert_array_equal(log.durations, [1.1, 0, np.inf, 2])
    np.testing.assert_array_equal(log.waits, [2, 0, np.inf, 2])
    # 1.1 * 100 is a little more than 110
    np.testing.assert_array_equal(read(tmp_path, text, accrual=100).log.waits, [110, 0, np.inf, 200])
    with refused("accrual", 0):
        read(tmp_path, text, accrual=0)
    with refused("accrual", 2):
        read(tmp_path, "arm,reward,delay,time\na,1,1,1\n", accrual=2)
    with refused("accrual", 2):
        read(tmp_path, "arm,reward\na,1\n", accrual=2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1,-1\n", ("delay", "-1", "2")),
        ("a,1,long\n", ("delay", "long", "2")),
        ("a,1,inf\n", ("delay", "inf", "2")),
        ("a,,1\n", ("delay", "1", "2")),
        ("a,1,\n", ("reward", "1", "2")),
    ],
)
def test_delays_that_cannot_be(rows: str, message: tuple[str | None, ...], tmp_path: Path) -> None:
    with refused(*message):
        read(tmp_path, f"arm,reward,delay\n{rows}b,1,1\n")


BEGIN = datetime(2026, 1, 1)


def frames(times: list[Any], outcome_times: list[Any]) -> list[Any]:
    columns = {"arm": ["a", "b"], "reward": [1, 0], "time": times, "outcome_time": outcome_times}
    return [polars.DataFrame(columns), pandas.DataFrame(columns)]


def test_times_of_frames(tmp_path: Path) -> None:
    later = BEGIN + timedelta(hours=1, microseconds=1)
    expected = [1767225600.0, 1767229200.000001]
    for frame in frames([BEGIN, later], [later, later]):
        assert_times(frame_log(frame), expected, [3600.000001, 0])
    for frame in frames([BEGIN.replace(tzinfo=UTC), later.replace(tzinfo=UTC)], [later.replace(tzinfo=UTC)] * 2):
        assert_times(frame_log(frame), expected, [3600.000001, 0])
    for frame in frames([date(2026, 1, 1), date(2026, 1, 2)], [date(2026, 1, 2), date(2026, 1, 2)]):
        assert_times(frame_log(frame), [1767225600.0, 1767312000.0], [86400, 0])
    frame = polars.DataFrame({"arm": ["a", "b"], "reward": [1, 0], "time": [BEGIN, later]})
    for kind in (polars.Datetime("ns"), polars.Datetime("ms"), polars.Datetime("us", "Europe/Berlin"), polars.Date):
        times = frame_log(frame.with_columns(polars.col("time").cast(kind))).times
        assert times is not None
        exact = kind in (polars.Datetime("ns"), polars.Datetime("us", "Europe/Berlin"))
        assert times.tolist() == [
            expected[0],
            expected[1] if exact else (expected[0] if kind == polars.Date else 1767229200.0),
        ]
        path = tmp_path / "log.parquet"
        frame.with_columns(polars.col("time").cast(kind)).write_parquet(path)
        np.testing.assert_array_equal(read_log(path).times, times)


def assert_times(log: Log, times: list[float], durations: list[float]) -> None:
    assert log.in_seconds
    assert log.times is not None
    assert log.durations is not None
    assert log.times.tolist() == times
    np.testing.assert_allclose(log.durations, durations, rtol=0, atol=3e-7)


def test_zones_of_frames_are_of_one_kind() -> None:
    zoned = [BEGIN.replace(tzinfo=UTC)] * 2
    for frame in frames(zoned, [BEGIN, BEGIN]):
        with refused("outcome_time", 1):
            frame_log(frame)
    for frame in frames([1, 2], zoned):
        with refused("outcome_time", 1):
            frame_log(frame)


def test_lengths_of_time_are_in_seconds() -> None:
    columns = {"arm": ["a", "b"], "reward": [1, 0], "delay": [timedelta(days=1), timedelta(seconds=0.5)]}
    for frame in (polars.DataFrame(columns), pandas.DataFrame(columns)):
        log = frame_log(frame)
        assert log.in_seconds
        np.testing.assert_array_equal(log.durations, [86400, 0.5])
    dated = polars.DataFrame(columns | {"time": [BEGIN, BEGIN + timedelta(days=1)]})
    np.testing.assert_array_equal(frame_log(dated).waits, [1, 0])
    with refused("delay"):
        frame_log(polars.DataFrame(columns | {"time": [1, 2]}))
