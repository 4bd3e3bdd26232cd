"""Send requests again: when, for how long, and as a transport of httpx for each of the two clients.

A request is sent again as it is, bytes for bytes, after an error of the connection and after status 429, 502, 503 or
504.
The ids in its body make that safe: the service does everything once.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from belated.api.types import LedgerEvent
from belated.client.errors import ServiceUnavailable
from belated.errors import InvalidValue

RETRY_SECONDS = 60.0
RETRIED = (429, 502, 503, 504)
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_STREAM = "belated.attempts"
_random = random.SystemRandom()  # leaves alone the generator that programs seed


@dataclass(frozen=True)
class Retries:
    """The policy: how long to send a request again.

    Pauses double from 0.05 to 5 seconds. Each is shortened at random by up to half, so that clients do not return all
    at once. `Retry-After` makes a pause longer, up to 5 seconds. No attempt begins later than `retry_seconds` after
    the first; with 0 there is one attempt.
    """

    retry_seconds: float = RETRY_SECONDS

    def __post_init__(self) -> None:
        if not self.retry_seconds >= 0:
            raise InvalidValue(
                f"retry_seconds is {self.retry_seconds!r}; a number of at least 0 is needed", "retry_seconds"
            )

    def start(self) -> "Attempts":
        """Start the time of a request."""
        return Attempts(time.monotonic() + self.retry_seconds)


class Attempts:
    """The attempts at one request, the last of which begins before `until`, a time of the monotonic clock."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._pause = _FIRST_PAUSE

    def after_error(self, error: httpx.TransportError) -> float:
        """Return the seconds to wait after an error of the connection; raise `ServiceUnavailable` if time is over."""
        pause = self._next_pause(0.0)
        if pause is None:
            raise unreachable(error) from error
        return pause

    def after_response(self, response: httpx.Response) -> float | None:
        """Return the seconds to wait after a response; None if it is the last: time is over, or it is an answer."""
        if response.status_code not in RETRIED:
            return None
        wanted = response.headers.get("retry-after", "")  # seconds; a date is not heeded
        return self._next_pause(float(wanted) if wanted.isdecimal() else 0.0)

    def _next_pause(self, wanted: float) -> float | None:
        pause = max(self._pause * _random.uniform(0.5, 1.0), min(wanted, _LONGEST_PAUSE))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return pause if time.monotonic() + pause <= self._until else None


def unreachable(error: httpx.TransportError) -> ServiceUnavailable:
    """Return the error of a service that does not answer."""
    return ServiceUnavailable(503, "unreachable", f"the service does not answer: {error!r}")


@contextmanager
def connection_errors() -> Iterator[None]:
    """Raise `ServiceUnavailable` for an error of the connection."""
    try:
        yield
    except httpx.TransportError as error:
        raise unreachable(error) from error


def streamed(attempts: Attempts) -> dict[str, Any]:
    """Return the extensions of a request whose response is a stream.

    The transport leaves the body of such a response to its reader, and counts its time by these attempts.
    """
    return {_STREAM: attempts}


class RetryTransport(httpx.BaseTransport):
    """A transport that sends requests again over another transport.

    Bodies are read here, so that a response that is cut short is asked for again; but not that of a stream.
    """

    def __init__(self, transport: httpx.BaseTransport, retries: Retries) -> None:
        self._transport = transport
        self._retries = retries

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        stream: Attempts | None = request.extensions.get(_STREAM)
        attempts = stream or self._retries.start()
        pause: float | None
        while True:
            try:
                response = self._transport.handle_request(request)
                if stream is None or not response.is_success:
                    _read(response)
            except httpx.TransportError as error:
                pause = attempts.after_error(error)
            else:
                pause = attempts.after_response(response)
                if pause is None:
                    return response
            time.sleep(pause)

    def close(self) -> None:
        self._transport.close()


class AsyncRetryTransport(httpx.AsyncBaseTransport):
    """`RetryTransport` for programs that await."""

    def __init__(self, transport: httpx.AsyncBaseTransport, retries: Retries) -> None:
        self._transport = transport
        self._retries = retries

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        stream: Attempts | None = request.extensions.get(_STREAM)
        attempts = stream or self._retries.start()
        pause: float | None
        while True:
            try:
                response = await self._transport.handle_async_request(request)
                if stream is None or not response.is_success:
                    await _aread(response)
            except httpx.TransportError as error:
                pause = attempts.after_error(error)
            else:
                pause = attempts.after_response(response)
                if pause is None:
                    return response
            await asyncio.sleep(pause)

    async def aclose(self) -> None:
        await self._transport.aclose()


def _read(response: httpx.Response) -> None:
    """Read a body to its end, after which the connection can be used again; close it if that fails."""
    try:
        response.read()
    finally:
        response.close()


async def _aread(response: httpx.Response) -> None:
    try:
        await response.aread()
    finally:
        await response.aclose()


class _Position:
    """The last event that was read from a stream, and the attempts to read the next."""

    def __init__(self, after: int, retries: Retries) -> None:
        self._retries = retries
        self._opened = after
        self.after = after
        self.attempts = retries.start()

    def cut(self, error: httpx.TransportError) -> float:
        """Return the seconds to wait before the stream is opened again. The time starts anew after every event."""
        if self.after > self._opened:
            self._opened = self.after
            self.attempts = self._retries.start()
        return self.attempts.after_error(error)


Events = Generator[LedgerEvent, None, None]
AsyncEvents = AsyncGenerator[LedgerEvent, None]


def resume_stream(open_stream: Callable[[int, Attempts], Events], after: int, retries: Retries) -> Events:
    """Yield the events of a stream; if it is cut short, open it again after the last event."""
    position = _Position(after, retries)
    while True:
        try:
            with closing(open_stream(position.after, position.attempts)) as events:
                for event in events:
                    position.after = event.number
                    yield event
            return
        except httpx.TransportError as error:
            pause = position.cut(error)
        time.sleep(pause)


async def resume_async_stream(
    open_stream: Callable[[int, Attempts], AsyncEvents], after: int, retries: Retries
) -> AsyncEvents:
    """Yield the events of a stream; if it is cut short, open it again after the last event."""
    position = _Position(after, retries)
    while True:
        try:
            async with aclosing(open_stream(position.after, position.attempts)) as events:
                async for event in events:
                    position.after = event.number
                    yield event
            return
        except httpx.TransportError as error:
            pause = position.cut(error)
        await asyncio.sleep(pause)
