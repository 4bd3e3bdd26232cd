"""The page of an experiment: what it shows, how it follows, the story of a decision, erasing ids."""

import html
import json
import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser, Route, expect

from belated.api.types import ArmTimeline, Deadline, ExperimentTimeline, LastDay
from belated.ledger import open_ledger
from belated.ledger.keys import new_key
from belated.service.pages.experiment import grouped
from belated.service.pages.session import COOKIE, token_of
from support.browser import Tab
from support.pages import HOSTILE, sign_in
from support.serving import ADMIN_KEY, KINDS, Server, Stores


def test_create_decide_observe_and_the_charts_move(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    page.get_by_role("link", name="New experiment").click()
    page.get_by_label("Name").fill("moving")
    page.get_by_label("Arms, one on each line").fill("one\ntwo")
    page.get_by_role("radio", name="Nothing: it will come").check()
    page.get_by_role("button", name="Create").click()
    expect(page.locator('[data-chart="shares"]')).to_have_text("There is too little to draw yet.")
    expect(page.locator("#latest")).to_contain_text("There is no decision yet.")
    expect(page.locator("#live")).to_have_text("live")
    with server.client() as client:
        for _ in range(3):
            decisions = client.decide_many("moving", 20)
            client.observe_many("moving", rewards={each.id: float(each.arm == "two") for each in decisions})
            page.wait_for_timeout(1100)  # a stretch of the timeline is a second
        expect(page.locator('[data-show="rounds"]')).to_have_text("60")
        expect(page.locator('[data-chart="shares"] canvas')).to_be_visible()
        legend = page.locator('[data-chart="waiting"] .legend')
        expect(legend).to_contain_text("outstanding 0")
        client.decide_many("moving", 7)
        expect(legend).to_contain_text("outstanding 7")
        expect(page.locator("#latest tbody tr")).to_have_count(20)
        so_far = page.locator("#latest tbody td:nth-child(3)").all_text_contents()
        assert [text.partition(" ")[0] for text in so_far] == ["waiting"] * 7 + ["reward"] * 13
        rows = page.locator('[data-table="waiting"] tbody tr')
        assert rows.first.locator("td").text_content() == "7"
    expect(page.locator('#arms tr[data-arm="two"] [data-show="mean"]')).to_have_text("1")
    assert [line for line in tab.said if "username fields" not in line] == []


def test_a_page_goes_on_after_the_service_was_away(browser: Browser, tmp_path: Path) -> None:
    server = Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log")
    with server:
        with server.client() as client:
            client.create("button", ["blue", "green"])
            client.decide_many("button", 10)
        context = browser.new_context(base_url=server.url)
        page = context.new_page()
        sign_in(page)
        page.goto("/experiments/button")
        expect(page.locator("#live")).to_have_text("live")
        server.kill()
        expect(page.locator("#live")).to_contain_text("does not answer")
        server.start()
        with server.client() as client:  # before the page is back: it must hear of this all the same
            client.decide_many("button", 5)
            client.add_arm("button", "violet")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator('[data-show="rounds"]')).to_have_text("15")
        expect(page.locator("#arms tr")).to_have_count(3)
        context.close()


def test_a_page_whose_key_is_revoked_hears_nothing_more(browser: Browser, server: Server) -> None:
    secret, key = new_key("leaving", "read")
    with closing(open_ledger(server.store)) as ledger, closing(browser.new_context(base_url=server.url)) as context:
        ledger.add_key(key)
        page = context.new_page()
        sign_in(page, secret)
        page.goto("/experiments/minutes")
        expect(page.locator("#live")).to_have_text("live")
        ledger.revoke_key(key.id, 1)
        expect(page.locator("#live")).to_have_text("you are signed out; sign in again")
        seen = page.locator('[data-show="rounds"]').text_content()
        with server.client() as client:
            decisions = client.decide_many("minutes", 5)
            client.observe_many("minutes", values={each.id: 12.0 for each in decisions})
        page.wait_for_timeout(1500)
        assert page.locator('[data-show="rounds"]').text_content() == seen


def test_a_page_whose_stream_is_refused_asks_again(tab: Tab) -> None:
    page = tab.page
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503)

    page.route("**/live*", refuse_once)
    sign_in(page)
    page.goto("/experiments/minutes")
    expect(page.locator("#live")).to_contain_text("does not answer")
    expect(page.locator("#live")).to_have_text("live")
    assert len(refused) == 1


