"""A learner on a log that somebody else made: the rejection method (Li, Chu, Langford & Wang 2011), under delay.

The learner decides as if it were live. The rows of the log are offered to it one after the other. A row is accepted if
its arm is the one that the learner draws, and with probability m / propensity besides, m being the least propensity of
the log; it is then the learner's next round, with the row's outcome, which comes as many rounds later as it came in the
log. Other rows are passed over, and the learner does not notice. Whatever the learner knows, a row is accepted with
probability m, and the accepted outcomes are those that it would have met live, where outcomes and delays of an arm are
drawn independently of each other, always from the same distribution. A log of N rows is worth about m N rounds.

Every row, accepted or not, also tells what the learner's present distribution p is worth: its weight
w = p[arm] / propensity, and sum_a p_a q_a - w q[arm], where q are means of the arms over earlier rows: what inverse
propensity and doubly robust estimates are made of (Dudik, Erhan, Langford & Li 2012).
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.core.kernels import INTEGERS, VECTOR, Integers, Matrix, Memory, Vector, call_learn, entry, kernel
from belated.core.rounds import (
    FOREVER,
    NONE,
    NOT_DUE,
    RUN,
    Run,
    close_round,
    note_arm,
    open_round,
    remember,
    wants_pages,
)
from belated.core.shares import draw_arm
from belated.errors import InvalidValue
from belated.learners import TunedLearner
from belated.learners.python_learner import PythonLearner
from belated.simulation.run import LearnerRun
from belated.simulation.schedule import SCHEDULE, add, arrive_due, skip_oldest

Floats = NDArray[np.float64]


class LoggedRows(NamedTuple):
    """Some consecutive rows of a log, n of them."""

    arms: Integers
    losses: Vector
    """nan where no outcome is known."""
    delays: Integers
    """In rounds; FOREVER or more where the outcome does not come."""
    propensities: Vector
    draws: Vector
    """One for each row, in [0, 1): by which the learner draws its arm."""
    thinning: Vector
    """Another one: a row is kept with probability least / propensity."""
    least: float
    """m: the least propensity of the log."""


class RowNotes(NamedTuple):
    """What is written down of the same rows."""

    accepted: Integers
    """The number of the round that a row became, or 0."""
    weights: Vector
    """w = p[arm] / propensity."""
    baselines: Vector
    """sum_a p_a q_a - w q[arm]."""
    means: Matrix
    """Of each arm: known rewards and their sum. The last column is that of all arms."""
    pending: Vector
    """Whether a round is open, and its mark."""


_MATRIX = types.float64[:, ::1]
LOGGED_ROWS = types.NamedTuple((INTEGERS, VECTOR, INTEGERS, VECTOR, VECTOR, VECTOR, types.float64), LoggedRows)
ROW_NOTES = types.NamedTuple((INTEGERS, VECTOR, VECTOR, _MATRIX, VECTOR), RowNotes)


@kernel
def offer(run: Run, schedule: Memory, rows: LoggedRows, notes: RowNotes, begin: int, end: int) -> int:
    """Offer rows from index `begin` to `end`; return the index reached: short of the end where memory or the learner's
    state must grow first.
    """
    clock = run.clock[0]
    state, params, p = run.state, run.params, run.p
    means, pending = notes.means, notes.pending
    every = p.size  # the column of all arms
    skips = clock["patience_address"] != 0
    for i in range(begin, end):
        if pending[0] == 0.0:
            if clock["free"] == NONE or wants_pages(run):
                return i
            pending[1] = open_round(run, rows.draws[i])
            pending[0] = 1.0
        arm, propensity = rows.arms[i], rows.propensities[i]
        loss = rows.losses[i]
        # what the present distribution is worth, by this row and the means of earlier ones
        overall = (means[1, every] + 0.5) / (means[0, every] + 1.0)
        expected = 0.0
        for a in range(p.size):
            expected += p[a] * (means[1, a] + overall) / (means[0, a] + 1.0)
        weight = p[arm] / propensity
        notes.weights[i] = weight
        notes.baselines[i] = expected - weight * (means[1, arm] + overall) / (means[0, arm] + 1.0)
        if loss == loss:
            for column in (arm, every):
                means[0, column] += 1.0
                means[1, column] += 1.0 - loss
        notes.accepted[i] = 0
        if draw_arm(p, rows.draws[i]) != arm or rows.thinning[i] * propensity >= rows.least:
            continue
        pending[0] = 0.0
        now, delay = clock["round"], rows.delays[i]
        notes.accepted[i] = now
        mark = note_arm(run, arm, p[arm], pending[1])
        arrive_due(schedule, run, now)
        if delay == 0:
            if clock["round_place"] != NONE:
                state[clock["round_place"]] = now
            call_learn(clock["learn_address"], state, params, arm, loss, p[arm], mark)
            oldest = close_round(run)
        else:
            oldest = close_round(run)
            clock["outstanding"] += 1
            comes = delay < FOREVER
            if comes or skips:
                slot = remember(run, arm, p[arm], mark, now + delay if comes else NOT_DUE, loss)
                if comes:
                    add(schedule, run.memory, slot, now + delay)
        if oldest != NONE:
            skip_oldest(schedule, run, oldest)
    return end


_OFFER = types.int64(RUN, SCHEDULE, LOGGED_ROWS, ROW_NOTES, types.int64, types.int64)


@cache
def compiled_offer() -> Any:
    """Return the loop as Python calls it."""
    return entry(offer, _OFFER)


class Rejection(LearnerRun):
    """One learner on the rows of a log."""

    def __init__(self, tuned: TunedLearner, n_arms: int, rounds: int) -> None:
        """`rounds`: how many the log is worth, about; learners that must know their horizon are told so."""
        if isinstance(tuned, PythonLearner):
            raise InvalidValue(
                f"learner {tuned.label!r} is written in plain Python; a log can be offered to compiled ones only",
                "learner",
            )
        needs = [name for name in tuned.missing if name != "horizon"]
        if needs or tuned.learner.delay_at is not None:
            raise InvalidValue(
                f"learner {tuned.label!r} must know {', '.join(needs) or 'each delay'}, which a log does not tell",
                "learner",
            )
        tuned.check_arms(n_arms)
        told = {"horizon": float(max(rounds, 2))} if "horizon" in tuned.missing else {}
        super().__init__(tuned, n_arms, 0, False, told)
        self._means = np.zeros((2, n_arms + 1))
        self._pending = np.zeros(2)

    def offer(self, rows: LoggedRows) -> RowNotes:
        """Offer rows; go on where the last ones ended. Return what is noted of each."""
        size = rows.arms.size
        kinds: Any = (np.int64, np.float64, np.int64, np.float64, np.float64, np.float64)
        # compiled code takes these types alone
        arrays = [np.require(values, kind, ["C"]) for values, kind in zip(rows[:-1], kinds, strict=True)]
        rows = LoggedRows._make([*arrays, float(rows.least)])
        if self.settled:
            rows = rows._replace(delays=np.maximum(rows.delays, min(self.settled, FOREVER)))
        notes = RowNotes(np.zeros(size, dtype=np.int64), np.empty(size), np.empty(size), self._means, self._pending)
        begin = 0
        while begin < size:
            begin = compiled_offer()(self.run, self.schedule, rows, notes, begin, size)
            if begin < size:
                self._make_room()
        return notes
