"""Who does best: ratios to the best learner of each cell, their worst and their geometric mean, and ranks with
intervals.

The ratio of a learner in a cell is

    max(regret, f) / max(regret of the best uninformed learner, f),       f = sqrt(KT) / 10.

Regret can be negative (where the best arm changes) or next to nothing, and then quotients mean nothing. f is the
floor: a tenth of the rate that nobody can beat against all losses. Below it, all are as good. Informed learners are
ranked, too, but nobody is measured by them.

Intervals are bootstrap percentiles over replications: in each of many draws every cell's replications are drawn
again, the same for all learners, since they met the same losses and delays; the learner by which a cell is measured
stays the one that it is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from belated.environments import Floats
from belated.league.plan import League

DRAWS = 1000
FLOOR = 0.1


@dataclass(frozen=True)
class Standing:
    """One learner in the league."""

    learner: str
    informed: bool
    geometric: float
    """The geometric mean of its ratios."""
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


def floors(league: League) -> Floats:
    return np.array([FLOOR * np.sqrt(cell.environment.n_arms * cell.rounds) for cell in league.cells])


def ratios(league: League) -> Floats:
    """Return regret over that of the best uninformed learner, both at least the floor: (learners, cells), nan for no
    play.
    """
    finals = league.finals()
    return _ratios(league, finals, _best(league, finals))


def _best(league: League, finals: Floats) -> NDArray[np.int64]:
    """Return the best uninformed learner of each cell; of all learners where everybody is informed."""
    uninformed = np.array([not tuned.informed for tuned in league.plan.learners])
    means = np.where(np.isnan(finals), np.inf, finals).mean(axis=-1)
    if uninformed.any():
        means[~uninformed] = np.inf
    return np.argmin(means, axis=0)


def _ratios(league: League, finals: Floats, best: NDArray[np.int64]) -> Floats:
    means = np.maximum(finals.mean(axis=-1), floors(league))
    return np.asarray(means / means[best, np.arange(best.size)])


def rank(league: League, seed: int = 0) -> list[Standing]:
    """Return all learners, the best geometric mean first."""
    finals = league.finals()
    best = _best(league, finals)
    table = _ratios(league, finals, best)
    geometric = mean_ratios(table)
    rng = np.random.default_rng(seed)
    count = finals.shape[-1]
    draws = np.empty((DRAWS, finals.shape[0]))
    for b in range(DRAWS):
        picks = rng.integers(0, count, (finals.shape[1], count))
        draws[b] = mean_ratios(_ratios(league, np.take_along_axis(finals, picks[None], axis=-1), best))
    ranks = _ranks(geometric)
    drawn_ranks = np.array([_ranks(row) for row in draws])
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    best_rank, worst_rank = np.quantile(drawn_ranks, [0.025, 0.975], axis=0, method="nearest").astype(int)
    rows = []
    for k, tuned in enumerate(league.plan.learners):
        played = ~np.isnan(table[k])
        worst = int(np.argmax(np.where(played, table[k], -np.inf)))
        rows.append(
            Standing(
                learner=tuned.label,
                informed=bool(tuned.informed),
                geometric=float(geometric[k]),
                low=float(low[k]),
                high=float(high[k]),
                worst=float(table[k, worst]),
                worst_cell=league.cells[worst].id,
                rank=int(ranks[k]),
                best_rank=int(best_rank[k]),
                worst_rank=int(worst_rank[k]),
                cells=int(played.sum()),
            )
        )
    return sorted(rows, key=lambda row: (row.rank, row.learner))


def mean_ratios(table: Floats) -> Floats:
    """Return the geometric mean of each row, over the cells in which the learner plays; nan where there is none."""
    played = ~np.isnan(table)
    logarithms = np.where(played, np.log(table), 0.0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.exp(logarithms / played.sum(axis=1)))


def _ranks(values: Floats) -> NDArray[np.int64]:
    """Return ranks: 1 for the smallest; equal values share the better rank, and who has none, nan, is last."""
    values = np.where(np.isnan(values), np.inf, values)
    return np.array([1 + np.count_nonzero(values < value - 1e-12) for value in values])
