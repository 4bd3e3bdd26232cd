"""Losses from a log: outcomes that somebody observed, drawn again, each with its delay."""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.environments.environment import Environment, Filled, Floats, Rounds, check_arms
from belated.errors import InvalidValue, check_positive, check_share
from belated.logs import Log, read_log
from belated.logs.deadlines import with_deadline
from belated.specs import duration
from belated.templates.display import shortened

Integers = NDArray[np.int64]

NEVER = int(np.iinfo(np.int64).max)  # as in belated.delays, which is on the same level
_ROUNDING = 1e-9


class Resampled(Environment):
    """In every round the loss of an arm, with its delay, is that of one of the arm's decisions in a log.

    Each of them is as likely as the others, whatever was drawn before. So the arms' losses, the delays, and how the one
    depends on the other are as in the log; what changed with time is not. The delays come along as the law `own`.

    Parameters
    ----------
    file
        A file as `belated.logs.read_log` takes it, or a `Log`.
    arm, reward, loss, propensity, time, outcome_time, delay, id
        The names of its columns, where they are not what one would guess.
    bad_rows, arms
        What becomes of rows that cannot be read, `refuse` or `leave out`; all arms there are, others are bad rows.
    accrual
        Decisions in a unit of the log's time (a second, if it has dates): an outcome that took so much time is then so
        many decisions late. By default a delay is as many decisions as it was in the log.
    deadline, deadline_after, missing_loss
        After so many decisions, or so much time (7d, or a number in the unit of the log), a decision without an outcome
        has this loss (1 by default), and later outcomes do not count. Decisions that are younger than that at the end
        of the log are left out. `missing_loss` without a deadline: outcomes that are missing never come, and count with
        this loss in the regret.

    >>> from belated.environments import Resampled
    >>> from belated.logs import Log
    >>> log = Log.from_arrays(["a", "b", "a"], rewards=[1.0, 0.0, 0.0], waits=[1, 0, 0])
    >>> Resampled(log).means.tolist()
    [0.5, 1.0]
    """

    brings_delays = True

    def __init__(
        self,
        file: str | Path | Log,
        *,
        arm: str | None = None,
        reward: str | None = None,
        loss: str | None = None,
        propensity: str | None = None,
        time: str | None = None,
        outcome_time: str | None = None,
        delay: str | None = None,
        id: str | None = None,
        accrual: float | None = None,
        deadline: int | None = None,
        deadline_after: float | str | None = None,
        missing_loss: float | None = None,
        bad_rows: str = "refuse",
        arms: Sequence[Any] | None = None,
    ) -> None:
        columns = {
            "arm": arm,
            "reward": reward,
            "loss": loss,
            "propensity": propensity,
            "time": time,
            "outcome_time": outcome_time,
            "delay": delay,
            "id": id,
        }
        self.source = file.name if isinstance(file, Path) else file if isinstance(file, str) else "a log"
        log = _read(file, columns, bad_rows, arms)
        log, kept = _with_outcomes(log, deadline, deadline_after, missing_loss)
        chosen = log.arms[kept]
        self.labels = log.labels
        self.n_arms = check_arms(len(log.labels))
        self.counts: Integers = np.bincount(chosen, minlength=self.n_arms)
        """Decisions of each arm that are drawn from."""
        if not self.counts.all():
            empty = self.labels[int(np.argmin(self.counts))]
            raise InvalidValue(f"arm {empty!r} has no decision in {self.source} to draw from; one is needed", "arm")
        order = np.argsort(chosen, kind="stable")
        rewards = log.rewards[kept]
        missing = np.isnan(rewards)
        self.losses: Floats = np.where(missing, 0.0 if missing_loss is None else missing_loss, 1.0 - rewards)[order]
        """Of these decisions, those of the first arm first."""
        self.accrual = accrual
        self.unit = None if log.durations is None else "second" if log.in_seconds else "unit of time"
        """In which the log says how long outcomes took; None where it does not say."""
        self.durations: Floats | None = None if log.durations is None else log.durations[kept][order]
        """How much time the outcomes of these decisions took."""
        self.waits: Integers = _waits(log, accrual)[kept][order]
        """Their delays, in decisions; NEVER where the outcome does not come."""
        self.waits[missing[order]] = NEVER
        self._first: Integers = np.cumsum(self.counts) - self.counts
        self.means: Floats = np.bincount(np.sort(chosen), self.losses, minlength=self.n_arms) / self.counts
        """The mean loss of each arm."""
        self.digest = self._digest()
        """Of all that is drawn from: the same outcomes and delays have the same."""

    def _digest(self) -> str:
        content = b"".join(values.tobytes() for values in (self.counts, self.losses, self.waits))
        return hashlib.blake2b(content, digest_size=6).hexdigest()

    @property
    def loses_outcomes(self) -> bool:
        """Whether some outcomes never come."""
        return bool((self.waits == NEVER).any())

    def __repr__(self) -> str:
        return f"Resampled({self.source}, {self.losses.size} decisions, {self.digest})"

    @property
    def title(self) -> str:
        return f"outcomes as in {self.source}, arms {shortened(str(label) for label in self.labels)}"

    def _draw(self, rng: np.random.Generator, rounds: Rounds) -> Integers:
        """Return which decision each arm's outcome is taken from in each round: (n, arms)."""
        uniform = rng.random((rounds.size, self.n_arms))
        uniform *= self.counts
        rows = uniform.astype(np.int64)
        rows += self._first
        return rows

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        return self.means[None, :], self.losses[self._draw(rng, rounds)]

    def fill_with_delays(self, rng: np.random.Generator, rounds: Rounds) -> tuple[Floats, Floats, Integers]:
        rows = self._draw(rng, rounds)
        return self.means[None, :], self.losses[rows], self.waits[rows]

    def only(self, label: Any) -> "Resampled":
        """Return the environment in which all arms have the outcomes and delays of this one."""
        arm = self.labels.index(label)
        mine = slice(self._first[arm], self._first[arm] + self.counts[arm])
        same = object.__new__(Resampled)
        same.source, same.labels, same.n_arms = f"{label} in {self.source}", self.labels, self.n_arms
        same.counts = np.full(self.n_arms, self.counts[arm])
        same.accrual, same.unit = self.accrual, self.unit
        same.losses, same.waits = self.losses[mine], self.waits[mine]
        same.durations = None if self.durations is None else self.durations[mine]
        same._first = np.zeros(self.n_arms, dtype=np.int64)
        same.means = np.full(self.n_arms, self.means[arm])
        same.digest = f"{self.digest}-{arm}"
        return same

    def at(self, accrual: float) -> "Resampled":
        """Return the same with so many decisions in a unit of the log's time; itself, where the log has no time."""
        if self.durations is None:
            return self
        same = copy.copy(self)
        same.accrual = accrual
        same.waits = np.where(self.waits == NEVER, NEVER, _counted(_paced(self.durations, accrual)))
        same.digest = same._digest()
        return same

    def led_by(self, label: Any) -> "Resampled":
        """Return the same with this arm as the first, before the others in their order."""
        arm = self.labels.index(label)
        order = [arm, *(k for k in range(self.n_arms) if k != arm)]
        rows = np.concatenate([np.arange(self.counts[k]) + self._first[k] for k in order])
        same = copy.copy(self)
        same.labels = tuple(self.labels[k] for k in order)
        same.counts, same.means = self.counts[order], self.means[order]
        same.losses, same.waits = self.losses[rows], self.waits[rows]
        same.durations = None if self.durations is None else self.durations[rows]
        same._first = np.cumsum(same.counts) - same.counts
        same.digest = same._digest()
        return same


