"""One learner in one replication: it plays chunks of rounds and keeps what happened."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.core import pages, random
from belated.core.rounds import FOREVER, NONE, Run, enlarge, new_clock, new_memory, rearm_memory
from belated.delays import NEVER
from belated.environments import Floats, Stretch
from belated.errors import InvalidValue
from belated.learners import TunedLearner, python_learner
from belated.learners.python_learner import PythonLearner
from belated.logs.log import Log
from belated.simulation.loop import (
    ARM,
    BY_ROUND,
    COLUMNS,
    DELAY,
    OUTSTANDING,
    SKIPPED,
    Notes,
    Rounds,
    compiled_close,
    compiled_play,
)
from belated.simulation.schedule import new_schedule
from belated.templates.display import html_table, largest, number

NO_LOSSES = np.empty((0, 0))
"""In place of losses that are coins, flipped when they are looked at."""


@dataclass(frozen=True, repr=False)
class Trace:
    """What one learner did in one replication, round by round; index 0 is round 1."""

    arms: NDArray[np.int64]
    distributions: Floats
    """x_t, shape (rounds, arms); 0 for an arm that is absent."""
    loss_estimates: Floats
    """L at the end of each round, shape (rounds, arms); nan for an arm that is absent."""
    outstanding: NDArray[np.int64]
    """sigma_t, counted when the round opens."""
    patience: Floats
    """At the end of each round; inf for learners that never skip."""
    skipped: NDArray[np.int64]
    """The round given up on at the end of each round, or 0."""
    delays: NDArray[np.int64]
    """Of the decision of each round, as the law of delay had it, but at least `settled`; it may be skipped before."""
    losses: Floats
    """Of the decision of each round, learned from or not; nan where it had not come by the last round."""
    share_floor: float = 0.0
    """The least probability of every arm, by the setting of that name."""

    @property
    def propensities(self) -> Floats:
        """The probability with which the arm of each round was chosen."""
        return self.distributions[np.arange(self.arms.size), self.arms]

    def log(self) -> Log:
        """Return the decisions and what came of them, for `belated.inference`; arms are their numbers."""
        n_arms = self.distributions.shape[1]
        return Log(
            labels=tuple(range(n_arms)),
            arms=self.arms,
            rewards=1.0 - self.losses,
            propensities=np.minimum(self.propensities, 1.0),
            waits=self.delays.astype(np.float64),
            distributions=self.distributions,
            floors=(self.share_floor,) * n_arms if self.share_floor else None,
        )

    def __repr__(self) -> str:
        rounds, arms = self.distributions.shape
        skipped, came = int(np.count_nonzero(self.skipped)), int(np.count_nonzero(~np.isnan(self.losses)))
        return f"Trace({rounds:,} rounds, {arms} arms, {came:,} outcomes came, {skipped:,} decisions skipped)"

    def _repr_html_(self) -> str:
        n_arms = self.distributions.shape[1]
        came = ~np.isnan(self.losses)
        chosen = np.bincount(self.arms, minlength=n_arms)
        heard = np.bincount(self.arms[came], minlength=n_arms)
        losses = np.bincount(self.arms[came], self.losses[came], minlength=n_arms)
        last = self.distributions[-1] if self.arms.size else np.full(n_arms, np.nan)
        rows = [
            [
                str(arm),
                number(chosen[arm]),
                number(losses[arm] / heard[arm] if heard[arm] else np.nan),
                number(last[arm]),
            ]
            for arm in largest(chosen)
        ]
        if len(rows) < n_arms:
            rows.append(["…", "", "", ""])
        return html_table(repr(self), ["arm", "chosen", "mean loss", "last probability"], rows)


class Chunk(NamedTuple):
    """Consecutive rounds and the number of the first."""

    first: int
    rounds: Rounds
    left_open: bool = False
    """Whether arms come or go after its last round, before that is closed."""

    @property
    def size(self) -> int:
        return self.rounds.draws.size

    @property
    def numbers(self) -> slice:
        """The place of these rounds in arrays over all rounds."""
        return slice(self.first - 1, self.first - 1 + self.size)

    def settled(self, least: int) -> "Chunk":
        """Return the same rounds, no outcome earlier than so many rounds after its decision."""
        delays = self.rounds.delays
        late = np.where(delays < 0, delays, np.maximum(delays, min(least, NEVER)))  # below 0: refused when it is played
        return self._replace(rounds=self.rounds._replace(delays=late))

    def after(self, rounds: int) -> "Chunk":
        """Return the same rounds, for a learner that counts from 1 after so many: the same coins come up."""
        coins = random.later(self.rounds.seed, rounds)
        return self._replace(rounds=self.rounds._replace(seed=coins, horizon=self.rounds.horizon - rounds))


class Decided(NamedTuple):
    """Decisions of consecutive rounds, and what comes of them."""

    arms: NDArray[np.int64]
    losses: Floats
    delays: NDArray[np.int64]
    distributions: Floats

    def part(self, rows: slice) -> "Decided":
        """Return some of them."""
        return Decided(self.arms[rows], self.losses[rows], self.delays[rows], self.distributions[rows])


def new_chunk(
    first: int,
    draws: Floats,
    delays: NDArray[np.int64],
    expected: Floats,
    horizon: int,
    losses: Floats = NO_LOSSES,
    seed: int | np.uint64 = 0,
    by: int = BY_ROUND,
    left_open: bool = False,
) -> Chunk:
    """Return the chunk of these rounds; delays of shape (n,) or (n, columns)."""
    table = np.ascontiguousarray(delays.reshape(draws.size, -1))
    return Chunk(first, Rounds(draws, losses, expected, table, by, np.uint64(seed), horizon), left_open)


class LearnerRun:
    """One learner in one replication."""

    def __init__(
        self,
        tuned: TunedLearner,
        n_arms: int,
        rounds: int,
        keep_trace: bool,
        told: dict[str, float],
        window: int | None = None,
        recent: int = 0,
        stretch: Stretch | None = None,
    ) -> None:
        """`window`: of how many of the last rounds distributions are kept. By default all are kept in a trace, and
        losses and loss estimates too. `recent`: of how many of the last rounds `decided` can tell without a trace.
        `stretch`: the first one, where arms come and go.
        """
        self.tuned = tuned
        self.learner = learner = tuned.learner
        self.settled = tuned.settled
        self.rounds = rounds
        self.present = None if stretch is None else stretch.arms
        self.began = 0
        """The round after which the learner started: 0, unless it started anew."""
        self._start(n_arms if stretch is None else stretch.arms.size, tuned.params_given(told))
        kept = rounds if keep_trace else 0
        decided = kept or recent
        self.notes = Notes(
            paid=np.zeros(1),
            columns=np.zeros((decided, COLUMNS), dtype=np.int64),
            patience=np.zeros(kept),
            losses=np.zeros(decided if window is None else 0),
            distributions=np.zeros((decided if window is None else window, n_arms)),
            estimates=np.zeros((kept if window is None else 0, n_arms)),
            layout=tuple(learner.losses_at),
        )

    def _start(self, n_arms: int, params: Floats) -> None:
        """Start the learner from nothing."""
        clock = new_clock()
        self.tuned.connect(clock, n_arms)
        memory = enlarge(clock, new_memory())
        self.run = Run(self.learner.new_state(n_arms), params, clock, memory, np.zeros(n_arms))
        self.schedule = new_schedule()

    def begin(self, stretch: Stretch) -> None:
        """Go on with the arms of another stretch, or start anew with them.

        Live, arms come and go before a round is closed, which is when the next decision is made; so they do here. What
        a learner that starts anew was waiting for is skipped.
        """
        before, clock, self.present = self.present, self.run.clock, stretch.arms
        assert before is not None
        if stretch.anew:
            self.began = stretch.first - 1
            self._start(stretch.arms.size, self.run.params)
            self.run.clock["skips"] = clock["skips"] + clock["outstanding"]
            for field in ("most_outstanding", "drift"):
                self.run.clock[field] = clock[field]
            return
        places = {arm: place for place, arm in enumerate(before.tolist())}
        kept = np.array([places.get(arm, NONE) for arm in stretch.arms.tolist()], dtype=np.int64)
        state = self.learner.rearmed(self.run.state, before.size, kept)
        rearm_memory(self.run.memory, kept, before.size)
        clock["patience"] = 0  # it may be less with other arms
        clock["pages"] = self.learner.page_count(state)
        self.run = self.run._replace(state=state, p=np.zeros(kept.size))
        skipped = compiled_close()(self.run, self.schedule)
        if self.notes.columns.size:
            self.notes.columns[(stretch.first - 2) % len(self.notes.columns), SKIPPED] = skipped

    @property
    def state(self) -> Floats:
        """The learner's state."""
        return self.run.state

    def count(self, field: str) -> Any:
        """Return a field of the clock."""
        return self.run.clock[field][0]

    def play(self, chunk: Chunk) -> Floats:
        """Play a chunk; return the sum of the expected losses of all decisions up to each of its rounds."""
        chunk, notes, before = self._begin(chunk)
        last = chunk.size - chunk.left_open
        self._play(chunk, notes, 0, last, before)
        if chunk.left_open:
            self.run.clock["patience"] = FOREVER  # nothing is skipped: `begin` closes the round
            self._play(chunk, notes, last, chunk.size, before)
        self._number(chunk, notes)
        return notes.paid

    def _begin(self, chunk: Chunk) -> tuple[Chunk, Notes, float]:
        """Return a chunk as this learner meets it, where to note its rounds, and what was paid before them."""
        before = float(self.notes.paid[-1])
        if self.notes.paid.size != chunk.size:
            self.notes = self.notes._replace(paid=np.empty(chunk.size))
        names = ("columns", "patience", "losses", "distributions", "estimates")
        rows = {name: self._rows(getattr(self.notes, name), chunk) for name in names}
        if self.present is not None:  # the loop knows those present only; `_number` puts them where they belong
            for name in ("distributions", "estimates"):
                rows[name] = np.empty((len(rows[name]), self.present.size))
            chunk = chunk.after(self.began)
        return chunk.settled(self.settled) if self.settled else chunk, self.notes._replace(**rows), before

    def _number(self, chunk: Chunk, notes: Notes) -> None:
        """Write what was noted of a chunk by the numbers that arms and rounds have for good."""
        if self.present is None:
            return
        for name, absent in (("distributions", 0.0), ("estimates", np.nan)):
            rows = self._rows(getattr(self.notes, name), chunk)
            rows[:] = absent
            rows[:, self.present] = getattr(notes, name)
        notes.columns[:, ARM] = self.present[notes.columns[:, ARM]]
        notes.columns[:, SKIPPED] += np.where(notes.columns[:, SKIPPED] > 0, self.began, 0)

    def decided(self, chunk: Chunk) -> Decided:
        """Return the decisions of the chunk that was just played."""
        columns = self._rows(self.notes.columns, chunk)
        losses, distributions = (self._rows(each, chunk) for each in (self.notes.losses, self.notes.distributions))
        return Decided(columns[:, ARM], losses, columns[:, DELAY], distributions)

    @staticmethod
    def _rows(kept: NDArray[Any], chunk: Chunk) -> NDArray[Any]:
        """Return the rows of a chunk; where fewer than all rounds are kept, those of an earlier one make room."""
        begin = (chunk.first - 1) % len(kept) if len(kept) else 0
        return kept[begin : begin + chunk.size]

    def _play(self, chunk: Chunk, notes: Notes, begin: int, end: int, before: float) -> None:
        while begin < end:
            with np.errstate(over="ignore"):  # coins wrap around; numpy would warn where nothing is compiled
                begin = compiled_play()(self.run, self.schedule, chunk.rounds, notes, begin, end, before)
            if begin < 0:
                raise self._bad_outcome(chunk, -1 - begin)
            if begin < end:
                self._make_room()

    def _make_room(self) -> None:
        if self.count("free") == NONE:
            self.run = self.run._replace(memory=enlarge(self.run.clock, self.run.memory))
        else:
            self.run = self.run._replace(state=self.learner.with_more_pages(self.run.state))
            self.run.clock["pages"] = self.learner.page_count(self.run.state)

    def _bad_outcome(self, chunk: Chunk, index: int) -> InvalidValue:
        rounds = chunk.rounds
        losses = rounds.losses[index] if rounds.losses.size else rounds.expected[min(index, len(rounds.expected) - 1)]
        return InvalidValue(
            f"round {chunk.first + index}: losses {losses} and delay {np.squeeze(rounds.delays[index])} were filled;"
            " losses from 0 to 1 and a delay of at least 0 are needed"
        )

    def finished_trace(self) -> Trace:
        """Return what happened in all rounds."""
        columns = self.notes.columns
        delays = columns[:, DELAY]
        losses = self.notes.losses
        if losses.size:
            losses = np.where(delays <= self.rounds - np.arange(1, len(columns) + 1), losses, np.nan)
        return Trace(
            arms=columns[:, ARM],
            distributions=self.notes.distributions,
            loss_estimates=self.notes.estimates,
            outstanding=columns[:, OUTSTANDING],
            patience=self.notes.patience,
            skipped=columns[:, SKIPPED],
            delays=delays,
            losses=losses,
            share_floor=self.tuned.share_floor,
        )


