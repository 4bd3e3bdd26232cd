"""What open pages are told: when something fails, when little changes, when a key is revoked."""

import asyncio
import logging
import time
from contextlib import aclosing, closing
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from playwright.sync_api import Request, Route, expect

from belated.ledger import open_ledger
from belated.ledger.keys import new_key
from belated.service.pages import feed as module
from belated.service.pages.feed import Feed
from support.browser import Tab
from support.pages import sign_in
from support.serving import ADMIN_KEY, Server


def test_a_look_that_fails_is_told_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    looks: list[str] = []

    async def look(name: str) -> Any:
        looks.append(name)
        raise IndexError("no such arm")

    async def told() -> bytes:
        feed = Feed(cast(Any, SimpleNamespace(look=look, streams=1)), "one", "settled")
        async with aclosing(feed.watch((asyncio.Future(),))) as messages:
            assert (await anext(messages)).startswith(b"retry")
            message = await anext(messages)
            while len(looks) < 3:
                await asyncio.sleep(0.01)
            return message

    with caplog.at_level(logging.ERROR):
        message = asyncio.run(told())
    assert message.startswith(b"event: problem\ndata: ")
    assert b"its log says why" in message
    assert "looking at experiment one for its open pages failed: no such arm" in caplog.text


def test_estimates_that_fail_are_logged_and_the_page_is_shown_without(caplog: pytest.LogCaptureFixture) -> None:
    async def known(name: str, outcomes: str) -> bytes:
        raise OverflowError(f"{outcomes} outcomes of {name}")

    async def ask() -> bytes | None:
        return await Feed(cast(Any, SimpleNamespace(known=known)), "one", "settled").known(1.0, 5)

    assert asyncio.run(ask()) is None
    (line,) = caplog.messages
    assert line == "estimating experiment one for its pages failed: OverflowError('settled outcomes of one')"


def test_a_problem_whose_count_grows_does_not_load_the_page_again(tab: Tab, server: Server) -> None:
    page, loads = tab.page, []

    def note(request: Request) -> None:
        if request.url.endswith("/experiments/silent"):
            loads.append(request.url)

    with server.client() as client:
        client.create("silent", ["a", "b"], seed=3)
        client.decide_many("silent", 99)
        sign_in(page)
        page.goto("/experiments/silent")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#problems")).to_be_empty()
        page.on("request", note)
        client.decide_many("silent", 51)
        expect(page.locator("#problems")).to_have_text("No outcome of 150 decisions has been reported yet.")
        client.decide_many("silent", 250)
        expect(page.locator("#problems")).to_have_text("No outcome of 400 decisions has been reported yet.")
        assert loads == []
        made = client.decide_many("silent", 1)
        client.observe_many("silent", rewards={each.id: 1.0 for each in made})
        expect(page.locator("#problems")).to_contain_text("No outcome has come of ")
        client.add_arm("silent", "c")
        expect(page.locator("#arms tr")).to_have_count(3)
    assert len(loads) == 1


def test_a_part_that_somebody_uses_is_renewed_when_they_leave_it(tab: Tab, server: Server) -> None:
    page = tab.page
    with server.client() as client:
        client.create("in-use", ["a", "b"])
        sign_in(page)
        page.goto("/experiments/in-use")
        expect(page.locator("#live")).to_have_text("live")
        page.locator("#arms-frame").focus()
        client.add_arm("in-use", "c")
        expect(page.locator("#history")).to_contain_text("arm 'c' added")
        assert page.locator("#arms tr").count() == 2
        page.locator("#id").focus()
        expect(page.locator("#arms tr")).to_have_count(3)


def test_that_too_many_pages_are_open_is_said(tab: Tab) -> None:
    page, methods = tab.page, []

    def refuse(route: Route) -> None:
        methods.append(route.request.method)
        route.fulfill(status=503)

    sign_in(page)
    page.route("**/live*", refuse)
    page.goto("/experiments/minutes")
    expect(page.locator("#live")).to_contain_text("too many pages are open")
    assert methods[:2] == ["GET", "HEAD"]


