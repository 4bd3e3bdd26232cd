"""How fast a key may ask: a bucket of tokens for each key, in each worker."""

import time
from collections.abc import Callable


class Bucket:
    """Tokens that come at a rate, up to those of one second (at least one); each request takes one.

    Kept as one number, the time at which the bucket is full again.
    """

    __slots__ = ("_clock", "_full_at", "_interval", "_span")

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1.0 / rate
        self._span = max(1.0, rate) * self._interval
        """How long an empty bucket takes to be full."""
        self._clock = clock
        self._full_at = 0.0

    def take(self) -> float:
        """Take a token: 0, or how many seconds it takes until there is one."""
        now = self._clock()
        full_at = max(self._full_at, now) + self._interval
        missing = full_at - now - self._span
        if missing > 1e-9:  # what sums of fractions may be off by
            return missing
        self._full_at = full_at
        return 0.0
