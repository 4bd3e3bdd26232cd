"""Servers told to stop: they answer what they were asked, keep what they know, and end soon."""

import asyncio
import os
import random
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest

from belated.client import Client
from belated.ledger import open_ledger, postgres
from belated.ledger.sql import SqlLedger
from support.ports import is_free
from support.raw_socket import Line
from support.serving import ADMIN_KEY, KINDS, Server, Stores, is_alive
from support.waiting import until
from support.witness import Witness

QUICK = {"belated.service.server.STUCK_SECONDS": 0.1}
PATIENT = {
    "belated.ledger.sqlite.BUSY_SECONDS": 600.0,
    "belated.ledger.postgres.ANSWER_SECONDS": 700,
    "belated.ledger.postgres._SETTINGS": postgres._SETTINGS | {"lock_timeout": 600_000, "statement_timeout": 600_000},
    "belated.service.handlers.METRICS_SECONDS": 0.01,
}
"""A worker waits for a lock however long the test holds it."""
slow = pytest.mark.slow
PG_SLOW = ["sqlite", pytest.param("postgresql", marks=slow)]


async def queued(probe: Line) -> float:
    """How many wait for a commit at all workers."""
    _, shown = await probe.ask("GET", "/metrics")
    return sum(map(float, re.findall(rb"\nbelated_queue_length\S* (\S+)", shown)))


@contextmanager
def held(store: str, name: str) -> Iterator[None]:
    """Nobody can commit anything of the experiment while this lasts."""
    with closing(open_ledger(store)) as ledger:
        record = ledger.find(name)
        assert record is not None
        with ledger.transaction() as transaction:
            transaction.lock(record.number, record.events, [])
            yield


def reach(store: str) -> list[tuple[int, int]]:
    """Of each experiment, how many events it has, and how far its newest snapshot reaches."""
    found = []
    with closing(open_ledger(store)) as ledger:
        for record in ledger.experiments():
            newest = max([position for position, _ in ledger.snapshots(record.number)], default=0)
            found.append((record.events, newest))
    return found


def check(server: Server, witness: Witness) -> None:
    with server.client() as client:
        witness.check(server.store, client.experiment(witness.name, digest=True))


@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        ("sqlite", 2),
        ("postgresql", 1),
        *[pytest.param(*case, marks=slow) for case in (("sqlite", 1), ("postgresql", 2))],
    ],
)
def test_requests_that_wait_for_a_commit_are_answered_before_the_end(kind: str, workers: int, tmp_path: Path) -> None:
    witness = Witness("waiting")

    async def main() -> None:
        async with AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(Line(server.port)) for _ in range(20)]
            for number, line in enumerate(lines):
                status, answer = await line.post("/waiting/decisions", {"id": f"before-{number}"})
                assert status == 200
                witness.decided(answer)
            with held(server.store, "waiting"):
                asked = [
                    asyncio.create_task(
                        line.post("/waiting/decisions", {"id": f"while-{number}"})
                        if number % 2
                        else line.post("/waiting/outcomes", {"decision": f"before-{number}", "loss": 0.5})
                    )
                    for number, line in enumerate(lines)
                ]
                probe = await stack.enter_async_context(Line(server.port))
                while await queued(probe) < len(lines):
                    await asyncio.sleep(0.01)
                halves = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(8)]
                for _, writer in halves:
                    writer.write(b"GET /healthz HTTP/1.1\r\n")
                assert (await probe.ask("GET", "/healthz"))[0] == 200
                os.kill(server.pid, signal.SIGTERM)
                for reader, writer in halves:  # are told when the server cuts off what holds it up
                    await reader.read()
                    writer.close()
                assert is_alive(server.pid)
                assert not any(task.done() for task in asked)
            for number, (status, answer) in enumerate(await asyncio.gather(*asked)):
                assert status == 200, answer
                if number % 2:
                    witness.decided(answer)
                else:
                    witness.reported(0.5, answer)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers, QUICK | PATIENT) as server:
        with server.client() as client:
            client.create("waiting", 3, seed=1)
        asyncio.run(main())
        server.wait_until_gone()
        until(lambda: is_free(server.port))
        server.start()
        check(server, witness)
    assert (len(witness.decisions), len(witness.outcomes)) == (30, 10)


