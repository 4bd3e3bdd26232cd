import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from belated.cli.main import main
from belated.league.suite import FAMILIES, suite
from belated.learners import catalogue


def belated(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "belated.cli", *arguments], capture_output=True, text=True, check=False
    )


SMALL = ["--rounds", "2e3", "--replications", "3"]


def test_learners_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learners"]) == 0
    out = capsys.readouterr().out
    for name in (
        *catalogue,
        "longest_delay",
        "horizon, tail_index",
        "nothing",
        "never comes",
        "--wide shows all columns",
    ):
        assert name in out
    assert "min over sets S" not in out  # the bounds are left out, and their symbols with them
    assert main(["learners", "--wide"]) == 0
    out = capsys.readouterr().out
    assert "min over sets S" in out
    assert "d + √((K + d) T log K)" in out


def test_cells_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells"]) == 0
    out = capsys.readouterr().out
    assert [cell for cell in suite if cell not in out] == []
    assert [name for name, text in FAMILIES.items() if f"\n{name}: {text}\n" not in out] == []
    assert main(["cells", "resonant-*", "stochastic-k1000/none"]) == 0
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] if line else "" for line in lines] == [
        "even:",
        "stochastic-k1000/none",
        "",
        "resonant:",
        "resonant-k2/100",
        "resonant-k2/1000",
        "resonant-k10/1000",
    ]
    assert lines[1].split()[-2:] == ["1,000", "100,000"]
    assert "stochastic, 1000 arms, gap 0.4; no delay" in lines[1]


def test_cells_of_a_family_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells", "--family", "rhythm", "revenue", "--json"]) == 0
    found = {row["id"]: row["family"] for row in json.loads(capsys.readouterr().out)}
    assert found == {name: cell.family for name, cell in suite.items() if cell.family in ("rhythm", "revenue")}
    assert main(["cells", "stochastic-*", "--family", "deadline"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:4]] == [
        "deadline:",
        "stochastic-k10/by-loss",
    ]


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


def test_compare_reads_a_file_and_options_override_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    for name, threads in (("one", "1"), ("two", "2")):
        assert main(["compare", *SMALL, "--threads", threads, "--out", str(tmp_path / name)]) == 0
    for file in ("curves.csv", "final.csv", "regret.svg", "regret.png"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--learners", "robustt"], ["'robustt'", "Did you mean 'robust'?"]),
        (["compare", "--rounds", "-3"], ["rounds is -3"]),
        (["compare", "--delays", "pareto:shape=x"], ["shape is 'x'"]),
        (["compare", "--environments", "bernoulli:means=[0.5,7]"], ["means[1] is 7"]),
        (["compare", "missing.toml"], ["missing.toml: No such file or directory"]),
        (["compare", "--threads", "0", "--rounds", "9"], ["threads is 0"]),
        (["compare", "--replications", "0"], ["replications is 0"]),
        (["compare", "--seed", "-1"], ["seed is -1"]),
        (["compare", "--learners", "ucb", "ucb"], ["'ucb' is given twice"]),
        (["compare", "--learners", "none:x"], ["'none:x' cannot be loaded: No module named 'none'"]),
        (["compare", "--learners", "robst:delay_constant"], ["No module named 'robst'", "Did you mean 'robust'?"]),
        (["compare", "--delays", "none:x"], ["'x' in 'none:x' is not of the form key=value"]),
        (["compare", "--delays", "nonne:x"], ["No module named 'nonne'", "Did you mean 'none'?"]),
        (["learners", "robustt"], ["unknown learner 'robustt'", "Did you mean 'robust'?"]),
        (["learners", "ucb", "--markdown"], ["--markdown prints the table of all learners"]),
        (["learners", "--json", "--markdown"], ["--markdown prints the table of all learners"]),
        (["cells", "stochastic-k11/*"], ["unknown cell 'stochastic-k11/*'"]),
        (["cells", "--family", "rythm"], ["unknown family 'rythm': allowed is one of ", "Did you mean 'rhythm'?"]),
        (["league", "--family", "conversion"], ["unknown family 'conversion'", "Did you mean 'conversions'?"]),
        (["league", "--suite", "quick", "--family", "trials"], ["none of the cells is of the family trials"]),
        (["sweep", "ucb:exploration=1,2", "--family", "even", "evn"], ["Did you mean 'even'?"]),
        (["sweep", "robust"], ["'robust' none has several"]),
        (["sweep", "robust:delay_constant=1"], ["one parameter with several values is needed", "none has several"]),
        (["sweep", "ewma:weight=0.1,0.2,exploration=0,0.1"], ["weight and exploration have several"]),
        (["sweep", "robust:delay_konstant=1,2"], ["Did you mean 'delay_constant'"]),
        (["sweep", "robustt:delay_constant=1,2"], ["Did you mean 'robust'"]),
        (["sweep", "robust:delay_constant=1,x"], ["delay_constant is 'x'"]),
        (["sweep", "robust:delay_constant=1,1"], ["'robust:delay_constant=1' is given twice"]),
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--rounds", "many"], "'many' is not a whole number"),
        (["compare", "--rounds", "1.5"], "'1.5' is not a whole number"),
        (["compare", "--round", "15"], "unrecognized arguments: --round"),
        (["audit", "stochastic-k10/100", "--set", "delay_constant=1"], "unrecognized arguments: --set"),
        (["bounds", "stochastic-k10/100", "--delay-constant", "1"], "unrecognized arguments: --delay-constant"),
        (["sweep", "robust", "delay_constant", "1"], "unrecognized arguments: delay_constant"),
        (["league", "--suite", "half"], "invalid choice: 'half'"),
        (["completion", "tcsh"], "invalid choice: 'tcsh'"),
        (["keys"], "action"),
        (["worker", "tcp://127.0.0.1:8786"], "invalid choice: 'worker'"),
    ],
)
def test_arguments_that_do_not_exist(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], ["league", "--help"], ["ledger", "verify", "--help"]]
)
def test_help_needs_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from belated.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'argcomplete', 'msgspec', 'httpx', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("belated.league.comparison.compare", interrupted)
    assert main(["compare", *SMALL]) == 130
    assert capsys.readouterr().err == "belated: stopped\n"


def test_without_matplotlib_there_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    small = ["--rounds", "200", "--replications", "2", "--out", str(tmp_path)]
    for command in (
        ["compare", "--learners", "ucb"],
        ["bounds", "stochastic-k2/none", "--learners", "ucb"],
        ["audit", "stochastic-k2/none"],
    ):
        assert main([*command, *small]) == 0
        out, notes = capsys.readouterr()
        assert out
        assert "no figure: a figure needs matplotlib: pip install 'belated[plots]'" in notes
    assert main(["league", "--cells", "stochastic-k2/none", "--learners", "ucb", *small]) == 0
    assert not list(tmp_path.glob("*.png"))
    assert (tmp_path / "standings.json").exists()


def test_without_its_extra_the_service_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("belated.cli.keys", "belated.ledger", "belated.api"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert main(["keys", "list"]) == 2
    assert capsys.readouterr().err == "belated: the service needs msgspec: pip install 'belated[service]'\n"