def test_whoever_is_signed_out_comes_back_to_the_page(tab: Tab, server: Server) -> None:
    page = tab.page
    secret, key = new_key("going", "read")
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
        sign_in(page, secret)
        page.goto("/experiments/minutes")
        expect(page.locator("#live")).to_have_text("live")
        ledger.revoke_key(key.id, 1)
        page.get_by_role("link", name="sign in again").click()
        page.get_by_label("Key").fill(ADMIN_KEY)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("minutes")


def test_a_revoked_key_hears_nothing_more_of_the_api_either(server: Server) -> None:
    secret, key = new_key("streaming", "read")
    with (
        closing(open_ledger(server.store)) as ledger,
        httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {secret}"}, timeout=30) as http,
    ):
        ledger.add_key(key)
        with http.stream("GET", "/v1/experiments/minutes/stream") as answer:
            texts = answer.iter_text()
            assert "event: state" in next(texts)
            ledger.revoke_key(key.id, 1)
            assert [text for text in texts if "event" in text] == []  # and it ends


def test_the_decision_that_holds_up_the_verdict_is_named(tab: Tab, server: Server) -> None:
    page = tab.page
    with server.client() as client:
        client.create("stuck", ["a", "b"])
        settled = client.decide_many("stuck", 20)
        client.decide("stuck", "lost/17")
        settled += client.decide_many("stuck", 30)
        client.observe_many("stuck", rewards={each.id: float(each.arm == "a") for each in settled})
        made = {arm.arm: arm.outcomes for arm in client.estimates("stuck").arms}
        everything = {arm.arm: arm.outcomes for arm in client.estimates("stuck", outcomes="arrived").arms}
    assert sum(made.values()) == 20
    sign_in(page)
    page.goto("/experiments/stuck")
    note = page.locator("#notes li").last
    expect(note).to_contain_text("Decision 21, made ")
    assert abs(datetime.fromisoformat(note.inner_text()[18:37] + "+00:00").timestamp() - time.time()) < 600
    expect(page.locator('#arms tr[data-arm="a"] [data-show="counted"]')).to_have_text(str(made["a"]))
    page.get_by_label("Count").select_option("arrived")
    page.get_by_role("button", name="Show").first.click()
    expect(page.locator('#arms tr[data-arm="a"] [data-show="counted"]')).to_have_text(str(everything["a"]))
    expect(page.locator('[data-chart="course"]')).to_have_text("It is drawn where decisions count in their order.")
    assert page.locator("#notes").inner_text().count("Decision 21") == 0
    with server.client() as client:  # what follows counts in the same way
        client.observe_many("stuck", rewards={each.id: 1.0 for each in client.decide_many("stuck", 10)})
        counted = {arm.arm: arm.outcomes for arm in client.estimates("stuck", outcomes="arrived").arms}
    expect(page.locator('#arms tr[data-arm="a"] [data-show="counted"]')).to_have_text(str(counted["a"]))
    page.get_by_label("Count").select_option("settled")
    page.get_by_role("button", name="Show").first.click()
    page.get_by_role("link", name="lost/17").first.click()
    expect(page.locator("main")).to_contain_text("not settled yet")


def test_the_story_of_a_decision_is_of_that_one_alone(visitor: httpx.Client, server: Server) -> None:
    """Also of one that fell to an arm that came later."""
    with server.client() as client:
        client.create("stories", ["a", "b"])
        first, second = client.decide_many("stories", 2)
        client.observe_many("stories", rewards={first.id: 0.0, second.id: 1.0})
        client.add_arm("stories", "new")
        made = client.decide_many("stories", 50)
        new = next(each for each in made if each.arm == "new")
    story = visitor.get("/experiments/stories/decisions", params={"id": first.id}).text
    assert story.count("outcome after") == 1
    assert "reward 0; learned from" in story
    assert "&#39;new&#39;, with probability" in visitor.get(f"/experiments/stories/decisions?id={new.id}").text


