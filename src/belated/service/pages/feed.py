"""What open pages are told while an experiment goes on, as server-sent events.

All pages of an experiment share one feed: it looks at the experiment once for all of them, at most once a second, and
only while somebody watches. A page that takes its time misses what was in between, and hears the newest.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from belated.ledger.base import LedgerUnavailable
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages import experiment
from belated.service.pages.decisions import latest
from belated.service.pages.visit import Visit
from belated.service.reading import Look
from belated.service.streams import Ended, is_over, message, wait_for

if TYPE_CHECKING:
    from belated.service.service import Service

logger = logging.getLogger("belated.service")

LOOK_SECONDS = 1.0
"""A page hears of changes at most this often."""
WATCHERS_A_SECOND = 20
"""Where more pages than this are open, they hear less often: a worker sends about so many messages a second."""
KNOWN_SECONDS = 2.0
KNOWN_TIMES = 10.0
"""Estimates are made anew at most this often, and not before so many times what they took have passed."""
MANY_EVENTS = 20_000
"""Of an experiment whose settled decisions may take long to read."""
RETRY = b"retry: 1000\n\n"
"""How many milliseconds a browser waits before it connects again."""


class Feed:
    """What the pages of one experiment are told."""

    def __init__(self, service: "Service", name: str, outcomes: str) -> None:
        self._service = service
        self._name = name
        self._outcomes = outcomes
        self._messages: dict[bytes, tuple[int, bytes]] = {}
        """The newest of each kind, with a number that grows."""
        self._count = 0
        self._changed = asyncio.Event()
        self._watchers = 0
        self._pump: asyncio.Task[None] | None = None
        self._seen: Look | None = None
        """What the pages were told last of the experiment; None: it must be told anew."""
        self._known: bytes | None = None
        self._known_events = -1
        self._known_again = 0.0
        self._asking: asyncio.Task[bytes] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._watchers and self._asking is None

    async def known(self, seconds: float, events: int) -> bytes | None:
        """Return what is known of the arms, as JSON, if it can be had in so many seconds, or was lately.

        Where there are very many events, and nobody has asked before, reading them waits until the page is there.
        """
        if self._known_events >= events or (self._known is None and events > MANY_EVENTS):
            return self._known
        task = self._ask(events)
        if task is not None:
            with suppress(Exception):  # what fails is logged; the page is shown without a verdict
                await asyncio.wait_for(asyncio.shield(task), seconds)
        return self._known

    def _ask(self, events: int) -> "asyncio.Task[bytes] | None":
        """Have estimates made of so many events or more, unless those there are will do."""
        if self._asking is None:
            if time.monotonic() < self._known_again:
                return None
            self._asking = asyncio.create_task(self._estimate(events))
            self._asking.add_done_callback(self._estimated)
        return self._asking

    async def _estimate(self, events: int) -> bytes:
        begun = time.monotonic()
        try:
            self._known, self._known_events = await self._service.known(self._name, self._outcomes), events
            self._say(b"known", self._known)
            return self._known
        finally:
            now = time.monotonic()
            self._known_again = now + max(KNOWN_SECONDS, KNOWN_TIMES * (now - begun))
            self._asking = None

    def _estimated(self, task: "asyncio.Task[bytes]") -> None:
        """Take an error, whether or not somebody waits for it: the next look tries again."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ApiError | LedgerUnavailable):
            logger.error("estimating experiment %s for its pages failed: %r", self._name, error)

    def _say(self, kind: bytes, content: bytes) -> None:
        self._count += 1
        self._messages[kind] = self._count, message(kind, content)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _look(self) -> None:
        """Look at the experiment for as long as somebody watches."""
        while True:
            try:
                look = await self._service.look(self._name)
                seen = self._seen
                is_new = seen is None or (look.events, look.status) != (seen.events, seen.status)
                made = await self._service.read(latest, self._service.ledger, look) if is_new else []
            except (LedgerUnavailable, ApiError) as error:
                self._fail(error.problem.message if isinstance(error, ApiError) else str(error))
            except Exception as error:
                logger.exception("looking at experiment %s for its open pages failed: %s", self._name, error)
                self._fail("the service could not look at this experiment; its log says why")
            else:
                if is_new:
                    self._seen = look
                    self._messages.pop(b"problem", None)
                    self._say(b"state", experiment.data(look, made))
                if look.events != self._known_events:
                    self._ask(look.events)
            await asyncio.sleep(max(LOOK_SECONDS, self._service.streams / WATCHERS_A_SECOND))

    def _fail(self, reason: str) -> None:
        """Tell the pages why there is nothing new."""
        self._seen = None
        self._messages.pop(b"state", None)
        self._say(b"problem", msgspec.json.encode(reason))

    def _beat(self) -> bytes:
        """Return a sign of life: the numbers that change by themselves, such as how long ago the last decision was."""
        if self._seen is None:
            return b": nothing new\n\n"
        return message(b"facts", msgspec.json.encode(experiment.facts(self._seen, time.time())))

    async def watch(self, ended: Ended) -> AsyncGenerator[bytes, None]:
        """Yield messages, first what is known already, until nobody listens any more."""
        self._watchers += 1
        if self._pump is None:
            self._pump = asyncio.create_task(self._look())
        told = 0
        try:
            yield RETRY
            while not is_over(ended):
                changed = self._changed
                news = sorted(each for each in self._messages.values() if each[0] > told)
                if news:
                    told = news[-1][0]
                    yield b"".join(message for _, message in news)
                    continue
                waiting = asyncio.ensure_future(changed.wait())
                try:
                    is_news = await wait_for(ended, waiting)
                finally:
                    waiting.cancel()
                if not is_news:
                    yield self._beat()
        finally:
            self._watchers -= 1
            if not self._watchers and self._pump is not None:
                self._pump.cancel()
                self._pump = None
                self._seen = None
                self._messages = {kind: each for kind, each in self._messages.items() if kind == b"known"}


async def follow(visit: Visit) -> Response:
    """Stream what changes on the page of an experiment."""
    await visit.service.look(visit.name)  # an experiment that there is not is refused at once
    return visit.stream(visit.pages.feed(visit.name, experiment.count_of(visit)).watch)
