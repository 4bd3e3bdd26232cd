"""Measures of a design: what its simulated trials come to, with 95 % intervals over simulations."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.simulation.intervals import Interval, mean_interval
from belated.trial.analyses import calibrated_value, z_wins
from belated.trial.plan import Plan
from belated.trial.trials import ANALYSES, Trials
from belated.trial.world import World

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


_Z = NormalDist().inv_cdf(0.975)


def share_interval(hits: Bools) -> Interval:
    """Return the share of hits and its 95 % interval by Wilson (1927), which holds for rare hits, too."""
    z, count, of = _Z, float(hits.sum()), hits.size
    middle = (count + z * z / 2.0) / (of + z * z)
    half = z / (of + z * z) * np.sqrt(count * (of - count) / of + z * z / 4.0)
    share = count / of
    # rounding must not leave the share outside, or the ends
    low, high = max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
    return Interval(np.asarray(share), np.asarray(low), np.asarray(high))


class Analysis(NamedTuple):
    """How one analysis does."""

    name: str
    power: Interval
    """The best arm wins, at the assumed rates."""
    wrong: Interval
    """An arm that is not the best wins, at the assumed rates."""
    error: Interval
    """Some arm wins, under the null."""
    treatment_error: Interval
    """An arm other than the control wins, under the null."""
    beats: Interval
    """Some arm is shown to be better than the control, at the assumed rates."""
    beats_error: Interval
    """The same under the null."""
    patients: Interval
    """Enrolled at the assumed rates, if this analysis alone decides when to stop."""

    @property
    def title(self) -> str:
        """What tables call it."""
        return ANALYSES[self.name]


class Allocation(NamedTuple):
    """Who was treated with what, and what came of it, under one hypothesis."""

    shares: tuple[Interval, ...]
    """Of patients, by arm."""
    best_share: Interval
    best_low: float
    """The 10 % quantile over simulations; 90 % follows."""
    best_high: float
    best_patients: Interval
    successes: Interval
    success_rate: Interval
    """Successes of a trial by its patients."""
    patients: Interval
    time: Interval
    stopped: Interval
    """Trials that ended before all patients were enrolled."""
    bias: tuple[Interval, ...]
    """The mean of the estimated success rate of each arm, less the true one."""
    difference_bias: Interval
    """The same of the difference between the best arm and the control."""


@dataclass(frozen=True)
class Measures:
    """One design."""

    name: str
    alternative: Allocation
    """At the assumed rates."""
    null: Allocation
    """All arms at the control's rate."""
    analyses: tuple[Analysis, ...]

    def analysis(self, name: str) -> Analysis:
        """Return one analysis by its name: randomisation, betting, calibrated, naive or peeking."""
        return next(each for each in self.analyses if each.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it."""
        return {
            "design": self.name,
            "alternative": plain(self.alternative),
            "null": plain(self.null),
            "analyses": [plain(each) for each in self.analyses],
        }


def plain(value: Any) -> Any:
    """Return tuples with names as tables, numbers of numpy as numbers, and None for what is not known."""
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, str):
        return value
    number = float(value)
    return number if np.isfinite(number) else None


def measure(plan: Plan, name: str, alternative: Trials, null: Trials) -> Measures:
    """Return the measures of a design from its trials under both hypotheses."""
    return Measures(
        name=name,
        alternative=_allocation(plan, plan.world, alternative),
        null=_allocation(plan, plan.world.null(), null),
        analyses=tuple(_analysis(plan, each, alternative, null) for each in ANALYSES if each in alternative.winners),
    )


def _analysis(plan: Plan, name: str, alternative: Trials, null: Trials) -> Analysis:
    winner, wrongly = alternative.winners[name], null.winners[name]
    is_best = winner == plan.world.best
    return Analysis(
        name=name,
        power=share_interval(is_best),
        wrong=share_interval((winner >= 0) & ~is_best),
        error=share_interval(wrongly >= 0),
        treatment_error=share_interval(wrongly > 0),
        beats=share_interval(alternative.beats[name]),
        beats_error=share_interval(null.beats[name]),
        patients=mean_interval(alternative.sizes[name].astype(np.float64)),
    )


def on_best(plan: Plan, trials: Trials) -> Floats:
    """Return how many patients of each trial were on the best arm."""
    return trials.enrolled[:, plan.world.best].astype(np.float64)


def more_power(plan: Plan, alternatives: tuple[Trials, Trials], nulls: tuple[Trials, Trials]) -> Interval:
    """Return by how much the best arm is found more often than with fixed randomisation, at the same error.

    The analysis is the calibrated z-test, trial by trial. The interval allows for the critical values, too, which come
    from finitely many trials: their error is that of a share alpha, turned into power.
    """
    adaptive, fixed = (trials.winners["calibrated"] == plan.world.best for trials in alternatives)
    mean, low, high = mean_interval(adaptive.astype(np.float64) - fixed)
    errors = [_calibration_error(plan, *pair) for pair in zip(alternatives, nulls, strict=True)]
    half = np.sqrt(((high - low) / 2.0) ** 2 + sum((_Z * error) ** 2 for error in errors))
    return Interval(mean, mean - half, mean + half)


def _calibration_error(plan: Plan, alternative: Trials, null: Trials) -> float:
    """Return the standard error of power that comes from the critical value."""
    off = np.sqrt(plan.alpha * (1.0 - plan.alpha) / null.leader.size)
    powers = []
    for alpha in (max(plan.alpha - off, 0.0), plan.alpha + off):
        critical = calibrated_value(null.leader, null.z, alpha)
        powers.append((z_wins(alternative.leader, alternative.z, critical) == plan.world.best).mean())
    return float(powers[1] - powers[0]) / 2.0


def _allocation(plan: Plan, world: World, trials: Trials) -> Allocation:
    patients = trials.patients.astype(np.float64)
    successes = trials.successes.sum(axis=1).astype(np.float64)
    best = on_best(plan, trials)
    low, high = np.quantile(best / patients, (0.1, 0.9))
    # an arm without patients has no estimate
    estimates = np.where(trials.enrolled > 0, trials.successes / np.maximum(trials.enrolled, 1), np.nan)
    off = estimates - np.array(world.rates)
    return Allocation(
        shares=tuple(mean_interval(share) for share in (trials.enrolled / patients[:, None]).T),
        best_share=mean_interval(best / patients),
        best_low=float(low),
        best_high=float(high),
        best_patients=mean_interval(best),
        successes=mean_interval(successes),
        success_rate=mean_interval(successes / patients),
        patients=mean_interval(patients),
        time=mean_interval(trials.time),
        stopped=share_interval(patients < plan.patients),
        bias=tuple(_known_mean(each) for each in off.T),
        difference_bias=_known_mean(off[:, plan.world.compared] - off[:, 0]),
    )


def _known_mean(values: Floats) -> Interval:
    """Return the mean of the values that are known, and its interval."""
    known = values[~np.isnan(values)]
    missing = np.asarray(np.nan)
    return mean_interval(known) if known.size else Interval(missing, missing, missing)
