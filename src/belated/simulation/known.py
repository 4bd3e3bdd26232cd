"""When the best arm is known: after which round one would first have been told which arm wins.

One is whoever asks `belated.inference` for its winner, by betting, of settled decisions, at `ALPHA`: decisions count in
their order, as far as all of them have outcomes. So a decision counts from the round on by which its own outcome and
all earlier ones have come, a running maximum that never falls, and it is enough to count by the first look at or after
that round. Nothing else is kept of a run, however long it is.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.inference import capital
from belated.inference.tally import Tally

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


class Watch:
    """The outcomes of one learner in one replication, as far as they have settled by each look."""

    def __init__(self, n_arms: int, rounds: int) -> None:
        self.n_arms = n_arms
        self.rounds = rounds
        self.looks = looks(rounds)
        self._tally = Tally(self.looks.size * n_arms)
        """Of each arm in each interval between looks."""
        self._all_came = 0
        """The round by which all outcomes so far have come."""

    def add(self, first: int, arms: Integers, losses: Floats, delays: Integers) -> None:
        """Go on by consecutive rounds; `first` is the number of the first of them."""
        if self._all_came > self.rounds:
            return
        came = np.arange(first, first + arms.size) + np.minimum(delays, self.rounds)  # NEVER and more would overflow
        came = np.maximum(np.maximum.accumulate(came), self._all_came)
        self._all_came = int(came[-1])
        counted = slice(0, int(np.searchsorted(came, self.rounds, side="right")))
        intervals = np.searchsorted(self.looks, came[counted])
        self._tally.add(intervals * self.n_arms + arms[counted], 1.0 - losses[counted])

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
        level = math.log((self.n_arms - 1) / ALPHA)
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


def is_wrong(arm: int, expected: Floats) -> bool:
    """Return whether an arm was named that is not better than every other."""
    return arm >= 0 and bool((np.delete(expected, arm) <= expected[arm]).any())
