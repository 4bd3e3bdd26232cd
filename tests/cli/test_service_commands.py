"""`belated serve`, `keys` and `ledger`, as people give them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import httpx
import pytest

from belated.cli import ledger
from belated.cli.main import main
from belated.cli.output import Output
from belated.ledger.verify import Verdict
from support.commands import refused_line
from support.http_helpers import at, create, decide, done, observe, serving, talk
from support.serving import ADMIN_KEY, KINDS, Server, Stores
from support.waiting import until

Captured = pytest.CaptureFixture[str]
SECRET = re.compile(r"belated_[\w-]{43}")


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BELATED_")}
    return kept | variables


@contextmanager
def served(store: str, log: Path, *arguments: str, **variables: str) -> Iterator[str]:
    """`belated serve` on any free port: its address, as it says it."""
    command = [sys.executable, "-m", "belated.cli", "serve", "--store", store, "--port", "0", *arguments]
    with log.open("wb") as said, subprocess.Popen(command, stderr=said, env=environment(**variables)) as process:

        def address() -> str | None:
            found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
            if found is None and process.poll() is not None:
                raise RuntimeError(log.read_text())
            return found and found[0]

        try:
            yield until(address)
            process.send_signal(signal.SIGTERM)
            assert process.wait() in (0, -signal.SIGTERM), log.read_text()
        finally:
            process.kill()


def get(url: str, key: str) -> int:
    """The status of an answer: who connects as soon as the address is known waits until there is one."""
    return httpx.get(f"{url}/v1/experiments", headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_the_first_start_shows_an_admin_key(kind: str, tmp_path: Path) -> None:
    store, log = Stores.fresh(kind, tmp_path), tmp_path / "log"
    with served(store, log) as url:
        (key,) = until(lambda: SECRET.findall(log.read_text()))
        assert (get(url, key), get(url, key[:-1] + "?")) == (200, 401)
    assert "Traceback" not in log.read_text()
    assert log.read_text().count(key) == 1


def test_an_admin_key_is_shown_once_and_that_of_the_environment_not_at_all(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BELATED_ADMIN_KEY", raising=False)
    monkeypatch.setattr("belated.service.server.serve", lambda *given: 0)
    shown = []
    for name, variable in (("one", None), ("one", None), ("one", ADMIN_KEY), ("two", ADMIN_KEY)):
        if variable:
            monkeypatch.setenv("BELATED_ADMIN_KEY", variable)
        assert main(["serve", "--store", f"sqlite:///{tmp_path / name}", "--port", "0"]) == 0
        said = "".join(capsys.readouterr())
        assert ADMIN_KEY not in said
        shown.append(len(SECRET.findall(said)))
    assert shown == [1, 0, 0, 0]


@pytest.mark.parametrize("key", ["short", "", "nineteen-characters", "spaces are not allowed", "ümlaute-nicht-erlaubt"])
def test_a_key_that_is_too_weak_is_refused(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("BELATED_ADMIN_KEY", key)
    said = fails(capsys, "serve", "--store", Stores.fresh("sqlite", tmp_path), "--port", "0")
    assert "20" in said
    assert not key or key not in said


def fails(capsys: Captured, *arguments: str) -> str:
    """The one short line that a command says when it cannot do what is asked."""
    said = refused_line(capsys, arguments)
    assert len(said) < 400
    return said


def test_keys_are_created_listed_and_revoked(tmp_path: Path, capsys: Captured) -> None:
    store = ("--store", Stores.fresh("sqlite", tmp_path))
    assert main(["keys", "list", *store]) == 0
    header, rule = capsys.readouterr().out.splitlines()
    columns = ["id", "role", "created", "used", "expires", "revoked", "rate", "experiments", "name"]
    assert header.split() == columns
    assert set(rule) == {"─", " "}
    secrets, ids = [], []
    for name, *role in (("the shop",), ("dashboard", "--role", "read"), ("me", "--role", "admin")):
        assert main(["keys", "create", name, *role, *store]) == 0
        made = capsys.readouterr()
        assert SECRET.fullmatch(made.out.strip())  # alone on standard output: KEY=$(belated keys create …)
        secrets.append(made.out.strip())
        ids.append(made.err.split()[1])
    assert main(["keys", "revoke", ids[1], *store]) == 0
    assert ids[1] in capsys.readouterr().out
    assert main(["keys", "list", *store]) == 0
    listed = capsys.readouterr().out
    _, _, *lines = listed.splitlines()
    assert [line.split()[:2] for line in lines] == [[ids[0], "decide"], [ids[1], "read"], [ids[2], "admin"]]
    assert [line.split()[5] == "-" for line in lines] == [True, False, True]
    assert [line.split(maxsplit=8)[8] for line in lines] == ["the shop", "dashboard", "me"]
    assert main(["keys", "list", "--json", *store]) == 0
    printed = capsys.readouterr().out
    described = json.loads(printed)
    assert [(key["id"], key["name"]) for key in described] == list(
        zip(ids, ["the shop", "dashboard", "me"], strict=True)
    )
    assert [key["revoked"] is None for key in described] == [True, False, True]
    assert {tuple(key) for key in described} == {tuple(columns)}
    assert not any(secret in listed + printed for secret in secrets)
    assert repr(ids[1]) in fails(capsys, "keys", "revoke", ids[1], *store)
    said = fails(capsys, "keys", "revoke", "nobody", *store)
    assert "'nobody'" in said
    assert ids[0] in said
    assert "''" in fails(capsys, "keys", "create", "", *store)


def test_a_ledger_without_experiments_is_sound(tmp_path: Path, capsys: Captured) -> None:
    store = ("--store", Stores.fresh("sqlite", tmp_path))
    assert main(["keys", "list", *store]) == 0
    capsys.readouterr()
    assert main(["ledger", "verify", *store]) == 0
    assert capsys.readouterr().out == ""
    assert main(["ledger", "verify", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert "other.db" in fails(capsys, "ledger", "verify", "--store", f"sqlite:///{tmp_path}/other.db")
    assert not (tmp_path / "other.db").exists()


def test_no_more_than_some_faults_are_shown(capsys: Captured) -> None:
    faults, notes = ([f"{word} {number}" for number in range(25)] for word in ("fault", "date"))
    ledger._show(Verdict("one", 1, 1, 0, 0.0, "", faults, notes), Output())
    lines = capsys.readouterr().out.splitlines()
    assert "FAULTY" in lines[0]
    assert [line.strip() for line in lines[1:21]] == faults[:20]
    assert "5" in lines[21]
    assert [line.strip().partition(": ")[2] for line in lines[22:42]] == notes[:20]
    (more,) = lines[42:]
    assert "5" in more


def test_notes_alone_are_no_fault(capsys: Captured) -> None:
    ledger._show(Verdict("one", 1, 1, 0, 0.0, "", [], ["a date"]), Output())
    first, note = capsys.readouterr().out.splitlines()
    assert "FAULTY" not in first
    assert "a date" in note


def test_a_key_made_by_the_command_opens_the_door(
    server: Server, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELATED_STORE", server.store)
    assert main(["keys", "create", "reader", "--role", "read"]) == 0
    with talk(server, capsys.readouterr().out.strip()) as http:
        names = [each["name"] for each in done(http.get("/v1/experiments"))["experiments"]]
    assert sorted(names) == ["one", "two"]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With two experiments, one of which has a history."""
    with serving(request.param, tmp_path_factory) as running, talk(running) as http:
        create(http, "one", ("x", 7), learner="balanced")
        create(http, "two")
        decide(http, "one", *(f"n{k}" for k in range(300)))
        receipts = observe(http, "one", {f"n{k}": 0.5 for k in range(0, 300, 3)})
        assert {each["receipt"] for each in receipts} == {"used", "skipped"}
        yield running


