"""The protocol, in one place for live and bulk: opening a round, drawing, remembering, arriving, giving up.

Round t, in this order (Masoudian, Zimmert & Seldin 2024, Algorithm 1, read causally; docs/math.md):

1. open: the outstanding decisions are counted, the learner writes its distribution p, an arm is drawn from it;
2. the decision is remembered: its arm, its propensity, and the mark that the learner wants back with the outcome;
3. arrivals: every outcome that comes before round t + 1 opens is learned from, with what was remembered;
4. close: the oldest outstanding decision s < t with t - s >= patience is skipped, given up for good. For a learner that
   keeps skipped decisions it leaves the count only: its outcome is still learned from when it comes.

Decisions are remembered in slots of a table that the caller enlarges when it is full (`enlarge`). Slots of outstanding
decisions form a list from the oldest to the newest, so that arriving, skipping and counting cost O(1).
"""

import math
from collections.abc import Iterator

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from belated.kernels import (
    INTEGERS,
    STATE,
    VECTOR,
    Integers,
    Memory,
    Vector,
    call_decide,
    call_forget,
    call_learn,
    call_patience,
    kernel,
)
from belated.pages import USED

SLOT = np.dtype(
    [
        ("round", np.int64),
        ("due", np.int64),  # the round at whose end the outcome comes, where that is known: in simulations
        ("propensity", np.float64),
        ("mark", np.float64),
        ("count", np.int64),  # D_s
        ("loss", np.float64),  # of the outcome to come, likewise
        ("arm", np.int32),
        ("next", np.int32),  # in the list of free slots, or of those due together
        ("older", np.int32),  # in the list of outstanding decisions
        ("newer", np.int32),
    ]
)
MEMORY = types.Array(from_dtype(SLOT), 1, "C")
NONE = -1
KEPT = -2  # as `older`: skipped, but the outcome will be learned from
NOT_DUE = -1  # as `due`: nobody knows when
FOREVER = 1 << 62
DRIFT_UNIT = 2.0**-32
MOST_DRIFT = 1e9

# The fields of the clock.
ROUND = 0
OUTSTANDING = 1
CUMULATIVE_OUTSTANDING = 2  # D_t, the sum of the counts with which rounds were opened
MOST_OUTSTANDING = 3
SKIPS = 4
PATIENCE = 5  # whole rounds to wait, when last asked
OLDEST = 6  # slots
NEWEST = 7
FREE = 8
PAGES = 9  # pages that the learner's state has room for
DRIFT = 10  # the largest drift seen at an arrival, in DRIFT_UNITs: the clock holds whole numbers
# What the learner is like, in this process: written by `Learner.wire`.
DECIDE_AT = 11  # addresses of its functions
LEARN_AT = 12
PATIENCE_AT = 13  # 0 for a learner that never skips
FORGET_AT = 14  # 0 for a learner that keeps nothing of a decision
DRAW_TO = 15  # where in its state it wants the draw of the round, or NONE
DELAY_TO = 16  # where in its state it wants the delay of the decision, or NONE
PAGES_AT = 17  # where in its state the head of its pages is, or NONE
KEEPS = 18  # whether outcomes of skipped decisions are still learned from
CLOCK_FIELDS = 19
WIRES = slice(DECIDE_AT, CLOCK_FIELDS)


def new_clock() -> NDArray[np.int64]:
    """The clock before the first round; the learner has yet to be wired to it."""
    clock = np.zeros(CLOCK_FIELDS, dtype=np.int64)
    clock[[OLDEST, NEWEST, FREE]] = NONE
    clock[DRIFT] = round(1.0 / DRIFT_UNIT)
    return clock


def new_memory() -> NDArray[np.void]:
    return np.zeros(0, dtype=SLOT)


def enlarged(memory: NDArray[np.void]) -> NDArray[np.void]:
    """A table with twice the slots. The new ones form a list of free slots that begins at the old size."""
    size = memory.size
    larger = np.zeros(max(64, 2 * size), dtype=SLOT)
    larger[:size] = memory
    larger["next"][size:] = np.arange(size + 1, larger.size + 1)
    larger["next"][-1] = NONE
    return larger


