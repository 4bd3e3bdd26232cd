"""Whoever reads holds up nobody who decides: each kind of reading is stopped in the middle, and decisions go on."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from belated.ledger import open_ledger
from belated.ledger import processor as processing
from belated.ledger.base import Ledger, LedgerUnavailable
from belated.ledger.events import ExperimentRecord, ExperimentSettings
from belated.ledger.keys import ensure_admin
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.state import ExperimentState
from belated.ledger.verify import verify
from belated.service import service
from belated.service.app import application
from support.serving import ADMIN_KEY, KINDS, Stores
from support.waiting import until_async

SECONDS = 120.0
HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}


def at(name: str, rest: str = "") -> str:
    return f"/v1/experiments/{name}{rest}"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with two experiments that have decided."""
    store = Stores.fresh(request.param, tmp_path)
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, ADMIN_KEY)
        for seed, name in enumerate(("one", "two")):
            ledger.create(ExperimentSettings(name, ["a", "b"], "balanced", {}, seed, "wait"), 1, 10)
    return store


@asynccontextmanager
async def worker(store: str) -> AsyncIterator[httpx.AsyncClient]:
    app = application(lambda: open_ledger(store))
    async with (
        app.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=HEADERS) as http,
    ):
        yield http


async def decided(http: httpx.AsyncClient, name: str, id: str) -> Any:
    reply = await http.post(at(name, "/decisions"), json={"id": id})
    assert reply.status_code == 200, reply.text
    return reply.json()


class Gate:
    """Stops the first thread that comes through until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.open.wait(SECONDS)

    async def until_reached(self) -> None:
        await until_async(self.reached.is_set)


@contextmanager
def gated(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]) -> Iterator[Gate]:
    """A function that stops at a gate where something is true of its arguments."""
    gate, inner = Gate(), getattr(owner, name)

    def stopped(*arguments: Any, **more: Any) -> Any:
        if when(*arguments):
            gate.pass_through()
        return inner(*arguments, **more)

    monkeypatch.setattr(owner, name, stopped)
    try:
        yield gate
    finally:
        gate.open.set()


async def read_while_others_decide(store: str, gate: Gate, path: str, names: tuple[str, ...]) -> httpx.Response:
    async with worker(store) as http, asyncio.timeout(SECONDS):
        for name in ("one", "two"):
            await decided(http, name, "first")
        reading = asyncio.create_task(http.get(path))
        await gate.until_reached()
        for name in names:
            assert (await decided(http, name, "meanwhile"))["round"] == 2
        assert (await http.get("/healthz")).status_code == 200
        assert not reading.done()
        gate.open.set()
        return await reading


def test_a_digest_holds_up_nobody(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(monkeypatch, ExperimentState, "digest", lambda state: True) as gate:
        path = at("one", "?digest=true")
        shown = asyncio.run(read_while_others_decide(store, gate, path, ("one", "two"))).json()
    assert (shown["events"], len(shown["digest"])) == (1, 32)


def test_quantiles_and_json_hold_up_nobody(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from belated.service import views

    with gated(monkeypatch, views, "_quantiles", lambda sizes, unit: unit == 1) as gate:
        shown = asyncio.run(read_while_others_decide(store, gate, at("one"), ("one", "two"))).json()
    assert shown["events"] == 1


def test_an_export_holds_up_nobody(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from belated.ledger import export

    with gated(monkeypatch, export, "_line", lambda *given: True) as gate:
        reply = asyncio.run(read_while_others_decide(store, gate, at("one", "/ledger"), ("one", "two")))
    assert [json.loads(line)["number"] for line in reply.content.splitlines()] == [1]


def test_the_text_of_the_metrics_holds_up_nobody(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from belated.service import metrics

    with gated(monkeypatch, metrics, "generate_latest", lambda registry: True) as gate:
        reply = asyncio.run(read_while_others_decide(store, gate, "/metrics", ("one", "two")))
    assert 'belated_decisions_total{experiment="two"} 1.0' in reply.text


def test_the_list_holds_up_nobody(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from belated.service import views

    with gated(monkeypatch, views, "summary", lambda outline: True) as gate:
        reply = asyncio.run(read_while_others_decide(store, gate, "/v1/experiments", ("one", "two")))
    assert [each["name"] for each in reply.json()["experiments"]] == ["one", "two"]


def test_an_experiment_that_is_being_loaded_holds_up_no_other(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_one(ledger: Ledger, record: ExperimentRecord) -> bool:
        return record.settings.name == "one"

    async def scenario(gate: Gate) -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            waiting = [asyncio.create_task(decided(http, "one", f"id-{k}")) for k in range(3)]
            await gate.until_reached()
            assert [(await decided(http, "two", f"id-{k}"))["round"] for k in range(3)] == [1, 2, 3]
            assert not any(task.done() for task in waiting)
            gate.open.set()
            assert [made["round"] for made in await asyncio.gather(*waiting)] == [1, 2, 3]

    with gated(monkeypatch, processing, "load", is_one) as gate:
        asyncio.run(scenario(gate))


def test_reading_needs_no_transaction(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It works where nothing can be written: on a full disk, for example."""

    def refused(self: SqlLedger) -> Any:
        raise LedgerUnavailable("the disk is full")

    async def scenario() -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            await decided(http, "one", "first")
            with monkeypatch.context() as patch:
                patch.setattr(SqlLedger, "committing", refused)
                for path in (at("one"), at("two", "?digest=true"), "/metrics", at("one", "/ledger"), "/v1/experiments"):
                    assert (await http.get(path)).status_code == 200
                assert (await http.post(at("one", "/decisions"), json={})).status_code == 503

    asyncio.run(scenario())


