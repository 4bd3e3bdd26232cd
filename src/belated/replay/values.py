"""What learners would have been worth on a log: the rejection method, and off-policy estimates along its way.

A learner's value is the mean reward of a decision, expected over its run: over what it draws and what it meets. The log
is offered to it P times with other draws, and the value is the mean over these passes. How far it may be off comes from
B passes over logs whose rows are drawn from this one with replacement (the bootstrap): they vary in draws and in rows.
Where passes over the log itself have variance s^2 and those over resampled logs S^2, the mean of P passes has variance
S^2 - (1 - 1/P) s^2, with the degrees of freedom of Satterthwaite (1946) and those of `FREEDOM`, or
`FREEDOM_OF_GAIN`.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated import learners as catalogue
from belated.core.rounds import FOREVER
from belated.errors import InvalidValue, check_alpha, check_count
from belated.inference import Estimate
from belated.learners import TunedLearner
from belated.logs import Log
from belated.replay.off_policy import ESTIMATORS, Range, clipped, effective_size, hardly, sums, wide_interval
from belated.simulation.intervals import student_quantile
from belated.simulation.parallel import available_cores
from belated.simulation.rejection import LoggedRows, Rejection, compiled_offer
from belated.simulation.replication import compile_for

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

METHODS = ("rejection", *ESTIMATORS)
FEWEST_ROUNDS = 100
"""That a log must be worth for a learner to be replayed on it."""
MOST_ROWS = 1_000_000
"""Of a log that learners are replayed on: its first ones."""
VISITS = 15_000_000
"""Rows offered to one learner in all its passes, about."""

FREEDOM = 30
"""Degrees of freedom with which a log tells the variance of a learner's value, however often it is resampled: how a
learner that draws varies depends on how far arms are apart, and that is known roughly. In simulations of `thompson` and
`guarded` on logs of 400 to 1,500 rows they were mostly 20 to 60.
"""
FREEDOM_OF_GAIN = 12
"""The same for the gain. In these simulations they were 7 to 15, but for once."""


class LearnerValue(NamedTuple):
    """What a learner would have done on a log, and what a decision of it would have been worth."""

    learner: str
    rounds: float
    """Rows that became its rounds, the mean over passes."""
    estimates: dict[str, Estimate | Range]
    """The mean reward of a decision, by each of `METHODS`: ranges where rewards are missing."""
    gain: Estimate | Range | None
    """By how much a decision is worth more than one of the log, by `dr`, on the same rows; None where it is refused."""
    effective_size: float
    """Of the weighted estimates: rows of its own that would tell as much. The mean over passes."""
    shares: tuple[float, ...]
    """How often it plays each arm in these rounds: the mean over passes."""
    skipped: float
    """The share of its rounds that it gave up on."""
    passes: int
    warning: str | None
    refused: str | None
    """Why there are no estimates; None if there are."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it. A range has None for its value."""
        estimates = {name: as_json(estimate) for name, estimate in self.estimates.items()}
        gain = None if self.gain is None else as_json(self.gain)
        return {**self._asdict(), "estimates": estimates, "gain": gain, "shares": list(self.shares)}


def as_json(told: Estimate | Range) -> dict[str, float | None]:
    """Return an estimate as JSON takes it, and a range as an estimate whose value is None."""
    return told._asdict() if isinstance(told, Estimate) else {"value": None, **told._asdict()}


def _refused(learner: str, reason: str) -> LearnerValue:
    return LearnerValue(learner, 0.0, {}, None, 0.0, (), 0.0, 0, None, reason)


class _Pass(NamedTuple):
    """One time over the rows: estimates with rewards that are not known taken for 0, and for 1."""

    low: Floats
    """(methods + 1,): the last is the gain."""
    high: Floats
    errors: Floats
    """Standard errors by the noise of the outcomes alone; that of the rejection method is at least that of snips, which
    uses all rows.
    """
    rounds: int
    effective_size: float
    arms: Integers
    """Rounds of each arm."""
    skipped: int
    warning: str | None
    wide: tuple[float, float]
    """The wide interval."""
    wide_gain: tuple[float, float]
    """That of the gain: from both means' wide intervals, each of which may be wrong half as often."""


