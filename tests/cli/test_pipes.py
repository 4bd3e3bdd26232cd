"""`belated … | head`: a reader that goes early ends the command quietly."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from belated.ledger import open_ledger
from belated.ledger.commands import Decide
from belated.ledger.events import ExperimentSettings
from belated.ledger.processor import CommandProcessor

BELATED = [sys.executable, "-m", "belated.cli"]
PIPE_CLOSED = 141
PARTS = 10


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ledger whose export is longer than a pipe holds."""
    store = f"sqlite:///{tmp_path_factory.mktemp('store') / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger:
        ledger.create(ExperimentSettings("one", ["x", "y"], "uniform", {}, 1, "wait"), 0, 10)
        ids = [[f"decision-{part}-{number}" for number in range(200)] for part in range(PARTS)]
        CommandProcessor(ledger).run([Decide("one", each) for each in ids])
    return store


@pytest.fixture(params=[pytest.param("", id="buffered", marks=pytest.mark.slow), pytest.param("1", id="unbuffered")])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """A buffer fails when it is emptied, at the end or when it is full; without one every write may fail."""
    return os.environ | {"PYTHONUNBUFFERED": request.param}


def closed_early(words: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a command whose standard output nobody reads; return its exit status and what it wrote to standard error."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([*BELATED, *words], stdout=write, stderr=subprocess.PIPE, text=True, env=environment)
    finally:
        os.close(write)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [["cells", "--json"], pytest.param([], marks=pytest.mark.slow)])
def test_listings(words: list[str], environment: dict[str, str]) -> None:
    assert closed_early(words, environment) == (PIPE_CLOSED, "")


@pytest.mark.slow
def test_help(environment: dict[str, str]) -> None:
    """argparse itself ignores a reader that has gone."""
    status, said = closed_early(["compare", "--help"], environment)
    assert status in (0, PIPE_CLOSED)
    assert said == ""


@pytest.mark.slow
def test_compare(tmp_path: Path, environment: dict[str, str]) -> None:
    """The files are there, since they are written before the table is printed."""
    words = ["compare", "--rounds", "50", "--replications", "2", "--learners", "ucb", "--out", str(tmp_path)]
    status, said = closed_early(words, environment)
    assert status == PIPE_CLOSED
    assert [line for line in said.splitlines() if str(tmp_path) not in line] == []
    assert {"curves.csv", "final.csv", "regret.png"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ndjson", "csv"])
def test_an_export(format: str, store: str, environment: dict[str, str]) -> None:
    words = ["ledger", "export", "one", "--format", format, "--store", store]
    assert closed_early(words, environment) == (PIPE_CLOSED, "")


def test_the_first_lines_come_through(store: str, environment: dict[str, str]) -> None:
    """As `head -1` does it: read a line, go away while the command still writes more than a pipe holds."""
    command = [*BELATED, "ledger", "export", "one", "--store", store]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=4096, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == PIPE_CLOSED


def test_without_any_standard_output() -> None:
    done = subprocess.run(["bash", "-c", '"$@" >&-', "bash", *BELATED, "learners"], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