def test_a_reader_sees_all_that_any_worker_acknowledged_before(store: str) -> None:
    async def scenario() -> tuple[int, str]:
        async with AsyncExitStack() as stack, asyncio.timeout(2 * SECONDS):
            first, second = [await stack.enter_async_context(worker(store)) for _ in range(2)]
            for k in range(20):
                writer, reader = (first, second) if k % 2 else (second, first)
                await decided(writer, "one", f"id-{k}")
                assert (await reader.get(at("one"))).json()["rounds"] == k + 1
            many = [{"id": f"more-{k}"} for k in range(processing.BITE * 3)]
            assert (await first.post(at("one", "/decisions"), json=many)).status_code == 200
            assert (await first.post(at("one", "/pause"))).json()["status"] == "paused"
            shown = [(await each.get(at("one", "?digest=true"))).json() for each in (first, second)]
            assert shown[0] == shown[1]
            assert shown[0]["status"] == "paused"
            figures = [(await each.get("/metrics")).text for each in (first, second)]
            expected = f'belated_decisions_total{{experiment="one"}} {20 + len(many)}.0'
            assert all(expected in text for text in figures)
            return shown[0]["events"], shown[0]["digest"]

    live = asyncio.run(scenario())
    with closing(open_ledger(store)) as ledger:
        record = ledger.find("one")
        assert record is not None
        assert verify(ledger, record, live).faults == []


