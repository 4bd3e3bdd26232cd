"""When outcomes are due: a wheel of buckets, one for each round modulo its size, each a list in the order of decision.

A bucket holds everything that is due in a round of its residue. Taking what is due now passes over what is due a
turn of the wheel later, so an outcome costs O(1 + delay / BUCKETS), and memory stays that of the slots, however
long the delays.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.kernels import Integers, Memory, Vector, kernel
from belated.rounds import KEEPS, NONE, NOT_DUE, arrive, free

BUCKETS = 1 << 14
FIRST = 0
LAST = 1
CALENDAR = types.int32[:, ::1]


def new_calendar() -> NDArray[np.int32]:
    return np.full((BUCKETS, 2), NONE, dtype=np.int32)


@kernel(inline=True)
def schedule(calendar: Memory, memory: Memory, slot: int, due: int) -> None:
    """Let the outcome of a remembered decision come at the end of round `due`."""
    memory[slot]["next"] = NONE
    bucket = due & (BUCKETS - 1)
    last = calendar[bucket, LAST]
    if last == NONE:
        calendar[bucket, FIRST] = slot
    else:
        memory[last]["next"] = slot
    calendar[bucket, LAST] = slot


@kernel(inline=True)
def arrive_due(
    calendar: Memory, state: Vector, params: Vector, clock: Integers, memory: Memory, p: Vector, now: int
) -> None:
    """Let everything that is due in this round arrive, older decisions first."""
    bucket = now & (BUCKETS - 1)
    before = NONE
    slot = calendar[bucket, FIRST]
    while slot != NONE:
        record = memory[slot]
        following = record["next"]
        if record["due"] == now:
            if before == NONE:
                calendar[bucket, FIRST] = following
            else:
                memory[before]["next"] = following
            if following == NONE:
                calendar[bucket, LAST] = before
            arrive(state, params, clock, memory, p, slot, record["loss"])
        else:
            before = slot
        slot = following


@kernel(inline=True)
def skip_oldest(calendar: Memory, clock: Integers, memory: Memory, slot: int) -> int:
    """Forget a decision that was just skipped, and its outcome with it, unless the learner keeps it: its round.

    It was the oldest outstanding one, so if its outcome is scheduled it stands first in its bucket.
    """
    record = memory[slot]
    if clock[KEEPS] != 0:
        if record["due"] != NOT_DUE:
            return record["round"]
        record["older"] = NONE
    elif record["due"] != NOT_DUE:
        bucket = record["due"] & (BUCKETS - 1)
        following = record["next"]
        calendar[bucket, FIRST] = following
        if following == NONE:
            calendar[bucket, LAST] = NONE
    skipped = record["round"]
    free(clock, memory, slot)
    return skipped