def test_a_stream_that_falls_silent_is_opened_anew(tab: Tab) -> None:
    """As after a computer has slept: nothing says that the connection is lost."""
    page = tab.page
    asked: list[Route] = []
    page.clock.install()
    sign_in(page)
    page.route("**/live*", lambda route: asked.append(route))  # neither answered nor refused
    page.goto("/experiments/minutes")
    page.clock.run_for(49_000)
    assert len(asked) == 1
    page.clock.run_for(2_000)
    expect(page.locator("#live")).to_contain_text("does not answer")
    until = time.monotonic() + 30
    while len(asked) < 2:
        assert time.monotonic() < until
        page.wait_for_timeout(20)
    for route in asked:
        route.abort()


def test_a_page_on_which_nothing_happens_tells_how_long_ago_the_last_decision_was(tmp_path: Path) -> None:
    often = {"belated.service.streams.BEAT_SECONDS": 0.2}
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log", constants=often) as server:
        with server.client() as client:
            client.create("quiet", ["a", "b"])
            client.decide_many("quiet", 7)
        told: list[dict[str, str]] = []
        with (
            httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=30) as http,
            http.stream("GET", "/experiments/quiet/live") as answer,
        ):
            lines = answer.iter_lines()
            for line in lines:
                if line == "event: facts":
                    told.append(json.loads(next(lines).removeprefix("data: ")))
                    if told[-1]["last"] not in ("now", told[0]["last"]):
                        break
    assert {each["rounds"] for each in told} == {"7"}
    assert told[-1]["last"].endswith("seconds ago")


def test_a_change_comes_without_a_jump(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    with server.client() as client:
        client.create("changing", ["a", "b"])
        client.decide_many("changing", 10)
    page.goto("/experiments/changing")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.before = true; document.querySelector('#shares').scrollIntoView()")
    there = "document.querySelector('#delays h2').getBoundingClientRect().top"
    top = page.evaluate(there)
    assert 0 < top < 720  # it can be seen
    with server.client() as client:
        client.pause("changing")
        expect(page.locator("h1 + .badge")).to_have_text("paused")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        client.resume("changing")
        client.add_arm("changing", "c")
    expect(page.locator("#arms tr")).to_have_count(3)
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator("#history tbody tr")).to_have_count(4)
    assert [row.inner_text().split("\t")[1:] for row in page.locator("#history tbody tr").all()] == [
        ["arm 'c' added", "BELATED_ADMIN_KEY"],
        ["resumed", "BELATED_ADMIN_KEY"],
        ["paused", "BELATED_ADMIN_KEY"],
        ["created", "–"],
    ]
    assert page.evaluate("window.before")
    assert abs(page.evaluate(there) - top) <= 1  # a row has come above it, and the browser has scrolled along


def test_why_nothing_is_known_is_said(tab: Tab, server: Server) -> None:
    """One decision without an outcome holds up all later ones."""
    with server.client() as client:
        client.create("held-up", ["a", "b"])
        client.decide("held-up", "lost")
        client.observe_many("held-up", rewards={each.id: 1.0 for each in client.decide_many("held-up", 50)})
    sign_in(tab.page)
    tab.page.goto("/experiments/held-up")
    expect(tab.page.locator("#notes li").first).to_contain_text(
        "decision 1 has no outcome yet. If it never comes, give"
    )
    expect(tab.page.locator('[data-chart="course"]')).to_have_text("Too little is settled yet.")


def test_limits_that_were_changed_meanwhile_are_not_undone(visitor: httpx.Client, server: Server) -> None:
    with server.client() as client:
        client.create("limited", ["a", "b"])
        page = visitor.get("/experiments/limited").text
        before = html.unescape(page.partition('name="before" value="')[2].partition('"')[0])
        form = {
            "token": token_of(ADMIN_KEY),
            "before": before,
            "arm": ["a", "b"],
            "floor": ["0.2", ""],
            "ceiling": ["", ""],
        }
        client.set_limits("limited", {"holdout": 0.3})
        answer = visitor.post("/experiments/limited/limits", data=form)
        assert (answer.status_code, "changed meanwhile" in answer.text) == (422, True)
        limits = client.experiment("limited").limits
        assert limits is not None
        assert (limits.holdout, limits.arms) == (0.3, [])
        now = html.unescape(
            visitor.get("/experiments/limited").text.partition('name="before" value="')[2].partition('"')[0]
        )
        assert visitor.post("/experiments/limited/limits", data=form | {"before": now}).status_code == 303
        limits = client.experiment("limited").limits
        assert limits is not None
        assert (limits.holdout, limits.arms[0].floor) == (0.0, 0.2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"missing": "deadline", "deadline": "-1"}, "the deadline is -1 days; more than 0"),
        ({"missing": "deadline", "deadline": "soon"}, "deadline is &#39;soon&#39;; a number is needed"),
        ({"learn": "deadline"}, "needs a deadline"),
        ({"units": "own", "lowest": "nan", "highest": "1"}, "lowest is &#39;nan&#39;; a number is needed"),
        ({"units": "own", "lowest": "2", "highest": "1"}, "highest"),
        ({"share_floor": "0.9"}, "share_floor"),
        ({"holdout": "2"}, "holdout"),
        ({"arms": "a"}, "arms"),
        ({"learner": "nobody"}, "nobody"),
    ],
)
def test_a_form_that_asks_for_what_cannot_be(visitor: httpx.Client, changed: dict[str, str], words: str) -> None:
    form = {"token": token_of(ADMIN_KEY), "name": "impossible", "arms": "a\nb", "missing": "wait"} | changed
    answer = visitor.post("/new", data=form)
    assert answer.status_code == 422
    assert words in answer.text.partition('role="alert"')[2].partition("</p>")[0]
    assert visitor.get("/experiments/impossible").status_code == 404


