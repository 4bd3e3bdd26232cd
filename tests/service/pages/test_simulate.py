"""Simulating from a page: what is asked for, what is streamed and when it ends, who may simulate what."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing
from types import SimpleNamespace
from typing import Any, cast

import httpx
import msgspec
import pytest

from belated.service.pages import simulate as module
from belated.service.pages.simulate import run
from belated.service.simulate.plan import Plan
from support.elements import Node
from support.pages import new_secret, visiting
from support.processes import simulating, wait_until_gone
from support.serving import Server

Show = Callable[..., Node]
GUESS = {"arms": "blue 20\ngreen 70", "delay": "0.1", "bad": "alike", "a_day": "100", "decisions": "2000"}
LONG = GUESS | {"arms": "\n".join(f"arm-{k} {k + 1}" for k in range(20)), "decisions": "200000"}
"""Longer than a test waits."""
HOURS = 600
"""Seconds; the process that simulates is the last to run on a busy machine."""


def asked(page: Node) -> dict[str, str]:
    """What the form has."""
    fields = {each.attributes["name"]: each.attributes.get("value", "") for each in page.all("input", class_="short")}
    (source,) = [each for each in page.all("input", name="source") if "checked" in each.attributes]
    named = page.one("input", name="experiment").attributes["value"]
    return fields | {"source": source.attributes["value"], "experiment": named, "arms": page.one("textarea").text}


def test_a_guess_is_asked_for(show: Show) -> None:
    page = show("/simulate")
    assert not page.all(id="results")
    assert asked(page)["source"] == "guess"
    page = show(f"/simulate?{httpx.QueryParams(GUESS | {'arms': 'blue 20 <b>green</b> 7x'})}", 422)
    (wrong,) = [each for each in page if "aria-invalid" in each.attributes]
    assert wrong.attributes["name"] == "arms"
    assert page.one(role="alert").text
    assert page.one("textarea").text == "blue 20 <b>green</b> 7x"
    page = show(f"/simulate?{httpx.QueryParams(GUESS)}")
    run_at = httpx.URL(page.one(id="results").attributes["data-run"])
    assert run_at.path == "/simulate/run"
    assert dict(run_at.params) == GUESS
    assert asked(page)["decisions"] == "2000"


def test_an_experiment_is_asked_for(show: Show) -> None:
    (link,) = [each for each in show("/experiments/minutes").all("a") if "like=" in each.attributes["href"]]
    form = asked(show(link.attributes["href"]))
    assert (form["source"], form["experiment"], form["a_day"]) == ("experiment", "minutes", "")
    show("/simulate?source=experiment&experiment=nobody&decisions=10", 422)


def test_what_is_refused(server: Server) -> None:
    secret, _ = new_secret(server, "simulates", "read", "minutes")
    mine = {"source": "experiment", "decisions": "10"}
    with visiting(server, "") as http:
        for path in ("/simulate", "/simulate/run"):
            assert http.get(path, params=GUESS).status_code == 303
    with visiting(server, secret) as http:
        assert http.get("/simulate", params=mine | {"experiment": "minutes"}).status_code == 200
        assert http.get("/simulate/run", params=mine | {"experiment": "button"}).status_code == 403
        assert http.get("/simulate/run", params=GUESS | {"decisions": "0"}).status_code == 422
        suggested = http.get("/simulate").text.partition("<datalist")[2].partition("</datalist>")[0]
        assert 'value="minutes"' in suggested
        assert 'value="button"' not in suggested


class Playing:
    """In place of the process that simulates: it tells what it is given, and knows whether it was ended."""

    def __init__(self, *told: bytes) -> None:
        self.told = told
        self.plans: list[Plan] = []
        self.is_open = 0
        self.goes_on = asyncio.Event()

    async def __call__(self, plan: Plan) -> AsyncGenerator[bytes, None]:
        self.plans.append(plan)
        self.is_open += 1
        try:
            for each in self.told:
                yield each
            await self.goes_on.wait()
        finally:
            self.is_open -= 1


def visit(pages: Any) -> Any:
    """Somebody who asks for a simulation; what is streamed is what is returned."""
    return SimpleNamespace(pages=pages, query=GUESS, stream=lambda messages: messages)


async def streamed(pages: Any, *ended: "asyncio.Future[Any]") -> AsyncGenerator[bytes, None]:
    messages = cast(Any, await run(visit(pages)))
    async with aclosing(messages(ended or (asyncio.Future(),))) as found:
        async for each in found:
            yield each


def test_findings_are_streamed_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_of_it() -> list[bytes]:
        play = Playing(b'{"runs":1}', b'{"problem":"none"}')
        play.goes_on.set()
        monkeypatch.setattr(module, "play", play)
        found = [each async for each in streamed(SimpleNamespace(simulating=asyncio.Semaphore(1)))]
        assert ([plan.decisions for plan in play.plans], play.is_open) == ([2000], 0)
        return found

    first, problem, over = asyncio.run(all_of_it())
    assert first == b'event: found\ndata: {"runs":1}\n\n'
    assert problem == b'event: problem\ndata: {"problem":"none"}\n\n'
    assert over == b"event: over\ndata: true\n\n"


@pytest.mark.parametrize("is_over", [False, True])
def test_one_simulation_runs_at_a_time_and_ends_with_whoever_asked(
    monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """Whoever comes second waits, and is next when the page is closed, or the service says that it is over."""

    async def both() -> None:
        play = Playing(b'{"runs":1}')
        monkeypatch.setattr(module, "play", play)
        pages = SimpleNamespace(simulating=asyncio.Semaphore(1))
        ended: asyncio.Future[None] = asyncio.Future()
        first, second = streamed(pages, ended), streamed(pages)
        assert (await anext(first)).startswith(b"event: found\n")
        assert (await anext(second)).startswith(b"event: waiting\n")
        assert (len(play.plans), play.is_open) == (1, 1)
        if is_over:
            ended.set_result(None)
            assert [each async for each in first if each.startswith(b"event")] == []
        else:
            await first.aclose()
        assert (await anext(second)).startswith(b"event: found\n")
        assert (len(play.plans), play.is_open) == (2, 1)
        await second.aclose()
        assert play.is_open == 0

    asyncio.run(both())


@pytest.mark.slow
@pytest.mark.timeout(2 * HOURS)
def test_the_process_of_a_page_ends_with_it(server: Server) -> None:
    """Decisions go on meanwhile; whoever comes second gets all runs once the first has gone."""
    with visiting(server) as http, server.client() as client, closing(visiting(server)) as other:
        other.timeout = http.timeout = httpx.Timeout(HOURS)
        with http.stream("GET", "/simulate/run", params=LONG) as first:
            texts = first.iter_text()
            while "event: found" not in next(texts):
                pass
            (process,) = simulating(server.pid)
            client.decide("button", "while-simulating")
            with other.stream("GET", "/simulate/run", params=GUESS) as second:
                parts = second.iter_text()
                assert next(parts).startswith("event: waiting")
                assert simulating(server.pid) == [process]
                first.close()
                text = "".join(parts)
    wait_until_gone(process)
    messages = [part.split("\n") for part in text.strip().split("\n\n") if part.startswith("event: found")]
    found = [msgspec.json.decode(lines[1].removeprefix("data: ")) for lines in messages]
    assert [each["runs"] for each in found] == list(range(1, 21))
    assert text.endswith("event: over\ndata: true\n\n")