def test_which_outcomes_cannot_be_counted_is_said(visitor: httpx.Client) -> None:
    refused = visitor.get("/experiments/minutes?count=all")
    assert (refused.status_code, "one of settled, bounded, arrived" in refused.text) == (422, True)
    assert visitor.get("/experiments/minutes/live?count=all").status_code == 422


def test_of_an_experiment_that_there_is_not_there_is_no_stream(visitor: httpx.Client) -> None:
    with visitor.stream("GET", "/experiments/nobody/live") as answer:
        assert answer.status_code == 404


def test_of_many_arms_the_others_are_one(tab: Tab, server: Server) -> None:
    """The timeline tells 24 apart; the page lists a hundred."""
    page = tab.page
    with server.client() as client:
        client.create("crowd", list(range(150)))
        client.observe_many("crowd", rewards={each.id: 1.0 for each in client.decide_many("crowd", 600)})
        arms = {arm.arm: arm.outcomes for arm in client.experiment("crowd").arms}
    sign_in(page)
    page.goto("/experiments/crowd")
    expect(page.locator("#arms tr")).to_have_count(100)
    expect(page.locator("#winner")).to_contain_text("50 more are not")
    page.locator("#delay-arm").select_option("other arms")
    cells = page.locator('[data-table="delays"] tbody td').all_text_contents()
    assert sum(int(text) for text in cells) == sum(count for arm, count in arms.items() if int(arm) >= 24)
    page.locator("#delay-arm").select_option("7")
    cells = page.locator('[data-table="delays"] tbody td').all_text_contents()
    assert sum(int(text) for text in cells) == arms[7]
    assert tab.said == [line for line in tab.said if "username fields" in line]


def test_fallbacks_that_were_told_one_after_another_are_one_line(server: Server, visitor: httpx.Client) -> None:
    with server.client() as client:
        client.create("fallen", ["a", "b"])
        for k in range(5):
            client.report_fallbacks("fallen", 3, arm="ab"[k % 2], id=f"f{k}")
        client.add_arm("fallen", "c")
        client.report_fallbacks("fallen", 1, arm="c", id="last")
    table = visitor.get("/experiments/fallen").text.partition('id="changes"')[2].partition("</table>")[0]
    lines = [part.partition("</td>")[0] for part in table.split('<td class="word">')[1::2]]
    assert lines == [
        "1 fallback told, the last to &#39;c&#39;",
        "arm &#39;c&#39; added",
        "15 fallbacks told, the last to &#39;a&#39;",
        "created",
    ]


def test_the_list_says_which_arm_wins(visitor: httpx.Client, server: Server) -> None:
    with server.client() as client:
        client.create("won", ["good", "bad"])
        for _ in range(3):
            made = client.decide_many("won", 200)
            client.observe_many("won", rewards={each.id: float(each.arm == "good") for each in made})
        client.create("nothing-yet", ["a", "b"])
        client.create("close", ["one", "other"])
        made = client.decide_many("close", 40)
        client.observe_many("close", rewards={each.id: float(k % 2) for k, each in enumerate(made)})
    until = time.monotonic() + 30
    while True:  # it takes no longer than the list may take, so perhaps it comes the next time
        page = visitor.get("/").text
        if "good wins" in page and "nothing is known yet" in page and " leads, not sure yet" in page:
            break
        assert time.monotonic() < until
    assert "one wins" not in page
    assert "other wins" not in page


def test_what_needs_attention_is_looked_at_anew_when_something_has_changed(
    visitor: httpx.Client, server: Server
) -> None:
    def listed() -> bool:
        return "/experiments/attended" in visitor.get("/?status=attention&q=attended").text

    with server.client() as client:
        client.create("attended", ["a", "b"])
        assert not listed()
        client.pause("attended")
        assert listed()
        client.resume("attended")
        assert not listed()
        client.decide_many("attended", 100)
        assert listed()
