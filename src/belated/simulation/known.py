"""When the best arm is known: after which round one would first have been told which arm wins.

One is whoever asks `belated.inference` for its winner, of settled decisions, at `ALPHA`: by randomisation, or by
betting where a learner chooses with certainty or arms are too many. Decisions count in their order, as far as all of
them have outcomes. So a decision counts from the round on by which its own outcome and all earlier ones have come, a
running maximum that never falls, and it is enough to count by the first look at or after that round. Nothing else is
kept of a run, however long it is.
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.inference import capital
from belated.inference.bets import MAX_ARMS, PairBets
from belated.inference.tally import Tally
from belated.learners import TunedLearner
from belated.simulation.run import Decided

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALPHA = 0.05
"""The probability with which a wrong arm may ever be named."""
FIRST_LOOK = 10
LOOKS = 60


class Known(NamedTuple):
    """After which round an arm was named, and which."""

    round: float
    """inf: by the last round none was."""
    arm: int
    """-1: none."""


def looks(rounds: int) -> Integers:
    """Return the rounds after which one looks: about 60 by equal factors apart, from 10 to the last."""
    return np.unique(np.rint(np.geomspace(min(FIRST_LOOK, rounds), rounds, LOOKS)).astype(np.int64))


class Watch(ABC):
    """One learner in one replication, looked at from time to time."""

    def __init__(self, n_arms: int, rounds: int) -> None:
        self.n_arms = n_arms
        self.rounds = rounds
        self.looks = looks(rounds)
        self._all_came = 0
        """The round by which all outcomes so far have come."""

    def add(self, first: int, decided: Decided) -> None:
        """Go on by consecutive rounds; `first` is the number of the first of them."""
        if self._all_came > self.rounds:
            return
        delays = np.minimum(decided.delays, self.rounds)  # NEVER and more would overflow
        came = np.maximum.accumulate(np.arange(first, first + delays.size) + delays)
        came = np.maximum(came, self._all_came)
        self._all_came = int(came[-1])
        counted = slice(0, int(np.searchsorted(came, self.rounds, side="right")))
        self._settle(np.searchsorted(self.looks, came[counted]), decided.part(counted))

    @abstractmethod
    def _settle(self, intervals: Integers, decided: Decided) -> None:
        """Take decisions that are settled by the looks of these indices, which do not fall."""

    @abstractmethod
    def first(self) -> Known:
        """Return the first look at which an arm wins."""


class RandomisationWatch(Watch):
    """Looks by bets on the recorded randomisation."""

    def __init__(self, n_arms: int, rounds: int, floor: float) -> None:
        super().__init__(n_arms, rounds)
        self._bets = PairBets(n_arms, floor)
        self._next = 0
        """The index of the next look."""
        self._known: Known | None = None

    def _settle(self, intervals: Integers, decided: Decided) -> None:
        begin = 0
        while self._known is None and begin < intervals.size:
            if intervals[begin] > self._next:  # all that is settled by the next look is in
                self._look()
                continue
            end = int(np.searchsorted(intervals, self._next, side="right"))
            part = slice(begin, end)
            self._bets.add(decided.arms[part], 1.0 - decided.losses[part], decided.distributions[part])
            begin = end

    def _look(self) -> None:
        winner = self._bets.winner(ALPHA)
        if winner >= 0:
            self._known = Known(float(self.looks[self._next]), winner)
        self._next += 1

    def first(self) -> Known:
        while self._known is None and self._next < self.looks.size:
            self._look()
        return self._known or Known(math.inf, -1)


class BettingWatch(Watch):
    """Looks by betting: of a learner that chooses with certainty, or of very many arms."""

    def __init__(self, n_arms: int, rounds: int) -> None:
        super().__init__(n_arms, rounds)
        self._tally = Tally(self.looks.size * n_arms)
        """Of each arm in each interval between looks."""

    def _settle(self, intervals: Integers, decided: Decided) -> None:
        self._tally.add(intervals * self.n_arms + decided.arms, 1.0 - decided.losses)

    def first(self) -> Known:
        """Return the first look at which an arm wins.

        Evidence need not grow from look to look. To find the first look without weighing all arms at all of them, the
        leader is weighed against one other arm first, at one mean: that is never less than the evidence.
        """
        shape = (self.looks.size, self.n_arms)
        outcomes = self._tally.known.reshape(shape).cumsum(axis=0)
        at = np.flatnonzero((outcomes > 0).all(axis=1))  # of an arm without outcomes there is no evidence
        if not at.size:
            return Known(math.inf, -1)
        outcomes = outcomes[at]
        rewards = self._tally.rewards.reshape(shape).cumsum(axis=0)[at]
        counts = self._tally.counts.reshape(*shape, -1).cumsum(axis=0)[at]
        leaders = (rewards / outcomes).argmax(axis=1)
        others = self._closest(outcomes, rewards, counts, leaders)
        level = math.log(self.n_arms / ALPHA)
        for k in np.flatnonzero(self._most_evidence(outcomes, rewards, counts, leaders, others) >= level).tolist():
            leader = int(leaders[k])
            if self._evidence(counts[k], leader, np.array([others[k]])) < level:
                continue
            if self._evidence(counts[k], leader, np.delete(np.arange(self.n_arms), leader)) >= level:
                return Known(float(self.looks[at[k]]), leader)
        return Known(math.inf, -1)

    def _closest(self, outcomes: Integers, rewards: Floats, counts: Floats, leaders: Integers) -> Integers:
        """Return at each look the arm that seems hardest to tell from the leader: a guess, to begin with."""
        means = rewards / outcomes
        errors = (counts @ self._tally.places**2 / outcomes - means**2 + 1.0 / outcomes) / outcomes
        rows = np.arange(leaders.size)
        gaps = means[rows, leaders][:, None] - means
        scores = gaps**2 / (errors + errors[rows, leaders][:, None])
        scores[rows, leaders] = np.inf
        return scores.argmin(axis=1)

    def _most_evidence(
        self, outcomes: Integers, rewards: Floats, counts: Floats, leaders: Integers, others: Integers
    ) -> Floats:
        """Return what the evidence for the leader against another arm is at most: the capital at their common mean."""
        rows, places = np.arange(leaders.size), self._tally.places
        total = outcomes[rows, leaders] + outcomes[rows, others]
        m = np.minimum((rewards[rows, leaders] + rewards[rows, others]) / total, 1.0)
        above = capital.log_capital(counts[rows, leaders], places, m)
        return above + capital.log_capital(counts[rows, others][:, ::-1], places, 1.0 - m)

    def _evidence(self, counts: Floats, leader: int, others: Integers) -> float:
        """Return the least evidence that the leader is better than one of the others."""
        first = np.broadcast_to(counts[leader], (others.size, counts.shape[1]))
        return float(capital.log_evidence(first, counts[others], self._tally.places).min())


def watch_of(tuned: TunedLearner, n_arms: int, rounds: int) -> Watch:
    """Return the looks at a learner, by the method that `belated.inference` uses for it."""
    if n_arms > MAX_ARMS or (tuned.learner.deterministic and not tuned.share_floor):
        return BettingWatch(n_arms, rounds)
    return RandomisationWatch(n_arms, rounds, tuned.share_floor)


def is_wrong(arm: int, expected: Floats) -> bool:
    """Return whether an arm was named that is not better than every other."""
    return arm >= 0 and bool((np.delete(expected, arm) <= expected[arm]).any())
