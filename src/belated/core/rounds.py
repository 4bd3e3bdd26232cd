"""The protocol of a round, in one place for live and bulk: open, draw, remember, arrive, give up.

Round t, in this order (Masoudian, Zimmert & Seldin 2024, Algorithm 1, read causally; docs/math.md):

1. open: the outstanding decisions are counted, the learner writes its distribution p, the run's limits are put on it
   (`belated.core.shares`), an arm is drawn from it;
2. the decision is remembered: its arm, its propensity, and the mark that the learner wants back with the outcome;
3. arrivals: every outcome that comes before round t + 1 opens is learned from, with what was remembered;
4. close: the oldest outstanding decision s < t with t - s >= patience is skipped, given up for good. For a learner that
   keeps skipped decisions it leaves the count only: its outcome is still learned from when it comes.

Arms may come and go between rounds. Decisions of an arm that has left are remembered as those of no arm: they count as
outstanding until their outcome comes or patience with them is over, and nothing is learned from them.

Everything that a learner's run consists of is in five arrays (`Run`). Decisions are remembered in the slots of a table
that the caller enlarges when it is full (`enlarge`). Slots of outstanding decisions form a list from the oldest to the
newest, so that arriving, skipping and counting cost O(1). Where decisions are on record elsewhere, in a ledger, nothing
is remembered here: whoever has the record gives it back with the outcome (`decide_on_record`, `arrive_on_record`,
`skip_on_record`).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from belated.core.kernels import (
    STATE,
    VECTOR,
    Memory,
    Vector,
    call_chosen,
    call_decide,
    call_forget,
    call_learn,
    call_patience,
    kernel,
)
from belated.core.pages import USED
from belated.core.shares import draw_arm, put_floor, put_limits

NONE = -1
KEPT = -2  # as `older` of a slot: skipped, but the outcome will be learned from
NOT_DUE = -1  # as `due` of a slot: nobody knows when
FOREVER = 1 << 62
MOST_DRIFT = 1e9

COUNTERS = np.dtype(
    [
        # counts
        ("round", np.int64),
        ("outstanding", np.int64),
        ("cumulative_outstanding", np.int64),  # D_t, the sum of the counts with which rounds were opened
        ("most_outstanding", np.int64),
        ("skips", np.int64),
        ("patience", np.int64),  # whole rounds to wait, when last asked
        ("drift", np.float64),  # the largest drift seen at an arrival; at least 1
        # slots of the table of decisions, or NONE
        ("oldest", np.int64),
        ("newest", np.int64),
        ("free", np.int64),
        ("pages", np.int64),  # pages that the learner's state has room for
        ("longest_delay", np.int64),  # of the outcomes that were learned from
    ]
)
"""What a clock says of the rounds so far."""

CLOCK = np.dtype(
    [
        *((name, COUNTERS[name]) for name in COUNTERS.names or ()),
        # the learner in this process, written by `Learner.connect`: addresses of its functions, 0 for none
        ("decide_address", np.int64),
        ("chosen_address", np.int64),
        ("learn_address", np.int64),
        ("patience_address", np.int64),
        ("forget_address", np.int64),
        # places in its state, or NONE: where it wants the draw of the round, the delay of the decision, the round of
        # the decision that it learns from; where the head of its pages is
        ("draw_place", np.int64),
        ("delay_place", np.int64),
        ("round_place", np.int64),
        ("pages_place", np.int64),
        ("keeps_skipped", np.int64),  # 1 where outcomes of skipped decisions are still learned from
        # limits of the run: where they begin among the parameters, or NONE; the least probability of an arm, 0 for none
        ("limits_place", np.int64),
        ("share_floor", np.float64),
    ]
)
"""The clock of a run: one record."""

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
"""A remembered decision."""


class Run(NamedTuple):
    """The arrays of one learner at work. They are written in place; a larger state or memory makes a new `Run`."""

    state: Vector
    params: Vector
    clock: Memory
    """One CLOCK."""
    memory: Memory
    """SLOTs."""
    p: Vector
    """The distribution of the last round."""


RUN = types.NamedTuple(
    (STATE, VECTOR, types.Array(from_dtype(CLOCK), 1, "C"), types.Array(from_dtype(SLOT), 1, "C"), VECTOR), Run
)


def new_clock() -> NDArray[np.void]:
    """Return the clock before the first round; the learner has yet to be connected to it."""
    clock = np.zeros(1, dtype=CLOCK)
    clock[["oldest", "newest", "free"]] = (NONE, NONE, NONE)
    clock["limits_place"] = NONE
    clock["drift"] = 1.0
    return clock


def counters(clock: NDArray[np.void]) -> NDArray[np.void]:
    """Return what a clock says of the rounds so far, without what it knows of the learner in this process."""
    copy = np.zeros(1, dtype=COUNTERS)
    for name in COUNTERS.names or ():
        copy[name] = clock[name]
    return copy


def clock_of(counters: NDArray[np.void]) -> NDArray[np.void]:
    """Return the clock with these counters; the learner has yet to be connected to it."""
    clock = new_clock()
    for name in COUNTERS.names or ():
        clock[name] = counters[name]
    return clock


def new_memory() -> NDArray[np.void]:
    return np.zeros(0, dtype=SLOT)


def enlarged(memory: NDArray[np.void]) -> NDArray[np.void]:
    """Return a table with twice the slots. The new ones form a list of free slots that begins at the old size."""
    size = memory.size
    larger = np.zeros(max(64, 2 * size), dtype=SLOT)
    larger[:size] = memory
    larger["next"][size:] = np.arange(size + 1, larger.size + 1)
    larger["next"][-1] = NONE
    return larger


def enlarge(clock: NDArray[np.void], memory: NDArray[np.void]) -> NDArray[np.void]:
    """Return a larger table where no slot is free, and let the clock point at its free slots."""
    larger = enlarged(memory)
    clock["free"] = memory.size
    return larger


def rearm_memory(memory: NDArray[np.void], kept: NDArray[np.int64], n_arms: int) -> None:
    """Let remembered decisions speak of the arms as they are numbered now: kept has the former number of each arm, NONE
    for one that has come. Those of arms that have left are of no arm.
    """
    now = np.full(n_arms + 1, NONE, dtype=np.int32)  # the last stands for NONE itself
    now[kept[kept != NONE]] = np.flatnonzero(kept != NONE)
    memory["arm"] = now[memory["arm"]]


def outstanding_slots(clock: NDArray[np.void], memory: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """Yield (round, slot) of every outstanding decision, the oldest first."""
    slot = int(clock["oldest"][0])
    while slot != NONE:
        yield int(memory[slot]["round"]), slot
        slot = int(memory[slot]["newer"])


def waiting_slots(clock: NDArray[np.void], memory: NDArray[np.void]) -> dict[int, int]:
    """Return round -> slot of every decision whose outcome would be learned from, the oldest first.

    Those are the outstanding decisions and the kept ones, which are older than any that is outstanding.
    """
    kept = np.flatnonzero(memory["older"] == KEPT)
    slots = sorted((int(memory[slot]["round"]), int(slot)) for slot in kept)
    return dict([*slots, *outstanding_slots(clock, memory)])


@kernel(inline=True)
def wants_pages(run: Run) -> bool:
    """Return whether the state must be lengthened before the next round opens."""
    place = run.clock[0]["pages_place"]
    return place != NONE and run.state[place + USED] >= run.clock[0]["pages"]


@kernel(inline=True)
def open_round(run: Run, draw: float) -> float:
    """Open the next round: write the distribution that the arm is drawn from into p and return the learner's mark."""
    clock = run.clock[0]
    if clock["draw_place"] != NONE:
        run.state[clock["draw_place"]] = draw
    clock["round"] += 1
    outstanding = clock["outstanding"]
    clock["cumulative_outstanding"] += outstanding
    clock["most_outstanding"] = max(clock["most_outstanding"], outstanding)
    mark = call_decide(clock["decide_address"], run.state, run.params, outstanding, run.p)
    if clock["limits_place"] != NONE:
        put_limits(run.p, run.params, clock["limits_place"])
    if clock["share_floor"] > 0.0:
        put_floor(run.p, clock["share_floor"])
    return mark


