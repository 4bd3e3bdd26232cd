"""Logs in files and frames."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

from belated import inference
from belated.inference import Log, read_log
from belated.logs import frame_log, read_log_file
from support.refusals import refused

ROWS = [
    {"round": 1, "arm": "a", "propensity": 0.5, "reward": 1.0},
    {"round": 2, "arm": "b", "propensity": 0.5, "reward": None},
    {"round": 3, "arm": "b", "propensity": 0.25, "reward": 0.5},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join("" if v is None else str(v) for v in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".parquet":
        polars.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def assert_is_small(log: Log) -> None:
    assert log.labels == ("a", "b")
    assert log.arms.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(log.rewards, [1.0, np.nan, 0.5])
    assert log.propensities.tolist() == [0.5, 0.5, 0.25]
    assert log.waits is None


@pytest.mark.parametrize("name", ["log.csv", "log.ndjson", "log.jsonl", "log.parquet"])
def test_names_in_capitals(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, ROWS)
    assert_is_small(read_log(path.rename(tmp_path / name.upper())))


@pytest.mark.parametrize("name", ["log.csv", "log.ndjson", "log.jsonl", "log.parquet"])
def test_a_row_for_each_decision(name: str, tmp_path: Path) -> None:
    assert_is_small(read_log(write(tmp_path / name, ROWS)))


@pytest.mark.parametrize("kind", [polars.DataFrame, pandas.DataFrame])
def test_frames(kind: Any) -> None:
    frame = kind(ROWS)
    assert_is_small(frame_log(frame))
    assert inference.estimates(frame)["b"].decisions == 2


def test_columns_by_other_names(tmp_path: Path) -> None:
    rows = [
        {"variant": "a", "y": 0.0, "pscore": 0.5, "when": "2026-01-01"},
        {"variant": "b", "y": 1, "pscore": 0.5, "when": "2026-01-02"},
    ]
    path = write(tmp_path / "log.csv", rows)
    log = read_log(path, loss="y", time="when")
    assert log.rewards.tolist() == [1.0, 0.0]
    assert log.propensities.tolist() == [0.5, 0.5]
    assert read_log(path, reward="y").rewards.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm,reward\na,1\nb,2\n", ("reward", "2", "3")),
        ("arm,reward\na,1\nb,much\n", ("reward", "much", "3")),
        ("arm,reward,propensity\na,1,0.5\nb,1,0\n", ("propensity", "0", "3")),
        ("id,arm,reward\nx,a,1\nx,b,1\n", ("id", "x", "3")),
        ("arm,reward\na,1\nb\n", ("path",)),
        ("arm,reward\na,1\n,1\n", ("arm", "3")),
        ("arm,x\na,1\n", ("reward",)),
        ("x,reward\na,1\n", ("arm",)),
        ("arm,reward,loss\na,1,0\n", ("reward", "reward", "loss")),
        ("arm,reward\n", ("path",)),
        ("arm,reward\na,1\na,0\n", ("arms", "1")),
    ],
)
def test_what_is_wrong_is_named_by_line(text: str, message: tuple[str | None, ...], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with refused(*message):
        read_log(path)


def test_lines_that_are_not_json_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_text('{"arm": "a", "reward": 1}\nnothing\n')
    with refused("path", 2):
        read_log(path)
    path.write_text('{"arm": "a", "reward": 1}\n[1]\n')
    with refused("path", 2):
        read_log(path)
    path.write_text('{"arm": "a", "reward": 1}\n{"reward": 1}\n')
    with refused("arm", 2):
        read_log(path)


def test_other_files_and_columns_are_refused(tmp_path: Path) -> None:
    with refused("path", ".txt", ".csv"):
        read_log(tmp_path / "log.txt")
    path = write(tmp_path / "log.csv", ROWS)
    with refused("arm", "nix"):
        read_log(path, arm="nix")
    with refused("column", "rewards"):
        read_log(path, rewards="reward")


def columns_of(path: Path, header: str, **given: Any) -> dict[str, str]:
    path = path / "log.csv"
    cells = {"arm": ["a", "b"], "reward": ["0", "0"]}
    rows = zip(*(cells.get(name, ["1", "1"]) for name in header.split(",")), strict=True)
    path.write_text("\n".join([header, *map(",".join, rows)]))
    return read_log_file(path, **given).columns


def test_times_of_outcomes_are_found_by_their_names(tmp_path: Path) -> None:
    found = columns_of(tmp_path, "decided_at,arm,reward,converted_at,duration")
    assert found == {"arm": "arm", "reward": "reward", "time": "decided_at", "outcome_time": "converted_at"}
    found = columns_of(tmp_path, "decided_at,arm,reward,converted_at,duration", delay="duration")
    assert found == {"arm": "arm", "reward": "reward", "time": "decided_at", "delay": "duration"}
    assert columns_of(tmp_path, "arm,reward,round,time")["time"] == "round"
    assert columns_of(tmp_path, "arm,reward,x", delay="x")["delay"] == "x"
    assert "time" not in columns_of(tmp_path, "arm,reward,duration")


@pytest.mark.parametrize(
    ("header", "given", "message"),
    [
        (
            "arm,reward,observed_at",
            {},
            ("time", "observed_at"),
        ),
        (
            "arm,reward,time,x,y",
            {"outcome_time": "x", "delay": "y"},
            ("delay", "x", "y"),
        ),
        ("arm,reward,time,time", {}, ("time", "time")),
        ("arm,reward", {"order": "round"}, ("column", "order")),
    ],
)
def test_columns_that_cannot_be(
    header: str, given: dict[str, str], message: tuple[str | None, ...], tmp_path: Path
) -> None:
    with refused(*message):
        columns_of(tmp_path, header, **given)


def test_one_column_may_be_for_two_things(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("n,arm,reward\n2,a,1\n1,b,0\n")
    log = read_log(path, time="n", id="n")
    assert log.rewards.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", ["log.csv", "log.ndjson", "log.parquet"])
def test_what_the_system_says_of_files_is_passed_on(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError):
        read_log(tmp_path / name)


def test_polars_is_asked_for_by_the_name_of_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\na,1\nb,0\n")
    with refused(None, "belated[logs]", error=ImportError):
        read_log(path)


def test_rows_come_in_the_order_of_the_file_also_where_some_are_read_apart(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"arm,reward\na,0.1\nb,0.2\r \na,0.3\n\xc3\xa9,0.4\n\xff,1\n")
    read = read_log_file(path, bad_rows="leave out")
    assert read.log.rewards.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert read.log.labels == ("a", "b", "é")
