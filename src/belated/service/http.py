"""HTTP, as little as there must be: one application for each path, which checks the key, reads the body, answers.

Handlers get a `Request` and give a `Response`; whatever goes wrong is an `ApiError`, which has the one form of error.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Message, Receive, Scope, Send

from belated.api.types import shown
from belated.ledger.base import LedgerUnavailable, Uncertain
from belated.service.auth import NOBODY, Caller
from belated.service.errors import ApiError, invalid

if TYPE_CHECKING:
    from belated.service.service import Service

logger = logging.getLogger("belated.service")

JSON = b"application/json"
encode = msgspec.json.Encoder().encode


class Response(msgspec.Struct):
    """An answer: bytes, or a stream of them."""

    body: bytes | AsyncGenerator[bytes, None]
    status: int = 200
    kind: bytes = JSON
    headers: dict[bytes, bytes] = {}


class Request:
    """A request, as a handler sees it."""

    __slots__ = ("body", "key", "name", "query", "receive", "service")

    def __init__(
        self, service: "Service", name: str, query: dict[str, str], body: Any, receive: Receive, key: Caller = NOBODY
    ) -> None:
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
    """The words allowed; none: a whole number of at least 0."""
    default: str = "0"


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


class PathApp:
    """The ASGI application of one path."""

    def __init__(self, operations: list[Operation], service: Callable[[], "Service"]) -> None:
        self._operations = {operation.method: operation for operation in operations}
        self._decoders = {
            operation.method: msgspec.json.Decoder(operation.body) for operation in operations if operation.body
        }
        self._service = service
        self._allowed = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            operation = self._operations.get(scope["method"])
            if operation is None:
                message = f"{scope['method']} is not possible here; {self._allowed} is"
                raise ApiError("wrong_method", message, allow=self._allowed)
            service = self._service()
            length = authorization = None
            for name, value in scope["headers"]:
                if name == b"authorization":
                    authorization = value
                elif name == b"content-length":
                    length = value
            key = NOBODY
            if operation.role is not None:
                key = await service.auth.check(authorization, operation.role, scope["path_params"].get("name"))
            body = None
            if operation.body is not None:
                raw = await _body(receive, length, service.limits.body)
                body = _decoded(self._decoders[operation.method], operation, raw)
            query = _query(operation, scope["query_string"]) if operation.query else {}
            request = Request(service, scope["path_params"].get("name", ""), query, body, receive, key)
            response = await operation.handler(request)
        except ApiError as refusal:
            response = refused(refusal)
        except Uncertain as error:
            response = refused(ApiError("uncertain", str(error)))
        except LedgerUnavailable as error:
            response = refused(ApiError("ledger_unavailable", str(error)))
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            response = refused(ApiError("internal", "this should not have happened; the service's log has more"))
        await send_response(response, send, f"{scope['method']} {scope['path']}")


async def send_response(response: Response, send: Send, request: str = "") -> None:
    """Send a response; `request` is what the log calls it."""
    if isinstance(response.body, bytes):
        await send(_start(response, len(response.body)))
        await send({"type": "http.response.body", "body": response.body})
        return
    await send(_start(response, None))
    try:
        async with aclosing(response.body) as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
    except LedgerUnavailable as error:
        logger.error("the response to %s was cut short: %s", request, error)
        raise  # the connection is closed without an end: the reader sees that something is missing
    await send({"type": "http.response.body", "body": b""})


def _start(response: Response, length: int | None) -> Message:
    headers = [(b"content-type", response.kind), *response.headers.items()]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": response.status, "headers": headers}


def refused(refusal: ApiError) -> Response:
    return Response(encode(refusal.problem), refusal.status, headers=refusal.headers)


async def _body(receive: Receive, length: bytes | None, most: int) -> bytes:
    if length is not None and (not length.isdigit() or int(length) > most):
        raise _too_large(most)
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return body


def _too_large(most: int) -> ApiError:
    return ApiError("too_large", f"the body has more than {most:,} bytes", connection="close")


def _decoded(decoder: Any, operation: Operation, raw: bytes) -> Any:
    if not raw and not operation.body_required:
        raw = b"{}"
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise invalid(raw, error, operation.body) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("bad_json", f"the body is not JSON: {error}") from None


def _query(operation: Operation, raw: bytes) -> dict[str, str]:
    given: dict[str, str] = {}
    known = {query.name: query for query in operation.query}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        query = known.get(name)
        if query is None:
            raise ApiError("invalid", f"unknown parameter {shown(name)}; {', '.join(known)} is known", name)
        if query.choices and value not in query.choices:
            raise ApiError("invalid", f"{name} is {shown(value)}; {' or '.join(query.choices)} is needed", name)
        if not query.choices and not (value.isascii() and value.isdigit() and len(value) < 16):
            raise ApiError("invalid", f"{name} is {shown(value)}; a whole number of at least 0 is needed", name)
        given[name] = value
    return {query.name: given.get(query.name, query.default) for query in operation.query}
