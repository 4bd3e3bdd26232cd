import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from belated.cli.main import main
from belated.league.suite import FAMILIES, by_family, suite
from belated.learners import catalogue
from support.commands import refused_line

Captured = pytest.CaptureFixture[str]
SMALL = ["--rounds", "2e3", "--replications", "3"]


def printed(capsys: Captured, *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_learners_lists_the_catalogue(capsys: Captured) -> None:
    assert main(["learners"]) == 0
    narrow = capsys.readouterr().out
    assert [name for name in (*catalogue, "longest_delay", "horizon, tail_index", "--wide") if name not in narrow] == []
    assert main(["learners", "--wide"]) == 0
    wide = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 100 < max(map(len, wide.splitlines()))
    assert "d + √((K + d) T log K)" in wide  # the bounds are left out otherwise
    assert "d + √((K + d) T log K)" not in narrow


def test_cells_are_listed(capsys: Captured) -> None:
    """By family, one line for each."""
    assert main(["cells"]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:] if line]
    assert [word for word in first if word in suite] == [
        cell.id for cells in by_family(suite.values()).values() for cell in cells
    ]
    headings = [word[:-1] for word in first if word.endswith(":") and word[:-1] in FAMILIES]
    assert headings == list(by_family(suite.values()))
    assert main(["cells", "resonant-*", "stochastic-k1000/none"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines()[2:] if line]
    ids = ["even:", "stochastic-k1000/none", "resonant:", "resonant-k2/100", "resonant-k2/1000", "resonant-k10/1000"]
    assert [line.split()[0] for line in lines] == ids
    assert lines[1].split()[-2:] == ["1,000", "100,000"]
    families = {row["id"]: row["family"] for row in printed(capsys, "cells", "--family", "rhythm", "revenue")}
    assert families == {name: cell.family for name, cell in suite.items() if cell.family in ("rhythm", "revenue")}
    found = [row["id"] for row in printed(capsys, "cells", "stochastic-*", "--family", "deadline")]
    assert found[0] == "stochastic-k10/by-loss"


@pytest.mark.slow
def test_the_same_seed_draws_the_same_figures(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert main(["compare", *SMALL, "--out", str(tmp_path / name)]) == 0
    for file in ("regret.svg", "regret.png"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_compare_prints_draws_and_writes(tmp_path: Path, capsys: Captured, request: pytest.FixtureRequest) -> None:
    """Numbers are the same for the same seed, however many threads there are."""
    words = ["compare", *SMALL, "--learners", "robust:delay_constant=1", "ucb"]
    words += ["--environments", "stochastic:arms=10,gap=0.1", "--delays", "none", "constant:delay=50"]
    assert main([*words, "--threads", "1", "--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "2,000" in out
    assert "robust:delay_constant=1" in out
    assert out.count("±") == 4  # 2 learners x 2 cells
    assert (tmp_path / "new" / "regret.png").read_bytes().startswith(b"\x89PNG")
    drawing = ET.parse(tmp_path / "new" / "regret.svg").getroot()
    assert drawing.tag.endswith("svg")
    request.getfixturevalue("no_figures")
    assert main([*words, "--threads", "2", "--out", str(tmp_path / "two")]) == 0
    for name in ("curves.csv", "final.csv"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    with (tmp_path / "new" / "final.csv").open() as file:
        finals = list(csv.DictReader(file))
    assert len(finals) == 2 * 2 * 3
    with (tmp_path / "new" / "curves.csv").open() as file:
        curves = [row for row in csv.DictReader(file) if row["round"] == "2000"]
    assert len(curves) == 2 * 2
    for row in curves:
        same = [
            float(final["regret"])
            for final in finals
            if all(final[key] == row[key] for key in ("environment", "delays", "learner"))
        ]
        assert float(row["mean_regret"]) == pytest.approx(sum(same) / 3)
        assert float(row["low"]) <= float(row["mean_regret"]) <= float(row["high"])
        assert float(row["uniform_regret"]) == pytest.approx(2000 * 0.1 * 9 / 10)


def test_compare_reads_a_file_and_options_override_it(tmp_path: Path, capsys: Captured, no_figures: None) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'learners = ["uniform", "tsallis"]\n'
        'environments = [{ name = "bernoulli", means = [0.2, 0.8] }]\n'
        'delays = ["none", { name = "dropout", share = 0.5, others = "constant:delay=3" }]\n'
        "rounds = 500\nreplications = 9\nseed = 4\n"
    )
    with_file = printed(capsys, "compare", str(plan), "--replications", "2", "--out", str(tmp_path))
    with (tmp_path / "final.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2 * 2 * 2
    words = ["--learners", "uniform", "tsallis", "--environments", "bernoulli:means=[0.2,0.8]", "--rounds", "500"]
    words += ["--delays", "none", "dropout:share=0.5,others=constant:delay=3", "--replications", "2", "--seed", "4"]
    assert printed(capsys, "compare", *words) == with_file


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("compare --learners robustt", ["'robustt'", "'robust'"]),
        ("compare --rounds -3", ["rounds", "-3"]),
        ("compare --delays pareto:shape=x", ["shape", "'x'"]),
        ("compare --environments bernoulli:means=[0.5,7]", ["means[1]", "7"]),
        ("compare missing.toml", ["missing.toml"]),
        ("compare --threads 0 --rounds 9", ["threads", "0"]),
        ("compare --replications 0", ["replications", "0"]),
        ("compare --seed -1", ["seed", "-1"]),
        ("compare --learners ucb ucb", ["'ucb'"]),
        ("compare --learners none:x", ["'none:x'", "'none'"]),
        ("compare --learners robst:delay_constant", ["'robst'", "'robust'"]),
        ("compare --delays none:x", ["'x'", "'none:x'"]),
        ("compare --delays nonne:x", ["'nonne'", "'none'"]),
        ("learners robustt", ["'robustt'", "'robust'"]),
        ("learners ucb --markdown", ["--markdown"]),
        ("learners --json --markdown", ["--markdown"]),
        ("cells stochastic-k11/*", ["'stochastic-k11/*'"]),
        ("cells --family rythm", ["'rythm'", "'rhythm'"]),
        ("league --family conversion", ["'conversion'", "'conversions'"]),
        ("league --suite quick --family trials", ["trials"]),
        ("sweep ucb:exploration=1,2 --family even evn", ["'evn'", "'even'"]),
        ("sweep robust", ["'robust'"]),
        ("sweep robust:delay_constant=1", ["'robust:delay_constant=1'"]),
        ("sweep ewma:weight=0.1,0.2,exploration=0,0.1", ["weight", "exploration"]),
        ("sweep robust:delay_konstant=1,2", ["'delay_constant'"]),
        ("sweep robustt:delay_constant=1,2", ["'robust'"]),
        ("sweep robust:delay_constant=1,x", ["delay_constant", "'x'"]),
        ("sweep robust:delay_constant=1,1", ["'robust:delay_constant=1'"]),
    ],
)
def test_bad_input_is_one_clear_line(words: str, names: list[str], capsys: Captured) -> None:
    refused_line(capsys, words.split(), *names)


def test_bad_files_are_named(tmp_path: Path, capsys: Captured) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("rounds = = 3")
    refused_line(capsys, ["compare", str(plan)], plan)
    plan.write_text("round = 3")
    refused_line(capsys, ["compare", str(plan)], "'round'", "'rounds'")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("compare --rounds many", "'many'"),
        ("compare --rounds 1.5", "'1.5'"),
        ("compare --round 15", "--round"),
        ("audit stochastic-k10/100 --set delay_constant=1", "--set"),
        ("bounds stochastic-k10/100 --delay-constant 1", "--delay-constant"),
        ("sweep robust delay_constant 1", "delay_constant"),
        ("league --suite half", "half"),
        ("completion tcsh", "tcsh"),
        ("keys", "keys"),
        ("worker tcp://127.0.0.1:8786", "worker"),
    ],
)
def test_arguments_that_do_not_exist(words: str, name: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2
    out, notes = capsys.readouterr()
    assert out == ""
    assert name in notes.splitlines()[-1]


def test_help_needs_nothing_heavy() -> None:
    """Nor does the version; both are quick."""
    code = (
        "import sys; from belated.cli.main import main\n"
        "for words in ([], ['--help'], ['--version'], ['league', '--help'], ['ledger', 'verify', '--help']):\n"
        "    try: assert main(words) == 0\n"
        "    except SystemExit as stopped: assert not stopped.code\n"
        "heavy = {'numpy', 'numba', 'argcomplete', 'msgspec', 'httpx', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert version("belated") in done.stdout.splitlines()


def test_an_interrupt_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupted(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("belated.league.comparison.compare", interrupted)
    assert main(["compare", *SMALL]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_without_matplotlib_there_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    small = ["--rounds", "50", "--replications", "2", "--out", str(tmp_path)]
    for command in (
        ["compare", "--learners", "ucb"],
        ["bounds", "stochastic-k2/none", "--learners", "ucb"],
        ["audit", "stochastic-k2/none"],
    ):
        assert main([*command, *small]) == 0
        out, notes = capsys.readouterr()
        assert out
        assert "'belated[plots]'" in notes
    assert main(["league", "--cells", "stochastic-k2/none", "--learners", "ucb", *small]) == 0
    assert not list(tmp_path.glob("*.png"))
    assert (tmp_path / "standings.json").exists()


def test_without_its_extra_the_service_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("belated.cli.keys", "belated.ledger", "belated.api"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    refused_line(capsys, ["keys", "list"], "msgspec", "'belated[service]'")
