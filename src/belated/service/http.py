"""HTTP, as little as there must be: each operation checks the key, reads the body, answers.

Handlers get a `Request` and give a `Response`; whatever goes wrong is an `ApiError`, which has the one form of error.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Message, Receive, Scope, Send

from belated.api.types import shown
from belated.ledger.commands import Command
from belated.service.auth import NOBODY, Caller
from belated.service.errors import ApiError, invalid

if TYPE_CHECKING:
    from belated.service.service import Service

JSON = b"application/json"
encode = msgspec.json.Encoder().encode
_MOST_DIGITS = 18
_SHARE = re.compile(r"0?\.[0-9]{1,15}", re.ASCII)


class Response(msgspec.Struct):
    """An answer: bytes, or a stream of them."""

    body: bytes | AsyncGenerator[bytes, None]
    status: int = 200
    kind: bytes = JSON
    headers: dict[bytes, bytes] = {}


class Request:
    """A request, as a handler sees it."""

    __slots__ = ("arm", "body", "key", "name", "query", "receive", "service")

    def __init__(
        self,
        service: "Service",
        name: str,
        query: dict[str, str],
        body: Any,
        receive: Receive,
        key: Caller = NOBODY,
        arm: str = "",
    ) -> None:
        self.arm = arm
        self.key = key
        self.service = service
        self.name = name
        self.query = query
        self.body = body
        self.receive = receive


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Query:
    """A parameter behind the question mark."""

    name: str
    summary: str
    choices: tuple[str, ...] = ()
    """The words allowed; none: as `kind` says."""
    default: str = "0"
    kind: Literal["whole", "share", "text"] = "whole"
    """A whole number of at least 0, a number above 0 and below 1, or any text."""

    def check(self, value: str) -> None:
        """Raise an error for a value that is not allowed."""
        needs = None
        if self.choices:
            needs = None if value in self.choices else " or ".join(self.choices)
        elif self.kind == "whole":
            is_right = value.isascii() and value.isdigit() and len(value) < 16
            needs = None if is_right else "a whole number of at least 0"
        elif self.kind == "share":
            needs = None if _SHARE.fullmatch(value) and 0.0 < float(value) < 1.0 else "a number above 0 and below 1"
        if needs:
            raise ApiError("invalid", f"{self.name} is {shown(value)}; {needs} is needed", self.name)


@dataclass(frozen=True)
class Operation:
    """What can be done at a path: the one description that serving, checking keys and the OpenAPI document share."""

    method: str
    path: str
    summary: str
    handler: Handler
    role: str | None
    """Who may: decide, read or admin; None: anybody."""
    responses: dict[int, Any]
    """Status -> type of the body, or what media it is."""
    body: Any = None
    body_required: bool = True
    refusals: tuple[str, ...] = ()
    """Codes of errors beyond those that every operation shares."""
    query: tuple[Query, ...] = ()
    asked: "Callable[[str, Any, int | None], Asked] | None" = None
    """What is asked for, where that is a command and nothing else: by the experiment, the body and the key's number."""


class Gone(Exception):
    """The client went away before all of its request had come. There is nothing to do, and nobody to answer."""


class Asked(NamedTuple):
    """A command that answers a request."""

    command: Command
    size: int
    finish: Callable[[Any], Any]
    """Makes something of the answer, in the thread that carried the command out."""
    respond: "Callable[[Service, Any], Response]"
    """Makes the response of that, in the event loop."""


class Endpoint:
    """An operation, ready to be called."""

    def __init__(self, operation: Operation, number: int) -> None:
        self.number = number
        """Its row among the counters."""
        self._operation = operation
        self._role = operation.role
        self._handler = operation.handler
        self._asked = operation.asked
        self._decode = msgspec.json.Decoder(operation.body).decode if operation.body else None

    def asked(self, service: "Service", name: str, authorization: bytes | None, raw: bytes) -> Asked | None:
        """Return what an ordinary request asks for, where that is all there is to do: its key is known and allows it,
        and its body is as it should be. None where the request needs more than that: `answer` does it.
        """
        if self._asked is None or self._decode is None or self._role is None or len(raw) > service.limits.body:
            return None
        caller = service.auth.known(authorization, self._role, name)
        if caller is None:
            return None
        try:
            body = self._decode(raw or b"{}")
            if type(body) is list and len(body) > service.limits.at_once:
                return None
            return self._asked(name, body, caller.number)
        except (msgspec.MsgspecError, ValueError, RecursionError, ApiError):
            return None

    async def answer(
        self,
        service: "Service",
        name: str,
        scope: Scope,
        receive: Receive,
        authorization: bytes | None,
        length: bytes | None,
        arm: str = "",
    ) -> Response:
        """Check the key, read the body, and return what the handler makes of it."""
        operation = self._operation
        key = NOBODY
        if self._role is not None:
            key = await service.auth.check(authorization, self._role, name or None)
        body = None
        if self._decode is not None:
            limits = service.limits
            body = _decoded(self._decode, operation, await read_body(receive, length, limits.body))
            if type(body) is list and len(body) > limits.at_once:
                message = f"the body is a list of {len(body):,}; this service takes at most {limits.at_once:,} at once"
                raise ApiError("invalid", message)
        query = _query(operation, scope["query_string"]) if operation.query else {}
        return await self._handler(Request(service, name, query, body, receive, key, arm))


async def send_response(response: Response, send: Send, request_id: bytes, is_head: bool = False) -> None:
    """Send a response; to HEAD, all but its body."""
    body = response.body
    headers = [(b"content-type", response.kind), (b"x-request-id", request_id)]
    if response.headers:
        headers += response.headers.items()
    start: Message = {"type": "http.response.start", "status": response.status, "headers": headers}
    if type(body) is bytes:
        headers.append((b"content-length", b"%d" % len(body)))
        await send(start)
        await send({"type": "http.response.body", "body": b"" if is_head else body})
        return
    assert not isinstance(body, bytes)
    async with aclosing(body) as parts:
        await send(start)
        if not is_head:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def refused(refusal: ApiError) -> Response:
    return Response(encode(refusal.problem), refusal.status, headers=refusal.headers)


async def read_body(receive: Receive, length: bytes | None, most: int) -> bytes:
    """Return the body of a request; refuse one that is too long."""
    if length is not None and (not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > most):
        raise _too_large(most)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body") and len(body) <= most:
        return body
    parts = [body]
    size = len(body)
    while message["type"] == "http.request" and message.get("more_body") and size <= most:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if message["type"] != "http.request":
        raise Gone
    if size > most:
        raise _too_large(most)
    return b"".join(parts)


def _too_large(most: int) -> ApiError:
    return ApiError("too_large", f"the body has more than {most:,} bytes", connection="close")


def _decoded(decode: Callable[[bytes], Any], operation: Operation, raw: bytes) -> Any:
    if not raw and not operation.body_required:
        raw = b"{}"
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise invalid(raw, error, operation.body) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ApiError("bad_json", f"the body is not JSON: {error}") from None


def _query(operation: Operation, raw: bytes) -> dict[str, str]:
    given: dict[str, str] = {}
    known = {query.name: query for query in operation.query}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        query = known.get(name)
        if query is None:
            raise ApiError("invalid", f"unknown parameter {shown(name)}; {', '.join(known)} is known", name)
        query.check(value)
        given[name] = value
    return {query.name: given.get(query.name, query.default) for query in operation.query}
