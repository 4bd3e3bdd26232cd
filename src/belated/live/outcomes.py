"""What came of a bandit's decisions, kept for its estimates.

Decisions go into a stream in their order, as far as they are settled. Those after the first one without an outcome are
kept one by one: 20 bytes each, at most MOST of them. Where more pile up, the oldest ones without an outcome count as
unknown from then on, and estimates allow for any reward of theirs.
"""

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.inference.method import Counted, Method, Options
from belated.inference.sources import method_for_stream
from belated.inference.stream import Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]

MOST = 1 << 20
"""Decisions kept one by one."""
FOLD = 1 << 12
"""Decisions that are noted before they are folded in, at least."""

_NO_ARMS = np.zeros(0, dtype=np.int32)
_NO_NUMBERS = np.zeros(0)


class Outcomes:
    """Notes of decisions and outcomes, in arrays that only grow; `folded` makes new ones of them.

    Nothing is changed in place but by appending, so that an interrupt never leaves half of a change.
    """

    __slots__ = ("_arms", "_propensities", "_rewards", "arms", "first", "losses", "propensities", "rounds", "stream")

    def __init__(
        self,
        stream: Stream,
        first: int = 1,
        arms: NDArray[np.int32] = _NO_ARMS,
        rewards: Floats = _NO_NUMBERS,
        propensities: Floats = _NO_NUMBERS,
    ) -> None:
        self.stream = stream
        self.first = first
        """The round of the first decision that is not in the stream."""
        self._arms, self._rewards, self._propensities = arms, rewards, propensities
        """Of the decisions from `first` on that were folded in before; a reward that has not come is nan."""
        self.arms = array("i")
        self.propensities = array("d")
        """Of decisions since."""
        self.rounds = array("q")
        self.losses = array("d")
        """Of outcomes since."""

    @property
    def last(self) -> int:
        """The round of the last decision that is noted."""
        return self.first + len(self._arms) + min(len(self.arms), len(self.propensities)) - 1

    @property
    def is_full(self) -> bool:
        """Whether it is time to fold in what was noted: not too often where much is kept."""
        return len(self.arms) >= max(FOLD, len(self._arms) // 4)

    def even(self) -> None:
        """Drop a note that an interrupt cut in half."""
        for first, second in ((self.arms, self.propensities), (self.rounds, self.losses)):
            size = min(len(first), len(second))
            del first[size:], second[size:]

    def folded(self) -> "Outcomes":
        """Return the same with all notes folded in."""
        self.even()
        arms = np.concatenate([self._arms, np.array(self.arms, dtype=np.int32)])
        propensities = np.concatenate([self._propensities, np.array(self.propensities)])
        rewards = np.concatenate([self._rewards, np.full(len(self.arms), np.nan)])
        at = np.array(self.rounds, dtype=np.int64) - self.first
        is_new = (at >= 0) & (at < arms.size)  # others count as unknown already
        is_new[is_new] = np.isnan(rewards[at[is_new]])
        # backwards, so that the first of two reports stays: an interrupt may leave one noted twice
        rewards[at[is_new][::-1]] = 1.0 - np.array(self.losses)[is_new][::-1]
        missing = np.isnan(rewards)
        settled = int(np.argmax(missing)) if missing.any() else arms.size
        settled = max(settled, arms.size - MOST)
        stream = self.stream
        if settled:
            stream = stream.copy()
            stream.add(arms[:settled].astype(np.int64), rewards[:settled], propensities[:settled])
        return Outcomes(stream, self.first + settled, arms[settled:], rewards[settled:], propensities[settled:])

    def changed(self, after: int, arm: int, present: bool) -> "Outcomes":
        """Return the same with a change noted: after a round an arm came, anew or back, or it left.

        A new arm has the next number. Decisions that are noted from then on may be of it.
        """
        folded = self.folded()
        stream = folded.stream.copy()
        begin = folded.first - 1 - stream.seen  # rounds before those that the stream knows of
        stream.change(after - begin, arm, present)
        return Outcomes(stream, folded.first, folded._arms, folded._rewards, folded._propensities)

    def method(self, labels: list[Arm], options: Options) -> Method:
        """Return the estimates' method on all that is folded in."""
        options.check(labels)
        arms, stream = self._arms.astype(np.int64), self.stream
        if options.outcomes != "settled":
            stream = stream.copy()
            stream.add(arms, self._rewards, self._propensities, arrived=options.outcomes == "arrived")
        waiting = int(np.count_nonzero(np.isnan(self._rewards))) + int(self.stream.unknown.sum())
        counted = Counted(self.stream.decisions + np.bincount(arms, minlength=len(labels)), waiting)
        return method_for_stream(stream, labels, counted, options)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header and arrays, all notes folded in, to go on exactly from here."""
        folded = self.folded()
        header, arrays = folded.stream.to_arrays()
        kept = {f"stream_{name}": part for name, part in arrays.items()}
        kept["tail_arms"] = folded._arms
        kept["tail_rewards"] = folded._rewards
        kept["tail_propensities"] = folded._propensities
        return {**header, "first": folded.first}, kept

    @classmethod
    def from_arrays(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Outcomes":
        parts = {name.removeprefix("stream_"): part for name, part in arrays.items() if name.startswith("stream_")}
        stream = Stream.from_arrays(header, parts)
        tail = (arrays["tail_arms"], arrays["tail_rewards"], arrays["tail_propensities"])
        return cls(stream, header["first"], *tail)
