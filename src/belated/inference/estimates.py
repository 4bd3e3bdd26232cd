"""Estimates: each arm's mean with an interval, differences, the arm that wins, and what deciding was worth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from belated.errors import InvalidValue
from belated.inference.level import Movement
from belated.logs.log import Arm
from belated.logs.scale import Scale
from belated.templates.display import counted, html_table, number

YEAR = 365.0
MAX_NAMED = 4
"""Arms besides the leader that a sentence names one by one."""


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
    """What is known of the arms. Means are of rewards, reward = 1 - loss; with a scale, of values in its units.

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
    """The arm with the best mean of those that are there."""
    rival: Arm | None
    """The arm of which it is least sure that the leader is better."""
    p_value: float
    """The least alpha at which the leader would win now. It may be looked at any time (not by `aipw`)."""
    winner: Arm | None
    """The arm that is better than all others that are there, if that is known."""
    more: tuple[int, int | None] | None
    """How many more decisions it takes until an arm wins: the range from 20 to 80 % of what may be; without an end
    where that is beyond sight. None: no telling.
    """
    uplift: Estimate | None
    """How much more reward a decision brought than uniform play of the arms would have."""
    uplift_to_control: Estimate | None
    """How much more than always playing the control would have."""
    assumptions: tuple[str, ...]
    """What must be true for all this to hold."""
    notes: tuple[str, ...]
    """What to know about these numbers."""
    candidates: tuple[Arm, ...] = ()
    """The arms that are not ruled out as the best."""
    average: str = "same"
    """What comparisons are of: `plain` averages over the decisions so far, averages over them by how `open` each choice
    was, or means that stay the `same`.
    """
    progress: float | None = None
    """The evidence for the leader, as a share of what is needed; None: that is not known."""
    named: tuple[Arm, int] | None = None
    """An arm that was shown to be better than every other when it was named, and after how many decisions."""
    retired: tuple[Arm, ...] = ()
    """Arms that have left: they have means and intervals, but are not compared."""
    deadline: tuple[str, float] | None = None
    """After what a decision without an outcome has a default, and the loss that it has then."""
    per_day: float | None = None
    """Decisions that are made in a day, of late; None where nobody knows."""
    movement: Movement | None = None
    """How the level of rewards moved; None where it did not move more than chance explains."""
    scale: Scale | None = None
    """The units of means, differences and uplifts; None: they are of rewards."""

    def in_units(self, scale: Scale) -> "Estimates":
        """Return the same in units of the user's own: mean values, and differences of mean values.

        Where lower is better, a better arm has a lower mean, and differences to a worse one are below 0.
        """
        if self.scale is not None:
            raise InvalidValue("the estimates are in units of their own already", "scale")

        def value(estimate: Estimate) -> Estimate:
            return _ordered(*(scale.value(1.0 - each) for each in estimate))

        def difference(estimate: Estimate) -> Estimate:
            return _ordered(*(scale.difference(each) for each in estimate))

        unknown = self.used - sum(each.outcomes for each in self.arms)
        words = {unknown_note(unknown): unknown_note(unknown, scale)}
        if self.movement is not None:
            words[movement_note(self.movement)] = movement_note(self.movement, scale)
        if self.deadline is not None:
            words[deadline_note(self.deadline)] = deadline_note(self.deadline, scale)
        return replace(
            self,
            arms=tuple(each._replace(mean=value(each.mean)) for each in self.arms),
            differences=tuple(each._replace(difference=difference(each.difference)) for each in self.differences),
            uplift=None if self.uplift is None else difference(self.uplift),
            uplift_to_control=None if self.uplift_to_control is None else difference(self.uplift_to_control),
            assumptions=tuple(each.replace("mean reward", "mean value") for each in self.assumptions),
            notes=(*(words.get(note, note) for note in self.notes), scale_note(scale)),
            scale=scale,
        )

    @property
    def measure(self) -> str:
        """What means are of: reward, or value."""
        return "reward" if self.scale is None else "value"

    @property
    def ranked(self) -> list[ArmEstimate]:
        """The arms, the best first; those of which nothing is known are last."""
        return sorted(self.arms, key=lambda each: math.inf if math.isnan(each.mean.value) else -self._good(each.mean))

    def _good(self, estimate: Estimate) -> float:
        """Return a number that is larger where the estimate is better."""
        return -estimate.value if self.scale is not None and self.scale.better == "lower" else estimate.value

    def _is_better(self, difference: Estimate) -> bool:
        """Return whether the first arm of a difference is shown to be the better one."""
        lower = self.scale is not None and self.scale.better == "lower"
        return difference.high < 0 if lower else difference.low > 0

    def __getitem__(self, arm: Arm) -> ArmEstimate:
        for each in self.arms:
            if each.arm == arm:
                return each
        raise KeyError(arm)

    @property
    def headline(self) -> str:
        """Which arm wins, in a sentence."""
        if self.winner is not None:
            return f"{self.winner} wins: {self._better}, with {100 * (1 - self.alpha):g} % confidence{self._condition}."
        if self.leader is None:
            return "Nothing is known yet: no outcome can be used."
        if self.candidates == (self.leader,):
            return f"Not yet: {self.leader} leads, and every other arm is nearly ruled out."
        return f"Not yet: {self.leader} leads, {self._open_arms} may be the best."

    @property
    def verdict(self) -> str:
        """Which arm wins and how sure that is, in a few sentences."""
        verdict = self.headline
        if self.winner is not None or self.leader is None:
            return verdict
        shown = "" if self.progress is None else f" The evidence is {100 * self.progress:.0f} % of what is needed."
        verdict += shown
        if self.named is not None:
            arm, decisions = self.named
            verdict += (
                f" {arm} was ahead when it was named: after {number(decisions)} decisions there was enough evidence."
            )
        better = [str(each.arm) for each in self.differences if self._is_better(each.difference)]
        if better and self.control is not None:
            verdict += f" Better than {self.control}: {', '.join(better)}."
        return f"{verdict} {self.outlook}" if self.outlook else verdict

    @property
    def _better(self) -> str:
        if self.average == "same":
            return "it is better than every other arm"
        was = "over the decisions so far, it was better than every other arm"
        return f"{was} on average" if self.average == "plain" else f"{was}, counting each by how open the choice was"

    @property
    def _condition(self) -> str:
        return ", if rates do not move" if self.average == "same" else ""

    @property
    def _open_arms(self) -> str:
        """The arms that may be the best, the leader first."""
        others = [str(arm) for arm in self.candidates if arm != self.leader]
        if len(others) > MAX_NAMED:
            return f"and any of {len(others) + 1} arms"
        names = [str(self.leader), *others]
        return f"and {', '.join(names[:-1])} or {names[-1]}"

    @property
    def days(self) -> tuple[float, float | None] | None:
        """How many days it takes until an arm wins, as a range like `more`; None where the pace is not known."""
        if self.more is None or not self.per_day:
            return None
        low, high = self.more
        return low / self.per_day, None if high is None else high / self.per_day

    @property
    def outlook(self) -> str:
        """How much longer it takes until an arm wins, in a sentence; empty where there is no telling."""
        return f"At the present pace it takes {self.remaining}." if self.remaining else ""

    @property
    def remaining(self) -> str:
        """How many more days and decisions it takes until an arm wins, in words; empty where there is no telling."""
        if self.winner is not None or self.more is None:
            return ""
        low, high = self.more
        decisions = f"{number(low)} to {number(high)}" if high is not None else f"at least {number(low)}"
        if self.days is None:
            return f"{decisions} more decisions"
        if self.days[0] > YEAR:
            return f"more than a year: {decisions} more decisions"
        return f"{_days(*self.days)}: {decisions} more decisions"

    def __repr__(self) -> str:
        return f"Estimates({len(self.arms)} arms, {self.used:,} of {self.decisions:,} decisions: {self.verdict})"

    def _repr_html_(self) -> str:
        header = ["arm", "decisions", "outcomes", f"mean {self.measure}", "from", "to"]
        return html_table(repr(self), header, list(self.rows()))

    def rows(self) -> Iterator[list[str]]:
        """Yield the arms as a table shows them."""
        for each in self.arms:
            value, low, high = each.mean
            yield [
                self.name(each.arm),
                number(each.decisions),
                number(each.outcomes),
                number(value),
                number(low),
                number(high),
            ]

    def name(self, arm: Arm) -> str:
        """Return an arm as tables name it."""
        return f"{arm} (left)" if arm in self.retired else str(arm)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it; a number that there is not is None.

        `retired` and `scale` are there only where arms have left, and where there is a scale.
        """
        more: dict[str, Any] = {}
        if self.retired:
            more["retired"] = list(self.retired)
        if self.scale is not None:
            names = ("lowest", "highest", "better")
            more["scale"] = {name: getattr(self.scale, name) for name in names}
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
            "candidates": list(self.candidates),
            "average": self.average,
            "progress": self.progress,
            "named": None if self.named is None else {"arm": self.named[0], "decisions": self.named[1]},
            "more": None if self.more is None else {"low": self.more[0], "high": self.more[1]},
            "days": None if self.days is None else {"low": self.days[0], "high": self.days[1]},
            "movement": None if self.movement is None else self._movement(self.movement),
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
            **more,
        }

    def _movement(self, movement: Movement) -> dict[str, Any]:
        """Return how the level moved, in the units of the estimates."""
        levels = [None if math.isnan(each) else _shown(each, self.scale) for each in movement.levels]
        return {"length": movement.length, "levels": levels}


def _shown(level: float, scale: Scale | None) -> float:
    return level if scale is None else float(scale.value(1.0 - level))


def _days(low: float, high: float | None) -> str:
    """Return a range of days as people say it."""
    if high is None:
        return f"{max(low, 1.0):.0f} days or more" if low >= 1.5 else "a day or more"
    if high < 1.0:
        return "less than a day"
    return f"{low:.0f} to {high:.0f} days" if low >= 1.0 else f"up to {high:.0f} days"


def movement_note(movement: Movement, scale: Scale | None = None) -> str:
    """Return that the level moves, and how far."""
    ends = sorted(_shown(each, scale) for each in (movement.low, movement.high))
    what = "reward" if scale is None else "value"
    return (
        f"The level moves: over stretches of {movement.length:,} decisions the mean {what} of all arms went between"
        f" {number(ends[0])} and {number(ends[1])}, which is more than chance. Compare arms by their differences, not"
        " by means of different times."
    )


def _plain(estimate: Estimate) -> dict[str, float | None]:
    return {**estimate._asdict(), "value": None if math.isnan(estimate.value) else estimate.value}


def _ordered(value: float, low: float, high: float) -> Estimate:
    """Return an estimate whose ends may have swapped."""
    return Estimate(value, min(low, high), max(low, high))


def unknown_note(unknown: int, scale: Scale | None = None) -> str:
    """Return what becomes of outcomes that nobody knows."""
    low, middle, high = 0.0, 0.5, 1.0
    if scale is not None:
        low, middle, high = scale.lowest, scale.value(0.5), scale.highest
    number = counted(unknown, "outcome")
    return f"{number} not known; intervals allow for anything from {low:g} to {high:g}, means take {middle:g}."


def deadline_note(deadline: tuple[str, float], scale: Scale | None = None) -> str:
    """Return what becomes of decisions without an outcome."""
    words, loss = deadline
    default = f"loss of {loss:g}" if scale is None else f"value of {scale.value(loss):g}"
    return f"Decisions without an outcome after {words} count with a {default}."


def scale_note(scale: Scale) -> str:
    """Return which values there are."""
    return f"Values are from {scale.lowest:g} to {scale.highest:g}; {scale.better} is better."
