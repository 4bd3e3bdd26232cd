"""The report of a league: what its tables hold, that it needs nothing but itself, and what it looks like."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import league
from belated.cli.main import main
from belated.league import store, suite
from belated.league.standings import rank, ratios
from belated.league.suite import Cell
from belated.learners import PythonLearner
from belated.report import figures, report
from support.browser import Tab, check_readable, check_width, chromium
from support.elements import Node, read_html
from support.plain_exp3 import PlainExp3

LEARNERS = ["robust", "ucb", "damped", "exp3_delayed"]
FAMILIES = {"even": "stochastic-k10/pareto", "slow-arms": "stochastic-k10/by-arm", "resonant": "resonant-k2/100"}
CELLS = list(FAMILIES.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league with its report, of whose figures one is drawn."""
    path = tmp_path_factory.mktemp("report")
    common = ["--cells", *CELLS, "--learners", *LEARNERS, "--rounds", "1000", "--replications", "3", "--out", str(path)]
    assert main(["league", *common]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save", save_one)
        assert main(["report", str(path)]) == 0
    return path


REAL_SAVE = figures.save


def save_one(figure: Any, path: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Draw the heat map; others take most of the time, and are empty."""
    return (REAL_SAVE if path.name == "heatmap" else save_none)(figure, path, kinds)


def save_none(figure: Any, path: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    paths = [path.with_suffix(f".{kind}") for kind in kinds]
    for each in paths:
        each.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return paths


@pytest.fixture(scope="module")
def page(folder: Path) -> Node:
    return read_html((folder / "report.html").read_text())


@pytest.fixture
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "save", save_none)


def region(page: Node, label: str) -> Node:
    """Return the table with this label."""
    return page.one(role="region", aria_label=label).one("table")


def header(table: Node) -> list[str]:
    return table.one("thead").texts("th")


def test_the_page_asks_for_nothing_but_itself(folder: Path, page: Node) -> None:
    text = (folder / "report.html").read_text()
    for foreign in ("http://", "https://", "<script", "@import", "url("):
        assert foreign not in text, foreign
    for each in page:
        for name in ("src", "href"):
            assert each.attributes.get(name, "#").startswith(("#", "data:")), each.attributes


def test_every_figure_is_there(folder: Path, page: Node) -> None:
    """Heat map, a figure of curves for each cell, one run: all with words for those who cannot see; as SVG and PDF."""
    images = page.all("img")
    assert len(images) == 1 + len(CELLS) + 1
    assert all(len(image.attributes["alt"]) > 20 for image in images)
    assert all(image.attributes["src"].startswith("data:image/svg+xml;base64,") for image in images)
    names = {path.name for path in (folder / "figures").iterdir()}
    expected = {"heatmap", "one-run", *(f"curves-{cell.replace('/', '--')}" for cell in CELLS)}
    assert names == {f"{name}.{kind}" for name in expected for kind in ("svg", "pdf")}


def test_the_tables_hold_the_league(page: Node) -> None:
    ranking, means = page.all("table")[:2]
    assert len(ranking.rows()) == len(LEARNERS)
    assert header(means) == ["learner", *FAMILIES]
    classes = [[cell.attributes.get("class", "") for cell in row.all("td")] for row in means.one("tbody").all("tr")]
    assert len(classes) == len(LEARNERS)
    assert all(column.count("best") for column in zip(*classes, strict=True))
    for name, cell in FAMILIES.items():
        numbers = region(page, name)
        assert header(numbers)[0] == "learner"
        assert header(numbers)[-1] == cell
        found = numbers.rows()
        assert sorted(row[0].removesuffix("†") for row in found[:-3]) == sorted(LEARNERS)
        ranks = [int(row[1]) for row in found[:-3] if row[1] != "–"]
        assert ranks == sorted(ranks)
        assert (found[-4][:4] == ["exp3_delayed†", "–", "–", "–"]) == (name == "slow-arms")
        assert found[-2][-1].endswith("%") == (name != "resonant")  # uniform play has no regret under resonance
        assert len(numbers.all("td", class_="best")) >= 1
        assert name in page.texts("h3")
        assert f"{suite.FAMILIES[name][1:]}." in page.one("main").text
    assert "belated league --cells" in page.one("pre").text
    links = [each.attributes["href"] for each in page.one("nav").all("a")]
    assert len(links) == 5 + len(FAMILIES)
    assert all(page.all(id=link.removeprefix("#")) for link in links)


def test_the_tables_say_when_the_best_arm_is_known(page: Node) -> None:
    """In the ranking, and cell by cell where losses do not change."""
    assert header(page.all("table")[0])[7] == "known"
    for name, cell in FAMILIES.items():
        assert len(page.all(role="region", aria_label=f"{name}, known")) == (name != "resonant")
        if name != "resonant":
            table = region(page, f"{name}, known")
            assert header(table) == ["learner", cell]
            assert [row[0] for row in table.rows()] == [row[0] for row in region(page, name).rows()[:-3]]
            assert {row[1] for row in table.rows()} == {"–"}  # 1,000 rounds are too few


def test_rounds_after_which_the_best_arm_is_known(tmp_path: Path, no_drawing: None) -> None:
    cells = (
        Cell("easy", "bernoulli:means=[0.1,0.9]", "none", 500),
        Cell("hard", "bernoulli:means=[0.49,0.5]", "none", 500),
    )
    played = league.play(league.LeaguePlan(cells, league.competitors(["uniform", "ucb"]), 3), tmp_path)
    page = read_html(report.write(tmp_path, played).read_text())
    after = {name: played.results["easy"].known_after(name) for name in ("uniform", "ucb")}
    found = {name: rest for name, *rest in region(page, "own, known").rows()}
    assert found == {name: [f"{value:.0f}", "–"] for name, value in after.items()}
    shares = {row[0]: row[7] for row in page.all("table")[0].rows()}
    assert shares == {name: f"{(value / 500 + 1) / 2:.0%}".replace("%", " %") for name, value in after.items()}


@pytest.mark.parametrize(("few", "is_open"), [(3, True), (2, False)])
def test_curves_of_many_cells_are_folded_away(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_drawing: None, few: int, is_open: bool
) -> None:
    monkeypatch.setattr(report, "FEW", few)
    page = read_html(report.write(tmp_path, store.read(folder)).read_text())
    assert {"open" in each.attributes for each in page.all("details")} == {is_open}
    assert len(page.all("details")) == len(FAMILIES)


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


@pytest.mark.slow
def test_the_page_in_a_browser(folder: Path) -> None:
    """Every figure is drawn, on white; wide tables scroll by themselves, the page does not; themes can be read."""
    assert main(["report", str(folder)]) == 0
    with chromium() as browser:
        tab = Tab(browser.new_page(viewport={"width": 1300, "height": 900}))
        page = tab.page
        page.goto(f"file://{folder / 'report.html'}")
        page.wait_for_load_state("networkidle")
        assert (tab.asked, tab.said) == ([f"file://{folder / 'report.html'}"], [])
        drawn = page.evaluate("[...document.images].map(i => i.complete && i.naturalWidth > 100 && i.width > 200)")
        assert drawn == [True] * (len(CELLS) + 2)
        for width in (360, 768, 1600):
            check_width(page, width)
        for scheme in ("light", "dark"):
            check_readable(page, scheme, {"text", "soft", "header", "code"})
            grounds = page.evaluate("[...document.images].map(image => getComputedStyle(image).backgroundColor)")
            assert set(grounds) == {"rgb(255, 255, 255)"}


def test_the_command_in_the_report_plays_the_same_league(folder: Path, page: Node, tmp_path: Path) -> None:
    first = next(str(child) for child in page.one("pre").children)
    words = first.splitlines()[0].split()
    assert words[:2] == ["belated", "league"]
    words[words.index("--out") + 1] = str(tmp_path)
    assert main(words[1:]) == 0
    assert (tmp_path / "final.csv").read_bytes() == (folder / "final.csv").read_bytes()


@pytest.mark.slow
def test_the_same_league_gives_the_same_page(folder: Path) -> None:
    assert main(["report", str(folder)]) == 0
    before = (folder / "report.html").read_bytes()
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == before


def test_a_league_of_your_own_has_a_report(tmp_path: Path, no_drawing: None) -> None:
    """One learner that is not in the catalogue, one cell that is not in the suite: no command plays them."""
    text = write_own(tmp_path, "mine/none", "mine").read_text()
    page = read_html(text)
    assert "(mine/none, mine)" in page.one("main").text
    assert "robust" not in text
    assert not page.all("pre")
    assert not page.all(id="by-family")  # one family: the ranking says it all


def write_own(folder: Path, cell: str, learner: str) -> Path:
    """Play a small league of one cell and one learner of these names, and write its report."""
    cells = (Cell(cell, "stochastic:arms=3", "none", 300),)
    plan = league.LeaguePlan(cells, league.competitors([PythonLearner(learner, PlainExp3)]), replications=2)
    return report.write(folder, league.play(plan, folder))


def test_names_are_shown_as_text(tmp_path: Path, no_drawing: None) -> None:
    """Names of cells and learners are whatever their user likes, also HTML."""
    cell, learner = "<script>x()</script>", '"><b id="x">'
    page = read_html(write_own(tmp_path, cell, learner).read_text())
    assert not page.all("script")
    assert not page.all("b")
    ranking, numbers = page.all("table")[:2]
    assert [row[0] for row in ranking.rows()] == [learner]
    assert numbers.rows()[0][0] == learner
    assert header(numbers)[-1] == cell
    assert page.texts("figcaption") == [cell]
    assert learner in page.all("img")[1].attributes["alt"]
    assert f"({cell}, {learner})" in page.one("main").text
