"""Which page a request asks for, who may see it, and what is shown where something goes wrong."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.types import Receive, Scope

from belated.ledger.base import LedgerError, LedgerUnavailable
from belated.ledger.events import Status
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages import (
    actions,
    decisions,
    erasing,
    experiment,
    feed,
    overview,
    session,
    sign_in,
    simulate,
    static_files,
)
from belated.service.pages.feed import Feed
from belated.service.pages.visit import Visit, address, check_admin, page, redirect

if TYPE_CHECKING:
    from belated.service.service import Service

T = TypeVar("T")

MOST_IDLE = 64
"""Feeds that are kept though nobody watches, with the estimates that they have."""
SIMULATIONS = 1
"""At once; others wait their turn."""
EXPERIMENT = "/experiments/"


class Route(NamedTuple):
    """What answers at a path."""

    show: Callable[[Visit], Awaitable[Response]]
    needs_admin: bool = False
    is_open: bool = False
    """Whether it is there for those who have not signed in."""


PAGES = {
    ("GET", "/"): Route(overview.show),
    ("GET", "/experiments"): Route(overview.show),
    ("GET", "/sign-in"): Route(sign_in.show, is_open=True),
    ("POST", "/sign-in"): Route(sign_in.sign_in, is_open=True),
    ("POST", "/sign-out"): Route(sign_in.sign_out),
    ("GET", "/new"): Route(actions.show_new, needs_admin=True),
    ("POST", "/new"): Route(actions.create, needs_admin=True),
    ("GET", "/simulate"): Route(simulate.show),
    ("GET", "/simulate/run"): Route(simulate.run),
}
"""By method and path."""
BELOW = {
    ("GET", EXPERIMENT, ""): Route(experiment.show),
    ("GET", EXPERIMENT, "live"): Route(feed.follow),
    ("GET", EXPERIMENT, "decisions"): Route(decisions.show),
    ("GET", EXPERIMENT, "export"): Route(experiment.export),
    ("GET", EXPERIMENT, "erase"): Route(erasing.ask, needs_admin=True),
    ("POST", EXPERIMENT, "erase"): Route(erasing.erase, needs_admin=True),
    **{("POST", EXPERIMENT, word): Route(actions.change, needs_admin=True) for word in actions.WORDS},
}
"""By method, what comes before the name of an experiment, and what comes after it."""
_PATHS = {path for _, path in PAGES}
_FIRST = tuple({first for _, first, _ in BELOW} | {static_files.FIRST})


def is_page(path: str) -> bool:
    """Return whether a path belongs to the pages."""
    return path in _PATHS or path.startswith(_FIRST)


class Pages:
    """The pages of one worker, and what they share."""

    def __init__(self, service: "Service") -> None:
        self.service = service
        self.attention: dict[str, tuple[int, Status, float]] = {}
        """From when on experiments need attention, with so many events, in this status; in seconds since 1970."""
        self.simulating = asyncio.Semaphore(SIMULATIONS)
        self._feeds: OrderedDict[tuple[str, str], Feed] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        """Return the page that a request asks for; what goes wrong is a page, too."""
        path = scope["path"]
        if path.startswith(static_files.FIRST):
            return static_files.answer(path)
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        visit = Visit(self, scope, receive, query, dict(scope["headers"]))
        try:
            await _let_in(visit, session.key_of(visit.headers.get(b"cookie", b"")) or "")
            return await _route(visit, path)
        except ApiError as error:
            return _problem(visit, error)
        except LedgerUnavailable as error:
            return _problem(visit, ApiError("ledger_unavailable", str(error)))
        except LedgerError as error:
            return _problem(visit, ApiError("damaged", str(error)))

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Have something done, whether or not the page that asked for it is still there."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever failed has logged why

    def feed(self, name: str, outcomes: str = "settled") -> Feed:
        """Return what the pages of an experiment are told that count these outcomes.

        Of experiments that nobody watches, a few are kept.
        """
        key = name, outcomes
        feed = self._feeds.setdefault(key, Feed(self.service, name, outcomes))
        self._feeds.move_to_end(key)
        for other in [each for each in self._feeds if self._feeds[each].is_idle][:-MOST_IDLE]:
            del self._feeds[other]
        return feed


async def _let_in(visit: Visit, key: str) -> None:
    """Find out who has signed in. A key that is not known any more is nobody's."""
    if key:
        try:
            visit.caller = await visit.service.auth.check(b"Bearer " + key.encode("latin-1"), "read")
        except ApiError as error:
            if error.status != 401:
                raise
        else:
            visit.key = key


async def _route(visit: Visit, path: str) -> Response:
    method = "GET" if visit.scope["method"] == "HEAD" else visit.scope["method"]
    route = PAGES.get((method, path))
    first = next((each for each in _FIRST if path.startswith(each)), None)
    if route is None and first is not None:
        visit.name, _, rest = path.removeprefix(first).partition("/")
        route = BELOW.get((method, first, rest))
    if not (visit.key or (route and route.is_open)):
        return _to_sign_in(visit)
    if route is None:
        raise ApiError("not_found", f"there is no page {path[:200]}")
    if first == EXPERIMENT:
        visit.caller.check_scope(visit.name)
    if method == "POST":
        await visit.read_form()
        if not route.is_open:
            session.check_token(visit.key, visit.fields)
    if route.needs_admin:
        check_admin(visit)
    return await route.show(visit)


def _to_sign_in(visit: Visit) -> Response:
    """Send the browser to the sign-in, and back afterwards if it asked for a page."""
    path, query = visit.scope["path"], visit.scope["query_string"].decode("latin-1")
    if visit.scope["method"] != "GET" or path == "/":
        return redirect("/sign-in")
    return redirect("/sign-in?" + urlencode({"to": f"{path}?{query}" if query else path}))


TITLES = {
    403: "This key may not do that",
    404: "There is no such page",
    429: "Too many requests",
    503: "The service cannot answer now",
}
DAMAGED = "This experiment is damaged"


def _problem(visit: Visit, error: ApiError) -> Response:
    if error.status == 401:
        return _to_sign_in(visit)
    is_there = visit.name and error.problem.code not in ("unknown_experiment", "wrong_scope")
    back = address(visit.name) if is_there and visit.scope["path"].startswith(EXPERIMENT) else "/"
    title = DAMAGED if error.problem.code == "damaged" else TITLES.get(error.status, "That did not work")
    shown = page("problem.html", visit, error.status, title=title, message=error.problem.message, back=back)
    shown.headers = {**shown.headers, **error.headers}
    return shown
