"""Decisions that are there twice."""

import json
from pathlib import Path
from unittest import mock

import polars
import pytest

from belated.logs import csv_files, frame_log, read_log, read_log_file
from belated.logs.rejections import TWICE
from support.refusals import refused


def test_the_later_one_is_bad_also_in_another_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,arm,reward\n" + "".join(f"{k % 90},{'ab'[k % 2]},1\n" for k in range(100)))
    monkeypatch.setattr(csv_files, "SIZE", 64)
    read = read_log_file(path, bad_rows="leave out")
    assert read.log.arms.size == 90
    assert [each.line for each in read.rejections] == list(range(92, 102))
    assert read.rejections.examples(1)[0].reason.endswith(" 2")
    assert read.rejections.counts == {TWICE.counted: 10}


def test_a_row_that_is_bad_anyway_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,arm,reward\nx,a,much\nx,a,1\ny,b,0\ny,b,1\nx,b,1\n")
    read = read_log_file(path, bad_rows="leave out")
    assert [each.line for each in read.rejections] == [2, 5, 6]
    assert read.rejections.examples(3)[2].reason.endswith(" 3")
    assert read.log.rewards.tolist() == [1.0, 0.0]


def test_empty_ids_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,arm,reward\n,a,1\n,b,1\nNA,b,1\nNA,b,1\n")
    assert read_log(path).arms.size == 4


def test_ids_whose_hashes_are_alike_by_chance_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_text(
        "".join(json.dumps({"id": id, "arm": "ab"[k % 2], "reward": 1}) + "\n" for k, id in enumerate("xyzx"))
    )

    def alike(column: polars.Series, seed: int) -> polars.Series:
        return polars.Series([7] * len(column), dtype=polars.UInt64)

    with mock.patch.object(polars.Series, "hash", alike):
        read = read_log_file(path, bad_rows="leave out")
    assert [(each.line, each.value) for each in read.rejections] == [(4, "x")]


def test_ids_of_frames() -> None:
    frame = polars.DataFrame({"id": [1, 2, 1], "arm": ["a", "b", "b"], "reward": [1, 0, 1]})
    with refused("id", 1, 3):
        frame_log(frame)
