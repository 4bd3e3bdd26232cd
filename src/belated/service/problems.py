"""Errors as the service answers them: a status, and one small JSON form."""

import re
from typing import Any

import msgspec

from belated.wire import Problem, shown

STATUS = {
    "bad_json": 400,
    "no_key": 401,
    "wrong_key": 401,
    "wrong_role": 403,
    "not_found": 404,
    "unknown_experiment": 404,
    "unknown_decision": 404,
    "wrong_method": 405,
    "exists": 409,
    "conflict": 409,
    "paused": 409,
    "archived": 409,
    "too_large": 413,
    "invalid": 422,
    "too_many": 422,
    "internal": 500,
    "no_parquet": 501,
    "busy": 503,
    "ledger_unavailable": 503,
    "uncertain": 503,
    "stopping": 503,
}
"""Every code there is."""
RETRY_SECONDS = 1


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: str, message: str, field: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status = STATUS[code]
        self.problem = Problem(code, message, field)
        self.headers = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        if self.status == 503:
            self.headers[b"retry-after"] = str(RETRY_SECONDS).encode()
        if self.status == 401:
            self.headers[b"www-authenticate"] = b"Bearer"


_PATH = re.compile(r" - at `(key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\[(?P<index>\d+|\.\.\.)\]|\.?(?P<name>[^.\[\]]+)")


def invalid(body: bytes, error: msgspec.ValidationError) -> Refusal:
    """What a body that does not fit its type is answered: where, what stands there, what is needed."""
    text = str(error)
    found = _PATH.search(text)
    path = found["path"] if found else ""
    wanted = text[: found.start()] if found else text
    field = path.lstrip(".")
    value = _value_at(body, path)
    said = wanted[0].lower() + wanted[1:]
    if (
        value is _ABSENT
        or "missing required" in wanted
        or "unknown field" in wanted
        or not wanted.startswith("Expected")
    ):
        message = f"{field}: {said}" if field else said
    else:
        message = f"{field or 'the body'} is {shown(value)}; {said}"
    if not field:
        named = re.search(r"field `(\w+)`", wanted)
        field = named[1] if named else ""
    return Refusal("invalid", message, field or None)


_ABSENT = object()


def _value_at(body: bytes, path: str) -> Any:
    value = msgspec.json.decode(body)
    for step in _STEP.finditer(path):
        try:
            if step["index"] == "...":
                return _ABSENT
            value = value[int(step["index"])] if step["index"] is not None else value[step["name"]]
        except (LookupError, TypeError):
            return _ABSENT
    return value
