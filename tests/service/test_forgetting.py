"""Erasing ids while the service runs: by the command, and by age."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from belated.cli.main import main
from belated.ledger import open_ledger
from belated.ledger.events import SECOND
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from support.http_helpers import MOSTLY_SQLITE, at, create, decide, done, observe, problem, rows, serving, state, talk
from support.serving import KINDS, Server
from support.waiting import until

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", params=MOSTLY_SQLITE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(request.param, tmp_path_factory) as running:
        yield running


def run(capsys: Captured, server: Server, *arguments: str) -> Any:
    """What the command prints as JSON."""
    assert main(["ledger", "forget", *arguments, "--json", "--store", server.store]) == 0
    return json.loads(capsys.readouterr().out)


def check(server: Server, name: str, digest: dict[str, Any]) -> None:
    """Replaying the ledger gives what the running service has."""
    with closing(open_ledger(server.store)) as ledger:
        record = ledger.find(name)
        assert record is not None
        verdict = verify(ledger, record, (digest["events"], digest["digest"]))
        assert (verdict.faults, verdict.compared > 0) == ([], True)


def test_a_person_is_forgotten_while_others_are_served(server: Server, capsys: Captured) -> None:
    """Deciders go on; nothing fails; the state is the same, bit for bit."""
    failed: list[object] = []
    stop = threading.Event()

    def go_on() -> None:
        with talk(server) as http:
            k = 0
            while not stop.is_set():
                k += 1
                try:
                    decide(http, "busy", f"other-{k}")
                    observe(http, "busy", {f"other-{k}": 0.5})
                except BaseException as error:
                    failed.append(error)
                    return

    with talk(server) as http:
        create(http, "busy")
        for k in range(3):
            decide(http, "busy", *(f"user-{k}-{n}" for n in range(300)))
        observe(http, "busy", {f"user-1-{n}": 0.5 for n in range(0, 300, 2)})
        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            assert run(capsys, server, "busy", "--matching", "user-1-*", "--dry-run") == {
                "erased": False,
                "ids": {"busy": 300},
            }
            assert run(capsys, server, "busy", "--matching", "user-1-*") == {"erased": True, "ids": {"busy": 300}}
        finally:
            stop.set()
            thread.join()
        assert failed == []
        found = rows(http, "busy")
        assert [each for each in found if (each["decision"] or "").startswith("user-1-")] == []
        assert sum(each["decision"] is None for each in found) == 300 + 150
        assert sum((each["decision"] or "").startswith("user-") for each in found) == 600
        check(server, "busy", state(http, "busy"))
        (listed,) = run(capsys, server, "--list")
        assert (listed["experiment"], listed["ids"], listed["what"]) == ("busy", 300, "by pattern")


def test_what_comes_after(server: Server, capsys: Captured) -> None:
    with talk(server) as http:
        create(http, "after")
        first, _ = decide(http, "after", "a", "b")
        assert run(capsys, server, "after", "--id", "a", "nobody")["ids"] == {"after": 1}
        problem(
            http.post(at("after", "outcomes"), json={"decision": "a", "loss": 0.5}), 404, "unknown_decision", "decision"
        )
        (again,) = decide(http, "after", "a")
        assert (first["round"], again["round"]) == (1, 3)
        assert observe(http, "after", {"a": 0.5, "b": 0.5})[0]["receipt"] == "used"
        assert [each["decision"] for each in rows(http, "after")] == [None, "b", "a", "a", "b"]
        check(server, "after", state(http, "after"))


@pytest.mark.parametrize("learn", ["arrival", "deadline"])
def test_what_is_outstanding_still_settles(server: Server, capsys: Captured, learn: str) -> None:
    name = f"outstanding-{learn}"
    with talk(server) as http:
        create(http, name, missing={"deadline": 3600, "loss": 1.0, "learn": learn})
        decide(http, name, "a", "b", "c")
        observe(http, name, {"a": 0.25})
        assert run(capsys, server, name, "--id", "a", "b")["ids"] == {name: 2}
        server.pass_time(3600)
        until(lambda: done(http.get(at(name)))["outstanding"] == 0)
        late = [(each["kind"], each["round"], each["decision"]) for each in rows(http, name)[4:]]
        held = [("settled", 1, None)] if learn == "deadline" else []
        assert late == [*held, ("default", 2, None), ("default", 3, "c")]
        check(server, name, state(http, name))
        assert "ERROR" not in server.log.read_text()


def make_old(server: Server, name: str, days: int) -> None:
    """Let what has happened in an experiment have happened so many days ago."""
    with closing(open_ledger(server.store)) as ledger:
        record = ledger.find(name)
        assert record is not None
        assert isinstance(ledger, SqlLedger)
        with ledger.committing() as connection:
            past = (days * 86400 * SECOND, record.number)
            ledger.run(connection, "UPDATE events SET at = at - ? WHERE experiment = ?", past)


def test_all_experiments_by_age(server: Server, capsys: Captured) -> None:
    with talk(server) as http:
        for name in ("old-1", "old-2"):
            create(http, name)
            decide(http, name, "a", "b")
            make_old(server, name, 90)
        decide(http, "old-2", "young")
        assert sum(run(capsys, server, "--all", "--older-than", "91d")["ids"].values()) == 0
        erased = run(capsys, server, "--all", "--older-than", "89d", "--rewrite")["ids"]
        assert {name: ids for name, ids in erased.items() if ids} == {"old-1": 2, "old-2": 2}
        assert [each["decision"] for each in rows(http, "old-2")] == [None, None, "young"]


def test_what_cannot_be_forgotten_is_told_in_a_line(server: Server, capsys: Captured) -> None:
    for arguments in (["nowhere", "--id", "a"], ["--id", "a"], ["one", "--all", "--id", "a"], ["one"]):
        assert main(["ledger", "forget", *arguments, "--store", server.store]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert arguments[0] != "nowhere" or "'nowhere'" in line
    for wrong in (["one", "--older-than", "90"], ["one", "--id", "a", "--matching", "b"]):
        with pytest.raises(SystemExit):
            main(["ledger", "forget", *wrong, "--store", server.store])
    capsys.readouterr()


@pytest.mark.parametrize("kind", KINDS)
def test_the_service_forgets_by_age(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(kind, tmp_path_factory) as server, talk(server) as http:
        create(http, "one")
        create(http, "empty")
        decide(http, "one", "a", "b")
        observe(http, "one", {"a": 0.5})
        server.terminate()
        make_old(server, "one", 2)
        server.limits = {"forget_after": 86400.0}
        server.start()
        decide(http, "one", "young")
        until(lambda: [each["decision"] for each in rows(http, "one")] == [None] * 3 + ["young"])
        with closing(open_ledger(server.store)) as ledger:
            assert until(lambda: [(each.ids, each.through) for each in ledger.erasures()]) == [(2, 2)]
        late = http.post(at("one", "outcomes"), json={"decision": "b", "loss": 0.5})
        problem(late, 404, "unknown_decision", "decision")
        assert "ERROR" not in server.log.read_text()


def test_the_service_forgets_again_and_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving("sqlite", tmp_path_factory, forget_after=1.0) as server, talk(server) as http:
        create(http, "one")
        for k in range(2):
            decide(http, "one", f"n{k}")
            until(lambda: {each["decision"] for each in rows(http, "one")} == {None})
        check(server, "one", state(http, "one"))
        assert "ERROR" not in server.log.read_text()
