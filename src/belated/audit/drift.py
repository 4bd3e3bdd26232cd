"""How far distributions drift while an outcome is awaited: the quantity that the paper's drift control lemma bounds.

For every round t the largest x_{t,i} / max(x_{s,i}, lambda_{s,t}) over arms i and rounds s from the oldest that t may
still wait for up to t itself. Lemma (drift control): with the constant 49 it is at most 4.

Not pair by pair. lambda_{s,t} = exp(-D_t / (D_t - D_s)) falls with s, so a round with a later one of no larger x_{s,i}
never matters again; what is left of each arm is a queue in which x rises and lambda falls from the oldest to the
newest, and the least max(x, lambda) is where they cross: found by halving. O(K log window) a round, O(K window) memory.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.core.kernels import INTEGERS, VECTOR, IntegerMatrix, Integers, Matrix, Vector, entry, kernel

Floats = NDArray[np.float64]


@kernel
def follow(
    p: Matrix,
    first: int,
    cumulative: Vector,
    oldest: Integers,
    needed: Integers,
    begin: int,
    heads: Integers,
    sizes: Integers,
    rounds: IntegerMatrix,
    shares: Matrix,
    counts: Matrix,
    worst: Vector,
) -> int:
    """Follow the rounds of a chunk from index `begin`: the index reached, short of the end where a queue is full.

    Queues are rings: `heads` and `sizes` say where each arm's begins and how long it is; an entry is a round s,
    log x_{s,i} and D_s. `oldest` is the oldest s that counts in a round, `needed` the oldest that still counts in it
    or in any later one.
    """
    room = rounds.shape[1]
    for j in range(begin, p.shape[0]):
        for i in range(sizes.size):
            if sizes[i] == room and rounds[i, heads[i]] >= needed[j]:
                return j
        now = cumulative[j]
        largest = 1.0
        for i in range(sizes.size):
            head = heads[i]
            size = sizes[i]
            while size > 0 and rounds[i, head] < needed[j]:
                head = (head + 1) % room
                size -= 1
            share = math.log(p[j, i]) if p[j, i] > 0.0 else -math.inf
            while size > 0 and shares[i, (head + size - 1) % room] >= share:
                size -= 1
            place = (head + size) % room
            rounds[i, place] = first + j
            shares[i, place] = share
            counts[i, place] = now
            heads[i] = head
            sizes[i] = size + 1
            if share == -math.inf:
                continue
            begin_at = _first_from(rounds, head, size, i, oldest[j])
            low = begin_at
            high = size  # the newest entry is this round's own, where lambda is 0
            while low < high:
                middle = (low + high) // 2
                place = (head + middle) % room
                if _exploration(now, counts[i, place]) <= shares[i, place]:
                    high = middle
                else:
                    low = middle + 1
            least = shares[i, (head + low) % room]
            if low > begin_at:
                least = min(least, _exploration(now, counts[i, (head + low - 1) % room]))
            largest = max(largest, math.exp(share - least))
        worst[j] = largest
    return p.shape[0]


@kernel(inline=True)
def _first_from(rounds: IntegerMatrix, head: int, size: int, arm: int, wanted: int) -> int:
    """Return the first place, counted from the head, of a queue's entries whose round is at least the one wanted."""
    low = 0
    high = size
    while low < high:
        middle = (low + high) // 2
        if rounds[arm, (head + middle) % rounds.shape[1]] >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(inline=True)
def _exploration(now: float, then: float) -> float:
    """Return log lambda_{s,t} for D_t = now and D_s = then."""
    return -now / (now - then) if now > then else -math.inf


_MATRIX = types.float64[:, ::1]
_FOLLOW = types.int64(
    _MATRIX,
    types.int64,
    VECTOR,
    INTEGERS,
    INTEGERS,
    types.int64,
    INTEGERS,
    INTEGERS,
    types.int64[:, ::1],
    _MATRIX,
    _MATRIX,
    VECTOR,
)


@cache
def _compiled_follow() -> Any:
    return entry(follow, _FOLLOW)


class Drift:
    """The largest drift in each round of a run that is handed over chunk by chunk."""

    def __init__(self, n_arms: int) -> None:
        self.rounds = 0
        self.heads = np.zeros(n_arms, dtype=np.int64)
        self.sizes = np.zeros(n_arms, dtype=np.int64)
        self.queues = _queues(n_arms, 64)

    def add(self, p: Floats, cumulative: Integers, oldest: Integers, needed: Integers) -> Floats:
        """Return the drift of each of the next rounds: at least 1, as x_t / x_t is.

        p: their distributions; cumulative: their D_t; oldest: the oldest round that counts in each; needed: the oldest
        that counts in it or in any later one, so that what is older can be forgotten.
        """
        worst = np.empty(len(p))
        distributions = np.ascontiguousarray(p, dtype=np.float64)
        counts = np.ascontiguousarray(cumulative, dtype=np.float64)
        limits = [np.ascontiguousarray(limit, dtype=np.int64) for limit in (oldest, needed)]
        reached = 0
        while True:
            reached = _compiled_follow()(
                distributions, self.rounds + 1, counts, *limits, reached, self.heads, self.sizes, *self.queues, worst
            )
            if reached == len(p):
                break
            self._enlarge()
        self.rounds += len(p)
        return worst

    def _enlarge(self) -> None:
        room = self.queues[0].shape[1]
        places = (self.heads[:, None] + np.arange(room)) % room
        larger = _queues(self.heads.size, 2 * room)
        for new, old in zip(larger, self.queues, strict=True):
            new[:, :room] = np.take_along_axis(old, places, axis=1)
        self.heads[:] = 0
        self.queues = larger

    @property
    def memory(self) -> int:
        """Bytes held."""
        return sum(queue.nbytes for queue in self.queues)


def _queues(n_arms: int, room: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    shape = (n_arms, room)
    return np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape)
