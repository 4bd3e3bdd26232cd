"""A service with a few experiments, and people who look at its pages, with a browser and without."""

from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest
from playwright.sync_api import Browser, expect

from belated.service.pages.session import COOKIE
from support.browser import Tab, chromium
from support.elements import Node, read_html
from support.pages import fill, visiting
from support.serving import ADMIN_KEY, Server, Stores

expect.set_options(timeout=60_000)  # milliseconds; machines that test are busy

OFTEN = {f"belated.service.pages.feed.{name}_SECONDS": 0.1 for name in ("LOOK", "KNOWN")}
"""Open pages hear of changes soon."""

Show = Callable[..., Node]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a process: each test makes experiments of its own, and leaves the others as they are."""
    folder = tmp_path_factory.mktemp("pages")
    with Server(Stores.fresh("sqlite", folder), folder / "log", constants=OFTEN) as server:
        fill(server)
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def stranger(browser: Browser, server: Server) -> Iterator[Tab]:
    """A browser in which nobody has signed in."""
    with closing(browser.new_context(base_url=server.url)) as context:
        yield Tab(context.new_page())


@pytest.fixture
def tab(stranger: Tab, server: Server) -> Tab:
    """A browser in which an administrator has signed in."""
    stranger.page.context.add_cookies([{"name": COOKIE, "value": ADMIN_KEY, "url": server.url}])
    return stranger


@pytest.fixture
def visitor(server: Server) -> Iterator[httpx.Client]:
    """Somebody who may act."""
    with visiting(server) as http:
        yield http


@pytest.fixture
def show(visitor: httpx.Client) -> Show:
    """Open a page, or send a form, as somebody who may act: what is shown, with this status."""

    def show(path: str, status: int = 200, **form: object) -> Node:
        answer = visitor.post(path, data=form) if form else visitor.get(path)
        assert answer.status_code == status, answer.text
        return read_html(answer.text)

    return show
