"""The loop of a simulation: every learner, environment and law of delay goes through this one, compiled once."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from belated.core.kernels import VECTOR, IntegerMatrix, Matrix, Memory, Vector, call_learn, call_patience, entry, kernel
from belated.core.random import flip
from belated.core.rounds import (
    NONE,
    NOT_DUE,
    RUN,
    Run,
    close_round,
    note_arm,
    open_round,
    remember,
    wants_pages,
)
from belated.core.shares import draw_arm
from belated.simulation.schedule import SCHEDULE, add, arrive_due, skip_oldest

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


class Rounds(NamedTuple):
    """Some consecutive rounds, n of them, as every learner of a replication meets them."""

    draws: Vector
    losses: Matrix
    """(n, arms); no rows where losses are coins, flipped when they are looked at."""
    expected: Matrix
    """Expected losses: (n, arms), or one row where all rounds have the same."""
    delays: IntegerMatrix
    """One column; or one for each arm (BY_ARM); or one for losses below 1/2 and one for the others (BY_LOSS)."""
    by: int
    seed: Any
    """Of the coins: a uint64."""
    horizon: int
    """The last round of the simulation: what would come later is not waited for by the loop."""


class Notes(NamedTuple):
    """What is written down of the same rounds. Arrays without rows are left alone."""

    paid: Vector
    """The sum of the expected losses of all decisions up to each round."""
    columns: IntegerMatrix
    """ARM, OUTSTANDING, SKIPPED, DELAY."""
    patience: Vector
    losses: Vector
    """The loss of each decision."""
    distributions: Matrix
    estimates: Matrix
    """Loss estimates of every arm at the end of each round."""
    layout: Any
    """Where the estimates stand in the learner's state: first, width, step (`belated.core.layout`)."""


_MATRIX = types.float64[:, ::1]
_COUNTS = types.int64[:, ::1]
ROUNDS = types.NamedTuple((VECTOR, _MATRIX, _MATRIX, _COUNTS, types.int64, types.uint64, types.int64), Rounds)
NOTES = types.NamedTuple((VECTOR, _COUNTS, VECTOR, VECTOR, _MATRIX, _MATRIX, types.UniTuple(types.int64, 3)), Notes)


@kernel(inline=True)
def _loss(rounds: Rounds, j: int, now: int, arm: int) -> float:
    """Return the loss of an arm in the round of index j."""
    if rounds.losses.shape[0] == 0:
        return flip(rounds.seed, now, arm, rounds.expected[min(j, rounds.expected.shape[0] - 1), arm])
    return float(rounds.losses[j, arm])


@kernel
def play(run: Run, schedule: Memory, rounds: Rounds, notes: Notes, begin: int, end: int, before: float) -> int:
    """Play rounds from index `begin` to `end`; return the index reached.

    It is short of the end where memory or the learner's state must grow first, and -1 - index where a loss or delay is
    out of range. `before` is what was paid before the first of these rounds.
    """
    clock = run.clock[0]
    state, params, p = run.state, run.params, run.p
    expected, delays, by = rounds.expected, rounds.delays, rounds.by
    varying = expected.shape[0] > 1
    coins = rounds.losses.shape[0] == 0
    tracing = notes.columns.shape[0] > 0
    skips = clock["patience_address"] != 0
    early = by != BY_ROUND or clock["chosen_address"] != 0  # the arm is asked for before anything arrives
    total = notes.paid[begin - 1] if begin > 0 else before
    for j in range(begin, end):
        if clock["free"] == NONE or wants_pages(run):
            return j
        draw = rounds.draws[j]
        outstanding = clock["outstanding"]
        delay = delays[j, 0]
        if clock["delay_place"] != NONE:
            state[clock["delay_place"]] = delay
        mark = open_round(run, draw)
        now = clock["round"]
        arm = 0
        if early:
            arm = draw_arm(p, draw)
            mark = note_arm(run, arm, p[arm], mark)
        if by != BY_ROUND:
            column = arm
            if by == BY_LOSS:
                column = int(_loss(rounds, j, now, arm) >= 0.5)
            delay = delays[j, min(column, delays.shape[1] - 1)]
        oldest = NONE
        if delay > 0:
            # Whatever arrives now was decided before: it does not depend on the arm of this round. Taken first, it lets
            # the processor begin with the next round while it still draws the arm of this one.
            arrive_due(schedule, run, now)
            oldest = close_round(run)
        if not early:
            arm = draw_arm(p, draw)
        mean = expected[j, arm] if varying else expected[0, arm]
        if coins:
            if delay < 0 or not 0.0 <= mean <= 1.0:
                return -1 - j
            loss = flip(rounds.seed, now, arm, mean)
        else:
            loss = rounds.losses[j, arm]
            if delay < 0 or not 0.0 <= loss <= 1.0:
                return -1 - j
        total += mean
        notes.paid[j] = total
        if delay == 0:
            arrive_due(schedule, run, now)
            if clock["round_place"] != NONE:
                state[clock["round_place"]] = now
            call_learn(clock["learn_address"], state, params, arm, loss, p[arm], mark)
            oldest = close_round(run)
        else:
            clock["outstanding"] += 1
            comes = delay <= rounds.horizon - now
            if comes or skips:  # what never comes need not be remembered, unless to be skipped
                slot = remember(run, arm, p[arm], mark, now + delay if comes else NOT_DUE, loss)
                if comes:
                    add(schedule, run.memory, slot, now + delay)
        skipped = 0
        if oldest != NONE:
            skipped = skip_oldest(schedule, run, oldest)
        if tracing:
            notes.columns[j, ARM] = arm
            notes.columns[j, OUTSTANDING] = outstanding
            notes.columns[j, SKIPPED] = skipped
            notes.columns[j, DELAY] = delay
            if notes.losses.shape[0] > 0:
                notes.losses[j] = loss
        if notes.patience.shape[0] > 0:
            notes.patience[j] = np.inf
            if skips:
                notes.patience[j] = call_patience(clock["patience_address"], state, params)
        if notes.distributions.shape[0] > 0:
            for i in range(p.size):
                notes.distributions[j, i] = p[i]
        if notes.estimates.shape[0] > 0:
            first, width, step = notes.layout
            for i in range(p.size):
                notes.estimates[j, i] = state[first + i // width * step + i % width]
    return end


@kernel
def close(run: Run, schedule: Memory) -> int:
    """Close a round that was left open; return the round that was skipped, or 0."""
    oldest = close_round(run)
    return 0 if oldest == NONE else skip_oldest(schedule, run, oldest)


_PLAY = types.int64(RUN, SCHEDULE, ROUNDS, NOTES, types.int64, types.int64, types.float64)


@cache
def compiled_play() -> Any:
    """Return the loop as Python calls it."""
    return entry(play, _PLAY)


@cache
def compiled_close() -> Any:
    """Return the end of a round as Python calls it."""
    return entry(close, types.int64(RUN, SCHEDULE))
