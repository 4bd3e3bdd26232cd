"""The description for people, in a real browser: complete, quiet, and narrow enough for a telephone."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from belated import __version__
from belated.service.docs import COMMON_CODES, docs_page
from belated.service.errors import CODES
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from support.browser import Scheme, Tab, check_readable, check_width, chromium
from support.http_helpers import serving
from support.serving import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def tab(browser: Browser, server: Server) -> Iterator[Tab]:
    opened = Tab(browser.new_page(viewport={"width": 1200, "height": 900}))
    opened.page.goto(f"{server.url}/docs")
    yield opened
    opened.page.close()


@pytest.fixture
def page(tab: Tab) -> Page:
    return tab.page


def test_the_page_asks_nobody_else_and_complains_about_nothing(tab: Tab, server: Server) -> None:
    tab.page.wait_for_load_state("networkidle")
    assert tab.asked == [f"{server.url}/docs"]
    assert tab.said == []
    text = tab.page.content()
    for foreign in ("<script", "@import", "url(", "https://"):
        assert foreign not in text, foreign


def test_the_page_shows_every_operation(page: Page) -> None:
    assert page.title() == f"belated {__version__}"
    headings = [" ".join(each.split()) for each in page.locator("section h3").all_inner_texts()]
    types = sorted(document(OPERATIONS, __version__)["components"]["schemas"])
    assert headings == [f"{operation.method} {operation.path}" for operation in OPERATIONS] + types
    for operation in OPERATIONS:
        section = page.locator(f"section#{operation.handler.__name__}")
        assert section.is_visible()
        text = section.inner_text()
        assert operation.summary in text
        assert section.locator(".role").inner_text() == (operation.role or "no key")
        for code in operation.refusals:
            assert code in text
        for query in operation.query:
            assert f"query: {query.name}" in text


def test_every_link_leads_somewhere(page: Page, server: Server) -> None:
    links = page.evaluate("[...document.links].map(a => a.getAttribute('href'))")
    inside = {link[1:] for link in links if link.startswith("#")}
    assert {"NewExperiment", "DecisionResponse", "OutcomeReceipt"} <= inside
    missing = page.evaluate("ids => ids.filter(id => !document.getElementById(id))", sorted(inside))
    assert missing == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(set(ids)) == len(ids)
    assert {link for link in links if not link.startswith("#")} == {"openapi.json"}
    page.click("text=openapi.json")
    page.wait_for_url(f"{server.url}/openapi.json")


@pytest.mark.parametrize("width", [320, 390, 768, 1400, 1600])
def test_the_page_fits_its_window(page: Page, width: int) -> None:
    check_width(page, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_in_both_themes(page: Page, server: Server, scheme: Scheme) -> None:
    """Also the row that a link leads to, which is highlighted."""
    page.goto(f"{server.url}/docs#conflict")
    grounds = page.evaluate(
        "[...document.querySelectorAll('tr')].map(r => getComputedStyle(r.lastElementChild))"
        ".map(style => style.backgroundColor)"
    )
    assert len(set(grounds)) == 2
    check_readable(page, scheme, {"text", "soft", "link", "code"})


def test_every_error_is_listed_once(page: Page) -> None:
    tables = page.locator("table.codes")
    rows = [row.split("\t") for k in range(2) for row in tables.nth(k).locator("tr").all_inner_texts()]
    assert dict(rows) == {f"{s} {code}": text for code, (s, text) in CODES.items()}
    assert len(rows) == len(CODES)
    common = [row.split()[1] for row in tables.nth(1).locator("th").all_inner_texts()]
    assert sorted(common) == sorted(COMMON_CODES)


NAMED = {"paths", "properties", "schemas"}
"""Objects of an OpenAPI document whose keys are shown on the page."""
LOOKED_UP = {"$ref", "enum", "default", "in", "required", "type", "x-codes"}
"""Values that the page looks up, or shows as JSON."""


def spoil(value: Any, evil: str, named: bool = False) -> Any:
    """Return an OpenAPI document with a string added to each of its texts and names."""
    if isinstance(value, dict):
        return {
            key + evil if named else key: each if key in LOOKED_UP else spoil(each, evil, key in NAMED)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [spoil(each, evil) for each in value]
    return value + evil if isinstance(value, str) else value


@pytest.mark.parametrize("evil", ["<script>x()</script>", '"><b id="x">'])
def test_words_of_the_document_are_shown_as_text(browser: Browser, evil: str) -> None:
    described = document(OPERATIONS, __version__)
    tab = Tab(browser.new_page())
    tab.page.set_content(docs_page(spoil(described, evil)))
    assert tab.page.title() == f"belated{evil} {__version__}{evil}"
    assert tab.page.locator("script, b").count() == 0
    for operation in OPERATIONS:
        assert operation.summary + evil in tab.page.inner_text("main")
    for name, schema in described["components"]["schemas"].items():
        for shown in (name, *schema.get("properties", {})):
            assert shown + evil in tab.page.inner_text("main")
    assert (tab.asked, tab.said) == ([], [])
    tab.page.close()