def _read(file: str | Path | Log, columns: Mapping[str, str | None], bad_rows: str, arms: Sequence[Any] | None) -> Log:
    named: dict[str, Any] = {what: name for what, name in columns.items() if name is not None}
    if isinstance(file, str | Path):
        return read_log(file, bad_rows=bad_rows, arms=arms, **named)
    if not isinstance(file, Log):
        raise InvalidValue(f"file is {file!r}; the path of a log, or a Log, is needed", "file")
    if named:
        raise InvalidValue(f"{next(iter(named))} is named, but the log is not a file with columns", next(iter(named)))
    return file


def _with_outcomes(
    log: Log, deadline: int | None, deadline_after: float | str | None, missing_loss: float | None
) -> tuple[Log, NDArray[np.bool_]]:
    """Return the log with its deadline, and which of its decisions are drawn from."""
    if missing_loss is not None:
        check_share("missing_loss", missing_loss)
    after = None if deadline_after is None else duration("deadline_after", deadline_after, log.in_seconds)
    settled = with_deadline(log, deadline, after, missing_loss)
    if settled is None:
        missing = int(np.isnan(log.rewards).sum())
        if missing and missing_loss is None:
            raise InvalidValue(
                f"{missing:,} of {log.arms.size:,} decisions have no outcome; what that means is needed: a deadline"
                " (deadline=1000 in decisions, deadline_after=7d in time) after which they have missing_loss, or"
                " missing_loss alone if they never come",
                "missing_loss",
            )
        return log, np.ones(log.arms.size, dtype=np.bool_)
    if not settled.old_enough.any():
        raise InvalidValue("no decision of the log is as old as the deadline; a shorter deadline is needed", "deadline")
    return settled.log, settled.old_enough


def _waits(log: Log, accrual: float | None) -> Integers:
    """Return the delay of each decision, in decisions."""
    if accrual is not None:
        if log.durations is None:
            raise InvalidValue(
                f"accrual is {accrual!r}, but the log does not say how much time outcomes took", "accrual"
            )
        return _counted(_paced(log.durations, accrual))
    return np.zeros(log.arms.size, dtype=np.int64) if log.waits is None else _counted(log.waits)


def _paced(durations: Floats, accrual: float) -> Floats:
    """Return durations in decisions, rounded up, with so many decisions in a unit of time."""
    return np.ceil(durations * check_positive("accrual", accrual) - _ROUNDING)


def _counted(waits: Floats) -> Integers:
    """Return delays as whole numbers; what never comes is NEVER."""
    came = np.isfinite(waits)
    return np.where(came, np.where(came, waits, 0.0).astype(np.int64), NEVER)
