"""One request and its answer, between a connection and the application."""

import asyncio
import logging
from typing import TYPE_CHECKING

from starlette.types import Message, Scope

if TYPE_CHECKING:
    from belated.service.protocol import Connection

logger = logging.getLogger("belated.service")

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    """One request and its answer, as ASGI has it."""

    __slots__ = (
        "_chunked",
        "_connection",
        "_delivered",
        "_failure",
        "_gone",
        "_start",
        "_started",
        "body",
        "complete",
        "ended",
        "expects",
        "is_ready",
        "keep_alive",
        "scope",
        "size",
        "task",
        "waiter",
    )

    def __init__(self, connection: "Connection", scope: Scope, keep_alive: bool) -> None:
        self._connection = connection
        self.scope = scope
        self.keep_alive = keep_alive
        self.expects = False
        """Whether the client waits for "100 Continue"."""
        self.is_ready = False
        """Whether enough has come for the application to begin."""
        self.body = bytearray()
        self.size = 0
        self.complete = False
        """Whether the whole request has come."""
        self.ended = False
        """Whether the whole answer is written."""
        self.task: asyncio.Task[None] | None = None
        self.waiter: asyncio.Future[None] | None = None
        self._delivered = False
        self._gone = False
        self._failure: tuple[str, str] | None = None
        self._start: Message | None = None
        self._started = False
        self._chunked = False

    @property
    def waits_for_body(self) -> bool:
        return self.waiter is not None and not self.complete

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def lose(self) -> None:
        """Note that the client has gone."""
        self._gone = True
        self.wake()

    def fail(self, code: str, message: str) -> None:
        """Note that the rest of the request will not come: this is the answer instead."""
        self._failure = (code, message)
        self.wake()

    async def run(self) -> None:
        connection = self._connection
        try:
            await connection.app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:  # told to stop, and the time for that is over
            self._failure = ("stopping", "this worker is stopping; ask again")
        except Exception:
            logger.exception("answering %s %s failed", self.scope["method"], self.scope["path"])
        finally:
            connection.server_state.tasks.discard(self.task)
        if self.ended or self._gone:
            return
        if self._started:
            connection.transport.close()  # without an end: the reader sees that something is missing
        else:
            connection.refuse(*(self._failure or ("internal", "the service failed; its log has more")))

    @property
    def is_gone(self) -> bool:
        """Whether the client has gone, or was answered."""
        return self._gone or self.ended

    def write(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Write the whole answer at once."""
        connection = self._connection
        if self._gone or connection.transport.is_closing():
            return
        headers.append((b"content-length", b"%d" % len(body)))
        self._start = {"status": status, "headers": headers}
        self._started = self.ended = True
        connection.transport.write(self._head() + body)
        connection.answered(self)

    async def receive(self) -> Message:
        connection = self._connection
        if self.expects:
            self.expects = False
            connection.transport.write(_CONTINUE)
        while True:
            if not self._delivered and (self.complete or self.body) and self._failure is None:
                body = bytes(self.body)
                self.body.clear()
                self._delivered = self.complete
                return {"type": "http.request", "body": body, "more_body": not self.complete}
            if self._gone or self.ended or self._failure is not None:
                return {"type": "http.disconnect"}
            self.waiter = connection.loop.create_future()
            if not self.complete:
                connection.resume()
            try:
                await self.waiter
            finally:
                self.waiter = None

    async def send(self, message: Message) -> None:
        connection = self._connection
        if connection.choked is not None and not self._gone:
            await connection.choked
        if self._gone or connection.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        if message["type"] == "http.response.start":
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if not self._started:
            self._started = True
            written = self._head()
            if self.scope["method"] == "HEAD":
                more = False
            else:
                written += self._framed(body, more) if self._chunked else body
            connection.transport.write(written)
        elif self.scope["method"] != "HEAD":
            connection.transport.write(self._framed(body, more) if self._chunked else body)
        if not more:
            self.ended = True
            self.wake()
            connection.answered(self)

    def _head(self) -> bytes:
        """Return the beginning of the answer, and settle how its end is told."""
        assert self._start is not None, "an answer begins with http.response.start"
        headers = self._start["headers"]
        has_length = closes = False
        for name, value in headers:
            if name == b"content-length":
                has_length = True
            elif name == b"connection" and value == b"close":
                closes = True
                self.keep_alive = False
        head = self._connection.head(self._start["status"], headers)
        if not has_length and self.scope["method"] != "HEAD":
            if self.scope["http_version"] == "1.0":
                self.keep_alive = False  # its end is the end of the connection
            else:
                self._chunked = True
                head += b"transfer-encoding: chunked\r\n"
        if not self.keep_alive and not closes:
            head += b"connection: close\r\n"
        return head + b"\r\n"

    @staticmethod
    def _framed(body: bytes, more: bool) -> bytes:
        framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return framed if more else framed + b"0\r\n\r\n"
