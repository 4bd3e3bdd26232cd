"""What every method of estimating has in common: which outcomes are used, which pairs are compared, who leads."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue, unknown
from belated.inference.estimates import ArmEstimate, Difference, Estimate, Estimates
from belated.inference.stream import OUTCOMES, Stream
from belated.logs.log import Arm
from belated.templates.display import counted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Pair = tuple[int, int]

METHODS = ("betting", "weighted", "aipw")
MOST_PAIRS = 20
"""Arms up to which all are compared with each other."""

SAME_MEANS = "Each arm's mean reward stays the same over time, whatever happened before."
TRUE_PROPENSITIES = "Propensities are the true probabilities, and every arm had a chance in every round."
FAIR_ARRIVALS = "When an outcome comes does not depend on what it is. If good outcomes come sooner, this is wrong."


class Options(NamedTuple):
    """How to estimate."""

    alpha: float = 0.05
    control: Arm | None = None
    method: str = "betting"
    outcomes: str = "settled"
    deadline: tuple[str, float] | None = None
    """That was applied to the log: after what, in words, and the loss that a missing outcome stands for."""

    def check(self, labels: Sequence[Arm]) -> "Options":
        """Return the same, or raise an error that names what is wrong."""
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float) or not 0.0 < self.alpha < 1.0:
            raise InvalidValue(f"alpha is {self.alpha!r}; a number above 0 and below 1 is needed", "alpha")
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.outcomes not in OUTCOMES:
            raise unknown("outcomes", self.outcomes, OUTCOMES)
        if self.control is not None and self.control not in labels:
            raise unknown("control", self.control, [str(label) for label in labels])
        if self.method != "betting" and self.outcomes != "settled":
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

    means: Floats
    """Of each arm; nan where nothing is known."""
    assumptions: tuple[str, ...]

    def __init__(self, stream: Stream, labels: Sequence[Arm], counted: Counted, options: Options) -> None:
        self.stream, self.labels, self.counted, self.options = stream, tuple(labels), counted, options
        self.n_arms = len(self.labels)

    @abstractmethod
    def intervals(self, alpha: float) -> tuple[Floats, Floats]:
        """Return the ends of an interval for each arm, which hold together with probability 1 - alpha."""

    @abstractmethod
    def differences(self, pairs: Sequence[Pair], alpha: float) -> tuple[Floats, Floats]:
        """Return the ends of an interval for the difference of each pair, which hold together."""

    @abstractmethod
    def p_value(self, leader: int) -> float:
        """Return the least alpha at which the leader is better than all others."""

    @abstractmethod
    def margins(self, leader: int) -> Floats:
        """Return a number for each other arm, in order: the less, the less sure it is that the leader is better."""

    def more(self, leader: int) -> int | None:
        """Return about how many more decisions it takes until the leader wins; None: no telling."""
        return None

    def uplift(self, instead: Floats, alpha: float) -> Estimate | None:
        """Return how much more reward a decision brought than playing arms by other shares would have."""
        return None

    def estimates(self) -> Estimates:
        """Return everything."""
        options, alpha = self.options, self.options.alpha
        lows, highs = self.intervals(alpha)
        leader = None if np.isnan(self.means).all() else int(np.nanargmax(self.means))
        p_value = 1.0 if leader is None else self.p_value(leader)
        rival = None
        if leader is not None:
            rival = int(np.delete(np.arange(self.n_arms), leader)[np.argmin(self.margins(leader))])
        wins = leader is not None and p_value <= alpha
        control = None if options.control is None else self.labels.index(options.control)
        uniform = np.full(self.n_arms, 1.0 / self.n_arms)
        at_control = (np.arange(self.n_arms) == control).astype(np.float64)
        is_empty = not self.stream.rounds
        return Estimates(
            method=options.method,
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
            more=None if wins or leader is None else self.more(leader),
            uplift=None if is_empty else self.uplift(uniform, alpha),
            uplift_to_control=None if is_empty or control is None else self.uplift(at_control, alpha),
            assumptions=(*self.assumptions, *([FAIR_ARRIVALS] if options.outcomes == "arrived" else [])),
            notes=self.notes,
        )

    def _differences(self, control: int | None) -> tuple[Difference, ...]:
        pairs = self._pairs(control)
        if not pairs:
            return ()
        lows, highs = self.differences(pairs, self.options.alpha)
        return tuple(
            Difference(self.labels[a], self.labels[b], Estimate(float(self.means[a] - self.means[b]), low, high))
            for (a, b), low, high in zip(pairs, lows.tolist(), highs.tolist(), strict=True)
        )

    def _pairs(self, control: int | None) -> list[Pair]:
        """Return each arm with the control, or all pairs, the better one first; none where there are very many."""
        if control is not None:
            return [(k, control) for k in range(self.n_arms) if k != control]
        if self.n_arms > MOST_PAIRS:
            return []
        ranked = np.argsort(-np.nan_to_num(self.means, nan=-1.0), kind="stable").tolist()
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
                    " If it never comes, give missing outcomes a deadline, or ask for bounded outcomes (always valid)"
                    " or for those that have arrived (valid if delays do not depend on outcomes)."
                )
            notes.append(note)
        if unknown_rewards:
            number = counted(unknown_rewards, "outcome")
            notes.append(f"{number} not known; intervals allow for anything from 0 to 1, means take 0.5.")
        if self.options.deadline is not None:
            words, loss = self.options.deadline
            notes.append(f"Decisions without an outcome after {words} count with a loss of {loss:g}.")
        if self.n_arms > MOST_PAIRS and self.options.control is None:
            notes.append(f"With more than {MOST_PAIRS} arms, differences are given to a control only.")
        return tuple(notes)


def rounded(value: float) -> int:
    """Return a number to two digits, upwards."""
    step = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return math.ceil(value / step) * step
