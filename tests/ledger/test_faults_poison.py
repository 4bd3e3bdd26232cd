"""One command that makes the worker stumble: the others that were to be committed with it do not notice."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from belated.ledger import Ledger, open_ledger
from belated.ledger.commands import Answer, Command, Decide, Read
from belated.ledger.events import DecisionRecord, Event, Kind
from belated.ledger.keys import ensure_admin
from belated.ledger.processor import CommandProcessor
from belated.ledger.state import ExperimentState
from belated.ledger.verify import verify
from belated.service.app import application
from belated.service.committer import Committer
from belated.service.counters import WorkerCounters, new_counters
from belated.service.limits import Limits
from support.faults import HEADERS, MOST, NAME, PATH, SETTINGS, found_in, recorded
from support.ledger_helpers import observe
from support.serving import ADMIN_KEY, KINDS, Stores

POISON = "poison"
POISONOUS = 0.125
COUNT = 20


class Poisoned(Exception):
    """What nobody expected."""


def poison(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A decision and an outcome under one id fail, once the state has changed; how large the commits are."""
    decide, taken, run = ExperimentState.decide, ExperimentState.observe, CommandProcessor.run
    sizes: list[int] = []

    def poisoned_decide(self: ExperimentState, id: str, at: int) -> Event:
        event = decide(self, id, at)
        if id == POISON:
            raise Poisoned("a decision")
        return event

    def poisoned_observe(
        self: ExperimentState, id: str, known: DecisionRecord, loss: float, at: int, *units: Any
    ) -> Event:
        event = taken(self, id, known, loss, at, *units)
        if loss == POISONOUS:
            raise Poisoned("an outcome")
        return event

    def counted(self: CommandProcessor, commands: list[Command]) -> list[Answer]:
        sizes.append(len(commands))
        return run(self, commands)

    monkeypatch.setattr(ExperimentState, "decide", poisoned_decide)
    monkeypatch.setattr(ExperimentState, "observe", poisoned_observe)
    monkeypatch.setattr(CommandProcessor, "run", counted)
    return sizes


@pytest.fixture
def store(kind: str, tmp_path: Path) -> str:
    """A store that people may use, with an experiment."""
    store = Stores.fresh(kind, tmp_path)
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, ADMIN_KEY)
        ledger.create(SETTINGS, 1, MOST)
    return store


def kinds_of(results: list[Any]) -> list[type]:
    return [type(result) for result in results]


@pytest.mark.parametrize("kind", KINDS)
def test_commands_that_are_committed_together_with_a_poisoned_one_are_committed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = poison(monkeypatch)

    async def scenario(ledger: Ledger) -> tuple[int, str]:
        processor = CommandProcessor(ledger)
        committer = Committer(processor, Limits(), WorkerCounters(new_counters(1), 0))

        async def together(commands: list[Command]) -> list[Any]:
            sizes.clear()
            futures = [committer.submit(command, 1, lambda answer: answer) for command in commands]
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert sizes == [len(commands), *[1] * len(commands)]
            assert committer.failing is None
            return results

        ids = [POISON if k == 7 else f"id-{k}" for k in range(COUNT)]
        results = await together([Decide(NAME, [id]) for id in ids])
        assert kinds_of(results) == [Poisoned if id == POISON else list for id in ids]
        assert [decisions[0].id for decisions in results if isinstance(decisions, list)] == [*ids[:7], *ids[8:]]
        losses = [POISONOUS if k == 3 else 0.5 for k in range(7)]
        results = await together([observe(NAME, [(f"id-{k}", loss)]) for k, loss in enumerate(losses)])
        assert kinds_of(results) == [Poisoned if loss == POISONOUS else list for loss in losses]
        await committer.submit(Decide(NAME, ["afterwards"]), 1, lambda answer: answer)
        view = await committer.submit(Read(NAME), 0, lambda answer: answer)
        await committer.close()
        return view.state.position, view.state.digest()

    with closing(open_ledger(store)) as ledger:
        live = asyncio.run(scenario(ledger))
        monkeypatch.undo()
        found = found_in(recorded(ledger))
        assert (int(Kind.DECISION), POISON) not in found
        assert (int(Kind.OUTCOME), "id-3") not in found
        assert live[0] == len(found) == (COUNT - 1) + (7 - 1) + 1
        record = ledger.find(NAME)
        assert record is not None
        assert verify(ledger, record, live)[3:] == (1, 0.0, live[1], [], [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_poisoned_request_is_answered_500_and_the_worker_goes_on(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)

    async def scenario() -> None:
        app = application(lambda: open_ledger(store))
        async with (
            app.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=HEADERS) as http,
        ):
            ids = ["a", "b", POISON, "c"]
            for k in range(1, 4):
                asked = [http.post(f"{PATH}/decisions", json={"id": id}) for id in ids]
                replies = await asyncio.gather(*asked)
                assert [reply.status_code for reply in replies] == [200, 200, 500, 200]
                assert replies[2].json()["code"] == "internal"
                assert "Poisoned" not in replies[2].text
                assert (await http.get("/readyz")).status_code == 200
                again = await http.post(f"{PATH}/decisions", json={"id": f"afterwards-{k}"})
                assert again.json()["round"] == 3 + k

    asyncio.run(scenario())
    monkeypatch.undo()
    with closing(open_ledger(store)) as ledger:
        names = {"a", "b", "c", "afterwards-1", "afterwards-2", "afterwards-3"}
        assert found_in(recorded(ledger)) == {(int(Kind.DECISION), id) for id in names}
