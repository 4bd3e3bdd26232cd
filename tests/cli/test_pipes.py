"""`belated … | head`: a reader that goes early ends the command quietly."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http_helpers import create, decide, serving, talk

BELATED = [sys.executable, "-m", "belated.cli"]
PIPE_CLOSED = 141
PARTS = 10


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ledger whose export is longer than a pipe holds."""
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "one")
        for part in range(PARTS):
            decide(http, "one", *(f"decision-{part}-{number}" for number in range(200)))
        yield server.store


def closed_early(words: list[str], **settings: str) -> tuple[int, str]:
    """Run a command whose standard output nobody reads; return its exit status and what it wrote to standard error."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*BELATED, *words], stdout=write, stderr=subprocess.PIPE, text=True, timeout=120, env=os.environ | settings
        )
    finally:
        os.close(write)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [["learners"], ["learners", "robust"], ["cells", "--json"], ["--version"], []])
@pytest.mark.parametrize("buffered", [True, False])
def test_listings(words: list[str], buffered: bool) -> None:
    settings = {} if buffered else {"PYTHONUNBUFFERED": "1"}
    assert closed_early(words, **settings) == (PIPE_CLOSED, "")


def test_help() -> None:
    """argparse itself ignores a reader that has gone."""
    status, said = closed_early(["compare", "--help"])
    assert status in (0, PIPE_CLOSED)
    assert said == ""


def test_compare(tmp_path: Path) -> None:
    """The files are there, since they are written before the table is printed."""
    words = ["compare", "--rounds", "50", "--replications", "2", "--learners", "ucb", "--out", str(tmp_path)]
    status, said = closed_early(words)
    assert status == PIPE_CLOSED
    assert [line for line in said.splitlines() if not line.startswith("written: ")] == []
    assert {"curves.csv", "final.csv", "regret.png"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("format", ["ndjson", "csv"])
def test_an_export(format: str, store: str) -> None:
    assert closed_early(["ledger", "export", "one", "--format", format, "--store", store]) == (PIPE_CLOSED, "")


def test_the_first_lines_come_through(store: str) -> None:
    """As `head -1` does it: read a line, go away while the command still writes."""
    command = [*BELATED, "ledger", "export", "one", "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=4096) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"{")
        time.sleep(0.5)  # the pipe is full now
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == PIPE_CLOSED


def test_a_reader_that_stays_gets_everything(store: str) -> None:
    done = subprocess.run([*BELATED, "ledger", "export", "one", "--store", store], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 200 * PARTS, b"")


def test_without_any_standard_output() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", *BELATED, "learners"], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
