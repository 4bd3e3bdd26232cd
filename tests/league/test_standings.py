"""The ranking, on leagues whose answer is known in closed form: intervals, pairing, the reference, ties of ranks, the
weight of families.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from belated.delays import Constant
from belated.environments import Floats, Stochastic
from belated.league import League, LeaguePlan, competitors, standings
from belated.league.standings import FamilyStanding, Standing
from belated.league.suite import OWN, Cell
from belated.learners import TunedLearner
from belated.simulation import Simulation

LEARNERS = ("ucb", "tsallis", "exp3", "bold")
"""Four learners that are told nothing."""


def league_of(finals: Any, names: Sequence[str] = LEARNERS, families: Sequence[str] = ()) -> League:
    """Return a league with these final regrets: (learners, cells, replications), nan where a learner does not play.

    K = 10, T = 100: the floor f is 3.2. Cells are of one family, or of these.
    """
    table = np.array(finals, dtype=np.float64)
    tuned = competitors(names[: len(table)])
    cells = tuple(
        Cell(f"cell-{k}", Stochastic(10, 0.1), Constant(0), 100, family)
        for k, family in enumerate(families or [OWN] * table.shape[1])
    )
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
        known=np.full(none.shape, np.nan),
        known_wrong=np.zeros(none.shape, dtype=np.bool_),
    )


def ranked(finals: Any, names: Sequence[str] = LEARNERS, families: Sequence[str] = ()) -> dict[str, Standing]:
    return {row.learner: row for row in standings.rank(league_of(finals, names, families))}


def always(finals: Any) -> Floats:
    """Return final regrets, (learners, cells), the same in three replications."""
    return np.repeat(np.array(finals, dtype=np.float64)[:, :, None], 3, axis=2)


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


@pytest.mark.slow
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


def test_every_family_has_the_same_weight() -> None:
    """tsallis: ratios 2, 8 in one family, mean 4; 9 in the other. Overall sqrt(4 * 9) = 6, not (2 * 8 * 9)^(1/3)."""
    rows = ranked(always([[10, 10, 10], [20, 80, 90]]), families=["resonant", "resonant", "even"])
    row = rows["tsallis"]
    assert row.geometric == pytest.approx(6.0)
    assert [(each.family, each.cells) for each in row.families] == [("even", 1), ("resonant", 2)]
    assert [each.geometric for each in row.families] == pytest.approx([9.0, 4.0])
    found: list[Standing | FamilyStanding] = [row, *row.families]
    for each in found:
        assert (each.low, each.high) == pytest.approx((each.geometric, each.geometric))
        assert (each.rank, each.best_rank, each.worst_rank) == (2, 2, 2)
    assert row.worst == pytest.approx(9.0)
    assert (row.worst_cell, row.cells) == ("cell-2", 3)


def test_copies_of_a_cell_change_nothing() -> None:
    """Nine more cells like the first, of its family: ucb, good there and bad elsewhere, gains nothing."""
    table = np.array([[10.0, 80.0], [40.0, 10.0], [20.0, 30.0]])
    few = ranked(always(table), families=["even", "resonant"])
    many = ranked(always(table[:, [0] * 10 + [1]]), families=["even"] * 10 + ["resonant"])
    assert {name: row.rank for name, row in few.items()} == {"tsallis": 1, "exp3": 2, "ucb": 3}
    for name, row in many.items():
        assert row.rank == few[name].rank
        assert row.geometric == pytest.approx(few[name].geometric)
        assert row.low == pytest.approx(few[name].low)
        assert [each.geometric for each in row.families] == pytest.approx(
            [each.geometric for each in few[name].families]
        )
        assert [each.rank for each in row.families] == [each.rank for each in few[name].families]
    together = ranked(always(table[:, [0] * 10 + [1]]))  # one family: the copies count
    assert together["ucb"].rank == 1


def test_who_plays_in_some_families_is_measured_by_these() -> None:
    """exp3 plays in one of two families, and in one of its two cells; bold nowhere."""
    missing = math.nan
    table = [[10, 10, 10], [40, 40, 90], [missing, 160, missing], [missing, missing, missing]]
    rows = ranked(always(table), families=["even", "even", "spread"])
    assert rows["tsallis"].geometric == pytest.approx(6.0)
    assert rows["exp3"].geometric == pytest.approx(16.0)
    assert [(each.family, each.cells) for each in rows["exp3"].families] == [("even", 1)]
    assert rows["exp3"].within("spread") is None
    (here,) = rows["exp3"].families
    assert (here, here.rank) == (rows["exp3"].within("even"), 3)
    assert [each.rank for each in rows["tsallis"].families] == [2, 2]
    assert rows["bold"].families == ()
    assert (rows["bold"].rank, rows["bold"].cells) == (4, 0)


def test_ranks_within_a_family_are_those_of_its_cells_alone() -> None:
    """The family's means, ranks and intervals are those of a league of its cells; ties share the better rank."""
    rng = np.random.default_rng(3)
    finals = 50.0 * rng.lognormal(0.0, 0.8, (4, 5, 20))
    finals[3] = finals[2]
    families = ["even", "spread", "even", "spread", "even"]
    rows = ranked(finals, families=families)
    inside = ranked(finals[:, ::2])  # its cells are drawn with other random numbers
    for name, row in rows.items():
        here, alone = row.within("even"), inside[name]
        assert here is not None
        assert here.geometric == pytest.approx(alone.geometric)
        assert (here.rank, here.cells) == (alone.rank, 3)
        assert (here.low, here.high) == pytest.approx((alone.low, alone.high), rel=0.08)
    assert rows["exp3"].families == rows["bold"].families


def test_the_interval_of_a_rank_in_a_family_is_that_of_95_percent() -> None:
    """The better learner is behind in 6.7 % of the draws of one family, and in 0.3 % of those of the other."""
    z = normal_scores(400)
    table = [[[100.0] * 400] * 2, [100.0 + 1.5 + 20.0 * z, 100.0 + 2.8 + 20.0 * z]]
    rows = ranked(table, families=["even", "spread"])
    found = {
        name: [(each.rank, each.best_rank, each.worst_rank) for each in row.families] for name, row in rows.items()
    }
    assert found == {"ucb": [(1, 1, 2), (1, 1, 1)], "tsallis": [(2, 1, 2), (2, 2, 2)]}


def test_intervals_follow_the_weight_of_families() -> None:
    """Errors of 2 % in the one cell of a family, 1 % in each of the four of another.

    The mean of the four has an error of 1 / sqrt(4) = 0.5 %; the overall mean sqrt(2^2 + 0.5^2) / 2 = 1.031 %. If all
    cells had the same weight it would be sqrt(2^2 + 4) / 5 = 0.566 %. The margin is as in the tests above.
    """
    z = normal_scores(400)
    table = [[[50.0] * 400] * 5, [100.0 * (1.0 + 0.4 * z), *[100.0 * (1.0 + 0.2 * z)] * 4]]
    row = ranked(table, families=["even", *["spread"] * 4])["tsallis"]
    for found, error in ((row, 0.01031), (row.families[0], 0.02), (row.families[1], 0.005)):
        assert math.log(found.low / found.geometric) == pytest.approx(-1.96 * error, abs=0.34 * error)
        assert math.log(found.high / found.geometric) == pytest.approx(1.96 * error, abs=0.34 * error)


def test_standings_are_json_without_holes() -> None:
    table = always([[10, 10], [20, math.nan]])
    rows = standings.rank(league_of(table, families=["even", "mine"]))
    assert "NaN" not in json.dumps([asdict(row) for row in rows])
    assert [each.family for each in rows[0].families] == ["even", "mine"]
