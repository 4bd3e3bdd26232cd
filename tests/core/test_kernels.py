import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import belated
from belated import learners

TESTS = Path(__file__).parents[1]
PACKAGE = Path(belated.__file__).parent

PLAY = """
import sys
import numpy as np
from support.play_live import informed, play_live
from belated import Bandit, learners
from belated.core import kernels
from belated.simulation import replay

assert kernels.COMPILED == (sys.argv[2] == "compiled")
out = {}
for law, waits in {
    "none": [0] * 150,
    "constant": [4] * 150,
    "mixed": [None if t % 7 == 0 else (t * t) % 13 for t in range(150)],
    "outlier": [None] + [0] * 149,
}.items():
    rng = np.random.default_rng(1)
    losses, draws = rng.random((150, 4)), rng.random(150)
    for name in [*learners.catalogue, "robust:delay_constant=0.05"]:
        bulk = replay(informed(name), losses, waits, draws)
        live = play_live(Bandit(4, informed(name)), losses, waits, draws.tolist())
        np.testing.assert_array_equal(live.distributions, bulk.distributions)
        out[f"{law}/{name}/distributions"] = bulk.distributions
        out[f"{law}/{name}/losses"] = bulk.loss_estimates
        out[f"{law}/{name}/arms"] = bulk.arms
        out[f"{law}/{name}/skipped"] = bulk.skipped
np.savez(sys.argv[1], **out)
"""

SIMULATE = """
import sys
import numpy as np
from belated import simulate
result = simulate(["robust", "ucb"], *sys.argv[2:4], rounds=700, replications=2, seed=3)
np.savez(sys.argv[1], regret=result.regret)
"""


def run(program: str, *arguments: str, cwd: Path | None = None, **environment: str) -> str:
    """What a program prints in a process of its own; an error there is one here."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
    )
    return done.stdout


def test_plain_python_gives_the_same_numbers(tmp_path: Path) -> None:
    """To 1e-12 over 150 rounds, live and bulk. (Later on rounding grows by itself: a relative change of p in round
    50 is 20,000 times as large by round 500 in exact arithmetic too, because an estimate divides by what the
    estimates made.)
    """
    run(PLAY, str(tmp_path / "compiled.npz"), "compiled")
    run(PLAY, str(tmp_path / "plain.npz"), "plain", NUMBA_DISABLE_JIT="1")
    compiled, plain = np.load(tmp_path / "compiled.npz"), np.load(tmp_path / "plain.npz")
    assert len(compiled.files) == 4 * 4 * (len(learners.catalogue) + 1)
    for name in compiled.files:
        np.testing.assert_allclose(plain[name], compiled[name], rtol=1e-12, atol=1e-300, err_msg=name)


@pytest.mark.parametrize(
    ("environment", "delays"),
    [
        ("stochastic:arms=3,gap=0.2", "pareto:shape=1,scale=2"),
        ("constrained:arms=3,gap=0.2", "pareto:shape=1,scale=2"),
        ("stochastic:arms=3,gap=0.2", "byarm:laws=[0,4,9]"),
        ("stochastic:arms=3,gap=0.2", "byloss:good=4,bad=0"),
    ],
)
def test_simulations_work_in_plain_python(tmp_path: Path, environment: str, delays: str) -> None:
    run(SIMULATE, str(tmp_path / "compiled.npz"), environment, delays)
    run(SIMULATE, str(tmp_path / "plain.npz"), environment, delays, NUMBA_DISABLE_JIT="1")
    compiled, plain = np.load(tmp_path / "compiled.npz"), np.load(tmp_path / "plain.npz")
    np.testing.assert_allclose(plain["regret"], compiled["regret"], rtol=1e-12, atol=1e-12)


DECIDE = """
from pathlib import Path
from belated import Bandit
from belated.league import LeaguePlan, competitors
from belated.league.store import Store
from belated.league.suite import find

