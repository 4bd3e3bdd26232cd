"""Settled decisions in their order, in a few numbers an arm: what bandits and services keep for their estimates."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.inference.bets import MAX_ARMS, Bets
from belated.inference.level import Level
from belated.inference.tally import Tally
from belated.logs.changes import Change, check_change, check_present
from belated.logs.log import Log

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

OUTCOMES = ("settled", "arrived", "bounded")
"""Which outcomes are used: see `stream_of`."""


class Stream:
    """What the settled decisions so far amount to. The same decisions give the same bits, in however many pieces.

    Arms may come and go between two decisions. A change may be noted before the decisions that it follows are added; it
    then waits for them.
    """

    def __init__(self, n_arms: int, floors: Floats | None = None) -> None:
        """floors: the least probability of each arm that is guaranteed before the first decision."""
        self.tally = Tally(n_arms)
        self.bets: Bets | None = Bets(n_arms, floors) if n_arms <= MAX_ARMS else None
        """None where there are too many arms."""
        self.level = Level(n_arms)
        self.present: Mask = np.ones(n_arms, dtype=np.bool_)
        """Which arms are there after the decisions so far."""
        self.rounds = 0
        """The decisions in it."""
        self.decisions: Integers = np.zeros(n_arms, dtype=np.int64)
        """Of each arm."""
        self._marks: Integers = np.zeros((2, n_arms), dtype=np.int64)
        """The same at the last two rounds that were powers of two."""
        self.first_arms = n_arms
        """How many arms there were at the beginning."""
        self.has_changed = False
        """Whether a change was ever noted."""
        self.present_now: Mask = np.ones(n_arms, dtype=np.bool_)
        """Which arms are there after all changes that were noted."""
        self.left_out = 0
        """Decisions that were passed over, since only those count whose outcomes have arrived."""
        self._waiting: list[Change] = []
        self._uniform: Floats = np.zeros(n_arms)
        """How often each arm would have been chosen by uniform play, up to the last change."""
        self._since = 0
        """The rounds up to then."""

    @property
    def seen(self) -> int:
        """The decisions in it, and those that were passed over."""
        return self.rounds + self.left_out

    def guarantee(self, floors: Floats) -> None:
        """Take the least probabilities of the arms that are guaranteed; before the first decision only."""
        if self.bets is not None:
            self.bets.guarantee(floors)

    def change(self, after: int, arm: int, present: bool) -> None:
        """Note that an arm came or left after so many decisions. A new arm has the next number.

        Changes are noted in their order, and not after decisions that follow them were added.
        """
        change = Change(after, arm, bool(present))
        earliest = max(self.seen, self._waiting[-1].after if self._waiting else 0)
        check_change(change, self.present_now, earliest)
        if arm == len(self.decisions):
            self._grow()
        self.has_changed = True
        self.present_now[arm] = present
        self._waiting.append(change)
        self._let_change()

    def _grow(self) -> None:
        self.tally.grow()
        self.level.grow()
        if self.bets is not None:
            self.bets = None if len(self.decisions) >= MAX_ARMS else self.bets
        if self.bets is not None:
            self.bets.grow()
        self.present = np.append(self.present, False)
        self.decisions = np.append(self.decisions, 0)
        self._marks = np.concatenate([self._marks, np.zeros((2, 1), dtype=np.int64)], axis=1)
        self.present_now = np.append(self.present_now, False)
        self._uniform = np.append(self._uniform, 0.0)

    def _let_change(self) -> None:
        """Let those changes take effect whose time has come."""
        while self._waiting and self._waiting[0].after == self.seen:
            self._uniform, self._since = self._uniform_so_far(), self.rounds
            change = self._waiting.pop(0)
            self.present[change.arm] = change.present
            if self.bets is not None:
                self.bets.change(change.arm, change.present)

    def _uniform_so_far(self) -> Floats:
        return self._uniform + self.present * ((self.rounds - self._since) / np.count_nonzero(self.present))

    @property
    def uniform(self) -> Floats:
        """The share that each arm would have had by uniform play: the mean over decisions of [it was there] / (number
        of arms that were).
        """
        if not self.has_changed:
            return np.full(self.first_arms, 1.0 / self.first_arms)
        return self._uniform_so_far() / max(self.rounds, 1)

    def add(
        self,
        arms: Integers,
        rewards: Floats,
        propensities: Floats,
        distributions: Floats | None = None,
        *,
        arrived: bool = False,
    ) -> None:
        """Go on by some decisions. The reward is nan where nobody knows it and nobody waits for it any more.

        propensities: of the arms that were chosen. distributions: of every arm, a row for each decision, nan where they
        are not known; where two arms are there, the propensity says it all.
        arrived: leave out those without a reward; they count for the times of changes only.
        """
        self._check(arms)
        if distributions is None:
            distributions = np.full((arms.size, len(self.decisions)), np.nan)
        distributions = distributions[:, : len(self.decisions)]
        begin = 0
        while self._waiting and self._waiting[0].after <= self.seen + arms.size - begin:
            part = slice(begin, begin + self._waiting[0].after - self.seen)
            self._add_kept(arms[part], rewards[part], propensities[part], distributions[part], arrived)
            begin = part.stop
            self._let_change()
        part = slice(begin, None)
        self._add_kept(arms[part], rewards[part], propensities[part], distributions[part], arrived)

    def presence(self, size: int) -> Iterator[tuple[int, int, Mask]]:
        """Yield (begin, end, which arms are there) for so many decisions to come."""
        present, begin = self.present.copy(), 0
        for change in self._waiting:
            end = min(change.after - self.seen, size)
            yield begin, end, present
            present[change.arm], begin = change.present, end
        yield begin, size, present

    def _check(self, arms: Integers) -> None:
        """Refuse decisions of arms that are not there then."""
        if self.has_changed:
            for begin, end, present in self.presence(arms.size):
                check_present(arms[begin:end], present, self.seen + begin)

    def _add_kept(
        self, arms: Integers, rewards: Floats, propensities: Floats, distributions: Floats, arrived: bool
    ) -> None:
        if arrived:
            kept = ~np.isnan(rewards)
            self.left_out += int(np.count_nonzero(~kept))
            arms, rewards, propensities, distributions = (
                arms[kept],
                rewards[kept],
                propensities[kept],
                distributions[kept],
            )
        begin = 0
        while begin < arms.size:
            next_mark = 1 << self.rounds.bit_length()
            end = min(arms.size, begin + next_mark - self.rounds)
            part = slice(begin, end)
            self._add(arms[part], rewards[part], propensities[part], distributions[part])
            if self.rounds == next_mark:
                self._marks = np.stack([self._marks[1], self.decisions])
            begin = end

    def _add(self, arms: Integers, rewards: Floats, propensities: Floats, distributions: Floats) -> None:
        self.rounds += arms.size
        np.add.at(self.decisions, arms, 1)
        is_known = ~np.isnan(rewards)
        self.tally.add(arms[is_known], rewards[is_known])
        self.level.add(arms, rewards)
        if self.bets is not None:
            self.bets.add(arms, rewards, self._chances(arms, propensities, distributions))

    def _chances(self, arms: Integers, propensities: Floats, distributions: Floats) -> Floats:
        """Return the probability of every arm at each decision: 0 for those that are not there, nan for unknown."""
        rows = np.arange(arms.size)
        chances = distributions.copy()
        if np.count_nonzero(self.present) == 2:
            chances[:] = (1.0 - propensities)[:, None]
        chances[propensities == 1.0] = 0.0
        chances[:, ~self.present] = 0.0
        chances[rows, arms] = propensities
        return chances

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
        other = Stream(self.first_arms)
        other.tally, other.bets = self.tally.copy(), None if self.bets is None else self.bets.copy()
        other.level = self.level.copy()
        other.present, other.rounds = self.present.copy(), self.rounds
        other.decisions, other._marks = self.decisions.copy(), self._marks.copy()
        other.has_changed, other.present_now = self.has_changed, self.present_now.copy()
        other.left_out, other._waiting = self.left_out, list(self._waiting)
        other._uniform, other._since = self._uniform, self._since
        return other

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header and arrays, to go on exactly from here."""
        header: dict[str, Any] = {"rounds": self.rounds}
        if self.left_out:
            header["left_out"] = self.left_out
        if self.has_changed:
            header["changes"] = {
                "first_arms": self.first_arms,
                "present": np.flatnonzero(self.present).tolist(),
                "uniform": self._uniform.tolist(),
                "since": self._since,
                "waiting": [list(change) for change in self._waiting],
            }
        arrays: dict[str, NDArray[Any]] = {"decisions": self.decisions, "marks": self._marks}
        arrays |= {f"tally_{name}": array for name, array in self.tally.to_arrays().items()}
        arrays |= {f"level_{name}": array for name, array in self.level.to_arrays().items()}
        if self.bets is not None:
            arrays |= {f"bets_{name}": array for name, array in self.bets.to_arrays().items()}
        return header, arrays

    @classmethod
    def from_arrays(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Stream":
        """Go on from what another one had. A header without changes is of arms that stay."""
        stream = cls(len(arrays["decisions"]))
        stream.decisions = np.array(arrays["decisions"], dtype=np.int64)
        stream._marks = np.array(arrays["marks"], dtype=np.int64).reshape(2, -1)
        parts = {name: arrays[f"tally_{name}"] for name in ("counts", "known", "rewards")}
        stream.tally = Tally.from_arrays(parts)
        stream.rounds = header["rounds"]
        stream.level = Level.from_arrays({name: arrays[f"level_{name}"] for name in ("numbers", "sizes")})
        bets = {name: arrays[f"bets_{name}"] for name in ("numbers", "shifts", "arms") if f"bets_{name}" in arrays}
        stream.bets = Bets.from_arrays(bets) if bets else None
        stream.left_out = header.get("left_out", 0)
        if "changes" in header:
            stream._take_changes(**header["changes"])
        return stream

    def _take_changes(
        self,
        first_arms: int,
        present: list[int],
        uniform: list[float],
        since: int,
        waiting: list[list[Any]],
    ) -> None:
        self.has_changed, self.first_arms = True, first_arms
        self.present[:] = np.isin(np.arange(len(self.decisions)), present)
        self._uniform, self._since = np.array(uniform), since
        self._waiting = [Change(*each) for each in waiting]
        self.present_now = self.present.copy()
        for change in self._waiting:
            self.present_now[change.arm] = change.present


def stream_of(log: Log, outcomes: str = "settled") -> Stream:
    """Return what the decisions of a log amount to.

    settled
        Those from the first on that all have their outcomes. Valid whatever delays depend on.
    arrived
        All that have an outcome. Valid where the time that an outcome takes depends neither on what it is nor on the
        arm.
    bounded
        All; a reward that is not known may be anything from 0 to 1.
    """
    stream = Stream(log.first_arms, None if log.floors is None else np.array(log.floors[: log.first_arms]))
    for change in log.changes:
        if change.after <= log.arms.size:  # others are still to come
            stream.change(*change)
    kept = slice(0, log.settled) if outcomes == "settled" else slice(None)
    distributions = None if log.distributions is None else log.distributions[kept]
    stream.add(log.arms[kept], log.rewards[kept], log.propensities[kept], distributions, arrived=outcomes == "arrived")
    return stream
