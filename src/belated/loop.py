"""The loop of a simulation: every learner, environment and law of delay goes through this one, compiled once."""

from functools import cache
from typing import Any

import numpy as np
from numba import types

from belated import rounds as protocol
from belated.calendar import CALENDAR, arrive_due, schedule, skip_oldest
from belated.coins import flip
from belated.kernels import (
    INTEGERS,
    STATE,
    VECTOR,
    IntegerMatrix,
    Integers,
    Matrix,
    Memory,
    Vector,
    call_learn,
    call_patience,
    entry,
    kernel,
)
from belated.rounds import MEMORY, close_round, draw_arm, open_round, remember, wants_pages

# The columns of a trace.
ARM = 0
OUTSTANDING = 1
SKIPPED = 2
DELAY = 3
COLUMNS = 4


# What a delay depends on.
BY_ROUND = 0
BY_ARM = 1
BY_LOSS = 2
BY = {"round": BY_ROUND, "arm": BY_ARM, "loss": BY_LOSS}


@kernel(inline=True)
def _loss(losses: Matrix, expected: Matrix, key: np.uint64, j: int, now: int, arm: int) -> float:
    """The loss of an arm in the round of index j."""
    if losses.shape[0] == 0:
        return flip(key, now, arm, expected[min(j, expected.shape[0] - 1), arm])
    return float(losses[j, arm])


@kernel
def play(
    state: Vector,
    params: Vector,
    clock: Integers,
    memory: Memory,
    calendar: Memory,
    p: Vector,
    draws: Vector,
    losses: Matrix,
    delays: IntegerMatrix,
    by: int,
    expected: Matrix,
    key: np.uint64,
    begin: int,
    horizon: int,
    before: float,
    paid: Vector,
    trace: IntegerMatrix,
    trace_patience: Vector,
    trace_p: Matrix,
    trace_losses: Matrix,
    first: int,
    width: int,
    step: int,
) -> int:
    """Play the rounds of a chunk from index `begin`; the index reached.

    `delays` has one column, or one for each arm (`by` is BY_ARM), or one for losses below 1/2 and one for the others
    (BY_LOSS).

    `paid` takes the sum of the expected losses of all decisions up to each round, `before` is that before the chunk.
    It is short of the end where memory or the learner's state must grow first, and -1 - index where a loss or delay is
    out of range.
    """
    varying = expected.shape[0] > 1
    coins = losses.shape[0] == 0
    tracing = trace.shape[0] > 0
    skips = clock[protocol.PATIENCE_AT] != 0
    total = paid[begin - 1] if begin > 0 else before
    for j in range(begin, draws.size):
        if clock[protocol.FREE] == protocol.NONE or wants_pages(state, clock):
            return j
        outstanding = clock[protocol.OUTSTANDING]
        delay = delays[j, 0]
        if clock[protocol.DELAY_TO] != protocol.NONE:
            state[clock[protocol.DELAY_TO]] = delay
        mark = open_round(state, params, clock, p, draws[j])
        now = clock[protocol.ROUND]
        arm = 0
        if by != BY_ROUND:
            arm = draw_arm(p, draws[j])
            column = arm
            if by == BY_LOSS:
                column = _loss(losses, expected, key, j, now, arm) >= 0.5
            delay = delays[j, min(column, delays.shape[1] - 1)]
        oldest = protocol.NONE
        if delay > 0:
            # Whatever arrives now was decided before: it does not depend on the arm of this round. Taken first, it lets
            # the processor begin with the next round while it still draws the arm of this one.
            arrive_due(calendar, state, params, clock, memory, p, now)
            oldest = close_round(state, params, clock, memory)
        if by == BY_ROUND:
            arm = draw_arm(p, draws[j])
        mean = expected[j, arm] if varying else expected[0, arm]
        if coins:
            if delay < 0 or not 0.0 <= mean <= 1.0:
                return -1 - j
            loss = flip(key, now, arm, mean)
        else:
            loss = losses[j, arm]
            if delay < 0 or not 0.0 <= loss <= 1.0:
                return -1 - j
        total += mean
        paid[j] = total
        if delay == 0:
            arrive_due(calendar, state, params, clock, memory, p, now)
            call_learn(clock[protocol.LEARN_AT], state, params, arm, loss, p[arm], mark)
            oldest = close_round(state, params, clock, memory)
        else:
            clock[protocol.OUTSTANDING] += 1
            comes = delay <= horizon - now
            if comes or skips:  # what never comes need not be remembered, unless to be skipped
                slot = remember(clock, memory, arm, p[arm], mark, now + delay if comes else protocol.NOT_DUE, loss)
                if comes:
                    schedule(calendar, memory, slot, now + delay)
        skipped = 0
        if oldest != protocol.NONE:
            skipped = skip_oldest(calendar, clock, memory, oldest)
        if tracing:
            trace[j, ARM] = arm
            trace[j, OUTSTANDING] = outstanding
            trace[j, SKIPPED] = skipped
            trace_patience[j] = np.inf
            if skips:
                trace_patience[j] = call_patience(clock[protocol.PATIENCE_AT], state, params)
            trace[j, DELAY] = delay
        if trace_p.shape[0] > 0:
            for i in range(p.size):
                trace_p[j, i] = p[i]
        if trace_losses.shape[0] > 0:
            for i in range(p.size):
                trace_losses[j, i] = state[first + i // width * step + i % width]
    return draws.size


_LOSSES = types.float64[:, ::1]
_PLAY = types.int64(
    STATE,
    VECTOR,
    INTEGERS,
    MEMORY,
    CALENDAR,
    VECTOR,
    VECTOR,
    _LOSSES,
    types.int64[:, ::1],
    types.int64,
    _LOSSES,
    types.uint64,
    types.int64,
    types.int64,
    types.float64,
    VECTOR,
    types.int64[:, ::1],
    VECTOR,
    _LOSSES,
    _LOSSES,
    types.int64,
    types.int64,
    types.int64,
)


@cache
def compiled_play() -> Any:
    return entry(play, _PLAY)
