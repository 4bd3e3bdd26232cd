"""The service's own pages, in a real browser against a real server."""

import re
from contextlib import closing
from typing import Any, cast

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from belated.ledger import open_ledger
from belated.ledger.keys import new_key
from belated.service.pages import Pages
from belated.service.pages.router import MOST_IDLE
from belated.service.pages.session import COOKIE, cookie, token_of
from support.browser import Tab, check_width
from support.pages import HOSTILE, sign_in
from support.serving import ADMIN_KEY, Server

SERIOUS = ("serious", "critical")


def test_a_wrong_key_is_refused_and_a_right_one_opens(tab: Tab) -> None:
    page = tab.page
    sign_in(page, "belated_wrong_key")
    expect(page.get_by_role("alert")).to_contain_text("not known")
    assert page.url.endswith("/sign-in")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Experiments")
    (kept,) = page.context.cookies()
    assert (kept["name"], kept["httpOnly"], kept["sameSite"]) == (COOKIE, True, "Strict")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert page.context.cookies() == []


def test_over_https_the_cookie_goes_over_https_alone() -> None:
    assert cookie("secret", secure=True).endswith(b"; HttpOnly; SameSite=Strict; Secure")
    assert cookie("secret", secure=False).endswith(b"; HttpOnly; SameSite=Strict")
    assert b"Max-Age=0;" in cookie("", secure=True)


def test_the_list_shows_and_finds_experiments(tab: Tab, server: Server) -> None:
    page = tab.page
    with server.client() as client:
        client.create("hostile", [HOSTILE, "tame"])
    sign_in(page)
    expect(page.get_by_role("link", name="button")).to_be_visible()
    expect(page.locator("li", has_text="hostile").locator(".legend")).to_contain_text(HOSTILE)
    page.get_by_label("Find").fill("minu")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".experiments li")).to_have_count(1)
    page.get_by_label("Which").select_option("archived")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No experiment is like that.")).to_be_visible()
    assert {httpx.URL(url).host for url in tab.asked} == {"127.0.0.1"}


