"""/readyz tells at once whether the service can commit: databases that are silent, locked, unreachable or full are
noticed, also where nobody asks for anything, and so is that they are well again.
"""

import asyncio
import logging
import resource
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import httpx
import psycopg
import pytest

from belated.ledger import open_ledger
from belated.ledger.base import LedgerUnavailable
from belated.service import readiness
from belated.service.counters import WorkerCounters, new_counters
from belated.service.readiness import FAILED_SECONDS, IDLE_SECONDS, Readiness
from support.cutting_proxy import Proxy
from support.faults import HEADERS, NAME, PATH
from support.ledger_helpers import experiment
from support.serving import Server, Stores
from support.waiting import until

MOST_WAIT = 7.0


class Bench:
    """What a worker knows of its ledger, on a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.error: Exception | None = None
        """What the next probes fail with."""
        self.go = threading.Event()
        """Set, unless probes hang."""
        self.go.set()
        self.probes: list[list[str]] = []
        """The names that each probe was made with."""
        clock = SimpleNamespace(warning=None, jump=0)
        self.ledger = SimpleNamespace(store="test:///", clock=clock, probe=self._probe)
        self.processor = SimpleNamespace(ledger=self.ledger, wrote=0.0)
        self.committer = SimpleNamespace(oldest_age=0.0, failure=(0.0, "", []))
        self.counters = WorkerCounters(new_counters(1), 0)
        monkeypatch.setattr(readiness, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.readiness = Readiness(self.processor, self.committer, self.counters, MOST_WAIT)  # type: ignore[arg-type]

    def _probe(self, names: Sequence[str]) -> None:
        self.probes.append(list(names))
        assert self.go.wait(60)
        if self.error:
            raise self.error

    async def look(self) -> None:
        await self.readiness.look()
        await asyncio.sleep(0)  # a probe has begun now, if one was due

    async def probed(self) -> None:
        """Until no probe is under way."""
        while self.readiness._probing is not None:
            await asyncio.sleep(0.001)

    async def looks(self, seconds: float, every: float = 0.25) -> int:
        """Let time pass, in which the worker looks after itself; how many probes it made."""
        before, end = len(self.probes), self.now + seconds
        while self.now < end:
            self.now += every
            await self.look()
            await self.probed()
        return len(self.probes) - before


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def run(bench: Bench, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        try:
            await scenario()
        finally:
            bench.go.set()
            await bench.readiness.stop()

    asyncio.run(main())


def test_a_worker_is_not_ready_before_the_ledger_was_written(bench: Bench) -> None:
    async def scenario() -> None:
        assert bench.readiness.check()
        await bench.readiness.start()
        assert bench.readiness.check() is None
        assert bench.probes == [[]]

    run(bench, scenario)


def test_a_worker_starts_though_its_first_probe_hangs(bench: Bench) -> None:
    async def scenario() -> None:
        bench.go.clear()
        bench.readiness._most_wait = 0.01
        await bench.readiness.start()
        assert bench.readiness.check()
        bench.go.set()
        await bench.probed()
        assert bench.readiness.check() is None

    run(bench, scenario)


def test_a_service_that_nobody_asks_probes_every_five_seconds_and_a_failing_one_every_second(bench: Bench) -> None:
    async def scenario() -> None:
        await bench.readiness.start()
        assert await bench.looks(4 * IDLE_SECONDS) == 4
        for _ in range(3):  # whoever commits needs no probe
            bench.processor.wrote = bench.now
            assert await bench.looks(IDLE_SECONDS - 0.5) == 0
        bench.error = LedgerUnavailable("no room")
        assert await bench.looks(0.5) == 1
        assert bench.readiness.check() == "no room"
        assert await bench.looks(4 * FAILED_SECONDS) == 4
        bench.error = None
        assert await bench.looks(FAILED_SECONDS) == 1
        assert bench.readiness.check() is None
        assert await bench.looks(IDLE_SECONDS - 0.5) == 0

    run(bench, scenario)


def test_a_probe_is_made_soon_where_somebody_could_not_read(bench: Bench) -> None:
    async def scenario() -> None:
        await bench.readiness.start()
        bench.readiness.suspect()
        assert await bench.looks(FAILED_SECONDS) == 1
        assert await bench.looks(IDLE_SECONDS - 0.5) == 0

    run(bench, scenario)


def test_a_request_that_has_waited_too_long(bench: Bench) -> None:
    async def scenario() -> None:
        await bench.readiness.start()
        bench.committer.oldest_age = MOST_WAIT
        assert bench.readiness.check() is None
        bench.committer.oldest_age = MOST_WAIT + 0.1
        assert "7.1" in (bench.readiness.check() or "")
        bench.committer.oldest_age = 0.0
        assert bench.readiness.check() is None

    run(bench, scenario)


def test_a_probe_that_hangs(bench: Bench) -> None:
    """It is not made twice; where commits go through meanwhile, it says nothing."""

    async def scenario() -> None:
        await bench.readiness.start()
        bench.go.clear()
        bench.now += IDLE_SECONDS
        await bench.look()
        bench.now += MOST_WAIT
        assert bench.readiness.check() is None
        bench.now += 0.5
        assert "7.5" in (bench.readiness.check() or "")
        bench.now += 100
        await bench.look()
        bench.processor.wrote = bench.now
        assert bench.readiness.check() is None
        bench.now += MOST_WAIT + 1
        assert bench.readiness.check()
        bench.go.set()
        await bench.probed()
        assert bench.readiness.check() is None
        assert len(bench.probes) == 2

    run(bench, scenario)


def test_a_commit_that_failed_is_the_reason_until_something_is_written(bench: Bench) -> None:
    """A probe locks what that commit could not; one that was begun before it failed proves nothing."""

    async def scenario() -> None:
        await bench.readiness.start()
        bench.go.clear()
        bench.now += IDLE_SECONDS
        await bench.look()
        bench.now += 1
        bench.committer.failure = (bench.now, "locked", ["one", "two"])
        assert bench.readiness.check() == "locked"
        bench.now += 1
        bench.go.set()
        await bench.probed()
        assert bench.readiness.check() == "locked"
        assert await bench.looks(FAILED_SECONDS) == 1
        assert bench.probes[1:] == [[], ["one", "two"]]
        assert bench.readiness.check() is None
        bench.now += 1
        bench.committer.failure = (bench.now, "locked", ["one"])
        assert bench.readiness.check() == "locked"
        bench.processor.wrote = bench.now + 1
        assert bench.readiness.check() is None
        bench.now += 1 + IDLE_SECONDS
        await bench.look()
        await bench.probed()
        assert bench.probes[3:] == [[]]

    run(bench, scenario)


def test_what_is_written_after_a_probe_failed_counts(bench: Bench) -> None:
    async def scenario() -> None:
        bench.error = LedgerUnavailable("no room")
        await bench.readiness.start()
        assert bench.readiness.check() == "no room"
        bench.processor.wrote = bench.now + 1
        assert bench.readiness.check() is None

    run(bench, scenario)


def test_the_log_has_a_line_for_each_turn(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await bench.readiness.start()
        bench.error = LedgerUnavailable("no room")
        await bench.looks(10.0)
        bench.error = ZeroDivisionError("a slip")  # another reason: no turn
        await bench.looks(2.0)
        assert bench.readiness.check() == repr(bench.error)
        bench.error = None
        await bench.looks(2.0)

    with caplog.at_level(logging.WARNING):
        run(bench, scenario)
    turns = [each for each in caplog.records if not each.exc_info]
    assert [each.levelname for each in turns] == ["ERROR", "WARNING"]
    assert turns[0].args == ("test:///", "no room")
    assert turns[1].args == ("test:///", 8.0, "no room")
    traced = [each for each in caplog.records if each.exc_info]
    assert {each.levelname for each in traced} == {"ERROR"}


def test_a_clock_that_is_not_well_is_a_warning_and_nothing_more(bench: Bench) -> None:
    async def scenario() -> None:
        await bench.readiness.start()
        assert bench.readiness.warnings == []
        bench.ledger.clock.warning, bench.ledger.clock.jump = "it jumped", 2_500_000
        await bench.look()
        assert bench.readiness.warnings == ["it jumped"]
        assert bench.counters.get("clock_offset") == 2.5
        assert bench.readiness.check() is None

    run(bench, scenario)


QUICK = {
    "belated.ledger.postgres.CHECK_SECONDS": 1,
    "belated.ledger.postgres.CONNECT_SECONDS": 2,
    "belated.service.readiness.IDLE_SECONDS": 0.5,
}
ROOM = 40_000
"""Bytes, less than the ledger has."""
Start = Callable[..., Server]


def ready(server: Server) -> str:
    """Why the service is not ready; nothing, if it is."""
    answer = httpx.get(f"{server.url}/readyz", timeout=60)
    body = answer.json()
    assert (answer.status_code == 200) == (body["reason"] is None) == (body["status"] == "ok")
    assert body["warnings"] == []
    return str(body["reason"] or "")


@contextmanager
def held(store: str, statement: str) -> Iterator[None]:
    """Somebody else holds a lock."""
    with psycopg.connect(store) as other:
        other.execute(statement.encode())
        yield
        other.rollback()


@contextmanager
def locked_file(store: str) -> Iterator[None]:
    with closing(apsw.Connection(store.removeprefix("sqlite:///"))) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """What the service writes does not fit, but for its log and for what those who read must write."""
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
    yield
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[Server] = []

    def start(store: str, **constants: Any) -> Server:
        server = Server(store, tmp_path / "log", constants=QUICK | constants, wait=1)
        servers.append(server)
        server.start()
        with server.client() as client:
            client.create(NAME, ["a", "b", "c"], seed=7)
            client.decide_many(NAME, 1000)
        return server

    yield start
    for server in servers:
        server.kill()


def turns(server: Server, trouble: AbstractContextManager[None], asked: bool, reason: str = "") -> None:
    """The service is ready, then not, then again, and answers all the time."""
    until(lambda: not ready(server))
    with ThreadPoolExecutor(1) as pool:
        with trouble:
            if asked:
                url = f"{server.url}{PATH}/decisions"
                answer = pool.submit(httpx.post, url, headers=HEADERS, json={"id": "asked"}, timeout=60)
            until(lambda: (said := ready(server)) and reason in said)
            assert httpx.get(f"{server.url}/healthz", timeout=60).status_code == 200
        until(lambda: not ready(server))
        if asked:
            assert answer.result().status_code in (200, 503)
    with server.client() as client:
        assert client.decide(NAME).propensity > 0


slow = pytest.mark.slow


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=slow)])
def test_a_way_that_swallows_everything(start: Start, asked: bool) -> None:
    with Proxy(Stores.new_database()) as proxy:

        @contextmanager
        def swallowing() -> Iterator[None]:
            proxy.swallow(new_ones=True)
            yield
            proxy.swallows = False

        turns(start(proxy.url), swallowing(), asked)


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        pytest.param("LOCK TABLE events IN EXCLUSIVE MODE", False, marks=slow),
        pytest.param("LOCK TABLE experiments IN EXCLUSIVE MODE", False, marks=slow),
        ("SELECT * FROM experiments FOR UPDATE", True),
    ],
)
def test_what_somebody_else_has_locked(start: Start, statement: str, asked: bool) -> None:
    server = start(Stores.new_database())
    turns(server, held(server.store, statement), asked)


def test_a_probe_locks_what_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Stores.new_database()
    monkeypatch.setattr("belated.ledger.postgres._SETTINGS", {"lock_timeout": 100})
    with closing(open_ledger(store)) as ledger:
        name = experiment(ledger).settings.name
        with held(store, "SELECT * FROM experiments FOR UPDATE"):
            ledger.probe()
            with pytest.raises(LedgerUnavailable):
                ledger.probe([name])
        ledger.probe([name])


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=slow)])
def test_a_file_that_another_process_has_locked(tmp_path: Path, start: Start, asked: bool) -> None:
    server = start(f"sqlite:///{tmp_path / 'ledger.db'}")
    turns(server, locked_file(server.store), asked)


def test_a_full_disk_and_a_repeated_request_that_writes_nothing(tmp_path: Path, start: Start) -> None:
    """What was decided before is told again, and proves nothing."""
    server = start(f"sqlite:///{tmp_path / 'ledger.db'}")
    with server.client() as client:
        client.decide(NAME, "again")
        with full_disk(server):
            until(lambda: "disk I/O error" in ready(server))
            for _ in range(5):
                assert client.decide(NAME, "again").id == "again"
                assert ready(server) != ""
    turns(server, full_disk(server), True, "disk I/O error")


def test_a_server_that_is_gone_is_noticed_by_whoever_reads(tmp_path: Path) -> None:
    """Keys are read every second: no need to wait for the next probe."""
    never = {"belated.service.readiness.IDLE_SECONDS": 3600}
    with (
        Proxy(Stores.new_database()) as proxy,
        Server(proxy.url, tmp_path / "log", constants=never) as server,
    ):
        proxy.down()
        assert until(lambda: ready(server))
        proxy.up()
        until(lambda: not ready(server))


def test_probes_differ_and_change_no_experiment(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger, closing(apsw.Connection(str(tmp_path / "ledger.db"))) as look:
        seen = []
        for _ in range(3):
            ledger.probe()
            ((filler,),) = look.execute("SELECT filler FROM probes").fetchall()  # one row, written over
            assert isinstance(filler, str | bytes)
            assert len(filler) == 16_384
            seen.append(filler)
        assert len(set(seen)) == 3
        assert ledger.experiments() == []
