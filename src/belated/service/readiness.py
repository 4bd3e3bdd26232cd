"""Whether a worker can commit: what /readyz answers, at once, from what is known.

A worker is ready while nothing has waited too long for its commit, and the last commit, or the last probe after it,
went through. A probe is like a commit: it takes the same locks, writes and commits. It is made where nothing was
committed for a while, in a thread of its own, and counts as failed when it takes too long.
"""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from belated.ledger.base import LedgerUnavailable
from belated.ledger.processor import CommandProcessor
from belated.service.committer import Committer
from belated.service.counters import WorkerCounters

logger = logging.getLogger("belated.service")

LOOK_SECONDS = 0.25
"""How often the worker looks after itself."""
IDLE_SECONDS = 5.0
"""How long nothing may have been committed before a probe is made."""
FAILED_SECONDS = 1.0
"""How long after a probe that failed the next is made."""


class Readiness:
    """What one worker knows of whether it can commit. Used within its event loop."""

    def __init__(
        self, processor: CommandProcessor, committer: Committer, counters: WorkerCounters, most_wait: float
    ) -> None:
        self._processor = processor
        self._committer = committer
        self._counters = counters
        self._most_wait = most_wait
        """Seconds that a command may wait for its commit, and that a probe may take."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="probe")
        self._probing: asyncio.Task[None] | None = None
        self._probe_begun = self._probe_ended = 0.0
        self._worked = 0.0
        """When the last probe that went through was begun."""
        self._refused: str | None = "the ledger has not been written yet"
        """Why the last probe failed."""
        self._suspected = False
        self._down: tuple[float, str] | None = None
        """Since when the worker is not ready, and why at first."""

    @property
    def warnings(self) -> list[str]:
        """What is not well, but lets the worker work."""
        warning = self._processor.ledger.clock.warning
        return [warning] if warning else []

    def suspect(self) -> None:
        """Make a probe soon: something else could not use the ledger."""
        self._suspected = True

    def check(self) -> str | None:
        """Return why the worker is not ready, or None. The log has a line when that turns."""
        reason = self._reason(time.monotonic())
        if reason and not self._down:
            self._down = time.monotonic(), reason
            logger.error("not ready to commit to %s: %s", self._processor.ledger.store, reason)
        elif self._down and not reason:
            since, why = self._down
            self._down = None
            seconds = time.monotonic() - since
            logger.warning(
                "ready to commit to %s again after %.1f s; the cause was: %s",
                self._processor.ledger.store,
                seconds,
                why,
            )
        return reason

    def _reason(self, now: float) -> str | None:
        waited = self._committer.oldest_age
        if waited > self._most_wait:
            return f"a request has waited {waited:.1f} s for its commit to the ledger {self._processor.ledger.store}"
        if self._probing and now - max(self._probe_begun, self._processor.wrote) > self._most_wait:
            seconds = now - self._probe_begun
            return f"the ledger {self._processor.ledger.store} has not been written in {seconds:.1f} s"
        failed, why, _ = self._committer.failure
        if failed > max(self._processor.wrote, self._worked):
            return why
        if self._refused and self._processor.wrote <= self._probe_ended:
            return self._refused
        return None

    async def start(self) -> None:
        """Make the first probe: wait for it, but not for ever."""
        self._probe()
        assert self._probing is not None
        await asyncio.wait([self._probing], timeout=self._most_wait)
        self.check()

    async def look(self) -> None:
        """Make a probe if one is due, and log what has turned."""
        self._counters.set("clock_offset", self._processor.ledger.clock.jump / 1e6)
        is_down = self.check() is not None
        now = time.monotonic()
        worked = max(self._processor.wrote, self._worked)
        wait = FAILED_SECONDS if is_down or self._suspected else IDLE_SECONDS
        if self._probing is None and now - max(worked, self._probe_ended) >= wait:
            self._probe()

    def _probe(self) -> None:
        self._suspected = False
        self._probing = asyncio.create_task(self._probed())

    async def _probed(self) -> None:
        begun = self._probe_begun = time.monotonic()
        failed, _, names = self._committer.failure
        if failed <= max(self._processor.wrote, self._worked):
            names = []
        refused = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._processor.ledger.probe, names)
        except LedgerUnavailable as error:
            refused = str(error)
        except Exception as error:
            logger.exception("probing the ledger %s failed", self._processor.ledger.store)
            refused = repr(error)
        finally:
            self._probing = None
            self._probe_ended = time.monotonic()
        self._refused = refused
        if refused is None:
            self._worked = begun
        self.check()

    async def stop(self) -> None:
        """Make no more probes; one that hangs is not waited for."""
        if self._probing:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)
