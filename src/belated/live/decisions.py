"""What goes in and out of a live bandit: decisions, receipts, and the checks on what callers report."""

import math
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from belated.errors import InvalidValue, UnknownDecision
from belated.live.labels import Arm


class Decision(NamedTuple):
    """What was decided: its round (1 is the first), the arm, and the probability with which that arm was chosen."""

    round: int
    arm: Arm
    propensity: float


class Receipt(Enum):
    """What became of an outcome: learned from, or ignored because the learner had given up on it."""

    USED = "used"
    SKIPPED = "skipped"


def round_of(decision: Any) -> int:
    """Return the round of a decision, or a round itself."""
    if isinstance(decision, int | np.integer) and not isinstance(decision, bool):
        return int(decision)
    if isinstance(decision, Decision):
        return decision.round
    raise UnknownDecision(f"{decision!r} is neither a Decision nor the round of one")


def checked_loss(name: str, value: Any) -> float:
    """Return a loss, or a reward, as a number from 0 to 1."""
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        advice = " (for outcomes in other units, give the bandit a scale and report value=…)"
        raise InvalidValue(
            f"{name} is {value!r}; a number from 0 to 1 is needed{advice if math.isfinite(number) else ''}", name
        )
    return number


def check_delay(delay: Any, learner: str, asked_for: bool) -> None:
    """Refuse a delay that the learner does not ask for, the lack of one that it does ask for, and nonsense."""
    if not asked_for:
        raise InvalidValue(f"delay is {delay!r}, but learner {learner!r} does not ask for the delay of a decision")
    if delay is None:
        raise InvalidValue(f"learner {learner!r} must know the delay of each decision when it is made: decide(delay=…)")
    is_number = isinstance(delay, int | float | np.integer | np.floating) and not isinstance(delay, bool)
    if not is_number or not (0 <= delay <= 2**63 or delay == math.inf):
        raise InvalidValue(f"delay is {delay!r}; a number of rounds, at least 0, is needed (inf: it never comes)")
