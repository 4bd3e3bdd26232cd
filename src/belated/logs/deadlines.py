"""Deadlines: after which a decision without an outcome has a default loss."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidValue
from belated.logs.log import Log


class Settled(NamedTuple):
    """A log with its deadline."""

    log: Log
    old_enough: NDArray[np.bool_]
    """Which decisions are as old as the deadline: of younger ones good news may have come, and bad news not."""
    late: NDArray[np.bool_]
    """Which have an outcome that came after the deadline, and does not count."""


def with_deadline(
    log: Log, deadline: int | None, deadline_after: float | None, missing_loss: float | None
) -> Settled | None:
    """Return a log with a deadline after so many decisions, or after so much time; None where there is none."""
    if deadline is not None and deadline_after is not None:
        raise InvalidValue("deadline and deadline_after are both given; one of them is needed", "deadline")
    loss = 1.0 if missing_loss is None else missing_loss
    size = log.arms.size
    if deadline is not None:
        settled = log.with_deadline(deadline, loss)
        old_enough = np.arange(size) < size - deadline
        took = np.zeros(size) if log.waits is None else log.waits
        late = took > deadline
    elif deadline_after is not None:
        settled = log.with_deadline_after(deadline_after, loss)
        old_enough = log.ages >= deadline_after
        late = np.asarray(log.durations) > deadline_after
    else:
        return None
    if not np.isnan(settled.rewards).any():
        old_enough = np.ones(size, dtype=np.bool_)  # all is known
    return Settled(settled, old_enough, late & ~np.isnan(log.rewards) & old_enough)
