"""The pages in a real browser: what their scripts do, what the keyboard reaches, what they load."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, Route, expect

from belated.api.types import ArmTimeline, Deadline, ExperimentTimeline, LastDay
from belated.client import Client
from belated.ledger import open_ledger
from belated.service.pages.session import COOKIE
from belated.service.simulate.findings import Findings, LearnerFindings
from support.browser import Tab, check_width
from support.pages import HOSTILE, new_secret, sign_in
from support.serving import ADMIN_KEY, Server, Stores
from support.waiting import until

H1 = "h1"
LIVE = "#live:not(.bad):not(:empty)"
AWAY = "#live.bad"
BADGE = "h1 + .badge"


def check_quiet(tab: Tab) -> None:
    """Nothing was asked of other hosts, and the console is empty but for what the browser says of forms."""
    assert {urlsplit(url).hostname for url in tab.asked} == {"127.0.0.1"}
    assert [line for line in tab.said if "username fields" not in line and " 422 " not in line] == []


def open_live(page: Page, name: str) -> None:
    page.goto(f"/experiments/{name}")
    expect(page.locator(LIVE)).to_be_attached()


def run_until(page: Page, condition: Callable[[], bool]) -> None:
    """Let the page's own clock run until something is so; the limit is for what never is."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        page.clock.run_for(500)


def test_signing_in(stranger: Tab, server: Server) -> None:
    page = stranger.page
    page.goto("/experiments/minutes?a=1")
    expect(page.locator("#key")).to_be_focused()
    page.locator("#key").fill("belated_wrong_key")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert urlsplit(page.url).path == "/sign-in"
    page.locator("#key").fill(ADMIN_KEY)
    page.keyboard.press("Enter")
    expect(page.locator(H1)).to_have_text("minutes")
    expect(page).to_have_url(f"{server.url}/experiments/minutes?a=1")
    (kept,) = page.context.cookies()
    assert (kept["name"], kept["httpOnly"], kept["sameSite"]) == (COOKIE, True, "Strict")
    page.locator('form[action="/sign-out"] button').click()
    page.wait_for_url("**/sign-in")
    assert page.context.cookies() == []
    page.goto(f"/sign-in#key={ADMIN_KEY}")  # a key in the address fills in the form
    expect(page.locator("#key")).to_have_value(ADMIN_KEY)
    expect(page).to_have_url(f"{server.url}/sign-in")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/")


def test_an_experiment_is_made_and_changed_by_forms(tab: Tab, server: Server) -> None:
    page = tab.page

    def send(word: str) -> None:
        page.locator(f'form[action="/experiments/made/{word}"] button').first.click()

    page.goto("/")
    page.locator('a[href="/new"]').click()
    page.locator("#name").fill("no spaces please")
    page.locator("[name=arms]").fill(f"a\n{HOSTILE}\nc")
    page.locator("[name=missing][value=wait]").check()
    page.locator("form.tall button").click()
    expect(page.locator("#name")).to_have_attribute("aria-invalid", "true")
    assert page.locator("[name=arms]").input_value() == f"a\n{HOSTILE}\nc"
    page.locator("#name").fill("made")
    page.locator("[name=highest]").fill("50")  # whoever fills it in has made that choice
    expect(page.locator("[name=units][value=own]")).to_be_checked()
    page.locator("form.tall button").click()
    expect(page.locator(H1)).to_have_text("made")
    expect(page.locator(".done")).to_be_visible()
    expect(page).to_have_url(f"{server.url}/experiments/made")
    page.reload()
    expect(page.locator(".done")).to_have_count(0)
    page.locator('form[action$="/add-arm"] [name=arm]').fill("d")
    send("add-arm")
    expect(page.locator("#arms tr")).to_have_count(4)
    page.locator('details:has(form[action$="/retire-arm"]) summary').click()
    send("retire-arm")
    expect(page.locator("#arms .badge")).to_have_count(1)
    page.locator('details:has([name="floor"]) summary').click()
    page.locator("[name=floor]").last.fill("0.5")
    send("limits")
    send("pause")
    expect(page.locator(BADGE)).to_have_text("paused")
    page.locator('details:has(form[action$="/archive"]) summary').click()
    send("archive")  # the browser asks for the box first
    expect(page.locator(BADGE)).to_have_text("paused")
    page.locator('form[action$="/archive"] [name=sure]').check()
    send("archive")
    expect(page.locator(BADGE)).to_have_text("archived")
    with server.client() as client:
        made = client.experiment("made")
    assert [(arm.arm, arm.present) for arm in made.arms] == [("a", False), (HOSTILE, True), ("c", True), ("d", True)]
    assert made.outcome is not None
    assert made.outcome.highest == 50.0
    assert made.limits is not None
    assert [(each.arm, each.floor) for each in made.limits.arms] == [("d", 0.5)]
    check_quiet(tab)