def test_an_experiment_is_shown_and_follows_what_happens(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    page.goto("/experiments/button")
    expect(page.locator('[data-show="verdict"]')).not_to_be_empty()
    expect(page.locator("#arms tr")).to_have_count(3)
    expect(page.locator("#arms tr").last).to_contain_text(HOSTILE)
    expect(page.locator("#arms tr").last).to_contain_text("retired")
    for id in ("shares", "means", "waiting", "delays"):
        assert page.locator(f'[data-table="{id}"] tbody tr').count() > 0
    expect(page.locator('[data-show="rounds"]')).to_have_text("300")
    expect(page.locator("#live")).to_have_text("live")
    with server.client() as client:
        client.decide_many("button", 50)
    expect(page.locator('[data-show="rounds"]')).to_have_text("350")
    with server.client() as client:
        client.add_arm("button", "violet")
    expect(page.locator("#arms tr")).to_have_count(4)
    expect(page.locator("#history")).to_contain_text("arm 'violet' added")
    assert tab.said == [line for line in tab.said if "username fields" in line]
    assert {httpx.URL(url).host for url in tab.asked} == {"127.0.0.1"}


def test_units_are_shown(tab: Tab) -> None:
    sign_in(tab.page)
    tab.page.goto("/experiments/minutes")
    expect(tab.page.locator("thead").first).to_contain_text("mean value")
    expect(tab.page.locator('#arms [data-show="mean"]').first).to_have_text("12")
    expect(tab.page.locator('[data-table="course"] tbody tr').first.locator("td").first).to_have_text("12")
    assert set(tab.page.locator('[data-table="means"] tbody td').all_text_contents()) - {"–"} == {"12"}
    expect(tab.page.locator("#head")).to_contain_text("values from 0 to 30, lower is better")


def test_an_admin_key_acts(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    page.get_by_role("link", name="New experiment").click()
    page.get_by_label("Name").fill("no spaces please")
    page.get_by_label("Arms, one on each line").fill("a\nb\nc")
    page.get_by_role("radio", name="Nothing: it will come").check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("letters, digits")
    assert page.get_by_label("Arms, one on each line").input_value() == "a\nb\nc"
    page.get_by_label("Name").fill("made")
    page.get_by_role("radio", name="Numbers from").check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made")
    page.get_by_label("New arm").fill("d")
    page.get_by_role("button", name="Add arm").click()
    page.get_by_text("Retire or restore arms").click()
    page.get_by_role("button", name="Retire a").click()
    page.get_by_text("Retire or restore arms").click()
    page.get_by_role("button", name="Restore a").click()
    page.get_by_text("Limits of shares").click()
    page.get_by_label("floor of d").fill("0.5")
    page.get_by_label("Holdout").fill("0.1")
    page.get_by_role("button", name="Set limits").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1 + .badge")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Archive", exact=True).first.click()
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Archive").click()
    expect(page.locator("h1 + .badge")).to_have_text("archived")
    with server.client() as client:
        made = client.experiment("made")
    assert [arm.present for arm in made.arms] == [True] * 4
    assert made.outcome is not None
    assert made.limits is not None
    assert (made.limits.holdout, made.limits.arms[0].arm, made.limits.arms[0].floor) == (0.1, "d", 0.5)
    assert made.status == "archived"


PATHS = (
    "/",
    "/?q=nothing",
    "/experiments/button",
    "/experiments/button/decisions?id=1",
    "/experiments/button/erase?older=0.000001",
    "/new",
    "/simulate",
    "/simulate?arms=a+20%0Ab+70&delay=0&a_day=1&decisions=1000",
    "/simulate?decisions=0",
    "/experiments/nobody",
)


def test_after_signing_in_one_is_where_one_wanted_to_be(tab: Tab, server: Server) -> None:
    page = tab.page
    page.goto("/experiments/minutes?a=1")
    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Key").fill(ADMIN_KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("minutes")
    assert page.url == f"{server.url}/experiments/minutes?a=1"
    with httpx.Client(base_url=server.url) as http:
        for to in (
            "//example.org",
            "https://example.org",
            "/\\example.org",
            "/experiments/a\r\nx: y",
            "/experiments/é",
        ):
            answer = http.post("/sign-in", data={"key": ADMIN_KEY, "to": to})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_serious_fault_and_fit_a_phone(browser: Browser, server: Server, scheme: Any) -> None:
    context = browser.new_context(base_url=server.url, color_scheme=scheme)
    page = context.new_page()
    faults = []
    with server.client() as client:
        wide = f"{scheme}-{'very-' * 18}wide"
        client.create(wide, ["x" * 180, "y" * 180])
        made = client.decide_many(wide, 100)
        client.observe_many(wide, rewards={each.id: float(each.arm == "x" * 180) for each in made})
    page.goto("/sign-in")
    faults += Axe().run(page).response["violations"]
    sign_in(page)
    for path in (*PATHS, f"/experiments/{wide}"):
        page.goto(path)
        faults += Axe().run(page).response["violations"]
        check_width(page, 390)
        check_width(page, 1200)
    assert [(each["id"], each["nodes"][0]["html"]) for each in faults if each["impact"] in SERIOUS] == []
    context.close()


FOCUSED = "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"


def tab_to(page: Page, words: str) -> None:
    """Press Tab until what says these words, or has them as its label, has the focus; it must be seen to have it."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == words:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"the keyboard does not get to {words!r}")


def test_the_keyboard_alone_is_enough(tab: Tab, server: Server) -> None:
    page, keyboard = tab.page, tab.page.keyboard
    with server.client() as client:
        client.create("typed", ["a", "b"])
        client.observe_many("typed", rewards={each.id: 1.0 for each in client.decide_many("typed", 30)})
    page.goto("/")
    expect(page.get_by_label("Key")).to_be_focused()
    keyboard.type(ADMIN_KEY)
    keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Experiments")
    tab_to(page, "typed")
    keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("typed")
    keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to the content"
    keyboard.press("Enter")
    keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Experiments"  # the header was skipped
    tab_to(page, "The same as a table")
    keyboard.press("Enter")
    expect(page.locator('[data-table="course"]')).to_be_visible()
    tab_to(page, "Limits of shares")
    keyboard.press("Enter")
    tab_to(page, "Holdout, the share that plays uniformly")
    keyboard.press("Control+A")
    keyboard.type("0.25")
    keyboard.press("Enter")
    expect(page.locator("#history")).to_contain_text("limits set: holdout 25 %")
    tab_to(page, "Archive")
    keyboard.press("Enter")
    tab_to(page, "It will never decide again. Outcomes are still accepted.")
    keyboard.press("Space")
    tab_to(page, "Archive")
    keyboard.press("Enter")
    expect(page.locator("h1 + .badge")).to_have_text("archived")


def test_forms_need_a_token_and_the_right_role(server: Server) -> None:
    cookies = {COOKIE: ADMIN_KEY}
    with httpx.Client(base_url=server.url, cookies=cookies) as http:
        assert http.post("/experiments/button/pause", data={}).status_code == 400
        assert http.post("/experiments/button/pause", data={"token": token_of("another")}).status_code == 400
        assert http.post("/experiments/button/archive", data={"token": token_of(ADMIN_KEY)}).status_code == 422
        with server.client() as client:
            assert client.experiment("button").status == "active"
        page = http.get("/experiments/button")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        assert len(page.content) < 300_000
        assert http.get("/experiments/nobody").status_code == 404
    with httpx.Client(base_url=server.url) as http:
        for path, to in (
            ("/", ""),
            ("/new", "?to=%2Fnew"),
            ("/experiments/button/live", "?to=%2Fexperiments%2Fbutton%2Flive"),
            ("/simulate?like=a%26b", "?to=%2Fsimulate%3Flike%3Da%2526b"),
        ):
            answer = http.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in{to}")
        assert http.post("/experiments/button/pause", data={"token": token_of("")}).status_code == 303


def test_files_are_kept_under_an_address_that_changes_with_them(server: Server) -> None:
    with httpx.Client(base_url=server.url) as http:
        found = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', http.get("/sign-in").text))
        assert len(found) == 4
        for path in found:
            answer = http.get(path)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "max-age=31536000, immutable"
            assert answer.headers["x-content-type-options"] == "nosniff"
        (folder,) = {path.split("/")[2] for path in found}
        older = http.get("/static/000000000000/charts.js")
        assert (older.status_code, older.headers["cache-control"]) == (200, "no-store")
        assert older.content == http.get(f"/static/{folder}/charts.js").content
        for path in (f"/static/{folder}/../handlers.py", f"/static/{folder}/", "/static/charts.js", "/static/"):
            assert http.get(path).status_code in (400, 404)


def test_a_key_in_the_address_fills_in_the_form(tab: Tab) -> None:
    page = tab.page
    page.goto(f"/sign-in#key={ADMIN_KEY}")
    expect(page.get_by_label("Key")).to_have_value(ADMIN_KEY)
    assert ADMIN_KEY not in page.url
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Experiments")


def test_a_key_that_reads_sees_its_experiments_alone_and_changes_nothing(server: Server) -> None:
    secret, key = new_key("reader", "read", experiments=("minutes",))
    decides, other = new_key("decider", "decide")
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
        ledger.add_key(other)
    with httpx.Client(base_url=server.url, cookies={COOKIE: secret}, timeout=20) as http:
        page = http.get("/").text
        assert "/experiments/minutes" in page
        assert "/experiments/button" not in page
        assert "New experiment" not in page
        assert "Change it" not in http.get("/experiments/minutes").text
        for path in ("/experiments/button", "/experiments/button/live", "/new"):
            assert http.get(path).status_code == 403
        for path in ("/experiments/minutes/pause", "/new"):
            assert http.post(path, data={"token": token_of(secret)}).status_code == 403
    with httpx.Client(base_url=server.url, timeout=20) as http:
        refused = http.post("/sign-in", data={"key": decides})
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        assert "may decide; read is needed" in refused.text
    with server.client() as client:
        assert client.experiment("minutes").status == "active"


def test_an_admin_of_some_experiments_acts_on_these_alone(server: Server) -> None:
    secret, key = new_key("some", "admin", experiments=("minutes", "later"))
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
    form = {"token": token_of(secret), "arms": "a\nb", "learner": "guarded", "missing": "wait"}
    with httpx.Client(base_url=server.url, cookies={COOKIE: secret}, timeout=20) as http:
        assert "New experiment" not in http.get("/").text
        assert "Change it" in http.get("/experiments/minutes").text
        for path in ("/experiments/button", "/experiments/button/erase?older=1", "/experiments/button/decisions?id=1"):
            assert http.get(path).status_code == 403
        for path in ("/experiments/button/pause", "/experiments/button/erase"):
            assert http.post(path, data=form | {"older": "1", "sure": "yes"}).status_code == 403
        assert http.post("/new", data=form | {"name": "somebody-elses"}).status_code == 403
        assert http.post("/new", data=form | {"name": "later"}).status_code == 303
    with server.client() as client:
        assert client.experiment("button").status == "active"


def test_of_experiments_that_nobody_watches_few_are_remembered() -> None:
    pages = Pages(cast(Any, None))
    first = pages.feed("experiment 0")
    for k in range(1, 1000):
        pages.feed(f"experiment {k}")
        assert pages.feed("experiment 0") is first  # it was asked for lately
    assert len(pages._feeds) == MOST_IDLE
