"""The description for people: complete, of what there is, quiet, and narrow enough for a telephone."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from belated import __version__
from belated.service.docs import COMMON_CODES, docs_page
from belated.service.errors import CODES
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from support.browser import Scheme, Tab, check_readable, check_width, chromium
from support.elements import Node, read_html
from support.http_helpers import serving
from support.serving import Server

DOCUMENT = document(OPERATIONS, __version__)
TYPES = sorted(DOCUMENT["components"]["schemas"])


@pytest.fixture(scope="module")
def shown() -> Node:
    return read_html(docs_page(DOCUMENT))


def test_the_page_shows_every_operation_and_every_type(shown: Node) -> None:
    assert shown.one("title").text == f"belated {__version__}"
    headings = [heading for section in shown.all("section") for heading in section.texts("h3")]
    assert headings == [f"{operation.method} {operation.path}" for operation in OPERATIONS] + TYPES
    for operation in OPERATIONS:
        section = shown.one("section", id=operation.handler.__name__)
        assert operation.summary in section.text
        assert section.one(class_="role").text == (operation.role or "no key")
        for code in set(operation.refusals) - set(COMMON_CODES):
            assert code in section.texts("a")
        heads = section.texts("th")
        assert [f"query: {query.name}" for query in operation.query if f"query: {query.name}" not in heads] == []
        assert ("body" in heads) == (operation.body is not None)
        assert f"response {min(operation.responses)}" in heads


def test_a_type_is_shown_with_its_bounds_and_defaults(shown: Node) -> None:
    def line(name: str, field: str) -> str:
        rows = shown.one("section", id=name).all("tr")
        return next(row.one("td").text for row in rows if row.one("th").text == field)

    assert "10,000" in line("NewExperiment", "arms")
    assert "default" in line("NewExperiment", "learner")
    assert "optional" not in line("NewExperiment", "name")
    assert "1 to 128" in line("OutcomeReport", "decision")
    assert "null" in line("NewExperiment", "seed")


def test_every_link_leads_somewhere(shown: Node) -> None:
    links = {link.attributes["href"] for link in shown.all("a")}
    inside = {link[1:] for link in links if link.startswith("#")}
    assert {"NewExperiment", "DecisionResponse", "OutcomeReceipt"} <= inside
    ids = [each.attributes["id"] for each in shown if "id" in each.attributes]
    assert len(set(ids)) == len(ids)
    assert inside <= set(ids)
    assert {link for link in links if not link.startswith("#")} == {"openapi.json"}


def test_every_error_is_listed_once(shown: Node) -> None:
    tables = shown.all("table", class_="codes")
    rows = [(row.one("th").text, row.one("td").text) for table in tables for row in table.all("tr")]
    assert dict(rows) == {f"{status} {code}": text for code, (status, text) in CODES.items()}
    assert len(rows) == len(CODES)
    common = [row.one("th").one("code").text for row in tables[1].all("tr")]
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
def test_words_of_the_document_are_shown_as_text(evil: str) -> None:
    page = read_html(docs_page(spoil(DOCUMENT, evil)))
    assert page.one("title").text == f"belated{evil} {__version__}{evil}"
    assert page.all("script") == page.all("b") == []
    text = page.one("main").text
    for operation in OPERATIONS:
        assert operation.summary + evil in text
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for each in (name, *schema.get("properties", {})):
            assert each + evil in text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    yield opened
    opened.close()


def test_the_server_shows_it(server: Server) -> None:
    response = httpx.get(f"{server.url}/docs")
    assert response.headers["content-type"].startswith("text/html")
    assert read_html(response.text).text == read_html(docs_page(DOCUMENT)).text
    for foreign in ("<script", "@import", "url(", "https://"):
        assert foreign not in response.text, foreign


@pytest.mark.slow
def test_the_page_asks_nobody_else_and_complains_about_nothing(page: Page, server: Server) -> None:
    tab = Tab(page)
    page.goto(f"{server.url}/docs")
    page.wait_for_load_state("networkidle")
    assert tab.asked == [f"{server.url}/docs"]
    assert tab.said == []
    for width in (320, 390, 768, 1400, 1600):
        check_width(page, width)


@pytest.mark.slow
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
