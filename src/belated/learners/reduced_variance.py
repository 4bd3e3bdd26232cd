"""Reduced-variance estimates (Zimmert & Seldin 2021, JMLR 22, Section 3.2), for outcomes that come late.

    B_{s,i} = 1/2 where x_{s,i} >= c / s, else 0
    L_i += [i = I_s] (loss - B_{s,i}) / x_{s,i} + B_{s,i}  for every arm i, when the outcome of s arrives.

B is that of the decision, for every arm. Adding 1/2 to all arms changes no distribution, so B_{s,i} - 1/2 is added
instead. Where every arm had 1/2, which is nearly always, nothing is added. Otherwise the arms that had 0 are remembered
with the decision, a bit for each, on a page. Loss estimates are therefore known up to a constant common to all arms.

The mark of a decision is a number of the learner's own, at least 0. Where there is a page, the mark is -1 - page, and
the page keeps that number.
"""

import numpy as np

from belated.core import ftrl, pages
from belated.core.kernels import Vector, kernel
from belated.learners import rearm
from belated.learners.learner import Parameter
from belated.learners.rearm import Floats, Integers

BITS = 48  # arms in one number of a page
KEPT = 1  # in a page, behind its link: the learner's number; then the bits

BASELINE = Parameter("baseline", 4.0, 0.0, 1e9, "c: arms with x >= c / t have the baseline 1/2, others 0")


def page_size(n_arms: int) -> int:
    return KEPT + 1 + -(-n_arms // BITS)


@kernel(inline=True)
def note(state: Vector, head: int, p: Vector, threshold: float, kept: float) -> float:
    """Return the mark of a decision drawn from p. If arms were below the threshold, note them on a page."""
    few = 0
    for i in range(p.size):
        few += p[i] < threshold
    if few == 0:
        return kept
    page = pages.take(state, head)
    place = pages.begin(state, head, page) + KEPT
    state[place] = kept
    for first in range(0, p.size, BITS):
        bits = np.int64(0)
        for i in range(min(first + BITS, p.size) - 1, first - 1, -1):
            bits = 2 * bits + (p[i] < threshold)
        place += 1
        state[place] = bits
    return -1.0 - page


@kernel(inline=True)
def kept(state: Vector, head: int, mark: float) -> float:
    """Return the learner's own number that was given to `note`."""
    if mark >= 0.0:
        return mark
    return float(state[pages.begin(state, head, int(-1.0 - mark)) + KEPT])


@kernel(inline=True)
def add(state: Vector, head: int, arm: int, loss: float, weight: float, mark: float) -> None:
    """Add the estimate of an outcome that has arrived, and free its page. weight stands for 1 / x_{s,I_s}."""
    own = state[: int(state[head + pages.FIRST])]
    baseline = 0.5
    if mark < 0.0:
        page = int(-1.0 - mark)
        place = pages.begin(state, head, page) + KEPT + 1
        for word in range(int(state[head + pages.SIZE]) - KEPT - 1):
            bits = np.int64(state[place + word])
            i = BITS * word
            while bits != 0:
                if bits & 1:
                    ftrl.add_loss(own, i, -0.5)
                    if i == arm:
                        baseline = 0.0
                bits >>= 1
                i += 1
        pages.give_back(state, head, page)
    ftrl.add_loss(own, arm, (loss - baseline) * weight)


@kernel(inline=True)
def forget(state: Vector, head: int, mark: float) -> None:
    """Free the page of a skipped decision, if it has one."""
    if mark < 0.0:
        pages.give_back(state, head, int(-1.0 - mark))


def rearmed(state: Floats, new: Floats, head: int, n_arms: int, kept: Integers) -> Floats:
    """Return a new state with the pages of another behind it, for other arms. No newcomer has a bit."""
    before = rearm.pages_of(state, head)
    words = before[:, KEPT + 1 :].astype(np.int64)
    bits = words[:, np.arange(n_arms) // BITS] >> (np.arange(n_arms) % BITS) & 1
    now = rearm.columns(bits.astype(np.float64), kept)
    moved = np.zeros((len(before), page_size(kept.size)))
    moved[:, : KEPT + 1] = before[:, : KEPT + 1]
    for arm in range(kept.size):
        moved[:, KEPT + 1 + arm // BITS] += now[:, arm] * 2.0 ** (arm % BITS)
    return rearm.move_pages(new, head, moved)
