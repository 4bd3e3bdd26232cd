"""One worker of the service: its ledger, its queue, its keys, and the tasks that it repeats."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from belated.inference.method import Options
from belated.ledger.base import Ledger, LedgerError, LedgerUnavailable, Position
from belated.ledger.commands import ApplyDeadlines, Command, KeepSnapshot
from belated.ledger.events import Status
from belated.ledger.forget import Older, forget
from belated.ledger.keeper import Keeper
from belated.ledger.migrations import MIGRATIONS
from belated.ledger.processor import CommandProcessor
from belated.ledger.warm import DEFAULT, Warmth, compile_all
from belated.service.auth import SECONDS, Authenticator
from belated.service.committer import Committer
from belated.service.counters import WorkerCounters
from belated.service.errors import ApiError
from belated.service.limits import Limits
from belated.service.metrics import Figures
from belated.service.readiness import LOOK_SECONDS, Readiness
from belated.service.reading import Look, Reader, Shown
from belated.service.stopping import OUTDATED, Stopping

logger = logging.getLogger("belated.service")
T = TypeVar("T")

READERS = 4
"""Threads for what is read quickly: lists, keys, whether the ledger answers."""
SLOW_READERS = 1
"""Threads for what takes longer: states, digests, exports, metrics. Each piece of it waits its turn, so that however
many ask, deciding shares the processor with so many of them.
"""
SWITCH_SECONDS = 0.0005
"""How long a thread that reads may keep one that decides waiting, at most."""
BUSY_SECONDS = 1.0
"""Whether somebody decides is told by a commit so long ago."""
PAUSES = 3.0
MOST_PAUSE = 0.1
"""A slow reader then rests so many times as long as it read, at most so many seconds."""
LOOK_FOR_DEADLINES = 0.25
LIST_SECONDS = 2.0
EVICT_SECONDS = 5.0
TIDY_SECONDS = 1.0
NOTE_USES = 2.0
LOOK_FOR_UPGRADE = 2.0
FORGET_SECONDS = 3600.0


class Service:
    """What the handlers of one worker share. Made, started and stopped within its event loop."""

    def __init__(
        self,
        ledger: Ledger,
        limits: Limits,
        counters: WorkerCounters,
        all_counters: list[WorkerCounters],
        stopping: Stopping | None = None,
    ) -> None:
        self.ledger = ledger
        self.limits = limits
        self.counters = counters
        self.all_counters = all_counters
        self.warmth = Warmth()
        self.keeper = Keeper(ledger)
        self.processor = CommandProcessor(
            ledger, keep_snapshot=self.keeper.keep, prepare=lambda settings: self.warmth.ensure(settings.learner)
        )
        self.reader = Reader(self.processor, self.keeper.keep)
        self.committer = Committer(self.processor, limits, counters)
        self.readiness = Readiness(self.processor, self.committer, counters, limits.wait)
        self.auth = Authenticator(lambda: self.read(ledger.all_keys), limits.rate, len(all_counters))
        self.streams = 0
        self.routes: list[tuple[str, str]] = []
        """The method and path of each operation, as metrics name them."""
        self.document = self.page = b""
        """The description of the service, for programs and for people."""
        self.stopping = stopping or Stopping()
        """Set as soon as the worker is told to stop: live views end."""
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._slow_readers = ThreadPoolExecutor(SLOW_READERS, thread_name_prefix="slow-reader")
        self._compiler = ThreadPoolExecutor(1, thread_name_prefix="compiler")
        self._tasks: list[asyncio.Task[None]] = []
        self._deadlines: set[str] = set()
        self._listed = 0
        """The number of the last experiment that was looked at for a deadline."""
        self._events: dict[str, int] = {}
        """How many events experiments have, when last looked at."""

    async def start(self) -> None:
        is_first = self.counters is self.all_counters[0]
        if is_first and (exposed := self.ledger.readable_by_others()):
            logger.warning("other users of this machine may read the ledger: %s; chmod 600 keeps them out", exposed)
        sys.setswitchinterval(SWITCH_SECONDS)
        await self.auth.refresh()
        await self.warm(DEFAULT, *await self.read(self._learners))
        await self.readiness.start()
        self._tasks = [
            asyncio.create_task(self._repeat("looking after the ledger", LOOK_SECONDS, self.readiness.look)),
            asyncio.create_task(self._repeat("reading the keys", SECONDS, self.auth.refresh)),
            asyncio.create_task(self._repeat("listing experiments", LIST_SECONDS, self._list)),
            asyncio.create_task(self._repeat("applying deadlines", LOOK_FOR_DEADLINES, self._apply_deadlines)),
            asyncio.create_task(self._repeat("noting the last use of keys", NOTE_USES, self._note_uses)),
            asyncio.create_task(self._repeat("looking for an upgrade", LOOK_FOR_UPGRADE, self._look_for_upgrade)),
            asyncio.create_task(self._repeat("letting go of idle experiments", EVICT_SECONDS, self._evict)),
        ]
        if is_first:
            self._tasks.append(asyncio.create_task(self._repeat("tidying the ledger", TIDY_SECONDS, self._tidy)))
        if is_first and (age := self.limits.forget_after) is not None:
            every = min(FORGET_SECONDS, max(age, 1.0))
            self._tasks.append(asyncio.create_task(self._repeat("erasing old ids", every, self._forget_old)))

    async def stop(self) -> None:
        """Answer what is waiting, keep snapshots, let go."""
        self.stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        names = [] if self.stopping.status == OUTDATED else self.processor.names()  # a newer version has its own
        saves = [self.run(KeepSnapshot(name), 0, _nothing) for name in names]
        await asyncio.gather(*saves, return_exceptions=True)
        await self.committer.close()
        await self.readiness.stop()
        await self.read(self.keeper.close)
        for threads in (self._compiler, self._slow_readers, self._readers):
            threads.shutdown()
        self.ledger.close()

    def run(self, command: Command, size: int, finish: Callable[[Any], T]) -> "asyncio.Future[T]":
        """Have a command carried out and committed; what `finish` makes of its answer."""
        return self.committer.submit(command, size, finish)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function that reads the ledger gives, made in a thread."""
        context = copy_context()  # log lines of the thread have the id of the request
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, context.run, function, *arguments)
        except LedgerUnavailable:
            self.readiness.suspect()
            raise

    async def read_slowly(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function gives that takes its time, after those that were asked for before."""
        return await asyncio.get_running_loop().run_in_executor(
            self._slow_readers, self._with_pauses, function, *arguments
        )

    def _with_pauses(self, function: Callable[..., T], *arguments: Any) -> T:
        """Do what takes its time; while others decide, rest afterwards, so that they have most of the processor."""
        begun = time.monotonic()
        try:
            return function(*arguments)
        finally:
            ended = time.monotonic()
            if ended - self.processor.wrote < BUSY_SECONDS:
                time.sleep(min(PAUSES * (ended - begun), MOST_PAUSE))

    async def show(self, name: str, digest: bool = False) -> Shown:
        """Return an experiment as it is shown, with everything that was acknowledged before now."""
        await self.committer.load(name)
        return await self.read_slowly(self.reader.experiment, name, digest)

    async def look(self, name: str) -> Look:
        """Return an experiment and what it did over time, with everything that was acknowledged before now."""
        await self.committer.load(name)
        return await self.read_slowly(self.reader.look, name)

    async def timeline(self, name: str) -> bytes:
        """Return what an experiment did over time, as JSON."""
        await self.committer.load(name)
        return await self.read_slowly(self.reader.timeline, name)

    async def estimates(self, name: str, options: Options) -> bytes:
        """Return what is known of an experiment's arms, as JSON."""
        await self._read_settled(name)
        return await self.read_slowly(self.reader.estimates, name, options)

    async def known(self, name: str, outcomes: str) -> bytes:
        """Return what is known of an experiment's arms and what was known along the way, as JSON, for pages."""
        await self._read_settled(name)
        return await self.read_slowly(self.reader.known, name, outcomes)

    async def _read_settled(self, name: str) -> None:
        await self.committer.load(name)
        while not await self.read_slowly(self.reader.read_settled, name):
            if self.stopping.is_set():
                raise LedgerUnavailable("the worker is stopping")

    async def figures(self, position: Position) -> Figures | None:
        """Return the figures of an experiment for the metrics; None where it is damaged."""
        known = self.reader.known_figures(position.name, position.events)
        if known is None:
            await self.committer.load(position.name)
            known = await self.read_slowly(self.reader.figures, position.name)
        return known

    async def warm(self, *specs: str) -> None:
        """Return once experiments with these learners can be used without compiling anything."""
        await asyncio.get_running_loop().run_in_executor(self._compiler, self.warmth.ensure, *specs)

    def _learners(self) -> list[str]:
        """Return the learners in use."""
        active = (each for each in self.ledger.all_outlines() if each.status != Status.ARCHIVED)
        return sorted({each.learner for each in active if each.learner})

    async def _repeat(self, what: str, seconds: float, do: Callable[[], Any]) -> None:
        """Do something every so many seconds. The log has a line when it fails and one when it works again."""
        failing = None
        while True:
            reason = None
            try:
                await do()
            except (LedgerUnavailable, ApiError) as error:
                reason = str(error)
                if reason != failing:
                    logger.error("%s failed: %s; trying again every %g s", what, reason, seconds)
            except Exception as error:
                reason = repr(error)
                if reason != failing:
                    logger.exception("%s failed; trying again every %g s", what, seconds)
            if failing and not reason:
                logger.warning("%s works again", what)
            failing = reason
            await asyncio.sleep(seconds)

    async def _note_uses(self) -> None:
        await self.auth.note_use(lambda ids, at: self.read(self.ledger.note_use, ids, at))

    async def _look_for_upgrade(self) -> None:
        """Stop where a newer belated has changed the tables: this one does not know what they mean."""
        newest = await self.read(self.ledger.newest_migration)
        if newest > MIGRATIONS[-1].number and not self.stopping.is_set():
            logger.error(
                "the ledger %s was upgraded by a newer belated: it has migration %d, this one knows %d; this worker"
                " stops, start the newer version",
                self.ledger.store,
                newest,
                MIGRATIONS[-1].number,
            )
            self.stopping.status = OUTDATED
            self.stopping.set()

    async def _forget_old(self) -> None:
        """Erase ids of a certain age, in a thread of its own. Other servers may do the same: it is done once."""
        await asyncio.to_thread(self._forget_all)

    def _forget_all(self) -> None:
        which = Older(self.limits.forget_after or 0.0)
        erased = 0
        for outline in self.ledger.all_outlines():
            with suppress(LedgerError):  # a damaged experiment is left alone
                record = self.ledger.find(outline.name)
                erased += forget(self.ledger, record, which, self.stopping.is_set) if record else 0
        if erased and not self.stopping.is_set() and not self.ledger.scrub():
            logger.warning("ids were erased, but the log of %s could not be emptied of them yet", self.ledger.store)

    async def _list(self) -> None:
        positions = await self.read(self.ledger.positions)
        self._events = {each.name: each.events for each in positions}
        if positions and positions[-1].number > self._listed:
            self._listed, new = await self.read(self._with_deadlines, self._listed)
            self._deadlines |= new
        self.count_damaged()

    def _with_deadlines(self, after: int) -> tuple[int, set[str]]:
        """Return the last experiment after a number, and those that have a deadline."""
        names = set()
        for each in self.ledger.all_outlines(after):
            after = each.number
            if each.deadline:
                names.add(each.name)
        return after, names

    async def _apply_deadlines(self) -> None:
        now = self.ledger.clock.now()
        due = [name for name in self._deadlines if self.processor.may_be_due(name, self._events.get(name, 0), now)]
        while due:  # those that have more than fits into one transaction, again
            more = await asyncio.gather(*(self.run(ApplyDeadlines(name), 0, _is_more) for name in due))
            due = [name for name, is_more in zip(due, more, strict=True) if is_more]

    async def _tidy(self) -> None:
        await self.read(self.ledger.tidy)

    async def _evict(self) -> None:
        await self.read(self.processor.evict)

    def has_deadline(self, name: str) -> None:
        """Note that an experiment has a deadline."""
        self._deadlines.add(name)

    def count_damaged(self) -> None:
        self.counters.set("damaged", len(self.processor.damaged))


def _nothing(answer: Any) -> None:
    return None


def _is_more(answer: Any) -> bool:
    return answer is True


def warm_up() -> None:
    """Compile and load what decides before anybody waits for it."""
    compile_all([DEFAULT])
