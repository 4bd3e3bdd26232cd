"""Keys for some experiments, keys that end, and when a key was last used."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from belated.cli.main import main
from belated.ledger import open_ledger
from belated.ledger.events import SECOND, ApiKey
from belated.ledger.keys import id_of, new_key, opens
from belated.ledger.sql import SqlLedger
from belated.service.auth import Authenticator
from belated.service.errors import ApiError
from support.http_helpers import EXPERIMENTS, MOSTLY_SQLITE, at, create, decide, done, observe, problem, serving, talk
from support.refusals import refused
from support.serving import ADMIN_KEY, Server
from support.waiting import until

NAMES = ("shop-a", "shop-b", "news", "news.2")


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running, talk(running) as http:
        for name in NAMES:
            create(http, name)
            decide(http, name, "one")
        yield running


def key(server: Server, role: str, **limits: Any) -> httpx.Client:
    """Somebody with a new key."""
    secret, made = new_key("somebody", role, **limits)
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(made)
    return talk(server, secret)


def kept(server: Server, http: httpx.Client) -> ApiKey:
    """What the ledger keeps of a key."""
    id = id_of(http.headers["authorization"].removeprefix("Bearer ").encode())
    with closing(open_ledger(server.store)) as ledger:
        return next(each for each in ledger.all_keys() if each.id == id)


def test_a_scoped_key_sees_its_experiments_only(server: Server) -> None:
    with key(server, "read", experiments=["shop-*", "news"]) as http:
        listed = done(http.get(EXPERIMENTS))["experiments"]
        assert [each["name"] for each in listed] == ["shop-a", "shop-b", "news"]
        shown = http.get("/metrics").text
        assert 'belated_decisions_total{experiment="shop-a"} 1.0' in shown
        assert 'experiment="news"' in shown
        assert "news.2" not in shown
        assert "worker=" not in shown  # workers serve everybody
        assert done(http.get(at("shop-b")))["rounds"] == 1
        assert http.get(at("news", "ledger")).status_code == 200
    with talk(server) as admin:
        assert 'worker="0"' in admin.get("/metrics").text


def test_a_scoped_key_learns_nothing_of_other_experiments(server: Server) -> None:
    """One that is there and one that is not are refused in the same words, before anything else is looked at."""
    with (
        key(server, "read", experiments=["shop-*"]) as reader,
        key(server, "decide", experiments=["shop-*"]) as decider,
    ):
        said = set()
        for name in ("news.2", "nobody", "shop", "xshop-a"):
            asked = [reader.get(at(name)), reader.get(at(name, "ledger")), reader.get(at(name, "stream"))]
            asked += [decider.post(at(name, "decisions"), content=b"{"), decider.post(at(name, "outcomes"))]
            for response in asked:
                said.add(problem(response, 403, "wrong_scope", "name").replace(repr(name), "NAME"))
        assert len(said) == 1
        made = done(decider.post(at("shop-a", "decisions"), json={"id": "mine"}))
        assert made["round"] == 2
        assert observe(decider, "shop-a", {"mine": 0.5})[0]["receipt"] == "used"
        problem(decider.get(at("news.2")), 403, "wrong_role")


def test_a_scoped_admin_rules_within_its_scope_only(server: Server) -> None:
    with key(server, "admin", experiments=["team-*"]) as http, talk(server) as admin:
        before = [each["name"] for each in done(admin.get(EXPERIMENTS))["experiments"]]
        for name in ("shop-a", "brand-new"):
            body = {"name": name, "arms": ["x", "y"], "seed": 1}
            problem(http.post(EXPERIMENTS, json=body), 403, "wrong_scope", "name")
        for word in ("pause", "resume", "archive"):
            problem(http.post(at("shop-a", word)), 403, "wrong_scope", "name")
        create(http, "team-one")
        assert done(http.post(at("team-one", "pause")))["status"] == "paused"
        after = done(admin.get(EXPERIMENTS))["experiments"]
        assert [each["name"] for each in after] == [*before, "team-one"]
        assert [each["name"] for each in after if each["status"] != "active"] == ["team-one"]


@pytest.mark.parametrize(
    ("patterns", "opened", "closed"),
    [
        (["one"], ["one"], ["on", "one2", "xone", ""]),
        (["a.b"], ["a.b"], ["axb"]),
        (["a*c"], ["ac", "abc", "a.b-c"], ["abcd", "xac"]),
        (["*"], ["one", "a.b"], []),
        (["x*", "y"], ["x", "xy", "y"], ["yx", "zx"]),
    ],
)
def test_a_star_stands_for_any_characters_and_nothing_else_for_another(
    patterns: list[str], opened: list[str], closed: list[str]
) -> None:
    test = opens(patterns)
    assert [test(name) for name in opened] == [True] * len(opened)
    assert [test(name) for name in closed] == [False] * len(closed)


@pytest.mark.parametrize(
    ("limits", "value"),
    [
        ({"experiments": []}, "0"),
        ({"experiments": ["a b"]}, "'a b'"),
        ({"experiments": ["-a"]}, "'-a'"),
        ({"experiments": ["a" * 101]}, "a" * 101),
        ({"expires": 1}, "1970-01-01T00:00:00.000001Z"),
        ({"rate": 0.0}, "0"),
        ({"rate": float("nan")}, "nan"),
        ({"rate": 2e6}, "2e"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], value: str) -> None:
    with refused(None, *limits, value, error=ValueError):
        new_key("mine", "read", **limits)


def test_a_key_that_has_expired_is_refused_with_a_code_that_says_so(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.time()
    secret, made = new_key("mine", "read", expires=int((begun + 3600) * SECOND))
    with closing(open_ledger(server.store)) as ledger:
        ledger.add_key(made._replace(expires=int(begun * SECOND)))
    with talk(server, secret) as http:
        response = http.get(EXPERIMENTS)
        problem(response, 401, "expired_key")
        assert response.headers["www-authenticate"] == "Bearer"
    now = [begun]
    monkeypatch.setattr("belated.service.auth.time", SimpleNamespace(monotonic=time.monotonic, time=lambda: now[0]))

    async def read() -> list[ApiKey]:
        return [made]

    async def codes() -> list[str]:
        auth = Authenticator(read)
        await auth.refresh()
        header, found = f"Bearer {secret}".encode(), []
        for seconds in (0, 3599, 3600, 3601):
            now[0] = begun + seconds
            known = auth.known(header, "read", "one")
            try:
                caller = await auth.check(header, "read")
                assert caller is known
                assert auth.is_valid(caller)
                found.append("open")
            except ApiError as refusal:
                assert known is None
                assert not auth.is_valid(caller)
                found.append(refusal.problem.code)
        return found

    assert asyncio.run(codes()) == ["open", "open", "expired_key", "expired_key"]


def test_the_last_use_is_noted_soon_and_at_most_once_a_minute(server: Server) -> None:
    with key(server, "read") as http, key(server, "read") as idle:
        begun = time.time()
        done(http.get(EXPERIMENTS))
        used = until(lambda: kept(server, http).used)
        assert begun <= used / SECOND <= time.time()
        assert kept(server, idle).used is None
        with closing(open_ledger(server.store)) as ledger:
            id = kept(server, http).id
            ledger.note_use([id], used + 60 * SECOND - 1)
            assert kept(server, http).used == used
            ledger.note_use([id], used + 60 * SECOND)
            assert kept(server, http).used == used + 60 * SECOND


def test_uses_are_written_together_once_a_minute_and_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the keys that were used, by a task that requests do not wait for."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr("belated.service.auth.time", clock)
    made = [new_key(str(k), "read") for k in range(3)]
    written: list[list[str]] = []

    async def read() -> list[ApiKey]:
        return [each for _, each in made]

    async def write(ids: list[str], at: int) -> None:
        written.append(sorted(ids))
        if len(written) == 1:
            raise ApiError("internal", "the disk is full")

    async def go() -> None:
        auth = Authenticator(read)
        await auth.refresh()
        await auth.note_use(write)
        assert written == []
        for secret, _ in made[:2]:
            await auth.check(f"Bearer {secret}".encode(), "read")
        both = sorted(each.id for _, each in made[:2])
        with pytest.raises(ApiError):
            await auth.note_use(write)
        await auth.refresh()
        await auth.note_use(write)
        assert written == [both, both]
        await auth.check(f"Bearer {made[0][0]}".encode(), "read")
        now[0] += 59.0
        await auth.note_use(write)
        assert written == [both, both]
        now[0] += 1.0
        await auth.note_use(write)
        assert written == [both, both, [made[0][1].id]]

    asyncio.run(go())


def test_a_use_that_cannot_be_noted_fails_nobody(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory) as server, closing(open_ledger(server.store)) as ledger:
        assert isinstance(ledger, SqlLedger)
        with ledger.committing() as connection:
            refuse = "BEGIN SELECT RAISE(ABORT, 'not today'); END"
            ledger.run(connection, f"CREATE TRIGGER no_use BEFORE UPDATE OF used ON keys {refuse}")
        with talk(server) as http:
            done(http.get(EXPERIMENTS))
            until(lambda: "ERROR" in server.log.read_text())
            done(http.get(EXPERIMENTS))
            create(http, "one")
            with ledger.committing() as connection:
                ledger.run(connection, "DROP TRIGGER no_use")
            until(lambda: ledger.all_keys()[0].used)
            until(lambda: "WARNING" in server.log.read_text())  # it works again
        assert ADMIN_KEY not in server.log.read_text()


def test_the_listing_shows_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'ledger.db'}")
    made = ["keys", "create", "the shop", "--experiments", "shop-*", "news", "--rate", "2.5", *store]
    assert main([*made, "--expires", "2099-12-31"]) == 0
    assert main(["keys", "create", "two", "--expires", "90d", *store]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "--wide", *store]) == 0
    _, _, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[3:] == ["-", "2099-12-31", "-", "2.5", "shop-*,", "news", "the", "shop"]
    assert second.split()[5:] == ["-", "-", "all", "two"]
    assert main(["keys", "list", "--json", *store]) == 0
    one, two = json.loads(capsys.readouterr().out)
    assert (one["experiments"], one["rate"], one["expires"]) == (["shop-*", "news"], 2.5, "2099-12-31T00:00:00.000000Z")
    assert (two["experiments"], two["rate"], two["used"]) == (None, None, None)
    with closing(open_ledger(store[1])) as ledger:
        expires = ledger.all_keys()[1].expires
        assert expires is not None
        assert abs(expires / SECOND - time.time() - 90 * 86400) < 60
    for wrong in ("soon", "90", "-1d", "0d", "101w1"):
        with pytest.raises(SystemExit):
            main(["keys", "create", "x", f"--expires={wrong}", *store])
    assert main(["keys", "create", "x", "--expires", "2020-01-01", *store]) == 2
    assert "2020-01-01T00:00:00.000000Z" in capsys.readouterr().err
    assert main(["keys", "create", "BELATED_ADMIN_KEY", *store]) == 2
