"""Coins for losses that are 0 or 1: flipped when they are looked at, the same for everyone who looks.

The coin of an arm in a round is a function of a key, the round and the arm: `belated.chance` at the position that round
and arm name. So a simulation pays for the arm that was played only, however
many there are, and all learners of a replication meet the same losses.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.chance import WHOLE, fraction
from belated.kernels import Integers, Matrix, kernel

ARM_BITS = np.uint64(14)  # 16,384 arms; rounds have the other 50 bits


@kernel(inline=True)
def flip(key: np.uint64, number: int, arm: int, mean: float) -> float:
    """1.0 with probability `mean`, else 0.0: the coin of an arm in the round of that number."""
    bits = fraction(key, (np.uint64(number) << ARM_BITS) | np.uint64(arm))
    return 1.0 if bits < np.uint64(mean * WHOLE) else 0.0


def new_key(rng: np.random.Generator) -> np.uint64:
    return rng.integers(0, 2**64, dtype=np.uint64)


def key_of_stream(rng: np.random.Generator) -> np.uint64:
    """A key that belongs to a stream of random numbers and leaves it untouched: the same whenever it is asked for."""
    seeds: Any = rng.bit_generator.seed_seq
    return np.uint64(seeds.generate_state(1, np.uint64)[0])


def flip_all(key: np.uint64, rounds: NDArray[np.int64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """The losses of every arm in some rounds, (n, n_arms), for means of shape (n or 1, n_arms)."""
    losses = np.empty((rounds.size, means.shape[1]))
    with np.errstate(over="ignore"):  # wrapping around is what these integers are for
        _flip_all(key, rounds, means, losses)
    return losses


@kernel
def _flip_all(key: np.uint64, rounds: Integers, means: Matrix, losses: Matrix) -> None:
    for j in range(rounds.size):
        row = min(j, means.shape[0] - 1)
        for i in range(losses.shape[1]):
            losses[j, i] = flip(key, rounds[j], i, means[row, i])
