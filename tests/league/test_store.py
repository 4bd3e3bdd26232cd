"""The folder of a league: a stored result is used for the same problem only."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated.delays import Delays
from belated.environments import Environment
from belated.league import League, LeaguePlan, competitors, play
from belated.league.store import ARRAYS, Store, described, read
from belated.league.suite import Cell
from belated.simulation import simulate
from support.refusals import refused

CELL = Cell("own", "stochastic:arms=3,gap=0.2", "geometric:mean=5", 60)
PLAN = LeaguePlan((CELL,), competitors(["ucb", "robust"]), 2, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which PLAN was played."""
    folder = tmp_path_factory.mktemp("league")
    play(PLAN, folder, threads=1)
    return folder


OTHERS: dict[str, dict[str, Any]] = {
    "id": {"id": "other"},
    "environment": {"environment": Environment.find("stochastic:arms=3,gap=0.3")},
    "delays": {"delays": Delays.find("geometric:mean=6")},
    "rounds": {"rounds": 61},
    "replications": {"replications": 3},
    "seed": {"seed": 2},
}


def other(changes: dict[str, Any]) -> tuple[LeaguePlan, Cell]:
    """Return PLAN with something changed, of its cell or of itself."""
    of_cell = {name: value for name, value in changes.items() if name in {"id", "environment", "delays", "rounds"}}
    cell = dataclasses.replace(CELL, **of_cell)
    rest = {name: value for name, value in changes.items() if name not in of_cell}
    return dataclasses.replace(PLAN, cells=(cell,), **rest), cell


def test_the_same_problem_is_read_again(folder: Path) -> None:
    store = Store(folder, PLAN)
    result = simulate(
        ["ucb", "robust"], CELL.environment, CELL.delays, rounds=60, replications=2, seed=1, checkpoints=60
    )
    np.testing.assert_array_equal(store.read(CELL).regret[:, :, -1], result.regret[:, :, -1])
    assert [store.has(CELL, tuned) for tuned in competitors(["ucb", "robust", "bold"])] == [True, True, False]


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_another_problem_is_not(folder: Path, changes: dict[str, Any]) -> None:
    """Not even where its file has the name of the other's."""
    plan, cell = other(changes)
    store = Store(folder, plan)
    assert store.cells == {}
    assert not store.has(cell, plan.learners[0])
    renamed = store.path(cell)
    assert not renamed.exists()
    renamed.write_bytes(Store(folder, PLAN).path(CELL).read_bytes())
    try:
        assert Store(folder, plan).cells == {}
    finally:
        renamed.unlink()


def test_results_of_other_code_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belated.league.store.source_digest", lambda *packages: "of other code")
    assert Store(folder, PLAN).cells == {}


def test_results_do_not_depend_on_families(folder: Path) -> None:
    """A cell may move to another family: what is stored of it is used, and the file has the name that it had."""
    moved = dataclasses.replace(CELL, family="elsewhere")
    plan = dataclasses.replace(PLAN, cells=(moved,))
    before, after = Store(folder, PLAN), Store(folder, plan)
    assert after.path(moved) == before.path(CELL)
    np.testing.assert_array_equal(after.read(moved).regret, before.read(CELL).regret)
    assert after.league().cells == (moved,)
    assert described(plan) == described(PLAN)


def test_the_plan_of_an_old_folder_is_read(tmp_path: Path) -> None:
    """It has ids and rounds alone; families are those of the suite."""
    text = (
        '{"cells": [{"id": "stochastic-k10/by-arm", "rounds": 60}], "learners": ["ucb"], "replications": 2, "seed": 1}'
    )
    (tmp_path / "league.json").write_text(text)
    plan = read(tmp_path).plan
    assert [(cell.id, cell.rounds, cell.family) for cell in plan.cells] == [("stochastic-k10/by-arm", 60, "slow-arms")]
    assert described(plan) == json.loads(text)


def test_learners_keep_their_own_results(folder: Path) -> None:
    """In whatever order they are asked for, whoever else is stored."""
    both, turned = Store(folder, PLAN), Store(folder, dataclasses.replace(PLAN, learners=PLAN.learners[::-1]))
    there, back = both.read(CELL), turned.read(CELL)
    assert there.learners == ("ucb", "robust")
    assert back.learners == ("robust", "ucb")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(there, name), getattr(back, name)[::-1])
    assert (there.regret[0] != there.regret[1]).any()


def test_a_cell_that_failed_is_not_shown_with_what_was_stored_before(folder: Path) -> None:
    found: League = Store(folder, PLAN).league({"own": "broken"})
    assert found.cells == ()
    assert found.failures == {"own": "broken"}


def test_a_league_of_own_cells_says_how_to_report_it(folder: Path, tmp_path: Path) -> None:
    text = '{"cells": [{"id": "own", "rounds": 60}], "learners": ["ucb"], "replications": 2, "seed": 1}'
    (tmp_path / "league.json").write_text(text)
    with refused(None, tmp_path):
        read(tmp_path)
