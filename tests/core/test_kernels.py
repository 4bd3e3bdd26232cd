import os
import pickle
import pwd
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import belated
from belated import Bandit, learners
from belated.core import kernels
from belated.league import LeaguePlan, competitors
from belated.league.store import Store
from belated.league.suite import find
from support.every_number import LAWS, LEARNERS, numbers
from support.play_live import told

TESTS = Path(__file__).parents[1]
PACKAGE = Path(belated.__file__).parent


def run(*arguments: str, **environment: str) -> str:
    """What a program prints in a process of its own; an error there is one here."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
    )
    return done.stdout


def test_plain_python_gives_the_same_numbers(tmp_path: Path) -> None:
    """To 1e-12 over 150 rounds. (Later on rounding grows by itself: a relative change of p in round 50 is 20,000 times
    as large by round 500 in exact arithmetic too, because an estimate divides by what the estimates made.)
    """
    run("-m", "support.every_number", str(tmp_path / "plain.npz"), NUMBA_DISABLE_JIT="1")
    plain, compiled = np.load(tmp_path / "plain.npz"), numbers()
    assert set(plain.files) == set(compiled)
    assert len(compiled) > 4 * len(LAWS) * len(LEARNERS)
    for name, wanted in compiled.items():
        np.testing.assert_allclose(plain[name], wanted, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package, to be edited."""
    return shutil.copytree(PACKAGE, tmp_path / "belated", ignore=shutil.ignore_patterns("__pycache__"))


def edit(path: Path, old: str = "", new: str = "") -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else text + "\n# a comment\n")


EXPLORED = """
import numpy as np
from belated.core.kernels import DECIDE, entry
from belated.learners.epsilon_greedy import LEARNER

p = np.zeros(2)
entry(LEARNER.decide, DECIDE)(LEARNER.new_state(2), np.array([0.1]), 0, p)
print(p[1])
"""


def test_an_edit_in_what_a_kernel_calls_leaves_no_stale_machine_code(copied: Path) -> None:
    """The kernel is in epsilon_greedy.py; the edit is in mean_steps.py, where numba does not look."""
    settings = {
        "PYTHONPATH": str(copied.parent),
        "NUMBA_CACHE_DIR": str(copied.parent / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert float(run("-c", EXPLORED, **settings)) == 0.1 / 2
    edit(copied / "learners" / "mean_steps.py", "play(state, best, exploration, p)", "play(state, best, 0.6, p)")
    assert float(run("-c", EXPLORED, **settings)) == 0.6 / 2
    assert len(list((copied.parent / "cache").iterdir())) == 2


@pytest.fixture
def anew() -> Any:
    """Forget the hashes of sources, before and after."""
    kernels.source_digest.cache_clear()
    yield
    kernels.source_digest.cache_clear()


@pytest.mark.usefixtures("anew")
def test_machine_code_and_stored_results_depend_on_the_sources_that_make_them(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit elsewhere compiles nothing and keeps the league's results; one in a kernel does both."""
    monkeypatch.setattr(kernels, "__file__", str(copied / "core" / "kernels.py"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(copied.parent / "cache"))
    plan = LeaguePlan(find(["stochastic-k10/none"]), competitors(["uniform"]))

    def places() -> tuple[Path | None, Path]:
        """Where machine code and the results of a cell are kept."""
        kernels.source_digest.cache_clear()
        return kernels.cache_directory.__wrapped__(), Store(copied.parent, plan).path(plan.cells[0])

    first = places()
    for file in ("report/tables.py", "league/suite.py", "live/bandit.py", "bounds/bounds.py", "cli/main.py"):
        edit(copied / file)
    edit(copied / "errors.py")
    assert places() == first
    edit(copied / "environments" / "stochastic.py")
    second = places()
    assert second[0] == first[0]
    assert second[1] != first[1]
    for file in ("core/ftrl.py", "learners/ftrl_steps.py", "simulation/loop.py"):
        edit(copied / file)
        third = places()
        assert third[0] != second[0]
        assert third[1] != second[1]
        second = third
    edit(copied / "audit" / "lemmas.py")
    assert places()[0] != second[0]


def test_learners_typed_at_a_prompt_work() -> None:
    """There is no file to keep machine code by."""
    typed = """
@kernel
def decide(state, params, outstanding, p):
    for i in range(p.size):
        p[i] = 0.0
    p[1] = 1.0
    return 0.0
"""
    prompt: dict[str, Any] = {"kernel": kernels.kernel}
    exec(compile(typed, "<stdin>", "exec"), prompt)
    stubborn = replace(learners.find("uniform"), name="stubborn", decide=prompt["decide"])
    bandit = Bandit(3, stubborn)
    assert [bandit.decide().arm for _ in range(5)] == [1] * 5


LEAVE = """
import pickle, sys
from belated import Bandit, learners
from support.play_live import informed, told

tuned = [*map(informed, ["bold", "exp3_delayed"]), learners.tune("robust", delay_constant=2)]
for each in tuned:
    Bandit(3, each).decide(**told(each.learner.name, 1))
bandit = Bandit(3, seed=1)
bandit.decide()
with open(sys.argv[1], "wb") as file:
    pickle.dump((tuned, bandit.to_bytes()), file)
"""


def test_learners_and_snapshots_travel_between_processes(tmp_path: Path) -> None:
    """Without the addresses of their code; snapshots are the same bytes in every process."""
    run("-c", LEAVE, str(tmp_path / "left"))
    tuned, snapshot = pickle.loads((tmp_path / "left").read_bytes())
    assert [Bandit(3, each).decide(**told(each.learner.name, 1)).round for each in tuned] == [1, 1, 1]
    assert tuned[-1].label == "robust:delay_constant=2"
    bandit = Bandit(3, seed=1)
    bandit.decide()
    assert bandit.to_bytes() == snapshot


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody has a home, and the package's own folder cannot be written to; return the temporary folder."""

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    make = Path.mkdir

    def guarded(path: Path, *rest: Any, **more: Any) -> None:
        if "__pycache__" in str(path):
            raise PermissionError(path)
        make(path, *rest, **more)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "mkdir", guarded)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_without_a_home_machine_code_is_kept_for_the_process(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[Any, ...]] = []
    monkeypatch.setattr("atexit.register", lambda call, *given, **more: ends.append((call, given, more)))
    folder = kernels.cache_directory.__wrapped__()
    assert folder is not None
    assert folder.is_dir()
    assert folder.is_relative_to(homeless)
    ((call, given, more),) = ends
    call(*given, **more)
    assert list(homeless.iterdir()) == []  # taken away at the end


def test_where_nothing_can_be_written_code_is_compiled_and_not_kept(
    homeless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(homeless / "missing"))
    assert kernels.cache_directory.__wrapped__() is None
