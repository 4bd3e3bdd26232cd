"""Server-sent events: answers that go on until the client has gone, its key is not valid, or the worker stops."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.types import Receive

from belated.service.auth import Caller
from belated.service.errors import ApiError
from belated.service.http import Response

if TYPE_CHECKING:
    from belated.service.service import Service

BEAT_SECONDS = 15.0
"""Streams that have nothing to say send something this often, so that nobody takes them for dead."""
KEY_SECONDS = 1.0
"""How often it is looked whether the key of a stream is still valid."""
KIND = b"text/event-stream"

Ended = tuple["asyncio.Future[Any]", ...]
"""Each is done when nobody listens any more: the client has gone, its key is not valid, the worker stops."""


def message(kind: bytes, content: bytes) -> bytes:
    """Return an event: its kind, and content of one line."""
    return b"event: %s\ndata: %s\n\n" % (kind, content)


def stream(
    service: "Service",
    receive: Receive,
    caller: Caller,
    headers: dict[bytes, bytes],
    messages: Callable[[Ended], AsyncGenerator[bytes, None]],
) -> Response:
    """Return an answer that sends messages for as long as somebody listens; refused where too many do."""
    if service.streams >= service.limits.streams:
        raise ApiError("busy", f"there are {service.streams} live views, as many as this worker allows")

    async def parts() -> AsyncGenerator[bytes, None]:
        service.streams += 1
        ended = (
            asyncio.ensure_future(_until_gone(receive)),
            asyncio.ensure_future(_until_refused(service, caller)),
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

    return Response(parts(), kind=KIND, headers=headers)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until_refused(service: "Service", caller: Caller) -> None:
    """Return once a key is revoked or has expired."""
    while service.auth.is_valid(caller):
        await asyncio.sleep(KEY_SECONDS)


async def wait_for(ended: Ended, awaited: "asyncio.Future[Any]") -> bool:
    """Wait until something is done, nobody listens any more, or it is time for a sign of life; return whether it is."""
    await asyncio.wait((*ended, awaited), timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return awaited.done()


def is_over(ended: Ended) -> bool:
    """Return whether nobody listens any more."""
    return any(future.done() for future in ended)
