"""Commands of `belated`, run in the process of the test."""

from collections.abc import Iterable

import pytest

from belated.cli.main import REFUSED, main


def refused_line(capsys: pytest.CaptureFixture[str], words: Iterable[str], *names: object) -> str:
    """Check that a command is refused in a line that names these values, and prints nothing; return the line."""
    capsys.readouterr()
    assert main([*words]) == REFUSED
    out, notes = capsys.readouterr()
    assert out == ""
    line = notes.splitlines()[-1]
    assert notes.count("belated: ") == 1
    assert line.startswith("belated: ")
    assert [name for name in names if str(name) not in line] == [], line
    return line
