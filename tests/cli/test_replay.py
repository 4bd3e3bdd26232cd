"""`belated replay`: of a file, as tables, as JSON and as a page; of an experiment of the service."""

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from belated.cli.main import main
from belated.inference import Estimate
from belated.logs import read_log
from belated.replay import Range, replay_log
from belated.replay.values import METHODS
from belated.report import replays
from support.browser import Tab, check_readable, check_width, chromium
from support.commands import refused_line
from support.elements import Node, read_html

Captured = pytest.CaptureFixture[str]
RATES = {"blue": 0.1, "<b>green</b>": 0.2, "red": 0.4}


def write_log(path: Path, rows: int = 1200, seed: int = 3, **changes: Any) -> Path:
    """Write a split of three pages: purchases take about two hours, and most visitors never buy."""
    rng = np.random.default_rng(seed)
    labels = list(RATES)
    lines = ["time,arm,propensity,reward,outcome_time"]
    for k in range(rows):
        label = labels[int(rng.integers(3))]
        minute = 5 * k
        took = int(rng.exponential(120.0))
        buys = rng.random() < RATES[label] and minute + took <= 5 * rows
        came = f"{moment(minute + took)}" if buys else ""
        lines.append(f"{moment(minute)},{label},{1 / 3!r},{int(buys)},{came}")
    path.write_text("\n".join(lines) + "\n")
    return path


def moment(minutes: int) -> str:
    day, rest = divmod(minutes, 1440)
    return f"2026-03-{day + 1:02d}T{rest // 60:02d}:{rest % 60:02d}:00+01:00"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("logs") / "log.csv")


ASKED = ["--learners", "guarded", "uniform", "--deadline-after", "12h"]


class Shown(NamedTuple):
    """What a command has printed and written."""

    out: str
    err: str
    page: Path


@pytest.fixture(scope="module")
def shown(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    page = tmp_path_factory.mktemp("page") / "folder" / "replay.html"
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["replay", str(log), *ASKED, "--html", str(page)]) == 0
    return Shown(out.getvalue(), err.getvalue(), page)


def test_tables_and_sentences(shown: Shown) -> None:
    lines = shown.out.splitlines()
    assert "1,200 decisions of 3 arms" in shown.out
    assert "red wins" in shown.out
    assert [line for line in lines if line.startswith("guarded would")]
    assert not [line for line in lines if line.startswith("uniform would") and "more" in line]
    assert "outcome_time is 'outcome_time'" in shown.err
    assert str(shown.page) in shown.err


