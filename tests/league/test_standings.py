"""The ranking, on leagues whose answer is known in closed form: intervals, pairing, the reference, ties of ranks."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from belated.delays import Constant
from belated.environments import Floats, Stochastic
from belated.league import League, LeaguePlan, competitors, standings
from belated.league.standings import Standing
from belated.league.suite import Cell
from belated.learners import TunedLearner
from belated.simulation import Simulation

LEARNERS = ("ucb", "tsallis", "exp3", "bold")
"""Four learners that are told nothing."""


def league_of(finals: Any, names: Sequence[str] = LEARNERS) -> League:
    """Return a league with these final regrets: (learners, cells, replications), nan where a learner does not play.

    K = 10, T = 100: the floor f is 3.2.
    """
    table = np.array(finals, dtype=np.float64)
    tuned = competitors(names[: len(table)])
    cells = tuple(Cell(f"cell-{k}", Stochastic(10, 0.1), Constant(0), 100) for k in range(table.shape[1]))
    results = {cell.id: _result(cell, tuned, table[:, k]) for k, cell in enumerate(cells)}
    return League(LeaguePlan(cells, tuned, table.shape[2]), results)


def _result(cell: Cell, tuned: Sequence[TunedLearner], regrets: Floats) -> Simulation:
    plays = ~np.isnan(regrets[:, 0])
    none = np.zeros(regrets[plays].shape, dtype=np.int64)
    return Simulation(
        learners=tuple(each.label for each, here in zip(tuned, plays, strict=True) if here),
        informed=tuple(each.informed for each, here in zip(tuned, plays, strict=True) if here),
        environment=cell.environment,
        delays=cell.delays,
        seed=0,
        checkpoints=np.array([cell.rounds]),
        regret=regrets[plays][:, :, None],
        uniform_regret=np.zeros((regrets.shape[1], 1)),
        skipped=none,
        most_outstanding=none,
        drift=np.ones(none.shape),
    )


def ranked(finals: Any, names: Sequence[str] = LEARNERS) -> dict[str, Standing]:
    return {row.learner: row for row in standings.rank(league_of(finals, names))}


def normal_scores(count: int) -> Floats:
    """Return numbers with mean 0 and variance 1 that are as normal as so many numbers can be."""
    scores = np.array([NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)])
    return np.asarray(scores / scores.std())


def test_the_interval_is_that_of_95_percent() -> None:
    """One learner has the regret 50 always; the other 100 + 20 z with normal z, in 400 replications.

    The mean of 400 drawn again is normal with mean 100 and standard deviation 20 / sqrt(400) = 1, so the interval of
    the ratio is 2 -+ 1.96 / 50. The quantiles of 1,000 draws are known to 0.085 standard deviations: a margin of four
    times that, 0.34 / 50.
    """
    rows = ranked([[[50.0] * 400], [100.0 + 20.0 * normal_scores(400)]])
    assert rows["tsallis"].geometric == pytest.approx(2.0, abs=1e-12)
    assert rows["tsallis"].low == pytest.approx(2.0 - 1.96 / 50.0, abs=0.34 / 50.0)
    assert rows["tsallis"].high == pytest.approx(2.0 + 1.96 / 50.0, abs=0.34 / 50.0)
    assert rows["ucb"].low == rows["ucb"].geometric == rows["ucb"].high == 1.0


def test_cells_are_drawn_independently_and_averaged_in_logarithms() -> None:
    """Two cells, with standard errors of 2 % and 1 % of the mean: sqrt(4 + 1) / 2 = 1.118 % of the geometric mean.

    The replications of the cells are turned against each other: drawn together, they would leave (2 - 1) / 2 = 0.5 %.
    """
    z = normal_scores(400)
    rows = ranked(
        [[[50.0] * 400, [50.0] * 400], [100.0 * (1.0 + 0.4 * z), 450.0 * (1.0 - 0.2 * z)]],
    )
    row = rows["tsallis"]
    assert row.geometric == pytest.approx(math.sqrt(2.0 * 9.0), rel=1e-12)
    error = 0.01 * math.sqrt(5.0) / 2.0
    assert math.log(row.low / row.geometric) == pytest.approx(-1.96 * error, abs=0.34 * error)
    assert math.log(row.high / row.geometric) == pytest.approx(1.96 * error, abs=0.34 * error)
    assert row.worst == pytest.approx(9.0)
    assert row.worst_cell == "cell-1"


def test_learners_are_drawn_in_pairs() -> None:
    """Who has three times another's regret in every replication has three times its mean in every draw."""
    regrets = np.random.default_rng(1).lognormal(4.0, 1.0, (2, 10))
    rows = ranked([regrets, 3.0 * regrets])
    assert rows["ucb"].low == rows["ucb"].high == 1.0
    assert rows["tsallis"].low == pytest.approx(3.0, rel=1e-12)
    assert rows["tsallis"].high == pytest.approx(3.0, rel=1e-12)


