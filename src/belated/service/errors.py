"""Errors as the service answers them: a status, and one small JSON form."""

from typing import Any

import msgspec

from belated.api.types import Problem
from belated.service.validation import Fault, find_fault

CODES = {
    "bad_request": (400, "the request is not one that HTTP or this service allows"),
    "bad_json": (400, "the body is not JSON"),
    "no_key": (401, "a key is needed"),
    "wrong_key": (401, "the key is unknown or was revoked"),
    "expired_key": (401, "the key has expired"),
    "wrong_role": (403, "the role of the key does not allow this operation"),
    "wrong_scope": (403, "the key is for other experiments"),
    "not_found": (404, "there is no such path"),
    "unknown_experiment": (404, "no experiment has this name"),
    "unknown_decision": (404, "no decision has this id"),
    "unknown_arm": (404, "no arm has this label"),
    "wrong_method": (405, "the path does not support this method"),
    "slow_request": (408, "the request did not arrive as a whole in time"),
    "exists": (409, "an experiment with this name and other settings exists"),
    "retired": (409, "the arm was retired before; restore it instead"),
    "conflict": (409, "another loss was reported for this decision before; the first one counts"),
    "paused": (409, "the experiment is paused and makes no new decisions until it is resumed"),
    "archived": (409, "the experiment is archived and makes no new decisions"),
    "too_large": (413, "the body is too long"),
    "invalid": (422, "a value in the request is not allowed; the field says which"),
    "too_many": (422, "the service has as many experiments as its limit allows"),
    "too_fast": (429, "the key makes more requests than its rate allows; retry after the seconds in Retry-After"),
    "headers_too_large": (431, "the first line and the headers of the request are too long"),
    "damaged": (500, "the records of this experiment cannot be replayed; `belated ledger verify` says why"),
    "internal": (500, "the service failed; its log has the details"),
    "no_parquet": (501, "Parquet is not installed with this service"),
    "busy": (503, "too many requests are waiting; retry after the seconds in Retry-After"),
    "ledger_unavailable": (503, "the ledger cannot be written; nothing was recorded; retry later"),
    "uncertain": (
        503,
        "the connection to the ledger was lost during a commit; retry with the same id to learn the result",
    ),
    "stopping": (503, "the worker is stopping; retry"),
}
"""Every code there is: its status, and what it means."""
STATUS = {code: status for code, (status, _) in CODES.items()}
RETRY_SECONDS = 1
_LONGEST = 500


class ApiError(Exception):
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


def invalid(body: bytes, error: msgspec.ValidationError, kind: Any) -> ApiError:
    """Return the error for a body that does not fit its type: which field, what stands there, what is needed."""
    fault = find_fault(body, kind) or Fault(str(error), "")
    return ApiError("invalid", fault.message[:_LONGEST], fault.field[:_LONGEST] or None)