def cannot_carry(log: Log) -> str | None:
    """Return why no learner can be replayed on a log; None if one can."""
    if not log.arms.size:
        return "no decision of the log is as old as the deadline"
    if np.isnan(log.propensities).any():
        return (
            "the log does not say with which probability its arms were chosen; a column of propensities is needed, or"
            " arms that are said to be assigned at random: uniform, or by the shares of the log (--assigned)"
        )
    if log.changes:
        after, arm, present = log.changes[-1]
        return (
            f"arms came and went while the log was made: {log.labels[arm]!r} {'came' if present else 'left'} after"
            f" {after:,} of {log.arms.size:,} decisions, and a learner cannot be offered an arm that was not there"
        )
    chosen = np.bincount(log.arms, minlength=len(log.labels))
    if not chosen.all():
        return f"arm {log.labels[int(np.argmin(chosen))]!r} was never chosen: nothing is known of it"
    least = float(log.propensities.min())
    if certain := int((log.propensities == 1.0).sum()):
        return (
            f"{certain:,} of {log.arms.size:,} decisions have a propensity of 1: other arms had no chance there, and"
            " nothing tells what they would have done"
        )
    worth = math.floor(least * log.arms.size)
    if worth < FEWEST_ROUNDS:
        return (
            f"the least propensity is {least:.3g}, so that {log.arms.size:,} decisions are worth {worth:,} rounds of"
            f" another learner; {FEWEST_ROUNDS} are needed"
        )
    return None


def learner_values(
    log: Log, learners: Sequence[Any], *, alpha: float = 0.05, seed: int = 0, most_rows: int = MOST_ROWS
) -> tuple[LearnerValue, ...]:
    """Return what each learner would have been worth on a log; where that cannot be told, why."""
    check_alpha(alpha)
    tuned = [catalogue.tune(each) for each in learners]
    log = log.head(check_count("most_rows", most_rows))
    reason = cannot_carry(log)
    if reason is not None:
        return tuple(_refused(each.label, reason) for each in tuned)
    rows = _rows(log)
    compile_for(tuned)
    compiled_offer()  # here and now, rather than in two threads at once
    with ThreadPoolExecutor(available_cores()) as pool:
        return tuple(pool.map(lambda each: _value(each, rows, len(log.labels), alpha, seed), tuned))


def _rows(log: Log) -> LoggedRows:
    """Return the rows of a log as they are offered, without draws."""
    waits = np.zeros(log.arms.size) if log.waits is None else log.waits
    delays = np.where(np.isnan(log.rewards) | ~np.isfinite(waits), float(FOREVER), waits).astype(np.int64)
    nothing = np.empty(0)
    least = float(log.propensities.min())
    return LoggedRows(log.arms, 1.0 - log.rewards, delays, log.propensities, nothing, nothing, least)


