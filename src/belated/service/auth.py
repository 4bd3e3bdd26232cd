"""Who may do what: keys, checked in constant time, known by their digests alone."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable

from belated.ledger.base import LedgerUnavailable
from belated.ledger.events import ApiKey
from belated.ledger.keys import digest_of, id_of
from belated.service.errors import ApiError

SECONDS = 1.0
"""How long a revoked key may still open a worker's door."""
_LOOK_AGAIN = 0.05
_NOTHING = bytes(32)
_MOST_LENGTH = 500


class Authenticator:
    """Knows the keys of the ledger, and looks them up again every second."""

    def __init__(self, read: Callable[[], Awaitable[list[ApiKey]]]) -> None:
        self._read = read
        self._keys: dict[str, tuple[bytes, str]] = {}
        self._read_at = 0.0
        """When the last reading began: keys made before that are known."""
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the keys anew; where the ledger cannot be read, the last ones stay."""
        async with self._reading:
            await self._refresh()

    async def _refresh(self) -> None:
        begun = time.monotonic()
        try:
            keys = await self._read()
        except LedgerUnavailable:
            return
        self._keys = {key.id: (key.digest, key.role) for key in keys if key.revoked is None}
        self._read_at = begun

    async def _refresh_since(self, asked: float) -> None:
        """Read the keys unless a reading has begun since, at most once in _LOOK_AGAIN seconds for all who ask."""
        async with self._reading:
            if self._read_at < asked:
                await asyncio.sleep(max(0.0, self._read_at + _LOOK_AGAIN - time.monotonic()))
                await self._refresh()

    async def check(self, header: bytes | None, role: str) -> None:
        """Let a request with this Authorization header in, or refuse it."""
        if not header:
            raise ApiError("no_key", "a key is needed: Authorization: Bearer KEY")
        kind, _, secret = header.partition(b" ")
        secret = secret.strip()
        if kind.lower() != b"bearer" or not secret or len(secret) > _MOST_LENGTH:
            raise ApiError("no_key", "the Authorization header is not of the form: Bearer KEY")
        has = self._role(secret)
        if has is None:
            await self._refresh_since(time.monotonic())  # it may be new
            has = self._role(secret)
        if has is None:
            raise ApiError("wrong_key", "this key is not known, or was revoked")
        if has not in (role, "admin"):
            raise ApiError("wrong_role", f"this key may {has}; {role} is needed")

    def _role(self, secret: bytes) -> str | None:
        kept, role = self._keys.get(id_of(secret), (_NOTHING, None))
        return role if hmac.compare_digest(digest_of(secret), kept) else None
