"""A small HTTP client for many cheap requests: one connection that is kept, asked one thing at a time."""

import asyncio
import re
from contextlib import suppress
from typing import Any, Self

import msgspec

from support.serving import ADMIN_KEY

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


class Cut(Exception):
    """No answer came: the connection was refused, or it ended after the request was sent."""

    def __init__(self, sent: bool) -> None:
        super().__init__("cut after the request was sent" if sent else "refused")
        self.sent = sent


class Line:
    """A connection to a server, made when it is first needed, and anew after it was cut."""

    def __init__(self, port: int, key: str = ADMIN_KEY) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.answers = 0
        """Requests that were answered."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.hang_up()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        return await self.ask("POST", f"/v1/experiments{path}", body)

    async def get(self, path: str) -> tuple[int, Any]:
        return await self.ask("GET", f"/v1/experiments{path}")

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the body, decoded where it is JSON."""
        raw = b"" if body is None else msgspec.json.encode(body)
        request = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw
        sent = False
        try:
            if self._ends is None:
                self._ends = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
            reader, writer = self._ends
            writer.write(request)
            sent = True
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            assert length is not None, head
            answer = await reader.readexactly(int(length[1]))
        except (OSError, asyncio.IncompleteReadError) as error:
            await self.hang_up()
            raise Cut(sent) from error
        self.answers += 1
        if _CLOSE.search(head):
            await self.hang_up()
        return int(head[9:12]), msgspec.json.decode(answer) if b"application/json" in head else answer

    async def hang_up(self) -> None:
        if self._ends is not None:
            writer = self._ends[1]
            self._ends = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
