"""What forms do, and what they say afterwards; what they refuse."""

import html
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from belated.service.pages.session import COOKIE, token_of
from support.browser import Tab
from support.pages import sign_in
from support.serving import ADMIN_KEY, KINDS, Server, Stores

TOKEN = {"token": token_of(ADMIN_KEY)}


def test_behind_a_proxy_that_speaks_https_the_cookie_goes_over_https_alone(server: Server) -> None:
    for proto, is_secure in ((None, False), ("http", False), ("https", True)):
        headers = {} if proto is None else {"X-Forwarded-Proto": proto}
        with httpx.Client(base_url=server.url, headers=headers) as http:
            answer = http.post("/sign-in", data={"key": ADMIN_KEY})
            assert answer.status_code == 303
            assert ("; Secure" in answer.headers["set-cookie"]) == is_secure
            page = http.get("/experiments/minutes", headers={"Cookie": f"{COOKIE}={ADMIN_KEY}"}).text
            assert f"{'https' if is_secure else 'http'}://127.0.0.1:{server.port}/v1/experiments/minutes" in page


def test_a_form_of_another_site_is_refused(server: Server, visitor: httpx.Client) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    with httpx.Client(base_url=server.url, headers=foreign) as http:
        refused = http.post("/sign-in", data={"key": ADMIN_KEY})
    assert (refused.status_code, "set-cookie" in refused.headers) == (400, False)
    assert visitor.post("/experiments/minutes/pause", data=TOKEN, headers=foreign).status_code == 400
    with server.client() as client:
        assert client.experiment("minutes").status == "active"


def test_a_form_with_very_many_fields_is_refused(server: Server, visitor: httpx.Client) -> None:
    with httpx.Client(base_url=server.url) as http:
        assert http.post("/sign-in", content=b"&" * 50_000).status_code == 400
        assert http.post("/sign-in", content=b"x" * 70_000).status_code == 413
    refused = visitor.post("/experiments/minutes/limits", content=b"&" * 50_000)
    assert (refused.status_code, "more than 40,000 fields" in refused.text) == (400, True)


def test_labels_that_are_numbers_can_be_limited(server: Server, visitor: httpx.Client) -> None:
    with server.client() as client:
        client.create("numbered", [10, 20])
        page = visitor.get("/experiments/numbered").text
        before = html.unescape(page.partition('name="before" value="')[2].partition('"')[0])
        form = TOKEN | {"before": before, "arm": ["10", "20"], "floor": ["25 %", ""], "ceiling": ["", "60%"]}
        answer = visitor.post("/experiments/numbered/limits", data=form)
        assert answer.status_code == 303
        limits = client.experiment("numbered").limits
    table = visitor.get("/experiments/numbered").text.partition('id="changes"')[2].partition("</table>")[0]
    line = table.partition("limits set: ")[2].partition("</tr>")[0]
    assert line.startswith("&#39;10&#39; from 25 % to 100 %, &#39;20&#39; from 0 % to 60 %</td>")
    assert line.endswith(">BELATED_ADMIN_KEY</td>")
    assert limits is not None
    assert [(each.arm, each.floor, each.ceiling) for each in limits.arms] == [(10, 0.25, None), (20, None, 0.6)]
    page = visitor.get("/experiments/numbered").text
    assert 'name="floor" value="0.25"' in page
    assert "&#39;10&#39; from 25 % to 100 %" in page.partition('class="settings"')[2]


def test_limits_stay_exactly_as_they_are_when_a_form_is_sent_back(server: Server, visitor: httpx.Client) -> None:
    """Also those of an arm that was retired."""
    third = 1.0 / 3.0
    with server.client() as client:
        client.create("thirds", ["a", "b", "c", "d"], limits={"arms": [{"arm": k, "ceiling": third} for k in "abc"]})
        client.retire_arm("thirds", "c")
    page = visitor.get("/experiments/thirds").text
    assert page.count(f'name="ceiling" value="{third!r}"') == 3


def test_labels_are_taken_as_the_api_takes_them(server: Server, visitor: httpx.Client) -> None:
    with server.client() as client:
        client.create("labels", ["blue", "blue ", "red"])
        there = "there is an arm &#39;red&#39; already"
        for label, words in (("x" * 201, "1 to 200"), ("", "arm is &#39;&#39;"), ("red", there)):
            refused = visitor.post("/experiments/labels/add-arm", data=TOKEN | {"arm": label})
            assert (refused.status_code, words in refused.text) == (422, True), refused.text
        assert visitor.post("/experiments/labels/add-arm", data=TOKEN | {"arm": " green "}).status_code == 303
        assert visitor.post("/experiments/labels/retire-arm", data=TOKEN | {"arm": "blue "}).status_code == 303
        arms = client.experiment("labels").arms
    assert [arm.arm for arm in arms] == ["blue", "blue ", "red", "green"]
    assert [arm.present for arm in arms] == [True, False, True, True]


def test_what_a_missing_outcome_means_must_be_chosen(visitor: httpx.Client) -> None:
    refused = visitor.post("/new", data=TOKEN | {"name": "unchosen", "arms": "a\nb"})
    assert (refused.status_code, "what a missing outcome means is not chosen" in refused.text) == (422, True)
    assert visitor.get("/experiments/unchosen").status_code == 404


def test_what_was_done_is_said_once(tab: Tab, server: Server) -> None:
    page = tab.page
    with server.client() as client:
        client.create("told", ["a", "b"])
    sign_in(page)
    page.goto("/experiments/told")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".done")).to_contain_text("It is paused. Whoever asks for a decision is refused")
    assert page.url == f"{server.url}/experiments/told"
    page.reload()
    expect(page.locator(".done")).to_have_count(0)


def test_settings_are_shown_to_whoever_may_read(server: Server, visitor: httpx.Client) -> None:
    with server.client() as client:
        minutes = {"lowest": 0, "highest": 60, "better": "lower"}
        client.create("set-up", ["a", "b"], learner="balanced", outcome=minutes, reports="sum")
    found = visitor.get("/experiments/set-up").text.partition('class="settings"')[2].partition("</dl>")[0]
    for words in (
        "<dd>balanced</dd>",
        "<dd>values from 0 to 60, lower is better</dd>",
        "<dd>they are added up</dd>",
        "is waited for, and holds up the verdict.</dd>",
        "<dd>no limits</dd>",
    ):
        assert words in found


@pytest.mark.parametrize("kind", KINDS)
def test_ids_that_no_database_takes_are_not_found(kind: str, tmp_path: Path) -> None:
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        with server.client() as client:
            client.create("one", ["a", "b"])
            client.decide("one", "x")
        with httpx.Client(base_url=server.url, cookies={COOKIE: ADMIN_KEY}, timeout=30) as http:
            assert http.get("/experiments/one/decisions?id=%00").status_code == 404
            assert "There is no decision of one" in http.get("/experiments/one/erase?id=%00").text
            assert http.get("/experiments/%00").status_code == 404
