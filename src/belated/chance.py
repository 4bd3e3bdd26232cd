"""Random numbers as a function of a key and a position: nothing to seed, nothing to keep, the same for everyone.

The SplitMix64 generator (Steele, Lea & Flood 2014): the number at a position is a mix of key + position * golden
ratio. Simulations flip coins with it (`belated.coins`). A learner with chance of its own makes a key from the draw of
the round, so that whoever repeats the draws repeats the learner. The draws of an experiment of the service are made
from its seed and the round (`draw`), so that any worker can make the next.
"""

import numpy as np
from numba import types

from belated.kernels import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1 = np.uint64(30)
_SHIFT_2 = np.uint64(27)
_SHIFT_3 = np.uint64(31)
_SHIFT_4 = np.uint64(11)
WHOLE = 2.0**53
_PART = 2.0**-53


@kernel(inline=True)
def mixed(z: np.uint64) -> np.uint64:
    """64 bits that look like chance."""
    z = (z ^ (z >> _SHIFT_1)) * _MIX_1
    z = (z ^ (z >> _SHIFT_2)) * _MIX_2
    return z ^ (z >> _SHIFT_3)


@kernel(inline=True)
def fraction(key: np.uint64, position: np.uint64) -> np.uint64:
    """53 random bits at a position: a fraction of WHOLE."""
    return mixed(key + position * GOLDEN) >> _SHIFT_4


@kernel(inline=True)
def uniform(key: np.uint64, position: int) -> float:
    """A number in (0, 1) at a position, never 0 or 1."""
    return (np.float64(fraction(key, np.uint64(position))) + 0.5) * _PART


@kernel(inline=True)
def key_of(draw: float, number: float) -> np.uint64:
    """The key that belongs to the draw of a round: other rounds have other keys even where the draw is the same."""
    return mixed(np.uint64(draw * WHOLE) ^ (np.uint64(number) * GOLDEN))


@kernel(nogil=False)
def draw(seed: np.uint64, number: int) -> float:
    """The draw of a round, in [0, 1), from a seed and the round's number."""
    return np.float64(fraction(mixed(seed), np.uint64(number))) * _PART


DRAW = types.float64(types.uint64, types.int64)
