"""The league: independent of workers, order and interruption; broken cells are named; the ranking is what it says."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import league, simulate
from belated.cli.main import main
from belated.delays import Constant
from belated.environments import Environment, Stochastic
from belated.league import league as league_module
from belated.league import standings, suite
from belated.league.suite import Cell
from belated.simulation import frames
from support.refusals import refused

CELLS = tuple(
    cell.at(1500) for cell in suite.find(["stochastic-k10/pareto", "resonant-k2/100", "stochastic-k10/by-arm"])
)
NAMES = ("robust", "ucb", "damped", "exp3_delayed", "bold")


def settings(**changes: Any) -> league.LeaguePlan:
    given: dict[str, Any] = {"cells": CELLS, "learners": league.competitors(NAMES), "replications": 4, "seed": 7}
    return league.LeaguePlan(**{**given, **changes})


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> league.League:
    return league.play(settings(), tmp_path_factory.mktemp("league"), threads=1)


def same(first: league.League, second: league.League) -> None:
    np.testing.assert_array_equal(first.finals(), second.finals())
    for cell in first.cells:
        np.testing.assert_array_equal(first.results[cell.id].regret, second.results[cell.id].regret)
        np.testing.assert_array_equal(first.results[cell.id].skipped, second.results[cell.id].skipped)


def test_a_cell_is_what_simulate_gives(played: league.League) -> None:
    cell = CELLS[0]
    result = simulate(NAMES, cell.environment, cell.delays, rounds=1500, replications=4, seed=7)
    np.testing.assert_array_equal(played.results[cell.id].regret[:, :, -1], result.regret[:, :, -1])
    assert played.results[cell.id].informed == ((), (), ("longest_delay",), ("delay",), ())


def test_who_cannot_play_does_not(played: league.League) -> None:
    """Nobody can tell the delay of a decision where it depends on the arm."""
    assert "exp3_delayed" not in played.results["stochastic-k10/by-arm"].learners
    finals = played.finals()
    assert np.isnan(finals[NAMES.index("exp3_delayed"), 2]).all()
    assert np.isfinite(np.delete(finals, NAMES.index("exp3_delayed"), axis=0)).all()


def test_a_cell_in_which_nobody_can_play_is_left_out(tmp_path: Path) -> None:
    only = settings(learners=league.competitors(["exp3_delayed"]))
    assert [cell.id for cell in league.play(only, tmp_path).cells] == ["stochastic-k10/pareto", "resonant-k2/100"]
    with refused(None, "exp3_delayed"):
        settings(learners=league.competitors(["exp3_delayed"]), cells=CELLS[2:])


def test_workers_and_order_do_not_matter(played: league.League, tmp_path: Path) -> None:
    same(played, league.play(settings(), tmp_path / "two", threads=2))
    turned = settings(cells=CELLS[::-1], learners=league.competitors(NAMES[::-1]))
    other = league.play(turned, tmp_path / "turned", threads=2)
    np.testing.assert_array_equal(played.finals(), other.finals()[::-1, ::-1])


def test_what_is_there_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = league.play(settings(learners=league.competitors(["ucb"])), tmp_path)
    asked: list[str] = []
    attempt = league_module.attempt

    def noted(name: str, job: Any, number: int) -> Any:
        asked.append(job.learners[0].label)
        return attempt(name, job, number)

    monkeypatch.setattr(league_module, "attempt", noted)
    more = league.play(settings(learners=league.competitors(["ucb", "robust"])), tmp_path)
    assert asked == ["robust"] * 12  # 3 cells x 4 replications
    np.testing.assert_array_equal(more.finals()[0], first.finals()[0])
    league.play(settings(learners=league.competitors(["ucb"]), replications=2), tmp_path)  # leaves the others alone
    asked.clear()
    same(more, league.play(settings(learners=league.competitors(["ucb", "robust"])), tmp_path))
    assert asked == []
    league.play(settings(learners=league.competitors(["ucb"]), seed=8), tmp_path)
    assert len(asked) == 12


def test_a_damaged_file_is_played_again(played: league.League, tmp_path: Path) -> None:
    league.play(settings(), tmp_path)
    for k, path in enumerate(sorted((tmp_path / "cells").glob("*.npz"))):
        path.write_bytes(path.read_bytes()[: 100 * k])
    again = league.play(settings(), tmp_path)
    assert again.failures == {}
    same(played, again)


class Broken(Environment):
    """Goes wrong after some rounds of its second replication."""

    n_arms = 2

    def fill(self, rng: np.random.Generator, rounds: Any) -> Any:
        if rng.integers(0, 2) and rounds[-1] > 5:
            raise RuntimeError("the dog ate the losses")
        return np.full((1, 2), 0.5), None


def test_a_broken_cell_is_named_and_the_others_go_on(played: league.League, tmp_path: Path) -> None:
    broken = Cell("broken-k2/none", Broken(), Constant(0), 50)
    said: list[str] = []
    result = league.play(settings(cells=(broken, *CELLS)), tmp_path, report=said.append)
    assert list(result.failures) == ["broken-k2/none"]
    assert "the dog ate the losses" in result.failures["broken-k2/none"]
    assert len(said) == 1
    assert all(each in said[0] for each in ("broken-k2/none", "RuntimeError: the dog ate the losses"))
    assert [cell.id for cell in result.cells] == [cell.id for cell in CELLS]
    np.testing.assert_array_equal(result.finals(), played.finals())
    assert not list((tmp_path / "cells").glob("broken*"))


COMMAND = [
    "league",
    "--cells",
    "stochastic-k10/*",
    "--rounds",
    "500",
    "--replications",
    "2",
    "--learners",
    "ucb",
    "exp3",
]
KILLED = """
import os, signal, sys, types
from belated.cli.main import main
from belated.league import store

