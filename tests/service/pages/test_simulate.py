"""Simulating from a page: what is guessed, an experiment's own outcomes, stopping, waiting, what is refused."""

import time
from contextlib import closing
from urllib.parse import urlencode

import httpx
import msgspec
from playwright.sync_api import expect

from belated.ledger import open_ledger
from belated.ledger.keys import new_key
from belated.service.pages.session import COOKIE
from support.browser import Tab
from support.pages import sign_in
from support.processes import simulating, wait_until_gone
from support.serving import ADMIN_KEY, Server

GUESS = {"arms": "blue 20\ngreen 70", "delay": "0.1", "bad": "alike", "a_day": "100", "decisions": "2000"}
LONG = GUESS | {"arms": "\n".join(f"arm-{k} {k + 1}" for k in range(20)), "decisions": "200000"}
"""Longer than a test waits."""


def test_a_guess_is_simulated(tab: Tab) -> None:
    page = tab.page
    sign_in(page)
    page.get_by_role("link", name="Simulate").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Simulate before you ship")
    assert page.locator("#results").count() == 0
    page.get_by_label("How many decisions").fill("a few")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("alert")).to_have_text("decisions is 'a few'; a whole number is needed")
    expect(page.get_by_label("How many decisions")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("How many decisions").fill("2,000")
    page.get_by_label("days that good outcomes take").fill("0.1")
    page.get_by_label("when bad outcomes are known").select_option("take as long")
    page.get_by_label("Arms, each with").fill("blue 20\n<b>green</b> 70")
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#state")).to_have_text("Done: 20 runs.")
    expect(page.locator("#stop")).to_be_hidden()
    assert page.evaluate("document.getElementById('progress').value") == 20
    sentences = page.locator("#sentences p").all_text_contents()
    assert sentences[0].startswith("In 2,000 decisions (2 days) guarded (the default) loses about ")
    assert "compared with playing the best arm, <b>green</b>, from" in sentences[0]
    assert sentences[1].startswith("You would know which arm is best after about ")
    for id in ("lost", "known"):
        expect(page.locator(f'[data-chart="{id}"] canvas')).to_be_visible()
        assert page.locator(f'[data-table="{id}"] tbody tr').count() > 10
    last = page.locator('[data-table="known"] tbody tr').first.locator("td").all_text_contents()
    assert last == ["100 %", "95 %", "100 %", "100 %"]  # thompson in 19 of 20
    assert page.get_by_label("Arms, each with").input_value() == "blue 20\n<b>green</b> 70"
    assert {httpx.URL(url).host for url in tab.asked} == {"127.0.0.1"}
    assert [line for line in tab.said if "username fields" not in line and "422" not in line] == []


def test_an_experiment_is_simulated_with_its_own_outcomes(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    page.goto("/experiments/minutes")
    page.get_by_role("link", name="Simulate with its data").click()
    assert page.get_by_label("Its name").input_value() == "minutes"
    expect(page.get_by_role("radio", name="As in an experiment")).to_be_checked()
    page.get_by_label("days that good outcomes take").fill("3")  # whoever fills it in has chosen
    expect(page.get_by_role("radio", name="As I guess")).to_be_checked()
    page.get_by_label("Its name").fill("minutes")
    expect(page.get_by_role("radio", name="As in an experiment")).to_be_checked()
    page.get_by_label("How many decisions").fill("500")
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#state")).to_have_text("Done: 20 runs.")
    expect(page.locator("#notes li").first).to_have_text(
        "Outcomes and delays are drawn from 20 settled decisions of minutes."
    )
    expect(page.locator("#sentences")).to_contain_text("of value")
    page.get_by_label("Its name").fill("nobody")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("alert")).to_have_text("there is no experiment 'nobody'")


def test_what_cannot_be_drawn_from_is_said(tab: Tab, server: Server) -> None:
    with server.client() as client:
        client.create("empty", ["a", "b"])
    sign_in(tab.page)
    tab.page.goto("/simulate?source=experiment&experiment=empty&decisions=100")
    expect(tab.page.locator("#state")).to_have_text("empty has no decision yet; guess rates instead")


def test_the_stop_button_ends_the_process_and_the_next_one_begins(tab: Tab, server: Server) -> None:
    """One at a time: whoever comes second waits."""
    page = tab.page
    sign_in(page)
    page.goto("/simulate?" + urlencode(LONG))
    expect(page.locator("#state")).to_contain_text("of 20 runs")
    (process,) = simulating(server.pid)
    other = page.context.new_page()
    other.goto("/simulate?" + urlencode(GUESS))
    expect(other.locator("#state")).to_have_text("Another simulation is running; this one waits for its turn.")
    assert simulating(server.pid) == [process]
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#state")).to_contain_text("Stopped after")
    expect(other.locator("#state")).to_have_text("Done: 20 runs.")
    wait_until_gone(process)


def test_a_page_that_is_closed_ends_its_process(tab: Tab, server: Server) -> None:
    page = tab.page
    sign_in(page)
    page.goto("/simulate?" + urlencode(LONG))
    expect(page.locator("#state")).to_contain_text("of 20 runs")
    (process,) = simulating(server.pid)
    page.close()
    wait_until_gone(process)


def test_findings_are_streamed_and_decisions_go_on(server: Server) -> None:
    with (
        httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=60) as http,
        server.client() as client,
        http.stream("GET", "/simulate/run", params=GUESS) as answer,
    ):
        assert answer.headers["content-type"] == "text/event-stream"
        client.decide("button", f"while-simulating-{time.time_ns()}")
        text = "".join(answer.iter_text())
    messages = [part.split("\n") for part in text.strip().split("\n\n") if part.startswith("event: found")]
    found = [msgspec.json.decode(lines[1].removeprefix("data: ")) for lines in messages]
    assert [each["runs"] for each in found] == list(range(1, 21))
    assert text.endswith("event: over\ndata: true\n\n")


def test_what_is_refused(server: Server) -> None:
    secret, key = new_key("simulates", "read", experiments=("minutes",))
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(key)
    mine = {"source": "experiment", "decisions": "10"}
    with httpx.Client(base_url=server.url, timeout=30) as http:
        for path in ("/simulate", "/simulate/run"):
            assert http.get(path, params=GUESS).status_code == 303
        cookies = {COOKIE: secret}
        http.cookies.update(cookies)
        assert http.get("/simulate", params=mine | {"experiment": "minutes"}).status_code == 200
        assert http.get("/simulate/run", params=mine | {"experiment": "button"}).status_code == 403
        assert http.get("/simulate/run", params=GUESS | {"decisions": "0"}).status_code == 422
        suggested = http.get("/simulate").text.partition("<datalist")[2].partition("</datalist>")[0]
        assert 'value="minutes"' in suggested
        assert 'value="button"' not in suggested
