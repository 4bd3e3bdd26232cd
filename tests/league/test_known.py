"""How soon the best arm is known, in the league: stored, averaged, shown in tables, JSON and CSV."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import league, simulate
from belated.cli.main import main
from belated.league import league as leagues
from belated.league import standings, store
from belated.league.suite import Cell
from belated.report import tables

EASY = Cell("easy/none", "bernoulli:means=[0.2,0.8]", "none", 400, "trials")
ENDLESS = Cell("easy/outlier", "bernoulli:means=[0.2,0.8]", "outlier", 400, "trials")
MOVING = Cell("moving/none", "constrained:arms=2,gap=0.4", "none", 400, "constrained")
PLAN = league.LeaguePlan((EASY, ENDLESS, MOVING), league.competitors(["uniform", "ucb"]), 5, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known")


@pytest.fixture(scope="module")
def played(folder: Path) -> league.League:
    return league.play(PLAN, folder, threads=1)


def test_a_league_finds_out(played: league.League, folder: Path) -> None:
    """As `simulate` does where it is asked to; what is stored is the same."""
    again = store.Store(folder, PLAN).league()
    for cell in PLAN.cells:
        result = simulate(
            ["uniform", "ucb"], cell.environment, cell.delays, rounds=400, replications=5, seed=3, known=True
        )
        for found in (played.results[cell.id], again.results[cell.id]):
            np.testing.assert_array_equal(found.known, result.known)
            np.testing.assert_array_equal(found.known_wrong, result.known_wrong)
    assert np.isfinite(played.results["easy/none"].known).all()
    assert np.isposinf(played.results["easy/outlier"].known).all()
    assert np.isnan(played.results["moving/none"].known).all()


def test_results_stored_without_it_are_played_again(played: league.League, folder: Path, tmp_path: Path) -> None:
    old = store.Store(folder, PLAN).path(EASY)
    kept = store.Store(tmp_path, PLAN)
    with np.load(old) as file:
        np.savez(kept.path(EASY), **{name: file[name] for name in file.files if not name.startswith("known")})
    assert store.Store(tmp_path, PLAN).cells == {}
    again = league.play(PLAN, tmp_path)
    np.testing.assert_array_equal(again.results["easy/none"].known, played.results["easy/none"].known)


def test_results_of_another_inference_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belated.league.store.source_digest", lambda *names: str("inference" in names))
    with_it = store.Store(folder, PLAN).fingerprint(EASY)
    monkeypatch.setattr("belated.league.store.source_digest", lambda *names: "True")
    assert store.Store(folder, PLAN).fingerprint(EASY) == with_it


def test_csv_has_every_replication(played: league.League) -> None:
    header, *rows = leagues.final_rows(played)
    assert header[-2:] == ("known", "known_wrong")
    found = {(row[0], row[1], row[4]): row[-2:] for row in rows}
    for cell in PLAN.cells:
        result = played.results[cell.id]
        for k, name in enumerate(result.learners):
            for r in range(5):
                known, wrong = found[cell.id, name, r]
                assert known == result.known[k, r] or (math.isnan(known) and math.isnan(result.known[k, r]))
                assert wrong is False


def with_known(known: Any, families: list[str]) -> league.League:
    """Return a league of 100 rounds with these numbers, (2 learners, cells), the same in three replications."""
    cells = tuple(Cell(f"cell-{k}", "stochastic", "none", 100, family) for k, family in enumerate(families))
    results = {}
    for k, cell in enumerate(cells):
        results[cell.id] = simulate(["ucb", "tsallis"], cell.environment, rounds=100, replications=3)
        results[cell.id].known[:] = np.array(known, dtype=np.float64)[:, k, None]
    return league.League(league.LeaguePlan(cells, league.competitors(["ucb", "tsallis"]), 3), results)


def test_the_mean_share_by_hand() -> None:
    """50 and 10 of 100 rounds in one family, never in another: (0.3 + 1) / 2. Losses that change do not count."""
    never, nan = math.inf, math.nan
    made = with_known(
        [[50, 10, never, nan, nan], [20, 20, 40, nan, nan]],
        ["even", "even", "trials", "trials", "resonant"],
    )
    rows = {row.learner: row for row in standings.rank(made)}
    assert rows["ucb"].known == pytest.approx((0.3 + 1.0) / 2)
    assert rows["tsallis"].known == pytest.approx((0.2 + 0.4) / 2)
    within = {each.family: each.known for each in rows["ucb"].families}
    assert within == {"even": pytest.approx(0.3), "trials": 1.0, "resonant": None}
    np.testing.assert_allclose(standings.known_shares(made), [[0.5, 0.1, 1.0, nan, nan], [0.2, 0.2, 0.4, nan, nan]])
    shown = tables.standings_table([rows["ucb"], rows["tsallis"]], 3).fit(None).text.splitlines()
    at = shown[0].index("known")
    assert [line[at : at + 5].strip() for line in shown[2:]] == ["65 %", "30 %"]


def test_it_is_the_median_over_replications() -> None:
    made = with_known([[50], [50]], ["even"])
    made.results["cell-0"].known[0] = [20, 30, math.inf]
    made.results["cell-0"].known[1] = [20, math.inf, math.inf]
    assert standings.known_shares(made)[:, 0].tolist() == [0.3, 1.0]


def test_who_plays_where_losses_change_has_no_share() -> None:
    made = with_known([[math.nan, math.nan], [math.nan, 40]], ["resonant", "even"])
    rows = {row.learner: row for row in standings.rank(made)}
    assert rows["ucb"].known is None
    assert rows["tsallis"].known == pytest.approx(0.4)
    assert {row[2]: row[7] for row in tables.standings_rows(list(rows.values()), 3)} == {"ucb": "–", "tsallis": "40 %"}
    json.dumps(rows["ucb"].known, allow_nan=False)


WORDS = ["--learners", "uniform", "exp3_delayed", "--replications", "4"]
CELLS = ["trial-k2/50-of-500", "stochastic-k10/by-arm", "constrained-k10/none"]


def test_the_command_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the ranking and cell by cell, as JSON, CSV and Markdown."""
    words = ["league", "--cells", *CELLS, "--rounds", "900", *WORDS, "--out", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {(row["cell"], row["learner"]): row for row in found["results"]}
    easy = rows["trial-k2/50-of-500", "uniform"]
    assert 100 < easy["known"] <= 900
    assert (easy["known_in"], easy["known_wrong"]) == (1.0, 0.0)
    blocked = rows["stochastic-k10/by-arm", "uniform"]
    assert (blocked["known"], blocked["known_in"], blocked["known_wrong"]) == (None, 0.0, 0.0)
    moving = rows["constrained-k10/none", "uniform"]
    assert (moving["known"], moving["known_in"], moving["known_wrong"]) == (None, None, None)
    with (tmp_path / "final.csv").open() as file:
        kept = [row for row in csv.DictReader(file) if row["learner"] == "uniform"]
    assert np.median([float(row["known"]) for row in kept if row["cell"] == CELLS[0]]) == easy["known"]
    assert {row["known"] for row in kept if row["cell"] == CELLS[1]} == {"inf"}
    assert {row["known"] for row in kept if row["cell"] == CELLS[2]} == {"nan"}
    standing = {row["learner"]: row["known"] for row in found["standings"]}
    assert standing["uniform"] == pytest.approx((easy["known"] / 900 + 1.0) / 2)
    assert f"  {standing['uniform']:.0%}".replace("%", " %") in out
    text = out.partition(tables.KNOWN_HERE)[2]
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "/" in line}
    order = [row["learner"] for row in found["standings"]]
    k = order.index("uniform")
    assert lines[CELLS[0]][k] == f"{easy['known']:,.0f}"
    assert lines[CELLS[1]] == ["–", "–"]
    assert list(lines) == CELLS[:2][::-1]  # slow-arms before trials; none whose losses change
    markdown = (tmp_path / "regret.md").read_text()
    assert markdown.count(f"{tables.KNOWN_HERE.capitalize()}:") == 2
    assert f" {easy['known']:,.0f} |" in markdown.partition("## trials")[2]
    assert "| known |" in (tmp_path / "standings.md").read_text()


def test_nothing_is_shown_where_all_losses_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["league", "--cells", CELLS[2], "--rounds", "300", *WORDS, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "known:" not in out
    assert tables.KNOWN_HERE not in out
    assert tables.KNOWN_HERE.capitalize() not in (tmp_path / "regret.md").read_text()
