"""A problem as bounds see it: arms, gaps, delays; and the price of its delays."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated import learners
from belated.bounds.waiting import Waiting, follow
from belated.environments.environment import check_arms
from belated.errors import InvalidValue

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class BestSkipping(NamedTuple):
    """The value of the minimum and the rounds that a minimising set holds, counted from 1."""

    value: float
    skipped: Integers


def best_skipping(delays: Any, weight: float) -> BestSkipping:
    """Return min over sets S of rounds of |S| + sqrt(weight D_rest), D_rest being the delays of all rounds outside S.

    Exactly, by one sort: of all sets of r rounds, that of the r longest delays is best. With weight = log K it is the
    price of delay in the bounds of Zimmert & Seldin (2020) and of the paper.

    >>> value, skipped = best_skipping([0, 400, 1, 1], weight=1.0)
    >>> round(value, 4), skipped.tolist()
    (2.4142, [2])
    """
    values = np.asarray(delays, dtype=np.float64)
    if values.ndim != 1 or not (values >= 0.0).all():
        raise InvalidValue(f"delays has shape {values.shape}; a list of numbers of at least 0 is needed")
    if not 0.0 <= weight < math.inf:
        raise InvalidValue(f"weight is {weight!r}; a number of at least 0 is needed")
    ascending = np.sort(values)
    value, count = _least(_rest(ascending), weight)
    if not count:
        return BestSkipping(value, np.empty(0, dtype=np.int64))
    shortest = ascending[values.size - count]
    longer = np.flatnonzero(values > shortest)
    ties = np.flatnonzero(values == shortest)[: count - longer.size]  # of equals, the earliest
    return BestSkipping(value, np.sort(np.concatenate([longer, ties])) + 1)


def _rest(ascending: Floats) -> Floats:
    """Return the sum of all but the r longest, for r = 0, 1, ..."""
    sums = np.zeros(ascending.size + 1)
    np.cumsum(ascending, out=sums[1:])
    return sums[::-1]


def _least(rest: Floats, weight: float) -> tuple[float, int]:
    """Return min over r of r + sqrt(weight rest_r), and its r."""
    totals = np.sqrt(rest)
    totals *= math.sqrt(weight)
    totals += np.arange(rest.size, dtype=np.float64)
    best = int(np.argmin(totals))
    return float(totals[best]), best


def scale(arms: int, delays: Any) -> float:
    """Return sqrt(KT) + min over S of (|S| + sqrt(D_rest log K)): the order that no learner can beat against all
    losses.
    """
    values = np.asarray(delays)
    return math.sqrt(arms * values.size) + best_skipping(values, math.log(arms)).value


def outstanding_counts(delays: Integers) -> Integers:
    """Return sigma_t of a learner that never skips: the decisions of rounds s < t with s + d_s >= t. All come by round
    T.
    """
    rounds = delays.size
    come = np.bincount(np.arange(1, rounds + 1) + delays, minlength=rounds + 1)[:rounds]  # by round at whose end
    return np.arange(rounds) - np.cumsum(come)


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem as bounds see it: how many arms, which gaps, which delays."""

    arms: int
    delays: Any = None
    """Of each round; None, nan or inf never comes. What would come after the last round counts as coming then."""
    counts: Any = None
    """Instead of delays: how many decisions were outstanding when each round opened."""
    gaps: Any = None
    """Delta_i of every arm but the best, where losses are stochastic."""
    delay_constant: float = 49.0
    """c, of `robust`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_arms(self.arms))
        learners.tune("robust", delay_constant=self.delay_constant)  # refuses what it must be refused
        if (self.delays is None) == (self.counts is None):
            raise InvalidValue("delays and counts are both given, or neither; one of them is needed")
        if self.delays is not None:
            object.__setattr__(self, "delays", _whole_delays(self.delays))
            object.__setattr__(self, "counts", outstanding_counts(self.delays))
        else:
            object.__setattr__(self, "counts", _whole_counts(self.counts))
        if self.gaps is not None:
            gaps = np.asarray(self.gaps, dtype=np.float64)
            if gaps.shape != (self.arms - 1,) or not ((gaps >= 0.0) & (gaps <= 1.0)).all():
                raise InvalidValue(
                    f"gaps is {np.asarray(self.gaps).tolist()}; a number from 0 to 1 for each of {self.arms - 1} arms,"
                    " all but the best, is needed"
                )
            object.__setattr__(self, "gaps", gaps)

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.counts.size)

    @cached_property
    def total_delay(self) -> int:
        """D: the sum of all delays, which is the sum of all counts."""
        return int(self.counts.sum())

    @property
    def longest_delay(self) -> int:
        """d_max."""
        return int(self.delays.max(initial=0))

    @property
    def most_outstanding(self) -> int:
        """sigma_max."""
        return int(self.counts.max(initial=0))

    @cached_property
    def _rest(self) -> Floats:
        return _rest(np.sort(self.delays).astype(np.float64))

    @cached_property
    def _prices(self) -> dict[float, tuple[float, int]]:
        return {}

    def price(self, weight: float) -> tuple[float, int]:
        """Return min over S of |S| + sqrt(weight D_rest), and how many rounds S holds."""
        if weight not in self._prices:
            self._prices[weight] = _least(self._rest, weight)
        return self._prices[weight]

    @cached_property
    def waiting(self) -> Waiting:
        """How `robust` waits for outcomes here; it depends on the delays alone."""
        return follow(learners.tune("robust", delay_constant=self.delay_constant), self.arms, self.delays)


def _whole_delays(delays: Any) -> Integers:
    """Return whole numbers of rounds, cut off at the last round."""
    given = np.asarray(delays)
    rounds = given.size
    if given.ndim != 1 or not rounds:
        raise InvalidValue(f"delays has shape {given.shape}; a delay for each round is needed")
    if not np.issubdtype(given.dtype, np.integer):
        numbers = np.array([math.inf if delay is None else delay for delay in given.tolist()], dtype=np.float64)
        numbers[np.isnan(numbers)] = math.inf
        if (numbers != np.floor(numbers)).any():
            wrong = int(np.flatnonzero(numbers != np.floor(numbers))[0])
            raise InvalidValue(f"delays[{wrong}] is {numbers[wrong]}; a whole number of rounds is needed")
        given = np.minimum(numbers, rounds)
    if given.min() < 0:
        wrong = int(np.flatnonzero(given < 0)[0])
        raise InvalidValue(f"delays[{wrong}] is {given[wrong]}; at least 0 is needed")
    return np.minimum(given, np.arange(rounds - 1, -1, -1)).astype(np.int64, copy=False)


def _whole_counts(counts: Any) -> Integers:
    given = np.asarray(counts)
    if given.ndim != 1 or not given.size or not np.issubdtype(given.dtype, np.integer):
        raise InvalidValue(f"counts has shape {given.shape} and type {given.dtype}; a whole number a round is needed")
    wrong = np.flatnonzero((given < 0) | (given > np.arange(given.size)))
    if wrong.size:
        t = int(wrong[0])
        raise InvalidValue(f"counts[{t}] is {given[t]}; from 0 to {t}, the decisions made before, are possible")
    return given.astype(np.int64)
