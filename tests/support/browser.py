"""A real browser, and what tests ask of every page: what it loads, and whether its text can be read."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserType, ConsoleMessage, Error, Page, Request, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
Scheme = Literal["light", "dark"]
LEAST_CONTRAST = 4.5
"""The contrast that WCAG 2 (level AA) asks for text of ordinary size."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the Chromium of this machine, or the one that playwright has installed."""
    with sync_playwright() as playwright:
        browser = _launch(playwright.chromium)
        yield browser
        browser.close()


def _path(kind: BrowserType) -> str | None:
    """Return where Chromium is: the system's, else playwright's own."""
    installed = [kind.executable_path] if Path(kind.executable_path).is_file() else []
    return next(iter((*filter(None, map(shutil.which, NAMES)), *installed)), None)


def _launch(kind: BrowserType) -> Browser:
    path = _path(kind)
    assert path, f"a browser is needed, {', '.join(NAMES)} or playwright's own: make browser"
    try:
        return kind.launch(executable_path=path, args=OPTIONS, chromium_sandbox=os.geteuid() != 0)
    except Error:  # a container may not let it have a sandbox
        return kind.launch(executable_path=path, args=OPTIONS, chromium_sandbox=False)


class Tab:
    """A page with what it asked the network for and what it wrote to the console."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.said: list[str] = []
        page.on("request", self._ask)
        page.on("console", self._say)
        page.on("pageerror", self._fail)

    def _ask(self, request: Request) -> None:
        if not request.url.startswith("data:"):
            self.asked.append(request.url)

    def _say(self, message: ConsoleMessage) -> None:
        self.said.append(message.text)

    def _fail(self, error: Error) -> None:
        self.said.append(str(error))


TEXTS = """() => {
    const parts = colour => {
        const found = colour.match(/^rgba?\\(([\\d.]+), ([\\d.]+), ([\\d.]+)(?:, ([\\d.]+))?\\)$/);
        if (!found) throw new Error("not a colour in rgb: " + colour);
        return found.slice(1).map(part => part === undefined ? 1 : Number(part));
    };
    const light = colour => parts(colour).slice(0, 3).map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
    const ground = node => {
        for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (parts(colour)[3] === 1) return colour;
            if (parts(colour)[3] !== 0) throw new Error("half transparent: " + colour);
        }
        throw new Error("no ground");
    };
    const written = node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    const kinds = {soft: ".soft", link: "main a, header a", header: "thead span", code: "code, pre", text: "p, td"};
    return [...document.body.querySelectorAll("*")].filter(written).map(node => {
        const style = getComputedStyle(node);
        const [low, high] = [light(style.color), light(ground(node))].sort((a, b) => a - b);
        return {
            text: node.innerText,
            kinds: Object.keys(kinds).filter(kind => node.matches(kinds[kind])),
            size: parseFloat(style.fontSize),
            contrast: (high + 0.05) / (low + 0.05),
        };
    });
}"""


def check_readable(page: Page, scheme: Scheme, kinds: set[str]) -> None:
    """Check size and contrast of every text of a page in a theme, and that it has texts of these kinds."""
    page.emulate_media(color_scheme=scheme)
    texts: list[dict[str, Any]] = page.evaluate(TEXTS)
    assert kinds == {kind for text in texts for kind in text["kinds"]}
    assert [text for text in texts if text["size"] < 12] == []
    assert [text for text in texts if text["contrast"] < LEAST_CONTRAST] == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(ground) > 3 * 200) if scheme == "light" else (sum(ground) < 3 * 50)


def check_width(page: Page, width: int) -> None:
    """Check that a page does not scroll sideways in a window of this width."""
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


if __name__ == "__main__":  # `make browser` asks whether there is one
    with sync_playwright() as playwright:
        sys.exit(_path(playwright.chromium) is None)
