"""Sums of rewards weighted by inverse propensities, decision by decision, for `belated.inference.weighted_sums`."""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import from_dtype, types

from belated.core.kernels import INTEGERS, VECTOR, Integers, Memory, Vector, entry, kernel

ROW = np.dtype(
    [
        ("known", np.float64),  # rewards so far
        ("rewards", np.float64),  # their sum
        ("last", np.float64),  # the round of the last decision, among the rounds for which the arm was there
        ("up", np.float64),  # the sum of r / pi
        ("down", np.float64),  # the sum of (1 - r) / pi
        # up to the last decision: the sums of their squared distances from c and 1 - c, c the mean of earlier rewards
        ("up_squares", np.float64),
        ("down_squares", np.float64),
    ]
)
"""What is kept of an arm."""


@kernel(inline=True)
def _add(rows: Memory, k: int, number: int, reward: float, propensity: float) -> None:
    row = rows[k]
    centre = (0.5 + row["rewards"]) / (1.0 + row["known"])
    passed = number - row["last"] - 1.0  # rounds in which the arm was not chosen: both weighted rewards were 0
    up = 0.0
    down = 0.0
    if not math.isnan(reward):
        up = reward / propensity
        down = (1.0 - reward) / propensity
        row["known"] += 1.0
        row["rewards"] += reward
    row["last"] = number
    row["up"] += up
    row["down"] += down
    row["up_squares"] += (up - centre) ** 2 + passed * centre**2
    row["down_squares"] += (down - (1.0 - centre)) ** 2 + passed * (1.0 - centre) ** 2


@kernel
def add_rounds(
    arms: Integers, rewards: Vector, propensities: Vector, before: int, absent: Integers, rows: Memory
) -> None:
    """Go on by the rounds after `before`. The last row is that of an arm that is chosen in every round.

    absent: the rounds so far for which each arm was not there; those that are chosen now are.
    """
    for j in range(arms.size):
        number = before + 1 + j
        _add(rows, arms[j], number - absent[arms[j]], rewards[j], propensities[j])
        _add(rows, rows.size - 1, number, rewards[j], 1.0)


@cache
def compiled_add() -> Any:
    """Return the function above as Python calls it."""
    table = types.Array(from_dtype(ROW), 1, "C")
    return entry(add_rounds, types.void(INTEGERS, VECTOR, VECTOR, types.int64, INTEGERS, table))
