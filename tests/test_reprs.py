"""What a notebook or a prompt shows of results: one line of text, or a small table whose text is escaped."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import Bandit, audit, learners, simulate, suite
from belated.league import ComparisonPlan, League, LeaguePlan, compare, competitors, play, rank
from belated.learners import PythonLearner
from belated.simulation import Simulation, replay
from belated.templates.display import MOST_ROWS, counted, html_table, largest, number
from support.plain_exp3 import PlainExp3


class Parsed(HTMLParser):
    """The caption and the rows of a table; tags must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.caption = ""
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "caption":
            self.caption += data
        else:
            assert self.open[-1] in ("td", "th")
            self.rows[-1][-1] += data


def parsed(thing: Any) -> Parsed:
    table = Parsed(thing._repr_html_())
    assert table.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert table.caption.startswith(repr(thing))
    assert len({len(row) for row in table.rows}) == 1
    return table


@pytest.fixture(scope="module")
def result() -> Simulation:
    problem = "bernoulli:means=[0.2,0.8]"
    return simulate(["robust", "damped"], problem, "constant:delay=3", rounds=2000, replications=4, keep_trace=True)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12345.0, "12,345"), (12345.6, "12,346"), (17.26, "17.3"), (0.001234, "0.00123"), (0.0, "0"), (-3.0, "-3")]
    + [(float("nan"), "–"), (float("inf"), "∞"), (float("-inf"), "-∞"), (1.5e13, "1.5e+13")],
)
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown


def test_counts() -> None:
    assert [counted(n, "arm") for n in (0, 1, 1000)] == ["0 arms", "1 arm", "1,000 arms"]


def test_tables_escape_and_align() -> None:
    html = html_table("<i>", ["a&b", "c"], [["<script>alert('x')</script>", "1"]])
    assert Parsed(html).rows == [["a&b", "c"], ["<script>alert('x')</script>", "1"]]
    assert Parsed(html).caption == "<i>"
    assert "<script" not in html
    assert "<i>" not in html
    assert html.count("text-align: right") == 2


def test_simulation(result: Simulation) -> None:
    _, *rows = parsed(result).rows
    assert [row[1] for row in rows] == [result.final("robust").text, result.final("damped").text, "600 ± 0"]
    assert rows[0][0] == "robust"
    assert "damped" in rows[1][0]
    assert "longest_delay" in rows[1][0]


def test_trace(result: Simulation) -> None:
    trace = result.traces[0][0]
    rows = parsed(trace).rows
    for arm in (0, 1):
        chosen = trace.arms == arm
        numbers = chosen.sum(), np.nanmean(trace.losses[chosen]), trace.distributions[-1, arm]
        assert rows[1 + arm] == [str(arm), *(number(each) for each in numbers)]
    assert len(rows) == 3
    empty = replay("ucb", np.empty((0, 2)), [], [])
    assert parsed(empty).rows[1:] == [["0", "0", "–", "–"], ["1", "0", "–", "–"]]


def test_comparison() -> None:
    plan = ComparisonPlan(
        ("ucb", "uniform"), ("stochastic:arms=3",), ("none", "constant:delay=1"), rounds=4, replications=2
    )
    outcome = compare(plan)
    table = parsed(outcome)
    assert table.rows[0][2:] == ["ucb", "uniform"]
    assert [row[2:] for row in table.rows[1:]] == [
        [cell.final(name).text for name in ("ucb", "uniform")] for cell in outcome.cells
    ]
    assert table.rows[1][:2] == [outcome.cells[0].environment.title, outcome.cells[0].delays.title]


def test_league(tmp_path: Path) -> None:
    cells = tuple(cell.at(1000) for cell in suite.find(["stochastic-k2/none", "stochastic-k10/by-arm"]))
    plan = LeaguePlan(cells, competitors(["uniform", "ucb", "exp3_delayed"]), replications=2)
    league = play(plan, tmp_path, progress=False)
    ranked = rank(league)
    rows = parsed(league).rows
    assert rows[0][2:4] == ["even", "slow-arms"]
    assert [row[0] for row in rows[1:]] == [each.learner for each in ranked]
    for row, each in zip(rows[1:], ranked, strict=True):
        means = {here.family: number(here.geometric) for here in each.families}
        assert row[1:] == [number(each.geometric), means["even"], means.get("slow-arms", "–"), str(each.cells)]
    assert {row[0]: row[-1] for row in rows[1:]} == {"uniform": "2", "ucb": "2", "exp3_delayed": "1"}
    # where all cells of a learner failed, it is last and has no mean
    failed = League(plan, {name: league.results[name] for name in ["stochastic-k10/by-arm"]}, {"x": "an error"})
    assert parsed(failed).rows[-1] == ["exp3_delayed", "–", "0"]
    assert [each.learner for each in rank(failed)][-1] == "exp3_delayed"
    assert [row[1:] for row in parsed(League(plan, {})).rows[1:]] == [["–", "0"]] * 3


def test_audit(result: Simulation) -> None:
    done = audit.run("robust", "stochastic:arms=3,gap=0.5", "constant:delay=2", rounds=300, replications=2)
    rows = parsed(done).rows
    assert [(row[0], row[2], row[3]) for row in rows[1:]] == [
        (each.name, number(each.bound), number(each.measured)) for each in done.findings
    ]
    assert {row[4] for row in rows[1:]} <= {"yes", "–"}
    first, second, *rest = done.findings
    broken = audit.Audit("x", "y", 2, 1, 1, None, (first._replace(holds=False), second._replace(holds=None), *rest))
    assert first.name in repr(broken)
    assert first.name not in repr(done)
    assert [row[4] for row in parsed(broken).rows[1:3]] == ["NO", "–"]


def test_bandit() -> None:
    bandit = Bandit(["<b>blue</b>", "green"], "ucb", seed=0)
    bandit.observe(bandit.decide(), loss=0.25)
    bandit.decide()
    assert "learner='ucb', rounds=2, outstanding=1" in repr(bandit)
    twin = Bandit.from_bytes(bandit.to_bytes())
    rows = parsed(bandit).rows
    assert [row[0] for row in rows[1:]] == ["<b>blue</b>", "green"]
    assert [row[1] for row in rows[1:]] == [number(each) for each in bandit.distribution]
    assert [row[2] for row in rows[1:]] == [number(each) for each in bandit.loss_estimates]
    assert [twin.decide() for _ in range(5)] == [bandit.decide() for _ in range(5)]  # looking changes nothing


def test_many_arms_are_cut_to_the_likeliest() -> None:
    values = np.zeros(1000)
    values[[3, 500, 999]] = [1.0, 3.0, 2.0]
    assert largest(values) == [*range(18), 500, 999]
    rows = parsed(Bandit(1000, seed=0)).rows
    assert len(rows) == 1 + MOST_ROWS + 1
    assert rows[-1] == ["…", "", ""]
    trace = replay("uniform", np.zeros((1, 30)), [0], [0.99])
    rows = parsed(trace).rows
    assert len(rows) == 1 + MOST_ROWS + 1
    assert rows[-2][0] == "29"
    assert rows[-1][0] == "…"


def test_learners_and_cells() -> None:
    assert "'robust', delay_constant=49" in repr(learners.find("robust"))
    assert "'robust:delay_constant=1'" in repr(learners.tune("robust:delay_constant=1"))
    assert "'mine'" in repr(PythonLearner("mine", PlainExp3))
    assert "'stochastic-k2/100'" in repr(suite.suite["stochastic-k2/100"])
    for each in [*learners.catalogue.values(), *suite.suite.values()]:
        assert "\n" not in repr(each)
        assert len(repr(each)) < 200
