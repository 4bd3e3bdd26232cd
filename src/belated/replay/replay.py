"""`replay_log`: the delays in a log, what each learner would have done on it, and which arm wins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from belated.errors import InvalidValue, unknown
from belated.inference import Estimate, Estimates, estimates
from belated.inference.method import Options
from belated.logs import Log
from belated.logs.deadlines import with_deadline
from belated.replay.delay_profile import DelayProfile, profile
from belated.replay.off_policy import Range, off_policy
from belated.replay.values import MOST_ROWS, LearnerValue, as_json, learner_values
from belated.specs import duration

DEFAULT_LEARNERS = ("guarded", "robust", "thompson", "klucb", "ucb", "uniform")
ASSIGNED = ("uniform", "shares")
MOST_NAMED = 6
"""Arms that a warning names."""
FEW = 5
"""Decisions of an arm that may be a slip."""
FAR = 5.0
"""Standard errors beyond which propensities and what was chosen do not agree."""


@dataclass(frozen=True)
class Reproduced:
    """Whether a learner that runs again decides as it is on record."""

    learner: str
    decisions: int
    propensity_error: float
    """The largest difference between a propensity on record and the one computed now; 0: bit for bit."""
    faults: tuple[str, ...]
    """What is not as on record; nothing, if all is."""

    @property
    def sentence(self) -> str:
        if self.faults:
            return f"{self.learner} does not decide as it is on record: {self.faults[0]}."
        same = "bit for bit" if self.propensity_error == 0.0 else f"up to {self.propensity_error:.1g} in propensities"
        return f"{self.learner}, run again on this ledger, makes the same {self.decisions:,} decisions, {same}."


@dataclass(frozen=True, repr=False)
class Replay:
    """What a log says."""

    log: Log
    """With its deadline, if there is one."""
    delays: DelayProfile | None
    """None where the log does not say when outcomes came."""
    logged: Estimate | Range
    """The mean reward of a decision in the log: a range where some are missing, or there are none."""
    values: tuple[LearnerValue, ...]
    estimates: Estimates
    alpha: float
    old_enough: int
    """Decisions that are as old as the deadline at the end of the log: the others are left out of rewards."""
    rows_replayed: int
    """The first rows of the log, which learners were replayed on."""
    warnings: tuple[str, ...]
    reproduced: Reproduced | None = None

    def __repr__(self) -> str:
        return f"Replay({self.log!r}: {self.estimates.verdict})"

    @property
    def best(self) -> LearnerValue | None:
        """The learner with the largest value by `dr`; None where there are no such values, or ranges only."""
        told = [(each, value) for each in self.values if isinstance(value := each.estimates.get("dr"), Estimate)]
        return max(told, key=lambda pair: pair[1].value)[0] if told else None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it; a number that there is not is None."""
        log, reproduced = self.log, self.reproduced
        counts = np.bincount(log.arms, minlength=len(log.labels))
        outcomes = np.bincount(log.arms[~np.isnan(log.rewards)], minlength=len(log.labels))
        return {
            "decisions": log.arms.size,
            "outcomes": int(outcomes.sum()),
            "arms": [
                {"arm": label, "decisions": decided, "outcomes": came}
                for label, decided, came in zip(log.labels, counts.tolist(), outcomes.tolist(), strict=True)
            ],
            "delays": None if self.delays is None else self.delays.as_dict(),
            "alpha": self.alpha,
            "logged": as_json(self.logged),
            "old_enough": self.old_enough,
            "rows_replayed": self.rows_replayed,
            "learners": [each.as_dict() for each in self.values],
            "estimates": self.estimates.as_dict(),
            "reproduced": None
            if reproduced is None
            else {
                "learner": reproduced.learner,
                "decisions": reproduced.decisions,
                "propensity_error": reproduced.propensity_error,
                "faults": list(reproduced.faults),
            },
            "warnings": list(self.warnings),
        }


def replay_log(
    log: Log,
    learners: Sequence[Any] = DEFAULT_LEARNERS,
    *,
    assigned: str | None = None,
    deadline: int | None = None,
    deadline_after: float | str | None = None,
    missing_loss: float | None = None,
    alpha: float = 0.05,
    control: Any = None,
    outcomes: str = "settled",
    seed: int = 0,
    most_rows: int = MOST_ROWS,
) -> Replay:
    """Return the delays in a log, what each learner would have done on it, and which arm wins.

    Parameters
    ----------
    log
        Decisions and what came of them: `belated.logs.read_log`, or `Log.from_arrays`.
    learners
        Names, specs or learners.
    assigned
        How arms were assigned, where the log has no propensities: `"uniform"`, every arm with the same probability, or
        `"shares"`, at random with the shares that the log shows, the same at all times.
    deadline, deadline_after, missing_loss
        After so many more decisions, or so much time (`"7d"`, or a number in the unit of the log), a decision without
        an outcome has this loss (1 by default), and later outcomes do not count. By default outcomes are waited for.
    alpha, control, outcomes
        As in `belated.inference.estimates`. Intervals of learners' values hold with probability 1 - alpha, too.
    seed
        Of the learners' draws, and of resampled logs.
    most_rows
        Learners are replayed on so many rows of the log at most, the first ones.

    >>> from belated.logs import Log
    >>> from belated.replay import replay_log
    >>> log = Log.from_arrays(["a", "b"] * 500, rewards=[1.0, 0.0] * 500, waits=[3] * 1000)
    >>> found = replay_log(log, ["thompson"], assigned="uniform")
    >>> found.delays.overall.quantiles[0], found.logged.value
    (3.0, 0.5)
    >>> found.values[0].estimates["rejection"].low > 0.8
    True
    """
    Options(alpha, control, outcomes=outcomes).check(log.labels)
    if not log.arms.size:
        raise InvalidValue("the log has no decisions; at least one is needed", "log")
    raw, odd = _with_propensities(log, assigned)
    settled, old_enough, late = _with_deadline(raw, deadline, deadline_after, missing_loss)
    valued = settled.head(old_enough)
    return Replay(
        log=settled,
        delays=profile(raw, settled),
        logged=_logged(valued, alpha),
        values=learner_values(valued, learners, alpha=alpha, seed=seed, most_rows=most_rows),
        # shares that were read off the log are no probabilities that were there before its decisions
        estimates=estimates(
            settled,
            alpha=alpha,
            control=control,
            outcomes=outcomes,
            method="betting" if assigned == "shares" else None,
        ),
        alpha=alpha,
        old_enough=old_enough,
        rows_replayed=min(old_enough, most_rows),
        warnings=(*late, *odd, *_odd_arms(raw)),
    )


