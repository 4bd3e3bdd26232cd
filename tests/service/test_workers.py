"""Two workers on one ledger: one sequence of rounds, one answer to each id, the same state everywhere."""

import asyncio
import os
import random
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.http_helpers import at, done, observe, state, talk
from support.processes import has_ended, workers_of
from support.raw_socket import Line
from support.sampling import sampled
from support.serving import KINDS, Server, Stores
from support.waiting import until
from support.witness import Witness

COUPLES = 12

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

    async def go_on(self, answers: int, everybody: "list[Couple]") -> None:
        """Until all together have had so many answers."""
        while sum(line.answers for couple in everybody for line in couple.lines) < answers:
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
                assert str(taken[0]) in answer["message"]
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
    async with asyncio.TaskGroup() as group:
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


def check(servers: list[Server], witnesses: list[Witness], met: dict[str, int]) -> None:
    """One sequence, and every server shows the state that its events make."""
    assert min(met.values()) > 0, met
    for witness in witnesses:
        lives = []
        for server in servers:
            with server.client() as client:
                lives.append(client.experiment(witness.name, digest=True))
        assert all(live == lives[0] for live in lives)
        witness.check(servers[0].store, lives[0])
        assert lives[0].rounds == len(witness.decisions)
        assert lives[0].outcomes.used + lives[0].outcomes.skipped == len(witness.outcomes)
        assert lives[0].outcomes.used > 0
        assert len(witness.states) > 1
    for server in servers:
        said = server.log.read_text()
        assert "ERROR" not in said, said


slow = (pytest.mark.slow, pytest.mark.timeout(600))


@pytest.mark.parametrize(
    ("kind", "requests"),
    [("sqlite", 1_000), pytest.param("sqlite", 10_000, marks=slow), pytest.param("postgresql", 10_000, marks=slow)],
)
def test_two_workers_are_one(kind: str, requests: int, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        async with AsyncExitStack() as stack:
            pairs = await lines_to_both(server, "shared", COUPLES, stack)
            return await play(witnesses, pairs, requests)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server:
        witnesses = create(server, ["shared"])
        check([server], witnesses, asyncio.run(main()))


@pytest.mark.parametrize("requests", [1_000, pytest.param(10_000, marks=slow)])
def test_two_servers_on_one_database_are_one(requests: int, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        async with AsyncExitStack() as stack:
            lines = [
                [await stack.enter_async_context(Line(server.port)) for _ in range(COUPLES)]
                for server in (first, second)
            ]
            return await play(witnesses, zip(*lines, strict=True), requests)

    store = Stores.fresh("postgresql", tmp_path)
    with Server(store, tmp_path / "first") as first, Server(store, tmp_path / "second") as second:
        witnesses = create(first, ["shared"])
        check([first, second], witnesses, asyncio.run(main()))


@pytest.mark.parametrize(
    ("kind", "learner"), sampled([(kind, learner) for kind in KINDS for learner in ("guarded", "balanced")], 1)
)
def test_two_workers_keep_two_experiments_apart(kind: str, learner: str, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        async with AsyncExitStack() as stack:
            pairs = await lines_to_both(server, "one", COUPLES, stack)
            return await play(witnesses, pairs, 1_000)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server:
        witnesses = create(server, ["one", "other"], learner)
        check([server], witnesses, asyncio.run(main()))


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=slow)])
def test_long_lists_of_several_experiments_at_once_are_all_answered(kind: str, tmp_path: Path) -> None:
    """More than one commit takes: what has to wait for the next one is not forgotten."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(Line(server.port)) for _ in range(9)]
            for turn in range(2):
                asked = []
                for number, line in enumerate(lines):
                    ids = [{"id": f"{turn}-{number}-{k}"} for k in range(200)]
                    asked.append(line.post(f"/{witnesses[number % 3].name}/decisions", ids))
                for number, (status, answers) in enumerate(await asyncio.gather(*asked)):
                    assert status == 200
                    for answer in answers:
                        witnesses[number % 3].decided(answer)

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", commit=600) as server:
        witnesses = create(server, ["one", "two", "three"], "guarded")
        asyncio.run(main())
        for witness in witnesses:
            with server.client() as client:
                live = client.experiment(witness.name, digest=True)
            witness.check(server.store, live)
            assert live.rounds == len(witness.decisions) == 2 * 3 * 200


Figure = Callable[..., float]


def figures(http: httpx.Client) -> Figure:
    """The sum of the samples of a name that have these labels."""
    samples = [
        sample for family in text_string_to_metric_families(http.get("/metrics").text) for sample in family.samples
    ]

    def figure(name: str, **labels: str) -> float:
        return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())

    return figure


def some(server: Server) -> None:
    with talk(server) as http:
        for _ in range(5):
            done(http.post(at("shared", "decisions"), json=[{}] * 10))
        decision = http.post(at("shared", "decisions")).json()["id"]
        for _ in range(2):
            observe(http, "shared", {decision: 0.5})


def test_any_worker_shows_the_figures_of_all_and_none_outlives_its_supervisor(tmp_path: Path) -> None:
    """As in production: workers are processes of their own that import everything."""
    with Server(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "log", workers=2, spawns=True) as server:
        create(server, ["shared"])
        asked = 0

        def both_have_worked() -> bool:
            nonlocal asked
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(some, [server] * 8))
            asked += 8
            with talk(server) as http:
                figure = figures(http)
            return all(figure("belated_commit_size_count", worker=worker) >= 5 for worker in "01")

        until(both_have_worked)
        with ExitStack() as connections:  # all open together: both workers have some
            talks = [connections.enter_context(talk(server)) for _ in range(6)]
            seen = [figures(mine) for mine in talks]
            shown = state(talks[0], "shared")
        assert shown["rounds"] == 51 * asked
        decisions = {"method": "POST", "route": "/v1/experiments/{name}/decisions"}
        for figure in seen:
            assert figure("belated_decisions_total", experiment="shared") == 51 * asked
            assert figure("belated_outcomes_total", experiment="shared") == asked
            assert figure("belated_outstanding", experiment="shared") == shown["outstanding"]
            assert figure("belated_outcomes_not_recorded_total", receipt="repeated") == asked
            assert figure("belated_commit_size_sum") == 53 * asked
            assert figure("belated_commit_seconds_count") == figure("belated_commit_size_count")
            assert figure("belated_queue_length") == 0
            assert figure("belated_requests_total", status="200", **decisions) == 6 * asked
            for number in "01":
                for name in ("resident_memory_bytes", "cpu_seconds_total", "open_fds", "start_time_seconds"):
                    assert figure(f"belated_process_{name}", worker=number) > 0
        workers = workers_of(server.pid)
        assert len(workers) == 2
        os.kill(server.pid, signal.SIGKILL)
        try:
            until(lambda: all(map(has_ended, workers)))
        finally:
            for worker in workers:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