def test_a_page_follows_its_experiment(tab: Tab, server: Server) -> None:
    page = tab.page
    with server.client() as client:
        client.create("followed", ["one", HOSTILE])
        open_live(page, "followed")
        assert page.locator('[data-chart="shares"] canvas').count() == 0
        for _ in range(3):
            decisions = client.decide_many("followed", 20)
            client.observe_many("followed", rewards={each.id: float(each.arm != "one") for each in decisions})
            server.pass_time(2)  # a stretch of the timeline is a second
        client.decide_many("followed", 7)
        expect(page.locator('[data-show="rounds"]')).to_have_text("67")
        expect(page.locator('[data-show="outstanding"]')).to_have_text("7")
    for id in ("shares", "means", "waiting", "delays"):
        expect(page.locator(f'[data-chart="{id}"] canvas')).to_be_visible()
        assert page.locator(f'[data-table="{id}"] tbody tr').count() > 0
    expect(page.locator('[data-chart="waiting"] .legend b')).to_have_text("7")
    assert page.locator('[data-table="waiting"] tbody td').first.text_content() == "7"
    expect(page.locator("#latest tbody tr")).to_have_count(20)
    so_far = page.locator("#latest tbody td:nth-child(3)").all_text_contents()
    assert len(set(so_far[:7])) == 1
    assert so_far[0] not in so_far[7:]
    expect(page.locator("#arms tr").last.locator('[data-show="mean"]')).to_have_text("1")
    expect(page.locator("#arms tr").last.locator("bdi")).to_have_text(HOSTILE)
    expect(page.locator('[data-chart="shares"] .legend bdi').last).to_have_text(HOSTILE)
    check_quiet(tab)


def test_a_change_comes_without_a_jump(tab: Tab, server: Server) -> None:
    """Problems do not load the page again, and a part that somebody uses is renewed when they leave it."""
    page, loads = tab.page, []

    def note(request: Request) -> None:
        if request.url.endswith("/experiments/changing"):
            loads.append(request.url)

    with server.client() as client:
        client.create("changing", ["a", "b"], seed=3)
        client.decide_many("changing", 99)
        open_live(page, "changing")
        expect(page.locator("#problems")).to_be_empty()
        page.on("request", note)
        for more, count in ((51, 150), (250, 400)):
            client.decide_many("changing", more)
            expect(page.locator("#problems .problem")).to_contain_text(str(count))
        assert loads == []
        page.evaluate("window.before = true; document.querySelector('#shares').scrollIntoView()")
        there = "document.querySelector('#delays h2').getBoundingClientRect().top"
        top = page.evaluate(there)
        assert 0 < top < 720  # it can be seen
        client.pause("changing")
        expect(page.locator(BADGE)).to_have_text("paused")
        expect(page.locator('form[action$="/resume"]')).to_be_visible()
        client.resume("changing")
        expect(page.locator('form[action$="/pause"]')).to_be_visible()
        client.add_arm("changing", "c")
        expect(page.locator("#arms tr")).to_have_count(3)
        expect(page.locator("#history tbody tr")).to_have_count(4)
        assert len(loads) == 3
        assert abs(page.evaluate(there) - top) <= 1  # a row has come above it, and the browser has scrolled along
        page.locator("#arms-frame").focus()
        client.add_arm("changing", "d")
        expect(page.locator("#history tbody tr")).to_have_count(5)
        assert page.locator("#arms tr").count() == 3
        page.locator("#id").focus()
        expect(page.locator("#arms tr")).to_have_count(4)
    assert page.evaluate("window.before")
    check_quiet(tab)


