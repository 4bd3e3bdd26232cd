"""A browser, and a service with a few experiments."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from belated.service.pages.session import COOKIE
from support.browser import Tab, chromium
from support.pages import fill
from support.serving import ADMIN_KEY, Server, Stores

expect.set_options(timeout=30_000)  # milliseconds; machines that test are busy


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("pages")
    with Server(Stores.fresh("sqlite", folder), folder / "log") as server:
        fill(server)
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser, server: Server) -> Iterator[Tab]:
    context = browser.new_context(base_url=server.url)
    yield Tab(context.new_page())
    context.close()


@pytest.fixture
def visitor(server: Server) -> Iterator[httpx.Client]:
    """Somebody who may act, without a browser."""
    with httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=30) as http:
        yield http
