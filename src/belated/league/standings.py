"""Who does best: ratios to the best learner of each cell, their means within each family of cells and over all
families, their worst, and ranks with intervals.

The ratio of a learner in a cell is

    max(regret, f) / max(regret of the best uninformed learner, f),       f = sqrt(KT) / 10.

Regret can be negative (where the best arm changes) or next to nothing, and then quotients mean nothing. f is the
floor: a tenth of the rate that nobody can beat against all losses. Below it, all are as good. Informed learners are
ranked, too, but nobody is measured by them.

The mean of a learner in a family is the geometric mean of its ratios in the cells of the family; its overall mean is
the geometric mean of these means, over the families in which it plays. So every family has the same weight, however
many cells it has.

How soon the best arm is known is averaged in the same way, but arithmetically: in each cell whose losses do not change,
the median round over replications, as a share of all rounds. Not by the end counts as 1.

Intervals are bootstrap percentiles over replications: in each of many draws every cell's replications are drawn
again, the same for all learners, since they met the same losses and delays; the learner by which a cell is measured
stays the one that it is.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.environments import Floats
from belated.league.plan import League
from belated.league.suite import Cell, by_family

DRAWS = 1000
FLOOR = 0.1


@dataclass(frozen=True)
class FamilyStanding:
    """One learner in one family of cells."""

    family: str
    geometric: float
    """The geometric mean of its ratios in the cells of the family."""
    low: float
    high: float
    """The 95 % bootstrap interval of that mean."""
    rank: int
    best_rank: int
    worst_rank: int
    """The 95 % bootstrap interval of its rank in the family."""
    cells: int
    """In how many cells of the family it plays."""
    known: float | None
    """The share of the rounds after which the best arm is known, the mean over the cells of the family whose losses do
    not change; None where there is none.
    """


@dataclass(frozen=True)
class Standing:
    """One learner in the league."""

    learner: str
    informed: bool
    geometric: float
    """The geometric mean of its means in the families."""
    low: float
    high: float
    """The 95 % bootstrap interval of that mean."""
    worst: float
    worst_cell: str
    rank: int
    best_rank: int
    worst_rank: int
    """The 95 % bootstrap interval of its rank."""
    cells: int
    """In how many cells it plays."""
    known: float | None
    """The same over the families: the mean of its means."""
    families: tuple[FamilyStanding, ...]
    """Its standing in each family in which it plays."""

    def within(self, family: str) -> FamilyStanding | None:
        """Return its standing in a family; None where it does not play there."""
        return next((each for each in self.families if each.family == family), None)


class MeanRatios(NamedTuple):
    """Geometric means of ratios; nan where a learner does not play."""

    overall: Floats
    """(learners,)"""
    families: Floats
    """(learners, families), families in the order of `by_family`"""


def floor(cell: Cell) -> float:
    """Return the regret below which all are as good in a cell: a tenth of sqrt(KT)."""
    return float(FLOOR * np.sqrt(cell.environment.n_arms * cell.rounds))


def _floors(league: League) -> Floats:
    return np.array([floor(cell) for cell in league.cells])


def ratios(league: League) -> Floats:
    """Return regret over that of the best uninformed learner, both at least the floor: (learners, cells), nan for no
    play.
    """
    finals = league.finals()
    return _ratios(finals, _floors(league), _best(league, finals))


def mean_ratios(league: League) -> MeanRatios:
    """Return the mean ratios of every learner, in each family and over all."""
    return _means(ratios(league), _members(league))


def _best(league: League, finals: Floats) -> NDArray[np.int64]:
    """Return the best uninformed learner of each cell; of all learners where everybody is informed."""
    uninformed = np.array([not tuned.informed for tuned in league.plan.learners])
    means = np.where(np.isnan(finals), np.inf, finals).mean(axis=-1)
    if uninformed.any():
        means[~uninformed] = np.inf
    return np.argmin(means, axis=0)


def _ratios(finals: Floats, least: Floats, best: NDArray[np.int64]) -> Floats:
    means = np.maximum(finals.mean(axis=-1), least)
    return np.asarray(means / means[best, np.arange(best.size)])


def _members(league: League) -> Floats:
    """Return which cell belongs to which family, (cells, families): 1 or 0."""
    names = list(by_family(league.cells))
    members = np.zeros((len(league.cells), len(names)))
    for k, cell in enumerate(league.cells):
        members[k, names.index(cell.family)] = 1.0
    return members


def _means(table: Floats, members: Floats) -> MeanRatios:
    """Return the means of a table of ratios, (learners, cells)."""
    overall, families = _averages(np.log(table), members)
    return MeanRatios(np.exp(overall), np.exp(families))


def _averages(table: Floats, members: Floats) -> tuple[Floats, Floats]:
    """Return the means of a table, (learners, cells), over families and in each of them; nan has no weight."""
    there = ~np.isnan(table)
    with np.errstate(invalid="ignore"):  # 0 / 0, the mean of nothing, is nan
        families = (np.where(there, table, 0.0) @ members) / (there @ members)
        there = ~np.isnan(families)
        overall = np.where(there, families, 0.0).sum(axis=1) / there.sum(axis=1)
    return overall, families


def known_shares(league: League) -> Floats:
    """Return the share of the rounds after which the best arm is known, at most 1: (learners, cells), nan for no play
    and for losses that change.
    """
    table = np.full((len(league.plan.learners), len(league.cells)), np.nan)
    for k, cell in enumerate(league.cells):
        result = league.results[cell.id]
        for label in result.learners:
            table[league.plan.labels.index(label), k] = min(result.known_after(label) / cell.rounds, 1.0)
    return table


def _ranks(values: Floats) -> NDArray[np.int64]:
    """Return ranks along the first axis: 1 for the smallest; equal values share the better rank, and who has none,
    nan, is last. Values that differ by rounding are equal.
    """
    values = np.where(np.isnan(values), np.inf, values)
    return 1 + np.array([np.count_nonzero(values < value * (1.0 - 1e-12), axis=0) for value in values])


class _Spread(NamedTuple):
    """What the bootstrap says of values with the learner first: the values, their ranks, and the intervals of both."""

    value: Floats
    low: Floats
    high: Floats
    rank: NDArray[np.int64]
    best_rank: NDArray[np.int64]
    worst_rank: NDArray[np.int64]


def _spread(value: Floats, draws: Floats) -> _Spread:
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    ranks = np.array([_ranks(each) for each in draws])
    best, worst = np.quantile(ranks, [0.025, 0.975], axis=0, method="nearest").astype(int)
    return _Spread(value, low, high, _ranks(value), best, worst)


def rank(league: League, seed: int = 0) -> list[Standing]:
    """Return all learners, the best mean over the families first."""
    finals, least, members = league.finals(), _floors(league), _members(league)
    best = _best(league, finals)
    table = _ratios(finals, least, best)
    means = _means(table, members)
    rng = np.random.default_rng(seed)
    count = finals.shape[-1]
    overall, families = np.empty((DRAWS, *means.overall.shape)), np.empty((DRAWS, *means.families.shape))
    for b in range(DRAWS):
        picks = rng.integers(0, count, (finals.shape[1], count))
        drawn = np.take_along_axis(finals, picks[None], axis=-1)
        overall[b], families[b] = _means(_ratios(drawn, least, best), members)
    spread, within = _spread(means.overall, overall), _spread(means.families, families)
    played = ~np.isnan(table)
    counts = (played @ members).astype(int)
    names = list(by_family(league.cells))
    known, known_within = _averages(known_shares(league), members)
    rows = []
    for k, tuned in enumerate(league.plan.learners):
        worst = int(np.argmax(np.where(played[k], table[k], -np.inf)))
        rows.append(
            Standing(
                learner=tuned.label,
                informed=bool(tuned.informed),
                geometric=float(spread.value[k]),
                low=float(spread.low[k]),
                high=float(spread.high[k]),
                worst=float(table[k, worst]),
                worst_cell=league.cells[worst].id,
                rank=int(spread.rank[k]),
                best_rank=int(spread.best_rank[k]),
                worst_rank=int(spread.worst_rank[k]),
                cells=int(played[k].sum()),
                known=_or_none(known[k]),
                families=tuple(
                    FamilyStanding(
                        family=name,
                        geometric=float(within.value[k, f]),
                        low=float(within.low[k, f]),
                        high=float(within.high[k, f]),
                        rank=int(within.rank[k, f]),
                        best_rank=int(within.best_rank[k, f]),
                        worst_rank=int(within.worst_rank[k, f]),
                        cells=int(counts[k, f]),
                        known=_or_none(known_within[k, f]),
                    )
                    for f, name in enumerate(names)
                    if counts[k, f]
                ),
            )
        )
    return sorted(rows, key=lambda row: (row.rank, row.learner))


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
