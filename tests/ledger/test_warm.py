"""Compiling ahead: by another process, into the cache; and without a cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from belated.ledger import warm

CHECK = """
import sys
from belated import learners
from belated.ledger import warm
print([warm.is_in_cache(learners.find(name)) for name in sys.argv[1:]])
"""

MEET = """
import subprocess, sys
from belated.core.kernels import cache_directory
from belated.ledger import warm
from belated.ledger.events import ExperimentSettings
from belated.ledger.state import ExperimentState
ran = []
inner = subprocess.run
def noted(command, **more):
    ran.append(command[2:])
    return inner(command, **more)
subprocess.run = noted
warmth = warm.Warmth()
warmth.ensure("ewma")
warmth.ensure("ewma", "ewma:weight=0.5", "nobody")
state = ExperimentState(ExperimentSettings("one", [0, 1], "ewma", {}, 7, "wait"))
state.decide("a", 1)
print((ran, cache_directory() is not None, len(list(cache_directory().rglob("*.nbi"))) if cache_directory() else 0))
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_a_spec_that_nothing_is_compiled_for() -> None:
    assert warm.compiled_of("nobody") is None
    assert warm.compiled_of("ewma:nothing=3") is None
    learner = warm.compiled_of("robust:delay_constant=1")
    assert learner is not None
    assert learner.name == "robust"


def test_where_another_process_cannot_be_started_this_one_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(warm, "is_in_cache", lambda learner: False)
    warm.Warmth().ensure("balanced")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("belated.ledger", "WARNING")
    assert "balanced" in str(record.args)


def written(folder: Path) -> dict[Path, int]:
    """When compiled code was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb[ic]")}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_belated_warm_fills_the_cache_and_says_so(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run("-c", CHECK, "ucb", "guarded", **cache).stdout.strip() == "[False, False]"
    done = run("-m", "belated.cli", "warm", "ucb", **cache)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "ucb" in done.stderr
    assert run("-c", CHECK, "ucb", "guarded", **cache).stdout.strip() == "[True, False]"
    compiled = written(tmp_path)
    assert run("-m", "belated.cli", "warm", "ucb", **cache).returncode == 0
    assert written(tmp_path) == compiled != {}  # nothing is compiled again
    refused = run("-m", "belated.cli", "warm", "nobody", **cache)
    assert refused.returncode == 2
    assert "nobody" in refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cached", [True, False])
def test_a_process_that_meets_a_learner_has_it_compiled_elsewhere(tmp_path: Path, cached: bool) -> None:
    """Where no folder can be written, a temporary one is shared with the process that compiles."""
    (tmp_path / "tmp").mkdir()
    places = {"NUMBA_CACHE_DIR": str(tmp_path) if cached else "/proc/nowhere", "TMPDIR": str(tmp_path / "tmp")}
    done = run("-c", MEET, **places)
    assert done.returncode == 0, done.stderr
    ran, is_there, count = eval(done.stdout)
    assert ran == [["belated.cli", "warm", "ewma"]]
    assert is_there
    assert count > 3
    assert list((tmp_path / "tmp").iterdir()) == []
