import io

import pytest

from belated.simulation.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_draws_on_a_terminal_and_takes_itself_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times a second at most; after 30 s for a quarter, 90 s are left."""
    now = 1000.0
    monkeypatch.setattr("belated.simulation.progress.time.monotonic", lambda: now)
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    bar = Progress(200, "league", stream=stream)
    now += 30.0
    bar.at(50)
    assert "league" in stream.getvalue()
    assert " 25%  90 " in stream.getvalue()
    drawn = len(stream.getvalue())
    now += 0.09
    bar.at(60)
    assert len(stream.getvalue()) == drawn
    now += 0.02
    bar.at(100)
    assert " 50%  30 " in stream.getvalue()
    bar.close()
    assert stream.getvalue().endswith("\r")
    assert stream.getvalue().rstrip("\r").split("\r")[-1].strip() == ""


def test_is_silent_elsewhere() -> None:
    stream = io.StringIO()
    bar = Progress(10, "league", stream=stream)
    bar.at(5)
    bar.close()
    assert stream.getvalue() == ""
