"""Errors as the service answers them: a status, and one small JSON form."""

import re
from typing import Any, get_args

import msgspec

from belated.wire import Deadline, Problem, shown

CODES = {
    "bad_json": (400, "the body is not JSON"),
    "no_key": (401, "a key is needed"),
    "wrong_key": (401, "the key is not known, or was revoked"),
    "wrong_role": (403, "the key may not do this"),
    "not_found": (404, "there is no such path"),
    "unknown_experiment": (404, "there is no experiment of this name"),
    "unknown_decision": (404, "there is no decision under this id"),
    "wrong_method": (405, "the path does not know this method"),
    "exists": (409, "there is an experiment of this name with other settings"),
    "conflict": (409, "another loss was reported for this decision; the first one stays"),
    "paused": (409, "the experiment decides nothing new until it is resumed"),
    "archived": (409, "the experiment decides nothing new, for good"),
    "too_large": (413, "the body is too long"),
    "invalid": (422, "something in the request is not of the form needed; the field says where"),
    "too_many": (422, "there are as many experiments as the service allows"),
    "internal": (500, "a fault of the service; its log has more"),
    "no_parquet": (501, "Parquet is not installed with this service"),
    "busy": (503, "too much is waiting; ask again after Retry-After seconds"),
    "ledger_unavailable": (503, "the ledger cannot be written; nothing was recorded; ask again later"),
    "uncertain": (503, "the ledger was lost during a commit; ask again with the same id to know"),
    "stopping": (503, "the worker is stopping; ask again"),
}
"""Every code there is: its status, and what it means."""
STATUS = {code: status for code, (status, _) in CODES.items()}
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


_PATH = re.compile(r" - at `(key in )?\$(?P<path>.*)`$", re.DOTALL)
_STEP = re.compile(r"\[(?P<index>\d+|\.\.\.)\]|\.?(?P<name>[^.\[\]]+)")
_ABSENT = object()
_LONGEST = 500
_ALLOWED = {"missing": '"wait", or an object with deadline (seconds) and loss,'}
_ID = "1 to 128 visible ASCII characters without spaces"
_TEXTS = {
    "id": _ID,
    "decision": _ID,
    "name": "1 to 100 letters, digits, dots, dashes, underscores, a letter or digit first,",
}
"""What is said better than by a type."""


def invalid(body: bytes, error: msgspec.ValidationError, kind: Any = None) -> Refusal:
    """What a body that does not fit its type is answered: where, what stands there, what is needed."""
    text = str(error)
    found = _PATH.search(text)
    path = found["path"] if found else ""
    wanted = text[: found.start()] if found else text
    field = path.lstrip(".")
    said = wanted[0].lower() + wanted[1:]
    unknown = re.search(r"unknown field `(.*)`", wanted, re.DOTALL)
    value = _value_at(body, path)
    if unknown:
        allowed = Deadline.__struct_fields__ if field.endswith("missing") else _fields(kind)
        message = f"unknown field {shown(unknown[1])}; allowed is {', '.join(allowed)}"
        field = f"{field}.{unknown[1]}" if field else unknown[1]
    elif field in _ALLOWED and value is not _ABSENT:
        message = f"{field} is {shown(value)}; {_ALLOWED[field]} is needed"
    elif isinstance(value, str) and (last := re.split(r"[.\]]", field)[-1]) in _TEXTS:
        message = f"{field} is {shown(value)}; {_TEXTS[last]} are needed"
    elif value is not _ABSENT and wanted.startswith("Expected"):
        message = f"{field or 'the body'} is {shown(value)}; {said}"
    else:
        message = f"{field}: {said}" if field else said
    if not field:
        named = re.search(r"field `(\w+)`", wanted)
        field = named[1] if named else ""
    return Refusal("invalid", message[:_LONGEST], field[:_LONGEST] or None)


def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of the one object that a body is, or is a list of."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return part.__struct_fields__
    return ()


def _value_at(body: bytes, path: str) -> Any:
    try:
        value = msgspec.json.decode(body)
        for step in _STEP.finditer(path):
            if step["index"] == "...":
                return _ABSENT
            value = value[int(step["index"])] if step["index"] is not None else value[step["name"]]
    except (LookupError, TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _ABSENT
    return value