def test_charts_and_sentences_are_of_the_arms_they_name(tab: Tab, server: Server) -> None:
    """Of many arms the others are one; what never came is not drawn, since it would dwarf the rest."""
    page = tab.page
    cells = page.locator('[data-table="delays"] tbody td')

    def total() -> int:
        return sum(int(text.replace(",", "")) for text in cells.all_text_contents())

    with server.client() as client:
        client.create("crowd", list(range(150)), missing=Deadline(60.0, 1.0))
        made = client.decide_many("crowd", 600)
        client.observe_many("crowd", rewards={each.id: 1.0 for each in made[:560]})
        client.create("clear", ["good", "bad"])
        decisions = client.decide_many("clear", 600)
        client.observe_many("clear", rewards={each.id: float(each.arm == "good") for each in decisions})
        found = client.estimates("clear")
        page.goto("/experiments/clear")
        (pair,) = found.differences
        assert pair.difference.value == pytest.approx(1.0, abs=0.05)
        assert found.uplift is not None
        for number in (pair.difference.low, found.uplift.value, found.uplift.low, found.uplift.high):
            expect(page.locator('[data-show="compared"]')).to_contain_text(f"{number:.3g}")
        for arm in found.arms:
            drawn = page.locator(f'#arms tr[data-arm="{arm.arm}"] .range')
            low, high = (getattr(arm.mean, end) for end in ("low", "high"))
            assert float(drawn.get_attribute("x") or "nan") == pytest.approx(100 * low, abs=1e-6)
            assert float(drawn.get_attribute("width") or "nan") == pytest.approx(100 * (high - low), abs=1e-6)
        server.pass_time(61.0)
        open_live(page, "crowd")
        expect(page.locator('[data-show="defaults"]')).to_have_text("40")
        came = {arm.arm: arm.outcomes for arm in client.experiment("crowd").arms}
    assert page.locator("#arms tr").count() == 100
    expect(page.locator('[data-chart="delays"] .more')).to_contain_text("40")
    assert cells.all_text_contents()[-2:] == ["0", "40"]
    assert total() == 600
    page.locator("#delay-arm").select_option("7")
    assert total() in (came[7], came[7] + sum(each.arm == 7 for each in made[560:]))
    page.locator("#delay-arm").select_option(index=25)  # all, 24 arms, the others
    assert total() == sum(int(each.arm) >= 24 for each in made)
    check_quiet(tab)


@pytest.mark.slow
def test_seasons_are_seen(tab: Tab, server: Server) -> None:
    """The level of settled decisions is drawn by time, with a legend, and stands in the table; so does a sentence."""
    page, legend = tab.page, tab.page.locator('[data-chart="means"] .legend bdi')
    with server.client() as client:
        client.create("moving", ["a", "b"], seed=3, share_floor=0.3)
        open_live(page, "moving")
        expect(page.locator("#level")).to_be_hidden()
        for good in (0.9, 0.1, 0.9):
            made = client.decide_many("moving", 400)
            client.observe_many("moving", rewards={each.id: float(k % 10 < 10 * good) for k, each in enumerate(made)})
            server.pass_time(60)
        expect(page.locator("#level")).to_be_visible()
        expect(legend).to_have_count(3)
        movement = client.estimates("moving").movement
        assert movement is not None
    assert page.locator('[data-chart="means"] .legend i.dots').count() == 1
    drawn = page.locator('[data-table="means"] tbody td:last-child').all_text_contents()
    shown = [float(each) for each in drawn if each != "–"]
    assert max(shown) == pytest.approx(0.9, abs=0.05)
    assert min(shown) < 0.7  # a point is of the four before it, too
    check_quiet(tab)


