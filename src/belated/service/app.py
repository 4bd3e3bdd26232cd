"""The ASGI application: the operations of `routes` at their paths, and a service behind them while it runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from belated import __version__
from belated.ledger.base import Ledger
from belated.service.counters import WorkerCounters, new_counters
from belated.service.docs import docs_page
from belated.service.errors import ApiError
from belated.service.http import PathApp, encode, refused, send_response
from belated.service.limits import Limits
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from belated.service.service import Service
from belated.service.stopping import Stopping


def application(
    open_it: Callable[[], Ledger],
    limits: Limits | None = None,
    all_counters: list[WorkerCounters] | None = None,
    worker: int = 0,
    stopping: Stopping | None = None,
) -> Router:
    """Return the application of one worker, which opens its ledger when it starts.

    A router and nothing around it: each path answers its errors itself.
    """
    running: list[Service] = []
    described = document(OPERATIONS, __version__)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        counts = all_counters or [WorkerCounters(new_counters(1), 0)]
        service = Service(await asyncio.to_thread(open_it), limits or Limits(), counts[worker], counts, stopping)
        service.document, service.page = encode(described), docs_page(described).encode()
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
    busiest = sorted(paths, key=lambda path: not path.endswith(("/decisions", "/outcomes")))  # tried in this order
    routes = [Route(path, PathApp([OPERATIONS[k] for k in paths[path]], lambda: running[0])) for path in busiest]
    return Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what no path matches."""
    if scope["type"] == "http":
        message = f"there is nothing at {scope['path']}; /docs shows what there is"
        await send_response(refused(ApiError("not_found", message)), send)
