"""experiments/actg175.py, played small: the tables of docs/trial.md, and its figure."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from belated.logs.public import missing

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "trial.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing("actg175") is not None, reason=missing("actg175") or ""),
]


def rows(text: str) -> list[list[str]]:
    """The rows of all tables."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tables_of_the_page_are_made_by_its_experiment(tmp_path: Path) -> None:
    """300 patients, 20 trials: all arms get about the same where 50 patients come a day; learners move where 1 in 5
    days comes. The table of the data is that of the page; the others have its rows and columns."""
    script, figure = PROJECT / "experiments" / "actg175.py", tmp_path / "actg175.png"
    words = ["--simulations", "20", "--patients", "300", "--paces", "0.2", "50", "--figure", str(figure)]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True)
    found, shown = rows(done.stdout), rows(PAGE.read_text())
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert all(row in shown for row in found[:5])
    assert [row[3:5] for row in found[1:5]] == [["28.3", "26.8"], ["14.0", "13.5"], ["13.0", "12.5"], ["16.8", "16.2"]]
    assert sum(int(row[2]) for row in found[1:5]) == 1941
    names = [row[0] for row in found[6:13]]
    assert names[:2] == ["fixed randomisation", "`guarded`"]
    assert [row[0] for row in shown].count("`guarded`") == [row[0] for row in found].count("`guarded`") == 7
    assert set(names) <= {row[0] for row in shown}
    events = {row[0]: [float(cell.split(" ±")[0]) for cell in row[1:]] for row in found[6:13]}
    assert events["`thompson`"][0] < events["fixed randomisation"][0] - 4
    assert events["`guarded`"][1] == pytest.approx(events["fixed randomisation"][1], abs=4)
    for title in re.findall(r"^(?:Trials|Patients|Under|Bias)[^|\n]*$", done.stdout, flags=re.MULTILINE):
        assert f"**{title}**" in PAGE.read_text()
