"""CSV files: their lines, quotes, separators, and what is wrong with them."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.logs import csv_files, csv_layout, csv_rows, read_log, read_log_file
from belated.logs.csv_files import CsvFile
from belated.logs.rejections import CELLS, NOT_UTF8, NUL, QUOTES, TOO_LONG, Reason, Rejections
from support.refusals import refused

Rows = tuple[list[tuple[int, str | None, str | None]], list[tuple[int, str, str, str]], int]


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(path: Path) -> Rows:
    """Rows with their lines, an empty cell is None; and what is wrong with the others."""
    rejections = Rejections()
    rows = [
        (int(line), arm or None, reward or None)
        for frame, lines in CsvFile(path).pieces(["reward", "arm"], rejections)
        for line, (reward, arm) in zip(lines, frame.iter_rows(), strict=True)
    ]
    return rows, [(*each,) for each in rejections], rejections.rows


CASES = [
    ("a,1\nb,0\n", [(2, "a", "1"), (3, "b", "0")]),
    ("a,1\nb,0", [(2, "a", "1"), (3, "b", "0")]),
    ("a,1\r\nb,0\r\n", [(2, "a", "1"), (3, "b", "0")]),
    ("\n\na,1\n\n\r\nb,0\n\n", [(4, "a", "1"), (7, "b", "0")]),
    ("a,1\n   \n \t\nb,0\n", [(2, "a", "1"), (5, "b", "0")]),
    ('"a","1"\n"b, c",0\n"",1\n', [(2, "a", "1"), (3, "b, c", "0"), (4, None, "1")]),
    ('"a\nx\ny",1\nb,"0\n"\nc,1\n', [(2, "a\nx\ny", "1"), (5, "b", "0\n"), (7, "c", "1")]),
    ('"say ""a""",1\n"""",0\n', [(2, 'say "a"', "1"), (3, '"', "0")]),
    ('5" wide,1\nb,0\n', [(2, '5" wide', "1"), (3, "b", "0")]),
    ('"a\r\nx",1\r\n\r\nb,0\r\n', [(2, "a\r\nx", "1"), (5, "b", "0")]),
    ("é,1\nb ,0\n", [(2, "é", "1"), (3, "b ", "0")]),
    (",\n", [(2, None, None)]),
    ("", []),
    ("\n\r\n", []),
]


@pytest.mark.parametrize(("text", "rows"), CASES)
@pytest.mark.parametrize("size", [1, 7, 2**24])
def test_rows_with_their_lines(
    text: str,
    rows: list[tuple[int, str | None, str | None]],
    size: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = written(tmp_path / "log.csv", "arm,reward\n" + text)
    monkeypatch.setattr(csv_files, "SIZE", size)
    assert rows_of(path) == (rows, [], len(rows))
    monkeypatch.setattr(csv_files, "layout_of", lambda *_: None)
    assert rows_of(path) == (rows, [], len(rows))


FAULTS = [
    (b"a,1\nb,0,2\nc,1\n", 3, "b,0,2", CELLS),
    (b"a,1\nb\nc,1\n", 3, "b", CELLS),
    (b'"a\n\nx",1\nb\nc,1\n', 5, "b", CELLS),
    (b'a,1\n"b" x,0\nc,1\n', 3, '"b" x,0', QUOTES),
    (b'a,1\n"b,0\nc,1\nd,1\n', 3, '"b,0', QUOTES),
    (b"a,1\nb\xff,0\nc,1\n", 3, "b�,0", NOT_UTF8),
    (b'a,1\n"b\n\xff",0\nc,1\n', 3, '�",0', NOT_UTF8),
    (b'a,1\n"b",' + b"x" * 2**17 + b"\nc,1\n", 3, '"b",' + "x" * 75 + "…", TOO_LONG),
    (b"a,1\nb\0,0\nc,1\n", 3, "b�,0", NUL),
    (b"a,1\nb," + b"x" * 2**17 + b"\nc,1\n", 3, "b," + "x" * 77 + "…", TOO_LONG),
    (b'a,1\n"b' + b"x\n" * 2**16 + b'",0\n', 3, '"bx', QUOTES),
]


@pytest.mark.parametrize(("text", "line", "shown", "reason"), FAULTS)
def test_what_is_wrong_with_rows(text: bytes, line: int, shown: str, reason: Reason, tmp_path: Path) -> None:
    rows, faults, total = rows_of(written(tmp_path / "log.csv", b"arm,reward\n" + text))
    assert faults[0][:3] == (line, "", shown)
    assert faults[0][3].startswith(reason.counted)
    assert rows[0][1] in ("a", "a\n\nx")
    assert total == len(rows) + len(faults)
    if text.endswith(b"c,1\n"):
        assert len(faults) == 1
        assert rows[-1][1:] == ("c", "1")


def test_nothing_is_read_twice_and_good_rows_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "arm,reward\n" + "a,1\nb,0\n" * 5_000
    path = written(tmp_path / "log.csv", text)
    sizes: list[int] = []
    plain = CsvFile._read

    def counted(self: CsvFile, block: Any, *rest: Any) -> Any:
        sizes.append(len(block.data))
        return plain(self, block, *rest)

    monkeypatch.setattr(csv_files, "SIZE", 1_000)
    monkeypatch.setattr(CsvFile, "_read", counted)
    monkeypatch.setattr(CsvFile, "_read_by_line", None)
    rows, _, total = rows_of(path)
    assert (len(rows), total) == (10_000, 10_000)
    assert sum(sizes) == len(text) - len("arm,reward\n")
    assert len(sizes) <= len(text) / 1_000 + 2


def test_rows_after_a_quote_that_is_not_closed_are_read(tmp_path: Path) -> None:
    rows, faults, _ = rows_of(written(tmp_path / "log.csv", 'arm,reward\na,1\n"b,0\nc,1\nd,0\n'))
    assert rows == [(2, "a", "1"), (4, "c", "1"), (5, "d", "0")]
    assert [fault[0] for fault in faults] == [3]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                b"a",
                b"1",
                b",",
                b",",
                b'"',
                b'"',
                b"\n",
                b"\n",
                b"\r\n",
                b" ",
                b"\r",
                b"\xff",
                b"\0",
                b"\xc3\xa9",
                b'"a",1\n',
                b"b,0\n",
            ]
        ),
        max_size=40,
    ),
    st.integers(1, 60),
    st.sampled_from([2**17, 12]),
)
def test_however_a_file_is_cut_its_rows_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], size: int, longest: int
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "any.csv", b"arm,reward\n" + b"".join(parts))
    with mock.patch.object(csv_layout, "LONGEST", longest), mock.patch.object(csv_rows, "LONGEST", longest):
        whole = rows_of(path)
        with mock.patch.object(csv_files, "SIZE", size):
            assert rows_of(path) == whole
            with mock.patch.object(csv_files, "layout_of", return_value=None):
                assert rows_of(path) == whole


@pytest.mark.parametrize("text", ['arm;reward;"note, if any"\na;1;x\nb;0;y\n', "arm,reward;\na,1\nb,0\n"])
def test_the_separator_is_the_most_frequent_one(text: str, tmp_path: Path) -> None:
    """A comma, where another one is as frequent."""
    path = written(tmp_path / "log.csv", text)
    assert read_log(path, reward="reward" if '"' in text else "reward;").rewards.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators(separator: str, tmp_path: Path) -> None:
    text = "arm,reward,propensity\na,1,0.5\nb,0,0.5\n".replace(",", separator)
    assert read_log(written(tmp_path / "log.csv", text)).propensities.tolist() == [0.5, 0.5]


def test_decimal_commas_are_no_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", "arm;reward\na;0,5\nb;1\n")
    with refused("reward", "0,5", 2):
        read_log(path)


def test_a_byte_order_mark_and_blanks_in_the_header_are_no_part_of_names(tmp_path: Path) -> None:
    read = read_log_file(written(tmp_path / "log.csv", b"\xef\xbb\xbf\n arm , reward\na, 1\nb, 0\n"))
    assert read.columns == {"arm": "arm", "reward": "reward"}
    assert read.log.rewards.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", ("path",)),
        (b"\n\n", ("path",)),
        (b"arm,reward\n", ("path",)),
        (b"\xff,reward\na,1\n", ("path", "1", "8")),
        (b'\n"arm,reward\na,1\n', ("path", "2")),
        (b"arm,reward\ra,1\rb,0\r", ("path", "1")),
        (b"arm,reward,reward\na,1,1\n", ("reward", "reward")),
    ],
)
def test_headers_that_cannot_be(text: bytes, message: tuple[str | None, ...], tmp_path: Path) -> None:
    with refused(*message):
        read_log(written(tmp_path / "log.csv", text))


def test_only_the_rows_of_bad_pieces_are_read_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "arm,reward\n" + '"a",1\nb,0\n\n' * 500 + "b,0,0\n" + "a,1\nb,0\n" * 500
    path = written(tmp_path / "log.csv", text)
    monkeypatch.setattr(csv_files, "SIZE", 1000)
    by_line = mock.Mock(wraps=csv_rows.Rows)
    monkeypatch.setattr(csv_files, "Rows", by_line)
    read = read_log_file(path, bad_rows="leave out")
    assert by_line.call_count == 1
    assert [each.line for each in read.rejections] == [1502]
    np.testing.assert_array_equal(read.log.rewards, np.tile([1.0, 0.0], 1000))