def test_ledgers_are_verified(server: Server, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["ledger", "verify", "--store", server.store]) == 0
    one, two = capsys.readouterr().out.splitlines()
    assert one.startswith("one: 400 events, 300 rounds, 0 ")
    assert two.startswith("two: 0 events")
    assert main(["ledger", "verify", "--store", server.store, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["experiment"], first["events"], first["rounds"]) == ("one", 400, 300)
    assert (second["experiment"], second["sound"], second["faults"]) == ("two", True, [])
    monkeypatch.setenv("BELATED_KEY", ADMIN_KEY)
    assert main(["ledger", "verify", "one", "--store", server.store, "--url", server.url]) == 0
    assert "400 events, 300 rounds, 1 " in capsys.readouterr().out
    monkeypatch.setenv("BELATED_KEY", "not-a-key-of-this-ledger")
    assert "not-a-key" not in fails(capsys, "ledger", "verify", "--store", server.store, "--url", server.url)
    monkeypatch.delenv("BELATED_KEY")
    assert "BELATED_KEY" in fails(capsys, "ledger", "verify", "--store", server.store, "--url", server.url)


def test_a_ledger_that_was_tampered_with_is_faulty(
    tmp_path_factory: pytest.TempPathFactory, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the live state at least: a loss may be any number."""
    monkeypatch.setenv("BELATED_KEY", ADMIN_KEY)
    with serving("sqlite", tmp_path_factory) as server, talk(server) as http:
        create(http, "sound")
        decide(http, "sound", "a")
        observe(http, "sound", {"a": 0.5})
        command = ["ledger", "verify", "--store", server.store, "--url", server.url]
        assert main(command) == 0
        changes = ["loss = 0.75 WHERE kind = 2", "propensity = 0.75 WHERE kind = 1", "arm = 1 - arm WHERE kind = 1"]
        backs = ["loss = 0.5 WHERE kind = 2", "propensity = 0.5 WHERE kind = 1", "arm = 1 - arm WHERE kind = 1"]
        for change, back in zip(changes, backs, strict=True):
            with closing(apsw.Connection(server.store.removeprefix("sqlite:///"))) as connection:
                connection.execute(f"UPDATE events SET {change}")
                capsys.readouterr()
                assert main([*command, "--json"]) == 1, change
                (found,) = json.loads(capsys.readouterr().out)
                assert not found["sound"]
                assert found["faults"]
                connection.execute(f"UPDATE events SET {back}")
            assert main(command) == 0


@pytest.mark.parametrize("format", ["ndjson", "csv", "parquet"])
def test_ledgers_are_exported_as_the_service_shows_them(
    server: Server, format: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with talk(server) as http:
        expected = http.get(at("one", "ledger"), params={"format": format}).content
    common = ["ledger", "export", "one", "--store", server.store, "--format", format]
    assert main(common) == 0
    assert capsysbinary.readouterr().out == expected
    out = tmp_path / "new" / f"one.{format}"
    assert main([*common, "--out", str(out)]) == 0
    assert out.read_bytes() == expected
    printed, notes = capsysbinary.readouterr()
    assert printed == b""
    assert str(out).encode() in notes
    if format == "ndjson":
        assert main([*common, "--after", "398"]) == 0
        assert capsysbinary.readouterr().out == b"".join(expected.splitlines(keepends=True)[398:])


def test_an_export_begins_after_an_event_that_can_be(server: Server, capsys: Captured) -> None:
    assert "after is -1" in fails(capsys, "ledger", "export", "one", "--after", "-1", "--store", server.store)


def test_an_unknown_experiment_is_named_with_those_there_are(server: Server, capsys: Captured) -> None:
    for command in (["ledger", "verify", "tow"], ["ledger", "export", "tow"]):
        said = fails(capsys, *command, "--store", server.store)
        assert "'tow'" in said
        assert "one, two" in said


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("mysql://localhost/x", ["'mysql://localhost/x'", "sqlite:///PATH", "postgresql://"]),
        ("belated.db", ["'belated.db'", "sqlite:///PATH"]),
        ("sqlite://belated.db", ["sqlite:///PATH"]),
        ("sqlite:///", ["sqlite:///PATH"]),
        ("sqlite:///{folder}", ["{folder}"]),
        ("sqlite:///{folder}/text", ["{folder}/text"]),
        ("postgresql://127.0.0.1:1/x", ["127.0.0.1"]),
    ],
)
def test_a_store_that_cannot_be_is_told_in_a_line(
    store: str, words: list[str], tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "text").write_text("This is not a database. " * 50)
    for command in (("keys", "list"), ("ledger", "export", "one"), ("serve", "--port", "0", "--wait", "0.1")):
        said = fails(capsys, *command, "--store", store.format(folder=tmp_path))
        assert [word for word in words if word.format(folder=tmp_path) not in said] == [], said


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://belated:geheim@127.0.0.1:1/x",
        "postgresql://belated:geheim@[127.0.0.1/x",
        "postgresql://belated:geheim@127.0.0.1:1/x?nonsense=1",
        "postgressql://belated:geheim@127.0.0.1/x",
    ],
)
def test_no_error_tells_the_password_of_a_store(store: str, capsys: Captured) -> None:
    assert "geheim" not in fails(capsys, "keys", "list", "--store", store)


def test_a_database_that_does_not_exist_is_told_in_a_line(capsys: Captured) -> None:
    store = Stores.fresh("postgresql", Path())
    assert "nobody" in fails(capsys, "keys", "list", "--store", store.rpartition("/")[0] + "/nobody")


def test_what_cannot_be_served_is_told_in_a_line(tmp_path: Path, capsys: Captured) -> None:
    store = ("--store", Stores.fresh("sqlite", tmp_path))
    assert main(["keys", "create", "me", "--role", "admin", *store]) == 0
    capsys.readouterr()
    assert "70000" in fails(capsys, "serve", "--port", "70000", *store)
    assert "workers" in fails(capsys, "serve", "--workers", "0", *store)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        assert port in fails(capsys, "serve", "--port", port, *store)
