"""Clocks that jump, for a second or for good: which of them are followed, and what is said."""

import logging
import time
from collections.abc import Iterator

import pytest

from belated.ledger.clock import Clock, event_time, steady_time
from belated.ledger.events import SECOND
from support.ledger_helpers import together

START = 1_800_000_000 * SECOND
HOUR = 3600.0


class Bench:
    """A clock, and the two clocks that it reads: both under the test's control."""

    def __init__(self, bound: float = 60.0, settle: float = 600.0) -> None:
        self.steady = 5_000_000 * SECOND
        self.off = 0.0
        """How far the wall clock is off."""
        self._begun = self.steady
        self.clock = Clock(bound, settle, lambda: self.steady)

    @property
    def right(self) -> int:
        return START + self.steady - self._begun

    def read(self, after: float = 1.0) -> float:
        """Let time pass and read the clock: how far what it says is off, in seconds."""
        self.steady += int(after * SECOND)
        return (self.clock.read(self.right + int(self.off * SECOND)) - self.right) / SECOND


@pytest.fixture
def said() -> Iterator[list[logging.LogRecord]]:
    """What the log has."""
    lines: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = lines.append  # type: ignore[method-assign, assignment]
    logging.getLogger("belated.ledger").addHandler(handler)
    yield lines
    logging.getLogger("belated.ledger").removeHandler(handler)


def test_a_clock_that_does_not_jump_is_followed_however_far_it_drifts(said: list[logging.LogRecord]) -> None:
    bench = Bench()
    assert bench.read() == 0
    for _ in range(1000):
        bench.off += 0.5
        assert bench.read(10.0) == bench.off
    for off in (500.0 + 60.0, 500.0, 440.0):
        bench.off = off
        assert bench.read() == off
    assert (bench.clock.jump, bench.clock.warning, said) == (0, None, [])


@pytest.mark.parametrize("off", [HOUR, -HOUR, 61.0, -61.0, 1e9])
def test_a_jump_is_not_followed_and_said_once_and_that_it_is_over(off: float, said: list[logging.LogRecord]) -> None:
    bench = Bench()
    bench.read()
    bench.off = off
    for _ in range(100):
        assert bench.read() == 0
        assert bench.clock.now() == bench.right
        assert bench.clock.jump == off * SECOND
    word = f"{abs(off):,.0f} s"
    assert [word in record.getMessage() for record in said] == [True]
    assert word in (bench.clock.warning or "")
    bench.off = 0.0
    assert bench.read() == 0
    assert (bench.clock.jump, bench.clock.warning) == (0, None)
    assert len(said) == 2
    assert {record.levelname for record in said} == {"WARNING"}


def test_a_jump_ahead_is_never_followed_but_by_a_new_clock(said: list[logging.LogRecord]) -> None:
    bench = Bench()
    bench.read()
    bench.off = HOUR
    for _ in range(100):
        assert bench.read(HOUR) == 0
    assert bench.clock.warning is not None
    assert len(said) == 1
    assert Clock().read(START + 10**15) == START + 10**15


def test_a_jump_back_is_followed_after_it_has_stayed(said: list[logging.LogRecord]) -> None:
    bench = Bench()
    bench.read()
    bench.off = -HOUR
    assert bench.read() == 0
    assert "600 s" in (bench.clock.warning or "")
    assert bench.read(599.0) == 0
    assert bench.read(1.0) == -HOUR
    assert bench.clock.now() == bench.right - HOUR * SECOND
    assert (bench.clock.jump, bench.clock.warning) == (0, None)
    assert [("3,600 s" in record.getMessage()) for record in said] == [True, True]
    bench.off = HOUR  # from there it may not jump ahead either
    assert bench.read() == -HOUR


def test_a_clock_that_wanders_while_it_is_behind_has_not_stayed(said: list[logging.LogRecord]) -> None:
    bench = Bench()
    bench.read()
    for k in range(1, 5):
        bench.off = -HOUR * k
        assert bench.read(500.0) == 0
    assert len(said) == 4
    assert bench.read(601.0) == -4 * HOUR


def test_a_clock_that_returns_from_a_jump_back_that_was_followed_is_followed_at_once() -> None:
    bench = Bench()
    bench.read()
    bench.off = -HOUR
    bench.read()
    assert bench.read(700.0) == -HOUR
    bench.off = 0.0
    assert bench.read() == 0
    bench.off = HOUR
    assert bench.read() == 0
    bench.off = -HOUR  # what was once behind is no place to return to
    assert bench.read() == 0


def test_a_pause_of_the_process_is_no_jump() -> None:
    bench = Bench()
    bench.read()
    assert bench.read(10 * 24 * HOUR) == 0
    assert bench.clock.warning is None


def test_before_the_first_reading_the_time_is_that_of_the_machine() -> None:
    assert abs(Clock().now() - time.time() * SECOND) < 60 * SECOND


def test_the_steady_clock_is_that_of_the_machine_which_nobody_sets() -> None:
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before, found, after = time.clock_gettime_ns(which), steady_time(), time.clock_gettime_ns(which)
    assert before // 1000 <= found <= after // 1000


def test_threads_share_a_clock() -> None:
    clock = Clock(steady=lambda: 0)
    wrong: list[int] = []

    def read() -> None:
        for k in range(1000):
            found = clock.read(START + (int(HOUR) * SECOND if k % 3 == 1 else 0))
            if found != START:
                wrong.append(found)

    clock.read(START)
    together([read] * 4)
    assert wrong == []


@pytest.mark.parametrize(
    ("now", "last", "found"), [(100, 90, 100), (100, 100, 100), (100, 110, 110), (100, 160, 160), (100, 161, 100)]
)
def test_dates_go_on_unless_the_last_one_lies_ahead(now: int, last: int, found: int) -> None:
    assert event_time(now, last, 60) == found
