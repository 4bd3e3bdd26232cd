"""Random numbers as a function of a seed and a position: no state to keep, the same numbers for everyone.

This is the SplitMix64 generator (Steele, Lea & Flood 2014): the number at a position is a mix of
seed + position * golden ratio. It serves three purposes:

- A learner with randomness of its own makes a seed from the draw of the round (`seed_of_draw`), so that whoever repeats
  the draws repeats the learner.
- An experiment of the service makes the draw of a round from its seed and the round (`draw`), so that any worker can
  make the next decision.
- A simulation flips losses that are 0 or 1 only when they are looked at (`flip`). It pays for the arm that was played,
  however many there are, and all learners of a replication meet the same losses.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.core.kernels import Integers, Matrix, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1 = np.uint64(30)
_SHIFT_2 = np.uint64(27)
_SHIFT_3 = np.uint64(31)
_SHIFT_4 = np.uint64(11)
WHOLE = 2.0**53
_PART = 2.0**-53
ARM_BITS = np.uint64(14)  # a position holds an arm, up to 16,384, in these bits and a round in the other 50


@kernel(inline=True)
def mixed(z: np.uint64) -> np.uint64:
    """Return 64 bits that look random."""
    z = (z ^ (z >> _SHIFT_1)) * _MIX_1
    z = (z ^ (z >> _SHIFT_2)) * _MIX_2
    return z ^ (z >> _SHIFT_3)


@kernel(inline=True)
def fraction(seed: np.uint64, position: np.uint64) -> np.uint64:
    """Return 53 random bits at a position: a fraction of WHOLE."""
    return mixed(seed + position * GOLDEN) >> _SHIFT_4


@kernel(inline=True)
def uniform(seed: np.uint64, position: int) -> float:
    """Return a number in (0, 1) at a position, never 0 or 1."""
    return (np.float64(fraction(seed, np.uint64(position))) + 0.5) * _PART


@kernel(inline=True)
def seed_of_draw(draw: float, number: float) -> np.uint64:
    """Return the seed that belongs to the draw of a round; other rounds have other seeds even at the same draw."""
    return mixed(np.uint64(draw * WHOLE) ^ (np.uint64(number) * GOLDEN))


@kernel(nogil=False)
def draw(seed: np.uint64, number: int) -> float:
    """Return the draw of a round, in [0, 1), from a seed and the round's number."""
    return np.float64(fraction(mixed(seed), np.uint64(number))) * _PART


DRAW = types.float64(types.uint64, types.int64)


@kernel(inline=True)
def flip(seed: np.uint64, number: int, arm: int, mean: float) -> float:
    """Return 1.0 with probability `mean`, else 0.0: the coin of an arm in the round of that number."""
    bits = fraction(seed, (np.uint64(number) << ARM_BITS) | np.uint64(arm))
    return 1.0 if bits < np.uint64(mean * WHOLE) else 0.0


def later(seed: np.uint64, rounds: int) -> np.uint64:
    """Return the seed whose coins in any round are those of another seed so many rounds later."""
    with np.errstate(over="ignore"):  # wrapping around is what these integers are for
        return seed + (np.uint64(rounds) << ARM_BITS) * GOLDEN


def new_seed(rng: np.random.Generator) -> np.uint64:
    """Return a seed drawn from a generator."""
    return rng.integers(0, 2**64, dtype=np.uint64)


def seed_of_generator(rng: np.random.Generator) -> np.uint64:
    """Return a seed that belongs to a generator and leaves it untouched: the same whenever it is asked for."""
    seeds: Any = rng.bit_generator.seed_seq
    return np.uint64(seeds.generate_state(1, np.uint64)[0])


def flip_all(seed: np.uint64, rounds: NDArray[np.int64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the losses of every arm in some rounds, (n, n_arms), for means of shape (n or 1, n_arms)."""
    losses = np.empty((rounds.size, means.shape[1]))
    with np.errstate(over="ignore"):  # wrapping around is what these integers are for
        _flip_all(seed, rounds, means, losses)
    return losses


@kernel
def _flip_all(seed: np.uint64, rounds: Integers, means: Matrix, losses: Matrix) -> None:
    for j in range(rounds.size):
        row = min(j, means.shape[0] - 1)
        for i in range(losses.shape[1]):
            losses[j, i] = flip(seed, rounds[j], i, means[row, i])
