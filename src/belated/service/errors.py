"""Errors as the service answers them: a status, and one small JSON form."""

from typing import Any

import msgspec

from belated.api.types import Problem
from belated.service.validation import Fault, find_fault

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
