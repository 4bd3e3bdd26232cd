"""Parquet files and frames of polars and pandas: kinds of columns, and what is wrong with rows."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

from belated.logs import frame_log, frames, read_log, read_log_file
from support.refusals import refused


def both(columns: dict[str, Any]) -> list[Any]:
    return [polars.DataFrame(columns, strict=False), pandas.DataFrame(columns)]


@pytest.mark.parametrize(
    ("arms", "labels"),
    [
        (["b", "a"], ("a", "b")),
        ([10, 2], (2, 10)),
        ([10.0, 2.0], (2, 10)),
        ([1.5, 2.0], (2, "1.5")),
        ([True, False], ("false", "true")),
    ],
)
def test_labels(arms: list[Any], labels: tuple[Any, ...], tmp_path: Path) -> None:
    for frame in both({"arm": arms, "reward": [1, 0]}):
        log = frame_log(frame)
        assert repr(log.labels) == repr(labels)
        assert log.arms.tolist() == [labels.index(arm) for arm in log_labels(arms)]
    polars.DataFrame({"arm": arms, "reward": [1, 0]}).write_parquet(tmp_path / "log.parquet")
    assert repr(read_log(tmp_path / "log.parquet").labels) == repr(labels)


def log_labels(arms: list[Any]) -> list[Any]:
    return [
        str(arm).lower()
        if isinstance(arm, bool)
        else int(arm)
        if isinstance(arm, float) and arm % 1 == 0
        else arm
        if isinstance(arm, str | int)
        else str(arm)
        for arm in arms
    ]


def test_mixed_labels_and_categories() -> None:
    frame = pandas.DataFrame({"arm": [2, "2", "a"], "reward": [1, 0, 1]})
    assert repr(frame_log(frame).labels) == "(2, '2', 'a')"
    frame = pandas.DataFrame({"arm": pandas.Categorical(["x", "y"]), "reward": [1, 0]})
    assert frame_log(frame).labels == ("x", "y")
    for kind in (polars.Categorical, polars.Enum(["y", "x"])):
        given = polars.DataFrame({"arm": polars.Series(["x", "y"], dtype=kind), "reward": [1, 0]})
        assert frame_log(given).labels == ("x", "y")


@pytest.mark.parametrize(
    "rewards",
    [
        [1, 0, None],
        [1.0, 0.0, np.nan],
        [True, False, None],
        ["1", "0", ""],
        ["1", "0", "NA"],
        [Decimal("1.0"), Decimal("0.0"), None],
        [np.float64(1), 0, None],
        ["True", "false", None],
    ],
)
def test_rewards(rewards: list[Any]) -> None:
    for frame in both({"arm": ["a", "b", "b"], "reward": rewards}):
        np.testing.assert_array_equal(frame_log(frame).rewards, [1.0, 0.0, np.nan])


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean", "string", "object"])
def test_nullable_columns_of_pandas(kind: str) -> None:
    rewards = pandas.Series(["1", "0", None] if kind == "string" else [1, 0, None], dtype=kind)
    frame = pandas.DataFrame({"arm": ["a", "b", "b"], "reward": rewards})
    np.testing.assert_array_equal(frame_log(frame).rewards, [1.0, 0.0, np.nan])


def test_bad_rows_are_told_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "ROWS", 3)
    columns = {"arm": ["a", "b"] * 5, "reward": [0.5] * 7 + [2.0, 0.0, np.inf]}
    for frame in both(columns):
        with refused("reward", "2.0", 8):
            frame_log(frame)
        assert frame_log(frame, bad_rows="leave out").rewards.tolist() == [0.5] * 7 + [0.0]
    path = tmp_path / "log.parquet"
    polars.DataFrame(columns).write_parquet(path, row_group_size=4)
    with refused("reward", "2.0", "log.parquet", 8):
        read_log(path)
    read = read_log_file(path, bad_rows="leave out")
    assert [each.line for each in read.rejections] == [8, 10]
    assert read.rejections.rows == 10
    read.rejections.write(tmp_path / "rejected.csv")
    assert (tmp_path / "rejected.csv").read_text().startswith("row,column,value,reason\n8,reward,2.0,")


@pytest.mark.parametrize("name", ["reward", "propensity", "time", "outcome_time", "delay", "arm"])
def test_columns_of_other_kinds_are_bad_rows(name: str) -> None:
    columns: dict[str, Any] = {"arm": ["a", "b"], "reward": [1, 0], "time": [1, 2]} | {name: [[1], [2]]}
    with refused(name, 1, "[1]"):
        frame_log(polars.DataFrame(columns))


def test_frames_without_rows(tmp_path: Path) -> None:
    for frame in both({"arm": [], "reward": []}):
        with refused("path"):
            frame_log(frame)
    polars.DataFrame({"arm": [], "reward": []}).write_parquet(tmp_path / "log.parquet")
    with refused("path", "log.parquet"):
        read_log(tmp_path / "log.parquet")


def test_lazy_frames_and_names_that_are_no_texts() -> None:
    columns = {"arm": ["a", "b"], "reward": [1, 0]}
    assert frame_log(polars.LazyFrame(columns)).arms.tolist() == [0, 1]
    assert frame_log(pandas.DataFrame(columns | {7: [3, 4]})).arms.tolist() == [0, 1]
    frame = pandas.DataFrame([["a", 1, 0], ["b", 0, 1]], columns=["arm", "reward", "reward"])
    with refused("reward", "reward"):
        frame_log(frame)


def test_what_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_text("arm,reward\n")
    with refused("path", "log.parquet"):
        read_log(path)


@pytest.mark.slow
def test_pyarrow_is_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    polars.DataFrame({"arm": ["a", "b"], "reward": [1, 0], "id": ["x", "y"]}).write_parquet(path)
    code = f"""
import sys
sys.modules["pyarrow"] = None
import pandas, polars
from belated.logs import frame_log, read_log
columns = {{"arm": ["a", "b"], "reward": [1, None], "at": pandas.to_datetime(["2026-01-01", "2026-01-02"], utc=True)}}
for frame in (pandas.DataFrame(columns), pandas.DataFrame(columns).astype({{"arm": "category", "reward": "Int64"}})):
    assert frame_log(frame).times.tolist() == [1767225600.0, 1767312000.0]
assert read_log({str(path)!r}).rewards.tolist() == [1.0, 0.0]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
