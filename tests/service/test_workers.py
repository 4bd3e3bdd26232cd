"""Two workers on one ledger: one sequence of rounds, one answer to each id, the same state everywhere."""

import asyncio
import random
import re
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from support.raw_socket import Line
from support.serving import KINDS, Server, Stores
from support.witness import Witness

COUPLES = 12
SECONDS = 100.0

Answer = tuple[int, Any]


class Couple:
    """A connection to each of two workers, which are asked the same at the same time, or what contradicts it."""

    def __init__(self, number: int, lines: tuple[Line, Line], witnesses: list[Witness]) -> None:
        self.number = number
        self.lines = lines
        self.witnesses = witnesses
        self.chance = random.Random(number)
        self.asked = 0
        self.waiting: list[tuple[Witness, str]] = []
        self.met: dict[str, int] = dict.fromkeys(("same", "conflict", "unknown", "repeated", "late"), 0)

    async def go_on(self, until: int, everybody: "list[Couple]") -> None:
        """Until all together have had so many answers."""
        while sum(line.answers for couple in everybody for line in couple.lines) < until:
            await self.step(self.chance.random())

    async def step(self, what: float) -> None:
        witness = self.chance.choice(self.witnesses)
        if what < 0.35 or len(self.waiting) < 5:
            await self.decide(witness, 1)
        elif what < 0.42:
            await self.decide(witness, self.chance.randint(2, 8))
        elif what < 0.65:
            await self.report_the_same(*self.next())
        elif what < 0.8:
            await self.report_both(*self.next())
        elif what < 0.87:
            await self.report_a_list(witness)
        elif what < 0.92:
            await self.report_unknown(witness)
        elif what < 0.97:
            await self.ask_again(witness)
        else:
            await self.look(witness)

    def next(self) -> tuple[Witness, str]:
        """A decision without an outcome, of those that were made just now or long ago; some are never taken."""
        is_late = self.chance.random() < 0.4
        self.met["late"] += is_late
        return self.waiting.pop(0 if is_late else -1)

    async def both(self, first: Awaitable[Answer], second: Awaitable[Answer]) -> tuple[Answer, Answer]:
        return await asyncio.gather(first, second)

    async def decide(self, witness: Witness, count: int) -> None:
        """The same ids at both workers at once."""
        ids = [f"{self.number}-{self.asked + k}" for k in range(count)]
        self.asked += count
        one: Any = [{"id": id} for id in ids]
        other: Any = [{"id": id} for id in reversed(ids)]
        if count == 1:
            (one,), (other,) = one, other
        here, there = self.lines
        path = f"/{witness.name}/decisions"
        (status, first), (second_status, second) = await self.both(here.post(path, one), there.post(path, other))
        assert (status, second_status) == (200, 200), (first, second)
        first, second = (first, second[::-1]) if count > 1 else ([first], [second])
        assert first == second
        assert [answer["id"] for answer in first] == ids
        for answer in first:
            witness.decided(answer)
        self.waiting += [(witness, id) for id in ids]

    async def report_the_same(self, witness: Witness, id: str) -> None:
        """One is the first, the other repeats it."""
        loss = self.chance.random()
        body = {"decision": id, "loss": loss}
        here, there = self.lines
        path = f"/{witness.name}/outcomes"
        answers = await self.both(here.post(path, body), there.post(path, body))
        assert [status for status, _ in answers] == [200, 200], answers
        repeated, first = sorted((answer for _, answer in answers), key=lambda answer: answer["receipt"] != "repeated")
        assert repeated == {"decision": id, "receipt": "repeated", "first": first["receipt"]}
        witness.reported(loss, first)
        witness.reported(loss, repeated)
        self.met["same"] += 1

    async def report_both(self, witness: Witness, id: str) -> None:
        """One of two losses is taken, the other contradicts it."""
        losses = self.chance.choice(((0.25, 0.75), (0.75, 0.25)))
        path = f"/{witness.name}/outcomes"
        asked = (line.post(path, {"decision": id, "loss": loss}) for line, loss in zip(self.lines, losses, strict=True))
        answers = await asyncio.gather(*asked)
        taken = [loss for loss, (status, _) in zip(losses, answers, strict=True) if status == 200]
        assert sorted(status for status, _ in answers) == [200, 409], answers
        for loss, (status, answer) in zip(losses, answers, strict=True):
            if status == 200:
                assert answer["receipt"] in ("used", "skipped")
                witness.reported(loss, answer)
            else:
                assert answer["code"] == "conflict"
                assert f"has the loss {taken[0]}" in answer["message"]
                witness.reported(loss, {"decision": id, "receipt": "conflict"})
        self.met["conflict"] += 1

    async def report_a_list(self, witness: Witness) -> None:
        """The same list at both: each outcome is new at one of them, and repeated, contradicted or unknown besides."""
        mine = [at for at, (whose, _) in enumerate(self.waiting) if whose is witness][-4:]
        ids = [self.waiting.pop(at)[1] for at in reversed(mine)]
        body = [{"decision": id, "reward": 0.5} for id in ids]
        nobody = f"nobody-{self.number}"
        rest = [{"decision": id, "loss": 1.0} for id in ids] + [{"decision": nobody, "loss": 0.5}]
        here, there = self.lines
        path = f"/{witness.name}/outcomes"
        answers = await self.both(here.post(path, body + rest), there.post(path, body + rest))
        assert [status for status, _ in answers] == [200, 200], answers
        for _, receipts in answers:
            assert [receipt["decision"] for receipt in receipts] == [*ids, *ids, nobody]
            words = [receipt["receipt"] for receipt in receipts[len(ids) :]]
            assert words == ["conflict"] * len(ids) + ["unknown"]
        for first, second in zip(answers[0][1][: len(ids)], answers[1][1][: len(ids)], strict=True):
            assert (first["receipt"] == "repeated") + (second["receipt"] == "repeated") == 1
            witness.reported(0.5, first)
            witness.reported(0.5, second)
            self.met["repeated"] += 1

    async def report_unknown(self, witness: Witness) -> None:
        """An id that nobody has asked for yet; it can still be asked for."""
        body = {"decision": f"{self.number}-{self.asked}", "loss": 0.5}
        here, there = self.lines
        path = f"/{witness.name}/outcomes"
        for status, answer in await self.both(here.post(path, body), there.post(path, body)):
            assert (status, answer["code"], answer["field"]) == (404, "unknown_decision", "decision")
        self.met["unknown"] += 1

    async def ask_again(self, witness: Witness) -> None:
        """What anybody was told before, and a report that repeats or contradicts one from long ago."""
        if not witness.outcomes:
            return
        id = self.chance.choice(list(witness.outcomes))
        loss, first = witness.outcomes[id]
        here, there = self.lines
        known, repeated = await self.both(
            here.post(f"/{witness.name}/decisions", {"id": id}),
            there.post(f"/{witness.name}/outcomes", {"decision": id, "loss": loss}),
        )
        assert known[0] == 200
        witness.decided(known[1])
        assert repeated == (200, {"decision": id, "receipt": "repeated", "first": first})
        self.met["repeated"] += 1

    async def look(self, witness: Witness) -> None:
        for line in self.lines:
            status, state = await line.get(f"/{witness.name}?digest=true")
            assert status == 200
            witness.saw(state)


