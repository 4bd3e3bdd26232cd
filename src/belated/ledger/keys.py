"""API keys: random, shown once, kept as digests; what each of them opens, and until when."""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence

from belated.errors import InvalidValue
from belated.ledger.base import KeyChange, Ledger
from belated.ledger.events import SECOND, ApiKey, when

ROLES = ("decide", "read", "admin")
"""decide: ask for decisions, report outcomes. read: look at experiments and their ledgers. admin: everything."""
FEWEST_CHARACTERS = 20
VARIABLE = "BELATED_ADMIN_KEY"
"""The variable that may hold an admin key; a key that came from it has its name."""
MOST_PATTERNS = 1_000
MOST_RATE = 1e6
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,99}")


def digest_of(secret: bytes) -> bytes:
    """Return what is kept of a key. Keys are 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(secret).digest()


def id_of(secret: bytes) -> str:
    """Return what a key is called: tells nothing about it, and finds it."""
    return hashlib.blake2b(secret, digest_size=6, person=b"belated key id").hexdigest()


def new_key(
    name: str,
    role: str,
    secret: str | None = None,
    experiments: Sequence[str] | None = None,
    expires: int | None = None,
    rate: float | None = None,
) -> tuple[str, ApiKey]:
    """Return a key: the secret, which nobody sees again, and what the ledger keeps of it.

    experiments are names, or patterns in which `*` stands for any characters; None opens all. rate is in requests a
    second.
    """
    if role not in ROLES:
        raise ValueError(f"role is {role!r}; one of {', '.join(ROLES)} is needed")
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise ValueError(f"name is {name[:120]!r}; 1 to 100 printable characters are needed")
    if secret is None and name == VARIABLE:
        raise ValueError(f"name is {name!r}, which is kept for the key in the variable of that name; take another")
    if secret is None:
        secret = "belated_" + secrets.token_urlsafe(32)
    elif len(secret) < FEWEST_CHARACTERS or not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise ValueError(f"a key needs at least {FEWEST_CHARACTERS} visible ASCII characters, without spaces")
    now = int(time.time() * SECOND)
    _check_limits(experiments, expires, rate, now)
    raw = secret.encode()
    only = None if experiments is None else tuple(dict.fromkeys(experiments))
    return secret, ApiKey(
        id_of(raw), name, role, digest_of(raw), now, None, experiments=only, expires=expires, rate=rate
    )


def _check_limits(experiments: Sequence[str] | None, expires: int | None, rate: float | None, now: int) -> None:
    if experiments is not None:
        if not 1 <= len(experiments) <= MOST_PATTERNS:
            raise InvalidValue(f"experiments has {len(experiments)} names; 1 to {MOST_PATTERNS:,} are possible")
        for each in experiments:
            if not _PATTERN.fullmatch(each):
                raise InvalidValue(
                    f"experiments has {each[:120]!r}; a name of an experiment is needed, in which * may stand for any"
                    " characters"
                )
    if expires is not None and expires <= now:
        raise InvalidValue(f"expires is {when(expires)}, which is past; a time to come is needed")
    if rate is not None and not 0 < rate <= MOST_RATE:
        raise InvalidValue(f"rate is {rate:g}; a number above 0, at most {MOST_RATE:,.0f}, is needed")


def opens(experiments: Sequence[str] | None) -> Callable[[str], bool]:
    """Return a function that says whether a key for these names and patterns opens an experiment, by its name."""
    if experiments is None:
        return lambda name: True
    pattern = "|".join(".*".join(map(re.escape, each.split("*"))) for each in experiments)
    matches = re.compile(pattern, re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def is_full_admin(key: ApiKey, now: int) -> bool:
    """Return whether a key allows everything, everywhere, now."""
    return (
        key.role == "admin"
        and key.revoked is None
        and key.experiments is None
        and (key.expires is None or key.expires > now)
    )


def ensure_admin(ledger: Ledger, secret: str | None) -> str | None:
    """See to it that somebody can get in: with the key given, or, where there is no admin key at all, with a new one.

    A key given takes the place of the one that was given before it, which is revoked: all in one transaction, so that
    servers that start at the same moment do the same once. The new key, to be shown once; None where none was made.
    """
    if secret is not None:
        _, given = new_key(VARIABLE, "admin", secret)
        ledger.change_keys(lambda keys: _put_in_place(given, keys))
        return None
    shown, first = new_key("first", "admin")
    made = ledger.change_keys(
        lambda keys: KeyChange() if any(is_full_admin(key, first.created) for key in keys) else KeyChange(first)
    )
    return shown if made.add else None


def _put_in_place(given: ApiKey, keys: Sequence[ApiKey]) -> KeyChange:
    known = next((key for key in keys if key.id == given.id), None)
    if known is not None and not is_full_admin(known, given.created):
        raise ValueError(f"the key in {VARIABLE}, {known.id}, {_fault(known)}; an admin key is needed")
    old = [key.id for key in keys if key.name == VARIABLE and key.revoked is None and key.id != given.id]
    return KeyChange(None if known else given, old)


def _fault(key: ApiKey) -> str:
    """Return why a key cannot be that of the administrator."""
    if key.revoked is not None:
        return "was revoked"
    if key.role != "admin":
        return f"may only {key.role}"
    if key.experiments is not None:
        return "opens some experiments only"
    return f"expired at {when(key.expires or 0)}"
