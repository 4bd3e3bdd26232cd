"""Logs with a column of values in units of their own."""

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from belated.logs import frame_log, read_log_file
from belated.logs.rejections import BEYOND
from belated.logs.scale import Scale
from support.refusals import refused

REVENUE = Scale(0, 200)
TEXT = "variant,revenue\na,50\nb,200\nb,250\na,\nb,-1\na,0\n"


def written(path: Path, text: str) -> Path:
    path = path / "log.csv"
    path.write_text(text)
    return path


def test_values_become_rewards(tmp_path: Path) -> None:
    read = read_log_file(written(tmp_path, TEXT), scale=REVENUE)
    np.testing.assert_array_equal(read.log.rewards, [0.25, 1.0, 1.0, np.nan, 0.0, 0.0])
    assert read.columns == {"arm": "variant", "value": "revenue"}
    (note,) = read.notes
    assert all(each in note for each in ("2 ", "revenue", "0", "200"))
    lower = read_log_file(written(tmp_path, TEXT), scale=Scale(0, 200, better="lower")).log
    np.testing.assert_array_equal(lower.rewards, [0.75, 0.0, 0.0, np.nan, 1.0, 1.0])
    one = read_log_file(written(tmp_path, TEXT), scale=Scale(-1, 200))
    (note,) = one.notes
    assert all(each in note for each in ("1 ", "revenue", "-1", "200"))
    assert read_log_file(written(tmp_path, TEXT), scale=Scale(-1, 250)).notes == ()


def test_values_beyond_the_range_are_bad_where_they_are_refused(tmp_path: Path) -> None:
    strict = Scale(0, 200, beyond="refuse")
    with refused("revenue", 250, 4):
        read_log_file(written(tmp_path, TEXT), scale=strict)
    read = read_log_file(written(tmp_path, TEXT), scale=strict, bad_rows="leave out")
    np.testing.assert_array_equal(read.log.rewards, [0.25, 1.0, np.nan, 0.0])
    assert read.rejections.counts == {BEYOND.counted.format(column="revenue"): 2}
    assert read.notes == ()


@pytest.mark.parametrize("text", ["variant,revenue\na,much\nb,1\n", "variant,revenue\na,true\nb,1\n"])
def test_values_are_numbers(text: str, tmp_path: Path) -> None:
    with refused("revenue", 2):
        read_log_file(written(tmp_path, text), scale=REVENUE)


@pytest.mark.parametrize(
    ("header", "given", "found"),
    [
        ("arm,value", {"scale": REVENUE}, {"arm": "arm", "value": "value"}),
        ("arm,x", {"scale": REVENUE, "value": "x"}, {"arm": "arm", "value": "x"}),
        ("arm,reward,amount", {"scale": REVENUE}, {"arm": "arm", "value": "amount"}),
        ("arm,reward,loss,amount", {"scale": REVENUE}, {"arm": "arm", "value": "amount"}),
        ("arm,reward,amount", {}, {"arm": "arm", "reward": "reward"}),  # a column of that name by chance
        ("arm,reward,amount", {"scale": REVENUE, "reward": "reward"}, {"arm": "arm", "reward": "reward"}),
        ("arm,reward,x", {"scale": REVENUE}, {"arm": "arm", "reward": "reward"}),
        ("arm,reward", {"scale": REVENUE, "value": "reward"}, {"arm": "arm", "value": "reward"}),
    ],
)
def test_which_column_is_of_values(header: str, given: dict[str, Any], found: dict[str, str], tmp_path: Path) -> None:
    columns = header.count(",")
    path = written(tmp_path, f"{header}\na{',1' * columns}\nb{',0' * columns}\n")
    assert read_log_file(path, **given).columns == found


@pytest.mark.parametrize(
    ("header", "given", "words"),
    [
        ("arm,revenue", {}, ("reward", "revenue")),
        ("arm,x", {"value": "x"}, ("value", "x")),
        ("arm,x,y", {"value": "x", "loss": "y", "scale": REVENUE}, ("value", "x", "y")),
        ("arm,x", {"value": "z", "scale": REVENUE}, ("value", "z")),
        ("arm,x", {"scale": REVENUE}, ("reward",)),
    ],
)
def test_columns_that_cannot_be(
    header: str, given: dict[str, Any], words: tuple[str | None, ...], tmp_path: Path
) -> None:
    columns = header.count(",")
    path = written(tmp_path, f"{header}\na{',1' * columns}\nb{',0' * columns}\n")
    with refused(*words):
        read_log_file(path, **given)


def test_a_value_of_0_without_a_time_is_nothing_yet() -> None:
    """Whatever the range: nothing was bought so far. Other values need a time."""
    frame = polars.DataFrame(
        {"arm": ["a", "b", "a"], "time": [1, 2, 3], "amount": [0.0, 0.0, 5.0], "outcome_time": [None, 4, 3]}
    )
    for scale in (REVENUE, Scale(-50, 50), Scale(0, 50, better="lower")):
        log = frame_log(frame, scale=scale)
        assert np.isnan(log.rewards).tolist() == [True, False, False]
    timeless = frame.with_columns(amount=polars.Series([3.0, 0.0, 5.0]))
    with refused("amount", "3.0", 1):
        frame_log(timeless, scale=REVENUE)


def test_a_reward_above_1_comes_with_advice(tmp_path: Path) -> None:
    with refused("reward", 2):
        read_log_file(written(tmp_path, "arm,reward\na,1\nb,2\n"))