@pytest.mark.slow
def test_the_answer_follows(tab: Tab, server: Server) -> None:
    """Evidence grows while the page is open; the arm that loses is ruled out, and what is left to say is hidden."""
    page, evidence = tab.page, tab.page.locator("#evidence")
    with server.client() as client:
        client.create("answered", ["bad", "good"], seed=3, share_floor=0.3)
        open_live(page, "answered")
        expect(evidence).to_be_hidden()
        for _ in range(2):
            made = client.decide_many("answered", 20)
            rewards = {each.id: float(k % (3 if each.arm == "good" else 5) > 0) for k, each in enumerate(made)}
            client.observe_many("answered", rewards=rewards)
        expect(evidence).to_be_visible()
        bar = evidence.get_by_role("img")
        until(lambda: bar.locator(".had").get_attribute("width") == f"{percent_of(client)}%")
        assert str(percent_of(client)) in (bar.get_attribute("aria-label") or "")
        made = client.decide_many("answered", 400)
        client.observe_many("answered", rewards={each.id: float(each.arm == "good") for each in made})
        expect(evidence).to_be_hidden()
        expect(page.locator("#arms .out:visible")).to_have_count(1)
        expect(page.locator('#arms tr[data-arm="bad"] .out')).to_be_visible()
    check_quiet(tab)


def percent_of(client: Client) -> int:
    return int(100 * (client.estimates("answered").progress or 0.0))


def test_a_stream_that_is_refused_or_falls_silent_is_opened_anew(tab: Tab) -> None:
    """A silent one is as after a computer has slept: nothing says that the connection is lost."""
    page = tab.page
    asked: list[str] = []
    silent: list[Route] = []

    def answer(route: Route) -> None:
        asked.append(route.request.method)
        if len(asked) <= 2:
            route.fulfill(status=503)
        elif asked[-1] == "HEAD":
            route.fulfill(status=200)
        elif silent:
            route.continue_()
        else:
            silent.append(route)  # neither answered nor refused

    page.clock.install()
    page.route("**/live*", answer)
    page.goto("/experiments/minutes")
    expect(page.locator(AWAY)).to_be_attached()
    run_until(page, lambda: len(silent) == 1)
    assert asked == ["GET", "HEAD", "HEAD", "GET"]
    page.clock.run_for(45_000)
    assert len(asked) == 4
    run_until(page, lambda: len(asked) > 4)
    expect(page.locator(LIVE)).to_be_attached()
    assert asked[4:] == ["HEAD", "GET"]
    silent[0].abort()


def test_the_list_follows_and_says_when_it_cannot(tab: Tab, server: Server) -> None:
    page, away = tab.page, tab.page.locator("#away")
    listed = page.locator('li:has(a[href="/experiments/listed"])')
    with server.client() as client:
        client.create("listed", ["a", "b"])
        page.clock.install()
        page.goto("/")
        expect(listed.locator(".badge").first).to_have_text("active")
        expect(away).to_be_hidden()
        client.pause("listed")
    run_until(page, lambda: listed.locator(".badge").first.text_content() == "paused")
    said: set[str | None] = set()
    for refuse in (lambda route: route.abort(), lambda route: route.fulfill(status=503)):
        page.route("**/", refuse)
        run_until(page, lambda: away.is_visible() and away.text_content() not in said)
        expect(listed).to_be_visible()
        said.add(away.text_content())
        page.unroute("**/")
        run_until(page, away.is_hidden)
    page.context.clear_cookies()
    run_until(page, lambda: away.is_visible() and away.text_content() not in said)


