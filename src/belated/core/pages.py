"""Pages: room that a learner's state keeps for each decision, or for each copy of another learner.

A learner that must remember more of a decision than one mark takes a page when it decides, at most one a decision,
and gives it back when it has done with it. Whoever runs the learner sees to it that a page is free before a round
opens (`belated.core.rounds.wants_pages`), and lengthens the state where none is. A page keeps its content while it is
free, save the link, its first number.

The head, five numbers of the learner's state, says where the pages are; page n is the `size` numbers from
first + n size.
"""

import numpy as np

from belated.core.kernels import Vector, kernel

# The head.
USED = 0  # pages taken and not given back
FREE = 1  # the page given back last, plus 1; 0 for none
MADE = 2  # pages ever taken
FIRST = 3  # where page 0 begins
SIZE = 4
HEAD_FIELDS = 5

LINK = 0  # the first number of a page: the next one in whatever list it is in, plus 1; 0 for none


@kernel(inline=True)
def begin(state: Vector, head: int, page: int) -> int:
    """Return where a page begins in the state."""
    return int(state[head + FIRST]) + page * int(state[head + SIZE])


@kernel(inline=True)
def take(state: Vector, head: int) -> int:
    """Take a page, the one given back last or a new one, all zeros; return its number."""
    state[head + USED] += 1.0
    page = int(state[head + FREE]) - 1
    if page >= 0:
        state[head + FREE] = state[begin(state, head, page) + LINK]
    else:
        page = int(state[head + MADE])
        state[head + MADE] += 1.0
    return page


@kernel(inline=True)
def give_back(state: Vector, head: int, page: int) -> None:
    state[head + USED] -= 1.0
    state[begin(state, head, page) + LINK] = state[head + FREE]
    state[head + FREE] = page + 1.0


@kernel(inline=True)
def append(state: Vector, head: int, ends: int | np.int64, page: int) -> None:
    """Put a page at the end of the list whose ends are at `ends` (first) and `ends` + 1 (last) of the state."""
    state[begin(state, head, page) + LINK] = 0.0
    last = int(state[ends + 1]) - 1
    if last < 0:
        state[ends] = page + 1.0
    else:
        state[begin(state, head, last) + LINK] = page + 1.0
    state[ends + 1] = page + 1.0


@kernel(inline=True)
def pop(state: Vector, head: int, ends: int | np.int64) -> int:
    """Take the first page out of a list that is not empty."""
    page = int(state[ends]) - 1
    state[ends] = state[begin(state, head, page) + LINK]
    if state[ends] == 0.0:
        state[ends + 1] = 0.0
    return page
