"""Group commit: requests that wait are committed together, without a timer.

While one commit is on its way to the disk, requests gather; when it is done, they are the next. Commands of one
experiment are carried out one after the other. An experiment whose state must be read first is read by other threads,
and one that another worker has locked is tried again by itself: the others go on meanwhile.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from belated.ledger.base import LedgerUnavailable
from belated.ledger.commands import LATER, Command
from belated.ledger.processor import CommandProcessor
from belated.service.counters import WorkerCounters
from belated.service.errors import ApiError
from belated.service.limits import Limits

logger = logging.getLogger("belated.service")

MOST_NAMED = 5
"""Experiments named in a log line."""
TIMES_LOCKED = 3
"""How often an experiment that somebody else has locked is tried together with others."""
LOADERS = 2
"""Threads that read states."""


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
        self._free = processor.ledger.writers
        self._threads = ThreadPoolExecutor(self._free, thread_name_prefix="committer")
        self._loaders = ThreadPoolExecutor(LOADERS, thread_name_prefix="loader")
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, deque[_Entry]] = {}
        self._busy: set[str] = set()
        self._loading: set[str] = set()
        self._tried: set[str] = set()
        """Experiments that a loader has just read, or could not read: a commit says why."""
        self._locked: dict[str, int] = {}
        """How often somebody else had locked an experiment when it was its turn."""
        self._queued = 0
        self._scheduled = False
        self._closing = False
        self.failing: str | None = None
        """Why the last commit failed; None if it did not."""
        self.failure: tuple[float, str, list[str]] = (0.0, "", [])
        """When a commit last failed, why, and of which experiments."""
        self._committing: dict[int, list[_Entry]] = {}

    async def load(self, name: str) -> None:
        """Return once the state of an experiment is there, or nothing more can be done about it."""
        if not self._processor.is_loaded(name):
            await self._loop.run_in_executor(self._loaders, self._processor.load, name)

    def submit(
        self, command: Command, size: int, finish: Callable[[Any], Any], told: Any = None
    ) -> "asyncio.Future[Any]":
        """Have a command carried out: `finish(answer)`, made in the thread that did it, once it is committed. Whoever
        is to be told has the methods of a future that say so; a future, if nobody is given.
        """
        if self._queued + size > self._limits.queue and self._queued:
            self._counters.add("busy")
            raise ApiError("busy", f"{self._queued} decisions and outcomes are waiting to be committed; try again soon")
        if self._closing:
            raise ApiError("stopping", "this worker is stopping; ask again")
        future: Any = self._loop.create_future() if told is None else told
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
        """Return what the next commit is of: all that waits, as far as it can be done now."""
        batch: list[_Entry] = []
        size = 0
        for name in [name for name in self._waiting if name not in self._busy and name not in self._loading]:
            if not self._processor.is_loaded(name) and name not in self._tried:
                self._loading.add(name)
                self._loaders.submit(self._load, name)
                continue
            alone = self._locked.get(name, 0) >= TIMES_LOCKED  # waits, and nobody with it
            if alone and batch:
                continue
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
                self._tried.discard(name)
            if size >= self._limits.commit or alone:
                break
        return batch

    def _load(self, name: str) -> None:
        try:
            self._processor.load(name)
        except LedgerUnavailable:
            pass  # the commit finds out, too, and says so
        except Exception:
            logger.exception("reading the state of experiment %s failed", name)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._is_read, name)

    def _is_read(self, name: str) -> None:
        self._loading.discard(name)
        self._tried.add(name)
        self._go()

    def _commit(self, batch: list[_Entry]) -> None:
        begun = time.perf_counter()
        names = {entry.command.name for entry in batch}
        failing = None
        try:
            results = self._run(batch, wait=len(names) == 1)
        except LedgerUnavailable as error:
            failing = str(error)
            results = [error] * len(batch)
        except Exception:  # one of them is more than we can do: find out which, for the others' sake
            results = self._one_by_one(batch, names)
            failing = next((str(result) for result in results if isinstance(result, LedgerUnavailable)), None)
        seconds = time.perf_counter() - begun
        try:
            self._loop.call_soon_threadsafe(self._done, batch, results, seconds, failing)
        except RuntimeError:  # the loop is closed: nobody waits for an answer any more
            logger.warning("%s was committed after the worker had stopped: nobody was told", _named(batch))

    def _run(self, batch: list[_Entry], wait: bool = True) -> list[Any]:
        commands = [entry.command for entry in batch]
        answers = self._processor.run(commands) if wait else self._processor.run(commands, wait=False)
        return [_finished(entry, answer) for entry, answer in zip(batch, answers, strict=True)]

    def _one_by_one(self, batch: list[_Entry], names: set[str]) -> list[Any]:
        """Return the results of commands that failed together: of each experiment, or of each command, by itself."""
        if len(names) == 1:
            return [self._by_itself(entry) for entry in batch]
        results: list[Any] = [None] * len(batch)
        for name in names:
            places = [k for k, entry in enumerate(batch) if entry.command.name == name]
            mine = [batch[k] for k in places]
            try:
                came = self._run(mine)
            except LedgerUnavailable as error:
                came = [error] * len(mine)
            except Exception:
                came = [self._by_itself(entry) for entry in mine]
            for k, result in zip(places, came, strict=True):
                results[k] = result
        return results

    def _by_itself(self, entry: _Entry) -> Any:
        try:
            return self._run([entry])[0]
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
        names = {entry.command.name for entry in batch}
        self._busy -= names
        later = {entry.command.name for entry, result in zip(batch, results, strict=True) if result is LATER}
        for name in names - later:
            self._locked.pop(name, None)
        for entry, result in zip(batch, results, strict=True):
            if result is LATER:
                continue
            size += entry.size
            if entry.future.done():
                continue  # whoever asked has gone
            if isinstance(result, Exception):
                entry.future.set_exception(result)
            else:
                entry.future.set_result(result)
        self._put_back([entry for entry, result in zip(batch, results, strict=True) if result is LATER])
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
        """Seconds since the oldest command came that is not committed yet; 0 where there is none. Those that wait until
        their experiment's state is read do not count.
        """
        waiting = [entries for name, entries in self._waiting.items() if name not in self._loading]
        batches = [*self._committing.values(), *waiting]
        now = time.monotonic()
        return now - min((entry.since for batch in batches for entry in batch), default=now)

    def _put_back(self, entries: list[_Entry]) -> None:
        """Let commands wait again, before those that came after them, since somebody else had locked the experiment."""
        for entry in reversed(entries):
            self._waiting.setdefault(entry.command.name, deque()).appendleft(entry)
        for name in {entry.command.name for entry in entries}:
            self._locked[name] = self._locked.get(name, 0) + 1

    async def close(self) -> None:
        """Commit what is waiting, then take nothing more."""
        self._closing = True
        while self._queued or self._busy or self._waiting:
            await asyncio.sleep(0.005)
        self._threads.shutdown()
        self._loaders.shutdown()


def _named(batch: list[_Entry]) -> str:
    """Return what a batch is, for the log: `3 commands of button, prices`."""
    names = sorted({entry.command.name for entry in batch})
    listed = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"{len(batch)} command{'s' if len(batch) > 1 else ''} of {listed}"


def _finished(entry: _Entry, answer: Any) -> Any:
    if answer is LATER:
        return LATER
    try:
        return entry.finish(answer)
    except Exception as error:
        return error
