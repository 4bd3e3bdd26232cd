"""The ASGI application: the operations of `routes` at their paths, and a service behind them while it runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from belated import __version__
from belated.ledger.base import Ledger, LedgerError, LedgerUnavailable, Uncertain
from belated.service.counters import NO_ROUTE, WorkerCounters, new_counters
from belated.service.docs import docs_page
from belated.service.errors import ApiError
from belated.service.http import Asked, Endpoint, Gone, Response, encode, refused, send_response
from belated.service.limits import Limits
from belated.service.log import REQUEST_ID, given_id, id_maker, log_access
from belated.service.openapi import document
from belated.service.pages import Pages, is_page
from belated.service.routes import ONE, OPERATIONS
from belated.service.service import Service
from belated.service.stopping import Stopping

if TYPE_CHECKING:
    from belated.service.exchange import Exchange

logger = logging.getLogger("belated.service")

WATCH_SECONDS = 0.5
"""How often a worker notes how long commands have been waiting."""
_BELOW = ONE.removesuffix("{name}")
_ARMS = "/arms/"
_LONGEST = 200
_ENCODED_SLASHES = (b"%2f", b"%5c")


class _Path(NamedTuple):
    """What can be done at a path, by method."""

    endpoints: dict[str, Endpoint]
    allowed: str


def application(
    open_it: Callable[[], Ledger],
    limits: Limits | None = None,
    all_counters: list[WorkerCounters] | None = None,
    worker: int = 0,
    stopping: Stopping | None = None,
    access_log: bool = False,
) -> "Application":
    """Return the application of one worker, which opens its ledger when it starts."""
    described = document(OPERATIONS, __version__)
    counts = all_counters or [WorkerCounters(new_counters(1), 0)]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        counts[worker].begin()
        service = Service(await asyncio.to_thread(open_it), limits or Limits(), counts[worker], counts, stopping)
        service.document, service.page = encode(described), docs_page(described).encode()
        service.routes = [(operation.method, operation.path) for operation in OPERATIONS]
        await service.start()
        watching = asyncio.create_task(_watch(service))
        served.service, served.pages = service, Pages(service)
        try:
            yield
        finally:
            watching.cancel()
            await service.stop()

    served = Application(lifespan, access_log)
    return served


class Application(Router):
    """Finds the operation of a request, and answers. Starlette's router is used for the start and the end alone."""

    service: Service
    pages: Pages

    def __init__(self, lifespan: Any, access_log: bool) -> None:
        super().__init__(lifespan=lifespan)
        self.logs_access = access_log
        self._new_id = id_maker()
        paths: dict[str, dict[str, Endpoint]] = {}
        for k, operation in enumerate(OPERATIONS):
            endpoint = Endpoint(operation, NO_ROUTE + 1 + k)
            paths.setdefault(operation.path, {})[operation.method] = endpoint
            if operation.method == "GET":
                paths[operation.path]["HEAD"] = endpoint
        self._paths: dict[str, _Path] = {}
        """Paths without a name in them."""
        self._below: dict[str, _Path] = {}
        """Paths of an experiment, by what follows its name."""
        for path, endpoints in paths.items():
            found = _Path(endpoints, ", ".join(sorted(endpoints)))
            if path.startswith(ONE):
                self._below[path.removeprefix(ONE)] = found
            else:
                self._paths[path] = found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        begun = perf_counter()
        service, method, route = self.service, scope["method"], NO_ROUTE
        authorization = length = request_id = None
        twice = False
        for name, value in scope["headers"]:
            if name == b"authorization":
                twice = authorization is not None
                authorization = value
            elif name == b"content-length":
                length = value
            elif name == b"x-request-id":
                request_id = given_id(value)
        if request_id is None:
            request_id = self._new_id()
        REQUEST_ID.set(request_id)
        try:
            if twice:
                raise ApiError("bad_request", "there is more than one Authorization header; one is needed")
            if is_page(scope["path"]):
                response = await self.pages.answer(scope, receive)
            else:
                name, arm, endpoint = self._find(scope, method)
                route = endpoint.number
                response = await endpoint.answer(service, name, scope, receive, authorization, length, arm)
        except Gone:
            return
        except Exception as error:
            response = _refusal(error, scope)
        seconds = perf_counter() - begun
        service.counters.answered(route, response.status, seconds)
        if self.logs_access:
            log_access(method, scope.get("raw_path", b""), response.status, seconds, scope.get("client"))
        try:
            await send_response(response, send, request_id.encode(), method == "HEAD")
        except LedgerUnavailable as error:  # the answer stays without an end: the reader sees that something is missing
            logger.error("the response to %s %s was cut short: %s", method, scope["path"], error)
        except ConnectionError:
            return  # whoever asked has gone

    def begin(self, exchange: "Exchange") -> bool:
        """Begin to answer an ordinary request for decisions or report of outcomes, which has come as a whole, without a
        task of its own; return False, nothing done, where the request is not so ordinary.
        """
        scope = exchange.scope
        if scope["method"] != "POST":
            return False
        path: str = scope["path"]
        name, slash, rest = path[len(_BELOW) :].partition("/")
        found = self._below.get(slash + rest) if path.startswith(_BELOW) and name else None
        endpoint = found.endpoints.get("POST") if found else None
        if endpoint is None or b"%" in scope["raw_path"] or scope["query_string"]:
            return False
        authorization = request_id = None
        for header, value in scope["headers"]:
            if header == b"authorization":
                if authorization is not None:
                    return False
                authorization = value
            elif header == b"x-request-id":
                request_id = given_id(value)
        asked = endpoint.asked(self.service, name, authorization, bytes(exchange.body))
        if asked is None:
            return False
        reply = Reply(self, exchange, endpoint.number, asked, request_id or self._new_id())
        try:
            self.service.committer.submit(asked.command, asked.size, asked.finish, reply)
        except ApiError as error:
            asyncio.get_running_loop().call_soon(reply.set_exception, error)  # not while the request is being parsed
        return True

    def _find(self, scope: Scope, method: str) -> tuple[str, str, Endpoint]:
        """Return the experiment and the arm that a path names, if any, and what is to be done."""
        path: str = scope["path"]
        raw = (scope.get("raw_path") or b"").lower()
        if b"%" in raw and any(slash in raw.partition(_ARMS.encode())[0] for slash in _ENCODED_SLASHES):
            raise ApiError("bad_request", "the path has an encoded slash, which only labels of arms may have")
        name = arm = ""
        if path.startswith(_BELOW):
            name, slash, rest = path[len(_BELOW) :].partition("/")
            rest = slash + rest
            if rest.startswith(_ARMS):
                arm, slash, word = rest.removeprefix(_ARMS).rpartition("/")
                rest = f"{_ARMS}{{arm}}{slash}{word}" if arm else rest
            found = self._below.get(rest) if name else None
        else:
            found = self._paths.get(path)
        if found is None:
            raise ApiError("not_found", f"there is nothing at {path[:_LONGEST]}; /docs shows what there is")
        endpoint = found.endpoints.get(method)
        if endpoint is None:
            message = f"{method} is not possible here; {found.allowed} is"
            raise ApiError("wrong_method", message, allow=found.allowed)
        return name, arm, endpoint