def enlarge(clock: NDArray[np.int64], memory: NDArray[np.void]) -> NDArray[np.void]:
    """Where no slot is free: a larger table, and the clock pointing at its free slots."""
    larger = enlarged(memory)
    clock[FREE] = memory.size
    return larger


def outstanding_slots(clock: NDArray[np.int64], memory: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """(round, slot) of every outstanding decision, the oldest first."""
    slot = int(clock[OLDEST])
    while slot != NONE:
        yield int(memory[slot]["round"]), slot
        slot = int(memory[slot]["newer"])


def waiting_slots(clock: NDArray[np.int64], memory: NDArray[np.void]) -> dict[int, int]:
    """round -> slot of every decision whose outcome would be learned from: the outstanding and the kept ones."""
    slots = dict(outstanding_slots(clock, memory))
    for slot in np.flatnonzero(memory["older"] == KEPT):
        slots[int(memory[slot]["round"])] = int(slot)
    return slots


@kernel(inline=True)
def wants_pages(state: Vector, clock: Integers) -> bool:
    """Whether the state must be lengthened before the next round opens."""
    return clock[PAGES_AT] != NONE and state[clock[PAGES_AT] + USED] >= clock[PAGES]


@kernel(inline=True)
def draw_arm(p: Vector, draw: float) -> int:
    """The first arm i with draw < p_1 + ... + p_i, or the last with p_i > 0 where rounding leaves the sum below draw.

    Counted, not searched: a loop that ends at a random place costs more than its steps.
    """
    total = 0.0
    arm = 0
    for i in range(p.size):
        total += p[i]
        arm += draw >= total
    if arm == p.size:
        arm -= 1
        while p[arm] == 0.0:
            arm -= 1
    return arm


@kernel(inline=True)
def open_round(state: Vector, params: Vector, clock: Integers, p: Vector, draw: float) -> float:
    """Open the next round: the learner's distribution in p, and its mark."""
    if clock[DRAW_TO] != NONE:
        state[clock[DRAW_TO]] = draw
    clock[ROUND] += 1
    outstanding = clock[OUTSTANDING]
    clock[CUMULATIVE_OUTSTANDING] += outstanding
    clock[MOST_OUTSTANDING] = max(clock[MOST_OUTSTANDING], outstanding)
    return call_decide(clock[DECIDE_AT], state, params, outstanding, p)


@kernel(inline=True)
def remember(clock: Integers, memory: Memory, arm: int, propensity: float, mark: float, due: int, loss: float) -> int:
    """Keep the decision of the open round as the newest outstanding one; its slot. There must be a free one."""
    slot = clock[FREE]
    record = memory[slot]
    clock[FREE] = record["next"]
    record["round"] = clock[ROUND]
    record["due"] = due
    record["loss"] = loss
    record["arm"] = arm
    record["propensity"] = propensity
    record["mark"] = mark
    record["count"] = clock[CUMULATIVE_OUTSTANDING]
    newest = clock[NEWEST]
    record["older"] = newest
    record["newer"] = NONE
    if newest == NONE:
        clock[OLDEST] = slot
    else:
        memory[newest]["newer"] = slot
    clock[NEWEST] = slot
    return slot


@kernel(inline=True)
def _leave(clock: Integers, memory: Memory, slot: int) -> None:
    """Take a slot out of the list of outstanding decisions."""
    record = memory[slot]
    older = record["older"]
    newer = record["newer"]
    if older == NONE:
        clock[OLDEST] = newer
    else:
        memory[older]["newer"] = newer
    if newer == NONE:
        clock[NEWEST] = older
    else:
        memory[newer]["older"] = older


@kernel(inline=True)
def free(clock: Integers, memory: Memory, slot: int) -> None:
    """Forget a decision that is waited for no more."""
    memory[slot]["next"] = clock[FREE]
    clock[FREE] = slot


@kernel(inline=True)
def _note_drift(clock: Integers, share: float, propensity: float, then: int) -> None:
    """Keep the largest x_{t,I_s} / max(x_{s,I_s}, lambda_{s,t}), lambda_{s,t} = exp(-D_t / (D_t - D_s)).

    What the paper's drift control lemma bounds by 4, at the arrivals of the run at hand.
    """
    worst = clock[DRIFT] * DRIFT_UNIT
    if share > worst * propensity:
        now = clock[CUMULATIVE_OUTSTANDING]
        explored = math.exp(-float(now) / (now - then)) if now > then else 0.0
        if share > worst * explored:
            clock[DRIFT] = int(min(share / max(propensity, explored), MOST_DRIFT) / DRIFT_UNIT)


@kernel(inline=True, nogil=False)
def arrive(state: Vector, params: Vector, clock: Integers, memory: Memory, p: Vector, slot: int, loss: float) -> None:
    """The outcome of an outstanding decision has come: learn from it and forget the decision."""
    record = memory[slot]
    if record["older"] != KEPT:
        _note_drift(clock, p[record["arm"]], record["propensity"], record["count"])
    call_learn(clock[LEARN_AT], state, params, record["arm"], loss, record["propensity"], record["mark"])
    if record["older"] == KEPT:
        record["older"] = NONE
    else:
        _leave(clock, memory, slot)
        clock[OUTSTANDING] -= 1
    free(clock, memory, slot)


@kernel(inline=True)
def close_round(state: Vector, params: Vector, clock: Integers, memory: Memory) -> int:
    """Skip the oldest outstanding decision if the learner's patience with it is over: its slot, or NONE.

    The slot is the caller's to free, unless the learner keeps it. A patience that never shrinks is over with one
    decision a round at most. Where it comes down from inf, a learner that keeps skipped decisions skips all at once:
    the slot is that of the last.
    """
    skipped = NONE
    while True:
        oldest = clock[OLDEST]
        if oldest == NONE or clock[PATIENCE_AT] == 0:
            return skipped
        waited = clock[ROUND] - memory[oldest]["round"]
        if waited == 0 or waited < clock[PATIENCE]:  # patience never shrinks: no need to ask again yet
            return skipped
        patience = call_patience(clock[PATIENCE_AT], state, params)
        if patience > FOREVER:
            return skipped
        clock[PATIENCE] = math.ceil(patience)
        if waited < clock[PATIENCE]:
            return skipped
        _leave(clock, memory, oldest)
        clock[OUTSTANDING] -= 1
        clock[SKIPS] += 1
        if clock[KEEPS] == 0:
            if clock[FORGET_AT] != 0:
                call_forget(clock[FORGET_AT], state, params, memory[oldest]["mark"])
            return oldest
        memory[oldest]["older"] = KEPT
        skipped = oldest


@kernel(nogil=False)
def next_decision(
    state: Vector,
    params: Vector,
    clock: Integers,
    memory: Memory,
    p: Vector,
    draw: float,
    slot: int,
    loss: float,
    made: int,
    with_propensity: float,
) -> tuple[int, int, int, float]:
    """Live: let the outcome of a slot arrive (unless it is NONE), close the round, open the next.

    (round forgotten or 0, slot, arm, propensity); nothing is done, and the slot is NONE, where memory or the learner's
    state must grow first. A decision that was made before is remembered as it was: its arm (NONE: draw one) and its
    propensity.
    """
    if (clock[FREE] == NONE and slot == NONE) or wants_pages(state, clock):
        return 0, NONE, 0, 0.0
    if slot != NONE:
        arrive(state, params, clock, memory, p, slot, loss)
    skipped = 0
    oldest = close_round(state, params, clock, memory)
    if oldest != NONE and clock[KEEPS] == 0:
        skipped = memory[oldest]["round"]
        free(clock, memory, oldest)
    mark = open_round(state, params, clock, p, draw)
    arm = draw_arm(p, draw) if made == NONE else made
    slot = remember(clock, memory, arm, p[arm] if made == NONE else with_propensity, mark, NOT_DUE, 0.0)
    clock[OUTSTANDING] += 1
    return skipped, slot, arm, p[arm]


_RECORDS = (STATE, VECTOR, INTEGERS, MEMORY)
NEXT_DECISION = types.Tuple((types.int64, types.int64, types.int64, types.float64))(
    *_RECORDS, VECTOR, types.float64, types.int64, types.float64, types.int64, types.float64
)
ARRIVE = types.void(*_RECORDS, VECTOR, types.int64, types.float64)
