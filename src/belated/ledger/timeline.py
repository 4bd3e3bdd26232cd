"""What an experiment did over time, in a bounded number of numbers: so that a chart needs no look into the ledger.

Time is cut into at most MOST stretches of equal length, a second at first. When there would be more, neighbours are put
together and stretches become twice as long. For each stretch there are decisions, outcomes and losses by arm, and what
was outstanding at its end. The first ARMS arms are told apart; the others are one.

Stretches of an old experiment are days long. So decisions and outcomes of the last day are counted in half hours, too.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from belated.ledger.delay_histogram import Histogram
from belated.ledger.events import SECOND

MOST = 240
"""Stretches, at most."""
ARMS = 24
"""Arms that are told apart."""
OTHERS = -1
"""Stands for all other arms."""
HALF_HOUR = 1800 * SECOND
HALF_HOURS = 49
"""That are kept: a day, and the one that has begun."""


class Stretch(NamedTuple):
    """A stretch of time."""

    begin: int
    """In microseconds since 1970."""
    decisions: dict[int, int]
    """By arm."""
    outcomes: dict[int, int]
    losses: dict[int, float]
    """Of outcomes that came in the stretch, by the arm of their decision."""
    outstanding: int
    """At its end."""


class Timeline:
    """The stretches of an experiment, and how long outcomes took by arm and by how good they were."""

    def __init__(self) -> None:
        self._width = SECOND
        self._first = 0  # the number of the first stretch: its begin over the width
        self._stretches: list[list[Any]] = []  # decisions, outcomes, losses, outstanding
        self.delays: dict[tuple[int, bool], Histogram] = {}
        """By arm, and whether the loss was below 1/2."""
        self.defaults: dict[int, int] = {}
        """By arm, decisions whose deadline passed without an outcome."""
        self.decided_at = 0
        """When the last decision was made; 0: never."""
        self.half_hours: dict[int, list[int]] = {}
        """Decisions and outcomes of the last day, by the number of the half hour since 1970."""

    @property
    def per_day(self) -> float | None:
        """Decisions in a day, at the pace of the last one; None where there was none."""
        decided = sum(counts[0] for counts in self.half_hours.values())
        if not decided:
            return None
        return decided * HALF_HOURS / (max(self.half_hours) - min(self.half_hours) + 1)

    @property
    def width(self) -> float:
        """The length of a stretch, in seconds."""
        return self._width / SECOND

    def decided(self, at: int, arm: int, outstanding: int) -> None:
        """Count a decision."""
        stretch = self._at(at)
        place = arm if arm < ARMS else OTHERS
        stretch[0][place] = stretch[0].get(place, 0) + 1
        stretch[3] = outstanding
        self.decided_at = max(self.decided_at, at)
        self._half_hour(at)[0] += 1

    def came(self, at: int, arm: int, loss: float, outstanding: int) -> None:
        """Count an outcome that the learner has heard of, or a default in place of one."""
        stretch = self._at(at)
        place = arm if arm < ARMS else OTHERS
        stretch[1][place] = stretch[1].get(place, 0) + 1
        stretch[2][place] = stretch[2].get(place, 0.0) + loss
        stretch[3] = outstanding
        self._half_hour(at)[1] += 1

    def missed(self, arm: int) -> None:
        """Count a decision whose deadline passed without an outcome."""
        place = arm if arm < ARMS else OTHERS
        self.defaults[place] = self.defaults.get(place, 0) + 1

    def waited(self, arm: int, loss: float, waited: int) -> None:
        """Count how long an outcome took."""
        place = (arm if arm < ARMS else OTHERS, loss < 0.5)
        if place not in self.delays:
            self.delays[place] = Histogram()
        self.delays[place].add(waited)

    def _half_hour(self, at: int) -> list[int]:
        """Return the counts of the half hour of a time, which drops those a day before."""
        number = at // HALF_HOUR
        counts = self.half_hours.get(number)
        if counts is None:
            counts = self.half_hours[number] = [0, 0]
            oldest = max(self.half_hours) - HALF_HOURS
            for old in [each for each in self.half_hours if each <= oldest]:
                del self.half_hours[old]
        return counts

    def _at(self, at: int) -> list[Any]:
        """Return the stretch of a time; a time before the last stretch belongs to that: clocks go back now and then."""
        number = at // self._width
        if not self._stretches:
            self._first = number
            self._stretches = [[{}, {}, {}, 0]]
        while number - self._first >= MOST:
            self._halve()
            number = at // self._width
        stretches = self._stretches
        last = self._first + len(stretches) - 1
        for _ in range(number - last):
            stretches.append([{}, {}, {}, stretches[-1][3]])
        return stretches[-1]

    def _halve(self) -> None:
        """Make stretches twice as long."""
        before, first = self._stretches, self._first
        self._width *= 2
        self._first = first // 2
        merged: list[list[Any]] = []
        for k, stretch in enumerate(before):
            if merged and (first + k) // 2 == self._first + len(merged) - 1:
                for place, count in enumerate(stretch[:3]):
                    for arm, value in count.items():
                        merged[-1][place][arm] = merged[-1][place].get(arm, 0) + value
                merged[-1][3] = stretch[3]
            else:
                merged.append(stretch)
        self._stretches = merged

    def __iter__(self) -> Iterator[Stretch]:
        for k, (decisions, outcomes, losses, outstanding) in enumerate(self._stretches):
            yield Stretch((self._first + k) * self._width, decisions, outcomes, losses, outstanding)

    def to_lists(self) -> list[Any]:
        """Return everything, to go on exactly from here; the same timelines give the same lists."""
        stretches = [
            [*(sorted(count.items()) for count in stretch[:3]), stretch[3]] if any(stretch[:3]) else stretch[3]
            for stretch in self._stretches
        ]
        delays = [[arm, good, each.counts, each.total] for (arm, good), each in sorted(self.delays.items())]
        defaults, half_hours = sorted(self.defaults.items()), sorted(self.half_hours.items())
        return [self._width, self._first, stretches, delays, defaults, self.decided_at, half_hours]

    @classmethod
    def from_lists(cls, kept: list[Any]) -> "Timeline":
        """Go on from what `to_lists` gave."""
        timeline = cls()
        timeline._width, timeline._first, stretches, delays, defaults, timeline.decided_at, half_hours = kept
        timeline._stretches = [
            [{}, {}, {}, each] if isinstance(each, int) else [*(dict(map(tuple, count)) for count in each[:3]), each[3]]
            for each in stretches
        ]
        timeline.defaults = dict(map(tuple, defaults))
        timeline.half_hours = {number: list(counts) for number, counts in half_hours}
        timeline.delays = {(arm, good): Histogram(counts, total) for arm, good, counts, total in delays}
        return timeline
