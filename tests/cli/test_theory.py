"""The commands about theory, and the experiment that makes the tables of its page."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from belated.audit.lemmas import LEMMAS
from belated.cli.main import main
from support.commands import refused_line

Captured = pytest.CaptureFixture[str]
PROJECT = Path(__file__).parents[2]


def refusals(*cases: tuple[str, list[str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("words", "names"), cases)


def found(capsys: Captured, *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_bounds_of_a_cell(capsys: Captured) -> None:
    assert main(["bounds", "stochastic-k10/100", "--rounds", "1000"]) == 0
    out = capsys.readouterr().out
    names = ["stochastic, 10 arms, gap 0.1; delay 100; 1,000", "4√(KT) + √(8 D log K)"]
    assert [name for name in names if name not in out] == []
    assert not any(
        row["missing"] for row in found(capsys, "bounds", "stochastic-k10/100", "--rounds", "1000")["bounds"]
    )


def test_bounds_of_an_adversarial_cell_say_what_is_missing(capsys: Captured) -> None:
    rows = found(capsys, "bounds", "resonant-k2/100", "--rounds", "500")["bounds"]
    assert [row["missing"] for row in rows if row["missing"]] == ["gaps"] * 5  # one for each stochastic row


def test_bounds_of_a_file_of_delays(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "delays.txt"
    file.write_text("# observed\n3\nnever\n0\n1\n")
    assert main(["bounds", "--delays-file", str(file), "--arms", "3", "--gaps", "0.1", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["facts"]["T"] == 4
    assert found["facts"]["D"] == 3 + 2  # what never comes counts until the last round, as does the last one's delay
    assert found["facts"]["d"] == 3
    assert main(["bounds", "--delays-file", str(file), "--arms", "3", "--rounds", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["D"] == 1


def test_bounds_are_drawn_over_measured_regret(tmp_path: Path, capsys: Captured) -> None:
    words = ["bounds", "--delays", "geometric:mean=20", "--learners", "ucb", "robust:delay_constant=2"]
    words += ["--learner", "robust:delay_constant=2", "--rounds", "5e2", "--replications", "2", "--out", str(tmp_path)]
    assert main(words) == 0
    out, notes = capsys.readouterr()
    assert "4√(KT) + 2.83 √(D̂ log K)" in out
    assert "robust:delay_constant=2  " in out
    assert str(tmp_path / "bounds.png") in notes
    assert (tmp_path / "bounds.png").read_bytes().startswith(b"\x89PNG")


def test_measured_regret_as_json(tmp_path: Path, capsys: Captured, no_figures: None) -> None:
    words = ["--delays", "none", "--learners", "ucb", "uniform", "--rounds", "500", "--replications", "2"]
    rows = found(capsys, "bounds", *words, "--out", str(tmp_path))["measured"]
    assert [row["learner"] for row in rows] == ["ucb", "uniform"]
    assert all(row["low"] < row["mean"] < row["high"] for row in rows)


@refusals(
    ("", ["CELL", "--delays", "--delays-file"]),
    ("stochastic-k10/100 --delays none", ["CELL", "--delays"]),
    ("--delays none --delays-file x", ["--delays", "--delays-file"]),
    ("stochastic-k10/1001", ["'stochastic-k10/1001'", "'stochastic-k10/100"]),
    ("stochastic-k10/100 --arms 3", ["--arms", "'stochastic-k10/100'"]),
    ("stochastic-k10/100 --gaps 0.1", ["--gaps", "'stochastic-k10/100'"]),
    ("stochastic-k10/100 --rounds 0", ["rounds", "0"]),
    ("stochastic-k10/100 --rounds -1", ["rounds", "-1"]),
    ("pareto:shape=1,scale=10", ["--delays pareto:shape=1,scale=10"]),
    ("delays.txt", ["--delays-file delays.txt"]),
    ("--delays-file none.txt", ["none.txt"]),
    ("--delays-file empty.txt", ["empty.txt"]),
    ("--delays-file delays.txt --rounds 3", ["rounds", "3", "delays.txt", "2"]),
    ("--delays-file delays.txt --rounds 0", ["rounds", "0"]),
    ("--delays-file words.txt", ["line 1", "'soon'"]),
    ("--delays parreto:shape=1,scale=10", ["'pareto'"]),
    ("--delays none --arms 3 --gaps 0.1 0.2 0.3", ["gaps", "[0.1, 0.2, 0.3]"]),
    ("--delays none --gaps 1.5", ["gaps", "[1.5]"]),
    ("--delays none --gaps nan", ["gaps", "[nan]"]),
    ("--delays none --arms 1", ["arms", "1"]),
    ("--delays none --rounds 0", ["rounds", "0"]),
    ("stochastic-k10/100 --learner ucb", ["learner", "'ucb'", "robust"]),
    ("stochastic-k10/100 --learner hybrid:delay_constant=1", ["learner", "hybrid", "robust"]),
    ("stochastic-k10/100 --learner robust:delay_constant=0", ["delay_constant", "0"]),
    ("stochastic-k10/100 --learner robust:delay_constnt=1", ["'delay_constant'"]),
)
def test_bad_problems_are_refused(
    words: str, names: list[str], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "delays.txt").write_text("3\nnever\n")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "words.txt").write_text("soon\n")
    refused_line(capsys, ["bounds", *words.split()], *names)


def test_bounds_take_the_constant_of_robust(capsys: Captured) -> None:
    """More patience with a smaller constant: fewer rounds are skipped."""
    skipped = {}
    for learner in ("robust", "robust:delay_constant=49", "robust:delay_constant=1"):
        assert main(["bounds", "stochastic-k10/100", "--rounds", "2000", "--learner", learner, "--json"]) == 0
        skipped[learner] = json.loads(capsys.readouterr().out)["facts"]["S*"]
    assert skipped["robust"] == skipped["robust:delay_constant=49"]
    assert skipped["robust:delay_constant=1"] < skipped["robust"]


def test_an_audit_that_holds(tmp_path: Path, capsys: Captured) -> None:
    words = ["audit", "constrained-k10/100", "--rounds", "500", "--replications", "2", "--out", str(tmp_path)]
    assert main([*words, "--wide"]) == 0
    out = capsys.readouterr().out
    assert [statement.where for statement in LEMMAS if statement.where not in out] == []
    (audited,) = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert audited["holds"]
    assert audited["cell"] == "constrained-k10/100"
    assert (tmp_path / "constrained-k10-100.png").read_bytes().startswith(b"\x89PNG")


def test_an_audit_that_fails(tmp_path: Path, capsys: Captured, no_figures: None) -> None:
    words = ["audit", "stochastic-k10/1000", "--learner", "robust:delay_constant=0.1", "--rounds", "5000"]
    assert main([*words, "--seed", "3", "--replications", "1", "--json", "--out", str(tmp_path)]) == 1
    (found,) = json.loads(capsys.readouterr().out)  # a list, also of one cell
    assert not found["holds"]
    assert found["learner"] == "robust:delay_constant=0.1"
    broken = {row["lemma"] for row in found["lemmas"] if row["holds"] is False}
    assert "doubling" in broken
    assert {frozenset(row) for row in found["lemmas"]} == {
        frozenset(("lemma", "says", "where", "holds", "bound", "measured", "slack", "interval"))
    }
    assert json.loads((tmp_path / "stochastic-k10-1000.json").read_text()) == found


@refusals(
    ("--learner robust:delay_constant=0", ["delay_constant", "0"]),
    ("--learner robust:delay_constnt=1", ["'delay_constant'"]),
    ("--learner robust:delay_constant", ["'delay_constant'", "'robust:delay_constant'"]),
    ("--learner robust:delay_constant=1,2", ["delay_constant", "[1, 2]"]),
    ("--replications 0", ["replications", "0"]),
    ("--rounds 0", ["rounds", "0"]),
    ("--seed -1", ["seed", "-1"]),
    ("--split --learner ucb", ["'ucb'"]),
)
def test_an_audit_names_what_is_wrong(words: str, names: list[str], capsys: Captured) -> None:
    refused_line(capsys, ["audit", "stochastic-k10/100", *words.split()], *names)


def test_a_split_of_regret(tmp_path: Path, capsys: Captured) -> None:
    words = ["audit", "stochastic-k10/100", "--split", "--learner", "exp3_delayed", "--rounds", "200"]
    words += ["--out", str(tmp_path)]
    assert main(words) == 0
    out, notes = capsys.readouterr()
    for term in ("given up", "cost of delay", "penalty", "stability", "pilot", "bound", "regret", "noise", "slack"):
        assert f"\n{term} " in out
    assert str(tmp_path / "stochastic-k10-100-split.json") in notes
    (split,) = found(capsys, *words)
    assert (split["cell"], split["holds"]) == ("stochastic-k10/100", True)
    assert len(split["terms"]["penalty"]["values"]) == split["replications"] == 5
    assert json.loads((tmp_path / "stochastic-k10-100-split.json").read_text()) == split


@pytest.mark.slow
def test_a_split_that_fails(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner of one's own that counts a hundredth of each loss."""
    lines = ["import dataclasses", "from belated.core import ftrl", "from belated.core.kernels import kernel"]
    lines += [
        "from belated.learners import tsallis",
        "@kernel",
        "def learn(state, params, arm, loss, propensity, mark):",
    ]
    lines += ["    ftrl.add_loss(state, arm, 0.01 * loss / propensity)"]
    lines += ["LEARNER = dataclasses.replace(tsallis.LEARNER, name='deaf', learn=learn)"]
    (tmp_path / "deaf.py").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["audit", "spread-k10/none", "--split", "--learner", "deaf:LEARNER", "--rounds", "3000"]
    assert main([*words, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert not found["holds"]


@pytest.mark.parametrize("cell", ["stochastic-k10/1001", "nothing-*"])
def test_an_audit_needs_a_cell_of_the_suite(cell: str, capsys: Captured) -> None:
    refused_line(capsys, ["audit", cell], f"'{cell}'")


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_table_of_splits_is_made_by_its_experiment() -> None:
    words = ["--cells", "stochastic-k2/none", "stochastic-k10/by-loss", "--learners", "hybrid", "exp3_delayed"]
    script = PROJECT / "experiments" / "split.py"
    done = subprocess.run(
        [sys.executable, str(script), *words, "--rounds", "300", "--replications", "4"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = {line.split(" | ")[0]: line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| `")}
    assert rows["| `hybrid`"][1:3] == ["2", "2"]
    assert rows["| `exp3_delayed`"][1:3] == ["1", "1"]  # it must know delays that depend on nothing


@pytest.mark.slow
def test_the_study_of_the_default_runs(tmp_path: Path) -> None:
    words = ["--quick", "--rounds", "500", "--evaluations", "10", "--replications", "2", "--out", str(tmp_path)]
    script = PROJECT / "experiments" / "default_learner.py"
    subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True)
    found = json.loads((tmp_path / "study.json").read_text())
    assert found["means"]["guarded"] < found["means"]["robust"]
    assert len(found["adversaries"]) == 3 * 5  # three starts against each of five learners
    assert all(len(each["costs"]) >= 20 for each in found["adversaries"])
    assert (tmp_path / "tradeoff.png").read_bytes().startswith(b"\x89PNG")
    assert "| `guarded` |" in (tmp_path / "study.md").read_text()


@pytest.mark.slow
def test_the_variants_of_the_default_run() -> None:
    script = PROJECT / "experiments" / "variants.py"
    words = ["--rounds", "300", "--replications", "1"]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n|") == 12  # a rule and eleven forms
    numbers = [line.split(" | ")[1:] for line in done.stdout.splitlines()[2:]]
    assert len({tuple(row) for row in numbers}) >= 6  # the parts matter
