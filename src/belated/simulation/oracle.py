"""What a simulation knows about its problem and learners do not: passed on to those that declare the need.

horizon         the number of rounds
longest_delay   the longest delay
total_delay     the sum of all delays
tail_index      alpha, where P(delay > n) falls like n^-alpha, up to a factor, in the law that the delays follow

Where delays depend on the arm or the loss, they are the longest of the round. An outcome that would come after the
last round counts as taking until then, as in the papers (t + d_t <= T): one that never comes in round 1 makes the
longest delay T - 1. A learner that hears of settled outcomes alone is told of delays as it meets them: at least
`settled`.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from belated.delays import Delays
from belated.errors import InvalidValue
from belated.learners import TunedLearner

ABOUT_DELAYS = ("longest_delay", "total_delay")


def wanted(learners: Iterable[TunedLearner]) -> set[str]:
    """Return what somebody among these learners must know and was not told."""
    return {name for tuned in learners for name in tuned.missing}


def check(learners: Iterable[TunedLearner], delays: Delays) -> None:
    """Refuse where nobody knows what a learner must know."""
    for tuned in learners:
        if tuned.learner.delay_at is not None and delays.by != "round":
            raise InvalidValue(
                f"learner {tuned.learner.name!r} must know the delay of a decision before it is made, and that of"
                f" {delays!r} depends on the {delays.by}"
            )
        if "tail_index" in tuned.missing and delays.tail_index is None:
            name = tuned.learner.name
            raise InvalidValue(
                f"learner {name!r} must know tail_index, which {delays!r} cannot tell: {name}:tail_index=… is missing"
            )


def tell(
    names: set[str], law: Delays, rounds: int, filled: Iterable[tuple[int, NDArray[np.int64]]], settled: int = 0
) -> dict[str, float]:
    """Return the truth under these names; `filled` holds the delays, in pieces, each with the number of its first
    round, and `settled` is the least that they count as.
    """
    truth: dict[str, float] = {}
    if "horizon" in names:
        truth["horizon"] = float(max(rounds, 2))
    if "tail_index" in names and law.tail_index is not None:
        truth["tail_index"] = law.tail_index
    if names.intersection(ABOUT_DELAYS):
        longest, total = 0, 0
        for first, delays in filled:
            left = rounds - np.arange(first, first + len(delays))
            slowest = delays if delays.ndim == 1 else delays.max(axis=1)
            within = np.minimum(np.maximum(slowest, min(settled, rounds)), left)
            longest = max(longest, int(within.max(initial=0)))
            total += int(within.sum())
        truth |= {"longest_delay": float(longest), "total_delay": float(total)}
    return truth
