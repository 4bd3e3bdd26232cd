"""Who looks at the pages: a key in a cookie that no script can read and no other site can send.

The cookie holds the key itself, so that a worker needs to remember nobody: a key that is revoked or has expired is
refused at the next request. Forms carry a token made from the key, which only pages of this service can show.
"""

import hmac
from hashlib import sha256
from urllib.parse import parse_qsl

from belated.service.errors import ApiError

COOKIE = "belated_key"
_SECONDS = 30 * 86400
_MOST_FIELDS = 40_000


def key_of(cookies: bytes) -> str | None:
    """Return the key in a Cookie header."""
    for part in cookies.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None


def cookie(key: str, secure: bool) -> bytes:
    """Return the header that gives a browser its key, or takes it away if that is empty."""
    age = _SECONDS if key else 0
    parts = [f"{COOKIE}={key}", "Path=/", f"Max-Age={age}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if secure else [])]).encode()


def token_of(key: str) -> str:
    """Return what forms of this key must carry."""
    return hmac.new(key.encode(), b"belated form", sha256).hexdigest()


def form_of(body: bytes) -> dict[str, list[str]]:
    """Return the fields of a form, each with its values in order."""
    fields: dict[str, list[str]] = {}
    try:
        found = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise ApiError("bad_request", f"the form has more than {_MOST_FIELDS:,} fields") from None
    for name, value in found:
        fields.setdefault(name, []).append(value)
    return fields


def check_token(key: str, fields: dict[str, list[str]]) -> None:
    """Refuse a form that did not come from a page of this service."""
    given = (fields.get("token") or [""])[0]
    if not hmac.compare_digest(token_of(key).encode(), given.encode()):
        raise ApiError("bad_request", "this form is too old, or was not made by this service; open the page again")
