"""Which decisions have no outcome yet, where the decisions themselves are on record elsewhere.

Ten million outstanding decisions need no place each. What is kept here are counts for blocks of rounds, at most
MOST_BLOCKS of them, and a window: the oldest outstanding decisions, with their marks. Whoever has the record is asked
for more of them when the window is empty (`find`), which is seldom: only a learner that gives up on decisions wants to
know which is the oldest, and it gives up on one a round.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

MOST_BLOCKS = 4096
WINDOW = 4096
"""Decisions in the window at most, as long as there is a record to ask."""
LOOKED_AT = 1000
"""Decisions asked for at once."""


class Recorded(NamedTuple):
    """A decision on record."""

    place: int
    """Its place in the record: grows with the round."""
    round: int
    mark: float
    is_open: bool
    """Whether it has no outcome yet."""


Find = Callable[[int, int], Sequence[Recorded]]
"""(place, most) -> that many decisions recorded after a place, in order; fewer only where there are no more."""


class Outstanding:
    """The decisions without an outcome: counts, and the oldest of them.

    Every decision is added, in order, and settled at most once.
    """

    def __init__(self) -> None:
        self.find: Find | None = None
        """Asks the record; None where there is none to ask: the window then has them all."""
        self.total = 0
        self.newest = 0
        """The round of the last decision."""
        self._place = 0
        self._shift = 0  # a block has 2 ** shift rounds
        self._counts: list[int] = []
        self._places: list[int] = []  # of the first decision of each block
        self._low = 0  # the first block that is not empty
        self._window: dict[int, float] = {}  # round -> mark, the oldest first
        self._known = 0  # outstanding decisions up to this round are in the window
        self._asked = 0  # the record was asked up to this place
        self._new: dict[int, float] = {}  # what may not be on record yet
        self._settled: set[int] = set()

    def add(self, number: int, place: int, mark: float) -> None:
        """Count the decision of the next round."""
        block = (number - 1) >> self._shift
        if block == len(self._counts):
            if block == MOST_BLOCKS:
                self._merge()
                block >>= 1
            self._counts.append(0)
            self._places.append(place)
        self._low = min(self._low, block)
        self._counts[block] += 1
        self.total += 1
        if self._known == self.newest and (len(self._window) < WINDOW or self.find is None):
            self._known = number
            self._window[number] = mark
        self.newest, self._place = number, place
        self._new[number] = mark

    def settle(self, number: int) -> None:
        """Count the decision of a round no more: it has its outcome."""
        block = (number - 1) >> self._shift
        if not (0 < number <= self.newest and self._counts[block]):
            raise ValueError(f"no outcome of round {number} was waited for")
        self._counts[block] -= 1
        self.total -= 1
        self._window.pop(number, None)
        self._new.pop(number, None)
        self._settled.add(number)
        while self._low < len(self._counts) and not self._counts[self._low]:
            self._low += 1

    def recorded(self) -> None:
        """Note that all that was added and settled so far is on record now."""
        self._new.clear()
        self._settled.clear()

    @property
    def low(self) -> int:
        """A round before which no decision is outstanding."""
        return (self._low << self._shift) + 1

    @property
    def low_place(self) -> int:
        """A place before which no outstanding decision is on record."""
        return self._places[self._low] if self._low < len(self._places) else self._place + 1

    def count_until(self, number: int) -> int:
        """Return how many decisions up to a round are outstanding: of the block that it cuts, in proportion."""
        if number >= self.newest:
            return self.total
        block, part = divmod(max(number, 0), 1 << self._shift)
        return sum(self._counts[:block]) + (self._counts[block] * part >> self._shift)

    def oldest(self, after: int) -> tuple[int, float] | None:
        """Return the round and the mark of the oldest outstanding decision after a round, if there is one."""
        while True:
            for number in list(islice(self._window, 1)):
                if number > after:
                    return number, self._window[number]
                del self._window[number]
            if not self._window:
                if self._known == self.newest:
                    return None
                self._look(after)

    def _look(self, after: int) -> None:
        """Ask the record for the next decisions of the window."""
        assert self.find is not None
        known = max(self._known, after)
        block = max(self._low, known >> self._shift)
        while block < len(self._counts) and not self._counts[block]:
            block += 1
        found: Sequence[Recorded] = ()
        if block < len(self._counts):
            found = self.find(max(self._places[block] - 1, self._asked), LOOKED_AT)
        for each in found:
            if each.is_open and each.round > known and each.round not in self._settled:
                self._window[each.round] = each.mark
        if len(found) < LOOKED_AT:
            self._window.update((number, mark) for number, mark in self._new.items() if number > known)
            self._known = self.newest
        else:
            self._asked, self._known = found[-1].place, max(found[-1].round, known)

    def _merge(self) -> None:
        """Make blocks twice as large."""
        counts = self._counts
        self._counts = [counts[k] + counts[k + 1] for k in range(0, MOST_BLOCKS, 2)]
        self._places = self._places[::2]
        self._shift += 1
        self._low >>= 1

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes."""
        return 80 * len(self._counts) + 100 * (len(self._window) + len(self._new) + len(self._settled))

    def to_lists(self) -> tuple[list[int], list[int], list[int]]:
        """Return what there is without the window: (shift, low, newest, its place), counts and places from low on."""
        head = [self._shift, self._low, self.newest, self._place]
        return head, self._counts[self._low :], self._places[self._low :]

    @classmethod
    def from_lists(cls, head: Sequence[int], counts: Sequence[int], places: Sequence[int]) -> "Outstanding":
        """Go on from what `to_lists` gave."""
        outstanding = cls()
        outstanding._shift, outstanding._low, outstanding.newest, outstanding._place = head
        outstanding._counts = [0] * outstanding._low + list(counts)
        outstanding._places = [0] * outstanding._low + list(places)
        outstanding.total = sum(counts)
        if not outstanding.total:
            outstanding._known = outstanding.newest
        return outstanding