def pass_counts(rows: int) -> tuple[int, int]:
    """Return how often so many rows are offered as they are, and how often resampled."""
    total = min(max(VISITS // max(rows, 1), 15), 240)
    return total // 3, total - total // 3


def _value(tuned: TunedLearner, rows: LoggedRows, n_arms: int, alpha: float, seed: int) -> LearnerValue:
    size = rows.arms.size
    worth = int(rows.least * size)
    try:
        Rejection(tuned, n_arms, worth)
    except InvalidValue as error:
        return _refused(tuned.label, str(error))
    plain, resampled = pass_counts(size)
    found = []
    for k in range(plain + resampled):
        rng = np.random.default_rng([seed, k])
        drawn = rows
        if k >= plain:
            again = rng.integers(0, size, size)
            drawn = LoggedRows._make([*(values[again] for values in rows[:4]), *rows[4:]])
        drawn = drawn._replace(draws=rng.random(size), thinning=rng.random(size))
        found.append(_one_pass(Rejection(tuned, n_arms, worth), drawn, n_arms, alpha))
    return _summary(tuned, found[:plain], found[plain:], alpha, is_known=not np.isnan(rows.losses).any())


def _one_pass(run: Rejection, rows: LoggedRows, n_arms: int, alpha: float) -> _Pass:
    notes = run.offer(rows)
    accepted = notes.accepted > 0
    known = ~np.isnan(rows.losses)
    ends = []
    for unknown in (0.0, 1.0):
        rewards = np.where(known, 1.0 - rows.losses, unknown)
        met = rewards[accepted]
        rejection = float(met.mean()) if met.size else math.nan
        found = sums(rewards, notes.weights, notes.baselines)
        gains = notes.baselines + (notes.weights - 1.0) * rewards
        values = np.array([rejection, *found.values, gains.mean()])
        wide = wide_interval(rewards, notes.weights, 1.0 / rows.least, alpha)
        mine, logs = (
            wide_interval(rewards, each, largest, alpha / 2.0)
            for each, largest in ((notes.weights, 1.0 / rows.least), (np.ones(rewards.size), 1.0))
        )
        ends.append((values, wide, mine, logs, hardly(rewards, notes.weights)))
    low, (lowest, _), (least, _), (log_least, _), warning = ends[0]
    high, (_, highest), (_, most), (_, log_most), other_warning = ends[1]
    return _Pass(
        low=low,
        high=high,
        errors=np.array([found.errors[ESTIMATORS.index("snips")], *found.errors, gains.std() / math.sqrt(gains.size)]),
        rounds=int(accepted.sum()),
        effective_size=effective_size(notes.weights),
        arms=np.bincount(rows.arms[accepted], minlength=n_arms),
        skipped=int(run.count("skips")),
        warning=warning or other_warning,
        wide=(lowest, highest),
        wide_gain=(least - log_most, most - log_least),
    )


def _summary(
    tuned: TunedLearner, plain: Sequence[_Pass], resampled: Sequence[_Pass], alpha: float, *, is_known: bool
) -> LearnerValue:
    """Return what passes over a log, and over resampled logs, say together. `is_known`: no reward is missing."""
    warning = plain[0].warning
    halves = [
        _half(
            np.stack([getattr(one, end) for one in plain]),
            np.stack([getattr(one, end) for one in resampled]),
            np.mean([one.errors**2 for one in plain], axis=0),
            alpha,
        )
        for end in ("low", "high")
    ]
    lows = np.nanmean([each.low for each in plain], axis=0).tolist()
    highs = np.nanmean([each.high for each in plain], axis=0).tolist()
    estimates: dict[str, Estimate | Range] = {}
    for k, name in enumerate(METHODS):
        low, high = clipped(lows[k], float(halves[0][k])).low, clipped(highs[k], float(halves[1][k])).high
        if warning is not None:
            low, high = min(low, plain[0].wide[0]), max(high, plain[0].wide[1])
        estimates[name] = Estimate(lows[k], low, high) if is_known else Range(low, high)
    least, most = sorted((lows[-1], highs[-1]))
    half = float(max(halves[0][-1], halves[1][-1]))
    low, high = least - half, most + half
    if warning is not None:
        low, high = min(low, plain[0].wide_gain[0]), max(high, plain[0].wide_gain[1])
    gain = Estimate(least, low, high) if is_known else Range(low, high)
    rounds = np.array([each.rounds for each in plain], dtype=np.float64)
    arms = np.stack([each.arms for each in plain])
    return LearnerValue(
        learner=tuned.label,
        rounds=float(rounds.mean()),
        estimates=estimates,
        gain=gain,
        effective_size=float(np.mean([each.effective_size for each in plain])),
        shares=tuple((arms.sum(axis=0) / max(arms.sum(), 1)).tolist()),
        skipped=float(np.mean([each.skipped / max(each.rounds, 1) for each in plain])),
        passes=len(plain),
        warning=warning,
        refused=None,
    )


def _half(own: Floats, other: Floats, noise: Floats, alpha: float) -> Floats:
    """Return half the width of the interval around the mean of passes over the log itself, for each method.

    `noise` is the variance that outcomes alone make. It is taken, with that of the draws, where the difference of the
    two variances of passes is lost in the noise of estimating it.
    """
    passes = len(own)
    within, total = np.nanvar(own, axis=0, ddof=1), np.nanvar(other, axis=0, ddof=1)
    less = (1.0 - 1.0 / passes) * within
    error = total**2 / (len(other) - 1) + less**2 / (passes - 1)
    half = np.empty(total.size)
    for k, (of_all, of_mean) in enumerate(zip(total, total - less, strict=True)):
        of_log = FREEDOM if k < len(METHODS) else FREEDOM_OF_GAIN
        alone = student_quantile(_freedom(len(other) - 1, of_log), alpha)
        least = alone * math.sqrt(noise[k] + within[k] / passes)
        freedom = of_mean**2 / error[k] if of_mean > 0.0 else 0.0
        wider = student_quantile(_freedom(freedom, of_log), alpha) * math.sqrt(max(of_mean, 0.0))
        # a mean of passes varies no more than one of them
        half[k] = max(least, min(wider, alone * math.sqrt(of_all)))
    return half


def _freedom(of_passes: float, of_log: int) -> int:
    """Return the degrees of freedom of a variance that is off by how few passes there are, and by the log itself."""
    return max(int(1.0 / (1.0 / of_passes + 1.0 / of_log)), 1) if of_passes > 0.0 else 1
