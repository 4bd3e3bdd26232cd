"""Who sees the service's own pages: signing in, keys that may less, what pages and their files may load."""

import re
from typing import Any, cast

import pytest

from belated.service.pages import Pages
from belated.service.pages.router import MOST_IDLE
from belated.service.pages.session import COOKIE, cookie, token_of
from support.elements import read_html
from support.pages import new_secret, visiting
from support.serving import ADMIN_KEY, Server


def test_a_wrong_key_is_refused_and_a_right_one_opens(server: Server) -> None:
    with visiting(server, "") as http:
        refused = http.post("/sign-in", data={"key": "belated_wrong_key", "to": "/experiments/minutes"})
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        form = read_html(refused.text).one("form", action="/sign-in")
        assert form.one("input", name="to").attributes["value"] == "/experiments/minutes"
        assert "value" not in form.one("input", name="key").attributes
        answer = http.post("/sign-in", data={"key": f" {ADMIN_KEY}\t", "to": "/experiments/minutes?a=1"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/experiments/minutes?a=1")
        assert answer.headers["set-cookie"].startswith(f"{COOKIE}={ADMIN_KEY}; Path=/; ")
    with visiting(server) as http:
        answer = http.post("/sign-out", data={"token": token_of(ADMIN_KEY)})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        assert answer.headers["set-cookie"].startswith(f"{COOKIE}=; ")


@pytest.mark.parametrize(
    "to", ["//example.org", "https://example.org", "/\\example.org", "/experiments/a\r\nx: y", "/experiments/é"]
)
def test_signing_in_leads_to_pages_of_this_service_alone(server: Server, to: str) -> None:
    with visiting(server, "") as http:
        answer = http.post("/sign-in", data={"key": ADMIN_KEY, "to": to})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_over_https_the_cookie_goes_over_https_alone() -> None:
    assert cookie("secret", secure=True).endswith(b"; HttpOnly; SameSite=Strict; Secure")
    assert cookie("secret", secure=False).endswith(b"; HttpOnly; SameSite=Strict")
    assert b"Max-Age=0;" in cookie("", secure=True)


def test_forms_need_a_token_and_the_right_role(server: Server) -> None:
    with visiting(server) as http:
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
    with visiting(server, "") as http:
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
    with visiting(server, "") as http:
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


def test_a_key_that_reads_sees_its_experiments_alone_and_changes_nothing(server: Server) -> None:
    secret, _ = new_secret(server, "reader", "read", "minutes")
    decides, _ = new_secret(server, "decider", "decide")
    with visiting(server, secret) as http:
        page = read_html(http.get("/").text)
        assert page.all("a", href="/experiments/minutes")
        assert not page.all("a", href="/experiments/button")
        assert not page.all("a", href="/new")
        assert not read_html(http.get("/experiments/minutes").text).all(id="act")
        for path in ("/experiments/button", "/experiments/button/live", "/new"):
            assert http.get(path).status_code == 403
        for path in ("/experiments/minutes/pause", "/new"):
            assert http.post(path, data={"token": token_of(secret)}).status_code == 403
    with visiting(server, "") as http:
        refused = http.post("/sign-in", data={"key": decides})
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
    with server.client() as client:
        assert client.experiment("minutes").status == "active"


def test_an_admin_of_some_experiments_acts_on_these_alone(server: Server) -> None:
    secret, _ = new_secret(server, "some", "admin", "minutes", "later")
    form = {"token": token_of(secret), "arms": "a\nb", "learner": "guarded", "missing": "wait"}
    with visiting(server, secret) as http:
        assert not read_html(http.get("/").text).all("a", href="/new")
        assert read_html(http.get("/experiments/minutes").text).all(id="act")
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