@kernel(inline=True)
def note_arm(run: Run, arm: int, propensity: float, mark: float) -> float:
    """Tell the learner which arm was drawn, if it wants to know; return the mark of the decision."""
    clock = run.clock[0]
    if clock["chosen_address"] == 0:
        return mark
    return call_chosen(clock["chosen_address"], run.state, run.params, arm, propensity, mark)


@kernel(inline=True)
def remember(run: Run, arm: int, propensity: float, mark: float, due: int, loss: float) -> int:
    """Keep the decision of the open round as the newest outstanding one and return its slot. One must be free."""
    clock = run.clock[0]
    slot = clock["free"]
    record = run.memory[slot]
    clock["free"] = record["next"]
    record["round"] = clock["round"]
    record["due"] = due
    record["loss"] = loss
    record["arm"] = arm
    record["propensity"] = propensity
    record["mark"] = mark
    record["count"] = clock["cumulative_outstanding"]
    newest = clock["newest"]
    record["older"] = newest
    record["newer"] = NONE
    if newest == NONE:
        clock["oldest"] = slot
    else:
        run.memory[newest]["newer"] = slot
    clock["newest"] = slot
    return slot


@kernel(inline=True)
def _leave(run: Run, slot: int) -> None:
    """Take a slot out of the list of outstanding decisions."""
    record = run.memory[slot]
    older = record["older"]
    newer = record["newer"]
    if older == NONE:
        run.clock[0]["oldest"] = newer
    else:
        run.memory[older]["newer"] = newer
    if newer == NONE:
        run.clock[0]["newest"] = older
    else:
        run.memory[newer]["older"] = older


