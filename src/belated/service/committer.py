"""Group commit: requests that wait are committed together, without a timer.

While one commit is on its way to the disk, requests gather; when it is done, they are the next. Commands of one
experiment are carried out one after the other; with PostgreSQL, experiments do not wait for each other.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from belated.ledger.base import LedgerUnavailable
from belated.ledger.commands import Command
from belated.ledger.processor import CommandProcessor
from belated.service.counters import WorkerCounters
from belated.service.errors import ApiError
from belated.service.limits import Limits

logger = logging.getLogger("belated.service")

MOST_NAMED = 5
"""Experiments named in a log line."""


class _Entry(NamedTuple):
    command: Command
    size: int
    finish: Callable[[Any], Any]
    future: "asyncio.Future[Any]"
    since: float
    """When it came, by time.monotonic."""


class Committer:
    """The queue of one worker, and the threads that empty it."""

    def __init__(self, processor: CommandProcessor, limits: Limits, counters: WorkerCounters) -> None:
        self._processor = processor
        self._limits = limits
        self._counters = counters
        self._together = processor.ledger.writers == 1
        self._free = processor.ledger.writers
        self._threads = ThreadPoolExecutor(self._free, thread_name_prefix="committer")
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, deque[_Entry]] = {}
        self._busy: set[str] = set()
        self._queued = 0
        self._scheduled = False
        self._closing = False
        self.failing: str | None = None
        """Why the last commit failed; None if it did not."""
        self.failure: tuple[float, str, list[str]] = (0.0, "", [])
        """When a commit last failed, why, and of which experiments."""
        self._committing: dict[int, list[_Entry]] = {}

    def submit(self, command: Command, size: int, finish: Callable[[Any], Any]) -> "asyncio.Future[Any]":
        """Have a command carried out: `finish(answer)`, made in the thread that did it, once it is committed."""
        if self._queued + size > self._limits.queue and self._queued:
            self._counters.add("busy")
            raise ApiError("busy", f"{self._queued} decisions and outcomes are waiting to be committed; try again soon")
        if self._closing:
            raise ApiError("stopping", "this worker is stopping; ask again")
        future = self._loop.create_future()
        entries = self._waiting.get(command.name)
        if entries is None:
            entries = self._waiting[command.name] = deque()
        entries.append(_Entry(command, size, finish, future, time.monotonic()))
        self._queued += size
        self._counters.set("queue", self._queued)
        if self._free and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go)
        return future

    def _go(self) -> None:
        self._scheduled = False
        while self._free and (batch := self._next()):
            self._free -= 1
            self._committing[id(batch)] = batch
            self._threads.submit(self._commit, batch)
        self._counters.set("queue", self._queued)

    def _next(self) -> list[_Entry]:
        """Return what the next commit is of: of one experiment, or of all where there is one writer anyway."""
        batch: list[_Entry] = []
        size = 0
        for name in [name for name in self._waiting if name not in self._busy]:
            entries = self._waiting.pop(name)
            before = len(batch)
            while entries and (not batch or size + entries[0].size <= self._limits.commit):
                entry = entries.popleft()
                batch.append(entry)
                size += entry.size
            if entries:
                self._waiting[name] = entries  # behind the others
            if len(batch) > before:
                self._busy.add(name)
            if not self._together or size >= self._limits.commit:
                break
        return batch

    def _commit(self, batch: list[_Entry]) -> None:
        begun = time.perf_counter()
        results: list[Any]
        failing = None
        try:
            answers = self._processor.run([entry.command for entry in batch])
            results = [_finished(entry, answer) for entry, answer in zip(batch, answers, strict=True)]
        except LedgerUnavailable as error:
            failing = str(error)
            results = [error] * len(batch)
        except Exception:  # one of them is more than we can do: find out which, for the others' sake
            results = [self._alone(entry) for entry in batch]
            failing = next((str(result) for result in results if isinstance(result, LedgerUnavailable)), None)
        seconds = time.perf_counter() - begun
        try:
            self._loop.call_soon_threadsafe(self._done, batch, results, seconds, failing)
        except RuntimeError:  # the loop is closed: nobody waits for an answer any more
            logger.warning("%s was committed after the worker had stopped: nobody was told", _named(batch))

    def _alone(self, entry: _Entry) -> Any:
        try:
            (answer,) = self._processor.run([entry.command])
            return _finished(entry, answer)
        except LedgerUnavailable as error:
            return error
        except Exception as error:
            logger.exception("%s of experiment %s failed", type(entry.command).__name__, entry.command.name)
            return error

    def _done(self, batch: list[_Entry], results: list[Any], seconds: float, failing: str | None) -> None:
        if failing and failing != self.failing:
            logger.error("committing %s failed: %s", _named(batch), failing)
        self._free += 1
        del self._committing[id(batch)]
        size = 0
        for entry, result in zip(batch, results, strict=True):
            self._busy.discard(entry.command.name)
            size += entry.size
            if entry.future.done():
                continue  # whoever asked has gone
            if isinstance(result, Exception):
                entry.future.set_exception(result)
            else:
                entry.future.set_result(result)
        self._queued -= size
        if failing:
            self.failing = failing
            self.failure = (time.monotonic(), failing, sorted({entry.command.name for entry in batch}))
            self._counters.add("failed_commits")
        elif size:  # something may have been written
            if self.failing:
                logger.warning("committing to %s works again", self._processor.ledger.store)
            self.failing = None
            self._counters.committed(size, seconds)
        self._go()

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest command came that is not committed yet; 0 where there is none."""
        batches = [*self._committing.values(), *self._waiting.values()]
        return time.monotonic() - min((entry.since for batch in batches for entry in batch), default=time.monotonic())

    async def close(self) -> None:
        """Commit what is waiting, then take nothing more."""
        self._closing = True
        while self._queued or self._busy:
            await asyncio.sleep(0.005)
        self._threads.shutdown()


def _named(batch: list[_Entry]) -> str:
    """Return what a batch is, for the log: `3 commands of button, prices`."""
    names = sorted({entry.command.name for entry in batch})
    listed = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"{len(batch)} command{'s' if len(batch) > 1 else ''} of {listed}"


def _finished(entry: _Entry, answer: Any) -> Any:
    try:
        return entry.finish(answer)
    except Exception as error:
        return error
