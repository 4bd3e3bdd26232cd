"""One damaged experiment leaves the others alone, and is there again when it is repaired."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from belated.ledger import open_ledger
from belated.ledger import processor as processing
from belated.ledger.base import Ledger, LedgerError
from belated.ledger.commands import Decide, Refused, View
from belated.ledger.events import ExperimentRecord, ExperimentSettings
from belated.ledger.keys import ensure_admin
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.state import ExperimentState
from belated.service.app import application
from support.protocol_model import made
from support.serving import ADMIN_KEY, Stores

NAMES = ("bad", "good", "well")
Statement = tuple[str, tuple[Any, ...]]

DAMAGES: dict[str, list[Statement]] = {
    "an event is missing": [("DELETE FROM events WHERE experiment = 1 AND number = 2", ())],
    "the last event is missing": [("DELETE FROM events WHERE experiment = 1 AND number = 3", ())],
    "an arm that there is not": [("UPDATE events SET arm = 99 WHERE experiment = 1 AND number = 2", ())],
    "settings that are not JSON": [("UPDATE experiments SET settings = '{' WHERE key = 1", ())],
    "a learner that there is not": [
        ("UPDATE experiments SET settings = replace(settings, 'balanced', 'nobody') WHERE key = 1", ())
    ],
    "a position before the last event": [("UPDATE experiments SET position = 2 WHERE key = 1", ())],
}


@pytest.fixture
def store(kind: str, tmp_path: Path) -> str:
    """A store with three experiments that have decided three times."""
    store = Stores.fresh(kind, tmp_path)
    with closing(open_ledger(store)) as ledger:
        ensure_admin(ledger, ADMIN_KEY)
        for seed, name in enumerate(NAMES):
            ledger.create(ExperimentSettings(name, ["a", "b"], "balanced", {}, seed, "wait"), 1, 10)
        CommandProcessor(ledger).run([Decide(name, ["x", "y", "z"]) for name in NAMES])
    return store


def change(ledger: SqlLedger, statements: list[Statement]) -> None:
    with ledger.committing() as connection:
        for statement, given in statements:
            ledger.run(connection, statement, given)


@pytest.mark.parametrize(
    ("kind", "damage"), [*(("sqlite", damage) for damage in DAMAGES), ("postgresql", "an event is missing")]
)
def test_the_service_goes_on_without_a_damaged_experiment(
    store: str, ledger: SqlLedger, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    change(ledger, DAMAGES[damage])

    async def scenario() -> None:
        app = application(lambda: open_ledger(store))
        async with (
            app.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app),
                base_url="http://test",
                headers={"Authorization": f"Bearer {ADMIN_KEY}"},
            ) as http,
        ):
            for k in range(2):
                asked = [http.post(f"/v1/experiments/{name}/decisions", json={"id": f"new-{k}"}) for name in NAMES * 3]
                replies = await asyncio.gather(*asked)
                assert [reply.status_code for reply in replies] == [500, 200, 200] * 3
                said = replies[0].json()
                assert said["code"] == "damaged"
                assert "belated ledger verify bad" in said["message"]
                reply = await http.get("/v1/experiments/good")
                assert reply.json()["rounds"] == 4 + k
            for path in ("/v1/experiments/bad", "/v1/experiments/bad?digest=true"):
                assert (await http.get(path)).json()["code"] == "damaged"
            if damage == "settings that are not JSON":
                assert (await http.get("/v1/experiments/bad/ledger")).json()["code"] == "damaged"
            assert (await http.get("/v1/experiments/well/ledger")).status_code == 200
            text = (await http.get("/metrics")).text
            assert 'belated_damaged_experiments{worker="0"} 1.0' in text
            assert 'belated_decisions_total{experiment="well"} 5.0' in text
            listed = (await http.get("/v1/experiments")).json()["experiments"]
            assert [each["name"] for each in listed] == list(NAMES)
            assert (await http.get("/readyz")).status_code == 200

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    logged = [record for record in caplog.records if "bad" in record.getMessage()]
    assert [(record.name, record.levelname) for record in logged] == [("belated.ledger", "ERROR")]


def test_it_is_left_alone_for_a_while_and_tried_again(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loads: list[str] = []
    inner = processing.load

    def noted(ledger: Ledger, record: ExperimentRecord) -> ExperimentState:
        loads.append(record.settings.name)
        return inner(ledger, record)

    monkeypatch.setattr(processing, "load", noted)
    change(ledger, [("UPDATE events SET number = 9 WHERE experiment = 1 AND number = 3", ())])
    processor = CommandProcessor(ledger)
    for _ in range(3):
        (answer,) = processor.run([Decide("bad", ["new"])])
        assert isinstance(answer, Refused)
        assert answer.code == "damaged"
    assert (loads, processor.damaged, processor.is_loaded("bad")) == (["bad"], ["bad"], True)
    change(ledger, [("UPDATE events SET number = 3 WHERE experiment = 1 AND number = 9", ())])
    assert isinstance(processor.run([Decide("bad", ["new"])])[0], Refused)
    monkeypatch.setattr(time, "monotonic", _later(processing.DAMAGED_SECONDS + 1))
    assert not processor.is_loaded("bad")
    assert isinstance(processor.run([Decide("bad", ["new"])])[0], list)
    assert processor.damaged == []
    assert (caplog.records[-1].levelname, caplog.records[-1].args) == ("WARNING", ("bad",))


def _later(seconds: float) -> Callable[[], float]:
    inner = time.monotonic
    return lambda: inner() + seconds


def test_what_a_worker_holds_may_be_at_fault_and_is_read_anew_first(ledger: SqlLedger) -> None:
    """As where an older copy of the ledger was put in its place."""
    processor = CommandProcessor(ledger)
    processor.run([Decide("bad", ["more"])])
    change(
        ledger,
        [
            ("DELETE FROM events WHERE experiment = 1 AND number = 4", ()),
            ("UPDATE experiments SET position = 3, rounds = 3 WHERE key = 1", ()),
        ],
    )
    (answer,) = processor.run([Decide("bad", ["again"])])
    assert made(answer)[0].round == 4
    assert processor.damaged == []


def test_of_several_experiments_nothing_happens_where_one_turns_out_to_be_damaged(ledger: SqlLedger) -> None:
    processor = CommandProcessor(ledger)
    processor.run([Decide(name, ["before"]) for name in NAMES])
    change(ledger, [("UPDATE experiments SET position = 3 WHERE key = 1", ())])
    with pytest.raises(LedgerError):
        processor.run([Decide(name, ["new"]) for name in NAMES])
    assert [ledger.position(number).events for number in (2, 3)] == [4, 4]
    assert [len(ledger.events(number)) for number in (2, 3)] == [4, 4]
    taken = processor.read("good", lambda view: view)
    assert isinstance(taken, View)
    assert taken.state.position == 4