def test_json_agrees_with_itself(log: Path, capsys: Captured) -> None:
    assert main(["replay", str(log), *ASKED, "--json", "--alpha", "0.1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decisions"] == sum(arm["decisions"] for arm in found["arms"]) == 1200
    assert found["outcomes"] == sum(arm["outcomes"] for arm in found["arms"])
    assert found["old_enough"] == 1200 - 12 * 60 // 5 == found["rows_replayed"]
    assert [each["learner"] for each in found["learners"]] == ["guarded", "uniform"]
    guarded, uniform = found["learners"]
    assert guarded["estimates"]["dr"]["low"] > uniform["estimates"]["dr"]["value"]
    assert guarded["gain"]["low"] > 0 > uniform["gain"]["low"]
    assert found["delays"]["unit"] == "seconds"
    assert found["delays"]["overall"]["quantiles"] == [None, None, None]  # most never come
    assert 3600 < found["delays"]["by_outcome"][0]["quantiles"][0] < 3 * 3600
    assert found["estimates"]["winner"] == "red"
    assert found["estimates"]["alpha"] == found["alpha"] == 0.1
    assert found["notes"]


def test_a_refusal_says_why(tmp_path: Path, capsys: Captured) -> None:
    """Without probabilities nothing is estimated, unless it is said how arms were assigned."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,1\nb,0\n" * 200)
    for more, is_estimated in (([], False), (["--assigned", "uniform"], True)):
        assert main(["replay", str(path), "--learners", "ucb", "--json", *more]) == 0
        found = json.loads(capsys.readouterr().out)
        (learner,) = found["learners"]
        assert bool(learner["estimates"]) == is_estimated
        assert bool(learner["refused"]) != is_estimated
        assert found["delays"] is None


def test_learners_are_in_the_same_order_everywhere(log: Path) -> None:
    """The best first, whatever was asked for first; then who was refused."""
    found = replay_log(read_log(log), ["uniform", "damped", "guarded"], deadline_after="12h")
    assert [row[0] for row in replays.value_rows(found)] == ["guarded", "uniform", "as logged"]
    assert [row[0] for row in replays.share_rows(found)] == ["guarded", "uniform"]
    upwards = [label.get_text() for label in replays.draw_values(found).axes[0].get_yticklabels()]
    assert upwards == ["uniform", "guarded"]
    told = replays.value_sentences(found)
    assert told[0].startswith("guarded ")
    (refused,) = [sentence for sentence in told if "'damped'" in sentence]
    assert "longest_delay" in refused


def test_numbers_have_as_many_digits_as_those_beside_them() -> None:
    assert replays._interval(Estimate(0.065, 0.05, 0.0731)) == "0.0650 (0.0500–0.0731)"
    assert replays._interval(Range(0.0, 1.0)) == "0.00–1.00"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--html page.txt", ["html", "'page.txt'", ".html"]),
        ("--assigned uniform", ["assigned", "'uniform'"]),
        ("--deadline 3 --deadline-after 1h", ["deadline", "deadline_after"]),
        ("--missing-loss 1", ["missing_loss", "1.0"]),
        ("--learners gard", ["'gard'"]),
        ("--control pink", ["'pink'"]),
        ("--deadline-after 10", ["deadline_after", "'10'", "10d"]),
        ("--deadline-after soon", ["deadline_after", "'soon'"]),
        ("--most-rows 0", ["most_rows", "0"]),
        ("--arm nix", ["'nix'"]),
    ],
)
def test_what_is_refused(words: str, names: list[str], log: Path, capsys: Captured) -> None:
    refused_line(capsys, ["replay", str(log), *words.split()], *names)


def test_what_a_deadline_leaves_out_is_told(log: Path, capsys: Captured) -> None:
    assert main(["replay", str(log), "--learners", "uniform", "--deadline-after", "1h"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^\d+ of \d+ outcomes .*[\d.]+ % of <b>green", out, flags=re.MULTILINE)


def test_without_a_deadline_there_is_no_value(log: Path, capsys: Captured) -> None:
    """Missing rewards may be anything: ranges, and nobody is called the best."""
    assert main(["replay", str(log), "--learners", "guarded", "uniform"]) == 0
    out = capsys.readouterr().out
    assert not [line for line in out.splitlines() if line.startswith("guarded would")]
    assert re.search(r"guarded \*? +0\.\d+–[01]", out)
    assert main(["replay", str(log), "--learners", "guarded", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (guarded,) = found["learners"]
    for told in (found["logged"], guarded["gain"], *guarded["estimates"].values()):
        assert told["value"] is None
        assert told["low"] < told["high"]


def test_ranges_are_drawn_without_a_point(log: Path) -> None:
    """By every method a line for each learner; the log as a band."""
    found = replay_log(read_log(log), ["guarded", "uniform"])
    axes = replays.draw_values(found).axes[0]
    assert [len(points.get_xdata()) for points in axes.lines] == [0] * len(METHODS)
    assert [len(lines.get_segments()) for lines in axes.collections] == [2] * len(METHODS)
    assert replays.value_rows(found)[-1][1] == replays._interval(found.logged)


def test_an_arm_that_may_be_a_slip(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,1\nb,0\n" * 300 + "bb,1\n")
    assert main(["replay", str(path), "--learners", "ucb", "--assigned", "shares"]) == 0
    assert "bb (1)" in capsys.readouterr().out


def test_the_page(log: Path, shown: Shown) -> None:
    """One file: nothing loaded, no script, labels as text, every figure with words for those who cannot see."""
    text = shown.page.read_text()
    page = read_html(text)
    assert [each for each in page if {"src", "href"} & set(each.attributes) and not is_inside(each)] == []
    assert not page.all("script")
    assert "@import" not in text
    assert "url(" not in text
    images = page.all("img")
    assert len(images) == 4
    assert all(len(image.attributes["alt"]) > 20 for image in images)
    main = page.one("main")
    assert not main.all("b")
    assert [name for name in ("<b>green</b>", "guarded would", "red wins") if name not in main.text] == []
    assert f"belated replay {log} --learners guarded uniform --deadline-after 12h" in main.text


def is_inside(node: Node) -> bool:
    """Whether what an element names is in the page itself."""
    return all(node.attributes.get(name, "#").startswith(("#", "data:")) for name in ("src", "href"))


@pytest.mark.slow
def test_the_page_in_a_browser(shown: Shown) -> None:
    """Every figure is drawn; it fits a phone, and can be read in both themes."""
    with chromium() as browser:
        tab = Tab(browser.new_page(viewport={"width": 1300, "height": 900}))
        tab.page.goto(f"file://{shown.page}")
        tab.page.wait_for_load_state("networkidle")
        assert (tab.asked, tab.said) == ([f"file://{shown.page}"], [])
        drawn = tab.page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 300)")
        assert drawn == [True] * 4
        tab.page.locator("summary").click()
        for scheme in ("light", "dark"):
            check_readable(tab.page, scheme, {"soft", "header", "code", "text"})
        for width in (360, 1300):
            check_width(tab.page, width)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (float("inf"), "seconds", "later"),
        (float("nan"), "seconds", "–"),
        (0.0, "seconds", "0 s"),
        (0.25, "seconds", "250 ms"),
        (59.0, "seconds", "59 s"),
        (90.0, "seconds", "1.5 min"),
        (7200.0, "seconds", "2 h"),
        (86400.0 * 12.34, "seconds", "12.3 d"),
        (1307.0, "decisions", "1,307"),
    ],
)
def test_delays_as_people_read_them(value: float, unit: str, words: str) -> None:
    assert replays.delay(value, unit) == words


def test_values_in_units_of_their_own(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("arm,minutes,propensity\n" + "".join(f"{'ab'[k % 2]},{10 + k % 5},0.5\n" for k in range(60)))
    arguments = ["replay", str(path), "--learners", "uniform", "--lowest", "10", "--highest", "14", "--json"]
    assert main([*arguments, "--better", "lower"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [note for note in found["notes"] if "14 to 10" in note]
    assert found["estimates"]["arms"][0]["mean"]["value"] == pytest.approx(0.5)
    path.write_text("arm,reward,propensity\na,1,0.5\nb,0,0.5\n")
    refused_line(capsys, arguments, "--lowest", "10")