async def lines_to_both(server: Server, name: str, wanted: int, stack: AsyncExitStack) -> Iterator[tuple[Line, Line]]:
    """Pairs of connections, one to each worker. Who has accepted a connection is up to chance: metrics tell who it was,
    as each worker counts the outcomes of unknown decisions that it hears of.
    """
    probe = await stack.enter_async_context(Line(server.port))

    async def unknown() -> list[float]:
        _, shown = await probe.ask("GET", "/metrics")
        return [float(count) for count in re.findall(rb'_total{receipt="unknown",worker="."} (\S+)', shown)]

    found: tuple[list[Line], list[Line]] = ([], [])
    for _ in range(100):
        if min(map(len, found)) >= wanted:
            break
        lines = [await stack.enter_async_context(Line(server.port)) for _ in range(8)]
        await asyncio.gather(*(line.ask("GET", "/healthz") for line in lines))
        for line in lines:
            before = await unknown()
            await line.post(f"/{name}/outcomes", {"decision": "who-are-you", "loss": 0.5})
            after = await unknown()
            (worker,) = [k for k in range(2) if after[k] > before[k]]
            found[worker].append(line)
            line.answers = 0
    assert min(map(len, found)) >= wanted
    return zip(found[0][:wanted], found[1][:wanted], strict=True)


