"""Connections: bytes in, requests to the application, answers out; and limits on all that a stranger can send.

uvicorn starts and stops the server; this class takes the place of its HTTP protocol. uvicorn's own parses as many
requests as a read brings, starts the application before the body has come, and sets a timer for each answer. Here

- the application hears of a request when all of it has come, or the first 64 KiB of a longer body;
- a connection has one request in the works; what comes behind it stays unread, but for a last read of 64 KiB;
- one sweep, four times a second, looks at all connections: who takes too long is answered 408, or closed;
- at the limit of connections, the one that has been waiting for longest gives way to a new one.
"""

import asyncio
import http
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import httptools
import uvicorn

from belated.service.counters import NO_ROUTE
from belated.service.errors import ApiError
from belated.service.exchange import Exchange
from belated.service.gate import READ, Gate
from belated.service.http import JSON, encode
from belated.service.log import log_access

SLICE = 1 << 10
"""Bytes parsed at a time, so that a read of many small requests does not become many requests in memory."""
LINGER_SECONDS = 2.0
"""After an answer in the middle of a request, how long to read on, lest a reset swallows the answer."""
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus if status >= 200
}
_ASGI = {"version": "3.0", "spec_version": "2.3"}


def connections(gate: Gate) -> Callable[..., "Connection"]:
    """Return what uvicorn calls for each new connection."""

    def connect(config: uvicorn.Config, server_state: Any, **_: Any) -> Connection:
        gate.connections = server_state.connections
        return Connection(gate, config.loaded_app, server_state)

    return connect