@kernel(inline=True)
def free(run: Run, slot: int) -> None:
    """Forget a decision that is waited for no more."""
    run.memory[slot]["next"] = run.clock[0]["free"]
    run.clock[0]["free"] = slot


@kernel(inline=True)
def _note_drift(run: Run, share: float, propensity: float, then: int) -> None:
    """Keep the largest x_{t,I_s} / max(x_{s,I_s}, lambda_{s,t}), lambda_{s,t} = exp(-D_t / (D_t - D_s)).

    This is what the paper's drift control lemma bounds by 4, at the arrivals of the run at hand.
    """
    clock = run.clock[0]
    worst = clock["drift"]
    if share > worst * propensity:
        now = clock["cumulative_outstanding"]
        explored = math.exp(-float(now) / (now - then)) if now > then else 0.0
        if share > worst * explored:
            clock["drift"] = min(share / max(propensity, explored), MOST_DRIFT)


@kernel(inline=True)
def _learn(
    run: Run, number: int, arm: int, propensity: float, mark: float, count: int, loss: float, outstanding: bool
) -> None:
    """Learn from the outcome of a decision, which is outstanding or was skipped before."""
    clock = run.clock[0]
    clock["longest_delay"] = max(clock["longest_delay"], clock["round"] - number)
    if outstanding:
        _note_drift(run, run.p[arm], propensity, count)
    if clock["round_place"] != NONE:
        run.state[clock["round_place"]] = number
    call_learn(clock["learn_address"], run.state, run.params, arm, loss, propensity, mark)


@kernel(inline=True)
def _skip(run: Run, mark: float) -> None:
    """Count an outstanding decision as skipped, and let the learner forget it unless it keeps it."""
    clock = run.clock[0]
    clock["outstanding"] -= 1
    clock["skips"] += 1
    if clock["keeps_skipped"] == 0 and clock["forget_address"] != 0:
        call_forget(clock["forget_address"], run.state, run.params, mark)


@kernel(inline=True, nogil=False)
def arrive(run: Run, slot: int, loss: float) -> None:
    """Learn from the outcome of an outstanding decision, unless its arm has left, and forget the decision."""
    clock = run.clock[0]
    record = run.memory[slot]
    is_kept = record["older"] == KEPT
    if record["arm"] != NONE:
        _learn(
            run,
            record["round"],
            record["arm"],
            record["propensity"],
            record["mark"],
            record["count"],
            loss,
            not is_kept,
        )
    if is_kept:
        record["older"] = NONE
    else:
        _leave(run, slot)
        if record["arm"] == NONE:
            _skip(run, record["mark"])
        else:
            clock["outstanding"] -= 1
    free(run, slot)


@kernel(inline=True)
def _is_over(run: Run, number: int) -> bool:
    """Return whether the learner's patience with the decision of a round is over."""
    clock = run.clock[0]
    waited = clock["round"] - number
    if waited == 0 or waited < clock["patience"]:  # patience never shrinks: no need to ask again yet
        return False
    patience = call_patience(clock["patience_address"], run.state, run.params)
    if patience > FOREVER:
        return False
    clock["patience"] = math.ceil(patience)
    return waited >= clock["patience"]


