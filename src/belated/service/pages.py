"""The service's own pages: sign-in, the list of experiments, an experiment, a form for a new one.

They show what the API shows and do what it does, by the same commands. Whoever looks has a key in a cookie
(`belated.service.session`).
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.types import Receive, Scope

from belated.api.types import Experiment
from belated.ledger.base import LedgerUnavailable
from belated.ledger.changing import AddArm, MoveArm, SetLimits
from belated.ledger.commands import Change, Command
from belated.ledger.events import Status
from belated.service import handlers, page_parts, session, static_files
from belated.service.auth import NOBODY, Caller
from belated.service.errors import ApiError
from belated.service.http import Request, Response, read_body
from belated.service.views import unwrap
from belated.templates import render

if TYPE_CHECKING:
    from belated.service.service import Service

HTML = b"text/html; charset=utf-8"
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    b" form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY,
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cache-control": b"no-store",
}
ON_A_PAGE = 50
MOST_FORM = 65_536
STATUSES = {"pause": Status.PAUSED, "resume": Status.ACTIVE, "archive": Status.ARCHIVED}
_BELOW = "/experiments/"
LIVE_SECONDS = 1.0
"""A page hears of changes at most this often."""


class Visit(NamedTuple):
    """A request for a page."""

    service: "Service"
    scope: Scope
    receive: Receive
    path: str
    query: dict[str, str]
    cookies: bytes
    length: bytes | None
    caller: Caller | None
    """None: nobody has signed in."""
    key: str

    @property
    def token(self) -> str:
        return session.token_of(self.key) if self.caller else ""

    @property
    def origin(self) -> str:
        """Where the service is, as the browser sees it."""
        host = next((value for name, value in self.scope["headers"] if name == b"host"), b"localhost:8000")
        return f"{self.scope.get('scheme', 'http')}://{host.decode('latin-1')}"

    async def form(self) -> dict[str, list[str]]:
        return session.form_of(await read_body(self.receive, self.length, MOST_FORM))


def is_page(path: str) -> bool:
    """Return whether a path belongs to the pages."""
    return path in ("/", "/sign-in", "/sign-out", "/new") or path.startswith((_BELOW, "/static/"))


async def answer(service: "Service", scope: Scope, receive: Receive) -> Response:
    """Return the page that a request asks for; what goes wrong is a page, too."""
    path = scope["path"]
    if path.startswith("/static/"):
        return static_files.answer(path.removeprefix("/static/"))
    cookies = length = None
    for name, value in scope["headers"]:
        if name == b"cookie":
            cookies = value
        elif name == b"content-length":
            length = value
    key = session.key_of(cookies or b"") or ""
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    try:
        caller = await service.auth.check(b"Bearer " + key.encode("latin-1"), "read") if key else None
    except ApiError:
        caller = None
    visit = Visit(service, scope, receive, path, query, cookies or b"", length, caller, key)
    try:
        return await _route(visit)
    except ApiError as error:
        return _problem(visit, error)


async def _route(visit: Visit) -> Response:
    path, method = visit.path, visit.scope["method"]
    if path == "/sign-in":
        return await _sign_in(visit) if method == "POST" else page("sign_in.html", visit, problem="")
    if visit.caller is None:
        return redirect("/sign-in")
    if method == "POST":
        return await _act(visit)
    if path == "/":
        return await _overview(visit)
    if path == "/new":
        _check_admin(visit)
        return page("new.html", visit, form={}, problem="", field="", choices=page_parts.learner_choices())
    name, _, rest = path.removeprefix(_BELOW).partition("/")
    visit.caller.check_scope(name)
    if rest == "live":
        return await _live(visit, name)
    if rest == "estimates":
        request = Request(
            visit.service, name, {**ESTIMATES, **_options(visit.query)}, None, visit.receive, visit.caller
        )
        return await handlers.estimates(request)
    if rest:
        raise ApiError("not_found", f"there is no page {path[:200]}")
    return await _experiment(visit, name)


ESTIMATES = {"alpha": "0.05", "control": "", "method": "betting", "outcomes": "settled"}


def _options(query: dict[str, str]) -> dict[str, str]:
    return {"control": query["control"]} if query.get("control") else {}


def page(template: str, visit: Visit, code: int = 200, /, **context: Any) -> Response:
    """Return a page."""
    may_act = visit.caller is not None and session.may_act(visit.caller)
    content = render(f"dashboard/{template}", token=visit.token, may_act=may_act, origin=visit.origin, **context)
    return Response(content.encode(), code, HTML, HEADERS)


def redirect(to: str, cookie: bytes | None = None) -> Response:
    """Return an answer that sends the browser elsewhere."""
    headers = {**HEADERS, b"location": to.encode()}
    if cookie is not None:
        headers[b"set-cookie"] = cookie
    return Response(b"", 303, HTML, headers)


def _problem(visit: Visit, error: ApiError) -> Response:
    if error.status == 401:
        return redirect("/sign-in")
    name = visit.path.removeprefix(_BELOW).partition("/")[0] if visit.path.startswith(_BELOW) else ""
    back = f"{_BELOW}{quote(name, safe='')}" if name and error.problem.code != "unknown_experiment" else "/"
    title = {404: "There is no such page", 403: "This key may not do that"}.get(error.status, "That did not work")
    return page("problem.html", visit, error.status, title=title, message=error.problem.message, back=back)


def _check_admin(visit: Visit) -> None:
    if visit.caller is None or not session.may_act(visit.caller):
        raise ApiError("wrong_role", "this key may read; changing experiments needs the role admin")


async def _sign_in(visit: Visit) -> Response:
    key = (await visit.form()).get("key", [""])[0].strip()
    secure = visit.scope.get("scheme") == "https"
    try:
        await visit.service.auth.check(b"Bearer " + key.encode("utf-8"), "read")
    except ApiError as error:
        return page("sign_in.html", visit, 403, problem=error.problem.message)
    return redirect("/", session.cookie(key, secure))


async def _overview(visit: Visit) -> Response:
    assert visit.caller is not None
    opens, wanted = visit.caller.opens, visit.query.get("q", "")
    chosen = visit.query.get("status", "all")
    outlines = await visit.service.read(lambda: list(visit.service.ledger.all_outlines()))
    found = [
        each
        for each in reversed(outlines)
        if opens(each.name) and wanted.lower() in each.name.lower() and chosen in ("all", each.status.name.lower())
    ]
    pages = max(1, -(-len(found) // ON_A_PAGE))
    number = visit.query.get("page", "1")
    at = min(int(number), pages) if number.isascii() and number.isdigit() and number != "0" and len(number) < 9 else 1
    rows = []
    for outline in found[(at - 1) * ON_A_PAGE : at * ON_A_PAGE]:
        try:
            rows.append(await _row(visit.service, outline.name))
        except ApiError as error:
            rows.append({"name": outline.name, "status": outline.status.name.lower(), "problem": error.problem.message})
    return page(
        "overview.html",
        visit,
        rows=rows,
        wanted=wanted,
        chosen=chosen,
        counted=page_parts.counted(len(found), "experiment"),
        page=at,
        pages=pages,
    )


async def _row(service: "Service", name: str) -> dict[str, Any]:
    shown, timeline = await _looked_at(service, name)
    return page_parts.row(shown, timeline, time.time())


async def _looked_at(service: "Service", name: str) -> tuple[Experiment, dict[str, Any]]:
    shown = msgspec.json.decode((await service.show(name)).content, type=Experiment)
    return shown, msgspec.json.decode(await service.timeline(name))


async def _experiment(visit: Visit, name: str) -> Response:
    shown, timeline = await _looked_at(visit.service, name)
    changes = await visit.service.read(page_parts.history, visit.service.ledger, name)
    return page(
        "experiment.html",
        visit,
        **page_parts.experiment(shown, timeline, time.time()),
        changes=changes,
        data=page_parts.data(shown, timeline),
    )


async def _live(visit: Visit, name: str) -> Response:
    """Stream what the charts of an experiment show, whenever it has changed."""
    service = visit.service
    first = await service.show(name)
    if service.streams >= service.limits.streams:
        raise ApiError("busy", f"there are {service.streams} live views, as many as this worker allows")

    async def parts() -> AsyncGenerator[bytes, None]:
        service.streams += 1
        gone = asyncio.ensure_future(handlers.until_gone(visit.receive))
        stopping = asyncio.ensure_future(service.stopping.wait())
        try:
            seen, said = (first.events, first.status), time.monotonic()
            yield b"retry: 2000\n\n"
            while not (gone.done() or stopping.done()):
                await asyncio.wait((gone, stopping), timeout=LIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                try:
                    latest = await service.show(name)
                    if (latest.events, latest.status) == seen:
                        if time.monotonic() - said > handlers.BEAT_SECONDS:
                            said = time.monotonic()
                            yield b": nothing new\n\n"
                        continue
                    seen, said = (latest.events, latest.status), time.monotonic()
                    shown, timeline = await _looked_at(service, name)
                except (LedgerUnavailable, ApiError):
                    continue
                yield b"data: %s\n\n" % page_parts.data(shown, timeline).encode()
        finally:
            service.streams -= 1
            gone.cancel()
            stopping.cancel()

    return Response(parts(), kind=b"text/event-stream", headers={**HEADERS})


async def _act(visit: Visit) -> Response:
    """Do what a form asks for."""
    assert visit.caller is not None
    fields = await visit.form()
    session.check_token(visit.key, fields)
    if visit.path == "/sign-out":
        return redirect("/sign-in", session.cookie("", visit.scope.get("scheme") == "https"))
    _check_admin(visit)
    if visit.path == "/new":
        return await _create(visit, fields)
    name, _, word = visit.path.removeprefix(_BELOW).partition("/")
    visit.caller.check_scope(name)
    command = _command(name, word, fields, visit.caller.number)
    await visit.service.run(command, 1, lambda answer: unwrap(answer) and None)
    return redirect(f"{_BELOW}{quote(name, safe='')}")


def _command(name: str, word: str, fields: dict[str, list[str]], key: int | None) -> Command:
    given = {field: values[0].strip() for field, values in fields.items()}
    if word in STATUSES:
        if word == "archive" and given.get("sure") != "yes":
            raise ApiError("invalid", "archiving cannot be undone; tick the box to confirm it", "sure")
        return Change(name, STATUSES[word], key=key)
    if word == "add-arm":
        if not given.get("arm"):
            raise ApiError("invalid", "the new arm needs a label", "arm")
        return AddArm(name, given["arm"], key=key)
    if word in ("retire-arm", "restore-arm"):
        return MoveArm(name, given.get("arm", ""), word == "retire-arm", key=key)
    if word == "limits":
        return SetLimits(name, page_parts.limits_of(fields), key=key)
    raise ApiError("not_found", f"nothing can be done at {word[:100]}")


async def _create(visit: Visit, fields: dict[str, list[str]]) -> Response:
    given = {field: values[0].strip() for field, values in fields.items()}
    try:
        body = page_parts.new_experiment(given)
        request = Request(visit.service, "", {}, body, visit.receive, visit.caller or NOBODY)
        await handlers.create(request)
    except ApiError as error:
        problem = error.problem
        return page(
            "new.html",
            visit,
            error.status,
            form=given,
            problem=problem.message,
            field=problem.field or "",
            choices=page_parts.learner_choices(),
        )
    return redirect(f"{_BELOW}{quote(body.name, safe='')}")
