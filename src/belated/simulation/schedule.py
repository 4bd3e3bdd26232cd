"""When outcomes are due: a wheel of buckets, one for each round modulo its size, each a list in the order of decision.

A bucket holds everything that is due in a round of its residue. Taking what is due now passes over what is due a
turn of the wheel later, so an outcome costs O(1 + delay / BUCKETS), and memory stays that of the slots, however
long the delays.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.core.kernels import Memory, kernel
from belated.core.rounds import NONE, NOT_DUE, Run, arrive, free

BUCKETS = 1 << 14
FIRST = 0
LAST = 1
SCHEDULE = types.int32[:, ::1]


def new_schedule() -> NDArray[np.int32]:
    return np.full((BUCKETS, 2), NONE, dtype=np.int32)


@kernel(inline=True)
def add(schedule: Memory, memory: Memory, slot: int, due: int) -> None:
    """Let the outcome of a remembered decision come at the end of round `due`."""
    memory[slot]["next"] = NONE
    bucket = due & (BUCKETS - 1)
    last = schedule[bucket, LAST]
    if last == NONE:
        schedule[bucket, FIRST] = slot
    else:
        memory[last]["next"] = slot
    schedule[bucket, LAST] = slot


@kernel(inline=True)
def arrive_due(schedule: Memory, run: Run, now: int) -> None:
    """Let everything that is due in this round arrive, older decisions first."""
    bucket = now & (BUCKETS - 1)
    before = NONE
    slot = schedule[bucket, FIRST]
    while slot != NONE:
        record = run.memory[slot]
        following = record["next"]
        if record["due"] == now:
            if before == NONE:
                schedule[bucket, FIRST] = following
            else:
                run.memory[before]["next"] = following
            if following == NONE:
                schedule[bucket, LAST] = before
            arrive(run, slot, record["loss"])
        else:
            before = slot
        slot = following


@kernel(inline=True)
def skip_oldest(schedule: Memory, run: Run, slot: int) -> int:
    """Forget a decision that was just skipped, and its outcome with it, unless the learner keeps it; return its round.

    It was the oldest outstanding one, so if its outcome is scheduled it stands first in its bucket.
    """
    record = run.memory[slot]
    if run.clock[0]["keeps_skipped"] != 0:
        if record["due"] != NOT_DUE:
            return record["round"]
        record["older"] = NONE
    elif record["due"] != NOT_DUE:
        bucket = record["due"] & (BUCKETS - 1)
        following = record["next"]
        schedule[bucket, FIRST] = following
        if following == NONE:
            schedule[bucket, LAST] = NONE
    skipped = record["round"]
    free(run, slot)
    return skipped
