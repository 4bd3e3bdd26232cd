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
CURVE = 200
"""Points of the curve of delays, at most."""
POINTS = 400
"""Of the curve of outstanding decisions, at most."""
MOST_BOUNDED = 2_000_000
"""Decisions that bounds are computed for, the first ones."""
LIKELY = 0.01
"""A p-value below it says that delays depend on something."""


class DelayGroup(NamedTuple):
    """The delays of some decisions."""

    name: str
    decisions: int
    outcomes: int
    quantiles: tuple[float, ...]
    """`QUANTILES`, those that have not come yet allowed for (Kaplan & Meier 1958); inf where a share does not come."""
    within: tuple[float, ...]
    """The same quantiles of those outcomes that come in the time that the log covers; inf where none does."""
    longest: float
    """Of those that came; nan where none did."""
    curve: tuple[tuple[float, ...], tuple[float, ...]]
    """Some delays, and the share of outcomes that come within each: to be drawn."""

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
    """Of the outcomes that came; None where there is nothing to compare."""
    depends_on_outcome: RankTest | None
    missing_by_arm: RankTest | None
    """Whether how many come at all depends on the arm."""
    at: Integers
    """Decisions after which outstanding ones are counted."""
    outstanding: Integers
    """How many of the decisions before had no outcome then."""
    most_outstanding: int
    facts: tuple[bounds.Fact, ...]
    """What the bounds of the paper are made of; of at most `MOST_BOUNDED` decisions."""
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
            "missing_by_arm": None if self.missing_by_arm is None else self.missing_by_arm._asdict(),
            "outstanding": {
                "after": self.at.tolist(),
                "count": self.outstanding.tolist(),
                "most": self.most_outstanding,
            },
            "facts": [fact._asdict() for fact in self.facts],
            "scale": self.scale,
        }


