"""The log: lines for people or JSON for programs, each with the id of the request that it was written for."""

import json
import logging
import re
import secrets
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import count
from typing import Any

FORMATS = ("text", "json")
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is being handled; empty outside of requests."""
access_logger = logging.getLogger("belated.access")
_GIVEN_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}").fullmatch
_MOST_PATH = 500


def id_maker() -> Callable[[], str]:
    """Return a function that makes ids of requests, each time another: a random beginning and a number."""
    beginning, numbers = secrets.token_hex(6), count(1)
    return lambda: f"{beginning}-{next(numbers):x}"


def given_id(header: bytes) -> str | None:
    """Return the id that a request brought along; None where it is not of a form that can be logged as it is."""
    return header.decode("ascii") if _GIVEN_ID(header) else None


def set_up(format: str) -> None:
    """Have everything from INFO up written to standard error."""
    handler = logging.StreamHandler()
    handler.addFilter(_stamp)
    handler.setFormatter(_Json() if format == "json" else _Text())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def log_access(method: str, path: bytes, status: int, seconds: float, client: Any) -> None:
    """Write the line of a request that was answered."""
    who = client[0] if client else "-"
    target = ascii(path.decode("latin-1"))[1:-1][:_MOST_PATH]
    milliseconds = round(seconds * 1000, 3)
    access_logger.info(
        '%s "%s %s" %d %g ms',
        *(who, method, target, status, milliseconds),
        extra={
            "fields": {"client": who, "method": method, "path": target, "status": status, "milliseconds": milliseconds}
        },
    )


def _stamp(record: logging.LogRecord) -> bool:
    record.request_id = REQUEST_ID.get()
    return True


class _Text(logging.Formatter):
    """`2026-01-01 00:00:00,000 INFO belated.service: what happened [request ID]`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        id = getattr(record, "request_id", "")
        return f"{line} [request {id}]" if id else line


class _Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if id := getattr(record, "request_id", ""):
            said["request_id"] = id
        said |= getattr(record, "fields", {})
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)
