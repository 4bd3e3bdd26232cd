"""Tables fit 100 columns; JSON is alone on standard output, with finite numbers and the same keys in every row."""

import json
import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated.cli import parser_league
from belated.cli.main import main
from belated.cli.output import Output, plain
from belated.league import suite
from belated.ledger import open_ledger
from belated.ledger.events import ExperimentSettings
from belated.report.columns import shown_width

Captured = pytest.CaptureFixture[str]

SMALL = ["--rounds", "60", "--replications", "2"]
MANY = ["balanced", "robust", "damped", "ucb", "robust:delay_constant=0.001", "exp3_drift:exploration=0.25"]
COMMANDS = {
    "learners": ["learners"],
    **{f"learners {name}": ["learners", name] for name in ("sapo", "exp3_delayed", "hybrid_skipping")},
    "cells": ["cells"],
    "compare": ["compare", *SMALL],
    "compare many": ["compare", *SMALL, "--learners", *MANY, "tsallis_rv", "queued"],
    "league": ["league", "--cells", "stochastic-k10/*", "--learners", *MANY, *SMALL],
    "league of all": ["league", "--cells", "stochastic-k2/*", *SMALL],
    "league of families": ["league", "--learners", "ucb", "exp3_delayed", "robust:delay_constant=0.001", *SMALL],
    "league once": ["league", "--cells", "stochastic-k2/none", "--rounds", "60", "--replications", "1"],
    "sweep": ["sweep", "exp3_delayed:arms_constant=1.3591409,2,delay_constant=10.87312731", *SMALL],
    "bounds": ["bounds", "resonant-k2/1000", "--rounds", "500"],
    "bounds of delays": ["bounds", "--delays", "pareto:shape=0.3,scale=10", "--learners", *MANY, *SMALL],
    "audit": ["audit", "stochastic-k10/pareto", "resonant-k2/100", *SMALL],
    "trial": ["trial", "--rates", "0.1", "0.2", "0.9", "--patients", "60", "--simulations", "20", "--stop", "never"],
    "trial that stops": [
        "trial",
        "--rates",
        "0",
        "1",
        "--patients",
        "1000",
        "--simulations",
        "2",
        "--learner",
        MANY[4],
    ],
    "trial once": ["trial", "--rates", "0.1", "0.9", "--patients", "2", "--simulations", "1", "--accrual", "0.01"],
    "audit once": ["audit", "stochastic-k10/pareto", "--learner", "ucb", "--rounds", "60", "--replications", "1"],
}
WRITING = ("compare", "league", "sweep", "bounds", "audit")


def command(name: str, folder: Path) -> list[str]:
    words = COMMANDS[name]
    return [*words, "--out", str(folder)] if words[0] in WRITING else words


pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


QUICK = ("learners", "cells", "compare many", "league once", "bounds", "trial once")
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]