def test_the_learner_that_others_are_measured_by_stays() -> None:
    """It has the ratio 1 in every draw, those in which another is better included."""
    z = normal_scores(100)
    rows = ranked([[100.0 + 10.0 * z], [100.1 - 10.0 * z]])
    assert rows["ucb"].low == rows["ucb"].geometric == rows["ucb"].high == 1.0
    assert rows["tsallis"].low < 0.97
    assert rows["tsallis"].high > 1.03
    assert (rows["ucb"].best_rank, rows["ucb"].worst_rank) == (1, 2)


@pytest.mark.parametrize(("deviations", "worst"), [(1.5, 2), (2.8, 1)])
def test_the_interval_of_a_rank_is_that_of_95_percent(deviations: float, worst: int) -> None:
    """The better learner is behind in 6.7 % of the draws, more than 2.5 %; or in 0.3 %, fewer."""
    z = normal_scores(400)
    rows = ranked([[[100.0] * 400], [100.0 + deviations + 20.0 * z]])
    assert (rows["ucb"].rank, rows["ucb"].best_rank, rows["ucb"].worst_rank) == (1, 1, worst)
    assert (rows["tsallis"].rank, rows["tsallis"].best_rank, rows["tsallis"].worst_rank) == (2, 3 - worst, 2)


def test_equal_values_share_the_better_rank() -> None:
    rows = ranked([[[20.0] * 3], [[10.0] * 3], [[20.0] * 3], [[30.0] * 3]])
    assert {name: row.rank for name, row in rows.items()} == {"tsallis": 1, "ucb": 2, "exp3": 2, "bold": 4}
    assert all(row.best_rank == row.rank == row.worst_rank for row in rows.values())


def test_values_that_differ_by_a_millionth_do_not_tie() -> None:
    rows = ranked([[[10.0] * 3], [[20.0 + 2e-5] * 3], [[20.0] * 3]])
    assert rows["tsallis"].geometric - rows["exp3"].geometric == pytest.approx(1e-6 * 2.0, rel=1e-3)
    assert {name: row.rank for name, row in rows.items()} == {"ucb": 1, "exp3": 2, "tsallis": 3}


def test_values_that_differ_by_rounding_tie() -> None:
    """The same ratios in another order of cells."""
    ratios = [[10.0] * 3, [30.0, 70.0, 110.0], [110.0, 30.0, 70.0]]
    rows = ranked(np.repeat(np.array(ratios)[:, :, None], 3, axis=2))
    assert rows["tsallis"].geometric != rows["exp3"].geometric
    assert rows["tsallis"].rank == rows["exp3"].rank == 2


def test_who_does_not_play_in_a_cell_is_left_out_of_it() -> None:
    """Its mean and its worst are over the other cells. Where everybody is informed, the best of those who play counts.

    exp3_delayed plays in the first and the last cell, damped in all of them.
    """
    missing = math.nan
    table = np.array([[10.0, missing, 60.0], [20.0, 40.0, 20.0]])
    rows = ranked(np.repeat(table[:, :, None], 3, axis=2), ["exp3_delayed", "damped"])
    delayed, damped = rows["exp3_delayed"], rows["damped"]
    assert (delayed.cells, damped.cells) == (2, 3)
    assert delayed.geometric == pytest.approx(math.sqrt(1.0 * 3.0))
    assert damped.geometric == pytest.approx(2.0 ** (1.0 / 3.0))
    assert delayed.worst == pytest.approx(3.0)
    assert damped.worst == pytest.approx(2.0)
    assert (delayed.worst_cell, damped.worst_cell) == ("cell-2", "cell-0")
    assert delayed.informed
    assert damped.informed


def test_intervals_cover_the_truth_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 leagues of two cells and 25 paired replications; log-normal regrets, of which the means are known.

    Percentile intervals of 25 replications are somewhat narrow: 93 % is what they reach here. 400 leagues have a
    standard error of 1.3 %; the margin is three of them about 93 %.
    """
    monkeypatch.setattr(standings, "DRAWS", 200)
    rng = np.random.default_rng(5)
    expected = np.array([[100.0, 200.0], [150.0, 700.0]])
    truth = math.sqrt(1.5 * 3.5)
    spread, own = 0.3, 0.15
    covered = 0
    for _ in range(400):
        common, alone = rng.normal(0.0, spread, (1, 2, 25)), rng.normal(0.0, own, (2, 2, 25))
        regrets = expected[:, :, None] * np.exp(common + alone - (spread**2 + own**2) / 2.0)
        row = ranked(regrets)["tsallis"]
        covered += row.low <= truth <= row.high
    assert abs(covered / 400 - 0.93) <= 0.039
