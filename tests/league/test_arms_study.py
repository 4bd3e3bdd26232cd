"""The study of arms that come and go, small."""

import subprocess
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[2] / "experiments" / "arms.py"


def run(*words: str) -> list[list[str]]:
    """The rows of the table that it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", STUDY, *words], capture_output=True, text=True, check=True
    ).stdout
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.splitlines()[2:]]


@pytest.mark.slow
def test_the_study_of_cells() -> None:
    rows = run("--rounds", "2000", "--replications", "3")
    assert len(rows) == 6 * 6
    assert {row[1] for row in rows} == {
        f"`{name}`" for name in ["guarded", "balanced", "robust", "thompson", "klucb", "tsallis"]
    }
    for *_, going_on, starting, ratio in rows:
        a, b = (float(each.replace(",", "")) for each in (going_on, starting))  # whole numbers
        assert (a - 0.5) / (b + 0.5) - 0.01 <= float(ratio.split()[0]) <= (a + 0.5) / (b - 0.5) + 0.01


@pytest.mark.slow
def test_the_study_of_constants() -> None:
    rows = run("--tune", "--rounds", "300", "--replications", "2", "--problems", "2")
    assert [row[0] for row in rows][:2] == ["`YOUTH` = 1", "`YOUTH` = 8"]
    assert len(rows) == 12
