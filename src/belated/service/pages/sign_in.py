"""Signing in with a key, and out."""

from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages import session
from belated.service.pages.visit import Visit, page, redirect


async def show(visit: Visit) -> Response:
    return page("sign_in.html", visit, problem="", to=_safe(visit.query.get("to", "")))


async def sign_in(visit: Visit) -> Response:
    """Give the browser its key, if that may see anything."""
    key = visit.typed("key")
    try:
        await visit.service.auth.check(b"Bearer " + key.encode(), "read")
    except ApiError as error:
        return page("sign_in.html", visit, 403, problem=error.problem.message, to=_safe(visit.given("to")))
    return redirect(_safe(visit.given("to")), session.cookie(key, visit.is_secure))


def _safe(to: str) -> str:
    """Return where to go after signing in: a page of this service, the list by default."""
    is_ours = to.startswith(("/experiments/", "/simulate", "/new")) and to.isascii() and to.isprintable()
    return to if is_ours else "/"


async def sign_out(visit: Visit) -> Response:
    """Take the key away from the browser."""
    return redirect("/sign-in", session.cookie("", visit.is_secure))
