"""Estimates: each arm's mean with an interval, differences, the arm that wins, and what deciding was worth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from belated.logs.log import Arm
from belated.templates.display import html_table, number


class Estimate(NamedTuple):
    """A number and the ends of its interval."""

    value: float
    low: float
    high: float


class ArmEstimate(NamedTuple):
    """An arm: how often it was chosen, how many outcomes are used, and its mean reward."""

    arm: Arm
    decisions: int
    outcomes: int
    mean: Estimate


class Difference(NamedTuple):
    """By how much the mean reward of an arm is above that of another."""

    arm: Arm
    other: Arm
    difference: Estimate


@dataclass(frozen=True, repr=False)
class Estimates:
    """What is known of the arms. Means are of rewards, reward = 1 - loss.

    Each kind of statement holds with probability 1 - alpha by itself: the intervals of all arms together, all
    differences together, the winner, each uplift.
    """

    method: str
    outcomes: str
    """Which outcomes are used: `settled`, `arrived` or `bounded`."""
    alpha: float
    decisions: int
    used: int
    """Decisions that are taken into account."""
    waiting: int
    """Decisions without an outcome."""
    arms: tuple[ArmEstimate, ...]
    control: Arm | None
    differences: tuple[Difference, ...]
    """To the control; without one, between all arms, the better one of two first."""
    leader: Arm | None
    """The arm with the largest mean."""
    rival: Arm | None
    """The arm of which it is least sure that the leader is better."""
    p_value: float
    """The least alpha at which the leader would win now. It may be looked at any time (not by `aipw`)."""
    winner: Arm | None
    """The arm that is better than all others, if that is known."""
    more: int | None
    """About how many more settled decisions it takes until the leader wins, at the present pace; None: no telling."""
    uplift: Estimate | None
    """How much more reward a decision brought than uniform play of the arms would have."""
    uplift_to_control: Estimate | None
    """How much more than always playing the control would have."""
    assumptions: tuple[str, ...]
    """What must be true for all this to hold."""
    notes: tuple[str, ...]
    """What to know about these numbers."""

    def __getitem__(self, arm: Arm) -> ArmEstimate:
        for each in self.arms:
            if each.arm == arm:
                return each
        raise KeyError(arm)

    @property
    def verdict(self) -> str:
        """Which arm wins and how sure that is, in a sentence."""
        sure = f"{100 * (1 - self.alpha):g} %"
        if self.winner is not None:
            return f"{self.winner} wins: it is better than every other arm, with {sure} confidence."
        if self.leader is None:
            return "Nothing is known yet: no outcome can be used."
        verdict = (
            f"Not yet: {self.leader} leads, but is not shown to be better than {self.rival} (p = {self.p_value:.2g})."
        )
        if better := [
            str(each.arm) for each in self.differences if each.difference.low > 0 and self.control is not None
        ]:
            verdict += f" Better than {self.control}: {', '.join(better)}."
        if self.more is not None:
            verdict += f" It takes about {number(self.more)} more settled decisions at the present pace."
        elif self.method == "betting" and self.outcomes == "settled":
            verdict += " The arms are too close, or chosen too rarely, to say how long it will take."
        return verdict

    def __repr__(self) -> str:
        return f"Estimates({len(self.arms)} arms, {self.used:,} of {self.decisions:,} decisions: {self.verdict})"

    def _repr_html_(self) -> str:
        header = ["arm", "decisions", "outcomes", "mean reward", "from", "to"]
        return html_table(repr(self), header, list(self.rows()))

    def rows(self) -> Iterator[list[str]]:
        """Yield the arms as a table shows them."""
        for each in self.arms:
            value, low, high = each.mean
            yield [
                str(each.arm),
                number(each.decisions),
                number(each.outcomes),
                number(value),
                number(low),
                number(high),
            ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it; a number that there is not is None."""
        return {
            "method": self.method,
            "outcomes": self.outcomes,
            "alpha": self.alpha,
            "decisions": self.decisions,
            "used": self.used,
            "waiting": self.waiting,
            "verdict": self.verdict,
            "leader": self.leader,
            "rival": self.rival,
            "winner": self.winner,
            "p_value": self.p_value,
            "more": self.more,
            "arms": [
                {"arm": each.arm, "decisions": each.decisions, "outcomes": each.outcomes, "mean": _plain(each.mean)}
                for each in self.arms
            ],
            "control": self.control,
            "differences": [
                {"arm": each.arm, "other": each.other, "difference": _plain(each.difference)}
                for each in self.differences
            ],
            "uplift": None if self.uplift is None else _plain(self.uplift),
            "uplift_to_control": None if self.uplift_to_control is None else _plain(self.uplift_to_control),
            "assumptions": list(self.assumptions),
            "notes": list(self.notes),
        }


def _plain(estimate: Estimate) -> dict[str, float | None]:
    return {**estimate._asdict(), "value": None if math.isnan(estimate.value) else estimate.value}
