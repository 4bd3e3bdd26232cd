"""What open pages are told: what is known at first, when something fails, when a key is revoked."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import aclosing, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from belated.ledger import open_ledger
from belated.service.pages import feed as module
from belated.service.pages.feed import Feed
from support.pages import new_secret, visiting
from support.serving import Server, Stores
from support.waiting import until


def messages(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    """The events of a stream, each with what it tells."""
    lines = answer.iter_lines()
    for line in lines:
        if line.startswith("event: "):
            yield line.removeprefix("event: "), json.loads(next(lines).removeprefix("data: "))


def test_a_look_that_fails_is_told_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    looks: list[str] = []
    thrice = asyncio.Event()

    async def look(name: str) -> Any:
        looks.append(name)
        if len(looks) == 3:
            thrice.set()
        raise IndexError("no such arm")

    async def told() -> bytes:
        feed = Feed(cast(Any, SimpleNamespace(look=look, streams=1)), "one", "settled")
        async with aclosing(feed.watch((asyncio.Future(),))) as messages:
            assert (await anext(messages)).startswith(b"retry")
            message = await anext(messages)
            await thrice.wait()
            return message

    with caplog.at_level(logging.ERROR):
        message = asyncio.run(told())
    assert message.startswith(b"event: problem\ndata: ")
    first = caplog.records[0]
    assert (first.name, first.levelname, cast(Any, first.args)[0]) == ("belated.service", "ERROR", "one")
    assert first.exc_info is not None


def test_estimates_that_fail_are_logged_and_the_page_is_shown_without(caplog: pytest.LogCaptureFixture) -> None:
    async def known(name: str, outcomes: str) -> bytes:
        raise OverflowError(f"{outcomes} outcomes of {name}")

    async def ask() -> bytes | None:
        return await Feed(cast(Any, SimpleNamespace(known=known)), "one", "settled").known(1.0, 5)

    assert asyncio.run(ask()) is None
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("belated.service", "ERROR")
    assert "settled outcomes of one" in record.getMessage()


def test_every_answer_of_the_feed_begins_with_what_is_known(visitor: httpx.Client, server: Server) -> None:
    """Nothing has happened since the page was made; somebody who connects again is told all the same."""
    with server.client() as client:
        rounds = client.experiment("minutes").rounds
    with visitor.stream("GET", "/experiments/minutes/live") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        found: dict[str, Any] = {}
        for kind, told in messages(answer):
            found[kind] = told
            if {"known", "state"} <= set(found):
                break
    assert found["state"]["facts"]["rounds"] == f"{rounds:,}"
    assert found["known"]["estimates"]["arms"]


def test_what_happens_is_told(visitor: httpx.Client, server: Server) -> None:
    with server.client() as client:
        client.create("told", ["a", "b"])
        with visitor.stream("GET", "/experiments/told/live") as answer:
            states = (told for kind, told in messages(answer) if kind == "state")
            before = next(states)
            client.decide_many("told", 7)
            client.pause("told")
            after = next(state for state in states if state["form"][0] == "paused")
    assert (before["facts"]["rounds"], after["facts"]["rounds"]) == ("0", "7")
    assert [each["so_far"] for each in after["latest"]] == ["waiting"] * 7


def test_a_page_on_which_nothing_happens_tells_how_long_ago_the_last_decision_was(tmp_path: Path) -> None:
    often = {"belated.service.streams.BEAT_SECONDS": 0.1}
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log", constants=often) as server:
        with server.client() as client:
            client.create("quiet", ["a", "b"])
            client.decide_many("quiet", 7)
        with visiting(server) as http, http.stream("GET", "/experiments/quiet/live") as answer:
            told = (told for kind, told in messages(answer) if kind == "facts")
            first = next(told)
            later = next(each for each in told if each["last"] not in ("now", first["last"]))
    assert (first["rounds"], later["rounds"]) == ("7", "7")
    assert int(later["last"].split()[0]) > 0


def test_there_are_only_so_many_live_views(tmp_path: Path) -> None:
    with Server(Stores.fresh("sqlite", tmp_path), tmp_path / "log", streams=1) as server, visiting(server) as http:
        with server.client() as client:
            client.create("button", ["blue", "green"])
        with http.stream("GET", "/experiments/button/live") as first:
            texts = first.iter_text()  # kept: the connection ends with it
            next(texts)
            assert http.get("/experiments/button/live").status_code == 503

        def is_let_in() -> bool:
            with http.stream("GET", "/experiments/button/live") as again:
                return again.status_code == 200

        until(is_let_in)  # once the service has heard that the first one has gone


@pytest.mark.parametrize("path", ["/v1/experiments/minutes/stream", "/experiments/minutes/live"])
def test_whose_key_is_revoked_hears_nothing_more(server: Server, path: str) -> None:
    secret, id = new_secret(server, f"streaming {path}", "read")
    with closing(open_ledger(server.store)) as ledger, visiting(server, secret) as http:
        headers = {"Authorization": f"Bearer {secret}"}
        with http.stream("GET", path, headers=headers) as answer:
            texts = answer.iter_text()
            while "event: state" not in next(texts):
                pass
            ledger.revoke_key(id, 1)
            for _ in texts:  # and it ends
                pass
        assert http.get(path, headers=headers).status_code in (303, 401)


def test_of_an_experiment_that_there_is_not_there_is_no_stream(visitor: httpx.Client) -> None:
    with visitor.stream("GET", "/experiments/nobody/live") as answer:
        assert answer.status_code == 404
