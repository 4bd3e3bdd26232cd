"""What every method of estimating has in common: which outcomes are used, which pairs are compared, who leads."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, check_alpha, unknown
from belated.inference.estimates import (
    ArmEstimate,
    Difference,
    Estimate,
    Estimates,
    deadline_note,
    movement_note,
    unknown_note,
)
from belated.inference.shares import Shares
from belated.inference.stream import OUTCOMES, Stream
from belated.logs.log import Arm

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Pair = tuple[int, int]

METHODS = ("randomisation", "betting", "aipw")
MOST_PAIRS = 20
"""Arms up to which all are compared with each other."""

SAME_MEANS = "Each arm's mean reward stays the same over time, whatever happened before."
TRUE_PROPENSITIES = "Propensities are the true probabilities, and every arm had a chance in every round."
FAIR_ARRIVALS = (
    "When an outcome comes depends neither on what it is nor on the arm. If good outcomes come sooner, this is wrong."
)
ONE_LOOK = "With outcomes that are still to come, statements hold at one look; with settled ones, at all looks."


class Options(NamedTuple):
    """How to estimate."""

    alpha: float = 0.05
    control: Arm | None = None
    method: str | None = None
    """None: by randomisation, where decisions were open; by betting elsewhere."""
    outcomes: str = "settled"
    per_day: float | None = None
    """Decisions that are made in a day; None where nobody knows."""
    deadline: tuple[str, float] | None = None
    """That was applied to the log: after what, in words, and the loss that a missing outcome stands for."""

    def check(self, labels: Sequence[Arm]) -> "Options":
        """Return the same, or raise an error that names what is wrong."""
        check_alpha(self.alpha)
        if self.method is not None and self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.outcomes not in OUTCOMES:
            raise unknown("outcomes", self.outcomes, OUTCOMES)
        if self.control is not None and self.control not in labels:
            raise unknown("control", self.control, [str(label) for label in labels])
        if self.method == "aipw" and self.outcomes != "settled":
            raise InvalidValue(
                f"outcomes is {self.outcomes!r}, which method {self.method!r} cannot use; 'settled' is needed",
                "outcomes",
            )
        return self


class Counted(NamedTuple):
    """How many decisions there are of each arm, and how many of all wait for an outcome."""

    decisions: Integers
    waiting: int


class Method(ABC):
    """One way to estimate, on the decisions at hand."""

    name: str
    means: Floats
    """Of each arm; nan where nothing is known."""
    moving = False
    """Whether statements hold where means move."""
    assumptions: tuple[str, ...]

    def __init__(self, stream: Stream, labels: Sequence[Arm], counted: Counted, options: Options) -> None:
        self.stream, self.labels, self.counted, self.options = stream, tuple(labels), counted, options
        self.n_arms = len(self.labels)
        self.present = stream.present_now
        """Which arms are there now: those that may lead, and are compared."""
        self.shares = Shares(stream.first_arms, self.n_arms, stream.has_changed)

    @property
    def leader(self) -> int | None:
        """The arm with the largest mean of those that are there; None where nothing is known of them."""
        means = np.where(self.present, self.means, np.nan)
        return None if np.isnan(means).all() else int(np.nanargmax(means))

    def rivals(self, leader: int) -> Integers:
        """Return the other arms that are there."""
        return np.flatnonzero(self.present & (np.arange(self.n_arms) != leader))

    @abstractmethod
    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        """Return the ends of an interval for each arm, which hold together with probability 1 - alpha."""

    def difference(self, pair: Pair) -> float:
        """Return the estimate of the difference of a pair."""
        return float(self.means[pair[0]] - self.means[pair[1]])

    @abstractmethod
    def differences(self, pairs: Sequence[Pair], alpha: float, control: int | None) -> tuple[Floats, Floats]:
        """Return the ends of an interval for the difference of each pair, which hold together.

        control: the second arm of all pairs, if it was chosen beforehand.
        """

    @abstractmethod
    def p_value(self, leader: int) -> float:
        """Return the least alpha at which the leader is better than all others that are there."""

    @abstractmethod
    def margins(self, leader: int) -> Floats:
        """Return a number for each of its rivals, in order: the less, the less sure it is that the leader is better."""

    @property
    def candidates(self) -> list[int]:
        """The arms that are not ruled out as the best."""
        return np.flatnonzero(self.present).tolist()

    @property
    def is_plain(self) -> bool:
        """Whether averages are plain ones over the decisions so far."""
        return False

    @property
    def named(self) -> tuple[int, int] | None:
        """An arm that has been shown to be better than all others at some time, and after how many decisions."""
        return None

    def progress(self, leader: int) -> float | None:
        """Return the evidence for the leader as a share of what is needed; None: that is not known."""
        return None

    def more(self, leader: int) -> tuple[int, int | None] | None:
        """Return how many more decisions it takes until an arm wins, as a range; None: no telling."""
        return None

    def uplift(self, control: int | None, alpha: float) -> Estimate | None:
        """Return how much more reward a decision brought than uniform play, or than always playing the control."""
        return None

    def estimates(self) -> Estimates:
        """Return everything."""
        options, alpha = self.options, self.options.alpha
        lows, highs = self.intervals(alpha)
        leader = self.leader
        p_value = 1.0 if leader is None else self.p_value(leader)
        rival = None
        if leader is not None:
            rival = int(self.rivals(leader)[np.argmin(self.margins(leader))])
        wins = leader is not None and p_value <= alpha
        control = None if options.control is None else self.labels.index(options.control)
        is_empty = not self.stream.rounds
        return Estimates(
            method=self.name,
            outcomes=options.outcomes,
            alpha=alpha,
            decisions=int(self.counted.decisions.sum()),
            used=self.stream.rounds,
            waiting=self.counted.waiting,
            arms=tuple(
                ArmEstimate(label, decisions, known, Estimate(mean, low, high))
                for label, decisions, known, mean, low, high in zip(
                    self.labels,
                    self.counted.decisions.tolist(),
                    self.stream.tally.known.tolist(),
                    self.means.tolist(),
                    lows.tolist(),
                    highs.tolist(),
                    strict=True,
                )
            ),
            control=options.control,
            differences=self._differences(control),
            leader=None if leader is None else self.labels[leader],
            rival=None if rival is None else self.labels[rival],
            p_value=p_value,
            winner=self.labels[leader] if wins and leader is not None else None,
            candidates=tuple(self.labels[arm] for arm in self.candidates),
            average="same" if not self.moving else "plain" if self.is_plain else "open",
            progress=None if leader is None else 1.0 if wins else self.progress(leader),
            named=None if self.named is None else (self.labels[self.named[0]], self.named[1]),
            more=None if wins or leader is None else self.more(leader),
            uplift=None if is_empty else self.uplift(None, alpha),
            uplift_to_control=None if is_empty or control is None else self.uplift(control, alpha),
            assumptions=(*self.assumptions, *self._assumed_of_outcomes),
            notes=self.notes,
            retired=self._retired,
            deadline=options.deadline,
            per_day=options.per_day,
            movement=self.stream.level.movement(),
        )

    @property
    def _assumed_of_outcomes(self) -> list[str]:
        if self.options.outcomes == "settled":
            return []
        arrived = [FAIR_ARRIVALS] if self.options.outcomes == "arrived" else []
        return [*arrived, ONE_LOOK] if self.moving else arrived

    @property
    def _retired(self) -> tuple[Arm, ...]:
        return tuple(label for label, is_there in zip(self.labels, self.present.tolist(), strict=True) if not is_there)

    def _differences(self, control: int | None) -> tuple[Difference, ...]:
        pairs = self._pairs(control)
        if not pairs:
            return ()
        lows, highs = self.differences(pairs, self.options.alpha, control)
        return tuple(
            Difference(self.labels[a], self.labels[b], Estimate(self.difference((a, b)), low, high))
            for (a, b), low, high in zip(pairs, lows.tolist(), highs.tolist(), strict=True)
        )

    def _pairs(self, control: int | None) -> list[Pair]:
        """Return each arm that is there with the control, or all pairs, the better one first; none where there are very
        many.
        """
        if control is not None:
            return [(k, control) for k in self.rivals(control).tolist()]
        if np.count_nonzero(self.present) > MOST_PAIRS:
            return []
        order = np.argsort(-np.nan_to_num(self.means, nan=-1.0), kind="stable")
        ranked = order[self.present[order]].tolist()
        return [(a, b) for place, a in enumerate(ranked) for b in ranked[place + 1 :]]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the numbers."""
        total, used = int(self.counted.decisions.sum()), self.stream.rounds
        unknown_rewards = int(self.stream.unknown.sum())
        notes = []
        if self.options.outcomes == "settled" and used < total:
            note = f"The first {used:,} of {total:,} decisions are used: decision {used + 1:,} has no outcome yet."
            if 4 * self.counted.waiting <= total - used:
                note += (
                    " If it never comes, give missing outcomes a deadline, or ask for bounded outcomes (valid whatever"
                    " delays depend on) or for those that have arrived (valid if delays depend on neither outcomes nor"
                    " arms)."
                )
            notes.append(note)
        if unknown_rewards:
            notes.append(unknown_note(unknown_rewards))
        movement = self.stream.level.movement()
        if movement is not None:
            notes.append(movement_note(movement))
        if self.options.deadline is not None:
            notes.append(deadline_note(self.options.deadline))
        if self.stream.has_changed:
            note = "Arms came or left, so alpha is shared with those that may still come."
            if self._retired:
                left = ", ".join(map(str, self._retired))
                note += f" Compared are the arms that are there now; these have left: {left}."
            notes.append(note)
        if np.count_nonzero(self.present) > MOST_PAIRS and self.options.control is None:
            notes.append(f"With more than {MOST_PAIRS} arms, differences are given to a control only.")
        return tuple(notes)
