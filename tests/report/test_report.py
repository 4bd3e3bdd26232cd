"""The report in a real browser: it opens, draws every figure, asks the network for nothing, fits its window."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, sync_playwright

from belated import league
from belated.cli.main import main
from belated.league.suite import Cell
from belated.learners import PythonLearner
from belated.report import report
from support.plain_exp3 import PlainExp3

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
LEARNERS = ["robust", "ucb", "thompson", "damped", "exp3_delayed"]
CELLS = ["stochastic-k10/pareto", "stochastic-k10/by-arm", "resonant-k2/100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report")
    common = ["--cells", *CELLS, "--learners", *LEARNERS, "--rounds", "2000", "--replications", "3", "--out", str(path)]
    assert main(["league", *common]) == 0
    assert main(["report", str(path)]) == 0
    return path


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


@pytest.fixture
def page(browser: Any, folder: Path) -> Iterator[Page]:
    tab: Page = browser.new_page(viewport={"width": 1300, "height": 900})
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    tab.asked = asked  # type: ignore[attr-defined]
    tab.on("request", note)
    tab.goto(f"file://{folder / 'report.html'}")
    yield tab
    tab.close()


def test_the_page_asks_for_nothing_but_itself(page: Page, folder: Path) -> None:
    page.wait_for_load_state("networkidle")
    asked = [url for url in page.asked if not url.startswith("data:")]  # type: ignore[attr-defined]
    assert asked == [f"file://{folder / 'report.html'}"]
    text = (folder / "report.html").read_text()
    for foreign in ("http://", "https://", "<script", "@import", "url("):
        assert foreign not in text.replace("http://www.w3.org", ""), foreign


def test_every_figure_is_drawn(page: Page) -> None:
    """Heat map, a figure of curves for each cell, one run: all decoded, all with words for those who cannot see."""
    images = page.evaluate("[...document.images].map(i => [i.complete && i.naturalWidth > 100, i.alt, i.width])")
    assert len(images) == 1 + len(CELLS) + 1
    for drawn, alt, width in images:
        assert drawn
        assert len(alt) > 20
        assert width > 200


def test_the_tables_hold_the_league(page: Page) -> None:
    rows = page.locator("table").first.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(LEARNERS)
    numbers = page.locator("table").nth(1)
    assert numbers.locator("thead th").count() == 1 + len(LEARNERS) + 2
    assert [row.split("\t")[0] for row in numbers.locator("tbody tr").all_inner_texts()] == CELLS
    assert numbers.locator("td.best").count() >= len(CELLS)
    assert "–" in numbers.inner_text()  # exp3_delayed where delays depend on the arm
    assert "† told about the problem: damped (longest_delay), exp3_delayed (delay)" in page.inner_text("main")
    assert "belated league --cells" in page.inner_text("pre")
    for section in ("Ranking", "Heat map", "Curves", "One run", "All numbers", "LeaguePlan"):
        page.click(f"nav >> text={section}")
        assert page.locator("h2", has_text=section).is_visible()


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_the_page_fits_its_window(page: Page, width: int) -> None:
    """Wide tables and the heat map scroll by themselves; the page does not."""
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_are_left_as_svg_and_pdf(folder: Path) -> None:
    names = {path.name for path in (folder / "figures").iterdir()}
    expected = {"heatmap", "one-run", *(f"curves-{cell.replace('/', '--')}" for cell in CELLS)}
    assert names == {f"{name}.{kind}" for name in expected for kind in ("svg", "pdf")}


def test_the_command_in_the_report_plays_the_same_league(folder: Path, page: Page, tmp_path: Path) -> None:
    words = page.inner_text("pre").splitlines()[0].split()
    assert words[:2] == ["belated", "league"]
    words[words.index("--out") + 1] = str(tmp_path)
    assert main(words[1:]) == 0
    assert (tmp_path / "final.csv").read_bytes() == (folder / "final.csv").read_bytes()


def test_the_same_league_gives_the_same_page(folder: Path) -> None:
    before = (folder / "report.html").read_bytes()
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == before


def test_a_league_of_your_own_has_a_report(tmp_path: Path) -> None:
    """One learner that is not in the catalogue, one cell that is not in the suite."""
    cell = Cell("mine/none", "stochastic:arms=3", "none", 300)
    settings = league.LeaguePlan((cell,), league.competitors([PythonLearner("mine", PlainExp3)]), replications=2)
    page = report.write(tmp_path, league.play(settings, tmp_path)).read_text()
    for words in ("1 learner, 1 cell,", "the best learners of each cell", "What <code>mine</code> waits for"):
        assert words in page
    assert "robust" not in page
