"""The delays in a log: how long outcomes took, how many are missing, and whether that depends on arm or outcome."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated import bounds
from belated.logs import Log
from belated.replay.ranks import RankTest, kruskal_wallis

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

QUANTILES = (0.5, 0.9, 0.99)
POINTS = 400
"""Of the curve of outstanding decisions, at most."""
LIKELY = 0.01
"""A p-value below it says that delays depend on something."""


class DelayGroup(NamedTuple):
    """The delays of some decisions."""

    name: str
    decisions: int
    outcomes: int
    quantiles: tuple[float, ...]
    """`QUANTILES`, those that have not come yet allowed for (Kaplan & Meier 1958); inf where a share does not come."""
    longest: float
    """Of those that came; nan where none did."""

    @property
    def missing(self) -> float:
        """The share of decisions without an outcome."""
        return 1.0 - self.outcomes / self.decisions if self.decisions else math.nan


class DelayProfile(NamedTuple):
    """All about the delays of a log."""

    unit: str
    """In which delays are told: `decisions`, `seconds`, or `units of time`."""
    overall: DelayGroup
    in_decisions: DelayGroup
    by_arm: tuple[DelayGroup, ...]
    by_outcome: tuple[DelayGroup, ...]
    """Rewards of at least 1/2, and those below, among the outcomes that came."""
    depends_on_arm: RankTest | None
    depends_on_outcome: RankTest | None
    """None where there is nothing to compare."""
    at: Integers
    """Decisions after which outstanding ones are counted."""
    outstanding: Integers
    """How many of the decisions before had no outcome then."""
    most_outstanding: int
    facts: tuple[bounds.Fact, ...]
    """What the bounds of the paper are made of."""
    scale: float
    """sqrt(KT) + min over S of (|S| + sqrt(D_rest log K)), the regret that no learner can get below against all losses,
    up to a constant.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it; what is infinite, or not known, is None."""
        return {
            "unit": self.unit,
            "quantiles": list(QUANTILES),
            "overall": _plain(self.overall),
            "in_decisions": _plain(self.in_decisions),
            "by_arm": [_plain(each) for each in self.by_arm],
            "by_outcome": [_plain(each) for each in self.by_outcome],
            "depends_on_arm": None if self.depends_on_arm is None else self.depends_on_arm._asdict(),
            "depends_on_outcome": None if self.depends_on_outcome is None else self.depends_on_outcome._asdict(),
            "outstanding": {
                "after": self.at.tolist(),
                "count": self.outstanding.tolist(),
                "most": self.most_outstanding,
            },
            "facts": [fact._asdict() for fact in self.facts],
            "scale": self.scale,
        }


def _plain(group: DelayGroup) -> dict[str, Any]:
    return {
        **group._asdict(),
        "quantiles": [_number(each) for each in group.quantiles],
        "longest": _number(group.longest),
        "missing": _number(group.missing),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def profile(log: Log) -> DelayProfile | None:
    """Return all about the delays of a log; None where it does not say when outcomes came."""
    if log.waits is None:
        return None
    size = log.arms.size
    came = ~np.isnan(log.rewards)
    waits = np.where(came, log.waits, np.inf)
    ages = np.arange(size - 1.0, -1.0, -1.0)
    in_decisions = _group("all", waits, ages)
    unit, delays = "decisions", waits
    if log.durations is not None:
        unit = "seconds" if log.in_seconds else "units of time"
        delays = np.where(came, log.durations, np.inf)
        # a log without the times of decisions is complete: what has not come by its end does not come
        ages = np.full(size, np.inf) if log.times is None else log.end - log.times
    good = log.rewards >= 0.5
    at_arm = [log.arms == k for k in range(len(log.labels))]
    outcomes = [("reward of 1/2 or more", came & good), ("reward below 1/2", came & ~good)]
    counts = _outstanding(waits)
    shown = np.unique(np.linspace(0, size, min(size, POINTS) + 1).astype(np.int64))
    instance = bounds.Instance(len(log.labels), np.where(np.isfinite(waits), waits, float(size)).astype(np.int64))
    return DelayProfile(
        unit=unit,
        overall=_group("all", delays, ages),
        in_decisions=in_decisions,
        by_arm=tuple(
            _group(str(label), delays[mine], ages[mine]) for label, mine in zip(log.labels, at_arm, strict=True)
        ),
        by_outcome=tuple(_group(name, delays[mine], ages[mine]) for name, mine in outcomes),
        depends_on_arm=_by_arm(delays, ages, log.arms),
        depends_on_outcome=_by_outcome(delays, ages, good),
        at=shown,
        outstanding=counts[shown],
        most_outstanding=int(counts.max()),
        facts=bounds.facts(instance),
        scale=math.sqrt(instance.arms * instance.rounds) + instance.price(math.log(instance.arms))[0],
    )


def _group(name: str, delays: Floats, ages: Floats) -> DelayGroup:
    came = np.isfinite(delays)
    longest = float(delays[came].max()) if came.any() else math.nan
    return DelayGroup(name, delays.size, int(came.sum()), kaplan_meier(delays, ages, QUANTILES), longest)


def kaplan_meier(delays: Floats, ages: Floats, quantiles: Sequence[float]) -> tuple[float, ...]:
    """Return quantiles of delays of which some are only known to exceed an age: inf where a delay is not known.

    1 - F(d) = product over delays t <= d of (1 - outcomes after t / decisions that were waited for until t).
    """
    came = np.isfinite(delays)
    if not came.any():
        return (math.inf,) * len(quantiles)
    times, events = np.unique(delays[came], return_counts=True)
    later = events[::-1].cumsum()[::-1]  # outcomes after t or later
    waited = np.sort(ages[~came])
    at_risk = later + waited.size - np.searchsorted(waited, times, side="left")
    came_by = 1.0 - np.cumprod(1.0 - events / at_risk)
    places = np.searchsorted(came_by, np.array(quantiles) - 1e-12)
    return tuple(float(times[k]) if k < times.size else math.inf for k in places)


def _cohort(delays: Floats, ages: Floats) -> tuple[NDArray[np.bool_], float]:
    """Return decisions that were waited for long enough, and how long: half of the log, if it says when they were made.

    Whether one of their outcomes came by then is known of all of them: nothing is cut off.
    """
    if np.isinf(ages).all():
        return np.ones(delays.size, dtype=np.bool_), math.inf
    enough = float(np.median(ages))
    return ages >= enough, enough


def _by_arm(delays: Floats, ages: Floats, arms: Integers) -> RankTest | None:
    cohort, enough = _cohort(delays, ages)
    within = np.where(delays[cohort] <= enough, delays[cohort], np.inf)
    return kruskal_wallis(within, arms[cohort])


def _by_outcome(delays: Floats, ages: Floats, good: NDArray[np.bool_]) -> RankTest | None:
    cohort, enough = _cohort(delays, ages)
    cohort &= (delays <= enough) & np.isfinite(delays)
    return kruskal_wallis(delays[cohort], good[cohort].astype(np.int64))


def _outstanding(waits: Floats) -> Integers:
    """Return how many decisions had no outcome after 0, 1, 2, … decisions: those that came before the next one have."""
    size = waits.size
    comes = np.arange(1, size + 1) + np.where(np.isfinite(waits), waits, float(size)).astype(np.int64)
    arrived = np.bincount(np.minimum(comes, size + 1), minlength=size + 2)[: size + 1]
    return np.arange(size + 1) - np.cumsum(arrived)
