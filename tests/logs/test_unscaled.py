"""Values of files in the user's units."""

import math
from pathlib import Path

import numpy as np
import polars
import pytest

from belated.logs import read_values
from support.refusals import refused

ROWS = "visit,variant,revenue\nv1,a,12.5\nv2,b,\nv3,a,-3\nv4,b,1e4\n"


def written(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_columns_are_found_or_named(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    read = read_values(path)
    assert read.values[[0, 2, 3]].tolist() == [12.5, -3.0, 10_000.0]
    assert math.isnan(read.values[1])
    assert read.arms == ["a", "b", "a", "b"]
    assert read.columns == {"value": "revenue", "arm": "variant"}
    named = read_values(written(tmp_path, ROWS.replace("revenue", "euros")), value="euros", arm="visit")
    assert named.arms == ["v1", "v2", "v3", "v4"]
    assert np.array_equal(named.values, read.values, equal_nan=True)


def test_a_file_need_not_have_arms(tmp_path: Path) -> None:
    read = read_values(written(tmp_path, "amount\n1\n2\n"))
    assert read.arms is None
    assert read.values.tolist() == [1.0, 2.0]


def test_all_formats_are_read_alike(tmp_path: Path) -> None:
    expected = read_values(written(tmp_path, ROWS))
    frame = polars.read_csv(tmp_path / "log.csv")
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_ndjson(tmp_path / "log.NDJSON")
    for name in ("log.parquet", "log.NDJSON"):
        read = read_values(tmp_path / name)
        assert np.array_equal(read.values, expected.values, equal_nan=True)
        assert read.arms == expected.arms


def test_bad_rows_are_refused_or_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS + "v5,a,much\nv6,,3\nv7,b,inf\n")
    with refused("revenue", "much", 6):
        read_values(path)
    read = read_values(path, bad_rows="leave out")
    assert read.values.size == len(read.arms or ()) == 4
    assert read.rejections.total == 3
    with refused("bad_rows", "drop"):
        read_values(path, bad_rows="drop")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    with refused("value", "euros") as caught:
        read_values(path, value="euros")
    assert caught.value.field == "value"
    with refused("arm", "button") as caught:
        read_values(path, arm="button")
    assert caught.value.field == "arm"
    with refused("value"):
        read_values(written(tmp_path, "visit,euros\nv1,3\n", "other.csv"))
    with refused("value", "value"):
        read_values(written(tmp_path, "value,value\n1,2\n", "twice.csv"))
    with refused("path", ".txt", ".csv"):
        read_values(tmp_path / "log.txt")


@pytest.mark.parametrize("value", [None, "revenue"])
def test_files_without_rows(tmp_path: Path, value: str | None) -> None:
    for name, text in (
        ("empty.csv", ""),
        ("header.csv", "arm,revenue\n"),
        ("no.ndjson", ""),
        ("bare.ndjson", "{}\n{}\n"),
    ):
        with refused("path"):
            read_values(written(tmp_path, text, name), value=value)
    with refused("path", 1):
        read_values(written(tmp_path, "nonsense\n", "bad.ndjson"), value=value)
