"""The description for people, in a real browser: complete, quiet, and narrow enough for a telephone."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Error, Page, Request, sync_playwright

from belated import __version__
from belated.service.openapi import document
from belated.service.routes import OPERATIONS
from support.http_helpers import serving
from support.serving import Server

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("sqlite", tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is needed: make browser"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium, args=[*QUIET, "--disable-sync", "--no-first-run"]
        )
        yield running
        running.close()


class Tab:
    """The page, what it asked for, and what it complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.said: list[str] = []
        page.on("request", self._ask)
        page.on("console", self._say)
        page.on("pageerror", self._fail)

    def _ask(self, request: Request) -> None:
        self.asked.append(request.url)

    def _say(self, message: ConsoleMessage) -> None:
        self.said.append(message.text)

    def _fail(self, error: Error) -> None:
        self.said.append(str(error))


@pytest.fixture
def tab(browser: Any, server: Server) -> Iterator[Tab]:
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
    assert {"NewExperiment", "Decision", "OutcomeReceipt"} <= inside
    missing = page.evaluate("ids => ids.filter(id => !document.getElementById(id))", sorted(inside))
    assert missing == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(set(ids)) == len(ids)
    assert {link for link in links if not link.startswith("#")} == {"openapi.json"}
    page.click("text=openapi.json")
    page.wait_for_url(f"{server.url}/openapi.json")


@pytest.mark.parametrize("width", [320, 390, 768, 1600])
def test_the_page_fits_its_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_by_day_and_by_night(page: Page, scheme: Any) -> None:
    """Letters of at least 12 px, and a contrast of 4.5 to 1 between every text and what is behind it."""
    page.emulate_media(color_scheme=scheme)
    found = page.evaluate(
        """() => {
            const light = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(c => c / 255)
                .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
            const behind = node => {
                for (; node; node = node.parentElement) {
                    const ground = getComputedStyle(node).backgroundColor;
                    if (ground !== "rgba(0, 0, 0, 0)") return ground;
                }
                return "rgb(255, 255, 255)";
            };
            return [...document.querySelectorAll("body, p, h1, h3, td, a, code, pre, span")].map(node => {
                const style = getComputedStyle(node);
                const [low, high] = [light(style.color), light(behind(node))].sort((a, b) => a - b);
                return [parseFloat(style.fontSize), (high + 0.05) / (low + 0.05)];
            });
        }"""
    )
    assert len(found) > 200
    assert min(size for size, _ in found) >= 12
    assert min(contrast for _, contrast in found) >= 4.5