bandit = Bandit(4, "uniform", seed=1)
plan = LeaguePlan(find(["stochastic-k10/none"]), competitors(["uniform"]))
print(bandit.decide().propensity, Store(Path("results"), plan).path(plan.cells[0]).name)
"""


def test_machine_code_and_stored_results_depend_on_the_sources_that_make_them(tmp_path: Path) -> None:
    """An edit elsewhere compiles nothing and keeps the league's results; one in a kernel does both."""
    shutil.copytree(PACKAGE, tmp_path / "belated", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"

    def decide() -> tuple[float, str, set[tuple[Path, int]]]:
        """The propensity, the file of a cell's results, the compiled files and when they were written."""
        propensity, name = run(
            DECIDE, PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(cache), PYTHONDONTWRITEBYTECODE="1", cwd=tmp_path
        ).split()
        return float(propensity), name, {(path, path.stat().st_mtime_ns) for path in cache.rglob("*.nb*")}

    def edit(file: str, old: str = "", new: str = "") -> None:
        path = tmp_path / "belated" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new) if old else text + "\n# a comment\n")

    first = decide()
    assert first[0] == 0.25
    assert len(first[2]) >= 2
    for file in (
        "report/tables.py",
        "league/suite.py",
        "live/bandit.py",
        "bounds/bounds.py",
        "cli/main.py",
        "errors.py",
    ):
        edit(file)
    assert decide() == first
    edit("environments/stochastic.py")
    propensity, name, compiled = decide()
    assert (propensity, compiled) == (first[0], first[2])
    assert name != first[1]
    edit("learners/uniform.py", "1.0 / p.size", "2.0 / (2.0 * p.size + 2.0)")
    edited = decide()
    assert edited[0] == 0.2  # the new code runs: nothing stale is left
    assert edited[1] not in (first[1], name)
    assert first[2] < edited[2]
    assert len(edited[2]) == 2 * len(first[2])


def test_learners_typed_at_a_prompt_work(tmp_path: Path) -> None:
    program = """
from dataclasses import replace
from belated import Bandit, learners
from belated.core.kernels import kernel
@kernel
def decide(state, params, outstanding, p):
    for i in range(p.size):
        p[i] = 0.0
    p[1] = 1.0
    return 0.0
stubborn = replace(learners.find("uniform"), name="stubborn", decide=decide)
print([Bandit(3, stubborn).decide().arm for _ in range(5)])
"""
    assert run(program) == "[1, 1, 1, 1, 1]\n"


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, belated; from belated.cli.parser import parser; parser();"
        "heavy = {'numpy', 'numba', 'matplotlib'} & set(sys.modules); assert not heavy, heavy;"
        "assert 'Bandit' in dir(belated)"
    )
    run(program)
    assert belated.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="no attribute 'bandits'"):
        _ = belated.bandits


def test_learners_travel_between_processes_without_their_addresses(tmp_path: Path) -> None:
    make = (
        "import pickle, sys; from belated import Bandit, learners;"
        "from support.play_live import informed, told;"
        "names = ['bold', 'exp3_delayed'];"
        "t = [informed(name) for name in names] + [learners.tune('robust', delay_constant=2)];"
        "[Bandit(3, each).decide(**told(each.learner.name, 1)) for each in t];"
        "open(sys.argv[1], 'wb').write(pickle.dumps(t))"
    )
    use = (
        "import pickle, sys; from belated import Bandit; from support.play_live import told;"
        "t = pickle.loads(open(sys.argv[1], 'rb').read());"
        "assert all(Bandit(3, each).decide(**told(each.learner.name, 1)).round == 1 for each in t);"
        "assert t[-1].label == 'robust:delay_constant=2'"
    )
    path = str(tmp_path / "learner.pickle")
    run(make, path)
    run(use, path)


def test_snapshots_are_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    program = (
        "import sys; from belated import Bandit; b = Bandit(3, seed=1); b.decide();"
        "open(sys.argv[1], 'wb').write(b.to_bytes())"
    )
    for name in ("one", "two"):
        run(program, str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_no_home_is_needed(tmp_path: Path) -> None:
    """Nobody has a home, and the package's own folder cannot be written to: the code is compiled all the same."""
    program = """
import os, pwd, sys, tempfile
from pathlib import Path

def nobody(uid):
    raise KeyError(uid)

pwd.getpwuid = nobody
os.environ.pop("HOME", None)
os.environ.pop("XDG_CACHE_HOME", None)
os.environ.pop("NUMBA_CACHE_DIR", None)
mkdir = Path.mkdir


def guarded(path, *rest, **more):
    if "__pycache__" in str(path):
        raise PermissionError(path)
    return mkdir(path, *rest, **more)

Path.mkdir = guarded
tempfile.tempdir = sys.argv[1]
from belated import Bandit
from belated.core import kernels
assert str(kernels.cache_directory()).startswith(sys.argv[1]), kernels.cache_directory()
print(Bandit(2, 'uniform').decide().round)
"""
    assert run(program, str(tmp_path)) == "1\n"
    assert list(tmp_path.iterdir()) == []  # taken away at the end
