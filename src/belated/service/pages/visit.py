"""A request for a page, and what every page has in common."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.types import Receive, Scope

from belated.service.auth import NOBODY, Caller
from belated.service.errors import ApiError
from belated.service.http import Request, Response, read_body
from belated.service.pages import session, static_files
from belated.service.streams import Ended, stream
from belated.templates import render

if TYPE_CHECKING:
    from belated.service.pages.router import Pages
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
MOST_FORM = 65_536
"""Bytes of a form of somebody who has not signed in."""


@dataclass
class Visit:
    """A request for a page."""

    pages: "Pages"
    scope: Scope
    receive: Receive
    query: dict[str, str]
    headers: dict[bytes, bytes]
    caller: Caller = NOBODY
    key: str = ""
    """Of whoever has signed in; nothing where nobody has."""
    name: str = ""
    """Of the experiment, or whatever else the address names."""
    fields: dict[str, list[str]] = field(default_factory=dict)
    """Of the form that was sent."""

    @property
    def service(self) -> "Service":
        return self.pages.service

    @property
    def token(self) -> str:
        """What forms of this page carry."""
        return session.token_of(self.key) if self.key else ""

    @property
    def may_act(self) -> bool:
        """Whether whoever looks may change experiments."""
        return self.caller.role == "admin"

    @property
    def may_create(self) -> bool:
        """Whether whoever looks may create experiments, which a key for some of them may not."""
        return self.may_act and not self.caller.is_scoped

    @property
    def is_secure(self) -> bool:
        """Whether the browser speaks HTTPS, as a proxy in front says it does."""
        return self.headers.get(b"x-forwarded-proto", b"").strip().lower() == b"https"

    @property
    def origin(self) -> str:
        """Where the service is, as the browser sees it."""
        host = self.headers.get(b"host", b"localhost:8000").decode("latin-1")
        return f"{'https' if self.is_secure else 'http'}://{host}"

    def given(self, name: str) -> str:
        """Return a field of the form, the first of that name, as it is; nothing where there is none."""
        return (self.fields.get(name) or [""])[0]

    def typed(self, name: str) -> str:
        """Return a field that somebody typed, without blanks around it."""
        return self.given(name).strip()

    async def read_form(self) -> None:
        """Read the form that was sent. Another site cannot have sent it: browsers say where a form comes from."""
        if self.headers.get(b"sec-fetch-site") == b"cross-site":
            raise ApiError("bad_request", "this form comes from another site")
        most = self.service.limits.body if self.key else MOST_FORM
        self.fields = session.form_of(await read_body(self.receive, self.headers.get(b"content-length"), most))

    def stream(self, messages: Callable[[Ended], AsyncGenerator[bytes, None]]) -> Response:
        """Return an answer that sends messages for as long as the page is open."""
        return stream(self.service, self.receive, self.caller, HEADERS, messages)

    def request(self, body: Any = None, **query: str) -> Request:
        """Return what an operation of the API is asked for on behalf of this visit."""
        return Request(self.service, self.name, query, body, self.receive, self.caller)


def page(template: str, visit: Visit, code: int = 200, /, **context: Any) -> Response:
    """Return a page."""
    frame = {"static": static_files.folder(), "token": visit.token, "origin": visit.origin}
    rights = {"may_act": visit.may_act, "may_create": visit.may_create}
    content = render(f"dashboard/{template}", **frame, **rights, **context)
    return Response(content.encode(), code, HTML, HEADERS)


def redirect(to: str, cookie: bytes | None = None) -> Response:
    """Return an answer that sends the browser elsewhere."""
    headers = {**HEADERS, b"location": to.encode()}
    if cookie is not None:
        headers[b"set-cookie"] = cookie
    return Response(b"", 303, HTML, headers)


def address(name: str) -> str:
    """Return where the page of an experiment is."""
    return f"/experiments/{quote(name, safe='')}"


def check_admin(visit: Visit) -> None:
    """Refuse whoever may only read."""
    if not visit.may_act:
        raise ApiError("wrong_role", "this key may read; changing experiments needs the role admin")