class PythonLearnerRun(LearnerRun):
    """A learner written in plain Python, in one replication: the compiled loop plays one round at a time for it.

    The loop asks a mailbox (`belated.learners.python_learner`) instead of a learner: what the object decides is put in
    before a round, outcomes are taken out after it.
    """

    def __init__(
        self,
        tuned: PythonLearner,
        n_arms: int,
        rounds: int,
        keep_trace: bool,
        rng: np.random.Generator,
        window: int | None = None,
        recent: int = 0,
        stretch: Stretch | None = None,
    ) -> None:
        super().__init__(tuned, n_arms, rounds, keep_trace, {}, window, recent, stretch)
        self.name = tuned.label
        self.make, self.rng = tuned.make, rng
        self.object: Any = tuned.make(self.run.p.size, rng)

    def begin(self, stretch: Stretch) -> None:
        super().begin(stretch)
        self.object = self.make(self.run.p.size, self.rng)

    def play(self, chunk: Chunk) -> Floats:
        chunk, notes, before = self._begin(chunk)
        for j in range(chunk.size):
            self._decide(chunk.first + j)
            self._play(chunk, notes, j, j + 1, before)
            self._learn()
        self._number(chunk, notes)
        return notes.paid

    def _decide(self, number: int) -> None:
        n_arms = self.run.p.size
        p = np.asarray(self.object.decide(int(self.count("outstanding"))), dtype=np.float64)
        if p.shape != (n_arms,) or not (p >= 0.0).all() or not abs(p.sum() - 1.0) < 1e-9:
            raise InvalidValue(
                f"round {number}: learner {self.name!r} decided {p.tolist()};"
                f" {n_arms} probabilities that sum to 1 are needed"
            )
        self.state[python_learner.FIRST_P : python_learner.FIRST_P + n_arms] = p
        if self.learner.patience:
            self.state[python_learner.PATIENCE] = self.object.patience()

    def _learn(self) -> None:
        state = self.state
        while state[python_learner.OUTBOX] != 0.0:
            page = pages.pop(state, python_learner.HEAD, python_learner.OUTBOX)
            begin = pages.begin(state, python_learner.HEAD, page)
            arm, loss, propensity, number = state[begin + 1 : begin + python_learner.PAGE_SIZE].tolist()
            pages.give_back(state, python_learner.HEAD, page)
            self.object.learn(int(arm), loss, propensity, int(number))