def test_every_choice_of_the_form_counts(visitor: httpx.Client, server: Server) -> None:
    form = {
        "token": token_of(ADMIN_KEY),
        "name": "choices",
        "arms": "a\nb",
        "learner": "thompson",
        "missing": "deadline",
        "deadline": "2.5",
        "learn": "deadline",
        "units": "own",
        "lowest": "-5",
        "highest": "20",
        "better": "lower",
        "reports": "first",
        "share_floor": "0.1",
    }
    assert "one of them is needed" in visitor.post("/new", data=form | {"holdout": "0.2"}).text
    assert visitor.post("/new", data=form).status_code == 303
    held_out = form | {"name": "held-out", "share_floor": "", "holdout": "0.2"}
    assert visitor.post("/new", data=held_out).status_code == 303
    with server.client() as client:
        made, other = client.experiment("choices"), client.experiment("held-out")
    assert made.missing == Deadline(2.5 * 86400, 1.0, "deadline")
    assert made.outcome is not None
    assert (made.outcome.lowest, made.outcome.highest, made.outcome.better) == (-5.0, 20.0, "lower")
    assert (made.learner, made.reports, made.share_floor) == ("thompson", "first", 0.1)
    assert other.limits is not None
    assert (other.limits.holdout, other.share_floor) == (0.2, 0.0)
    assert "counts with a value of 20." in visitor.get("/experiments/choices").text