class Connection(asyncio.BufferedProtocol):
    """One connection: what has come of the next request, and the request that is being answered."""

    def __init__(self, gate: Gate, app: Any, server_state: Any) -> None:
        self.gate = gate
        self.app = app
        self.server_state = server_state
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None
        self.address: Any = None
        self.parser: Any = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # what follows the last request is ignored
        self.since = gate.now
        """When the present wait began: for the rest of a request, or for the next one."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects = False
        self._in_head = True
        self._begun = False
        """Whether a request has begun to come, and not come as a whole."""
        self._fed = 0
        """Bytes of the head so far; of a chunked body, since it last brought something."""
        self._left = 0
        """Bytes of the body that are still to come, where its length is known."""
        self._refusal: tuple[str, str] | None = None
        self._reading: Exchange | None = None
        """The request whose body is coming."""
        self._line: deque[Exchange] = deque()
        """Requests whose head has come and which are not being answered yet."""
        self._handling: Exchange | None = None
        self._held = b""
        """Read, but not parsed: what came behind the request that is being answered."""
        self._paused = False
        self._is_over = False
        """Whether nothing more is read or answered."""
        self._lingering = False
        """Whether the client may send for a moment more, to nobody."""
        self._stopping = False
        self.choked: asyncio.Future[None] | None = None
        """Done when the client has taken enough of what was written."""
        self._unread = 0
        self._unread_since = gate.now

    # What the transport calls.

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        here = transport.get_extra_info("sockname")
        if isinstance(peer, tuple):
            self.client = (str(peer[0]), int(peer[1]))
            self.server = (str(here[0]), int(here[1]))
            self.address = _network(self.client[0])
        self.since = self._unread_since = self.gate.now
        if not self.gate.enter(self):
            self._is_over = True
            transport.write(self._error("busy", "this worker has as many connections as it takes; try again soon"))
            transport.close()

    def get_buffer(self, size: int) -> memoryview:
        return self.gate.buffer

    def buffer_updated(self, size: int) -> None:
        if self._is_over:
            return
        data = self.gate.buffer[:size].tobytes()
        if self._is_ahead:
            self._held += data
            self._pause()
        else:
            self._feed(data)

    def eof_received(self) -> None:
        """Let the transport close: half a connection is none."""

    def connection_lost(self, error: Exception | None) -> None:
        self.gate.leave(self)
        self._line.clear()
        self._held = b""
        self.parser = None  # it holds on to this connection
        if self._handling is not None:
            self._handling.lose()
        self.resume_writing()

    def pause_writing(self) -> None:
        if self.choked is None:
            self.choked = self.loop.create_future()
            self.since = self.gate.now

    def resume_writing(self) -> None:
        self._unread_since = self.gate.now
        if self.choked is not None:
            if not self.choked.done():
                self.choked.set_result(None)
            self.choked = None

    # Reading.

    @property
    def _is_ahead(self) -> bool:
        """Whether what comes now is behind a request that is being answered."""
        return self._handling is not None and self._reading is not self._handling

    def _feed(self, data: bytes) -> None:
        """Parse until there is a request to answer; hold the rest."""
        if self._in_head and not self._fed and not self._line:
            self.since = self.gate.now
        try:
            if len(data) <= SLICE:
                self._parse(data)
                return
            at = 0
            while at < len(data) and not self._is_over:
                if self._is_ahead:
                    self._held = data[at:]
                    self._pause()
                    return
                size = SLICE if self._in_head or not self._left else self._left
                self._parse(data[at : at + size])
                at += size
        except httptools.HttpParserError:
            self._give_up(*(self._refusal or ("bad_request", "this is not an HTTP request")))

    def _parse(self, data: bytes) -> None:
        self._fed += len(data)
        while data:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:  # we speak HTTP/1.1 and nothing else: answer in that
                data = data[upgrade.args[0] :]
        if self._fed > self.gate.limits.head and (self._in_head or not self._left) and not self._is_over:
            self._give_up(*self._too_large())

    def _too_large(self) -> tuple[str, str]:
        most = self.gate.limits.head
        return "headers_too_large", f"the first line and the headers of the request have more than {most:,} bytes"

    def _give_up(self, code: str, message: str) -> None:
        """Refuse what is coming; requests before it are answered first."""
        broken, self._reading = self._reading, None
        if broken is not None and broken is self._handling:
            broken.fail(code, message)
            return
        if broken is not None and self._line and self._line[-1] is broken:
            self._line.pop()
        before = self._line[-1] if self._line else self._handling
        if before is None:
            self.refuse(code, message)
        else:
            before.keep_alive = False
            self._pause()

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._expects = False
        self._left = 0
        self._begun = True
        self.since = self.gate.now

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # behind a chunked body
        name = name.lower()
        self._headers.append((name, value))
        if name == b"content-length":
            self._left = int(value)
        elif name == b"expect":
            self._expects = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        most = self.gate.limits.head
        if self._fed > most and self._head_size() > most:
            self._refusal = self._too_large()
            raise ValueError("too large")
        parser, url = self.parser, self._url
        if url[:1] == b"/" and b"#" not in url:
            raw_path, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            raw_path, query = parsed.path or b"/", parsed.query or b""
        version = parser.get_http_version()
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(raw_path.decode("ascii")) if b"%" in raw_path else raw_path.decode("ascii"),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
            "client": self.client,
            "server": self.server,
        }
        self._in_head = False
        self._fed = 0
        self.since = self.gate.now
        exchange = Exchange(self, scope, version != "1.0" and parser.should_keep_alive())
        self._reading = exchange
        self._line.append(exchange)
        if self._expects or self._left > self.gate.limits.body:
            exchange.expects = self._expects
            exchange.is_ready = True  # nothing more comes, or is wanted, before the application has spoken
            if self._left > self.gate.limits.body:
                exchange.keep_alive = False
            self._next()

    def _head_size(self) -> int:
        return len(self._url) + 16 + sum(len(name) + len(value) + 4 for name, value in self._headers)

    def on_body(self, body: bytes) -> None:
        exchange = self._reading
        self._left = max(0, self._left - len(body))
        self._fed = 0
        if exchange is None:
            return
        exchange.size += len(body)
        if exchange.ended:
            if exchange.size > self.gate.limits.body:  # an answer that somebody does not want to hear
                self._close()
            return
        exchange.body += body
        if exchange.waiter is not None:
            exchange.wake()
        elif len(exchange.body) >= READ:
            exchange.is_ready = True
            self._next()
            self._pause()

    def on_message_complete(self) -> None:
        exchange, self._reading = self._reading, None
        self._in_head = True
        self._begun = False
        self._fed = self._left = 0
        if exchange is None:
            return
        exchange.complete = exchange.is_ready = True
        if exchange.ended:
            self._rest()
        elif exchange is self._handling:
            exchange.wake()
        else:
            self._next()

    def _next(self) -> None:
        """Have the next request answered, if it is time and there is one."""
        if self._handling is None and self._line and self._line[0].is_ready:
            self._handling = exchange = self._line.popleft()
            if self._stopping:
                exchange.keep_alive = False
            self.gate.waiting.pop(self, None)
            if exchange.complete and self.app.begin(exchange):
                return
            task = exchange.task = self.loop.create_task(exchange.run())
            self.server_state.tasks.add(task)

    def _pause(self) -> None:
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._paused and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    # Answering.

    def answered(self, exchange: Exchange) -> None:
        """Go on after a whole answer: with the next request, or with waiting for one."""
        self.server_state.total_requests += 1
        self._handling = None
        if not exchange.keep_alive or self._stopping:
            self._close(exchange.complete)
            return
        if not exchange.complete:
            self._rest()  # the rest of its body is thrown away
        elif self._line:
            self._next()
            if self._handling is None:
                self._rest()
        else:
            self._rest()
        if self._held and not self._is_ahead:
            data, self._held = self._held, b""
            self._feed(data)
        if not self._held and not self._is_over:
            self.resume()

    def _rest(self) -> None:
        self.since = self.gate.now
        self.gate.waiting[self] = None

    def refuse(self, code: str, message: str) -> None:
        """Answer with an error in the middle of a request, and close."""
        if not self.transport.is_closing():
            self.transport.write(self._error(code, message))
            self._handling = None
            self._close(is_complete=False)

    def _error(self, code: str, message: str) -> bytes:
        error = ApiError(code, message, connection="close")
        body = encode(error.problem)
        self.gate.counters.answered(NO_ROUTE, error.status, 0.0)
        if self.gate.access_log:
            log_access("-", self._url, error.status, 0.0, self.client)
        headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(body)), *error.headers.items()]
        return self.head(error.status, headers) + b"\r\n" + body

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the beginning of an answer, without the empty line at its end."""
        date = self.gate.date(self.server_state.default_headers)
        return b"".join([_STATUS_LINES[status], date, *[b"%b: %b\r\n" % header for header in headers]])

    def _close(self, is_complete: bool = True) -> None:
        """Close once everything is written; where a client is still sending, listen to it for a little longer."""
        self._line.clear()
        self._held = b""
        self._is_over = True
        if is_complete:
            self.transport.close()
        elif not self._lingering:
            self._lingering = True
            with suppress(OSError, RuntimeError):  # the other end has gone in the meantime
                self.transport.write_eof()
            self._rest()
            self.resume()

    # What the sweep and the server call.

    @property
    def is_stuck(self) -> bool:
        """Whether the client is waited for: that it reads, or sends the rest of a request."""
        handling = self._handling
        return self.transport.get_write_buffer_size() > 0 or (handling is not None and handling.waits_for_body)

    def check(self, now: float) -> None:
        """Refuse or close what has taken too long."""
        limits, waited = self.gate.limits, now - self.since
        if self._takes_nothing(now) or (self._lingering and waited > LINGER_SECONDS):
            self.transport.abort()
        elif self._is_over:
            return
        elif self._reading is not None and (self._handling is None or self._handling.waits_for_body):
            if waited > limits.body_seconds:
                self._drop("slow_request", f"the body of the request took more than {limits.body_seconds:g} seconds")
        elif self._handling is None and self._in_head and (self._begun or self._fed):
            if waited > limits.head_seconds:
                self._drop("slow_request", f"the headers of the request took more than {limits.head_seconds:g} seconds")
        elif self._handling is None and waited > limits.idle_seconds:
            self.transport.close()

    def _takes_nothing(self, now: float) -> bool:
        size = self.transport.get_write_buffer_size()
        if size == 0 or size < self._unread:
            self._unread_since = now
        self._unread = size
        return size > 0 and now - self._unread_since > self.gate.limits.unread_seconds

    def _drop(self, code: str, message: str) -> None:
        reading = self._reading
        if reading is not None and reading.ended:
            self._close()
        elif reading is not None and reading is self._handling:
            reading.fail(code, message)
        else:
            self.refuse(code, message)

    def shutdown(self) -> None:
        """Close after the answer that is in the works; at once where there is none. uvicorn calls this."""
        self._stopping = True
        if self._handling is not None:
            self._handling.keep_alive = False
        elif self._is_over or not (self._begun or self._fed):
            self.transport.close()

    def hurry(self) -> None:
        """End what would hold up a server that is stopping: answers not read, requests that do not come."""
        if self._is_over or self.transport.get_write_buffer_size() > 0:
            self.transport.abort()
        elif self._handling is None or self._handling.waits_for_body:
            self._drop("stopping", "this worker is stopping; ask again")


def _network(host: str) -> Any:
    """Return what counts as one address: of IPv6, the half that names the network."""
    host = host.removeprefix("::ffff:")
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8] if ":" in host else host
