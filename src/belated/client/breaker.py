"""A circuit breaker: after a failure nobody asks for some seconds, then one asks for all."""

import time
from collections.abc import Callable


class Breaker:
    """Says whether to ask a service that may be away. Its callers hold a lock.

    >>> breaker = Breaker(pause=5.0)
    >>> breaker.allows(), breaker.failed(), breaker.allows()
    (True, True, False)
    """

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        """pause: for how many seconds nobody asks after a failure."""
        self._pause, self._clock = pause, clock
        self._began: float | None = None
        self._until = 0.0
        self._probes = False

    @property
    def is_open(self) -> bool:
        """Whether the service is taken to be away."""
        return self._began is not None

    def allows(self) -> bool:
        """Return whether to ask now. If the service is away, the one that may ask is the only one until it tells."""
        if self._began is None:
            return True
        if self._probes or self._clock() < self._until:
            return False
        self._probes = True
        return True

    def failed(self) -> bool:
        """Tell that the service did not answer as it should. Return whether it was well until now."""
        self._probes = False
        self._until = self._clock() + self._pause
        if self._began is not None:
            return False
        self._began = self._clock()
        return True

    def worked(self) -> float | None:
        """Tell that the service answered. Return for how many seconds it was away; None if it was not."""
        self._probes = False
        if self._began is None:
            return None
        away, self._began = self._clock() - self._began, None
        return away

    def gave_up(self) -> None:
        """Tell that whoever asked has learned nothing about the service: the next may ask."""
        self._probes = False
