"""One worker of the service: its ledger, its book, its queue, its doorman, and what goes on by itself."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from belated.ledger.book import Book, Command, Settle
from belated.ledger.contract import Ledger, LedgerUnavailable
from belated.ledger.events import SECOND
from belated.service.board import Row
from belated.service.committer import Committer
from belated.service.doorman import SECONDS, Doorman
from belated.service.limits import Limits
from belated.service.problems import Refusal
from belated.wire import Deadline

logger = logging.getLogger("belated.service")
T = TypeVar("T")

READERS = 4
"""Threads for what only reads: lists, ledgers, keys."""
LOOK_FOR_DEADLINES = 0.25
LIST_DEADLINES = 2.0


class Service:
    """What the handlers of one worker share. Made, started and stopped within its event loop."""

    def __init__(
        self, ledger: Ledger, limits: Limits, row: Row, rows: list[Row], stopping: asyncio.Event | None = None
    ) -> None:
        self.ledger = ledger
        self.limits = limits
        self.row = row
        self.rows = rows
        self.book = Book(ledger)
        self.committer = Committer(self.book, limits, row)
        self.doorman = Doorman(lambda: self.read(ledger.all_keys))
        self.streams = 0
        self.document = self.page = b""
        """The description of the service, for programs and for people."""
        self.stopping = stopping or asyncio.Event()
        """Set as soon as the worker is told to stop: live views end."""
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._tasks: list[asyncio.Task[None]] = []
        self._deadlines: list[str] = []

    async def start(self) -> None:
        await self.doorman.refresh()
        await self.read(warm_up)
        self._tasks = [
            asyncio.create_task(self._every(SECONDS, self.doorman.refresh)),
            asyncio.create_task(self._every(LIST_DEADLINES, self._list_deadlines)),
            asyncio.create_task(self._every(LOOK_FOR_DEADLINES, self._settle)),
        ]

    async def stop(self) -> None:
        """Answer what is waiting, keep snapshots, let go."""
        self.stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        saves = [self.run(Settle(name, snapshot=True), 0, _nothing) for name in self.book.names()]
        await asyncio.gather(*saves, return_exceptions=True)
        await self.committer.close()
        self._readers.shutdown()
        self.ledger.close()

    def run(self, command: Command, size: int, finish: Callable[[Any], T]) -> "asyncio.Future[T]":
        """Have a command carried out and committed; what `finish` makes of its answer."""
        return self.committer.submit(command, size, finish)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function that reads the ledger gives, made in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def _every(self, seconds: float, do: Callable[[], Any]) -> None:
        while True:
            try:
                await do()
            except (LedgerUnavailable, Refusal):
                pass  # said elsewhere; the next time may do
            except Exception:
                logger.exception("what goes on by itself failed")
            await asyncio.sleep(seconds)

    async def _list_deadlines(self) -> None:
        records = await self.read(self.ledger.experiments)
        for each in records:
            if isinstance(each.settings.missing, Deadline):
                self.has_deadline(each.settings.name)

    async def _settle(self) -> None:
        now = time.time() * SECOND
        due = [name for name in self._deadlines if self.book.wake(name) <= now]
        await asyncio.gather(*(self.run(Settle(name), 0, _nothing) for name in due))

    def has_deadline(self, name: str) -> None:
        """There is an experiment with a deadline."""
        if name not in self._deadlines:
            self._deadlines.append(name)


def _nothing(answer: Any) -> None:
    return None


def warm_up() -> None:
    """Have what decides compiled and loaded before anybody waits for it."""
    from belated.bandit import Bandit

    bandit = Bandit(2, seed=0)
    bandit.observe(bandit.decide(), loss=0.0)
    bandit.decide()
    bandit.to_bytes()
