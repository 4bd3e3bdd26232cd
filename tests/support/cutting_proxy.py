"""A way to PostgreSQL that can be cut, at any message of the client."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

from support.waiting import SECONDS

How = Literal["before", "farewell", "after", "reply", "late", "committed"]
"""When the way is cut.

before: the message does not arrive. farewell: the same, but what the server says to that arrives. after: it arrives,
and then the end. reply: it arrives and is answered, the answer is lost. late: the client sees the end before the
message arrives. committed: not by number, but at the server's word that a transaction was committed, which is lost.
"""
SILENCE_SECONDS = 0.03
"""How long to wait for an answer that may not come."""
LATE_SECONDS = 0.1
_UNCOUNTED = (b"H", b"X")
"""Flushes, and farewells of connections: they come as time has it."""
_COMMITTED = b"COMMIT\x00"
_UNTYPED = (80877103, 80877104, 80877102)
"""Messages before the first that has a type: asking for encryption, cancelling."""


@dataclass
class Cut:
    """At the message of this number, counted from 1 over all connections, once."""

    how: How
    at: int = 0
    and_stay_down: bool = False
    done: bool = False


class _Way:
    """One connection: to the client and to the server."""

    def __init__(self, proxy: "Proxy", client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._mute = threading.Event()
        self.swallows = proxy.swallows
        """Whether nothing passes any more, either way, and nobody is told."""
        self._answered = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._forth, self._back)]
        for thread in self._threads:
            thread.start()

    def _forth(self) -> None:
        """Messages of the client, one by one."""
        waiting = b""
        is_typed = False
        with suppress(OSError):
            while data := self._client.recv(65536):
                self._proxy.moves.wait()
                waiting += data
                while message := _first(waiting, is_typed):
                    waiting = waiting[len(message) :]
                    is_typed = is_typed or int.from_bytes(message[4:8], "big") not in _UNTYPED
                    if not self.swallows and not self._pass(message):
                        return
        self._end_client()
        self._end_server()

    def _pass(self, message: bytes) -> bool:
        """Hand a message on, unless the way is cut here."""
        cut = None if message.startswith(_UNCOUNTED) else self._proxy.count()
        if cut is None:
            self._server.sendall(message)
            return True
        if cut.how == "late":
            self._end_client()
            time.sleep(LATE_SECONDS)
        if cut.how == "reply":
            self._mute.set()
        if cut.how not in ("before", "farewell"):
            self._server.sendall(message)
        if cut.how == "reply":
            self._answered.wait(SILENCE_SECONDS)
        self._end_server()
        if cut.how == "farewell":
            self._threads[1].join(SILENCE_SECONDS)
        self._proxy.fall(cut)
        self._end_client()
        return False

    def _back(self) -> None:
        """What the server says; until its end, so that it reads all that it was sent."""
        with suppress(OSError):
            while data := self._server.recv(65536):
                self._proxy.moves.wait()
                cut = self._proxy.cut
                if cut is not None and cut.how == "committed" and not cut.done and _COMMITTED in data:
                    cut.done = True
                    self._mute.set()
                    self._proxy.fall(cut)
                    self._end_client()
                    self._end_server()
                elif self._mute.is_set():
                    self._answered.set()
                elif self.swallows:
                    continue
                else:
                    with suppress(OSError):
                        self._client.sendall(data)
        self._end_client()
        self._server.close()

    def _end_client(self) -> None:
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        self._client.close()

    def _end_server(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        self._end_client()
        self._end_server()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()


def _first(data: bytes, is_typed: bool) -> bytes:
    """The first message, if it is complete: its type if it has one, its length, the rest."""
    before = 1 if is_typed else 0
    if len(data) < before + 4:
        return b""
    size = before + int.from_bytes(data[before : before + 4], "big")
    return data[:size] if len(data) >= size else b""


class Proxy:
    """Stands between the clients and the server at an address."""

    def __init__(self, url: str) -> None:
        self.cut: Cut | None = None
        self.swallows = False
        """Whether new connections pass nothing on."""
        self.moves = threading.Event()
        """What is on its way goes on only while this is set."""
        self.moves.set()
        self.messages = 0
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._behind = (parts.hostname, parts.port)
        self._lock = threading.Lock()
        self._ways: list[_Way] = []
        self._listening: socket.socket | None = None
        self._accepting: threading.Thread | None = None
        self._port = 0
        self.up()
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._port}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.down()
        for way in self._ways:
            way.end()
            way.join()

    @contextmanager
    def cutting(self, cut: Cut) -> Iterator[None]:
        """Cut the way; count messages from here."""
        with self._lock:
            self.cut, self.messages = cut, 0
        try:
            yield
        finally:
            with self._lock:
                self.cut = None

    def swallow(self, new_ones: bool) -> None:
        """Pass nothing on any more on the connections there are, nor on new ones if so wanted."""
        self.swallows = new_ones
        for way in self._ways:
            way.swallows = True

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Swallow all that is sent, also on new connections."""
        self.swallow(new_ones=True)
        try:
            yield
        finally:
            self.swallows = False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold up all that is sent until the end, as a server does that is frozen: connections can be made."""
        self.moves.clear()
        try:
            yield
        finally:
            self.moves.set()

    def count(self) -> Cut | None:
        """Count a message: whether the way is cut at it."""
        with self._lock:
            self.messages += 1
            cut = self.cut
            if cut is None or cut.done or self.messages != cut.at:
                return None
            cut.done = True
            return cut

    def fall(self, cut: Cut) -> None:
        if cut.and_stay_down:
            self.down()

    def up(self) -> None:
        """Let clients connect."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self._port))
        listening.listen(64)
        self._port = int(listening.getsockname()[1])
        self._listening = listening
        self._accepting = threading.Thread(target=self._accept, args=(listening,), daemon=True)
        self._accepting.start()

    def down(self) -> None:
        """Cut all that there is; nobody can connect."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            assert self._accepting is not None
            self._accepting.join(SECONDS)
        for way in self._ways:
            way.end()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                try:
                    server = socket.create_connection(self._behind)
                except OSError:
                    client.close()
                    continue
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._ways.append(_Way(self, client, server))