def test_delays_are_shown_by_arm(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    page.goto("/experiments/button")
    with server.client() as client:
        arms = {str(arm.arm): arm.outcomes for arm in client.experiment("button").arms}
    cells = page.locator('[data-table="delays"] tbody td')

    def total() -> int:
        return sum(int(text.replace(",", "")) for text in cells.all_text_contents())

    assert total() == sum(arms.values())
    page.locator("#delay-arm").select_option(HOSTILE)
    assert total() == arms[HOSTILE]


def test_what_never_came_is_said(tab: Tab, server: Server) -> None:
    """It is not drawn, since it would dwarf the rest, but the table has it."""
    with server.client() as client:
        client.create("shy", ["a", "b"], missing=Deadline(0.5, 1.0))
        made = client.decide_many("shy", 50)
        client.observe_many("shy", rewards={each.id: 1.0 for each in made[:10]})
        until = time.monotonic() + 30
        while client.experiment("shy").outcomes.defaults < 40:
            assert time.monotonic() < until
    sign_in(tab.page)
    tab.page.goto("/experiments/shy")
    expect(tab.page.locator('[data-chart="delays"] .more')).to_have_text("40 had no outcome in time")
    last = tab.page.locator('[data-table="delays"] tbody tr').last.locator("th, td").all_text_contents()
    assert last == ["none in time", "0", "40"]
    assert "none in time" not in tab.page.locator('[data-chart="delays"]').inner_text()


def test_how_much_better_the_leader_is_is_said(tab: Tab, server: Server) -> None:
    sign_in(tab.page)
    with server.client() as client:
        client.create("clear", ["good", "bad"])
        for _ in range(2):
            made = client.decide_many("clear", 400)
            client.observe_many("clear", rewards={each.id: float(each.arm == "good") for each in made})
        found = client.estimates("clear")
    tab.page.goto("/experiments/clear")
    (pair,) = found.differences
    assert found.uplift is not None
    assert pair.difference.value == 1.0
    expect(tab.page.locator('[data-show="compared"]')).to_have_text(
        f"good compared with bad: +1 ({pair.difference.low:.3g} to 1). The choices so far, compared with choosing"
        f" uniformly: +{found.uplift.value:.3g} ({found.uplift.low:.3g} to {found.uplift.high:.3g}) a decision."
    )
    expect(tab.page.locator('[data-show="known-at"]')).to_contain_text("good wins from decision")
    means = {str(each.arm): each.mean for each in found.arms}
    for arm, (low, high) in {"good": (means["good"].low, 1.0), "bad": (0.0, means["bad"].high)}.items():
        drawn = tab.page.locator(f'#arms tr[data-arm="{arm}"] .range')
        assert float(drawn.get_attribute("x") or "nan") == pytest.approx(100 * low, abs=1e-6)
        assert float(drawn.get_attribute("width") or "nan") == pytest.approx(100 * (high - low), abs=1e-6)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_stretch_that_has_only_begun_has_no_share_yet(tab: Tab, is_over: bool) -> None:
    page, lines = tab.page, 3

    def answer(route: Route) -> None:
        """Give the page a timeline of three stretches, in the middle of the last, or after it."""
        before = route.fetch().text()
        first, _, rest = before.partition('id="data">')
        raw, _, rest = rest.partition("</script>")
        given = json.loads(raw)
        stretches = timeline(lines)
        given["timeline"] = msgspec.to_builtins(stretches)
        given["now"] = stretches.begin + (lines + 1 if is_over else lines - 0.5) * stretches.seconds
        route.fulfill(body=f'{first}id="data">{json.dumps(given)}</script>{rest}', content_type="text/html")

    sign_in(page)
    page.route("**/live*", lambda route: route.abort())
    page.route("**/experiments/minutes", answer)
    page.goto("/experiments/minutes")
    whole = lines if is_over else lines - 1
    for id, count in (("shares", whole), ("means", whole), ("waiting", lines)):
        assert page.locator(f'[data-table="{id}"] tbody tr').count() == count
    assert page.locator('[data-table="shares"] tbody td').first.text_content() == "100 %"  # of the only arm
    last = page.locator('[data-table="waiting"] tbody th').first
    expect(last).to_have_text("1970-01-01 00:01:46 UTC" if is_over else "1970-01-01 00:01:45 UTC")


def test_times_are_the_same_everywhere(browser: Browser, server: Server) -> None:
    """In UTC, on charts as in tables, wherever the browser is."""
    with closing(browser.new_context(base_url=server.url, timezone_id="Asia/Tokyo")) as context:
        page = context.new_page()
        sign_in(page)
        page.goto("/experiments/button")
        drawn = page.locator('[data-table="waiting"] tbody th').last.text_content() or ""
        decided = page.locator("#latest tbody th").last.inner_text()
        assert drawn.endswith(" UTC")
        apart = datetime.fromisoformat(drawn.removesuffix(" UTC")) - datetime.fromisoformat(decided)
        assert abs(apart) < timedelta(hours=1)


def test_every_answer_of_the_feed_begins_with_what_is_known(visitor: httpx.Client, server: Server) -> None:
    """Nothing has happened since the page was made; somebody who connects again is told all the same."""
    with server.client() as client:
        rounds = client.experiment("minutes").rounds
    with visitor.stream("GET", "/experiments/minutes/live") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        found = ""
        for text in answer.iter_text():
            found += text
            if "event: known" in found and "event: state" in found:
                break
    assert f'"rounds":"{rounds}"' in found


def test_there_are_only_so_many_live_views(tmp_path: Path) -> None:
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log", streams=1) as server:
        with server.client() as client:
            client.create("button", ["blue", "green"])
        with httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=30) as http:
            with http.stream("GET", "/experiments/button/live") as first:
                texts = first.iter_text()  # kept: the connection ends with it
                next(texts)
                refused = http.get("/experiments/button/live")
                assert (refused.status_code, "1 live views" in refused.text) == (503, True)
            until = time.monotonic() + 30
            while True:  # until the service has heard that the first one has gone
                with http.stream("GET", "/experiments/button/live") as again:
                    if again.status_code == 200:
                        break
                assert time.monotonic() < until


