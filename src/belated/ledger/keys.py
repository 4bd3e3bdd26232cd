"""API keys: random, shown once, kept as digests."""

import hashlib
import secrets
import time

from belated.ledger.base import Ledger
from belated.ledger.events import SECOND, ApiKey

ROLES = ("decide", "read", "admin")
"""decide: ask for decisions, report outcomes. read: look at experiments and their ledgers. admin: everything."""
FEWEST_CHARACTERS = 20


def digest_of(secret: bytes) -> bytes:
    """Return what is kept of a key. Keys are 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(secret).digest()


def id_of(secret: bytes) -> str:
    """Return what a key is called: tells nothing about it, and finds it."""
    return hashlib.blake2b(secret, digest_size=6, person=b"belated key id").hexdigest()


def new_key(name: str, role: str, secret: str | None = None) -> tuple[str, ApiKey]:
    """Return a key: the secret, which nobody sees again, and what the ledger keeps of it."""
    if role not in ROLES:
        raise ValueError(f"role is {role!r}; one of {', '.join(ROLES)} is needed")
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise ValueError(f"name is {name[:120]!r}; 1 to 100 printable characters are needed")
    if secret is None:
        secret = "belated_" + secrets.token_urlsafe(32)
    elif len(secret) < FEWEST_CHARACTERS or not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise ValueError(f"a key needs at least {FEWEST_CHARACTERS} visible ASCII characters, without spaces")
    raw = secret.encode()
    return secret, ApiKey(id_of(raw), name, role, digest_of(raw), int(time.time() * SECOND), None)


def ensure_admin(ledger: Ledger, secret: str | None) -> str | None:
    """See to it that somebody can get in: with the key given, or, where there is no admin key at all, with a new one.

    The new key, to be shown once; None where none was made.
    """
    keys = ledger.all_keys()
    if secret is not None:
        _, key = new_key("BELATED_ADMIN_KEY", "admin", secret)
        if any(known.id == key.id and known.revoked is not None for known in keys):
            raise ValueError("the key in BELATED_ADMIN_KEY was revoked; another one is needed")
        ledger.add_key(key)
        return None
    if any(key.role == "admin" and key.revoked is None for key in keys):
        return None
    shown, key = new_key("first", "admin")
    ledger.add_key(key)
    return shown
