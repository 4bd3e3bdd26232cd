"""A browser, and a service with a few experiments."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from support.browser import Tab, chromium
from support.pages import fill
from support.serving import Server, Stores

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
