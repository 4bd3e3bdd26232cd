"""The page of an experiment: what it shows, and the story of a decision."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from belated.api.types import ArmTimeline, Deadline, ExperimentTimeline, LastDay
from belated.service.pages.experiment import grouped
from support.elements import Node, read_html
from support.pages import HOSTILE, visiting
from support.serving import KINDS, Server, Stores
from support.waiting import until

Show = Callable[..., Node]


def given(page: Node, id: str) -> Any:
    """What the page has for its script."""
    return json.loads("".join(str(child) for child in page.one("script", id=id).children))


def fact(page: Node, name: str) -> str:
    return page.all(data_show=name)[0].text


def test_an_experiment_is_shown(show: Show) -> None:
    """Labels as text, wherever they stand, and numbers with their thousands."""
    page = show("/experiments/button")
    assert page.one("h1").text == "button"
    assert fact(page, "verdict")
    assert fact(page, "rounds") == "300"
    rows = page.one(id="arms").all("tr")
    assert [row.attributes["data-arm"] for row in rows] == ["blue", "green", HOSTILE]
    assert [row.one("bdi").text for row in rows] == ["blue", "green", HOSTILE]
    assert [len(row.all(class_="badge")) for row in rows] == [0, 0, 1]  # it is retired
    assert rows[0].one(data_show="mean").text == "0"
    assert sum(int(row.one(data_show="decisions").text) for row in rows) == 300
    assert not page.all("b") or all(not each.text.startswith('"bold"') for each in page.all("b"))
    assert len(page.all("script")) == 4  # those of the page, and what it gives them
    assert [each["label"] for each in given(page, "data")["arms"]] == ["blue", "green", HOSTILE]
    assert [row[0] for row in page.one(id="history").rows()]


def test_the_answer_is_shown_in_its_parts(server: Server, show: Show) -> None:
    """A part that there is not is hidden, and takes no room."""

    def parts(name: str) -> set[str]:
        page = show(f"/experiments/{name}")
        hidden = {child.attributes.get("data-show") for each in page if "hidden" in each.attributes for child in each}
        return {part for part in ("progress", "remaining", "candidates", "named", "level") if part not in hidden}

    with server.client() as client:
        for name, rates in (("sure", (0.0, 1.0)), ("unsure", (0.4, 0.5))):
            client.create(name, ["a", "b"], seed=1, share_floor=0.2)
            made = client.decide_many(name, 400)
            goal = dict(zip("ab", rates, strict=True))
            client.observe_many(name, rewards={d.id: float(k % 10 < 10 * goal[str(d.arm)]) for k, d in enumerate(made)})
        known = client.estimates("unsure")
    until(lambda: fact(show("/experiments/sure"), "verdict") and fact(show("/experiments/unsure"), "verdict"))
    assert parts("sure") == set()
    page = show("/experiments/unsure")
    assert {"progress", "remaining"} <= parts("unsure")
    assert known.progress is not None
    assert fact(page, "progress") == str(int(100 * known.progress))
    bar = page.one(class_="evidence")
    assert bar.attributes["role"] == "img"
    assert fact(page, "progress") in bar.attributes["aria-label"]
    assert bar.one(class_="had").attributes["width"] == f"{fact(page, 'progress')}%"
    assert fact(page, "meaning")
    out = [row.one(class_="out") for row in show("/experiments/sure").one(id="arms").all("tr")]
    assert ["hidden" in each.attributes for each in out] == [False, True]
    for each in (page, show("/experiments/sure"), show("/")):
        assert "(p =" not in each.text


def test_a_page_loads_what_is_here_and_nothing_inline(visitor: httpx.Client) -> None:
    for path in ("/", "/experiments/button", "/new", "/simulate", "/experiments/nobody"):
        answer = visitor.get(path)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
        for each in read_html(answer.text):
            assert not {name for name in each.attributes if name.startswith("on") or name == "style"}
            if each.tag in ("script", "link", "img"):
                source = each.attributes.get("src") or each.attributes.get("href")
                is_ours = source is None or source.startswith("/static/") or source == "data:,"
                assert is_ours, source
                assert source or each.attributes["type"] == "application/json"


def test_units_are_shown(show: Show) -> None:
    page = show("/experiments/minutes")
    means = [row.one(data_show="mean").text for row in page.one(id="arms").all("tr")]
    assert means == ["12", "12"]
    assert given(page, "data")["scale"] == [0.0, 30.0, False]
    settings = " ".join(page.one("dl", class_="settings").texts("dd"))
    assert "from 0 to 30" in settings
    assert {row[2] for row in page.one(id="latest").rows()} == {"value 12"}


def test_settings_are_shown_to_whoever_may_read(server: Server, show: Show) -> None:
    with server.client() as client:
        minutes = {"lowest": 0, "highest": 60, "better": "lower"}
        client.create("set-up", ["a", "b"], learner="balanced", outcome=minutes, reports="sum")
        client.create("late", ["a", "b"], missing=Deadline(90.0, 1.0), share_floor=0.1)
    learner, units, reports, _, _ = show("/experiments/set-up").one("dl", class_="settings").texts("dd")
    assert learner == "balanced"
    assert "from 0 to 60, lower" in units
    assert reports
    _, other, first, missing, shares = show("/experiments/late").one("dl", class_="settings").texts("dd")
    assert other != units
    assert first != reports
    assert "90 seconds" in missing
    assert "10 %" in shares


def test_of_many_arms_a_hundred_are_listed(server: Server, show: Show) -> None:
    with server.client() as client:
        client.create("crowded", list(range(150)))
        decisions = client.decide_many("crowded", 600)
    page = show("/experiments/crowded")
    rows = page.one(id="arms").all("tr")
    assert len(rows) == 100
    assert sum("50 more" in text for text in page.one(id="winner").texts("p")) == 1
    counts = {str(k): sum(each.arm == k for each in decisions) for k in range(150)}
    shown = {row.attributes["data-arm"]: int(row.one(data_show="decisions").text) for row in rows}
    assert shown == {label: counts[label] for label in shown}
    assert min(shown.values()) >= max(count for label, count in counts.items() if label not in shown)


def test_the_decision_that_holds_up_the_verdict_is_named(server: Server, show: Show) -> None:
    """One without an outcome holds up all later ones; counted in another way it does not."""
    with server.client() as client:
        client.create("stuck", ["a", "b"])
        settled = client.decide_many("stuck", 20)
        client.decide("stuck", "lost/17")
        settled += client.decide_many("stuck", 30)
        client.observe_many("stuck", rewards={each.id: float(each.arm == "a") for each in settled})
        for count, used in (("settled", 20), ("arrived", 50)):
            known = until(lambda count=count: given(show(f"/experiments/stuck?count={count}"), "known"))  # type: ignore[misc]
            expected = {arm.arm: arm.outcomes for arm in client.estimates("stuck", outcomes=count).arms}
            assert {each["arm"]: each["outcomes"] for each in known["estimates"]["arms"]} == expected
            assert sum(expected.values()) == used
            waits = known["waits_for"]
            assert (waits and (waits["id"], waits["round"])) == (("lost/17", 21) if count == "settled" else None)
    page = show("/experiments/stuck/decisions?id=lost%2F17")
    assert len(page.one(aria_label="Story").rows()) == 2
    assert page.one("input", id="id").attributes["value"] == "lost/17"


def test_which_outcomes_cannot_be_counted_is_said(visitor: httpx.Client) -> None:
    assert visitor.get("/experiments/minutes?count=all").status_code == 422
    assert visitor.get("/experiments/minutes/live?count=all").status_code == 422


def test_what_never_came_is_told_apart(tmp_path: Path) -> None:
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log") as server, visiting(server) as http:
        with server.client() as client:
            client.create("shy", ["a", "b"], missing=Deadline(3600.0, 1.0))
            made = client.decide_many("shy", 50)
            client.observe_many("shy", rewards={each.id: 1.0 for each in made[:10]})
        server.pass_time(3601.0)

        def missed() -> Node | None:
            page = read_html(http.get("/experiments/shy").text)
            return page if fact(page, "defaults") == "40" else None

        page = until(missed)
    assert (fact(page, "used"), fact(page, "outstanding")) == ("10", "0")
    assert sum(arm["defaults"] for arm in given(page, "data")["timeline"]["arms"]) == 40
    assert {row[2] for row in page.one(id="latest").rows()} == {"no outcome in time"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_story_of_a_decision(kind: str, tmp_path: Path) -> None:
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("basket", ["a", "b"], outcome={"lowest": 0, "highest": 200}, reports="sum", limits=None)
        hostile = "visit<17>&amp;"
        made = client.decide("basket", hostile)
        client.observe("basket", hostile, value=20.0, report="first")
        client.observe("basket", hostile, value=29.0, report="second", final=True)
        with visiting(server) as http:
            answer = http.get("/experiments/basket/decisions", params={"id": hostile})
            assert answer.status_code == 200
            page = read_html(answer.text)
            assert hostile in page.one("h1").text
            (_, decided, _), *reports, (_, settled, _) = rows = page.one(aria_label="Story").rows()
            assert f"'{made.arm}'" in decided
            assert decided.endswith(" 0.5")
            assert ["'first'" in reports[0][1], "value 20" in reports[0][1]] == [True, True]
            assert ["'second'" in reports[1][1], "value 29, together 49" in reports[1][1]] == [True, True]
            assert "value 49" in settled
            assert [row[2] for row in rows] == ["BELATED_ADMIN_KEY"] * 4
            assert http.get("/experiments/basket/decisions?id=nobody").status_code == 404
            assert http.get("/experiments/nobody/decisions?id=1").status_code == 404


def test_the_story_of_a_decision_is_of_that_one_alone(show: Show, server: Server) -> None:
    """Also of one that fell to an arm that came later."""
    with server.client() as client:
        client.create("stories", ["a", "b"])
        first, second = client.decide_many("stories", 2)
        client.observe_many("stories", rewards={first.id: 0.0, second.id: 1.0})
        client.add_arm("stories", "new")
        made = client.decide_many("stories", 50)
        new = next(each for each in made if each.arm == "new")
    story = show(f"/experiments/stories/decisions?id={first.id}").one(aria_label="Story").rows()
    assert len(story) == 2
    assert "reward 0" in story[1][1]
    assert "'new'" in show(f"/experiments/stories/decisions?id={new.id}").one(aria_label="Story").rows()[0][1]


def test_a_damaged_experiment_is_told_and_leaves_others_alone(tmp_path: Path) -> None:
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log") as server:
        with server.client() as client:
            client.create("whole", ["a", "b"])
            client.create("broken", ["a", "b"])
            client.decide_many("broken", 10)
        server.terminate()
        with closing(sqlite3.connect(server.store.removeprefix("sqlite:///"))) as database, database:
            database.execute("UPDATE events SET arm = 7 WHERE number = 5")
            database.execute("DELETE FROM snapshots")
        server.start()
        with visiting(server) as http:
            for path in ("/", "/?status=attention"):
                answer = http.get(path)
                assert answer.status_code == 200
                cards = {card.one("h2").text: card for card in read_html(answer.text).all("li", class_="card")}
                assert "broken" in cards["broken"].one("p", class_="problem").text
            answer = http.get("/experiments/broken")
            assert answer.status_code == 500
            assert "arm 7" in read_html(answer.text).one(role="alert").text
            assert http.get("/experiments/whole").status_code == 200


def test_export_streams_every_event(visitor: httpx.Client, server: Server) -> None:
    with server.client() as client:
        events = client.experiment("minutes").events
    answer = visitor.get("/experiments/minutes/export?format=csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="minutes.csv"'
    assert answer.text.count("\n") == events + 1
    assert visitor.get("/experiments/minutes/export?format=xml").status_code == 422


def test_fallbacks_that_were_told_one_after_another_are_one_line(server: Server, show: Show) -> None:
    with server.client() as client:
        client.create("fallen", ["a", "b"])
        for k in range(5):
            client.report_fallbacks("fallen", 3, arm="ab"[k % 2], id=f"f{k}")
        client.add_arm("fallen", "c")
        client.report_fallbacks("fallen", 1, arm="c", id="last")
    lines = [row[1] for row in show("/experiments/fallen").one(id="changes").rows()]
    assert len(lines) == 4
    for line, words in zip(lines, (["1 ", "'c'"], ["'c'"], ["15 ", "'a'"], []), strict=True):
        assert [word for word in words if word not in line] == []


def timeline(stretches: int) -> ExperimentTimeline:
    arm = ArmTimeline("a", list(range(stretches)), [1] * stretches, [0.5] * stretches, 3)
    day = LastDay(0.0, 1800.0, [], [])
    return ExperimentTimeline("one", 100.0, 2.0, [arm], list(range(10, 10 + stretches)), [], [], None, day)


@pytest.mark.parametrize("stretches", [1, 2, 59, 60, 61, 120, 239, 240])
def test_charts_have_at_most_sixty_points_and_lose_nothing(stretches: int) -> None:
    before = timeline(stretches)
    after = grouped(before, 60)
    (arm,) = after.arms
    assert len(arm.decisions) == len(arm.outcomes) == len(after.outstanding) <= 60
    assert sum(arm.decisions) == sum(range(stretches))
    assert sum(arm.losses) == stretches / 2
    assert arm.defaults == 3
    assert after.outstanding[-1] == before.outstanding[-1]
    assert len(after.outstanding) * after.seconds >= stretches * before.seconds
