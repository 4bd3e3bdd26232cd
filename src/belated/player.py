"""One learner in one replication: it plays chunks of rounds and keeps what happened."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import pages
from belated import rounds as protocol
from belated.calendar import new_calendar
from belated.environments import Floats
from belated.learners import TunedLearner, plain
from belated.learners.plain import PlainLearner
from belated.loop import ARM, BY_ROUND, COLUMNS, DELAY, OUTSTANDING, SKIPPED, compiled_play


@dataclass(frozen=True)
class Trace:
    """What one learner did in one replication, round by round; index 0 is round 1."""

    arms: NDArray[np.int64]
    distributions: Floats
    """x_t, shape (rounds, arms)."""
    loss_estimates: Floats
    """L at the end of each round, shape (rounds, arms)."""
    outstanding: NDArray[np.int64]
    """sigma_t, counted when the round opens."""
    patience: Floats
    """At the end of each round; inf for learners that never skip."""
    skipped: NDArray[np.int64]
    """The round given up on at the end of each round, or 0."""
    delays: NDArray[np.int64]
    """Of the decision of each round, as the law of delay had it; it may be skipped before."""


class Player:
    """One learner in one replication."""

    def __init__(
        self,
        tuned: TunedLearner,
        n_arms: int,
        rounds: int,
        keep_trace: bool,
        told: dict[str, float],
        wide: int | None = None,
    ) -> None:
        """`wide`: the last rounds whose distributions are kept; by default all, and loss estimates too, in a trace."""
        self.learner = learner = tuned.learner
        self.state = learner.new_state(n_arms)
        self.params = tuned.params_given(told)
        self.p = np.zeros(n_arms)
        self.clock = protocol.new_clock()
        learner.wire(self.clock)
        self.memory = protocol.enlarge(self.clock, protocol.new_memory())
        self.calendar = new_calendar()
        self.paid = np.zeros(1)
        kept = rounds if keep_trace else 0
        self.trace = np.zeros((kept, COLUMNS), dtype=np.int64)
        self.trace_patience = np.zeros(kept)
        self.trace_p = np.zeros((kept if wide is None else wide, n_arms))
        self.trace_losses = np.zeros((kept if wide is None else 0, n_arms))

    def play(self, chunk: "Chunk", horizon: int) -> Floats:
        """Play a chunk: the sum of the expected losses of all decisions up to each of its rounds."""
        before = float(self.paid[-1])
        if self.paid.size != chunk.draws.size:
            self.paid = np.empty(chunk.draws.size)
        reached = 0
        delays = chunk.delays.reshape(chunk.draws.size, -1)
        while True:
            with np.errstate(over="ignore"):  # coins wrap around; numpy would warn where nothing is compiled
                reached = compiled_play()(
                    self.state,
                    self.params,
                    self.clock,
                    self.memory,
                    self.calendar,
                    self.p,
                    chunk.draws,
                    chunk.losses,
                    delays,
                    chunk.by,
                    chunk.expected,
                    chunk.key,
                    reached,
                    horizon,
                    before,
                    self.paid,
                    self._rows(self.trace, chunk),
                    self._rows(self.trace_patience, chunk),
                    self._rows(self.trace_p, chunk),
                    self._rows(self.trace_losses, chunk),
                    *self.learner.losses_at,
                )
            if reached < 0:
                raise self._bad_outcome(chunk, -1 - reached)
            if reached == chunk.draws.size:
                return self.paid
            if self.clock[protocol.FREE] == protocol.NONE:
                self.memory = protocol.enlarge(self.clock, self.memory)
            else:
                self.state = self.learner.with_more_pages(self.state)
                self.clock[protocol.PAGES] = self.learner.page_count(self.state)

    @staticmethod
    def _rows(kept: NDArray[Any], chunk: "Chunk") -> NDArray[Any]:
        """The rows of a chunk; where fewer than all rounds are kept, those of an earlier one make room."""
        begin = (chunk.first - 1) % len(kept) if len(kept) else 0
        return kept[begin : begin + chunk.draws.size]

    def _bad_outcome(self, chunk: "Chunk", index: int) -> ValueError:
        losses = chunk.losses[index] if chunk.losses.size else chunk.expected[min(index, len(chunk.expected) - 1)]
        return ValueError(
            f"round {chunk.first + index}: losses {losses} and delay {chunk.delays[index]} were filled;"
            " losses from 0 to 1 and a delay of at least 0 are needed"
        )

    def finished_trace(self) -> Trace:
        return Trace(
            arms=self.trace[:, ARM],
            distributions=self.trace_p,
            loss_estimates=self.trace_losses,
            outstanding=self.trace[:, OUTSTANDING],
            patience=self.trace_patience,
            skipped=self.trace[:, SKIPPED],
            delays=self.trace[:, DELAY],
        )


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rounds, as every learner of a replication meets them."""

    first: int
    draws: Floats
    losses: Floats
    delays: NDArray[np.int64]
    expected: Floats
    key: np.uint64
    by: int = BY_ROUND


class PlainPlayer(Player):
    """A learner written in plain Python, in one replication: the compiled loop plays one round at a time for it.

    The loop asks a mailbox (`belated.learners.plain`) instead of a learner: what the object decides is put in before a
    round, outcomes are taken out after it.
    """

    def __init__(
        self,
        tuned: PlainLearner,
        n_arms: int,
        rounds: int,
        keep_trace: bool,
        rng: np.random.Generator,
        wide: int | None = None,
    ) -> None:
        super().__init__(tuned, n_arms, rounds, keep_trace, {}, wide)
        self.name = tuned.label
        self.object: Any = tuned.make(n_arms, rng)

    def play(self, chunk: Chunk, horizon: int) -> Floats:
        paid = np.empty(chunk.draws.size)
        for j in range(chunk.draws.size):
            here = slice(j, j + 1)
            self._decide(chunk.first + j)
            one = Chunk(
                first=chunk.first + j,
                draws=chunk.draws[here],
                losses=chunk.losses[here],
                delays=chunk.delays[here],
                expected=chunk.expected[here] if len(chunk.expected) > 1 else chunk.expected,
                key=chunk.key,
                by=chunk.by,
            )
            paid[j] = super().play(one, horizon)[0]
            self._learn()
        self.paid = paid[-1:]
        return paid

    def _decide(self, number: int) -> None:
        p = np.asarray(self.object.decide(int(self.clock[protocol.OUTSTANDING])), dtype=np.float64)
        if p.shape != self.p.shape or not (p >= 0.0).all() or not abs(p.sum() - 1.0) < 1e-9:
            raise ValueError(
                f"round {number}: learner {self.name!r} decided {p.tolist()};"
                f" {self.p.size} probabilities that sum to 1 are needed"
            )
        self.state[plain.FIRST_P : plain.FIRST_P + p.size] = p
        if self.learner.patience:
            self.state[plain.PATIENCE] = self.object.patience()

    def _learn(self) -> None:
        while self.state[plain.OUTBOX] != 0.0:
            page = pages.pop(self.state, plain.HEAD, plain.OUTBOX)
            begin = pages.begin(self.state, plain.HEAD, page)
            arm, loss, propensity, number = self.state[begin + 1 : begin + plain.PAGE_SIZE].tolist()
            pages.give_back(self.state, plain.HEAD, page)
            self.object.learn(int(arm), loss, propensity, int(number))
