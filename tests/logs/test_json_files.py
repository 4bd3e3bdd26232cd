"""Lines of JSON: kinds of values, missing fields, and what is wrong with lines."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.logs import json_files, read_log, read_log_file
from belated.logs.json_files import JsonFile
from belated.logs.rejections import Rejections
from belated.logs.values import numbers
from support.refusals import refused


def written(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n")
    return path


def rows_of(path: Path) -> Any:
    """Rows with their lines, numbers as numbers; and what is wrong with the others."""
    rejections = Rejections()
    rows: list[Any] = []
    for frame, lines in JsonFile(path).pieces(["arm", "reward"], rejections, "arm"):
        rewards = [
            None if none else value for value, none, _ in zip(*numbers(frame["reward"], truths=True), strict=True)
        ]
        arms = [int(arm) if isinstance(arm, float) and arm.is_integer() else arm for arm in frame["arm"].to_list()]
        rows += zip(lines.tolist(), arms, rewards, strict=True)
    return repr(rows), list(rejections), rejections.rows


def test_numbers_may_be_of_any_kind_and_fields_may_be_missing(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.ndjson",
        '{"arm": "a", "reward": 1, "context": {"arm": "z", "deep": [1, {"x": []}]}}',
        '{"reward": 0.25, "arm": "b", "context": 7}',
        "",
        '{"arm": "b"}',
        '  {"arm": "a", "reward": null, "propensity": 0.5}\r',
        '{"arm": "a", "reward": true, "propensity": "0.25"}',
        '{"arm": "a", "reward": "false"}',
        '{"arm": "a", "reward": NaN}',
        '{"arm": "a", "reward": 1e-1, "reward": 0}',
    )
    expected = [1, 0.25, np.nan, np.nan, 1, 0, np.nan, 0.1]
    log = read_log(path)
    np.testing.assert_array_equal(log.rewards, expected)
    np.testing.assert_array_equal(log.propensities[3:5], [0.5, 0.25])
    assert log.labels == ("a", "b")


@pytest.mark.parametrize(
    ("labels", "expected", "at_once"),
    [
        (["x", "y"], ("x", "y"), True),
        ([2, 10], (2, 10), True),
        (["2", "10"], ("10", "2"), True),
        ([2, "2", "a"], (2, "2", "a"), False),
        ([2, 1.0], (1, 2), False),
        ([True, "x"], ("true", "x"), False),
        (["[1]", "{}"], ("[1]", "{}"), True),
        (["é\n", "\U0001f600"], ("é\n", "\U0001f600"), True),
        ([2**70, 1], (1, 2**70), False),
    ],
)
def test_whole_numbers_stay_numbers_and_texts_texts(
    labels: list[Any], expected: tuple[Any, ...], at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        tmp_path / "log.ndjson", *(json.dumps({"reward": 1, "arm": label, "x": {"y": 1}}) for label in labels)
    )
    by_line = mock.Mock(wraps=json_files._read_by_line)
    monkeypatch.setattr(json_files, "_read_by_line", by_line)
    log = read_log(path)
    assert repr(log.labels) == repr(expected)
    assert by_line.called != at_once


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nothing", "not JSON: "),
        (b'{"arm": "a"', "not JSON: "),
        (b'{"arm": "a"}{"arm": "b"}', "not JSON: "),
        (b'{"arm": "a"},', "not JSON: "),
        (b'{"arm": "a\0"}', "not JSON: "),
        (b'{"arm": "\\ud800"}', "not JSON: "),
        (b"[" * 100_000, "not JSON: nested"),
        (b"[1]", "not an object"),
        (b"3", "not an object"),
        (b"null", "not an object"),
        (b'"a"', "not an object"),
        (b'{"arm": "\xff", "reward": 1}', "not UTF-8: "),
    ],
)
def test_what_is_wrong_with_lines(line: bytes, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path / "log.ndjson", '{"arm": "a", "reward": 1}', "", line, '{"arm": "b", "reward": 0}')
    read = read_log_file(path, bad_rows="leave out")
    (fault,) = read.rejections
    assert fault.line == 3
    assert fault.reason.startswith(reason)
    assert len(fault.value) <= 80
    assert read.rejections.rows == 3
    assert read.log.labels == ("a", "b")
    with refused("path"):
        read_log(path)


@pytest.mark.parametrize("value", ["[1]", "{}", '{"a": 1}'])
def test_labels_are_texts_or_numbers(value: str, tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", '{"arm": "a", "reward": 1}', f'{{"arm": {value}, "reward": 1}}')
    with refused("arm", 2):
        read_log(path)
    path = written(tmp_path / "log.jsonl", '{"arm": "a", "reward": 1}', f'{{"arm": "b", "reward": {value}}}')
    with refused("reward", 2):
        read_log(path)


@pytest.mark.parametrize(("text", "message"), [(b"", ("path",)), (b"\n \n", ("path",)), (b"[]\n", ("path", "1"))])
def test_files_without_rows(text: bytes, message: tuple[str | None, ...], tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(text)
    with refused(*message):
        read_log(path)


def test_columns_are_those_of_the_first_objects_and_in_their_order(tmp_path: Path) -> None:
    path = written(tmp_path / "log.ndjson", b"\xef\xbb\xbf" + b'{"b": 1, "a": 2}', "x", '{"reward": 1, "a": 1}')
    with refused("arm"):
        read_log(path)
    path = written(tmp_path / "log.ndjson", *['{"arm": "a"}'] * 20, '{"arm": "b", "reward": 1}')
    assert read_log(path).rewards[-1] == 1.0


VALUES = st.one_of(
    st.none(),
    st.sampled_from(["a", "b", "1", "true", "NA", "\ud800", "é", "\0"]),
    st.integers(-2, 3),
    st.booleans(),
    st.sampled_from([0.5, 1.0]),
    st.just([1]),
)
LINES = st.one_of(
    st.builds(lambda arm, reward: json.dumps({"arm": arm, "reward": reward}), VALUES, VALUES),
    st.builds(lambda reward: json.dumps({"reward": reward, "z": {"arm": 1}}), VALUES),
    st.sampled_from(
        ["", " ", "nothing", "[1]", "{}", '{"arm": "a", "arm": 1}', '{"arm": 1e400}', '{"\\u0061rm": 1}', "\r"]
    ),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(LINES, max_size=8), st.integers(1, 60))
def test_however_a_file_is_cut_its_rows_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "any.ndjson", *lines)
    with mock.patch.object(json_files, "_read_at_once", return_value=None):
        expected = rows_of(path)
    with mock.patch.object(json_files, "SIZE", size), mock.patch.object(json_files, "PART", 30):
        assert rows_of(path) == expected
    assert rows_of(path) == expected
