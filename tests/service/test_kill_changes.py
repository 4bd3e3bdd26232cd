"""Servers killed with signal 9 while arms and limits change and decisions have several reports: nothing is lost."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from belated.ledger import open_ledger
from belated.ledger.events import Event, Kind, labels_of
from belated.ledger.verify import verify
from support.raw_socket import Cut, Line
from support.serving import KINDS, Server, Stores
from support.waiting import until_async

NAME = "changed"
TURNS = ["add", "retire", "limit", "restore", "fall back"]


class Visit:
    """What all visitors share: whether it goes on, and how many answers there were."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.goes_on = True
        self.answers = 0


class Visitor:
    """Sends each request again, as it was, until there is an answer."""

    def __init__(self, number: int, visit: Visit) -> None:
        self.visit = visit
        self.number = number
        self.line = Line(visit.port)
        self.chance = random.Random(number)

    async def go(self) -> None:
        while self.visit.goes_on:
            await self.step()
        await self.line.hang_up()

    async def step(self) -> None:
        raise NotImplementedError

    async def insist(self, method: str, path: str, body: Any = None) -> Any:
        while True:
            try:
                status, answer = await self.line.ask(method, f"/v1/experiments/{NAME}/{path}", body)
            except Cut:
                await asyncio.sleep(0.005)
                continue
            if status == 503:
                await asyncio.sleep(0.005)
                continue
            assert status == 200, answer
            self.visit.answers += 1
            return answer


class Reporter(Visitor):
    """Decides, and reports several values of each decision, in any order, some twice; then that they were all."""

    def __init__(self, number: int, visit: Visit) -> None:
        super().__init__(number, visit)
        self.open: list[str] = []
        self.told: dict[tuple[str, str], float] = {}
        self.settled: set[str] = set()
        self.asked = 0

    async def step(self) -> None:
        if len(self.open) < 4:
            id = f"{self.number}-{self.asked}"
            self.asked += 1
            await self.insist("POST", "decisions", {"id": id})
            self.open.append(id)
        id = self.chance.choice(self.open)
        mine = [report for decision, report in self.told if decision == id]
        report = f"r{len(mine)}"
        if mine and self.chance.random() < 0.2:
            report = self.chance.choice(mine)
        value = self.told.get((id, report), self.chance.choice([-5.0, 10.0, 25.5]))
        answer = await self.insist("POST", "outcomes", {"decision": id, "value": value, "report": report})
        is_new = (id, report) not in self.told
        assert answer["receipt"] == "held" or (answer["receipt"], answer["first"]) == ("repeated", "held")
        assert is_new or answer["receipt"] == "repeated"
        self.told[id, report] = value
        if len(mine) >= 3:
            answer = await self.insist("POST", "outcomes", {"decision": id, "final": True})
            assert answer["receipt"] in ("used", "skipped", "repeated")
            self.open.remove(id)
            self.settled.add(id)


class Changer(Visitor):
    """Adds arms, retires and restores them, sets limits, tells of fallbacks."""

    def __init__(self, number: int, visit: Visit) -> None:
        super().__init__(number, visit)
        self.arms = ["a", "b", "c"]
        self.present = ["a", "b", "c"]
        self.limits: dict[str, Any] | None = None
        self.fallbacks = 0
        self.done: Counter[str] = Counter()

    async def step(self) -> None:
        what = TURNS[self.done.total() % len(TURNS)]
        gone = [arm for arm in self.arms if arm not in self.present]
        if what == "add" and len(self.arms) < 40:
            arm = f"n/{len(self.arms)}"
            await self.insist("POST", "arms", {"arm": arm})
            self.arms.append(arm)
            self.present.append(arm)
        elif what == "retire" and len(self.present) > 2:
            arm = self.chance.choice(self.present)
            await self.insist("POST", f"arms/{arm.replace('/', '%2F')}/retire")
            self.present.remove(arm)
        elif what == "restore" and gone:
            arm = self.chance.choice(gone)
            await self.insist("POST", f"arms/{arm.replace('/', '%2F')}/restore")
            self.present.append(arm)
        elif what == "limit":
            self.limits = {"arms": [{"arm": "a", "floor": self.chance.randrange(1, 90) / 1000}], "holdout": 0.1}
            await self.insist("PUT", "limits", self.limits)
        elif what == "fall back":
            count = self.chance.randrange(1, 9)
            body = {"id": f"f{self.done[what]}", "arm": "b", "count": count}
            await self.insist("POST", "fallbacks", body)
            self.fallbacks += count
        self.done[what] += 1
        await asyncio.sleep(0.002)