def test_a_reader_never_sees_what_is_not_committed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that has decided but is not through yet: whoever reads waits for its end."""
    from belated.ledger.postgres import PostgresTransaction
    from belated.ledger.sqlite import SqliteTransaction

    owner = SqliteTransaction if store.startswith("sqlite") else PostgresTransaction
    asked = threading.Event()
    was_committed: list[bool] = []
    read = CommandProcessor.read

    def noted(self: CommandProcessor, name: str, take: Callable[[Any], Any]) -> Any:
        def taken(view: Any) -> Any:
            was_committed.append(gate.open.is_set())
            return take(view)

        asked.set()
        return read(self, name, taken)

    async def scenario(gate: Gate) -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            deciding = asyncio.create_task(http.post(at("one", "/decisions"), json={"id": "first"}))
            await gate.until_reached()
            reading = asyncio.create_task(http.get(at("one")))
            await until_async(asked.is_set)
            for _ in range(10):
                assert (await http.get("/healthz")).status_code == 200
            assert not reading.done()
            gate.open.set()
            assert (await deciding).status_code == 200
            assert (await reading).json()["rounds"] == 1
        assert was_committed == [True]

    monkeypatch.setattr(CommandProcessor, "read", noted)
    with gated(monkeypatch, owner, "append_many", lambda transaction, appended: True) as gate:
        asyncio.run(scenario(gate))


def test_metrics_of_experiments_that_stand_still_are_not_made_again(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    inner = CommandProcessor.read

    def noted(self: CommandProcessor, name: str, take: Any) -> Any:
        reads.append(name)
        return inner(self, name, take)

    async def scenario() -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            texts = [(await http.get("/metrics")).text for _ in range(2)]
            assert reads == ["one", "two"]
            assert texts[0].splitlines()[:30] == texts[1].splitlines()[:30]
            await decided(http, "two", "x")
            assert 'belated_decisions_total{experiment="two"} 1.0' in (await http.get("/metrics")).text
            assert reads == ["one", "two", "two"]

    monkeypatch.setattr(CommandProcessor, "read", noted)
    asyncio.run(scenario())


def test_a_snapshot_that_cannot_be_kept_fails_nobody_and_is_logged_once(
    store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processing, "SNAPSHOT_EVERY", 2)
    monkeypatch.setattr(service, "CommandProcessor", _often)
    tried: list[int] = []
    keep = SqlLedger.keep

    def refused(self: SqlLedger, experiment: int, position: int, state: bytes) -> None:
        tried.append(position)
        raise LedgerUnavailable("the disk is full")

    async def scenario() -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            monkeypatch.setattr("belated.ledger.keeper.AGAIN_SECONDS", 0.01)
            monkeypatch.setattr(SqlLedger, "keep", refused)
            for k in range(10):
                await decided(http, "one", f"id-{k}")
            await until_async(lambda: len(tried) >= 3)
            assert (await http.get("/readyz")).status_code == 200
            monkeypatch.setattr(SqlLedger, "keep", keep)
            await decided(http, "one", "last")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    failing, works_again = [record for record in caplog.records if record.name == "belated.ledger"]
    assert (failing.levelname, works_again.levelname) == ("ERROR", "WARNING")
    assert [each for each in ("experiment one", "the disk is full") if each not in failing.getMessage()] == []
    with closing(open_ledger(store)) as ledger:
        assert next(position for position, _ in ledger.snapshots(1)) == 11  # the end keeps one as well


def _often(ledger: Ledger, **more: Any) -> CommandProcessor:
    return CommandProcessor(ledger, 2, **more)


def test_a_snapshot_that_takes_long_holds_up_nobody(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CommandProcessor", _often)

    async def scenario(gate: Gate) -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            for k in range(8):
                assert (await decided(http, "one", f"id-{k}"))["round"] == k + 1
            await gate.until_reached()
            assert (await decided(http, "one", "meanwhile"))["round"] == 9
            gate.open.set()

    with gated(monkeypatch, SqlLedger, "keep", lambda *arguments: True) as gate:
        asyncio.run(scenario(gate))


def test_a_new_learner_is_compiled_before_its_experiment_is_made(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another process; decisions go on meanwhile."""
    from belated.ledger import warm

    compiled: list[list[str]] = []

    def elsewhere(specs: list[str]) -> None:
        compiled.append(specs)
        gate.pass_through()

    gate = Gate()
    monkeypatch.setattr(warm, "is_in_cache", lambda learner: learner.name != "ewma")
    monkeypatch.setattr(warm, "compile_elsewhere", elsewhere)

    async def scenario() -> None:
        async with worker(store) as http, asyncio.timeout(SECONDS):
            body = {"name": "new", "arms": 3, "learner": "ewma"}
            creating = asyncio.create_task(http.post("/v1/experiments", json=body))
            await gate.until_reached()
            assert (await decided(http, "one", "meanwhile"))["round"] == 1
            assert not creating.done()
            gate.open.set()
            assert (await creating).status_code == 201
            assert (await decided(http, "new", "x"))["round"] == 1
            refused = await http.post("/v1/experiments", json={**body, "name": "other", "learner": "nobody"})
            assert refused.status_code == 422

    try:
        asyncio.run(scenario())
    finally:
        gate.open.set()
    assert compiled == [["ewma"]]


def test_learners_in_use_are_compiled_before_a_worker_is_ready(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from belated.ledger import warm

    compiled: list[list[str]] = []
    monkeypatch.setattr(warm, "is_in_cache", lambda learner: False)
    monkeypatch.setattr(warm, "compile_elsewhere", compiled.append)

    async def scenario() -> None:
        async with worker(store) as http:
            assert compiled == [["guarded", "balanced"]]
            await decided(http, "one", "x")

    asyncio.run(scenario())
    assert compiled == [["guarded", "balanced"]]