class Reply:
    """Whoever waits for the answer to an ordinary request: a future, as far as the committer knows."""

    __slots__ = ("_app", "_asked", "_begun", "_exchange", "_id", "_route")

    def __init__(self, app: Application, exchange: "Exchange", route: int, asked: Asked, request_id: str) -> None:
        self._app = app
        self._exchange = exchange
        self._route = route
        self._asked = asked
        self._id = request_id
        self._begun = perf_counter()

    def done(self) -> bool:
        """Return whether nobody waits any more."""
        return self._exchange.is_gone

    def set_result(self, result: Any) -> None:
        try:
            response = self._asked.respond(self._app.service, result)
        except Exception as error:
            response = _refusal(error, self._exchange.scope)
        self._send(response)

    def set_exception(self, error: Exception) -> None:
        REQUEST_ID.set(self._id)
        self._send(_refusal(error, self._exchange.scope))

    def _send(self, response: Response) -> None:
        seconds = perf_counter() - self._begun
        scope = self._exchange.scope
        self._app.service.counters.answered(self._route, response.status, seconds)
        if self._app.logs_access:
            REQUEST_ID.set(self._id)
            log_access("POST", scope["raw_path"], response.status, seconds, scope.get("client"))
        headers = [(b"content-type", response.kind), (b"x-request-id", self._id.encode()), *response.headers.items()]
        assert isinstance(response.body, bytes)
        self._exchange.write(response.status, headers, response.body)


def _refusal(error: Exception, scope: Scope) -> Response:
    """Return the answer for a request that went wrong."""
    if isinstance(error, ApiError):
        return refused(error)
    if isinstance(error, Uncertain):
        return refused(ApiError("uncertain", str(error)))
    if isinstance(error, LedgerUnavailable):
        return refused(ApiError("ledger_unavailable", str(error)))
    if isinstance(error, LedgerError):
        return refused(ApiError("damaged", f"{error}; `belated ledger verify` says more"))
    logger.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
    return refused(ApiError("internal", "this should not have happened; the service's log has more"))


async def _watch(service: Service) -> None:
    """Note since when commands have been waiting, where other workers can see it."""
    while True:
        age = service.committer.oldest_age
        service.counters.set("waiting_since", monotonic() - age if age else 0.0)
        await asyncio.sleep(WATCH_SECONDS)
