"""The gate of a worker: who is connected, who gives way to a newcomer, and the sweep that looks after all of them."""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from belated.service.counters import WorkerCounters
from belated.service.limits import Limits

if TYPE_CHECKING:
    from belated.service.protocol import Connection

READ = 1 << 16
"""Bytes of one read, and of a body that are kept before the application asks for more."""
TICK_SECONDS = 0.25
STALL_SECONDS = 2.0
"""Where a sweep comes so late, this process has slept, not its clients: they get another chance."""


class Gate:
    """What the connections of one worker share: limits, who is connected, and who gives way."""

    def __init__(self, limits: Limits, counters: WorkerCounters, access_log: bool = False) -> None:
        self.limits = limits
        self.counters = counters
        self.access_log = access_log
        self.connections: set[Any] = set()
        self.waiting: OrderedDict[Connection, None] = OrderedDict()
        """Connections that wait for a request, or for the rest of one; who has waited longest is first."""
        self.by_address: dict[Any, int] = {}
        self.buffer = memoryview(bytearray(READ))
        """Where every read goes; what must stay is copied."""
        self.now = 0.0
        """The time of the last sweep."""
        self._date: tuple[Any, bytes] = (None, b"")

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to sweep."""
        self.now = loop.time()
        loop.call_later(TICK_SECONDS, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        before, self.now = self.now, loop.time()
        if self.now - before < STALL_SECONDS:
            for connection in tuple(self.connections):
                connection.check(self.now)
        loop.call_later(TICK_SECONDS, self._sweep, loop)

    def enter(self, connection: "Connection") -> bool:
        """Count a new connection in; False where there are too many, and none that would give way."""
        address, limits = connection.address, self.limits
        if (self.by_address.get(address, 0) >= limits.connections_per_address and not self._make_room(address)) or (
            len(self.connections) >= limits.connections and not self._make_room(None)
        ):
            self.counters.add("connections_refused")
            return False
        self.by_address[address] = self.by_address.get(address, 0) + 1
        self.connections.add(connection)
        self.waiting[connection] = None
        self.counters.set("connections", len(self.connections))
        return True

    def leave(self, connection: "Connection") -> None:
        """Count a connection out. Twice does no harm."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.waiting.pop(connection, None)
            left = self.by_address[connection.address] - 1
            if left:
                self.by_address[connection.address] = left
            else:
                del self.by_address[connection.address]
            self.counters.set("connections", len(self.connections))

    def _make_room(self, address: Any) -> bool:
        """Close the connection, of one address or of any, that has waited for longest; False where none waits."""
        for connection in self.waiting:
            if address is None or connection.address == address:
                break
        else:
            stuck = [each for each in self.connections if each.is_stuck and address in (None, each.address)]
            if not stuck:
                return False
            connection = min(stuck, key=lambda each: each.since)
        self.leave(connection)
        connection.transport.abort()
        self.counters.add("connections_gave_way")
        return True

    def date(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the headers that every answer has, as bytes; uvicorn makes them anew every second."""
        if self._date[0] is not headers:
            self._date = (headers, b"".join([b"%b: %b\r\n" % header for header in headers]))
        return self._date[1]
