import csv
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from belated.cli.main import main
from belated.learners import catalogue


def belated(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "belated.cli", *arguments], capture_output=True, text=True, check=False
    )


SMALL = ["--rounds", "2e3", "--replications", "3"]


def test_learners_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learners"]) == 0
    out = capsys.readouterr().out
    for name in (*catalogue, "longest_delay", "horizon, tail_index", "nothing", "min over sets S"):
        assert name in out


def test_compare_prints_draws_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["compare", *SMALL, "--learners", "robust:delay_constant=1", "ucb", "--out", str(tmp_path / "new")])
    assert status == 0
    out = capsys.readouterr().out
    assert "regret after 2,000 rounds" in out
    assert "robust:delay_constant=1" in out
    assert out.count("±") == 12  # 2 learners x 6 cells
    assert (tmp_path / "new" / "regret.png").read_bytes().startswith(b"\x89PNG")
    drawing = ET.parse(tmp_path / "new" / "regret.svg").getroot()
    assert drawing.tag.endswith("svg")
    with (tmp_path / "new" / "final.csv").open() as file:
        finals = list(csv.DictReader(file))
    assert len(finals) == 6 * 2 * 3
    with (tmp_path / "new" / "curves.csv").open() as file:
        curves = [row for row in csv.DictReader(file) if row["round"] == "2000"]
    assert len(curves) == 6 * 2
    for row in curves:
        same = [
            float(final["regret"])
            for final in finals
            if all(final[key] == row[key] for key in ("environment", "delays", "learner"))
        ]
        assert float(row["mean_regret"]) == pytest.approx(sum(same) / 3)
        assert float(row["low"]) <= float(row["mean_regret"]) <= float(row["high"])
        assert float(row["uniform_regret"]) == pytest.approx(2000 * 0.1 * 9 / 10)


def test_compare_reads_a_file_and_options_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'learners = ["uniform", "tsallis"]\n'
        'environments = [{ name = "bernoulli", means = [0.2, 0.8] }]\n'
        'delays = ["none", { name = "dropout", share = 0.5, others = "constant:delay=3" }]\n'
        "rounds = 500\nreplications = 9\nseed = 4\n"
    )
    assert main(["compare", str(plan), "--replications", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "regret after 500 rounds" in out
    assert "over 2 replications" in out
    assert "50% never come, others: delay 3" in out


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    for name, workers in (("one", "1"), ("two", "2")):
        assert main(["compare", *SMALL, "--threads", workers, "--out", str(tmp_path / name)]) == 0
    for file in ("curves.csv", "final.csv", "regret.svg", "regret.png"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--learners", "robustt"], ["'robustt'", "Did you mean 'robust'?"]),
        (["compare", "--rounds", "-3"], ["rounds is -3"]),
        (["compare", "--delays", "pareto:shape=x"], ["shape is 'x'"]),
        (["compare", "--environments", "bernoulli:means=[0.5,7]"], ["means[1] is 7"]),
        (["compare", "missing.toml"], ["missing.toml"]),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("belated: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


def test_bad_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("rounds = = 3")
    assert main(["compare", str(plan)]) == 2
    assert "plan.toml is not TOML" in capsys.readouterr().err
    plan.write_text("round = 3")
    assert main(["compare", str(plan)]) == 2
    assert "Did you mean 'rounds'?" in capsys.readouterr().err


def test_help_and_version() -> None:
    assert "compare" in belated().stdout
    assert "pareto:shape=1,scale=10" in belated("compare", "--help").stdout
    assert belated("--version").stdout == "0.1.0\n"
    refused = belated("compare", "--rounds", "many")
    assert refused.returncode == 2
    assert "'many' is not a whole number" in refused.stderr
