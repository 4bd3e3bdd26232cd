"""`belated replay`: of a file, as tables, as JSON and as a page in a real browser; of an experiment of the service."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from belated.cli.main import main
from belated.inference import Estimate
from belated.logs import read_log
from belated.replay import replay_log
from belated.report import replays
from support.browser import Tab, check_readable, check_width, chromium

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


def test_tables_and_sentences(log: Path, capsys: Captured) -> None:
    assert main(["replay", str(log), *ASKED]) == 0
    out, err = capsys.readouterr()
    assert "1,200 decisions of 3 arms" in out
    assert "No clear sign that delays depend on the arm (p = " in out
    assert "How many outcomes come at all depends on the arm (p = " in out
    assert "half come within" in out
    assert "Only good outcomes are in the log" in out
    assert "guarded would have earned more than the log" in out
    assert "came, " in out
    assert "taken as missing at the deadline" in out
    assert "red wins: it is better than every other arm" in out
    assert "are younger than the deadline, and are left out of these rewards" in out
    assert "outcome_time is 'outcome_time'" in err
    assert "have reward 0 and no outcome_time" in err


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
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,1\nb,0\n" * 200)
    assert main(["replay", str(path), "--learners", "ucb"]) == 0
    out = capsys.readouterr().out
    assert "The log does not say when its outcomes came" in out
    assert "Cannot be estimated for ucb: the log does not say with which probability its arms were chosen" in out
    assert "rejection" not in out
    assert main(["replay", str(path), "--learners", "ucb", "--assigned", "uniform"]) == 0
    assert "rejection" in capsys.readouterr().out


def test_learners_are_in_the_same_order_everywhere(log: Path) -> None:
    """The best first, whatever was asked for first; then who was refused."""
    found = replay_log(read_log(log), ["uniform", "damped", "guarded"], deadline_after="12h")
    assert [row[0] for row in replays.value_rows(found)] == ["guarded", "uniform", "as logged"]
    assert [row[0] for row in replays.share_rows(found)] == ["guarded", "uniform"]
    upwards = [label.get_text() for label in replays.draw_values(found).axes[0].get_yticklabels()]
    assert upwards == ["uniform", "guarded"]
    told = replays.value_sentences(found)
    assert told[0].startswith("guarded would have earned more than the log")
    assert (
        "Cannot be estimated for damped: learner 'damped' must know longest_delay, which a log does not tell." in told
    )


def test_numbers_have_as_many_digits_as_those_beside_them() -> None:
    assert replays._interval(Estimate(0.065, 0.05, 0.0731)) == "0.0650 (0.0500–0.0731)"
    assert replays._interval(Estimate(0.5, 0.0, 1.0), is_known=False) == "0.00–1.00"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--html", "page.txt"], "html is 'page.txt'; a file that ends in .html is needed"),
        (["--assigned", "uniform"], "assigned is 'uniform', but the log has propensities"),
        (["--deadline", "3", "--deadline-after", "1h"], "deadline and deadline_after are both given"),
        (["--missing-loss", "1"], "missing_loss is 1.0, but there is no deadline"),
        (["--learners", "gard"], "unknown learner 'gard'"),
        (["--control", "pink"], "unknown control 'pink'"),
        (
            ["--deadline-after", "10"],
            "deadline_after is '10' without a unit, and the log has dates; a time such as 10d",
        ),
        (["--deadline-after", "soon"], "deadline_after is 'soon'; a time such as 7d, 12h, 30m or 45s is needed"),
        (["--most-rows", "0"], "most_rows is 0; a whole number of at least 1 is needed"),
        (["--arm", "nix"], "has no column 'nix'"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, log: Path, capsys: Captured) -> None:
    assert main(["replay", str(log), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_what_a_deadline_leaves_out_is_told(log: Path, capsys: Captured) -> None:
    assert main(["replay", str(log), "--learners", "uniform", "--deadline-after", "1h"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\d+ of \d+ outcomes came after the deadline and do not count: [\d.]+ % of <b>green", out)


def test_without_a_deadline_there_is_no_value(log: Path, capsys: Captured) -> None:
    """Missing rewards may be anything: bounds, and nobody is called the best."""
    assert main(["replay", str(log), "--learners", "guarded", "uniform"]) == 0
    out = capsys.readouterr().out
    assert "may be worth anything from 0 to 1" in out
    assert "earned more" not in out
    assert re.search(r"guarded \*? +0\.\d+–[01]", out)


def test_an_arm_that_may_be_a_slip(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,1\nb,0\n" * 300 + "bb,1\n")
    assert main(["replay", str(path), "--learners", "ucb", "--assigned", "shares"]) == 0
    assert "Arms with very few decisions: bb (1)." in capsys.readouterr().out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def test_the_page(log: Path, browser: Browser, tmp_path: Path, capsys: Captured) -> None:
    """One file: every figure drawn, nothing loaded, hostile labels as text, fits a phone, readable in both themes."""
    made = tmp_path / "folder" / "replay.html"
    assert main(["replay", str(log), *ASKED, "--html", str(made)]) == 0
    assert f"written: {made}" in capsys.readouterr().err
    tab = Tab(browser.new_page(viewport={"width": 1300, "height": 900}))
    tab.page.goto(f"file://{made}")
    tab.page.wait_for_load_state("networkidle")
    assert (tab.asked, tab.said) == ([f"file://{made}"], [])
    images = tab.page.locator("img")
    assert images.count() == 4
    for k in range(4):
        assert images.nth(k).evaluate("image => image.complete && image.naturalWidth > 300")
        assert images.nth(k).get_attribute("alt")
    assert tab.page.locator("main b").count() == 0
    text = tab.page.inner_text("main")
    assert "<b>green</b>" in text
    assert "guarded would have earned more" in text
    assert "red wins" in text
    assert f"belated replay {log} --learners guarded uniform --deadline-after 12h" in text
    tab.page.locator("summary").click()
    for scheme in ("light", "dark"):
        check_readable(tab.page, scheme, {"soft", "header", "code", "text"})
    for width in (360, 1300):
        check_width(tab.page, width)
    tab.page.close()


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
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
def test_delays_as_people_read_them(value: float, unit: str, shown: str) -> None:
    assert replays.delay(value, unit) == shown


def test_values_in_units_of_their_own(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("arm,minutes,propensity\n" + "".join(f"{'ab'[k % 2]},{10 + k % 5},0.5\n" for k in range(60)))
    arguments = ["replay", str(path), "--learners", "uniform", "--lowest", "10", "--highest", "14", "--json"]
    assert main([*arguments, "--better", "lower"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "Values from 14 to 10 are shown as rewards from 0 to 1." in found["notes"]
    assert found["estimates"]["arms"][0]["mean"]["value"] == pytest.approx(0.5)
    path.write_text("arm,reward,propensity\na,1,0.5\nb,0,0.5\n")
    assert main(arguments) == 2
    assert "--lowest is 10, but no column of values was read" in capsys.readouterr().err
