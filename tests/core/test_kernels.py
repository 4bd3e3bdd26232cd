import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import belated
from belated import learners
from belated.core.kernels import cache_directory

TESTS = Path(__file__).parents[1]

PLAY = """
import sys
import numpy as np
from support.play_live import informed, play_live
from belated import Bandit, learners, kernels
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
result = simulate(["robust", "ucb"], sys.argv[2], "pareto:shape=1,scale=2", rounds=700, replications=2, seed=3)
np.savez(sys.argv[1], regret=result.regret)
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    """What a program prints in a process of its own; an error there is one here."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
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


@pytest.mark.parametrize("environment", ["stochastic:arms=3,gap=0.2", "constrained:arms=3,gap=0.2"])
def test_simulations_work_in_plain_python(tmp_path: Path, environment: str) -> None:
    run(SIMULATE, str(tmp_path / "compiled.npz"), environment)
    run(SIMULATE, str(tmp_path / "plain.npz"), environment, NUMBA_DISABLE_JIT="1")
    compiled, plain = np.load(tmp_path / "compiled.npz"), np.load(tmp_path / "plain.npz")
    np.testing.assert_allclose(plain["regret"], compiled["regret"], rtol=1e-12, atol=1e-12)


def test_machine_code_is_kept_under_a_hash_of_the_sources(tmp_path: Path) -> None:
    folder = cache_directory()
    assert folder.name.startswith("belated-")
    program = (
        "import shutil, sys; from pathlib import Path; from belated import kernels;"
        "one = kernels.cache_directory(); kernels.cache_directory.cache_clear();"
        "kernels.__file__ = sys.argv[1]; Path(sys.argv[1]).write_text('# another source');"
        "two = kernels.cache_directory(); assert one.name != two.name, (one, two)"
    )
    run(program, str(tmp_path / "kernels.py"))


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    program = "from belated import Bandit, simulate; Bandit(3).decide(); simulate('ucb', 'stochastic', rounds=10)"
    run(program, NUMBA_CACHE_DIR=str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")}
    assert before
    run(program, NUMBA_CACHE_DIR=str(tmp_path))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")} == before


def test_learners_typed_at_a_prompt_work(tmp_path: Path) -> None:
    program = """
from dataclasses import replace
from belated import Bandit, learners
from belated.kernels import kernel
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
        "import sys, belated, belated.cli; belated.cli.parser();"
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
        "from live import informed, told;"
        "t = [informed(name) for name in learners.catalogue] + [learners.tune('robust', delay_constant=2)];"
        "[Bandit(3, each).decide(**told(each.learner.name, 1)) for each in t];"
        "open(sys.argv[1], 'wb').write(pickle.dumps(t))"
    )
    use = (
        "import pickle, sys; from belated import Bandit; from live import told;"
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
mkdir = Path.mkdir


def guarded(path, *rest, **more):
    if "__pycache__" in str(path):
        raise PermissionError(path)
    return mkdir(path, *rest, **more)

Path.mkdir = guarded
tempfile.tempdir = sys.argv[1]
from belated import Bandit, kernels
assert str(kernels.cache_directory()).startswith(sys.argv[1]), kernels.cache_directory()
print(Bandit(2).decide().round)
"""
    assert run(program, str(tmp_path)) == "1\n"
    assert list(tmp_path.iterdir()) == []  # taken away at the end
