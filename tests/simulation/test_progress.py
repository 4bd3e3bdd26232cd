import io

from belated.simulation.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_draws_on_a_terminal_and_takes_itself_away() -> None:
    stream = Terminal()
    bar = Progress(200, "league", stream=stream)
    bar.at(50)
    assert "league" in stream.getvalue()
    assert " 25%" in stream.getvalue()
    assert "s left" in stream.getvalue()
    drawn = len(stream.getvalue())
    bar.at(51)  # too soon for another drawing
    assert len(stream.getvalue()) == drawn
    bar.close()
    assert stream.getvalue().endswith("\r")
    assert stream.getvalue().rstrip("\r").split("\r")[-1].strip() == ""


def test_is_silent_elsewhere() -> None:
    stream = io.StringIO()
    bar = Progress(10, "league", stream=stream)
    bar.at(5)
    bar.close()
    assert stream.getvalue() == ""
