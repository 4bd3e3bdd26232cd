"""Learners, environments and delays of the user's own, by `module:NAME`, from a file in the current folder."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belated.cli.main import main
from support.commands import refused_line

Captured = pytest.CaptureFixture[str]
BELATED = Path(sys.executable).with_name("belated")
"""The command itself: unlike `python -m`, it does not put the current folder on the path."""
SKELETON = Path(__file__).parents[2] / "examples" / "skeleton_learner.py"

MODULE = '''
import numpy as np
from helper import MEANS
from belated.delays import Constant
from belated.learners import PythonLearner

class Leader:
    """Plays the arm with the smallest sum of losses."""
    def __init__(self, n_arms, rng):
        self.losses = np.zeros(n_arms)
    def decide(self, outstanding):
        p = np.zeros(self.losses.size)
        p[self.losses.argmin()] = 1.0
        return p
    def learn(self, arm, loss, propensity, round):
        self.losses[arm] += loss

NAMED = PythonLearner("the leader", Leader)

class Shop:
    n_arms = 3
    title = "a shop"
    def fill(self, rng, rounds):
        return np.array([MEANS]), None

class Evening:
    title = "in the evening"
    def fill(self, rng, rounds):
        return -rounds % 10

class NeedsMore:
    def __init__(self, size):
        self.size = size

LATE = Constant(7)
NUMBER = 3
'''


MODULES = ("skeleton", "mine", "helper", "broken", "wrong")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; what was imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", os.getcwd())])
    shutil.copy(SKELETON, tmp_path / "skeleton.py")
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "helper.py").write_text("MEANS = [0.2, 0.5, 0.9]\n")
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "wrong.py").write_text("x = = 1\n")
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


SMALL = ["--rounds", "300", "--replications", "2"]


def found(capsys: Captured, *words: str) -> Any:
    assert main([*words, *SMALL, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_compare(folder: Path, capsys: Captured, no_figures: None) -> None:
    learners = ["skeleton:LEARNER", "mine:Leader", "mine:NAMED", "uniform"]
    worlds = ["--environments", "mine:Shop", "--delays", "mine:Evening", "mine:LATE"]
    rows = found(capsys, "compare", "--learners", *learners, *worlds)["results"]
    assert [row["learner"] for row in rows[:4]] == ["skeleton", "Leader", "the leader", "uniform"]
    assert [row["delays"] for row in rows[::4]] == ["in the evening", "delay 7"]
    assert {row["environment"] for row in rows} == {"a shop"}
    means = {row["learner"]: row["mean"] for row in rows[:4]}
    assert means["Leader"] == means["the leader"] < means["uniform"]
    assert means["skeleton"] < means["uniform"]
    (folder / "plan.toml").write_text(
        'learners = ["mine:Leader"]\nenvironments = ["mine:Shop"]\ndelays = ["mine:Evening"]\n'
    )
    (row,) = found(capsys, "compare", "plan.toml")["results"]
    assert (row["environment"], row["learner"], row["mean"]) == ("a shop", "Leader", means["Leader"])


def test_league_and_report(folder: Path, capsys: Captured, no_figures: None) -> None:
    """Results are stored by name, so that a change to a learner of one's own is not seen: that is said."""
    words = ["league", *SMALL, "--cells", "stochastic-k2/none", "--learners", "ucb"]
    assert main([*words, "skeleton:LEARNER", "mine:Leader"]) == 0
    out, notes = capsys.readouterr()
    assert [name for name in ("skeleton", "Leader", "ucb") if name not in out] == []
    assert "skeleton, Leader" in notes
    assert main([*words, "--out", "plain"]) == 0
    assert "--out" not in capsys.readouterr().err
    refused_line(capsys, ["report"])


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "label"), [("skeleton:LEARNER", "skeleton"), ("mine:Leader", "Leader")])
def test_audit(learner: str, label: str, folder: Path, capsys: Captured) -> None:
    (audited,) = found(capsys, "audit", "stochastic-k2/100", "--learner", learner)
    assert (audited["learner"], audited["holds"]) == (label, True)


def test_bounds(folder: Path, capsys: Captured, no_figures: None) -> None:
    bounds = found(capsys, "bounds", "--delays", "mine:LATE", "--learners", "mine:Leader")
    assert [row["learner"] for row in bounds["measured"]] == ["Leader"]
    assert bounds["facts"]["d"] == 7


@pytest.mark.slow
def test_the_command_finds_them_in_the_current_folder(folder: Path) -> None:
    words: list[Any] = [
        BELATED,
        "compare",
        "--learners",
        "mine:Leader",
        "--environments",
        "mine:Shop",
        *SMALL,
        "--json",
    ]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {row["learner"] for row in json.loads(done.stdout)["results"]} == {"Leader"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--learners nothing:X", ["'nothing:X'", "'nothing'"]),
        ("--learners mine:Ladder", ["'Ladder'", "'Leader'"]),
        ("--learners mine:NUMBER", ["'mine:NUMBER'", "3"]),
        ("--learners mine:Shop", ["Shop", "decide"]),
        ("--learners broken:X", ["'broken:X'", "ZeroDivisionError", "broken.py, line 2"]),
        ("--learners wrong:X", ["'wrong:X'", "wrong.py, line 1"]),
        ("--environments nothing:X", ["'nothing'"]),
        ("--environments mine:NUMBER", ["'mine:NUMBER'", "3"]),
        ("--environments mine:LATE", ["'mine:LATE'", "Constant(delay=7)"]),
        ("--environments mine:NeedsMore", ["'mine:NeedsMore'"]),
        ("--environments mine:Evening", ["arms", "None"]),
        ("--delays mine:NUMBER", ["'mine:NUMBER'", "3"]),
        ("--delays mine:Evning", ["'Evening'"]),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(words: str, names: list[str], folder: Path, capsys: Captured) -> None:
    refused_line(capsys, ["compare", *words.split(), *SMALL], *names)
