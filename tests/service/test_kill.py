"""Servers killed with signal 9 at random moments under load: what was acknowledged is there, once."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from belated.client import AsyncClient
from support.processes import workers_of
from support.raw_socket import Cut, Line
from support.serving import ADMIN_KEY, Server, Stores
from support.waiting import until_async
from support.witness import Witness

INTO_THE_START = 3
"""Every so many kills, one is into the start of the server."""


class Load:
    """What all visitors share."""

    def __init__(self) -> None:
        self.goes_on = True
        self.in_flight = 0
        """Requests without an answer yet, of those who send them again themselves."""
        self.answers = 0
        self.cut = 0
        """Requests that were sent and got no answer."""


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
            self.witness.reported(losses[answer["decision"]], answer)
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


async def answered(load: Load, count: int = 1) -> None:
    """So many more answers."""
    before = load.answers
    await until_async(lambda: load.answers >= before + count)


def visited(
    server: Server, witness: Witness, do: Callable[[Load], Awaitable[None]], learner: str = "balanced"
) -> tuple[Load, list[Visitor]]:
    """Have visitors while something is done; each of them gets an answer to its last request."""

    async def main() -> tuple[Load, list[Visitor]]:
        load = Load()
        visitors = [Visitor(number, server.port, witness, load) for number in range(7)]
        visitors.append(LibraryVisitor(7, server.port, witness, load))
        async with asyncio.TaskGroup() as group:
            for visitor in visitors:
                group.create_task(visitor.visit())
            await do(load)
            await until_async(lambda: len(witness.outcomes) > 100 and bool(visitors[-1].told))
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
    said = server.log.read_text()
    assert "ERROR" not in said, said
    assert "Traceback" not in said, said


slow = (pytest.mark.slow, pytest.mark.timeout(600))


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("sqlite", 3),
        ("postgresql", 2),
        pytest.param("sqlite", 15, marks=slow),
        pytest.param("postgresql", 15, marks=slow),
    ],
)
def test_what_was_acknowledged_survives_kills_and_no_round_is_used_twice(kind: str, kills: int, tmp_path: Path) -> None:
    chance = random.Random(kills)

    async def kill_often(load: Load) -> None:
        for number in range(kills):
            if number % INTO_THE_START == 1:
                await until_async(lambda: os.getpgid(server.pid) == server.pid)  # forked, nothing more
                await asyncio.sleep(chance.uniform(0.0, 0.06))
            else:
                await answered(load)
                await asyncio.sleep(chance.uniform(0.01, 0.15))
            server.kill()
            server.start(wait=False)
            if number == kills // 2:  # stopped once as it should be: it leaves a snapshot to start from
                await answered(load)
                await asyncio.to_thread(server.terminate)  # visitors must be able to go on
                server.start(wait=False)
        await answered(load)

    witness = Witness("killed")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        load, visitors = visited(server, witness, kill_often)
        check(server, witness, visitors)
    assert load.cut > 0


@pytest.mark.parametrize(
    ("kind", "learner"),
    [
        ("sqlite", "balanced"),
        *[
            pytest.param(kind, learner, marks=slow)
            for kind, learner in (("sqlite", "guarded"), ("postgresql", "balanced"), ("postgresql", "guarded"))
        ],
    ],
)
def test_a_worker_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(
    kind: str, learner: str, tmp_path: Path
) -> None:
    async def kill_both(load: Load) -> None:
        first = workers_of(server.pid)
        assert len(first) == 2
        for killed in first:
            await answered(load, 50)
            os.kill(killed, signal.SIGKILL)
            await answered(load, 50)  # by the other one
            await until_async(lambda: len(workers_of(server.pid)) == 2)
        await answered(load, 50)
        assert workers_of(server.pid) & first == set()

    witness = Witness("supervised")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server:
        _, visitors = visited(server, witness, kill_both, learner)
        check(server, witness, visitors)