def check(events: Sequence[Event], reporters: Sequence[Reporter], changer: Changer, arms: list[str | int]) -> None:
    reports = {(event.id, event.report): event.value for event in events if event.kind == Kind.REPORT}
    assert len(reports) == sum(event.kind == Kind.REPORT for event in events)
    assert reports == {key: value for reporter in reporters for key, value in reporter.told.items()}
    settled = {event.id: event.total for event in events if event.kind == Kind.SETTLED}
    assert len(settled) == sum(event.kind == Kind.SETTLED for event in events)
    assert set(settled) == {id for reporter in reporters for id in reporter.settled}
    for id, total in settled.items():
        assert total == pytest.approx(sum(value for (decision, _), value in reports.items() if decision == id))
    decisions = [event.id for event in events if event.kind == Kind.DECISION]
    assert sorted(decisions) == sorted(f"{each.number}-{k}" for each in reporters for k in range(each.asked))
    assert arms == changer.arms


slow = (pytest.mark.slow, pytest.mark.timeout(600))


@pytest.mark.parametrize(
    ("kind", "kills"),
    [("sqlite", 2), *[pytest.param(kind, 15, marks=slow) for kind in KINDS]],
)
def test_what_was_acknowledged_survives_kills(kind: str, kills: int, tmp_path: Path) -> None:
    chance = random.Random(5)

    async def main() -> tuple[list[Reporter], Changer]:
        visit = Visit(server.port)
        reporters = [Reporter(number, visit) for number in range(5)]
        changer = Changer(9, visit)
        async with asyncio.TaskGroup() as group:
            for visitor in (*reporters, changer):
                group.create_task(visitor.go())
            for _ in range(kills):
                before = visit.answers
                await until_async(lambda: visit.answers >= before + 15)  # noqa: B023
                await asyncio.sleep(chance.uniform(0.0, 0.06))
                server.kill()
                server.start(wait=False)
            await until_async(lambda: min(changer.done[word] for word in TURNS) >= 2)
            await until_async(lambda: sum(len(each.settled) for each in reporters) > 10)
            visit.goes_on = False
        return reporters, changer

    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server:
        with server.client() as client:
            client.create(
                NAME, ["a", "b", "c"], learner="robust", seed=5, outcome={"lowest": 0, "highest": 100}, reports="sum"
            )
        reporters, changer = asyncio.run(main())
        with server.client() as client:
            live = client.experiment(NAME, digest=True)
        said = server.log.read_text()
        assert "Traceback" not in said, said
        with closing(open_ledger(server.store)) as ledger:
            record = ledger.find(NAME)
            assert record is not None
            events = [event for chunk in ledger.all_events(record.number) for event in chunk]
            verdict = verify(ledger, record, (live.events, str(live.digest)))
            arms = labels_of(record.settings, ledger.changes(record.number, record.events))
        assert verdict.faults == []
        assert verdict.compared >= 1
    check(events, reporters, changer, arms)
    assert {each.arm for each in live.arms if each.present} == set(changer.present)
    assert live.fallbacks == changer.fallbacks
    limited = [] if live.limits is None else [(each.arm, each.floor) for each in live.limits.arms]
    assert limited == [(each["arm"], each["floor"]) for each in (changer.limits or {"arms": []})["arms"]]
    kinds = Counter(event.kind for event in events)
    changes = (Kind.ADD_ARM, Kind.RETIRE_ARM, Kind.RESTORE_ARM, Kind.LIMITS, Kind.FALLBACKS)
    assert min(kinds[kind] for kind in changes) > 0
