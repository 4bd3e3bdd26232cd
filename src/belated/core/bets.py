"""Bets of fixed shares on the recorded randomisation, decision by decision: the compiled half of
`belated.inference.bets`.

A row of bets is about one statement. At each decision it has an x in (-1, 1), and the wealth of bet j is multiplied by
1 + kappa_j x for the statement itself, and by 1 - kappa_j x for its opposite. The bets and their weights are fixed.

Wealth is kept as a product, since products are several times as fast as sums of logarithms. A product is scaled back by
powers of 2^256 after every 64 decisions, and `shifts` counts how often, so it can neither overflow nor underflow.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from belated.core.kernels import INTEGERS, VECTOR, Integers, Matrix, Vector, entry, kernel

_STEPS = np.arange(-10.0, 20.0)
KAPPAS: Vector = 1.0 / (1.0 + 2.0 ** (_STEPS / 2.0))
"""The shares that are bet. Their odds are the powers of sqrt(2) from 32 down to 2^-9.5."""
WEIGHTS: Vector = 1.0 / (1.0 + ((_STEPS - 2.0) / 5.0) ** 2)
WEIGHTS /= WEIGHTS.sum()
"""The part of the wealth that each bet begins with."""
LOG_UNIT = 256.0 * math.log(2.0)
"""The logarithm of what one shift stands for."""

# What a row adds up.
WEIGHT = 0  # v, the weight of each decision
GAIN = 1  # x
UNLIKE = 2  # decisions that weigh something else than the first one
UPDATES = 3  # since wealth was last scaled back
OFFSET = 4  # of an arm's own mean: the centres that x was measured from
FIRST = 5  # the weight of the first decision
SUMS = 6

# What all decisions add up to.
OUTCOMES = 0
REWARDS = 1
BLIND = 2  # decisions without the probabilities that a comparison needs
DECISIONS = 3
GUARANTEED = 4  # 1 where every arm has a floor, which makes all caps what decisions weigh
TOTALS = 5

MEMORY = 500.0
_UNIT = 2.0**256
_PART = 2.0**-256
_RESCALE_AFTER = 64
_ROUNDING = 1.0 - 1e-9


class Table(NamedTuple):
    """Rows of bets."""

    wealth: Any
    """Of shape (rows, 2, bets): for the statement, and for its opposite."""
    shifts: Any
    """Of the same shape: the wealth is to be multiplied by 2^256 so often."""
    sums: Matrix
    """Of shape (rows, SUMS)."""


class State(NamedTuple):
    """All bets on some arms, written in place."""

    pairs: Table
    """Row hi (hi - 1) / 2 + lo: arm lo is better than arm hi."""
    arms: Table
    """Row k: the mean of arm k is above what x is measured from."""
    plays: Table
    """Row 0: what was played is better than uniform play; row 1 + k: it is better than always arm k."""
    outcomes: Matrix
    """Of shape (arms, 2): how many outcomes each arm has, and the sum of their rewards."""
    totals: Vector
    caps: Matrix
    """What each decision weighs in the comparison of two arms whose shares have floors; 0 for others."""
    play_caps: Vector
    """The same for the rows of `plays`."""
    evidence: Matrix
    """log of the wealth of 'a is better than b', of shape (a, b)."""
    scales: Matrix
    """log of the part of the wealth against b that a bets with."""
    peaks: Matrix
    """Of shape (arms, 2): the largest evidence that an arm ever had against all others, and after how many
    decisions it had it.
    """
    present: Integers
    """1 for arms that are there, 0 for others."""
    shares: Vector
    """The probability of each arm of late: the mean over about the last MEMORY decisions."""


@kernel(inline=True)
def _bet(table: Table, row: int, up: float, down: float) -> None:
    """Multiply the wealth of a row: `up` is x for the statement, `down` for its opposite."""
    wealth, shifts, sums = table.wealth, table.shifts, table.sums
    up, down = max(up, -1.0), max(down, -1.0)  # wrong propensities may not make wealth negative
    for j in range(KAPPAS.size):
        wealth[row, 0, j] *= 1.0 + KAPPAS[j] * up
        wealth[row, 1, j] *= 1.0 + KAPPAS[j] * down
    sums[row, UPDATES] += 1.0
    if sums[row, UPDATES] >= _RESCALE_AFTER:
        sums[row, UPDATES] = 0.0
        for side in range(2):
            for j in range(KAPPAS.size):
                while wealth[row, side, j] > _UNIT:
                    wealth[row, side, j] *= _PART
                    shifts[row, side, j] += 1
                while wealth[row, side, j] < _PART:
                    wealth[row, side, j] *= _UNIT
                    shifts[row, side, j] -= 1


@kernel(inline=True)
def _log_wealth(table: Table, row: int, side: int) -> float:
    """Return the log of the wealth of all bets of a row together."""
    wealth, shifts = table.wealth, table.shifts
    top = shifts[row, side, 0]
    for j in range(1, KAPPAS.size):
        top = max(top, shifts[row, side, j])
    total = 0.0
    for j in range(KAPPAS.size):
        part = WEIGHTS[j] * wealth[row, side, j]
        behind = top - shifts[row, side, j]
        if behind < 5:  # what is further behind is lost in rounding
            for _ in range(behind):
                part *= _PART
            total += part
    return math.log(total) + top * LOG_UNIT


@kernel(inline=True)
def _worst(factor: float, reward: float, centre: float) -> float:
    """Return factor (reward - centre); the least it can be where the reward is not known."""
    if math.isnan(reward):
        return -factor * centre if factor > 0.0 else factor * (1.0 - centre)
    return factor * (reward - centre)


@kernel(inline=True)
def _place(table: Table, row: int, factor: float, reward: float, centre: float) -> None:
    """Bet on x = factor (reward - centre)."""
    _bet(table, row, _worst(factor, reward, centre), _worst(-factor, reward, centre))
    table.sums[row, GAIN] += factor * ((0.5 if math.isnan(reward) else reward) - centre)


@kernel(inline=True)
def _note_weight(sums: Matrix, row: int, weight: float) -> None:
    """Add the weight of a decision up, and note whether it is that of the first one."""
    first = sums[row, FIRST]
    if first == 0.0 and sums[row, WEIGHT] == 0.0:
        sums[row, FIRST] = first = weight
    if weight <= 0.0 or abs(weight - first) > first * (1.0 - _ROUNDING):
        sums[row, UNLIKE] += 1.0
    sums[row, WEIGHT] += weight


@kernel(inline=True)
def pair_weight(first: float, second: float, cap: float) -> float:
    """Return what a decision between two arms of these probabilities weighs; a cap of 0 is none."""
    if cap > 0.0 and min(first, second) >= cap * _ROUNDING:
        return cap
    both = first + second
    return first * second / both if both > 0.0 else 0.0  # below either probability, so below a cap that one has missed


@kernel(inline=True)
def _compare(state: State, arm: int, reward: float, chances: Vector, pooled: float, is_blind: bool) -> None:
    """Go on by a decision in the comparison of all pairs of arms that are there.

    x = v (y - c) / p_a where a was played, -v (y - c) / p_b where b was, 0 elsewhere: given the past its mean is
    v (mu_a - mu_b). v is the cap, as far as both probabilities are as large, and else p_a p_b / (p_a + p_b).
    """
    sums = state.pairs.sums
    n_arms = state.present.size
    for hi in range(1, n_arms):
        for lo in range(hi):
            if state.present[lo] == 0 or state.present[hi] == 0:
                continue
            row = hi * (hi - 1) // 2 + lo
            cap = state.caps[lo, hi]
            # where nothing but a floor is known, it is what the decision weighs
            weight = cap if is_blind else pair_weight(chances[lo], chances[hi], cap)
            _note_weight(sums, row, weight)
            if weight <= 0.0:
                continue
            factor = weight / chances[arm]
            if arm in (lo, hi):
                _place(state.pairs, row, factor if arm == lo else -factor, reward, pooled)
                state.evidence[lo, hi] = _log_wealth(state.pairs, row, 0)
                state.evidence[hi, lo] = _log_wealth(state.pairs, row, 1)


@kernel(inline=True)
def play_weight(chance: float, instead: float) -> float:
    """Return the largest v up to 1 with v |1 - u / p| <= 1, p the probability of an arm and u that by other play."""
    return 1.0 if instead <= 2.0 * chance else chance / (instead - chance)


@kernel(inline=True)
def _compare_play(state: State, arm: int, reward: float, chances: Vector, pooled: float, is_blind: bool) -> None:
    """Go on by a decision in the comparison of what was played with playing by other shares u instead.

    x = v (y - c) (1 - u_a / p_a), a the arm that was played, and v the cap, or as much less as keeps x below 1: its
    mean given the past is v times the sum of (p_k - u_k) mu_k.
    """
    sums = state.plays.sums
    n_arms = state.present.size
    count = 0
    least = math.inf
    for k in range(n_arms):
        count += state.present[k]
        if state.present[k] == 1:  # without the probabilities their floors
            floor = state.play_caps[1 + k] / (1.0 + state.play_caps[1 + k])
            least = min(least, floor if is_blind else chances[k])
    for row in range(n_arms + 1):
        if row > 0 and state.present[row - 1] == 0:
            continue
        cap = state.play_caps[row]
        weight = cap
        if row == 0:
            weight = min(cap, play_weight(least, 1.0 / count))
        elif not is_blind:
            weight = min(cap, play_weight(chances[row - 1], 1.0))
        _note_weight(sums, row, weight)
        if weight > 0.0:
            instead = 1.0 / count if row == 0 else (1.0 if row - 1 == arm else 0.0)
            _place(state.plays, row, weight * (1.0 - instead / chances[arm]), reward, pooled)


@kernel(inline=True)
def _note_peaks(state: State) -> None:
    """Keep the largest evidence that each arm ever had against all others that were there."""
    n_arms = state.present.size
    for k in range(n_arms):
        if state.present[k] == 0:
            continue
        least = math.inf
        for other in range(n_arms):
            if other != k and state.present[other] == 1:
                least = min(least, state.evidence[k, other] + state.scales[k, other])
        if least > state.peaks[k, 0] and least < math.inf:
            state.peaks[k, 0] = least
            state.peaks[k, 1] = state.totals[DECISIONS]


@kernel
def advance(arms: Integers, rewards: Vector, chances: Matrix, state: State) -> None:
    """Go on by some decisions in their order.

    chances: the probability of every arm at each decision; nan where it is not known. A reward that nobody knows is
    nan; bets then go as badly as they can.
    """
    has_floors = state.totals[GUARANTEED] > 0.0
    for n in range(arms.size):
        arm, reward = arms[n], rewards[n]
        state.totals[DECISIONS] += 1.0
        # the mean reward of earlier decisions is known before this one is drawn
        pooled = (0.5 + state.totals[REWARDS]) / (1.0 + state.totals[OUTCOMES])
        own = (0.5 + state.outcomes[arm, 1]) / (1.0 + state.outcomes[arm, 0])
        _place(state.arms, arm, 1.0, reward, own)
        state.arms.sums[arm, WEIGHT] += 1.0
        state.arms.sums[arm, OFFSET] += own
        is_blind = False
        for k in range(state.present.size):
            if state.present[k] == 1 and math.isnan(chances[n, k]):
                is_blind = True
        if is_blind and (not has_floors or math.isnan(chances[n, arm])):
            state.totals[BLIND] += 1.0
        else:
            _compare(state, arm, reward, chances[n], pooled, is_blind)
            _compare_play(state, arm, reward, chances[n], pooled, is_blind)
            _note_peaks(state)
        if not is_blind:
            for k in range(state.present.size):
                chance = chances[n, k] if state.present[k] == 1 else 0.0
                state.shares[k] += (chance - state.shares[k]) / min(state.totals[DECISIONS], MEMORY)
        if not math.isnan(reward):
            state.outcomes[arm, 0] += 1.0
            state.outcomes[arm, 1] += reward
            state.totals[OUTCOMES] += 1.0
            state.totals[REWARDS] += reward


@kernel
def advance_pairs(arms: Integers, rewards: Vector, chances: Matrix, pairs: Table, caps: Matrix, totals: Vector) -> None:
    """Go on by some decisions, with the same bets on pairs as `advance`, and nothing else: for simulations.

    All rewards and all probabilities are known, and all arms are there.
    """
    n_arms = caps.shape[0]
    for n in range(arms.size):
        arm, reward = arms[n], rewards[n]
        pooled = (0.5 + totals[REWARDS]) / (1.0 + totals[OUTCOMES])
        for other in range(n_arms):
            if other == arm:
                continue
            lo, hi = min(arm, other), max(arm, other)
            weight = pair_weight(chances[n, lo], chances[n, hi], caps[lo, hi])
            if weight > 0.0:
                x = weight / chances[n, arm] * (reward - pooled)
                _bet(pairs, hi * (hi - 1) // 2 + lo, x if arm == lo else -x, -x if arm == lo else x)
        totals[OUTCOMES] += 1.0
        totals[REWARDS] += reward


@kernel
def fill_evidence(pairs: Table, evidence: Matrix) -> None:
    """Write the log of the wealth of 'a is better than b', of shape (a, b)."""
    for hi in range(1, evidence.shape[0]):
        for lo in range(hi):
            row = hi * (hi - 1) // 2 + lo
            evidence[lo, hi] = _log_wealth(pairs, row, 0)
            evidence[hi, lo] = _log_wealth(pairs, row, 1)


_MATRIX = types.float64[:, ::1]
_TABLE = types.NamedTuple((types.float64[:, :, ::1], types.int64[:, :, ::1], _MATRIX), Table)
_STATE = types.NamedTuple(
    (_TABLE, _TABLE, _TABLE, _MATRIX, VECTOR, _MATRIX, VECTOR, _MATRIX, _MATRIX, _MATRIX, INTEGERS, VECTOR), State
)


@cache
def compiled_advance() -> Any:
    """Return `advance` as Python calls it."""
    return entry(advance, types.void(INTEGERS, VECTOR, _MATRIX, _STATE))


@cache
def compiled_pairs() -> tuple[Any, Any]:
    """Return `advance_pairs` and `fill_evidence` as Python calls them."""
    return (
        entry(advance_pairs, types.void(INTEGERS, VECTOR, _MATRIX, _TABLE, _MATRIX, VECTOR)),
        entry(fill_evidence, types.void(_TABLE, _MATRIX)),
    )
