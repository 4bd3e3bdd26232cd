"""What forms do, and what they say afterwards; what they refuse."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from belated.api.types import Deadline
from belated.ledger import open_ledger
from belated.service.pages.session import COOKIE, token_of
from support.elements import Node
from support.pages import visiting
from support.serving import ADMIN_KEY, KINDS, Server, Stores

Show = Callable[..., Node]
TOKEN = {"token": token_of(ADMIN_KEY)}


def alert(page: Node) -> str:
    """What a page says is wrong."""
    return page.one(role="alert").text


def history(page: Node) -> list[list[str]]:
    """What was done, and with which key, the newest first."""
    return [row[1:] for row in page.one(id="changes").rows()]


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
    assert visitor.post("/experiments/minutes/limits", content=b"&" * 50_000).status_code == 400


def test_labels_that_are_numbers_can_be_limited(server: Server, show: Show, visitor: httpx.Client) -> None:
    with server.client() as client:
        client.create("numbered", [10, 20])
        before = show("/experiments/numbered").one("input", name="before").attributes["value"]
        form = TOKEN | {"before": before, "arm": ["10", "20"], "floor": ["25 %", ""], "ceiling": ["", "60%"]}
        answer = visitor.post("/experiments/numbered/limits", data=form)
        assert answer.status_code == 303
        limits = client.experiment("numbered").limits
    assert limits is not None
    assert [(each.arm, each.floor, each.ceiling) for each in limits.arms] == [(10, 0.25, None), (20, None, 0.6)]
    page = show("/experiments/numbered")
    what, who = history(page)[0]
    words = "'10' from 25 % to 100 %, '20' from 0 % to 60 %"
    assert what.endswith(words)
    assert who == "BELATED_ADMIN_KEY"
    assert [each.attributes["value"] for each in page.all("input", name="floor")] == ["0.25", "0"]
    assert words in page.one("dl", class_="settings").texts("dd")


def test_limits_stay_exactly_as_they_are_when_a_form_is_sent_back(server: Server, show: Show) -> None:
    """Also those of an arm that was retired."""
    third = 1.0 / 3.0
    with server.client() as client:
        client.create("thirds", ["a", "b", "c", "d"], limits={"arms": [{"arm": k, "ceiling": third} for k in "abc"]})
        client.retire_arm("thirds", "c")
    page = show("/experiments/thirds")
    shown = [each.attributes["value"] for each in page.all("input", name="ceiling")]
    assert sorted(shown) == [repr(third)] * 3 + ["1"]


def test_limits_that_were_changed_meanwhile_are_not_undone(server: Server, show: Show, visitor: httpx.Client) -> None:
    def now() -> str:
        return show("/experiments/limited").one("input", name="before").attributes["value"]

    with server.client() as client:
        client.create("limited", ["a", "b"])
        form = TOKEN | {"before": now(), "arm": ["a", "b"], "floor": ["0.2", ""], "ceiling": ["", ""]}
        client.set_limits("limited", {"holdout": 0.3})
        show("/experiments/limited/limits", 422, **form)
        limits = client.experiment("limited").limits
        assert limits is not None
        assert (limits.holdout, limits.arms) == (0.3, [])
        assert visitor.post("/experiments/limited/limits", data=form | {"before": now()}).status_code == 303
        limits = client.experiment("limited").limits
        assert limits is not None
        assert (limits.holdout, limits.arms[0].floor) == (0.0, 0.2)
        show("/experiments/limited/limits", 422, **(form | {"before": now(), "floor": ["much", ""]}))


def test_labels_are_taken_as_the_api_takes_them(server: Server, show: Show, visitor: httpx.Client) -> None:
    with server.client() as client:
        client.create("labels", ["blue", "blue ", "red"])
        for label in ("x" * 201, "", "red"):
            show("/experiments/labels/add-arm", 422, **TOKEN, arm=label)
        for word, label in (
            ("add-arm", " green "),
            ("retire-arm", "blue "),
            ("retire-arm", "red"),
            ("restore-arm", "red"),
        ):
            assert visitor.post(f"/experiments/labels/{word}", data=TOKEN | {"arm": label}).status_code == 303
        arms = client.experiment("labels").arms
    assert [(arm.arm, arm.present) for arm in arms] == [
        ("blue", True),
        ("blue ", False),
        ("red", True),
        ("green", True),
    ]
    badges = [bool(row.all(class_="badge")) for row in show("/experiments/labels").one(id="arms").all("tr")]
    assert badges == [not arm.present for arm in arms]


def test_an_experiment_is_paused_resumed_and_archived(server: Server, show: Show, visitor: httpx.Client) -> None:
    """What was done is said on the page that follows, and stands in the history."""
    with server.client() as client:
        client.create("acted", ["a", "b"])
        for word, status in (("pause", "paused"), ("resume", "active"), ("archive", "archived")):
            form = TOKEN | ({"sure": "yes"} if word == "archive" else {})
            answer = visitor.post(f"/experiments/acted/{word}", data=form)
            assert (answer.status_code, answer.headers["location"]) == (303, f"/experiments/acted?done={word}")
            assert client.experiment("acted").status == status
            page = show(answer.headers["location"])
            assert page.one(class_="done").text
            assert page.one(id="head").one(class_="badge").text == status
    assert len(history(page)) == 4
    assert [who for _, who in history(page)] == ["BELATED_ADMIN_KEY"] * 3 + ["–"]
    actions = {form.attributes["action"] for form in page.one(id="act").all("form", method="post")}
    assert actions == set()
    assert not show("/experiments/acted").all(class_="done")
    assert not show("/experiments/acted?done=nonsense").all(class_="done")


FORM = TOKEN | {"arms": "a\nb", "missing": "wait"}


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"missing": ""}, []),
        ({"missing": "deadline", "deadline": "-1"}, ["-1"]),
        ({"missing": "deadline", "deadline": "soon"}, ["deadline", "soon"]),
        ({"learn": "deadline"}, []),
        ({"units": "own", "lowest": "nan", "highest": "1"}, ["lowest", "nan"]),
        ({"units": "own", "lowest": "2", "highest": "1"}, ["highest"]),
        ({"share_floor": "0.9"}, ["share_floor"]),
        ({"share_floor": "0.1", "holdout": "0.2"}, ["share_floor"]),
        ({"holdout": "2"}, ["holdout", "2"]),
        ({"arms": "a"}, ["arms"]),
        ({"learner": "nobody"}, ["nobody"]),
    ],
)
def test_a_form_that_asks_for_what_cannot_be(show: Show, changed: dict[str, str], names: list[str]) -> None:
    page = show("/new", 422, **(FORM | {"name": "impossible"} | changed))
    said = alert(page)
    assert said
    assert [name for name in names if name not in said] == [], said
    assert page.one("input", name="name").attributes["value"] == "impossible"
    show("/experiments/impossible", 404)


def test_every_choice_of_the_form_counts(server: Server, visitor: httpx.Client) -> None:
    form = FORM | {
        "name": "choices",
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
    assert visitor.post("/new", data=form).status_code == 303
    held_out = form | {"name": "held-out", "share_floor": "", "holdout": "20 %", "reports": "sum"}
    assert visitor.post("/new", data=held_out).status_code == 303
    with server.client() as client:
        made, other = client.experiment("choices"), client.experiment("held-out")
    assert made.missing == Deadline(2.5 * 86400, 1.0, "deadline")
    assert made.outcome is not None
    assert (made.outcome.lowest, made.outcome.highest, made.outcome.better) == (-5.0, 20.0, "lower")
    assert (made.learner, made.reports, made.share_floor) == ("thompson", "first", 0.1)
    assert other.limits is not None
    assert (other.limits.holdout, other.share_floor, other.reports) == (0.2, 0.0, "sum")


def test_ids_are_erased_once_that_is_confirmed(server: Server, show: Show, visitor: httpx.Client) -> None:
    path = "/experiments/erasing/erase"
    with server.client() as client:
        client.create("erasing", ["a", "b"])
        client.decide_many("erasing", [f"user-{k}" for k in range(12)])
    asked = show(f"{path}?matching=user-1*").one("form", method="post", action=path)
    assert asked.one("input", name="matching").attributes["value"] == "user-1*"
    assert "3" in asked.one("button").text
    assert "required" in asked.one("input", name="sure").attributes
    show(path, 422, **TOKEN, matching="user-1*")
    answer = visitor.post(path, data=TOKEN | {"matching": "user-1*", "sure": "yes"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/experiments/erasing?done=erase")
    page = show("/experiments/erasing")
    assert history(page)[0][0].startswith("3 ")
    ids = [row[3] for row in page.one(id="latest").rows()]
    assert [id for id in ids if id.startswith("user-")] == [f"user-{k}" for k in (9, 8, 7, 6, 5, 4, 3, 2, 0)]
    with closing(open_ledger(server.store)) as ledger:
        record = ledger.find("erasing")
        assert record is not None
        assert ledger.decision(record.number, "user-11") is None
        assert ledger.decision(record.number, "user-2") is not None
        (erasure,) = [each for each in ledger.erasures() if each.experiment == record.number]
        assert erasure.key is not None
    for query in ("", "?older=x", "?older=-1"):
        show(f"{path}{query}", 422)
    assert not show(f"{path}?older=1").all("form", method="post", action=path)
    (form,) = show(f"{path}?older=0.0000001").all("form", method="post", action=path)
    assert "9" in form.one("button").text


@pytest.mark.parametrize("kind", KINDS)
def test_ids_that_no_database_takes_are_not_found(kind: str, tmp_path: Path) -> None:
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        with server.client() as client:
            client.create("one", ["a", "b"])
            client.decide("one", "x")
        with visiting(server) as http:
            assert http.get("/experiments/one/decisions?id=%00").status_code == 404
            assert http.get("/experiments/one/erase?id=%00").status_code == 200
            assert http.get("/experiments/%00").status_code == 404
