"""The ASGI application: the operations of `routes` at their paths, and a service behind them while it runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from belated import __version__
from belated.ledger.contract import Ledger
from belated.service.board import Row, new_board
from belated.service.http import JSON, PathApp, encode, refused
from belated.service.limits import Limits
from belated.service.openapi import document
from belated.service.page import page
from belated.service.problems import Refusal
from belated.service.routes import OPERATIONS
from belated.service.service import Service


def application(
    open_it: Callable[[], Ledger], limits: Limits | None = None, rows: list[Row] | None = None, worker: int = 0
) -> Starlette:
    """The application of one worker, which opens its ledger when it starts."""
    running: list[Service] = []
    described = document(OPERATIONS, __version__)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        counts = rows or [Row(new_board(1), 0)]
        service = Service(open_it(), limits or Limits(), counts[worker], counts)
        service.document, service.page = encode(described), page(described).encode()
        await service.start()
        running.append(service)
        try:
            yield
        finally:
            await service.stop()
            running.clear()

    paths: dict[str, list[int]] = {}
    for k, operation in enumerate(OPERATIONS):
        paths.setdefault(operation.path, []).append(k)
    routes = [
        Route(path, PathApp([OPERATIONS[k] for k in places], lambda: running[0])) for path, places in paths.items()
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _not_found})
    app.router.redirect_slashes = False
    app.state.running = running
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    """What no path matches."""
    reply = refused(Refusal("not_found", f"there is nothing at {request.url.path}; /docs shows what there is"))
    assert isinstance(reply.body, bytes)
    return Response(reply.body, reply.status, media_type=JSON.decode())
