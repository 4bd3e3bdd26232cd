"""Settled decisions in their order, in a few numbers an arm: what bandits and services keep for their estimates."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.inference.tally import Tally
from belated.inference.weighted_sums import WeightedSums
from belated.logs.log import Log

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OUTCOMES = ("settled", "arrived", "bounded")
"""Which outcomes are used: see `stream_of`."""


class Stream:
    """What the settled decisions so far amount to. The same decisions give the same bits, in however many pieces."""

    def __init__(self, n_arms: int) -> None:
        self.tally = Tally(n_arms)
        self.weighted = WeightedSums(n_arms)
        self.decisions: Integers = np.zeros(n_arms, dtype=np.int64)
        """Of each arm."""
        self._marks: Integers = np.zeros((2, n_arms), dtype=np.int64)
        """The same at the last two rounds that were powers of two."""

    @property
    def rounds(self) -> int:
        """The decisions in it."""
        return self.weighted.rounds

    def add(self, arms: Integers, rewards: Floats, propensities: Floats) -> None:
        """Go on by some decisions. The reward is nan where nobody knows it and nobody waits for it any more."""
        begin = 0
        while begin < arms.size:
            next_mark = 1 << self.rounds.bit_length()
            end = min(arms.size, begin + next_mark - self.rounds)
            self._add(arms[begin:end], rewards[begin:end], propensities[begin:end])
            if self.rounds == next_mark:
                self._marks = np.stack([self._marks[1], self.decisions])
            begin = end

    def _add(self, arms: Integers, rewards: Floats, propensities: Floats) -> None:
        np.add.at(self.decisions, arms, 1)
        is_known = ~np.isnan(rewards)
        self.tally.add(arms[is_known], rewards[is_known])
        self.weighted.add(arms, rewards, propensities)

    @property
    def unknown(self) -> Integers:
        """Decisions of each arm whose reward nobody knows."""
        return self.decisions - self.tally.known

    @property
    def pace(self) -> Floats:
        """The share of each arm among the last half of the decisions, or up to three quarters of them."""
        recent = self.decisions - self._marks[0]
        return recent / max(int(recent.sum()), 1)

    def copy(self) -> "Stream":
        """Return a stream of its own with the same numbers."""
        other = Stream(len(self.decisions))
        other.tally, other.weighted = self.tally.copy(), self.weighted.copy()
        other.decisions, other._marks = self.decisions.copy(), self._marks.copy()
        return other

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header and arrays, to go on exactly from here."""
        header = {"rounds": self.rounds, "reason": self.weighted.reason}
        arrays: dict[str, NDArray[Any]] = {"decisions": self.decisions, "marks": self._marks}
        arrays |= {f"tally_{name}": array for name, array in self.tally.to_arrays().items()}
        arrays["weighted"] = self.weighted.rows
        return header, arrays

    @classmethod
    def from_arrays(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Stream":
        stream = cls(len(arrays["decisions"]))
        stream.decisions = np.array(arrays["decisions"], dtype=np.int64)
        stream._marks = np.array(arrays["marks"], dtype=np.int64).reshape(2, -1)
        parts = {name: arrays[f"tally_{name}"] for name in ("counts", "known", "rewards")}
        stream.tally = Tally.from_arrays(parts)
        stream.weighted = WeightedSums.from_rows(arrays["weighted"], header["rounds"], header["reason"])
        return stream


def stream_of(log: Log, outcomes: str = "settled") -> Stream:
    """Return what the decisions of a log amount to.

    settled
        Those from the first on that all have their outcomes. Valid whatever delays depend on.
    arrived
        All that have an outcome. Valid where the time that an outcome takes does not depend on what it is.
    bounded
        All; a reward that is not known may be anything from 0 to 1.
    """
    stream = Stream(len(log.labels))
    if outcomes == "settled":
        kept: Any = slice(0, log.settled)
    else:
        kept = ~np.isnan(log.rewards) if outcomes == "arrived" else slice(None)
    stream.add(log.arms[kept], log.rewards[kept], log.propensities[kept])
    return stream
