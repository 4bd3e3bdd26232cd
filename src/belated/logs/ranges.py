"""Propose a range for outcomes in the user's units, from values of a log, and say what each range costs.

A narrow range clips: means fall short, and an arm with rare large values may look worse than it is. A wide range makes
comparisons take longer (`belated.logs.effort`). Neither is right for all, so there are some to choose from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.logs.effort import Effort, difference_to_show, effort, in_proportion
from belated.logs.log import Arm, Floats, Integers, numbers_of
from belated.logs.scale import BETTER, Scale

QUANTILE = 0.99
QUANTILES = (1.0, 0.999, 0.99, 0.95)
COMMON = 0.01
"""The share of zeros from which on 0 counts as a natural end: nothing bought, no error."""
ALIKE = 1.05
"""Ratios of decisions up to this are not worth any clipping."""
FEW = 5
"""If fewer values than this are beyond a quantile, the log hardly tells where it is."""
SMALL = 0.05
"""Of the range: where the mean of the values that are not 0 is smaller, learning is slow (docs/questions.md)."""


@dataclass(frozen=True)
class ArmInRange:
    """What a range does to the values of an arm."""

    arm: Arm
    values: int
    mean: float
    clipped_mean: float
    clipped: float
    """The share of values beyond the range."""

    @property
    def bias(self) -> float:
        """By how much clipping changes the mean."""
        return self.clipped_mean - self.mean


@dataclass(frozen=True)
class RangeChoice:
    """A range and what it costs."""

    quantile: float
    """Which share of values it is made for; 1: all of them."""
    scale: Scale
    clipped: float
    """The share of values beyond the range."""
    mean: float
    """Of the clipped values."""
    deviation: float
    """The standard deviation of the clipped values, in units of the range."""
    effort: Effort
    arms: tuple[ArmInRange, ...]
    order: tuple[Arm, ...]
    """The arms by their clipped means, the best first."""


@dataclass(frozen=True)
class Proposal:
    """Ranges to choose from, the widest first, and the one that is recommended."""

    values: int
    missing: int
    """Values that are not known; they are left out."""
    zeros: float
    """The share of values that are 0."""
    zero_is_end: bool
    """Whether 0 is an end of every range, and quantiles are those of the other values."""
    mean: float
    difference: float
    """What a comparison is to show: a tenth of the mean, unless values have both signs or differ little."""
    order: tuple[Arm, ...]
    """The arms by their means as they are, the best first."""
    choices: tuple[RangeChoice, ...]
    recommended: RangeChoice
    notes: tuple[str, ...] = ()

    @property
    def scale(self) -> Scale:
        """The recommended range."""
        return self.recommended.scale

    @property
    def widest(self) -> RangeChoice:
        """The range that clips nothing."""
        return self.choices[0]

    def decisions(self, choice: RangeChoice) -> float:
        """Return how many times as many decisions a comparison takes as with the recommended range."""
        return choice.effort.decisions / self.recommended.effort.decisions

    def decisions_by_spread(self, choice: RangeChoice) -> float:
        """Return the same if bets were not limited by the range: because of the spread of the values alone."""
        return choice.effort.by_spread / self.recommended.effort.by_spread

    def keeps_order(self, choice: RangeChoice) -> bool:
        """Return whether clipped means have the arms in the order of their means."""
        return choice.order == self.order

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "outcome": outcome_field(self.scale),
            "values": self.values,
            "missing": self.missing,
            "zeros": self.zeros,
            "mean": self.mean,
            "difference": self.difference,
            "order": list(self.order),
            "choices": [self._choice_as_dict(each) for each in self.choices],
            "notes": list(self.notes),
        }

    def _choice_as_dict(self, choice: RangeChoice) -> dict[str, Any]:
        return {
            "quantile": choice.quantile,
            "lowest": choice.scale.lowest,
            "highest": choice.scale.highest,
            "recommended": choice is self.recommended,
            "clipped": choice.clipped,
            "mean": choice.mean,
            "deviation": choice.deviation,
            "decisions": self.decisions(choice),
            "decisions_by_spread": self.decisions_by_spread(choice),
            "order": list(choice.order),
            "arms": [{**vars(arm), "bias": arm.bias} for arm in choice.arms],
        }


def propose_scale(
    values: Sequence[Any] | NDArray[Any],
    arms: Sequence[Arm] | NDArray[Any] | None = None,
    better: str = "higher",
    *,
    quantile: float | None = None,
) -> Proposal:
    """Return a range for such values, with what it and others cost.

    A range ends at a round number at or above a quantile, and begins at one at or below the opposite quantile. Where no
    value is below 0 and 0 is common, it begins at 0, and quantiles are those of the other values: of orders, not of
    visitors who did not buy. Likewise it ends at 0 where no value is above.

    Parameters
    ----------
    values
        In the user's units; nan or None where none is known.
    arms
        The arm of each value.
    better
        "higher" or "lower".
    quantile
        The share of values that should not be clipped, from 0.5 to 1. Without one, the widest range is recommended
        that takes at most 5 % more decisions than that of the quantile 0.99.

    >>> propose_scale([0.0] * 900 + [float(order) for order in range(100)]).scale
    Scale(lowest=0.0, highest=100.0, better='higher', beyond='clip')
    """
    if better not in BETTER:
        raise InvalidValue(f"better is {better!r}; {' or '.join(map(repr, BETTER))} is needed", "better")
    if quantile is not None and (not isinstance(quantile, int | float) or not 0.5 <= quantile <= 1.0):
        raise InvalidValue(f"quantile is {quantile!r}; a number from 0.5 to 1 is needed", "quantile")
    sample = _Sample.of(values, arms, better)
    aim = QUANTILE if quantile is None else float(quantile)
    choices: list[RangeChoice] = []
    for each in sorted({*QUANTILES, aim}, reverse=True):
        scale = Scale(*sample.ends(each), better=better)
        if scale not in [choice.scale for choice in choices]:
            choices.append(sample.choice(each, scale))
        if each == aim:
            recommended = choices[-1]
    if quantile is None:
        most = ALIKE * recommended.effort.decisions
        recommended = next(choice for choice in choices if choice.effort.decisions <= most)
    proposal = Proposal(
        values=sample.values.size,
        missing=sample.missing,
        zeros=sample.zeros,
        zero_is_end=sample.zero_is_end,
        mean=float(sample.values.mean()),
        difference=sample.difference,
        order=sample.order(sample.means(sample.values)),
        choices=tuple(choices),
        recommended=recommended,
    )
    return replace(proposal, notes=tuple(_notes(proposal, sample.counted, aim)))


@dataclass(frozen=True)
class _Sample:
    """Values that are known, and their arms."""

    values: Floats
    places: Integers
    labels: tuple[Arm, ...]
    better: str
    missing: int
    zeros: float
    difference: float

    @classmethod
    def of(cls, values: Any, arms: Any, better: str) -> "_Sample":
        given = numbers_of("values", values)
        if (infinite := np.isinf(given)).any():
            k = int(np.argmax(infinite))
            raise InvalidValue(f"values[{k}] is {given[k].item()}; a finite number is needed", "values")
        labels, places = _labelled(arms, given.size)
        is_known = ~np.isnan(given)
        known = given[is_known]
        if known.size == 0 or known.min() == known.max():
            what = "there are no values" if known.size == 0 else f"all {known.size:,} values are {known[0]:g}"
            raise InvalidValue(f"{what}; at least two different ones are needed", "values")
        missing, zeros = given.size - known.size, float(np.mean(known == 0.0))
        return cls(known, places[is_known], labels, better, missing, zeros, difference_to_show(known))

    @property
    def zero_is_end(self) -> bool:
        return self.zeros >= COMMON and not self.values.min() < 0.0 < self.values.max()

    @property
    def counted(self) -> Floats:
        """The values whose quantiles count."""
        return self.values[self.values != 0.0] if self.zero_is_end else self.values

    def ends(self, quantile: float) -> tuple[float, float]:
        """Return where the range for a quantile begins and ends."""
        counted = self.counted
        low = float(np.quantile(counted, 1.0 - quantile, method="lower"))
        high = float(np.quantile(counted, quantile, method="higher"))
        if self.zero_is_end:
            low, high = (0.0, high) if high > 0.0 else (low, 0.0)
        if low == high:  # nearly all values are the same
            low, high = float(counted.min()), float(counted.max())
        step = _step(high - low)
        return -_rounded_up(-low, step), _rounded_up(high, step)

    def means(self, values: Floats) -> Floats:
        """Return the mean of each arm's values; nan where an arm has none."""
        n_arms = len(self.labels)
        with np.errstate(invalid="ignore"):
            sums = np.bincount(self.places, weights=values, minlength=n_arms)[:n_arms]
            return sums / np.bincount(self.places, minlength=n_arms)[:n_arms]

    def order(self, means: Floats) -> tuple[Arm, ...]:
        """Return the arms by their means, the best first."""
        ranked = np.argsort(-means if self.better == "higher" else means, kind="stable")
        return tuple(self.labels[k] for k in ranked)

    def choice(self, quantile: float, scale: Scale) -> RangeChoice:
        """Return what a range costs."""
        inside = np.clip(self.values, scale.lowest, scale.highest)
        is_clipped = inside != self.values
        columns = (self.means(self.values), self.means(inside), self.means(is_clipped.astype(np.float64)))
        counts = np.bincount(self.places, minlength=len(self.labels))
        return RangeChoice(
            quantile=quantile,
            scale=scale,
            clipped=float(is_clipped.mean()),
            mean=float(inside.mean()),
            deviation=float(inside.std()) / scale.span,
            effort=effort(inside, scale, in_proportion(self.difference, self.values, inside)),
            arms=tuple(
                ArmInRange(label, int(counts[k]), *(float(column[k]) for column in columns))
                for k, label in enumerate(self.labels)
            ),
            order=self.order(columns[1]),
        )


