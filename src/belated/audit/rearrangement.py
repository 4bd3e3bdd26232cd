"""Algorithm 2 of Masoudian, Zimmert & Seldin (2024): arrivals moved apart until no round has two."""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def rearrange(arrivals: Integers) -> Integers:
    """Return the round pi(s) to which each arrival is moved: the first free one from its own on, the earlier served
    first.

    `arrivals` holds the round in which the outcome of each decision arrives (a skip is an arrival without a loss);
    those of one round are served in the order in which they stand. Rounds that are taken follow each other without a
    hole from the one at hand on, so the k-th arrival goes to max(its own round, one after the one before it), which is
    k + max over j <= k of (a_j - j). The lemma (Appendix, "greedy rearrangement"): none moves by more than sigma_max^t,
    the most that was outstanding up to its own round t.

    >>> rearrange(np.array([3, 3, 3, 4, 9])).tolist()
    [3, 4, 5, 6, 9]
    """
    given = np.asarray(arrivals, dtype=np.int64)
    order = np.argsort(given, kind="stable")
    steps = np.arange(given.size)
    moved = np.empty_like(given)
    moved[order] = np.maximum.accumulate(given[order] - steps) + steps if given.size else given
    return moved
