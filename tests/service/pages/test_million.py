"""The page of an experiment with a million decisions: it comes from what is kept, not from reading them."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Response, expect

from support.pages import fill_ledger, sign_in
from support.serving import ADMIN_KEY, Server, Stores

DECISIONS = 1_000_000
MOST_SECONDS = 1.0
MOST_BYTES = 300_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_decisions_are_shown_soon(browser: Browser, tmp_path: Path) -> None:
    """After a restart, too: the first time the arms are looked at, and when what was read of them has been kept."""
    store = Stores.fresh("sqlite", tmp_path)
    fill_ledger(store, ADMIN_KEY, "million", DECISIONS)
    with Server(store, tmp_path / "log") as server:
        look(browser, server)
        server.terminate()
        server.start()
        look(browser, server)


def look(browser: Browser, server: Server) -> None:
    """Open the page; check how long it takes and how large it is."""
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Experiments")
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    begun = time.monotonic()
    page.goto("/experiments/million", wait_until="domcontentloaded")
    page.wait_for_function("document.querySelector('[data-chart=shares] canvas')")
    assert time.monotonic() - begun < MOST_SECONDS
    assert page.locator('[data-show="rounds"]').inner_text() == "1,000,000"
    assert sum(map(_size, answers)) < MOST_BYTES
    page.wait_for_function("document.querySelector('[data-show=verdict]').textContent", timeout=120_000)
    expect(page.locator('[data-chart="course"] canvas')).to_be_visible()
    context.close()


def _size(answer: Response) -> int:
    """The bytes of an answer; those of the stream, which goes on, are none."""
    return 0 if "/live" in answer.url else len(answer.body())
