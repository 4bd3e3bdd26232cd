"""Who may do what: keys, checked in constant time, known by their digests alone."""

import asyncio
import hmac
import math
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache

from belated.ledger.base import LedgerUnavailable
from belated.ledger.events import SECOND, ApiKey, when
from belated.ledger.keys import digest_of, id_of, opens
from belated.service.errors import ApiError
from belated.service.rates import Bucket

SECONDS = 1.0
"""How long a revoked key may still open a worker's door."""
NOTE_SECONDS = 60.0
"""A key's last use is written at most this often."""
_LOOK_AGAIN = 0.05
_NOTHING = bytes(32)
_MOST_LENGTH = 500


class Caller:
    """Who asks: a key as a worker knows it."""

    __slots__ = ("bucket", "digest", "expires", "id", "is_scoped", "noted", "number", "opens", "role", "used")

    def __init__(self, key: ApiKey | None, rate: float | None = None) -> None:
        """None is whoever comes without a key to a door that is open to all."""
        self.id = key.id if key else ""
        self.number = key.number if key else None
        self.digest = key.digest if key else _NOTHING
        self.role = key.role if key else ""
        self.expires = (key.expires if key else None) or math.inf
        self.is_scoped = bool(key and key.experiments is not None)
        self.opens = opens(key.experiments if key else None)
        """Whether it opens the experiment of a name."""
        self.bucket = Bucket(rate) if rate else None
        self.used = False
        """Whether it was used since that was last noted in the ledger."""
        self.noted = -math.inf
        """When that was."""

    def check_scope(self, name: str) -> None:
        """Refuse a key that is not for this experiment, whether there is such an experiment or not."""
        if not self.opens(name):
            raise ApiError("wrong_scope", f"this key is not for experiment {name!r}", "name")


NOBODY = Caller(None)


class Authenticator:
    """Knows the keys of the ledger, and looks them up again every second.

    rate is that of keys without one of their own. It is shared evenly among the workers, as connections are.
    """

    def __init__(
        self, read: Callable[[], Awaitable[list[ApiKey]]], rate: float | None = None, workers: int = 1
    ) -> None:
        self._read = read
        self._rate = rate
        self._workers = workers
        self._callers: dict[str, Caller] = {}
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
        known = self._callers
        self._callers = {key.id: known.get(key.id) or self._caller(key) for key in keys if key.revoked is None}
        self._read_at = begun

    def _caller(self, key: ApiKey) -> Caller:
        rate = self._rate if key.rate is None else key.rate
        return Caller(key, rate / self._workers if rate else None)

    async def _refresh_since(self, asked: float) -> None:
        """Read the keys unless a reading has begun since, at most once in _LOOK_AGAIN seconds for all who ask."""
        async with self._reading:
            if self._read_at < asked:
                await asyncio.sleep(max(0.0, self._read_at + _LOOK_AGAIN - time.monotonic()))
                await self._refresh()

    async def check(self, header: bytes | None, role: str, name: str | None = None) -> Caller:
        """Let a request with this Authorization header in, to the experiment of a name if there is one; who it is."""
        if not header:
            raise ApiError("no_key", "a key is needed: Authorization: Bearer KEY")
        kind, _, secret = header.partition(b" ")
        secret = secret.strip()
        if kind.lower() != b"bearer" or not secret or len(secret) > _MOST_LENGTH:
            raise ApiError("no_key", "the Authorization header is not of the form: Bearer KEY")
        caller = self._find(secret)
        if caller is None:
            await self._refresh_since(time.monotonic())  # it may be new
            caller = self._find(secret)
        if caller is None:
            raise ApiError("wrong_key", "this key is not known, or was revoked")
        if caller.expires <= time.time() * SECOND:
            raise ApiError("expired_key", f"this key expired at {when(int(caller.expires))}; another one is needed")
        caller.used = True
        if caller.bucket is not None and (seconds := caller.bucket.take()):
            message = "this key makes more requests than its rate allows; ask again later"
            raise ApiError("too_fast", message, retry_after=str(math.ceil(seconds)))
        if caller.role != role and caller.role != "admin":
            raise ApiError("wrong_role", f"this key may {caller.role}; {role} is needed")
        if name is not None:
            caller.check_scope(name)
        return caller

    def is_valid(self, caller: Caller) -> bool:
        """Return whether a key that was let in was neither revoked nor has expired since, as far as is known here."""
        return self._callers.get(caller.id) is caller and caller.expires > time.time() * SECOND

    def known(self, header: bytes | None, role: str, name: str) -> Caller | None:
        """Return who asks, where that is known without waiting and `check` would let them in; None: ask `check`."""
        if not header or header[:7] != b"Bearer ":
            return None
        caller = self._find(header[7:])
        if (
            caller is None
            or caller.bucket is not None
            or caller.expires <= time.time() * SECOND
            or (caller.role != role and caller.role != "admin")
            or not caller.opens(name)
        ):
            return None
        caller.used = True
        return caller

    def _find(self, secret: bytes) -> Caller | None:
        id, digest = _hashes(secret)
        caller = self._callers.get(id, NOBODY)
        return caller if hmac.compare_digest(digest, caller.digest) else None

    async def note_use(self, write: Callable[[list[str], int], Awaitable[None]]) -> None:
        """Have it written which keys were used since that was last done; of a key at most once a minute."""
        now = time.monotonic()
        used = {id: each for id, each in self._callers.items() if each.used and now - each.noted >= NOTE_SECONDS}
        if not used:
            return
        await write(list(used), int(time.time() * SECOND))
        for each in used.values():
            each.used, each.noted = False, now


@lru_cache(256)
def _hashes(secret: bytes) -> tuple[str, bytes]:
    """Return the id and the digest of a key. They are kept for keys in use; what they open is looked up each time."""
    return id_of(secret), digest_of(secret)