@pytest.mark.parametrize("name", CASES)
def test_tables_fit_a_hundred_columns_and_json_is_alone(name: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(command(name, tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert [line for line in lines if shown_width(line) > 100] == []
    assert main([*command(name, tmp_path), "--json"]) == 0
    out, notes = capsys.readouterr()
    found = json.loads(out, parse_constant=refuse)
    assert (str(tmp_path) in notes) == (COMMANDS[name][0] in WRITING and name != "bounds")
    check_rows(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["learners", "compare", "league", "bounds", "audit"])
def test_wide_tables_have_all_columns(name: str, tmp_path: Path, capsys: Captured) -> None:
    """What was left out at 100 columns, and was said to be, is there."""
    assert main(command(name, tmp_path)) == 0
    narrow = capsys.readouterr().out
    assert main([*command(name, tmp_path), "--wide"]) == 0
    wide = capsys.readouterr().out
    assert max(map(shown_width, wide.splitlines())) > 100
    assert "left out" not in wide
    left_out = {
        "learners": ("adversarial bound", "stochastic bound"),
        "bounds": ("source",),
        "audit": ("where in the paper",),
    }
    for column in left_out.get(name, ()):
        assert column in wide.splitlines()[0] or f"  {column}\n" in wide
        assert f"{column}; --wide shows all columns" in narrow.replace("\n  ", " ") or f"{column}, " in narrow


def test_a_league_shows_its_families(tmp_path: Path, capsys: Captured) -> None:
    """Overall and in each family, the best with a star; a dash where a learner does not play; the same in JSON."""
    words = ["league", "--family", "rhythm", "slow-arms", "even", "--learners", "uniform", "ucb", "exp3_delayed"]
    cells = [
        "--cells",
        "rhythm-k4/none",
        "stochastic-k10/by-arm",
        "stochastic-k2/none",
        "tiny-k10/none",
        "blocks-k2/100",
    ]
    words += [*cells, "--rounds", "3000", "--replications", "3", "--out", str(tmp_path)]
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    (header,) = [k for k, line in enumerate(printed) if line.split() == ["learner", "even", "slow-arms", "rhythm"]]
    lines = printed[header + 2 :]
    shown = {line.split()[0]: line.split()[1:] for line in lines[:3]}
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["learner"] for row in found["standings"]] == [name.removesuffix("†") for name in shown]
    for row in found["standings"]:
        means = {each["family"]: each for each in row["families"]}
        texts = shown[row["learner"] + ("†" if row["informed"] else "")]
        for name, text in zip(["even", "slow-arms", "rhythm"], texts, strict=True):
            assert text.removesuffix("*") == (f"{means[name]['geometric']:.2f}" if name in means else "–")
            assert text.endswith("*") == (name in means and means[name]["rank"] == 1)
        product = math.prod(each["geometric"] for each in means.values())
        assert row["geometric"] == pytest.approx(product ** (1 / len(means)))
    assert shown["exp3_delayed†"][1] == "–"
    assert json.loads((tmp_path / "standings.json").read_text()) == found["standings"]
    assert {row["cell"]: row["family"] for row in found["results"]} == {
        "stochastic-k10/by-arm": "slow-arms",
        "rhythm-k4/none": "rhythm",
        "stochastic-k2/none": "even",
        "tiny-k10/none": "even",
    }
    shares = {(row["cell"], row["learner"]): row["share_of_uniform"] for row in found["results"]}
    assert shares["stochastic-k2/none", "uniform"] == pytest.approx(1.0, abs=0.1)  # 150 on average, 4 standard errors
    assert 0.0 < shares["stochastic-k2/none", "ucb"] < 0.9
    assert shares["rhythm-k4/none", "ucb"] is not None
    table = (tmp_path / "regret.md").read_text().partition("## slow-arms\n\n")[2]
    assert suite.FAMILIES["slow-arms"][1:] in table.partition("\n")[0]


def test_uniform_play_without_regret_is_no_scale(tmp_path: Path, capsys: Captured) -> None:
    words = ["league", "--cells", "resonant-k2/100", "--learners", "ucb", "uniform", "--out", str(tmp_path)]
    assert main([*words, "--rounds", "800", "--replications", "2", "--json"]) == 0
    assert [row["share_of_uniform"] for row in json.loads(capsys.readouterr().out)["results"]] == [None, None]
    assert main([*words, "--rounds", "800", "--replications", "2"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("resonant-k2/100")]
    assert row.split()[-2] == "–"


def test_a_league_of_one_family_has_no_table_of_families(tmp_path: Path, capsys: Captured) -> None:
    words = ["league", "--cells", "stochastic-k2/*", "--learners", "ucb", "uniform", *SMALL, "--out", str(tmp_path)]
    assert main(words) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["learner", "even"]] == []


def test_a_sweep_finds_families_beyond_the_quick_suite(tmp_path: Path, capsys: Captured) -> None:
    assert main(["sweep", "ucb:exploration=1,2", "--family", "trials", *SMALL, "--out", str(tmp_path), "--json"]) == 0
    found = {(row["cell"], row["learner"]) for row in json.loads(capsys.readouterr().out)["results"]}
    assert len(found) == 6 * 2


def test_the_parser_knows_the_suites() -> None:
    assert list(parser_league.SUITES) == list(suite.SUITES)


@pytest.mark.parametrize(("columns", "width"), [("60", 100), ("100", 100), ("140", 140)])
def test_a_wide_terminal_is_used(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert Output().width == width
    assert Output(wide=True).width is None


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


def check_rows(found: Any) -> None:
    """Rows of a list have the same keys."""
    for value in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        check_rows(value)
    if isinstance(found, list) and found and isinstance(found[0], dict):
        assert {tuple(row) for row in found} == {tuple(found[0])}


def test_what_json_holds(tmp_path: Path, capsys: Captured) -> None:
    def printed(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    damped = next(row for row in printed("learners") if row["name"] == "damped")
    assert (damped["needs"], damped["endless"]) == (["longest_delay"], False)
    parameters = {row["name"]: row for row in printed("learners", "patient")["parameters"]}
    assert parameters["tail_index"]["high"] is None  # infinite
    assert parameters["horizon"]["default"] == "known"
    assert printed("learners", "exp3_ix")["parameters"][0]["default"] is None  # not known unless it is given
    assert printed("learners", "bold")["parameters"][0]["choices"] == ["tsallis", "exp3"]
    (cell,) = printed("cells", "stochastic-k2/100")
    assert cell == {
        "id": "stochastic-k2/100",
        "family": "even",
        "title": "stochastic, 2 arms, gap 0.1; delay 100",
        "environment": "stochastic, 2 arms, gap 0.1",
        "delays": "delay 100",
        "arms": 2,
        "rounds": 100_000,
    }
    once = ["--rounds", "60", "--replications", "1", "--out", str(tmp_path)]
    (row,) = printed("compare", "--learners", "damped", "--environments", "beta", "--delays", "none", *once)["results"]
    assert (row["learner"], row["told"], row["low"], row["high"]) == ("damped", ["longest_delay"], None, None)
    assert row["mean"] > 0
    league = printed("sweep", "ucb:exploration=1,2", "--cells", "stochastic-k2/none", *once)
    assert league["learners"] == ["ucb:exploration=1", "ucb:exploration=2"]
    assert {row["learner"] for row in league["standings"]} == set(league["learners"])
    assert [row["cell"] for row in league["results"]] == ["stochastic-k2/none"] * 2
    assert league["failures"] == {}
    bounds = printed("bounds", "resonant-k2/100", "--rounds", "60")
    assert bounds["measured"] == []
    assert [row["value"] for row in bounds["bounds"] if row["missing"]] == [None] * 5


def test_a_league_in_which_a_cell_fails(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are shown; the exit status is 1. Where all fail there is nothing to show."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing.py").write_text(
        "class Fails:\n"
        "    def __init__(self, n_arms, rng):\n"
        "        self.p = [1 / n_arms] * n_arms\n"
        "        if n_arms == 2: raise RuntimeError('two arms are too few')\n"
        "    def decide(self, outstanding): return self.p\n"
        "    def learn(self, arm, loss, propensity, round): pass\n"
    )
    words = ["league", "--learners", "failing:Fails", *SMALL, "--out", str(tmp_path / "out"), "--cells"]
    assert main([*words, "stochastic-k2/none", "stochastic-k10/none"]) == 1
    out, notes = capsys.readouterr()
    assert "stochastic-k10/none" in out
    assert "stochastic-k2/none" in notes
    assert "two arms are too few" in notes
    assert main([*words, "stochastic-k2/none", "--json"]) == 1
    out, notes = capsys.readouterr()
    found = json.loads(out)
    assert (found["standings"], list(found["failures"])) == ([], ["stochastic-k2/none"])
    assert ".json" not in notes


def test_the_tables_of_the_service_fit(tmp_path: Path, capsys: Captured) -> None:
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger:
        ledger.create(ExperimentSettings("n" * 60, ["a", "b"], "uniform", {}, 7, "wait"), 0, 10)
    assert main(["keys", "create", "a name of many words " * 4, "--store", store]) == 0
    for words in (["keys", "list"], ["ledger", "verify"]):
        capsys.readouterr()
        assert main([*words, "--store", store]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines
        assert [line for line in lines if shown_width(line) > 100] == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        *([name] for name in ("learners", "cells", "compare", "league", "sweep", "report", "cluster-worker")),
        *([name] for name in ("bounds", "audit", "serve", "keys", "ledger", "completion")),
        *(["keys", name] for name in ("create", "list", "revoke")),
        *(["ledger", name] for name in ("verify", "export")),
    ],
    ids=" ".join,
)
def test_help_fits_too(words: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("usage: belated")
    assert [line for line in lines if len(line) > 100] == []


def test_data_become_plain() -> None:
    data = {
        "a": np.float64(0.5),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": math.inf,
        "e": (math.nan, np.float64("nan")),
    }
    assert plain(data) == {"a": 0.5, "b": 3, "c": True, "d": None, "e": [None, None]}
    assert plain({1: Path("x"), "y": [None, "z", -math.inf]}) == {"1": "x", "y": [None, "z", None]}