@kernel(inline=True)
def close_round(run: Run) -> int:
    """Skip the oldest outstanding decision if the learner's patience with it is over; return its slot, or NONE.

    The slot is the caller's to free, unless the learner keeps it. A patience that never shrinks is over with one
    decision a round at most. Where it comes down from inf, a learner that keeps skipped decisions skips all at once:
    the slot is that of the last.
    """
    clock = run.clock[0]
    skipped = NONE
    while True:
        oldest = clock["oldest"]
        if oldest == NONE or clock["patience_address"] == 0:
            return skipped
        if not _is_over(run, run.memory[oldest]["round"]):
            return skipped
        _leave(run, oldest)
        _skip(run, run.memory[oldest]["mark"])
        if clock["keeps_skipped"] == 0:
            return oldest
        run.memory[oldest]["older"] = KEPT
        skipped = oldest


@kernel(nogil=False)
def next_decision(
    run: Run, draw: float, slot: int, loss: float, made: int, with_propensity: float
) -> tuple[int, int, int, float]:
    """Let the outcome of a slot arrive (unless it is NONE), close the round, open the next: a live decision.

    Return (round forgotten or 0, slot, arm, propensity). Nothing is done, and the slot is NONE, where memory or the
    learner's state must grow first. A decision that was made before is remembered as it was: its arm (NONE: draw one)
    and its propensity.
    """
    clock = run.clock[0]
    if (clock["free"] == NONE and slot == NONE) or wants_pages(run):
        return 0, NONE, 0, 0.0
    if slot != NONE:
        arrive(run, slot, loss)
    skipped = 0
    oldest = close_round(run)
    if oldest != NONE and clock["keeps_skipped"] == 0:
        skipped = run.memory[oldest]["round"]
        free(run, oldest)
    mark = open_round(run, draw)
    arm = draw_arm(run.p, draw) if made == NONE else made
    propensity = run.p[arm] if made == NONE else with_propensity
    mark = note_arm(run, arm, propensity, mark)
    slot = remember(run, arm, propensity, mark, NOT_DUE, 0.0)
    clock["outstanding"] += 1
    return skipped, slot, arm, run.p[arm]


@kernel(nogil=False)
def decide_on_record(run: Run, draw: float, made: int, with_propensity: float) -> tuple[int, float, float, int]:
    """Open the next round, whose decision somebody else remembers: (arm, propensity, mark, D_t).

    Nothing is done, and the arm is NONE, where the learner's state must grow first. A decision that was made before has
    its arm (NONE: draw one) and its propensity; returned is the propensity that the learner gives this arm.
    """
    clock = run.clock[0]
    if wants_pages(run):
        return NONE, 0.0, 0.0, 0
    mark = open_round(run, draw)
    arm = draw_arm(run.p, draw) if made == NONE else made
    propensity = run.p[arm] if made == NONE else with_propensity
    mark = note_arm(run, arm, propensity, mark)
    clock["outstanding"] += 1
    return arm, run.p[arm], mark, clock["cumulative_outstanding"]


@kernel(nogil=False)
def arrive_on_record(
    run: Run, number: int, arm: int, propensity: float, mark: float, count: int, loss: float, outstanding: bool
) -> None:
    """Learn from the outcome of a decision that is on record, outstanding or skipped before."""
    _learn(run, number, arm, propensity, mark, count, loss, outstanding)
    if outstanding:
        run.clock[0]["outstanding"] -= 1


@kernel(nogil=False)
def skip_on_record(run: Run, number: int, mark: float, surely: bool) -> bool:
    """Skip an outstanding decision that is on record: surely, or if the learner's patience with it is over."""
    if not surely and (run.clock[0]["patience_address"] == 0 or not _is_over(run, number)):
        return False
    _skip(run, mark)
    return True


NEXT_DECISION = types.Tuple((types.int64, types.int64, types.int64, types.float64))(
    RUN, types.float64, types.int64, types.float64, types.int64, types.float64
)
ARRIVE = types.void(RUN, types.int64, types.float64)
DECIDE_ON_RECORD = types.Tuple((types.int64, types.float64, types.float64, types.int64))(
    RUN, types.float64, types.int64, types.float64
)
ARRIVE_ON_RECORD = types.void(
    RUN, types.int64, types.int64, types.float64, types.float64, types.int64, types.float64, types.boolean
)
SKIP_ON_RECORD = types.boolean(RUN, types.int64, types.float64, types.boolean)
