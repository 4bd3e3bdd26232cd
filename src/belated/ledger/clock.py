"""The time of a ledger, guarded against clocks that jump.

Deadlines go by the ledger's own clock: that of the machine for SQLite, that of the database for PostgreSQL. Such a
clock may be set while the service runs, by mistake or to correct it. `Clock` compares each reading with the steady
clock of the machine, which nobody can set. What fits within a bound is accepted. A jump beyond it is refused: time goes
on by the steady clock from the last reading that was accepted.

- **Ahead.** A jump ahead is followed only after a restart. Following it may take default losses for everything that is
  open, which cannot be taken back; whether the new time is right, only people know.
- **Back.** A jump back is followed once the clock has stayed there for a while. Nothing is lost by that.
- **Back and ahead again.** A clock that returns to where it was before a jump back was followed is followed at once.
"""

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from belated.ledger.events import SECOND

logger = logging.getLogger("belated.ledger")

BOUND_SECONDS = 60.0
"""How far a reading may be from what the steady clock says."""
SETTLE_SECONDS = 600.0
"""How long a clock that went back must stay there before it is followed."""


def steady_time() -> int:
    """Return microseconds of a clock that nobody can set and that goes on while the machine sleeps."""
    return _steady() // 1000


def wall_time() -> int:
    """Return the time of this machine."""
    return time.time_ns() // 1000


def _choose_steady() -> Callable[[], int]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # Linux; macOS, whose monotonic clock does not stop either
        clock = getattr(time, name, None)
        if clock is not None:
            return lambda: time.clock_gettime_ns(clock)
    return time.monotonic_ns


_steady = _choose_steady()


class _Refused(NamedTuple):
    """A jump that is not followed."""

    offset: int
    since: int
    """By the steady clock."""
    jump: int
    """How far the last reading was ahead of what the steady clock says; negative: behind."""


class Clock:
    """The time of one ledger, in microseconds, for all threads of a worker."""

    def __init__(
        self,
        bound: float = BOUND_SECONDS,
        settle: float = SETTLE_SECONDS,
        steady: Callable[[], int] = steady_time,
    ) -> None:
        self.bound = int(bound * SECOND)
        """How far a reading may be from what the steady clock says."""
        self._settle = int(settle * SECOND)
        self._steady = steady
        self._lock = Lock()
        self._offset: int | None = None
        """The last reading accepted, less the steady clock at that moment."""
        self._before: int | None = None
        """The same from before a jump back was followed."""
        self._refused: _Refused | None = None

    def read(self, reading: int) -> int:
        """Return the time, given what the ledger's clock says: the reading itself, unless it has jumped."""
        with self._lock:
            steady = self._steady()
            offset = reading - steady
            if self._offset is None or abs(offset - self._offset) <= self.bound:
                self._accept(offset, "the ledger's clock is back: it is followed again")
            elif self._before is not None and abs(offset - self._before) <= self.bound:
                self._accept(offset, "the ledger's clock is back where it was before it went back: it is followed")
                self._before = None
            else:
                self._refuse(offset, steady, self._offset)
            if self._refused is None or self._offset is None:
                return reading
            return steady + self._offset

    def now(self) -> int:
        """Return the time without asking the ledger; that of this machine where the ledger was never asked."""
        with self._lock:
            return wall_time() if self._offset is None else self._steady() + self._offset

    @property
    def jump(self) -> int:
        """How far the ledger's clock is ahead of the time that is used; 0 where it is followed."""
        refused = self._refused
        return refused.jump if refused else 0

    @property
    def warning(self) -> str | None:
        """What is wrong with the ledger's clock."""
        jump = self.jump
        if not jump:
            return None
        how = f"the ledger's clock is {abs(jump) / SECOND:,.0f} s {'ahead' if jump > 0 else 'behind'}"
        if jump > 0:
            return f"{how} and is not followed, as deadlines would pass; restart the service if its time is right"
        return f"{how} and is not followed unless it stays so for {self._settle / SECOND:,.0f} s"

    def _accept(self, offset: int, said: str) -> None:
        self._offset = offset
        if self._refused:
            self._refused = None
            logger.warning("%s", said)

    def _refuse(self, offset: int, steady: int, accepted: int) -> None:
        """Go on by the steady clock, or accept a jump back that has stayed."""
        jump = offset - accepted
        refused = self._refused
        is_new = refused is None or abs(offset - refused.offset) > self.bound
        if refused is None or is_new:
            self._refused = _Refused(offset, steady, jump)
            logger.warning("%s", self.warning)
            return
        self._refused = refused._replace(jump=jump)
        if jump < 0 and steady - refused.since >= self._settle:
            self._before = accepted if self._before is None else max(accepted, self._before)
            stayed = (steady - refused.since) / SECOND
            self._accept(
                offset,
                f"the ledger's clock has been {-jump / SECOND:,.0f} s behind for {stayed:,.0f} s: it is followed",
            )


def event_time(now: int, last: int, bound: int) -> int:
    """Return the time of an event that comes after one of another time.

    Dates go on, unless the last one lies ahead by more than a bound: it was dated by a clock that was wrong, and what
    comes now is dated before it.
    """
    return now if last - now > bound else max(now, last)