@pytest.mark.parametrize("kind", KINDS)
def test_the_story_of_a_decision(kind: str, tmp_path: Path) -> None:
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("basket", ["a", "b"], outcome={"lowest": 0, "highest": 200}, reports="sum", limits=None)
        client.create("late", ["a", "b"], missing=Deadline(0.3, 1.0))
        hostile = "visit<17>&amp;"
        made = client.decide("basket", hostile)
        client.observe("basket", hostile, value=20.0, report="first")
        client.observe("basket", hostile, value=29.0, report="second", final=True)
        missed = client.decide("late", "missed")
        with httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=30) as http:
            page = http.get("/experiments/basket/decisions", params={"id": hostile})
            assert page.status_code == 200
            assert "visit&lt;17&gt;&amp;amp;" in page.text
            assert hostile not in page.text
            lines = [part.partition("</td>")[0] for part in page.text.split('<td class="word">')[1:]]
            story = lines[::2]
            assert story[0] == f"decided as round 1: &#39;{made.arm}&#39;, with probability 0.5"
            assert story[1].startswith("report &#39;first&#39; after")
            assert story[1].endswith("value 20; held until the deadline, or until all is reported")
            assert story[2].endswith("value 29, together 49; added to what is held")
            assert story[3].startswith("settled after")
            assert story[3].endswith(": value 49; learned from")
            assert lines[1::2] == ["BELATED_ADMIN_KEY"] * 4
            assert http.get("/experiments/basket/decisions?id=nobody").status_code == 404
            assert http.get("/experiments/nobody/decisions?id=1").status_code == 404
            while "no outcome" not in (text := http.get("/experiments/late/decisions?id=missed").text):
                assert "not settled yet" in text
            assert "which counts with reward 0; learned from" in text
            table = http.get("/experiments/late").text.partition('id="latest"')[2].partition("</table>")[0]
            assert f'<bdi>{missed.arm}</bdi></td><td class="word">no outcome in time</td>' in table


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
        with httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=30) as http:
            for path in ("/", "/?status=attention"):
                shown = http.get(path)
                assert shown.status_code == 200
                assert "experiment &#39;broken&#39; is damaged" in shown.text
            answer = http.get("/experiments/broken")
            assert (answer.status_code, "<h1>This experiment is damaged</h1>" in answer.text) == (500, True)
            assert "arm 7, which there is not" in answer.text
            assert http.get("/experiments/whole").status_code == 200


def test_export_streams_every_event(visitor: httpx.Client, server: Server) -> None:
    with server.client() as client:
        events = client.experiment("minutes").events
    answer = visitor.get("/experiments/minutes/export?format=csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="minutes.csv"'
    assert answer.text.count("\n") == events + 1
    assert visitor.get("/experiments/minutes/export?format=xml").status_code == 422
    assert "allowed" not in visitor.get("/experiments/minutes/export?format=xml").text
    assert "ndjson or csv" in visitor.get("/experiments/minutes/export?format=xml").text


def test_ids_are_erased_once_that_is_confirmed(tab: Tab, visitor: httpx.Client, server: Server) -> None:
    with server.client() as client:
        client.create("erasing", ["a", "b"])
        for k in range(12):
            client.decide("erasing", f"user-{k}")
    page = tab.page
    sign_in(page)
    page.goto("/experiments/erasing")
    page.get_by_text("Erase ids", exact=True).click()
    page.get_by_label("Ids like").fill("user-1*")
    page.get_by_role("button", name="Count them").first.click()
    expect(page.locator("main")).to_contain_text(
        "3 decisions of erasing with an id like 'user-1*' will lose their ids."
    )
    page.get_by_role("button", name="Erase 3 ids").click()  # the browser asks for the box first
    expect(page.get_by_role("heading", level=1)).to_have_text("Erase ids")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Erase 3 ids").click()
    expect(page.locator("#history")).to_contain_text("3 ids erased, by pattern")
    expect(page.locator("#latest")).to_contain_text("erased")
    expect(page.locator("#latest")).to_contain_text("user-9")
    with closing(open_ledger(server.store)) as ledger:
        record = ledger.find("erasing")
        assert record is not None
        assert ledger.decision(record.number, "user-11") is None
        (erasure,) = [each for each in ledger.erasures() if each.experiment == record.number]
        assert erasure.key is not None
    unsure = visitor.post("/experiments/erasing/erase", data={"token": token_of(ADMIN_KEY), "id": "user-2"})
    assert (unsure.status_code, "tick the box" in unsure.text) == (422, True)
    for query, said in (("", "nothing to erase"), ("?older=x", "a number of days"), ("?older=-1", "a number of days")):
        answer = visitor.get(f"/experiments/erasing/erase{query}")
        assert (answer.status_code, said in answer.text) == (422, True)
    assert "There is no decision" in visitor.get("/experiments/erasing/erase?older=1").text


def timeline(stretches: int, **more: Any) -> ExperimentTimeline:
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