class Customer:
    """A thread that uses the client library as people do."""

    def __init__(self, number: int, client: Client, witness: Witness, done: Event) -> None:
        self.number = number
        self.client = client
        self.witness = witness
        self.done = done
        self.chance = random.Random(number)

    def visit(self) -> int:
        """Until told to stop; how many visits there were."""
        name = self.witness.name
        late: dict[str, float] = {}
        visits = 0
        while not self.done.is_set():
            id = f"{self.number}-{visits}"
            decision = self.client.decide(name, id)
            self.witness.decided(msgspec.to_builtins(decision))
            loss = self.chance.random()
            if self.chance.random() < 0.5:
                receipt = self.client.observe(name, decision, loss=loss)
                self.witness.reported(loss, msgspec.to_builtins(receipt))
            else:
                late[id] = loss
            if len(late) > 10:
                for receipt in self.client.observe_many(name, losses=late):
                    self.witness.reported(late[receipt.decision], msgspec.to_builtins(receipt))
                late = {}
            visits += 1
        return visits


@pytest.mark.parametrize(("kind", "restarts"), [("sqlite", 2), *[pytest.param(kind, 6, marks=slow) for kind in KINDS]])
def test_customers_of_the_client_library_do_not_notice_restarts(kind: str, restarts: int, tmp_path: Path) -> None:
    witness = Witness("restarted")
    done = Event()
    chance = random.Random(3)
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("restarted", ["a", "b"], seed=2)
        with ThreadPoolExecutor(4) as pool:
            try:
                visits = [pool.submit(Customer(number, client, witness, done).visit) for number in range(4)]
                for _ in range(restarts):
                    enough = len(witness.decisions) + 20
                    until(lambda: len(witness.decisions) >= enough)  # noqa: B023
                    time.sleep(chance.uniform(0.0, 0.2))
                    server.terminate()
                    server.start(wait=False)
                enough = len(witness.decisions) + 20
                until(lambda: len(witness.decisions) >= enough)
                until(lambda: len(witness.outcomes) > 10)
            finally:
                done.set()
            assert sum(each.result() for each in visits) == len(witness.decisions)
        check(server, witness)
        said = server.log.read_text()
    assert "ERROR" not in said, said


def slow_export(port: int, name: str) -> socket.socket:
    """A reader of the ledger who has taken the first few bytes and is in no hurry."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(60)
    reader.connect(("127.0.0.1", port))
    request = f"GET /v1/experiments/{name}/ledger HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n"
    reader.sendall(request.encode())
    assert reader.recv(12) == b"HTTP/1.1 200"
    return reader


@pytest.mark.parametrize("kind", PG_SLOW)
def test_a_server_ends_soon_while_somebody_watches_and_somebody_reads_the_ledger_slowly(
    kind: str, tmp_path: Path
) -> None:
    seen: list[int] = []

    def watch() -> None:
        with server.client() as client:
            seen.extend(state.rounds for state in client.watch("watched"))

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", constants=QUICK) as server:
        with server.client() as client:
            client.create("watched", 2, seed=3)
            client.decide_many("watched", 20_000)
        watcher = Thread(target=watch)
        watcher.start()
        with closing(slow_export(server.port, "watched")) as reader:
            until(lambda: bool(seen))
            server.terminate()
            watcher.join(60)
            assert not watcher.is_alive()
            rest = b""
            with suppress(ConnectionError):
                while part := reader.recv(1 << 16):
                    rest += part
        assert seen == [20_000]
        assert not rest.endswith(b"0\r\n\r\n") or rest.count(b'"kind":"decision"') == 20_000  # whole, or seen to be cut
        assert reach(server.store) == [(20_000, 20_000)]


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("sqlite", 1), ("sqlite", 2), *[pytest.param("postgresql", workers, marks=slow) for workers in (1, 2)]],
)
def test_the_end_leaves_snapshots_with_which_the_next_start_needs_no_replay(
    kind: str, workers: int, tmp_path: Path
) -> None:
    names = ["quiet", "one", "two"]
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers) as server:
        with server.client() as client:
            for seed, (name, learner) in enumerate(zip(names, ["guarded", "guarded", "balanced"], strict=True)):
                client.create(name, ["a", "b", "c"], learner=learner, seed=seed)
            for name in names[1:]:
                ids = [decision.id for decision in client.decide_many(name, 100)]
                client.observe_many(name, losses=dict.fromkeys(ids[::2], 0.25))
            before = [client.experiment(name, digest=True) for name in names]
        assert reach(server.store) == [(0, 0), (150, 0), (150, 0)]
        server.terminate()
        until(lambda: is_free(server.port))
        assert reach(server.store) == [(0, 0), (150, 150), (150, 150)]
        with closing(open_ledger(server.store)) as ledger:
            assert isinstance(ledger, SqlLedger)
            with ledger.committing() as connection:
                ledger.run(connection, "DELETE FROM events")  # so that nobody can read them
        server.start()
        with server.client() as client:
            assert [client.experiment(name, digest=True) for name in names] == before
            assert client.decide("one").round == 101
            assert client.decide("two").round == 101