def _with_deadline(
    log: Log, deadline: int | None, deadline_after: float | str | None, missing_loss: float | None
) -> tuple[Log, int, list[str]]:
    """Return the log with its deadline, how many of its decisions are as old as that, and what it does not count."""
    after = None if deadline_after is None else duration("deadline_after", deadline_after, log.in_seconds)
    settled = with_deadline(log, deadline, after, missing_loss)
    if settled is None:
        if missing_loss is not None:
            raise InvalidValue(f"missing_loss is {missing_loss!r}, but there is no deadline", "missing_loss")
        return log, log.arms.size, []
    warnings = []
    if late := int(settled.late.sum()):
        came = ~np.isnan(log.rewards) & settled.old_enough
        shares = []
        for k, label in enumerate(log.labels):
            mine = came & (log.arms == k)
            if mine.any() and k < MOST_NAMED:
                shares.append(f"{100 * settled.late[mine].mean():.3g} % of {label}'s")
        warnings.append(
            f"{late:,} of {int(came.sum()):,} outcomes came after the deadline and do not count: {', '.join(shares)}."
            " Where these shares differ, a longer deadline may name another winner."
        )
    return settled.log, int(settled.old_enough.sum()), warnings


def _odd_arms(log: Log) -> list[str]:
    """Return a warning for arms that were chosen so rarely that they may be slips."""
    counts = np.bincount(log.arms, minlength=len(log.labels))
    few = [
        f"{label} ({count})"
        for label, count in zip(log.labels, counts.tolist(), strict=True)
        if 0 < count <= FEW and 100 * count < np.median(counts)
    ]
    if not few:
        return []
    return [
        f"Arms with very few decisions: {', '.join(few[:MOST_NAMED])}. If they are slips, name all arms that there are:"
        " others are then bad rows."
    ]


def _with_propensities(log: Log, assigned: str | None) -> tuple[Log, tuple[str, ...]]:
    """Return the log with the propensities that it has or is said to have, and what is odd about them."""
    if assigned is not None:
        if assigned not in ASSIGNED:
            raise unknown("assigned", assigned, ASSIGNED)
        if not np.isnan(log.propensities).all():
            raise InvalidValue(f"assigned is {assigned!r}, but the log has propensities; these count", "assigned")
        n_arms = len(log.labels)
        if assigned == "uniform" and not log.changes:
            log = log.with_shares([1.0 / n_arms] * n_arms)
        else:
            shares = np.full(n_arms, 1.0 / n_arms)
            if assigned == "shares":
                shares = np.bincount(log.arms, minlength=n_arms) / max(log.arms.size, 1)
            log = replace(log, propensities=shares[log.arms])
    if np.isnan(log.propensities).any():
        return log, ()
    return log, tuple(_odd_propensities(log))


def _odd_propensities(log: Log) -> list[str]:
    """Return a warning for each arm whose propensities do not go with how often it was chosen.

    1 / propensity, where the arm was chosen, and 0 elsewhere has the mean 1 if propensities are true.
    """
    size = log.arms.size
    inverse = 1.0 / log.propensities
    means = np.bincount(log.arms, inverse, minlength=len(log.labels)) / size
    squares = np.bincount(log.arms, inverse**2, minlength=len(log.labels)) / size
    warnings = []
    for label, mean, square in zip(log.labels, means.tolist(), squares.tolist(), strict=True):
        if mean == 0.0:
            continue
        # The variance as it is, and as it would be were the mean 1: few rows of an arm tell too little of it.
        error = math.sqrt(max(square - mean**2, square / mean - 1.0, 0.0) / size)
        if abs(mean - 1.0) > FAR * error:
            often = "more" if mean > 1.0 else "less"
            warnings.append(
                f"Arm {label} was chosen {often} often than its propensities say, {mean:.3g} times as often: they may"
                " not be the true ones, and then the values of learners are wrong. Where arms were assigned at random"
                " with other shares, say that they were assigned by shares."
            )
    return warnings


def _logged(log: Log, alpha: float) -> Estimate | Range:
    """Return the mean reward of the log; where rewards are missing, a range that allows for all they may be."""
    if not log.arms.size:
        return Range(0.0, 1.0)
    ones, missing = np.ones(log.arms.size), np.isnan(log.rewards)
    low, high = (
        off_policy(np.where(missing, each, log.rewards), ones, ones * 0.0, largest=1.0, alpha=alpha).estimates["ips"]
        for each in (0.0, 1.0)
    )
    return Range(low.low, high.high) if missing.any() else low