def found(runs: int) -> Findings:
    curve = [1.0, 2.0, 3.0]
    learners = [LearnerFindings(name, curve, curve, curve, [0.0, 0.5, 0.95], 900.0) for name in ("one", HOSTILE)]
    return Findings(runs, 20, runs == 20, [500, 1000, 2000], learners, [f"about {HOSTILE}"], ["a note"])


def test_what_comes_out_of_a_simulation_is_shown(tab: Tab) -> None:
    """What the process sends is tested where it is made; here the page gets it all at once."""
    page = tab.page
    told = [f"event: found\ndata: {msgspec.json.encode(found(runs)).decode()}\n\n" for runs in (1, 20)]
    page.route(
        "**/simulate/run*",
        lambda route: route.fulfill(body="".join(told), headers={"content-type": "text/event-stream"}),
    )
    page.goto("/simulate?like=minutes")
    source = page.locator("[name=source][value=experiment]")
    expect(source).to_be_checked()
    page.locator("[name=delay]").fill("3")  # whoever fills it in has chosen
    expect(page.locator("[name=source][value=guess]")).to_be_checked()
    page.locator("#a_day").fill("100")
    page.locator("#decisions").fill("2,000")
    page.locator("form.tall button").click()
    expect(page.locator("#progress")).to_have_js_property("value", 20)
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#state")).to_contain_text("20")
    assert page.locator("#sentences p").all_text_contents() == [f"about {HOSTILE}"]
    assert page.locator("#notes li").all_text_contents() == ["a note"]
    for id in ("lost", "known"):
        expect(page.locator(f'[data-chart="{id}"] canvas')).to_be_visible()
    rows = page.locator('[data-table="known"] tbody tr')
    assert rows.first.locator("td").all_text_contents() == ["95 %", "95 %"]
    assert rows.count() == 4
    check_quiet(tab)


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus; it must be seen to have it."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"the keyboard does not get to {selector!r}")


def test_the_keyboard_alone_is_enough(tab: Tab, server: Server) -> None:
    page, keyboard = tab.page, tab.page.keyboard
    with server.client() as client:
        client.create("typed", ["a", "b"])
        client.observe_many("typed", rewards={each.id: 1.0 for each in client.decide_many("typed", 30)})
    page.goto("/?q=typed")
    tab_to(page, 'a[href="/experiments/typed"]')
    keyboard.press("Enter")
    expect(page.locator(H1)).to_have_text("typed")
    keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('a.skip')")
    keyboard.press("Enter")
    keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('main *')")  # the header was skipped
    tab_to(page, "#course summary")
    keyboard.press("Enter")
    expect(page.locator('[data-table="course"]')).to_be_visible()
    tab_to(page, 'details:has([name="floor"]) summary')
    keyboard.press("Enter")
    tab_to(page, "[name=holdout]")
    keyboard.press("Control+A")
    keyboard.type("0.25")
    keyboard.press("Enter")
    expect(page.locator("#history tbody tr")).to_have_count(2)
    tab_to(page, 'details:has(form[action$="/archive"]) summary')
    keyboard.press("Enter")
    tab_to(page, 'form[action$="/archive"] [name=sure]')
    keyboard.press("Space")
    tab_to(page, 'form[action$="/archive"] button')
    keyboard.press("Enter")
    expect(page.locator(BADGE)).to_have_text("archived")
    with server.client() as client:
        limits = client.experiment("typed").limits
    assert limits is not None
    assert limits.holdout == 0.25


PATHS = ("/", "/experiments/button", "/new", "/simulate?decisions=0")
MORE_PATHS = (
    "/sign-in",
    "/?q=nothing",
    "/experiments/button/decisions?id=1",
    "/experiments/button/erase?older=0.000001",
    "/simulate",
    "/experiments/nobody",
)


