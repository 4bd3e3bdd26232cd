"""The report in a real browser: it opens, draws every figure, asks the network for nothing, fits its window."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page

from belated import league
from belated.cli.main import main
from belated.league import store, suite
from belated.league.standings import rank, ratios
from belated.league.suite import Cell
from belated.learners import PythonLearner
from belated.report import figures, report
from support.browser import Scheme, Tab, check_readable, check_width, chromium
from support.plain_exp3 import PlainExp3

LEARNERS = ["robust", "ucb", "thompson", "damped", "exp3_delayed"]
FAMILIES = {"even": "stochastic-k10/pareto", "slow-arms": "stochastic-k10/by-arm", "resonant": "resonant-k2/100"}
CELLS = list(FAMILIES.values())


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
    means = page.locator("table").nth(1)
    assert means.locator("thead th").all_inner_texts() == ["learner", *FAMILIES]
    assert means.locator("tbody tr").count() == len(LEARNERS)
    assert all(column.count("best") for column in zip(*classes(means), strict=True))
    for name, cell in FAMILIES.items():
        numbers = region(page, name)
        assert numbers.locator("thead th").all_inner_texts() == ["learner", "rank", "mean ratio", "ratio, 95 %", cell]
        found = [row.split("\t") for row in numbers.locator("tbody tr").all_inner_texts()]
        assert sorted(row[0].removesuffix("†") for row in found[:-3]) == sorted(LEARNERS)
        assert [row[0] for row in found[-3:]] == ["uniform play", "best / uniform", "√(KT) + Φ"]
        ranks = [int(row[1]) for row in found[:-3] if row[1] != "–"]
        assert ranks == sorted(ranks)
        assert (found[-4][:4] == ["exp3_delayed†", "–", "–", "–"]) == (name == "slow-arms")
        assert found[-2][-1].endswith("%") == (name != "resonant")  # uniform play has no regret under resonance
        assert numbers.locator("td.best").count() >= 1
        assert page.locator("h3", has_text=name).is_visible()
        assert f"{suite.FAMILIES[name][1:]}." in page.inner_text("main")
    assert "† told about the problem: damped (longest_delay), exp3_delayed (delay)" in page.inner_text("main")
    assert "belated league --cells" in page.inner_text("pre")
    for section in ("Ranking", "Heat map", "Families", "One run", "Reproduce"):
        page.click(f"nav >> text={section}")
        assert page.locator("h2", has_text=section).is_visible()
    for name in FAMILIES:
        page.click(f"nav >> text={name}")
        assert page.locator("h3:target").inner_text() == name


def region(page: Page, label: str) -> Locator:
    """Return the table with this label."""
    return page.get_by_role("region", name=label, exact=True).locator("table")


def test_the_tables_say_when_the_best_arm_is_known(page: Page, folder: Path) -> None:
    """In the ranking, and cell by cell where losses do not change."""
    assert page.locator("table").first.locator("thead th").nth(7).inner_text() == "known"
    assert "Known is the share of the rounds after which belated.inference" in page.inner_text("main")
    for name, cell in FAMILIES.items():
        table = region(page, f"{name}, known")
        assert table.count() == (name != "resonant")
        if table.count():
            assert table.locator("thead th").all_inner_texts() == ["learner", cell]
            found = [row.split("\t") for row in table.locator("tbody tr").all_inner_texts()]
            assert [row[0] for row in found] == region(page, name).locator("tbody th").all_inner_texts()[:-3]
            assert {row[1] for row in found} == {"–"}  # 2,000 rounds are too few


def test_rounds_after_which_the_best_arm_is_known(browser: Browser, tmp_path: Path) -> None:
    cells = (
        Cell("easy", "bernoulli:means=[0.1,0.9]", "none", 500),
        Cell("hard", "bernoulli:means=[0.49,0.5]", "none", 500),
    )
    played = league.play(league.LeaguePlan(cells, league.competitors(["uniform", "ucb"]), 3), tmp_path)
    page = browser.new_page()
    page.goto(f"file://{report.write(tmp_path, played)}")
    rows = dict(row.split("\t", 1) for row in region(page, "own, known").locator("tbody tr").all_inner_texts())
    after = {name: played.results["easy"].known_after(name) for name in ("uniform", "ucb")}
    assert rows == {name: f"{value:.0f}\t–" for name, value in after.items()}
    ranking = [row.split("\t") for row in page.locator("table").first.locator("tbody tr").all_inner_texts()]
    shares = {row[0]: row[7] for row in ranking}
    assert shares == {name: f"{(value / 500 + 1) / 2:.0%}".replace("%", " %") for name, value in after.items()}
    page.close()


def classes(table: Locator) -> list[list[str]]:
    """Return the classes of the cells of a table, row by row, without the first column."""
    found: list[list[str]] = table.evaluate(
        "t => [...t.tBodies[0].rows].map(r => [...r.cells].slice(1).map(c => c.className))"
    )
    return found


def test_curves_of_many_cells_are_folded_away(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        main(
            ["league", "--family", "trials", "--learners", "ucb", "bold", "--replications", "2", "--out", str(tmp_path)]
        )
        == 0
    )
    for few, shown in ((6, True), (5, False)):
        monkeypatch.setattr(report, "FEW", few)
        path = report.write(tmp_path)
        page = browser.new_page()
        page.goto(f"file://{path}")
        assert page.locator(".curves img").first.is_visible() == shown
        page.click("summary")
        assert page.locator(".curves img").first.is_visible() != shown
        assert page.locator("#by-family").count() == 0  # one family: the ranking says it all
        page.close()


def test_the_heat_map_has_a_block_for_each_family(folder: Path) -> None:
    """Means first, all families above; blocks stand apart; the order of learners is that asked for."""
    league_ = store.read(folder)
    order = [row.learner for row in rank(league_)]
    blocks = figures._heat_blocks(league_, order)
    assert [names for names, _ in blocks] == [["all families"], *([name, cell] for name, cell in FAMILIES.items())]
    table, labels = ratios(league_), league_.plan.labels
    for k, (_, values) in enumerate(blocks[1:]):
        cell = [each.id for each in league_.cells].index(list(FAMILIES.values())[k])
        expected = table[[labels.index(name) for name in order], cell]
        np.testing.assert_allclose(values, [expected, expected])  # one cell: it is the mean
    np.testing.assert_allclose(blocks[0][1][0], [row.geometric for row in rank(league_)])
    axes = figures.draw_heat_map(league_, order).axes[0]
    tops = [image.get_extent()[3] for image in axes.images]
    bottoms = [image.get_extent()[2] for image in axes.images]
    assert all(top - bottom == figures.FAMILY_GAP for top, bottom in zip(tops[1:], bottoms[:-1], strict=True))
    bold = [text.get_text() for text in axes.get_yticklabels() if text.get_fontweight() == "bold"]
    assert bold == ["all families", *FAMILIES]


def test_cells_with_rounds_of_their_own_have_no_command(folder: Path) -> None:
    """--rounds gives all cells the same."""
    cells = tuple(suite.suite[name] for name in CELLS)
    plan = league.LeaguePlan((cells[0].at(500), *cells[1:]), league.competitors(["ucb"]), 2)
    assert report.own_parts(league.League(plan, {})) == [CELLS[0]]
    assert report.command(league.League(plan, {}), folder) is None


def test_the_command_names_whole_families(folder: Path) -> None:
    cells = suite.within(suite.suite.values(), ["rhythm", "deadline"])
    plan = league.LeaguePlan(cells, league.competitors(["ucb"]), 2)
    words = (report.command(league.League(plan, {}), folder) or "").split()
    assert words[2:5] == ["--family", "deadline", "rhythm"]
    assert words[5] == "--learners"


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
    for words in (
        "1 learner, 1 cell in 1 family,",
        "Cells that are not of the suite.",
        "the best learners of each cell",
        "How <code>mine</code> waits",
    ):
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
    assert tables.nth(1).locator("tbody th").all_inner_texts()[0] == learner
    assert tables.nth(1).locator("thead th").all_inner_texts()[-1] == cell
    assert tab.page.locator("figcaption").all_inner_texts() == [cell]
    assert learner in (tab.page.locator("img").nth(1).get_attribute("alt") or "")
    assert f"({cell}, {learner})" in tab.page.inner_text("main")
    assert (len(tab.asked), tab.said) == (1, [])
    tab.page.close()