def _labelled(arms: Any, size: int) -> tuple[tuple[Arm, ...], Integers]:
    """Return the labels, sorted, and the place of each value's; no labels where there are none."""
    if arms is None:
        return (), np.zeros(size, dtype=np.int64)
    given = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
    if len(given) != size:
        raise InvalidValue(f"arms has {len(given)} entries; one for each of {size} values is needed", "arms")
    labels = sorted(set(given), key=lambda label: (str(type(label)), label))
    place = {label: k for k, label in enumerate(labels)}
    return tuple(labels), np.array([place[label] for label in given], dtype=np.int64)


def _step(span: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that fits into the span eight times."""
    power = 10.0 ** math.floor(math.log10(span / 8.0))
    return next((factor * power for factor in (5.0, 2.0) if factor * power <= span / 8.0), power)


def _rounded_up(value: float, step: float) -> float:
    """Return the least multiple of a step that is not below the value."""
    digits = 1 - math.floor(math.log10(step))
    steps = round(value / step)
    found = round(steps * step, digits)
    if found < value:
        found = round((steps + 1) * step, digits)
    return max(found, value) + 0.0


def _notes(proposal: Proposal, counted: Floats, quantile: float) -> list[str]:
    notes = []
    if proposal.missing:
        notes.append(f"{proposal.missing:,} values are not known, and left out: if they mean 0, give them as 0.")
    if quantile < 1.0 and counted.size * (1.0 - quantile) < FEW:
        notes.append(
            f"{counted.size:,} values{' other than 0' if proposal.zero_is_end else ''} hardly tell where"
            f" {100 * quantile:g} % of them end: take more, or a lower quantile."
        )
    best = proposal.recommended
    if not proposal.keeps_order(best):
        narrowest = next(each for each in reversed(proposal.choices) if proposal.keeps_order(each))
        what = "the best arm" if best.order[0] != proposal.order[0] else "the order of the arms"
        notes.append(
            f"Clipping changes {what}; the narrowest of these ranges that does not is {shown_range(narrowest.scale)}."
            " Means of rare, large values are uncertain, too: which order is right, this log may not tell."
        )
    size = float(np.abs(np.clip(counted, best.scale.lowest, best.scale.highest)).mean()) / best.scale.span
    if proposal.zero_is_end and size < SMALL:
        notes.append(
            f"The mean of the values other than 0 is {size:.2g} of the range. Below {SMALL:g} learning is slow, and few"
            " values decide everything. Ask whether their number would do as the outcome."
        )
    return notes


def outcome_field(scale: Scale) -> dict[str, Any]:
    """Return a range as the field `outcome` of an experiment."""
    return {"lowest": _whole(scale.lowest), "highest": _whole(scale.highest), "better": scale.better}


def shown_range(scale: Scale) -> str:
    """Return a range as people write it."""
    return " to ".join(f"{end:,}" for end in (_whole(scale.lowest), _whole(scale.highest)))


def _whole(value: float) -> float:
    return int(value) if value == int(value) and abs(value) < 1e15 else value