@pytest.mark.parametrize(
    ("scheme", "paths"),
    [("light", PATHS), pytest.param("dark", (*PATHS, *MORE_PATHS), marks=pytest.mark.slow)],
)
def test_pages_have_no_serious_fault_and_fit_a_phone(tab: Tab, server: Server, scheme: Any, paths: Any) -> None:
    page, faults = tab.page, []
    wide = f"{scheme}-{'very-' * 18}wide"
    with server.client() as client:
        client.create(wide, ["x" * 180, "y" * 180])
        made = client.decide_many(wide, 100)
        client.observe_many(wide, rewards={each.id: float(each.arm == "x" * 180) for each in made})
    page.emulate_media(color_scheme=scheme)
    for path in (*paths, f"/experiments/{wide}"):
        page.goto(path)
        faults += Axe().run(page).response["violations"]
        check_width(page, 390)
        check_width(page, 1200)
    assert [
        (each["id"], each["nodes"][0]["html"]) for each in faults if each["impact"] in ("serious", "critical")
    ] == []


@pytest.mark.slow
def test_a_page_goes_on_after_the_service_was_away(browser: Browser, tmp_path: Path) -> None:
    """And whoever is signed out hears nothing more, and comes back to the page."""
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log") as server:
        with server.client() as client:
            client.create("button", ["blue", "green"])
            client.decide_many("button", 10)
        with closing(browser.new_context(base_url=server.url)) as context:
            page = context.new_page()
            secret, id = new_secret(server, "leaving", "read")
            sign_in(page, secret)
            open_live(page, "button")
            server.kill()
            expect(page.locator(AWAY)).to_be_attached()
            server.start()
            with server.client() as client:  # before the page is back: it must hear of this all the same
                client.decide_many("button", 5)
                client.add_arm("button", "violet")
            expect(page.locator(LIVE)).to_be_attached()
            expect(page.locator('[data-show="rounds"]')).to_have_text("15")
            expect(page.locator("#arms tr")).to_have_count(3)
            with closing(open_ledger(server.store)) as ledger:
                ledger.revoke_key(id, 1)
            page.locator("#live a").click()
            page.locator("#key").fill(ADMIN_KEY)
            page.keyboard.press("Enter")
            expect(page.locator(H1)).to_have_text("button")


@pytest.mark.slow
@pytest.mark.parametrize("is_over", [False, True])
def test_a_stretch_that_has_only_begun_has_no_share_yet(tab: Tab, is_over: bool) -> None:
    page, lines = tab.page, 3

    def answer(route: Route) -> None:
        """Give the page a timeline of three stretches, in the middle of the last, or after it."""
        before = route.fetch().text()
        first, _, rest = before.partition('id="data">')
        raw, _, rest = rest.partition("</script>")
        given = json.loads(raw)
        arm = ArmTimeline("a", list(range(lines)), [1] * lines, [0.5] * lines, 3)
        outstanding = list(range(10, 10 + lines))
        day = LastDay(0.0, 1800.0, [], [])
        stretches = ExperimentTimeline("one", 100.0, 2.0, [arm], outstanding, [], [], None, day)
        given["timeline"] = msgspec.to_builtins(stretches)
        given["now"] = stretches.begin + (lines + 1 if is_over else lines - 0.5) * stretches.seconds
        route.fulfill(body=f'{first}id="data">{json.dumps(given)}</script>{rest}', content_type="text/html")

    page.route("**/live*", lambda route: route.abort())
    page.route("**/experiments/minutes", answer)
    page.goto("/experiments/minutes")
    whole = lines if is_over else lines - 1
    for id, count in (("shares", whole), ("means", whole), ("waiting", lines)):
        assert page.locator(f'[data-table="{id}"] tbody tr').count() == count
    assert page.locator('[data-table="shares"] tbody td').first.text_content() == "100 %"  # of the only arm
    last = page.locator('[data-table="waiting"] tbody th').first
    expect(last).to_have_text("1970-01-01 00:01:46 UTC" if is_over else "1970-01-01 00:01:45 UTC")


@pytest.mark.slow
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
