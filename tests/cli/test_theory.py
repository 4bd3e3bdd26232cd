"""The commands about theory, and the experiment that makes the tables of its page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from belated.audit.lemmas import LEMMAS
from belated.cli.main import main

PROJECT = Path(__file__).parents[2]


def test_bounds_of_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "stochastic-k10/100", "--rounds", "1000"]) == 0
    out = capsys.readouterr().out
    assert "stochastic, 10 arms, gap 0.1; delay 100; 1,000 rounds" in out
    assert "4√(KT) + √(8 D log K)" in out
    assert "order only" in out
    assert "needs" not in out


def test_bounds_say_which_delays_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "stochastic-k10/by-loss", "--rounds", "500"]) == 0
    assert "delays depend on the loss: the longest of each round is taken" in capsys.readouterr().out
    assert main(["bounds", "stochastic-k10/100", "--rounds", "500"]) == 0
    assert "depend" not in capsys.readouterr().out


def test_bounds_of_an_adversarial_cell_say_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "resonant-k2/100", "--rounds", "500"]) == 0
    assert capsys.readouterr().out.count("needs gaps") == 5  # one for each stochastic row


def test_bounds_of_a_file_of_delays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "delays.txt"
    file.write_text("# observed\n3\nnever\n0\n1\n")
    assert main(["bounds", str(file), "--arms", "3", "--gaps", "0.1", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["facts"]["T"] == 4
    assert found["facts"]["D"] == 3 + 2  # what never comes counts until the last round, as does the last one's delay
    assert found["facts"]["d"] == 3
    assert main(["bounds", str(file), "--arms", "3", "--rounds", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["D"] == 1


def test_bounds_are_drawn_over_measured_regret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["geometric:mean=20", "--learners", "ucb", "robust:delay_constant=2", "--delay-constant", "2"]
    assert main(["bounds", *words, "--rounds", "2e3", "--replications", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "4√(KT) + 2.83 √(D̂ log K)" in out
    assert "robust:delay_constant=2  " in out
    assert (tmp_path / "bounds.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stochastic-k10/1001"], "Did you mean 'stochastic-k10/100"),
        (["parreto:shape=1,scale=10"], "Did you mean 'pareto'"),
        (["none", "--arms", "3", "--gaps", "0.1", "0.2", "0.3"], "gaps is [0.1, 0.2, 0.3]"),
        (["none", "--gaps", "1.5"], "gaps is [1.5]"),
        (["none", "--arms", "1"], "the number of arms is 1"),
        (["none", "--rounds", "0"], "rounds is 0"),
    ],
)
def test_bad_problems_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_audit_that_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["stochastic-k10/pareto", "constrained-k10/100"]
    assert main(["audit", *cells, "--rounds", "2000", "--replications", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("drift control") == 2
    for statement in LEMMAS:
        assert statement.where in out
    found = json.loads((tmp_path / "stochastic-k10-pareto.json").read_text())
    assert found["holds"]
    assert found["cell"] == "stochastic-k10/pareto"
    assert (tmp_path / "constrained-k10-100.png").read_bytes().startswith(b"\x89PNG")


def test_an_audit_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "stochastic-k10/1000", "--learner", "robust", "--set", "delay_constant=0.1", "--rounds", "5000"]
    assert main([*words, "--seed", "3", "--replications", "1", "--json", "--out", str(tmp_path / "unused")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["holds"]
    assert found["learner"] == "robust:delay_constant=0.1"
    broken = {row["lemma"] for row in found["lemmas"] if row["holds"] is False}
    assert "doubling" in broken
    assert not (tmp_path / "unused").exists()


def test_an_audit_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "stochastic-k10/100", "--set", "delay_constant=0"]) == 2
    assert "delay_constant" in capsys.readouterr().err
    assert main(["audit", "stochastic-k10/100", "--set", "delay_constnt=1"]) == 2
    assert "Did you mean 'delay_constant'" in capsys.readouterr().err
    assert main(["audit", "stochastic-k10/100", "--replications", "0"]) == 2
    assert "replications is 0" in capsys.readouterr().err


def test_the_tables_of_the_page_are_made_by_its_experiment() -> None:
    words = ["--cells", "stochastic-k10/100", "--constants", "49", "--rounds", "300", "--replications", "2"]
    script = PROJECT / "experiments" / "theory.py"
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True)
    readings, constants, balance = done.stdout.split("\n\n")
    listed = next(line for line in readings.splitlines() if line.startswith("| delay 1 | as listed"))
    assert listed.split(" | ")[2:4] == ["0", "299"]
    drift = next(line for line in constants.splitlines() if line.startswith("| drift control"))
    assert float(drift.split(" | ")[2].rstrip(" |")) < 0.3
    measured, allowed = balance.splitlines()[2].split(" | ")[1:3]
    assert 0.0 < float(measured) < float(allowed.replace(",", ""))


def test_the_study_of_the_default_runs(tmp_path: Path) -> None:
    words = ["--quick", "--rounds", "500", "--evaluations", "10", "--replications", "2", "--out", str(tmp_path)]
    script = PROJECT / "experiments" / "default_learner.py"
    subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True)
    found = json.loads((tmp_path / "study.json").read_text())
    assert found["suite"]["balanced"]["geometric"] < found["suite"]["robust"]["geometric"]
    assert len(found["adversaries"]) == 2 * 10  # two starts against each of ten learners
    assert all(len(each["costs"]) >= 25 for each in found["adversaries"])
    assert (tmp_path / "tradeoff.png").read_bytes().startswith(b"\x89PNG")
    assert "| `balanced` |" in (tmp_path / "study.md").read_text()


def test_the_variants_of_the_default_run() -> None:
    script = PROJECT / "experiments" / "variants.py"
    words = ["--rounds", "300", "--replications", "1"]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n|") == 12  # a rule and eleven forms
    numbers = [line.split(" | ")[1:] for line in done.stdout.splitlines()[2:]]
    assert len({tuple(row) for row in numbers}) >= 6  # the parts matter