stored = []

def replace(part, path):
    if len(stored) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    stored.append(path)
    os.replace(part, path)

store.os = types.SimpleNamespace(replace=replace)
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    """kill -9 before the fourth cell is stored; started again it ends with the numbers of an undisturbed run."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([*COMMAND, "--out", str(whole)]) == 0
    done = subprocess.run([sys.executable, "-c", KILLED, *COMMAND, "--out", str(parts)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    stored = {path: path.stat().st_mtime_ns for path in (parts / "cells").glob("*.npz")}
    assert len(stored) == 3
    assert not (parts / "final.csv").exists()
    assert main([*COMMAND, "--out", str(parts)]) == 0
    assert (parts / "final.csv").read_bytes() == (whole / "final.csv").read_bytes()
    assert (parts / "standings.json").read_bytes() == (whole / "standings.json").read_bytes()
    assert {path: path.stat().st_mtime_ns for path in stored} == stored  # not played again


def doctored(finals: list[list[float]], learners: list[str]) -> league.League:
    """A league with these final regrets, (learners, cells), in every replication; K = 10, 100 rounds, so f = 3.2."""
    cells = tuple(Cell(f"c{k}", Stochastic(10, 0.1), Constant(0), 100) for k in range(len(finals[0])))
    plan = league.LeaguePlan(cells, league.competitors(learners), replications=3)
    results = {}
    for k, cell in enumerate(cells):
        base = simulate(learners, cell.environment, rounds=100, replications=3, checkpoints=[100])
        base.regret[:] = np.array(finals)[:, k, None, None]
        results[cell.id] = base
    return league.League(plan, results)


def test_ratios_by_hand() -> None:
    """Floor sqrt(1000) / 10 = 3.16; informed learners (damped) are measured but nobody is measured by them."""
    table = [[10.0, -50.0, 40.0], [20.0, 5.0, 1.0], [5.0, 4.0, 1.0]]
    made = doctored(table, ["ucb", "tsallis", "damped"])
    floor = np.sqrt(1000) / 10
    expected = [[1.0, 1.0, 40 / floor], [2.0, 5 / floor, 1.0], [0.5, 4 / floor, 1.0]]
    np.testing.assert_allclose(standings.ratios(made), expected)
    rows = {row.learner: row for row in standings.rank(made)}
    assert rows["damped"].rank == 1
    assert rows["damped"].informed
    assert rows["tsallis"].rank == 2
    assert rows["ucb"].geometric == pytest.approx((40 / floor) ** (1 / 3))
    assert rows["ucb"].worst == pytest.approx(40 / floor)
    assert rows["ucb"].worst_cell == "c2"
    for row in rows.values():
        assert row.low == pytest.approx(row.geometric)
        assert row.high == pytest.approx(row.geometric)
    assert all(row.best_rank == row.rank == row.worst_rank for row in rows.values())


def test_bootstrap_intervals_hold_the_truth(played: league.League) -> None:
    rows = standings.rank(played)
    assert [row.rank for row in rows] == sorted(row.rank for row in rows)
    for row in rows:
        assert row.low <= row.geometric <= row.high
        assert row.best_rank <= row.rank <= row.worst_rank
        assert row.low < row.high
    assert rows == standings.rank(played)
    assert {row.cells for row in rows} == {2, 3}


def test_the_command_writes_numbers_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["league", "--cells", "stochastic-k2/*", "--learners", "ucb", "damped", "--rounds", "500"]
    assert main([*arguments, "--replications", "3", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "damped†" in out
    with (tmp_path / "final.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * 3
    assert frames.frame(iter([("a", "b"), (1, 2)])).shape == (1, 2)
    import polars

    table = polars.read_parquet(tmp_path / "final.parquet")
    assert table["regret"].to_list() == pytest.approx([float(row["regret"]) for row in rows])
    assert (
        polars.read_parquet(tmp_path / "curves.parquet").height
        == len((tmp_path / "curves.csv").read_text().splitlines()) - 1
    )
    assert json.loads((tmp_path / "standings.json").read_text())[0]["rank"] == 1
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        assert (tmp_path / f"heatmap.{kind}").read_bytes().startswith(magic)


def test_small_leagues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One replication gives no intervals; who can play nowhere is left out with a word."""
    arguments = ["league", "--cells", "stochastic-k10/by-arm", "--rounds", "40", "--replications", "1"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    out, notes = capsys.readouterr()
    assert "'exp3_delayed'" in notes
    assert str(len(league.competitors()) - 1) in out
    assert all(
        line.split()[1] == "–"
        for line in out.splitlines()
        if line.strip()[:2].strip().isdigit() and "cell," not in line
    )
    for content in ("{}", "[]", "{", "\x00"):
        (tmp_path / "league.json").write_text(content)
        assert main(["report", str(tmp_path)]) == 2
        assert "league.json" in capsys.readouterr().err
    (tmp_path / "league.json").write_text('{"cells": [], "learners": ["mine"], "replications": 1, "seed": 0}')
    assert main(["report", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "sweep",
        "robust:delay_constant=49,1,0.01",
        "--wide",
        "--cells",
        "stochastic-k2/100",
        "--rounds",
        "4000",
    ]
    assert main([*arguments, "--replications", "4", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    ranked = [line.split()[2] for line in out.splitlines()[2:] if line.strip()[:1].isdigit()]
    assert sorted(ranked) == ["robust:delay_constant=0.01", "robust:delay_constant=1", "robust:delay_constant=49"]
    assert ranked[0] == "robust:delay_constant=0.01"
    row, known = [line for line in out.splitlines() if line.startswith("stochastic-k2/100")]
    assert row.count("±") == 3
    assert len(known.split()) == 1 + 3
    assert row.count("*") == 1
    assert (tmp_path / "regret.md").read_text().count("±") == 3
    assert main(["sweep", "robust:delay_konstant=1,2", "--out", str(tmp_path)]) == 2
    assert "'delay_constant'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["league", "--cells", "stochastic-k11/none"], "'stochastic-k11/none'"),
        (["league", "--learners", "robust", "robust"], "'robust'"),
        (["league", "--replications", "0"], "replications"),
        (["report", "nowhere"], "nowhere"),
        (["league", "--threads", "0"], "threads"),
    ],
)
def test_bad_input(arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = [] if arguments[0] == "report" else ["--out", str(tmp_path)]
    assert main([*arguments, *where]) == 2
    assert named in capsys.readouterr().err


def test_frames_of_both_kinds(tmp_path: Path) -> None:
    result = simulate(["ucb", "damped"], "stochastic:arms=2", rounds=50, replications=2, checkpoints=[10, 50])
    for kind in ("polars", "pandas"):
        table = result.frame(kind)
        assert type(table).__module__.startswith(kind)
        assert table.shape == (2 * 2 * 2, 6)
        assert float(table["regret"].max()) == pytest.approx(result.regret.max())
    result.write_parquet(tmp_path / "result.parquet")
    import pandas

    assert pandas.read_parquet(tmp_path / "result.parquet").equals(result.frame("pandas"))
    with refused(None, "excel"):
        result.frame("excel")
