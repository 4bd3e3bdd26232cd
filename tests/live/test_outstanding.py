"""Which decisions are outstanding, counted in blocks, and the oldest of them looked up in the record."""

from collections.abc import Sequence

import numpy as np
import pytest

from belated.live import outstanding
from belated.live.outstanding import Outstanding, Recorded
from support.refusals import refused


class Record:
    """Decisions on record, every third event one; and which of them are open."""

    def __init__(self) -> None:
        self.open: dict[int, float] = {}
        self.decisions = 0
        self.asked: list[int] = []

    def find(self, place: int, most: int) -> Sequence[Recorded]:
        self.asked.append(place)
        first = place // 3 + 1
        rounds = range(first, min(first + most, self.decisions + 1))
        return [Recorded(3 * k, k, self.open.get(k, 0.0), k in self.open) for k in rounds]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outstanding, "MOST_BLOCKS", 8)
    monkeypatch.setattr(outstanding, "WINDOW", 5)
    monkeypatch.setattr(outstanding, "LOOKED_AT", 4)


def check(kept: Outstanding, is_open: dict[int, float], after: int) -> None:
    """Compare with all that is outstanding."""
    assert kept.total == len(is_open)
    assert all(number >= kept.low for number in is_open)
    assert all(3 * number >= kept.low_place for number in is_open)
    assert kept.count_until(kept.newest) == len(is_open)
    assert abs(kept.count_until(after) - sum(number <= after for number in is_open)) <= 64
    late = [number for number in is_open if number > after]
    assert kept.oldest(after) == ((late[0], is_open[late[0]]) if late else None)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("settling", [0.2, 0.9])
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.usefixtures("small")
def test_the_oldest_is_found_whatever_is_settled_and_recorded(seed: int, settling: float, batch: int) -> None:
    """Against a dictionary of all. What was done since the last batch is not on record yet."""
    rng = np.random.default_rng(seed)
    kept, record, is_open = Outstanding(), Record(), dict[int, float]()
    kept.find = record.find
    after = 0
    for number in range(1, 400):
        kept.add(number, 3 * number, number / 7)
        is_open[number] = number / 7
        while is_open and rng.random() < settling:
            chosen = int(rng.choice([*is_open, *list(is_open)[:3]]))
            kept.settle(chosen)
            del is_open[chosen]
        if number % batch == 0:
            record.open, record.decisions = dict(is_open), number
            kept.recorded()
        if rng.random() < 0.3:
            check(kept, is_open, after)
            if is_open and rng.random() < 0.7:
                after = max(after, next(iter(is_open)))
        if rng.random() < 0.02 and number % batch == 0:
            kept = Outstanding.from_lists(*kept.to_lists())
            kept.find = record.find
    assert kept.low > 1 or settling < 0.5


@pytest.mark.usefixtures("small")
def test_a_few_decisions_are_never_looked_up() -> None:
    kept, record = Outstanding(), Record()
    kept.find = record.find
    for number in range(1, 300):
        kept.add(number, 3 * number, 0.0)
        if number > 4:
            kept.settle(number - 4)
            assert kept.oldest(0) == (number - 3, 0.0)
    assert record.asked == []


def test_blocks_that_are_settled_are_not_read_again() -> None:
    """Of 100,000 decisions the last 10 are open: after a restart they are found with one look."""
    kept, record = Outstanding(), Record()
    for number in range(1, 100_001):
        kept.add(number, 3 * number, 0.5)
        if number <= 99_990:
            kept.settle(number)
    record.decisions, record.open = 100_000, dict.fromkeys(range(99_991, 100_001), 0.5)
    again = Outstanding.from_lists(*kept.to_lists())
    again.find = record.find
    assert again.oldest(0) == (99_991, 0.5)
    assert len(record.asked) == 1
    assert record.asked[0] > 3 * 99_900


def test_ten_million_take_little_room() -> None:
    kept = Outstanding()
    kept.find = Record().find
    for number in range(1, 100_001):
        kept.add(number, 3 * number, 0.5)
        if number % 1000 == 0:
            kept.recorded()
    head, counts, places = kept.to_lists()
    assert (len(head), len(counts), len(places)) == (4, 3125, 3125)
    assert len(kept._window) == outstanding.WINDOW
    assert not kept._new


def test_what_was_not_waited_for_cannot_be_settled() -> None:
    kept = Outstanding()
    kept.add(1, 1, 0.0)
    for number in (0, 2, -1):
        with refused(None, number, error=ValueError):
            kept.settle(number)
    kept.settle(1)
    with refused(None, 1, error=ValueError):
        kept.settle(1)
    kept.add(2, 9, 0.25)  # in a block that was empty before
    assert (kept.low <= 2, kept.total, kept.oldest(0)) == (True, 1, (2, 0.25))
