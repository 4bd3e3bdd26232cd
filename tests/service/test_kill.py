"""Servers killed with signal 9 at random moments under load: what was acknowledged is there, once."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from belated.client import AsyncClient
from support.raw_socket import Cut, Line
from support.serving import ADMIN_KEY, KINDS, Server, Stores
from support.witness import Witness

KILLS = 100
GENTLE = 50
"""After so many kills the server is stopped once as it should be, and leaves a snapshot to start from."""
SECONDS = 120.0


class Load:
    """What all visitors share."""

    def __init__(self) -> None:
        self.goes_on = True
        self.in_flight = 0
        """Requests without an answer yet, of those who send them again themselves."""
        self.answers = 0
        self.cut = 0
        """Requests that were sent and got no answer."""
        self.unheard = 0
        """Outcomes that were recorded before somebody heard so."""


class Visitor:
    """Asks for decisions under ids of its own, reports outcomes, some twice, some late, some never.

    Whatever gets no answer is sent again as it was, until there is one.
    """

    def __init__(self, number: int, port: int, witness: Witness, load: Load) -> None:
        self.number = number
        self.port = port
        self.line = Line(port)
        self.witness = witness
        self.load = load
        self.chance = random.Random(number)
        self.asked = 0
        self.waiting: list[str] = []
        self.told: dict[str, float] = {}

    async def visit(self) -> None:
        while self.load.goes_on:
            await self.step()
        await self.line.hang_up()

    async def step(self) -> None:
        chance = self.chance
        what = chance.random()
        if what < 0.4 or not self.waiting:
            await self.decide(1)
        elif what < 0.5:
            await self.decide(chance.randint(2, 6))
        elif what < 0.55:
            await self.again(chance.choice(self.waiting))
        elif what < 0.6 and self.told:
            id = chance.choice(list(self.told))
            await self.report({id: self.told[id]})
        else:
            late = chance.random() < 0.3
            count = chance.randint(2, 6) if what > 0.9 else 1
            ids = [self.waiting.pop(0 if late else -1) for _ in range(min(count, len(self.waiting)))]
            await self.report({id: chance.random() for id in ids})

    async def decide(self, count: int) -> None:
        ids = [f"{self.number}-{self.asked + k}" for k in range(count)]
        self.asked += count
        for answer in await self.decisions(ids):
            self.witness.decided(answer)
        self.waiting += ids

    async def again(self, id: str) -> None:
        for answer in await self.decisions([id]):
            self.witness.decided(answer)

    async def report(self, losses: dict[str, float]) -> None:
        for answer in await self.receipts(losses):
            id = answer["decision"]
            self.load.unheard += answer["receipt"] == "repeated" and id not in self.told
            self.witness.reported(losses[id], answer)
        self.told |= losses

    async def decisions(self, ids: list[str]) -> list[dict[str, Any]]:
        body = [{"id": id} for id in ids]
        return await self.insist("decisions", body)

    async def receipts(self, losses: dict[str, float]) -> list[dict[str, Any]]:
        body = [{"decision": id, "loss": loss} for id, loss in losses.items()]
        return await self.insist("outcomes", body)

    async def insist(self, what: str, body: list[dict[str, Any]]) -> list[dict[str, Any]]:
        is_one = len(body) == 1
        while True:
            self.load.in_flight += 1
            try:
                status, answer = await self.line.post(f"/{self.witness.name}/{what}", body[0] if is_one else body)
            except Cut as cut:
                self.load.cut += cut.sent
                await asyncio.sleep(0.005)
                continue
            finally:
                self.load.in_flight -= 1
            if status == 503:
                await asyncio.sleep(0.005)
                continue
            assert status == 200, answer
            self.load.answers += 1
            return [answer] if is_one else answer


class LibraryVisitor(Visitor):
    """Leaves it to the client library to ask again."""

    async def visit(self) -> None:
        async with AsyncClient(f"http://127.0.0.1:{self.port}", ADMIN_KEY) as self.client:
            await super().visit()

    async def decisions(self, ids: list[str]) -> list[dict[str, Any]]:
        name = self.witness.name
        if len(ids) > 1:
            return msgspec.to_builtins(await self.client.decide_many(name, ids))
        return [msgspec.to_builtins(await self.client.decide(name, ids[0]))]

    async def receipts(self, losses: dict[str, float]) -> list[dict[str, Any]]:
        name = self.witness.name
        if len(losses) > 1:
            return msgspec.to_builtins(await self.client.observe_many(name, losses=losses))
        ((id, loss),) = losses.items()
        return [msgspec.to_builtins(await self.client.observe(name, id, loss=loss))]


async def soon(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


async def answered(load: Load, count: int = 1) -> None:
    """So many more answers."""
    before = load.answers
    await soon(lambda: load.answers >= before + count)


def visited(
    server: Server, witness: Witness, do: Callable[[Load], Awaitable[None]], learner: str = "balanced"
) -> tuple[Load, list[Visitor]]:
    """Have visitors while something is done; each of them gets an answer to its last request."""

    async def main() -> tuple[Load, list[Visitor]]:
        load = Load()
        visitors = [Visitor(number, server.port, witness, load) for number in range(7)]
        visitors.append(LibraryVisitor(7, server.port, witness, load))
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
            for visitor in visitors:
                group.create_task(visitor.visit())
            await do(load)
            load.goes_on = False
        return load, visitors

    with server.client() as client:
        client.create(witness.name, ["a", "b", "c"], learner=learner, seed=5)
    return asyncio.run(main())


def check(server: Server, witness: Witness, visitors: list[Visitor]) -> None:
    """The ledger has what was acknowledged, and nothing that nobody asked for or reported."""
    with server.client() as client:
        live = client.experiment(witness.name, digest=True)
    witness.check(server.store, live)
    assert live.rounds == len(witness.decisions) == sum(visitor.asked for visitor in visitors)
    assert live.outcomes.used + live.outcomes.skipped == len(witness.outcomes)
    assert len(witness.outcomes) == sum(len(visitor.told) for visitor in visitors)
    assert live.outcomes.used > 50
    assert live.outcomes.skipped > 50 or live.learner == "guarded"  # which gives up later
    assert visitors[-1].told
    said = server.log.read_text()
    assert "ERROR" not in said, said
    assert "Traceback" not in said, said


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_acknowledged_survives_a_hundred_kills_and_no_round_is_used_twice(kind: str, tmp_path: Path) -> None:
    chance = random.Random(20)
    hit = 0

    async def kill_often(load: Load) -> None:
        nonlocal hit
        for number in range(KILLS):
            if number % 10 == 5:  # into the start
                await soon(lambda: os.getpgid(server.pid) == server.pid)  # forked, nothing more
                await asyncio.sleep(chance.uniform(0.0, 0.06))
            else:
                await answered(load)
                await asyncio.sleep(chance.uniform(0.01, 0.15))
                hit += load.in_flight > 0
            server.kill()
            server.start(wait=False)
            if number == GENTLE:
                await answered(load)
                await asyncio.to_thread(server.terminate)  # visitors must be able to go on
                server.start(wait=False)
        await answered(load)

    witness = Witness("killed")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        load, visitors = visited(server, witness, kill_often)
        check(server, witness, visitors)
    assert hit > 0.8 * KILLS
    assert load.cut > KILLS
    # committed, and nobody heard of it; with PostgreSQL the moment in between is too short to be hit for sure
    assert load.unheard > 0 or kind == "postgresql"
    assert min(len(witness.decisions), len(witness.outcomes)) > 10 * KILLS


def workers_of(pid: int) -> set[int]:
    """The processes that a supervisor has started as workers."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z" and b"spawn_main" in (folder / "cmdline").read_bytes():
                    found.add(int(folder.name))
    return found


@pytest.mark.parametrize("learner", ["guarded", "balanced"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(
    kind: str, learner: str, tmp_path: Path
) -> None:
    async def kill_both(load: Load) -> None:
        first = workers_of(server.pid)
        assert len(first) == 2
        for killed in first:
            await answered(load, 200)
            others = workers_of(server.pid) - {killed}
            os.kill(killed, signal.SIGKILL)
            await answered(load, 100)  # by the other one
            await soon(lambda: len(workers_of(server.pid) - others) == 1)  # noqa: B023
        await answered(load, 200)
        assert len(workers_of(server.pid) - first) == 2

    witness = Witness("supervised")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server:
        load, visitors = visited(server, witness, kill_both, learner)
        check(server, witness, visitors)
        assert server.log.read_text().count("starting another") == 2
    assert load.cut > 0
