"""The lemmas of the paper's proof, each measured on a run: how much, against how much is allowed.

Lemmas about waiting need what `Waiting` holds, drift control the drift of each round besides. Each function below
is one lemma and gives (measured, bound) and, where it speaks of every round, their ratio round by round. It holds
where measured <= bound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.audit.rearrangement import rearrange
from belated.bounds.instance import best_skipping
from belated.bounds.waiting import Waiting
from belated.core.kernels import INTEGERS, VECTOR, Integers, Vector, entry, kernel

Floats = NDArray[np.float64]

PROVED = 49.0
"""The delay_constant of the paper."""
DRIFT = 4.0
"""What the drift control lemma allows."""


@dataclass(frozen=True)
class Run:
    """One run, as lemmas see it."""

    arms: int
    waiting: Waiting
    drift: Floats
    """Of each round."""
    delays: NDArray[np.int64]
    """Of each decision, cut off at the last round."""
    delay_constant: float | None
    """c; None for learners without one."""

    @property
    def unit(self) -> float:
        """c K^(2/3) log K, over which D_t gives the square of the patience."""
        return (self.delay_constant or math.nan) * self.arms ** (2 / 3) * math.log(self.arms)

    @property
    def skips(self) -> bool:
        """Whether the learner ever gives up on anything."""
        return bool(np.isfinite(self.waiting.patience).all())

    @property
    def notes_every_skip(self) -> bool:
        """Whether a trace shows all of its skips: not of a learner that begins to skip late, and then many at once."""
        return self.skips or not self.waiting.skipped.any()


class Measured(NamedTuple):
    """What one run says about a lemma."""

    measured: float
    bound: float
    shares: Floats | None = None
    """measured / bound, by round."""


class Lemma(NamedTuple):
    """One statement of the paper."""

    name: str
    says: str
    """What is measured."""
    where: str
    """Where it stands in the paper."""
    measure: Callable[["Run"], Measured]
    measured_for_all: bool = True
    """Whether it speaks of every learner, or only where the constant c of `robust` is known."""
    judged_for_all: bool = True
    """Whether it is claimed of every learner that it is measured for, or of `robust` alone."""

    def applies(self, run: Run) -> bool:
        """Return whether it can be measured."""
        return run.notes_every_skip and (self.measured_for_all or run.delay_constant is not None)

    def judges(self, run: Run) -> bool:
        """Return whether it is claimed of this learner."""
        return self.judged_for_all or run.delay_constant is not None


def counts(run: Run) -> Measured:
    ended = run.waiting.ended
    over = np.bincount(ended[ended > 0], minlength=run.waiting.rounds + 1)
    awaited = np.arange(run.waiting.rounds) - np.cumsum(over)[: run.waiting.rounds]
    return Measured(_largest(np.abs(awaited - run.waiting.outstanding)), 0.0)


def growth(run: Run) -> Measured:
    patience = run.waiting.patience
    return Measured(max(0.0, _largest(-np.diff(patience[np.isfinite(patience)]))), 0.0)


@kernel
def _overdue(ended: Integers, skipped: Integers, patience: Vector, due: Integers) -> None:
    """Return how many decisions have waited for patience_t rounds when round t closes, those that are skipped then
    included.

    Decisions before `first` have ended for good.
    """
    first = 0
    for t in range(ended.size):
        while first < t and 0 < ended[first] <= t:  # before round t + 1, of which t is the index
            first += 1
        last = t - max(1, math.ceil(min(patience[t], t + 1.0)))
        count = 0
        for s in range(first, last + 1):
            count += ended[s] == 0 or ended[s] > t + 1 or (ended[s] == t + 1 and skipped[s] != 0)
        due[t] = count


@cache
def _compiled_overdue() -> Any:
    return entry(_overdue, types.void(INTEGERS, INTEGERS, VECTOR, INTEGERS))


def one_skip(run: Run) -> Measured:
    waiting = run.waiting
    due = np.zeros(waiting.rounds, dtype=np.int64)
    _compiled_overdue()(waiting.ended, waiting.skipped.astype(np.int64), waiting.patience, due)
    at_once = np.bincount(waiting.ended[waiting.skipped], minlength=1)
    return Measured(max(_largest(due), _largest(at_once)), 1.0)


def count_within_patience(run: Run) -> Measured:
    shares = run.waiting.outstanding / (run.waiting.patience + 1.0)
    return Measured(_largest(shares), 1.0, shares)


def oldest_valid(waiting: Waiting) -> NDArray[np.int64]:
    """Return the oldest s with t - s <= patience_t, for every t; the longest wait stands for a patience that has no
    end.
    """
    limit = np.where(np.isfinite(waiting.patience), waiting.patience, float(waiting.waited.max(initial=0)))
    own = np.arange(1, waiting.rounds + 1)
    return np.maximum(own - np.minimum(np.floor(limit), own).astype(np.int64), 1)


def doubling(run: Run) -> Measured:
    now = run.waiting.cumulative
    then = now[oldest_valid(run.waiting) - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(now > 0, now / then, 1.0)
    return Measured(_largest(ratios), 2.0, ratios / 2.0)


def drift_control(run: Run) -> Measured:
    return Measured(_largest(run.drift), DRIFT, run.drift / DRIFT)


def arrivals(run: Run) -> Measured:
    waiting = run.waiting
    come = np.bincount(waiting.ended, minlength=waiting.rounds + 1)[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.sqrt(math.log(run.arms) / ((run.delay_constant or math.nan) * waiting.cumulative))
        shares = np.where(come > 1, (come - 1) * rate, 0.0)
    return Measured(_largest(shares), 1.0, shares)


def total_wait(run: Run) -> Measured:
    shares = np.cumsum(run.waiting.waited) / (2.0 * run.waiting.cumulative + 1.0)
    return Measured(_largest(shares), 1.0, shares)


def summation_constant(arms: int) -> float:
    """Return what the O( ) of the summation bound hides, read off its proof: 8/(K^(2/3) log^2 K) + 4/log 49 + 12/log 9.

    The two parts A give 2 and 6 times 1/(K^(2/3) log^2 K), the two parts B the rest. (In the first B the paper has
    1/(4 log^2 z) where log^2 sqrt(z) = log^2(z)/4 gives 4/log^2 z.)
    """
    return 8.0 / (arms ** (2 / 3) * math.log(arms) ** 2) + 4.0 / math.log(49.0) + 12.0 / math.log(9.0)


def exploration_sums(waiting: Waiting) -> tuple[Floats, Floats]:
    """Return lambda_{t,t+dhat_t} and lambda_{t,t+dhat_t+sigma_max^t}, cut off at the last round."""
    later = np.minimum(waiting.last + waiting.most_outstanding, waiting.rounds)
    return waiting.explored, waiting.exploration(later)


def summation(run: Run) -> Measured:
    first, second = exploration_sums(run.waiting)
    allowed = summation_constant(run.arms)
    shares = np.cumsum(first + second) / np.maximum(run.waiting.most_outstanding, 1)
    return Measured(float(shares[-1]) if shares.size else 0.0, allowed, shares / allowed)


def rearrangement(run: Run) -> Measured:
    ended = run.waiting.ended[run.waiting.ended > 0]
    moves = rearrange(ended) - ended
    beyond = moves - run.waiting.most_outstanding[ended - 1]
    return Measured(max(0.0, _largest(beyond)), 0.0)


def skips(run: Run) -> Measured:
    skipped = np.flatnonzero(run.waiting.skipped)
    order = skipped[np.argsort(run.waiting.ended[skipped], kind="stable")]
    numbers = np.arange(1, order.size + 1)
    ratios = numbers / (2.0 * run.unit * run.waiting.waited[order])
    shares = np.zeros(run.waiting.rounds)
    shares[run.waiting.ended[order] - 1] = ratios
    return Measured(_largest(ratios), 1.0, shares)


def kept_delay(run: Run) -> Measured:
    weight = run.arms ** (2 / 3) * math.log(run.arms)
    total = float(run.waiting.outstanding.sum())
    least = best_skipping(run.delays, weight).value
    return Measured(math.sqrt(total * weight), max(least, 7.0 / 6.0 * weight))


def _largest(values: NDArray[Any]) -> float:
    return float(values.max(initial=0)) if values.size else 0.0


LEMMAS = (
    Lemma("count", "|σ_t - decisions waited for when round t opens|", "Algorithm 1", counts),
    Lemma("growth", "how far the patience falls", "Algorithm 1", growth),
    Lemma("one skip", "decisions out of patience in one round", "Lemma, elimination", one_skip),
    Lemma("few outstanding", "σ_t / (patience_t + 1)", "Lemma, growth of D_t", count_within_patience, False),
    Lemma("doubling", "D_t / D_s, t - s <= patience_t", "Lemma, growth of D_t", doubling, False),
    Lemma(
        "drift control",
        "x_t / max(x_s, λ_{s,t}), t - s <= patience_t",
        "Drift Control Lemma",
        drift_control,
        judged_for_all=False,
    ),
    Lemma("arrivals", "(arrivals in a round - 1) / entropy rate", "Appendix, drifted regret", arrivals, False),
    Lemma("total wait", "Σ_{s<=t} d̂_s / (2 D_t + 1)", "Lemma, sum of waits", total_wait, False),
    Lemma("summation", "Σ (λ_{t,t+d̂} + λ_{t,t+d̂+σ}) / σ_max", "Lemma, summation bound", summation, False),
    Lemma(
        "rearrangement", "how far Algorithm 2 moves an arrival beyond σ_max^t", "Lemma, rearrangement", rearrangement
    ),
    Lemma("skips", "m / (2 c K^⅔ log K d̂ of the m-th skip)", "Appendix, bound on S*", skips, False),
    Lemma(
        "kept delay",
        "√(D_T K^⅔ log K), against min over S of |S| + √(D_rest K^⅔ log K), or 7/6 K^⅔ log K",
        "Lemma, total delay",
        kept_delay,
        False,
    ),
)
"""In the order in which the proof needs them. None may exceed its bound."""
