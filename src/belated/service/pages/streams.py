"""Server-sent events: answers that go on until the page is closed, its key is not valid, or the worker stops."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from belated.service import handlers
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages.visit import HEADERS, Visit

KEY_SECONDS = 1.0
"""How often it is looked whether the key of an open page is still valid."""

Ended = tuple["asyncio.Future[Any]", ...]
"""Each is done when nobody listens any more: the page has gone, its key is not valid, the worker stops."""


def message(kind: bytes, content: bytes) -> bytes:
    """Return an event: its kind, and content of one line."""
    return b"event: %s\ndata: %s\n\n" % (kind, content)


def stream(visit: Visit, messages: Callable[[Ended], AsyncGenerator[bytes, None]]) -> Response:
    """Return an answer that sends messages for as long as somebody listens; refused where too many do."""
    service = visit.service
    if service.streams >= service.limits.streams:
        raise ApiError("busy", f"there are {service.streams} live views, as many as this worker allows")

    async def parts() -> AsyncGenerator[bytes, None]:
        service.streams += 1
        ended = (
            asyncio.ensure_future(handlers.until_gone(visit.receive)),
            asyncio.ensure_future(_until_refused(visit)),
            asyncio.ensure_future(service.stopping.wait()),
        )
        try:
            async with aclosing(messages(ended)) as each:
                async for part in each:
                    yield part
        finally:
            service.streams -= 1
            for future in ended:
                future.cancel()

    return Response(parts(), kind=b"text/event-stream", headers=HEADERS)


async def _until_refused(visit: Visit) -> None:
    """Return once the key of a page is revoked or has expired."""
    while visit.service.auth.is_valid(visit.key.encode("latin-1")):
        await asyncio.sleep(KEY_SECONDS)


async def wait_for(ended: Ended, awaited: "asyncio.Future[Any]") -> bool:
    """Wait until something is done, nobody listens any more, or it is time for a sign of life; return whether it is."""
    await asyncio.wait((*ended, awaited), timeout=handlers.BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return awaited.done()


def is_over(ended: Ended) -> bool:
    """Return whether nobody listens any more."""
    return any(future.done() for future in ended)
