"""What became of each decision: how long it was waited for, whether it was given up on, what was outstanding.

In the paper's words: sigma_t, D_t, the skipping threshold d_max^t, the wait dhat_s, the set S* of skipped rounds and
the implicit exploration lambda_{s,t}. Under `robust` none of them depends on losses or arms, only on the delays.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.learners import TunedLearner
from belated.simulation.run import LearnerRun, Trace, new_chunk

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PIECE = 1 << 14


@dataclass(frozen=True)
class Waiting:
    """How the decisions of one run were waited for; index 0 is round 1."""

    outstanding: Integers
    """sigma_t: how many decisions were waited for when round t opened."""
    patience: Floats
    """d_max^t: how long a decision is waited for, at the end of round t; inf where nothing is ever skipped."""
    ended: Integers
    """The round at whose end the decision of round s was waited for no more; 0 if it still was after the last."""
    skipped: NDArray[np.bool_]
    """Whether it ended by being given up on, rather than by its outcome."""

    def __post_init__(self) -> None:
        rounds = self.outstanding.size
        shapes = {name: np.shape(getattr(self, name)) for name in ("outstanding", "patience", "ended", "skipped")}
        if set(shapes.values()) != {(rounds,)}:
            raise InvalidValue(f"the shapes are {shapes}; one number for each round is needed of all four")
        early = (self.ended < np.arange(1, rounds + 1)) & (self.ended != 0)
        if early.any() or self.ended.max(initial=0) > rounds:
            s = int(np.flatnonzero(early | (self.ended > rounds))[0])
            raise InvalidValue(f"ended[{s}] is {self.ended[s]}; 0 or a round from {s + 1} to {rounds} is needed")

    @classmethod
    def of(cls, trace: Trace) -> "Waiting":
        """Return the waits of a trace: outcomes end a wait when they come, skips end it before."""
        rounds = trace.arms.size
        ended = np.minimum(trace.delays, rounds)
        ended += np.arange(1, rounds + 1)
        ended[ended > rounds] = 0
        when = np.flatnonzero(trace.skipped)
        skipped = np.zeros(rounds, dtype=np.bool_)
        skipped[trace.skipped[when] - 1] = True
        ended[trace.skipped[when] - 1] = when + 1
        return cls(np.ascontiguousarray(trace.outstanding), np.array(trace.patience), ended, skipped)

    @property
    def rounds(self) -> int:
        return self.outstanding.size

    @cached_property
    def cumulative(self) -> Integers:
        """D_t = sigma_1 + ... + sigma_t."""
        return np.cumsum(self.outstanding)

    @cached_property
    def last(self) -> Integers:
        """s + dhat_s: the last round of each wait, the very last where it goes on after that."""
        return np.where(self.ended > 0, self.ended, self.rounds)

    @cached_property
    def waited(self) -> Integers:
        """dhat_s, in rounds."""
        return self.last - np.arange(1, self.rounds + 1)

    @cached_property
    def most_outstanding(self) -> Integers:
        """sigma_max^t = the largest of sigma_1, ..., sigma_t."""
        return np.maximum.accumulate(self.outstanding) if self.rounds else self.outstanding

    @cached_property
    def explored(self) -> Floats:
        """lambda_{s,s+dhat_s}, the implicit exploration of each round."""
        return self.exploration(self.last)

    def exploration(self, until: Integers) -> Floats:
        """Return lambda_{s,t} = exp(-D_t / (D_t - D_s)) of each round s until the round t given for it; 0 where D_t =
        D_s.
        """
        now = self.cumulative[until - 1].astype(np.float64)
        grown = now - self.cumulative
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(grown > 0.0, np.exp(-now / grown), 0.0)


def follow(tuned: TunedLearner, n_arms: int, delays: Any) -> Waiting:
    """Return how a learner would wait for outcomes with these delays, if every loss were 0.

    It is the learner itself that plays, so what is counted and skipped is what a run counts and skips.
    """
    waits = np.ascontiguousarray(delays, dtype=np.int64)
    run = LearnerRun(tuned, n_arms, waits.size, True, {}, window=0)
    nothing = np.zeros((1, n_arms))
    for begin in range(0, waits.size, PIECE):
        piece = waits[begin : begin + PIECE]
        run.play(new_chunk(begin + 1, np.zeros(piece.size), piece, nothing, waits.size))
    return Waiting.of(run.finished_trace())
