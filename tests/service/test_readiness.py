"""/readyz tells at once whether the service can commit: databases that are frozen, locked, unreachable or full are
noticed, also where nobody asks for anything, and so is that they are well again.
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import psycopg
import pytest

from belated.ledger import open_ledger
from support.cutting_proxy import Proxy
from support.faults import HEADERS, NAME, PATH
from support.postgres import Postgres
from support.serving import Server, Stores
from support.waiting import until

IMPATIENT = {"belated.ledger.postgres.CHECK_SECONDS": 1, "belated.ledger.postgres.CONNECT_SECONDS": 2}
QUICK = IMPATIENT | {"belated.service.readiness.IDLE_SECONDS": 0.5}
"""A service that nobody asks makes probes twice a second."""
ROOM = 40_000
"""Bytes, less than the ledger has."""
Start = Callable[..., Server]
WAIT = 1
"""Seconds after which a request has waited too long."""


def ready(server: Server) -> str:
    """Why the service is not ready; nothing, if it is. The answer comes at once."""
    begun = time.monotonic()
    answer = httpx.get(f"{server.url}/readyz", timeout=10)
    assert time.monotonic() - begun < 3
    body = answer.json()
    assert (answer.status_code == 200) == (body["reason"] is None) == (body["status"] == "ok")
    assert body["warnings"] == []
    return str(body["reason"] or "")


def log(server: Server) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if "ready to commit" in line]


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


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One that may be frozen."""
    with Postgres.start() as server:
        yield server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[Server] = []

    def start(store: str, constants: dict[str, Any] = QUICK) -> Server:
        server = Server(store, tmp_path / "log", constants=constants, wait=WAIT)
        servers.append(server)
        server.start()
        with server.client() as client:
            client.create(NAME, ["a", "b", "c"], seed=7)
            client.decide_many(NAME, 1000)
        return server

    yield start
    for server in servers:
        server.kill()


def turns(server: Server, trouble: Callable[[], AbstractContextManager[None]], reason: str, asked: bool) -> None:
    """The service is ready, then not, then again; the log has a line for each turn."""
    before = len(log(server))
    assert ready(server) == ""
    with ThreadPoolExecutor(1) as pool:
        with trouble():
            if asked:
                url = f"{server.url}{PATH}/decisions"
                answer = pool.submit(httpx.post, url, headers=HEADERS, json={"id": "asked"}, timeout=60)
            said = until(lambda: ready(server))
            assert reason in said
            assert httpx.get(f"{server.url}/healthz").status_code == 200
        until(lambda: not ready(server))
        if asked:
            assert answer.result().status_code in (200, 503)
    lines = log(server)[before:]
    assert len(lines) % 2 == 0
    assert "ERROR belated.service: not ready to commit to" in lines[0]
    assert "WARNING belated.service: ready to commit to" in lines[-1]
    assert " s; the cause was: " in lines[-1]
    with server.client() as client:
        assert client.decide(NAME).propensity > 0


@pytest.mark.parametrize("asked", [False, True])
def test_a_frozen_database(postgres: Postgres, start: Start, asked: bool) -> None:
    server = start(postgres.new_database(), IMPATIENT if asked else QUICK)
    turns(server, postgres.frozen, "has waited" if asked else "", asked)


def test_a_way_that_swallows_everything(start: Start) -> None:
    with Proxy(Stores.new_database()) as proxy:
        server = start(proxy.url)

        @contextmanager
        def swallowing() -> Iterator[None]:
            proxy.swallow(new_ones=True)
            yield
            proxy.swallows = False

        turns(server, swallowing, "", False)


@pytest.mark.parametrize("table", ["events", "experiments"])
def test_a_table_that_somebody_else_has_locked(start: Start, table: str) -> None:
    server = start(Stores.new_database())
    turns(server, lambda: held(server.store, f"LOCK TABLE {table} IN EXCLUSIVE MODE"), "has not been written", False)


def test_a_row_that_somebody_else_has_locked(start: Start) -> None:
    server = start(Stores.new_database(), IMPATIENT)
    turns(server, lambda: held(server.store, "SELECT * FROM experiments FOR UPDATE"), "a request has waited", True)


def test_after_a_commit_that_failed_for_a_locked_row_the_service_is_not_ready_until_it_is_free(
    start: Start,
) -> None:
    server = start(Stores.new_database(), QUICK | {"belated.ledger.postgres._SETTINGS": {"lock_timeout": 1500}})
    with held(server.store, "SELECT * FROM experiments FOR UPDATE"):
        refused = httpx.post(f"{server.url}{PATH}/decisions", headers=HEADERS, json={"id": "asked"}, timeout=60)
        assert refused.status_code == 503
        assert "lock timeout" in refused.text
        for _ in range(30):
            assert ready(server) != ""
            time.sleep(0.1)
    until(lambda: not ready(server))


@pytest.mark.parametrize("asked", [False, True])
def test_a_file_that_another_process_has_locked(tmp_path: Path, start: Start, asked: bool) -> None:
    server = start(f"sqlite:///{tmp_path / 'ledger.db'}", IMPATIENT if asked else QUICK)
    turns(server, lambda: locked_file(server.store), "has waited" if asked else "has not been written", asked)


@pytest.mark.parametrize("asked", [False, True])
def test_a_full_disk(tmp_path: Path, start: Start, asked: bool) -> None:
    server = start(f"sqlite:///{tmp_path / 'ledger.db'}", IMPATIENT if asked else QUICK)
    turns(server, lambda: full_disk(server), "disk I/O error", asked)


def test_a_repeated_request_writes_nothing_and_proves_nothing(tmp_path: Path, start: Start) -> None:
    server = start(f"sqlite:///{tmp_path / 'ledger.db'}")
    with server.client() as client:
        client.decide(NAME, "again")
        with full_disk(server):
            until(lambda: ready(server))
            for _ in range(10):
                assert client.decide(NAME, "again").id == "again"
                assert "disk I/O error" in ready(server)
    until(lambda: not ready(server))


def test_a_server_that_is_gone_is_noticed_by_whoever_reads(postgres: Postgres, tmp_path: Path) -> None:
    """Keys are read every second: no need to wait for the next probe."""
    with Server(postgres.new_database(), tmp_path / "log") as server:
        postgres.kill()
        begun = time.monotonic()
        assert "refused" in until(lambda: ready(server))
        assert time.monotonic() - begun < 4.5
        postgres.restart()
        until(lambda: not ready(server))


def test_a_service_that_nobody_asks_probes_every_five_seconds(tmp_path: Path) -> None:
    with Server(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "log") as server:
        with closing(apsw.Connection(str(tmp_path / "ledger.db"))) as look:
            probed: set[int] = set()
            end = time.monotonic() + 6.5
            while time.monotonic() < end:
                probed.update(at for (at,) in look.execute("SELECT at FROM probes"))
                time.sleep(0.05)
            assert len(probed) == 2
            ((size, rows),) = look.execute("SELECT max(length(filler)), count(*) FROM probes").fetchall()
            assert (size, rows) == (16_384, 1)
        os.kill(server.pid, signal.SIGTERM)


def test_probes_differ_and_change_no_experiment(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger, closing(apsw.Connection(str(tmp_path / "ledger.db"))) as look:
        seen = []
        for _ in range(3):
            ledger.probe()
            seen += look.execute("SELECT filler FROM probes").fetchall()
        assert len(set(seen)) == 3
        assert ledger.experiments() == []
