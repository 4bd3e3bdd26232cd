"""Learners, environments and delays of the user's own, by `module:NAME`, from a file in the current folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(SKELETON, tmp_path / "skeleton.py")
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "helper.py").write_text("MEANS = [0.2, 0.5, 0.9]\n")
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "wrong.py").write_text("x = = 1\n")
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    small = [] if words[0] == "report" else ["--rounds", "300", "--replications", "2"]
    return subprocess.run([BELATED, *words, *small], cwd=folder, capture_output=True, text=True, timeout=120)


def test_compare(folder: Path) -> None:
    learners = ["skeleton:LEARNER", "mine:Leader", "mine:NAMED", "uniform"]
    worlds = ["--environments", "mine:Shop", "--delays", "mine:Evening", "mine:LATE"]
    done = run(folder, "compare", "--learners", *learners, *worlds, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["learner"] for row in rows[:4]] == ["skeleton", "Leader", "the leader", "uniform"]
    assert [row["delays"] for row in rows[::4]] == ["in the evening", "delay 7"]
    assert {row["environment"] for row in rows} == {"a shop"}
    means = {row["learner"]: row["mean"] for row in rows[:4]}
    assert means["Leader"] == means["the leader"] < means["uniform"]
    assert means["skeleton"] < means["uniform"]


@pytest.mark.slow
def test_compare_reads_them_from_a_file(folder: Path) -> None:
    (folder / "plan.toml").write_text(
        'learners = ["mine:Leader"]\nenvironments = ["mine:Shop"]\ndelays = ["mine:Evening"]\n'
    )
    done = run(folder, "compare", "plan.toml")
    assert done.returncode == 0, done.stderr
    assert "a shop" in done.stdout


@pytest.mark.slow
def test_league_and_report(folder: Path) -> None:
    words = ["--learners", "skeleton:LEARNER", "mine:Leader", "ucb", "--cells", "stochastic-k2/none"]
    done = run(folder, "league", *words)
    assert done.returncode == 0, done.stderr
    assert "1 cell, 3 learners, 2 replications" in done.stdout
    assert "results are stored by name: after a change to skeleton, Leader, use another --out" in done.stderr
    plain = run(folder, "league", "--learners", "ucb", "--cells", "stochastic-k2/none", "--out", "plain")
    assert "stored by name" not in plain.stderr
    refused = run(folder, "report")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "learners of your own" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "label"), [("skeleton:LEARNER", "skeleton"), ("mine:Leader", "Leader")])
def test_audit(learner: str, label: str, folder: Path) -> None:
    done = run(folder, "audit", "stochastic-k2/100", "--learner", learner, "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["learner"], found["holds"]) == (label, True)


def test_bounds(folder: Path) -> None:
    done = run(folder, "bounds", "--delays", "mine:LATE", "--learners", "mine:Leader")
    assert done.returncode == 0, done.stderr
    assert "delay 7" in done.stdout
    assert "\n  Leader  " in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learners", "nothing:X"], "'nothing:X' cannot be loaded: No module named 'nothing'"),
        (["--learners", "mine:Ladder"], "unknown name in module mine 'Ladder': "),
        (["--learners", "mine:Ladder"], "Did you mean 'Leader'?"),
        (["--learners", "mine:NUMBER"], "'mine:NUMBER' is 3; a Learner, a PythonLearner or a class"),
        (["--learners", "mine:Shop"], "Shop has no method decide"),
        (
            ["--learners", "broken:X"],
            "'broken:X' cannot be loaded: ZeroDivisionError: division by zero (broken.py, line 2)",
        ),
        (["--learners", "wrong:X"], "'wrong:X' cannot be loaded: invalid syntax (wrong.py, line 1)"),
        (["--environments", "nothing:X"], "No module named 'nothing'"),
        (["--environments", "mine:NUMBER"], "'mine:NUMBER' is 3, which is no environment"),
        (["--environments", "mine:LATE"], "'mine:LATE' is Constant(delay=7), which is no environment"),
        (["--environments", "mine:NeedsMore"], "'mine:NeedsMore' cannot be made without arguments: "),
        (["--environments", "mine:Evening"], "the number of arms is None"),
        (["--delays", "mine:NUMBER"], "'mine:NUMBER' is 3, which is no delays"),
        (["--delays", "mine:Evning"], "Did you mean 'Evening'?"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(words: list[str], message: str, folder: Path) -> None:
    done = run(folder, "compare", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("belated: ")
    assert message in done.stderr
