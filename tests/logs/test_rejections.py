"""Rows that cannot be read: refused, or left out, counted and listed."""

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from belated.logs import csv_files, read_log, read_log_file
from belated.logs.rejections import CELLS, NO_ARM, NO_NUMBER, NO_PROPENSITY, NO_SHARE, TWICE, Reason
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
    (3, "reward", "much", NO_NUMBER, ""),
    (4, "decision", "x", TWICE, "2"),
    (6, "reward", "2", NO_SHARE, ""),
    (7, "arm", "", NO_ARM, ""),
    (8, "", "v,b", CELLS, "2"),
    (9, "reward", "-1", NO_SHARE, ""),
    (10, "reward", "inf", NO_NUMBER, ""),
    (11, "propensity", "0", NO_PROPENSITY, ""),
    (12, "propensity", "1.5", NO_PROPENSITY, ""),
]
"""Line, column, value, the reason, and the number that it ends with."""


def check(found: Iterable[tuple[int, str, str, str]], expected: list[tuple[int, str, str, Reason, str]]) -> None:
    for each, (line, column, value, reason, end) in zip(found, expected, strict=True):
        assert each[:3] == (line, column, value)
        assert each[3].startswith(reason.counted.format(column=column))
        assert each[3].endswith(end)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(BAD)
    return path


def test_the_first_bad_row_is_named_and_how_many_more_there_are(bad: Path) -> None:
    with refused("reward", bad, 3, "'much'", 8, "'leave out'"):
        read_log(bad)


def test_bad_rows_are_left_out_and_listed(bad: Path, tmp_path: Path) -> None:
    read = read_log_file(bad, bad_rows="leave out")
    assert read.log.arms.tolist() == [0, 1]
    np.testing.assert_array_equal(read.log.rewards, [1, np.nan])
    found = read.rejections
    check(found, WRONG)
    assert (found.total, len(found), found.rows) == (9, 9, 11)
    check(found.examples(2), WRONG[:2])
    expected = Counter(reason.counted.format(column=column) for _, column, _, reason, _ in WRONG)
    assert found.counts == expected
    assert list(found.counts.values()) == [2, 2, 2, 1, 1, 1]
    assert all(each in found.sentence for each in ("9", "11", "3: 'much'", "6: '2'"))
    found.write(tmp_path / "rejected.csv")
    with (tmp_path / "rejected.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["line", "column", "value", "reason"]
    check([(int(line), column, value, reason) for line, column, value, reason in rows], WRONG)


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


def test_many_bad_lines_in_many_pieces_are_counted_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rejected = tmp_path / "log.csv", tmp_path / "rejected.csv"
    path.write_text("id,arm,reward\nx,a,1\ny,b,0\n" + "x,b,1\nz,a,much\nz\nu,,1\n" * 1_000)
    monkeypatch.setattr(csv_files, "SIZE", 5_000)
    read = read_log_file(path, bad_rows="leave out")
    read.rejections.write(rejected)
    assert read.log.arms.size == 2
    assert list(read.rejections.counts.values()) == [1_000] * 4
    lines = rejected.read_text().splitlines()
    assert len(lines) == 4_001
    assert lines[-1].startswith('4003,arm,"",')
    assert lines[-4].startswith("4000,id,x,")
    assert lines[-4].endswith(" 2")
    with refused("id", 4, "'x'", 2, "3,999"):
        raise read.rejections.error