def _plain(group: DelayGroup) -> dict[str, Any]:
    delays, shares = map(list, group.curve)
    return {
        "name": group.name,
        "decisions": group.decisions,
        "outcomes": group.outcomes,
        "missing": _number(group.missing),
        "quantiles": [_number(each) for each in group.quantiles],
        "within": [_number(each) for each in group.within],
        "longest": _number(group.longest),
        "curve": {"delays": delays, "shares": shares},
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def profile(log: Log, settled: Log | None = None) -> DelayProfile | None:
    """Return all about the delays of a log; None where it does not say when outcomes came.

    `settled` is the same log with its deadline, where there is one: what is outstanding, and what bounds say, is told
    of it. The delays themselves are those of the outcomes that came.
    """
    if log.waits is None:
        return None
    if settled is None:
        settled = log
    size = log.arms.size
    came = ~np.isnan(log.rewards)
    waits = np.where(came, log.waits, np.inf)
    ages = np.arange(size - 1.0, -1.0, -1.0)
    in_decisions = _group("all", waits, ages)
    at, outstanding, most_outstanding = _outstanding(settled)
    instance = _instance(settled)
    facts = bounds.facts(instance)
    scale = math.sqrt(instance.arms * instance.rounds) + instance.price(math.log(instance.arms))[0]
    del instance  # it is large
    unit, delays = "decisions", waits
    if log.durations is not None:
        unit = "seconds" if log.in_seconds else "units of time"
        delays = np.where(came, log.durations, np.inf)
        ages = log.ages
    good = log.rewards >= 0.5
    cohort = _cohort(delays, ages)
    return DelayProfile(
        unit=unit,
        overall=_group("all", delays, ages),
        in_decisions=in_decisions,
        by_arm=tuple(
            _group(str(label), delays[mine], ages[mine]) for label, mine in zip(log.labels, _by_arm(log), strict=True)
        ),
        by_outcome=tuple(
            _group(name, delays[mine], ages[mine])
            for name, mine in (("reward of 1/2 or more", came & good), ("reward below 1/2", came & ~good))
        ),
        depends_on_arm=cohort.depends(log.arms),
        depends_on_outcome=cohort.depends(good.astype(np.int64)),
        missing_by_arm=kruskal_wallis((~cohort.came[cohort.members]).astype(np.float64), log.arms[cohort.members]),
        at=at,
        outstanding=outstanding,
        most_outstanding=most_outstanding,
        facts=facts,
        scale=scale,
    )


def _by_arm(log: Log) -> list[Integers]:
    """Return the places of each arm's decisions."""
    n_arms = len(log.labels)
    order = np.argsort(log.arms.astype(np.uint16 if n_arms <= 1 << 16 else np.int64), kind="stable")
    return np.split(order, np.cumsum(np.bincount(log.arms, minlength=n_arms))[:-1])


def _waits(log: Log) -> Integers:
    """Return after how many decisions each outcome came; as many as there are, where it has not come."""
    waits = np.zeros(log.arms.size) if log.waits is None else log.waits
    size = float(log.arms.size)
    return np.where(np.isnan(log.rewards) | ~(waits < size), size, waits).astype(np.int64)


def _instance(log: Log) -> bounds.Instance:
    return bounds.Instance(len(log.labels), _waits(log.head(MOST_BOUNDED)))


def _group(name: str, delays: Floats, ages: Floats) -> DelayGroup:
    came = np.isfinite(delays)
    longest = float(delays[came].max()) if came.any() else math.nan
    times, shares = kaplan_meier(delays, ages)
    quantiles = quantiles_of(times, shares, QUANTILES)
    within = quantiles_of(times, shares / shares[-1] if shares.size else shares, QUANTILES)
    # as many delays as a curve needs, by equal steps of their shares
    kept = np.unique(np.searchsorted(shares, np.linspace(0.0, shares[-1], CURVE))) if shares.size else slice(0)
    curve = tuple(times[kept].tolist()), tuple(shares[kept].tolist())
    return DelayGroup(name, delays.size, int(came.sum()), quantiles, within, longest, curve)


def quantiles_of(times: Floats, shares: Floats, wanted: Sequence[float]) -> tuple[float, ...]:
    """Return the least delays within which so many outcomes come; inf where so many do not."""
    places = np.searchsorted(shares, np.array(wanted) - 1e-12)
    return tuple(float(times[k]) if k < times.size else math.inf for k in places)


def kaplan_meier(delays: Floats, ages: Floats) -> tuple[Floats, Floats]:
    """Return the delays that there are, in order, and the share of outcomes that come within each.

    Some delays are only known to exceed an age: they are inf. 1 - F(d) = product over delays t <= d of (1 - outcomes
    after t / decisions that were waited for until t).
    """
    came = np.isfinite(delays)
    times, events = np.unique(delays[came], return_counts=True)
    later = events[::-1].cumsum()[::-1]  # outcomes after t or later
    waited = np.sort(ages[~came])
    at_risk = later + waited.size - np.searchsorted(waited, times, side="left")
    return times, np.subtract(1.0, np.cumprod(1.0 - events / at_risk))


class _Cohort(NamedTuple):
    """Decisions that were waited for long enough, and which of their outcomes came in that time.

    Whether one came by then is known of all of them, so that nothing is cut off.
    """

    delays: Floats
    members: NDArray[np.bool_]
    came: NDArray[np.bool_]

    def depends(self, groups: Integers) -> RankTest | None:
        """Return whether the delays of those that came depend on a group."""
        return kruskal_wallis(self.delays[self.came], groups[self.came])


def _cohort(delays: Floats, ages: Floats) -> _Cohort:
    """Return the older half of the decisions; all, where the log does not say when they were made."""
    enough = float(np.median(ages)) if ages.size else 0.0
    members = ages >= enough
    return _Cohort(delays, members, members & np.isfinite(delays) & (delays <= enough))


def _outstanding(log: Log) -> tuple[Integers, Integers, int]:
    """Return numbers of decisions from 0 to all, how many of so many had no outcome yet, and the most ever.

    An outcome that came before the next decision is there.
    """
    size = log.arms.size
    comes = np.minimum(np.arange(1, size + 1) + _waits(log), size + 1)
    counts = np.arange(size + 1) - np.cumsum(np.bincount(comes, minlength=size + 2)[: size + 1])
    at = np.unique(np.linspace(0, size, min(size, POINTS) + 1).astype(np.int64))
    return at, counts[at], int(counts.max())
