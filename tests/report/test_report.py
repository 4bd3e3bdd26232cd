"""The report in a real browser: it opens, draws every figure, asks the network for nothing, fits its window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from belated import league
from belated.cli.main import main
from belated.league.suite import Cell
from belated.learners import PythonLearner
from belated.report import report
from support.browser import Scheme, Tab, check_readable, check_width, chromium
from support.plain_exp3 import PlainExp3

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
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def tab(browser: Browser, folder: Path) -> Iterator[Tab]:
    opened = Tab(browser.new_page(viewport={"width": 1300, "height": 900}))
    opened.page.goto(f"file://{folder / 'report.html'}")
    yield opened
    opened.page.close()


@pytest.fixture
def page(tab: Tab) -> Page:
    return tab.page


def test_the_page_asks_for_nothing_but_itself(tab: Tab, folder: Path) -> None:
    tab.page.wait_for_load_state("networkidle")
    assert tab.asked == [f"file://{folder / 'report.html'}"]
    assert tab.said == []
    text = (folder / "report.html").read_text()
    for foreign in ("http://", "https://", "<script", "@import", "url("):
        assert foreign not in text, foreign


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
    for section in ("Ranking", "Heat map", "Curves", "One run", "All numbers", "Reproduce"):
        page.click(f"nav >> text={section}")
        assert page.locator("h2", has_text=section).is_visible()


@pytest.mark.parametrize("width", [360, 390, 768, 1400, 1600])
def test_the_page_fits_its_window(page: Page, width: int) -> None:
    """Wide tables and the heat map scroll by themselves; the page does not."""
    check_width(page, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_in_both_themes(page: Page, scheme: Scheme) -> None:
    check_readable(page, scheme, {"text", "soft", "header", "code"})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_a_white_ground_in_both_themes(page: Page, scheme: Scheme) -> None:
    page.emulate_media(color_scheme=scheme)
    grounds = page.evaluate("[...document.images].map(image => getComputedStyle(image).backgroundColor)")
    assert set(grounds) == {"rgb(255, 255, 255)"}


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
    page = write_own(tmp_path, "mine/none", "mine").read_text()
    for words in ("1 learner, 1 cell,", "the best learners of each cell", "How <code>mine</code> waits"):
        assert words in page
    assert "(mine/none, mine)" in page
    assert "robust" not in page
    assert "<pre>" not in page


def write_own(folder: Path, cell: str, learner: str) -> Path:
    """Play a small league of one cell and one learner of these names, and write its report."""
    cells = (Cell(cell, "stochastic:arms=3", "none", 300),)
    plan = league.LeaguePlan(cells, league.competitors([PythonLearner(learner, PlainExp3)]), replications=2)
    return report.write(folder, league.play(plan, folder))


def test_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    """Names of cells and learners are whatever their user likes, also HTML."""
    cell, learner = "<script>x()</script>", '"><b id="x">'
    path = write_own(tmp_path, cell, learner)
    tab = Tab(browser.new_page())
    tab.page.goto(f"file://{path}")
    assert tab.page.locator("script, b").count() == 0
    tables = tab.page.locator("table")
    assert tables.first.locator("tbody th").all_inner_texts() == [learner]
    assert tables.nth(1).locator("tbody th").all_inner_texts() == [cell]
    assert tables.nth(1).locator("thead th").all_inner_texts()[1] == learner
    assert tab.page.locator("figcaption").all_inner_texts() == [cell]
    assert learner in (tab.page.locator("img").nth(1).get_attribute("alt") or "")
    assert f"({cell}, {learner})" in tab.page.inner_text("main")
    assert (len(tab.asked), tab.said) == (1, [])
    tab.page.close()