async def play(witnesses: list[Witness], pairs: Iterator[tuple[Line, Line]], requests: int) -> dict[str, int]:
    """All couples at once, until there were so many answers; how often they met what."""
    couples = [Couple(number, pair, witnesses) for number, pair in enumerate(pairs)]
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        for couple in couples:
            group.create_task(couple.go_on(requests, couples))
    for witness in witnesses:
        for couple in couples:
            await couple.look(witness)
    assert sum(line.answers for couple in couples for line in couple.lines) >= requests
    return {word: sum(couple.met[word] for couple in couples) for word in couples[0].met}


def create(server: Server, names: list[str], learner: str = "balanced") -> list[Witness]:
    with server.client() as client:
        for seed, name in enumerate(names):
            client.create(name, ["a", "b", "c"], learner=learner, seed=seed)
    return [Witness(name) for name in names]


def check(servers: list[Server], witnesses: list[Witness], met: dict[str, int], least: int) -> None:
    """One sequence, and every server shows the state that its events make."""
    assert min(met.values()) > least, met
    for witness in witnesses:
        lives = []
        for server in servers:
            with server.client() as client:
                lives.append(client.experiment(witness.name, digest=True))
        assert all(live == lives[0] for live in lives)
        witness.check(servers[0].store, lives[0])
        assert lives[0].rounds == len(witness.decisions)
        assert lives[0].outcomes.used + lives[0].outcomes.skipped == len(witness.outcomes)
        assert lives[0].outcomes.used > least
        assert lives[0].outcomes.skipped > least or lives[0].learner == "guarded"  # which gives up later
        assert len(witness.states) > least
    for server in servers:
        said = server.log.read_text()
        assert "ERROR" not in said, said


@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_are_one_through_ten_thousand_requests(kind: str, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        async with AsyncExitStack() as stack:
            pairs = await lines_to_both(server, "shared", COUPLES, stack)
            return await play(witnesses, pairs, 10_000)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server:
        witnesses = create(server, ["shared"])
        check([server], witnesses, asyncio.run(main()), 100)


def test_two_servers_on_one_database_are_one_through_ten_thousand_requests(tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        async with AsyncExitStack() as stack:
            lines = [
                [await stack.enter_async_context(Line(server.port)) for _ in range(COUPLES)]
                for server in (first, second)
            ]
            return await play(witnesses, zip(*lines, strict=True), 10_000)

    store = Stores.fresh("postgresql", tmp_path)
    with Server(store, tmp_path / "first") as first, Server(store, tmp_path / "second") as second:
        witnesses = create(first, ["shared"])
        check([first, second], witnesses, asyncio.run(main()), 100)


@pytest.mark.parametrize("learner", ["guarded", "balanced"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_keep_two_experiments_apart(kind: str, learner: str, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        async with AsyncExitStack() as stack:
            pairs = await lines_to_both(server, "one", COUPLES, stack)
            return await play(witnesses, pairs, 2_000)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server:
        witnesses = create(server, ["one", "other"], learner)
        check([server], witnesses, asyncio.run(main()), 10)


@pytest.mark.parametrize("kind", KINDS)
def test_long_lists_of_several_experiments_at_once_are_all_answered(kind: str, tmp_path: Path) -> None:
    """More than one commit takes: what has to wait for the next one is not forgotten."""

    async def main() -> None:
        async with AsyncExitStack() as stack, asyncio.timeout(20):
            lines = [await stack.enter_async_context(Line(server.port)) for _ in range(9)]
            for turn in range(4):
                asked = []
                for number, line in enumerate(lines):
                    ids = [{"id": f"{turn}-{number}-{k}"} for k in range(700)]
                    asked.append(line.post(f"/{witnesses[number % 3].name}/decisions", ids))
                for number, (status, answers) in enumerate(await asyncio.gather(*asked)):
                    assert status == 200
                    for answer in answers:
                        witnesses[number % 3].decided(answer)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        witnesses = create(server, ["one", "two", "three"], "guarded")
        asyncio.run(main())
        for witness in witnesses:
            with server.client() as client:
                live = client.experiment(witness.name, digest=True)
            witness.check(server.store, live)
            assert live.rounds == len(witness.decisions) == 4 * 3 * 700
