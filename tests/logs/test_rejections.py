"""Rows that cannot be read: refused, or left out, counted and listed."""

import csv
import time
from pathlib import Path

import numpy as np
import pytest

from belated import InvalidValue
from belated.logs import read_log, read_log_file
from support.refusals import refused

BAD = """\
decision,arm,reward,propensity
x,a,1,0.5
y,b,much,0.5
x,b,1,0.5

z,b,2,0.5
u,,1,0.5
v,b
w,b,-1,1.5
t,b,inf,0.5
s,b,0,0
r,b,1,1.5
q,b,,
"""
WRONG = [
    (3, "reward", "much", "reward is not a number"),
    (4, "decision", "x", "the decision is there twice: first in line 2"),
    (6, "reward", "2", "reward is not from 0 to 1"),
    (7, "arm", "", "arm is empty"),
    (8, "", "v,b", "wrong number of cells: 4 cells are needed, as in the first line; there are 2"),
    (9, "reward", "-1", "reward is not from 0 to 1"),
    (10, "reward", "inf", "reward is not a number"),
    (11, "propensity", "0", "propensity is not above 0 and at most 1"),
    (12, "propensity", "1.5", "propensity is not above 0 and at most 1"),
]


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(BAD)
    return path


def test_the_first_bad_row_is_named_and_how_many_more_there_are(bad: Path) -> None:
    with pytest.raises(InvalidValue) as error:
        read_log(bad)
    assert str(error.value) == (
        f"{bad}, line 3: reward is 'much'; a number is needed; 8 more rows are bad: bad_rows='leave out' leaves them"
        " out and lists them"
    )
    assert error.value.field == "reward"


def test_bad_rows_are_left_out_and_listed(bad: Path, tmp_path: Path) -> None:
    read = read_log_file(bad, bad_rows="leave out")
    assert read.log.arms.tolist() == [0, 1]
    np.testing.assert_array_equal(read.log.rewards, [1, np.nan])
    found = read.rejections
    assert list(map(tuple, found)) == WRONG
    assert (found.total, len(found), found.rows) == (9, 9, 11)
    assert list(map(tuple, found.examples(2))) == WRONG[:2]
    assert found.counts == {
        "reward is not a number": 2,
        "reward is not from 0 to 1": 2,
        "propensity is not above 0 and at most 1": 2,
        "wrong number of cells": 1,
        "arm is empty": 1,
        "the decision is there twice": 1,
    }
    assert found.sentence.startswith(
        "left out: 9 of 11 rows: 2 reward is not a number (line 3: 'much'), 2 reward is not from 0 to 1 (line 6: '2'), "
    )
    found.write(tmp_path / "rejected.csv")
    with (tmp_path / "rejected.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["line", "column", "value", "reason"]
    assert [(int(line), *rest) for line, *rest in rows] == WRONG


def test_nothing_is_rejected_in_a_good_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\na,1\nb,0\n")
    found = read_log_file(path).rejections
    assert (found.total, found.rows, list(found), found.examples(), found.counts) == (0, 2, [], [], {})
    found.write(tmp_path / "rejected.csv")
    assert (tmp_path / "rejected.csv").read_text() == "line,column,value,reason\n"


def test_a_log_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\na,x\nb,y\n")
    with refused("path", 2):
        read_log(path, bad_rows="leave out")
    path.write_text("arm,reward\na,1\nb,y\n")
    with refused("arms", 1):
        read_log(path, bad_rows="leave out")
    with refused("bad_rows", "ignore"):
        read_log(path, bad_rows="ignore")


def test_values_are_shortened(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"arm,reward\na,{'é' * 80}\nb,{'é' * 81}\na,1\nb,0\n")
    first, second = read_log_file(path, bad_rows="leave out").rejections
    assert first.value == "é" * 80
    assert second.value == "é" * 79 + "…"


def test_known_arms(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n1,1\n2,0\n7,1\n")
    with refused("arm", 7, 4, 2, 1, 3):
        read_log(path, arms=[2, 1, 3])
    log = read_log(path, arms=[2, 1, 3], bad_rows="leave out")
    assert log.labels == (2, 1, 3)
    assert log.arms.tolist() == [1, 0]
    with refused("arm", 0, 1, 2, 3, 4, 5):
        read_log(path, arms=range(7))


def test_a_million_bad_lines_are_counted_and_listed(tmp_path: Path) -> None:
    path, rejected = tmp_path / "log.csv", tmp_path / "rejected.csv"
    path.write_text("id,arm,reward\nx,a,1\ny,b,0\n" + "x,b,1\nz,a,much\nz\nu,,1\n" * 250_000)
    begun = time.perf_counter()
    read = read_log_file(path, bad_rows="leave out")
    read.rejections.write(rejected)
    assert time.perf_counter() - begun < 30
    assert read.log.arms.size == 2
    assert set(read.rejections.counts.values()) == {250_000}
    lines = rejected.read_text().splitlines()
    assert len(lines) == 1_000_001
    assert lines[-1] == '1000003,arm,"",arm is empty'
    assert lines[-4] == "1000000,id,x,the decision is there twice: first in line 2"
    error = str(read.rejections.error)
    assert "line 4: id is 'x'; the decision is there twice, first in line 2; 999,999 more rows are bad" in error
