"""What came of a bandit's decisions, kept for its estimates.

Decisions go into a stream in their order, as far as they are settled. Those after the first one without an outcome are
kept one by one: 20 bytes each, and 8 more for each arm where there are three or more, at most MAX_KEPT of them. Where
more pile up, the oldest ones without an outcome count as unknown from then on, and estimates allow for any reward of
theirs.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.inference.method import Counted, Method, Options
from belated.inference.sources import method_for_stream
from belated.inference.stream import Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]

MAX_KEPT = 1 << 20
"""Decisions kept one by one, if there are few arms."""
MAX_CHANCES = 1 << 23
"""Probabilities of arms that are kept with them."""
FOLD = 1 << 12
"""Decisions that are noted before they are folded in, at least."""

_NO_ARMS = np.zeros(0, dtype=np.int32)
_NO_NUMBERS = np.zeros(0)


class Outcomes:
    """Notes of decisions and outcomes, in arrays that only grow; `folded` makes new ones of them.

    Nothing is changed in place but by appending, so that an interrupt never leaves half of a change.
    """

    __slots__ = (
        "_arms",
        "_distributions",
        "_propensities",
        "_rewards",
        "arms",
        "chances",
        "first",
        "losses",
        "numbers",
        "propensities",
        "rounds",
        "stream",
    )

    def __init__(
        self,
        stream: Stream,
        numbers: Sequence[int],
        first: int = 1,
        arms: NDArray[np.int32] = _NO_ARMS,
        rewards: Floats = _NO_NUMBERS,
        propensities: Floats = _NO_NUMBERS,
        distributions: Floats | None = None,
    ) -> None:
        """numbers: of the arms that are played, as the learner has them."""
        self.stream = stream
        self.numbers = tuple(numbers)
        self.first = first
        """The round of the first decision that is not in the stream."""
        self._arms, self._rewards, self._propensities = arms, rewards, propensities
        """Of the decisions from `first` on that were folded in before; a reward that has not come is nan."""
        if distributions is None:
            distributions = np.zeros((len(arms), len(stream.decisions)))
        self._distributions = distributions
        """Of the same, by the numbers of arms; only where `keeps_chances`."""
        self.arms = array("i")
        self.propensities = array("d")
        """Of decisions since."""
        self.chances = array("d")
        """Of decisions since, the probabilities of the arms that are played; only where `keeps_chances`."""
        self.rounds = array("q")
        self.losses = array("d")
        """Of outcomes since."""

    @property
    def last(self) -> int:
        """The round of the last decision that is noted."""
        self.even()
        return self.first + len(self._arms) + len(self.arms) - 1

    @property
    def is_full(self) -> bool:
        """Whether it is time to fold in what was noted: not too often where much is kept."""
        return len(self.arms) >= max(FOLD, len(self._arms) // 4)

    @property
    def keeps_chances(self) -> bool:
        """Whether the probabilities of all arms are kept: of two arms the propensity of one says it all."""
        return self.stream.bets is not None and len(self.numbers) > 2

    def even(self) -> None:
        """Drop a note that an interrupt cut in half."""
        if self.keeps_chances:
            size = min(len(self.arms), len(self.propensities), len(self.chances) // len(self.numbers))
            del self.arms[size:], self.propensities[size:], self.chances[size * len(self.numbers) :]
        for first, second in ((self.arms, self.propensities), (self.rounds, self.losses)):
            size = min(len(first), len(second))
            del first[size:], second[size:]

    def folded(self) -> "Outcomes":
        """Return the same with all notes folded in."""
        self.even()
        arms = np.concatenate([self._arms, np.array(self.arms, dtype=np.int32)])
        propensities = np.concatenate([self._propensities, np.array(self.propensities)])
        distributions = np.concatenate([self._distributions, self._noted_distributions()])
        rewards = np.concatenate([self._rewards, np.full(len(self.arms), np.nan)])
        at = np.array(self.rounds, dtype=np.int64) - self.first
        is_new = (at >= 0) & (at < arms.size)  # others count as unknown already
        is_new[is_new] = np.isnan(rewards[at[is_new]])
        # backwards, so that the first of two reports stays: an interrupt may leave one noted twice
        rewards[at[is_new][::-1]] = 1.0 - np.array(self.losses)[is_new][::-1]
        missing = np.isnan(rewards)
        settled = int(np.argmax(missing)) if missing.any() else arms.size
        kept = min(MAX_KEPT, MAX_CHANCES // len(self.numbers)) if self.keeps_chances else MAX_KEPT
        settled = max(settled, arms.size - kept)
        stream = self.stream
        if settled:
            stream = stream.copy()
            first = slice(settled)
            stream.add(arms[first].astype(np.int64), rewards[first], propensities[first], distributions[first])
        rest = (each[settled:] for each in (arms, rewards, propensities, distributions))
        return Outcomes(stream, self.numbers, self.first + settled, *rest)

    def _noted_distributions(self) -> Floats:
        """Return the distributions of the decisions that were noted since, by the numbers of arms."""
        found = np.full((len(self.arms), len(self.stream.decisions)), np.nan)
        if self.keeps_chances:
            found[:] = 0.0
            found[:, self.numbers] = np.array(self.chances).reshape(len(self.arms), len(self.numbers))
        return found

    def guaranteed(self, floors: Floats) -> "Outcomes":
        """Return the same with the least probabilities of the arms, by number, that are guaranteed from the start."""
        folded = self.folded()
        folded.stream = folded.stream.copy()
        folded.stream.guarantee(floors)
        return folded

    def changed(self, after: int, arm: int, present: bool, numbers: Sequence[int]) -> "Outcomes":
        """Return the same with a change noted: after a round an arm came, anew or back, or it left.

        A new arm has the next number. Decisions that are noted from then on may be of it, and are among the arms of
        these numbers.
        """
        folded = self.folded()
        stream = folded.stream.copy()
        begin = folded.first - 1 - stream.seen  # rounds before those that the stream knows of
        stream.change(after - begin, arm, present)
        missing = len(stream.decisions) - folded._distributions.shape[1]
        distributions = np.pad(folded._distributions, ((0, 0), (0, missing)))
        return Outcomes(
            stream, numbers, folded.first, folded._arms, folded._rewards, folded._propensities, distributions
        )

    def method(self, labels: list[Arm], options: Options) -> Method:
        """Return the estimates' method on all that is folded in."""
        options.check(labels)
        arms, stream = self._arms.astype(np.int64), self.stream
        if options.outcomes != "settled":
            stream = stream.copy()
            is_arrived = options.outcomes == "arrived"
            stream.add(arms, self._rewards, self._propensities, self._distributions, arrived=is_arrived)
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
        if folded.keeps_chances or len(folded.stream.decisions) > 2:
            kept["tail_distributions"] = folded._distributions
        return {**header, "first": folded.first}, kept

    @classmethod
    def from_arrays(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], numbers: Sequence[int]) -> "Outcomes":
        parts = {name.removeprefix("stream_"): part for name, part in arrays.items() if name.startswith("stream_")}
        stream = Stream.from_arrays(header, parts)
        tail = (arrays["tail_arms"], arrays["tail_rewards"], arrays["tail_propensities"])
        distributions = arrays.get("tail_distributions", np.full(0, np.nan)).reshape(-1, len(stream.decisions))
        if len(distributions) != len(tail[0]):
            distributions = np.full((len(tail[0]), len(stream.decisions)), np.nan)
        return cls(stream, numbers, header["first"], *tail, distributions)
