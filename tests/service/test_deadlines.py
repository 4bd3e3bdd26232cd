"""Deadlines: what is not heard of in time counts as a default loss, once, whoever was down meanwhile.

Deadlines are hours, which pass when a test says so.
"""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from belated.api.types import Deadline
from belated.client import Client, ServiceError
from belated.ledger import open_ledger
from belated.ledger.events import SECOND, Event, ExperimentRecord, Fate, Kind
from belated.ledger.state import ExperimentState
from support.http_helpers import MOSTLY_SQLITE
from support.serving import KINDS, Server, Stores
from support.waiting import until
from support.witness import Witness

ARMS = ["a", "b", "c"]
HOUR = 3600.0


def recorded(store: str, name: str) -> tuple[ExperimentRecord, list[Event]]:
    """What the ledger has, read without the help of a server."""
    with closing(open_ledger(store)) as ledger:
        record = ledger.find(name)
        assert record is not None
        return record, [event for chunk in ledger.all_events(record.number) for event in chunk]


def settled(server: Server, name: str, events: int) -> None:
    """Wait until the ledger has so many events; nobody asks for anything."""
    until(lambda: recorded(server.store, name)[0].events >= events)


def look_again(server: Server) -> None:
    """Wait until the service has looked for deadlines twice more: another experiment's pass."""
    with server.client() as client:
        client.create("another", ARMS, missing=Deadline(60.0, 1.0))
        for looks in (1, 2):
            client.decide("another")
            server.pass_time(60.0)
            settled(server, "another", 2 * looks)


def kinds(events: Iterable[Event]) -> list[tuple[Kind, int]]:
    return [(Kind(event.kind), event.round) for event in events]


def decide(client: Client, witness: Witness, ids: list[str]) -> None:
    for decision in client.decide_many(witness.name, ids):
        witness.decided(msgspec.to_builtins(decision))


def observe(client: Client, witness: Witness, losses: dict[str, float]) -> list[str]:
    receipts = client.observe_many(witness.name, losses=losses)
    for receipt in receipts:
        witness.reported(losses[receipt.decision], msgspec.to_builtins(receipt))
    return [receipt.receipt for receipt in receipts]


def check(server: Server, witness: Witness) -> list[Event]:
    """A replay, which looks at no clock, ends in the live state; every deadline is there once."""
    with server.client() as client:
        live = client.experiment(witness.name, digest=True)
    events = witness.check(server.store, live)
    defaults = [event.round for event in events if event.kind == Kind.DEFAULT]
    assert len(set(defaults)) == len(defaults) == live.outcomes.defaults
    said = server.log.read_text()
    assert "ERROR" not in said, said
    return events


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_loss_is_taken_once_in_the_order_of_the_decisions_and_what_comes_later_changes_nothing(
    kind: str, tmp_path: Path
) -> None:
    witness, archived, waiting = Witness("deadline"), Witness("archived"), Witness("waiting")
    ids = [f"visit-{k}" for k in range(1, 7)]
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("deadline", ARMS, seed=1, missing=Deadline(2 * HOUR, 0.75))
        client.create("archived", ARMS, seed=2, missing=Deadline(HOUR, 1.0))
        client.create("waiting", ARMS, seed=3)
        for each in (witness, archived, waiting):
            decide(client, each, ids)
        assert observe(client, witness, {"visit-3": 0.0}) == ["used"]
        client.archive("archived")
        server.pass_time(HOUR)
        settled(server, "archived", 13)
        assert recorded(server.store, "deadline")[0].events == 7
        server.pass_time(HOUR)
        settled(server, "deadline", 12)
        record, events = recorded(server.store, "deadline")
        assert kinds(events[7:]) == [(Kind.DEFAULT, round) for round in (1, 2, 4, 5, 6)]
        for event in events[7:]:
            decision = events[event.round - 1]
            assert (event.id, event.arm, event.loss) == (decision.id, decision.arm, 0.75)
            assert event.waited == event.at - decision.at >= 2 * HOUR * SECOND
        before = client.experiment("deadline")
        assert (before.outcomes.used, before.outcomes.skipped, before.outcomes.defaults) == (1, 0, 5)
        assert observe(client, witness, {"visit-4": 0.25}) == ["skipped"]
        assert observe(client, witness, {"visit-4": 0.25}) == ["repeated"]
        with pytest.raises(ServiceError) as refused:
            client.observe("deadline", "visit-4", loss=0.75)
        assert (refused.value.code, refused.value.field) == ("conflict", "loss")
        after = client.experiment("deadline")
        assert (after.outcomes.used, after.outcomes.skipped, after.outcomes.defaults) == (1, 1, 5)
        same = ("rounds", "outstanding", "skipped", "patience", "drift", "arms")
        assert [getattr(after, word) for word in same] == [getattr(before, word) for word in same]
        assert [arm.outcomes for arm in after.arms] == [arm.decisions for arm in after.arms]
        look_again(server)
        events = check(server, witness)
        assert kinds(events[12:]) == [(Kind.OUTCOME, 4)]
        assert (events[12].loss, events[12].fate) == (0.25, Fate.LATE)
        state = ExperimentState(record.settings)
        for event in events[:12]:
            state.apply(event)
        learned = state.bandit.to_bytes()
        state.apply(events[12])
        assert state.bandit.to_bytes() == learned
        assert kinds(check(server, archived)[7:]) == [(Kind.DEFAULT, round) for round in range(1, 7)]
        assert kinds(check(server, waiting)) == [(Kind.DECISION, round) for round in range(1, 7)]


@pytest.mark.parametrize("kind", KINDS)
def test_deadlines_that_pass_while_the_server_is_down_are_settled_first_when_it_is_up_again(
    kind: str, tmp_path: Path
) -> None:
    witness, waiting = Witness("deadline"), Witness("waiting")
    first, second = [f"first-{k}" for k in range(5)], [f"second-{k}" for k in range(5)]
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("deadline", ARMS, seed=4, missing=Deadline(HOUR, 0.5))
        client.create("waiting", ARMS, seed=5)
        decide(client, waiting, first)
        decide(client, witness, first)
        observe(client, witness, {"first-1": 0.125})
        server.kill()
        server.pass_time(HOUR)
        assert recorded(server.store, "deadline")[0].events == 6
        server.start(wait=False)
        settled(server, "deadline", 10)
        decide(client, witness, second)
        server.terminate()
        server.pass_time(HOUR)
        server.start(wait=False)
        decide(client, witness, ["third"])  # as soon as there is somebody to ask
        expected = [(Kind.DECISION, round) for round in range(1, 6)] + [(Kind.OUTCOME, 2)]
        expected += [(Kind.DEFAULT, round) for round in (1, 3, 4, 5)]
        expected += [(Kind.DECISION, round) for round in range(6, 11)]
        expected += [(Kind.DEFAULT, round) for round in range(6, 11)] + [(Kind.DECISION, 11)]
        assert kinds(recorded(server.store, "deadline")[1]) == expected
        server.pass_time(HOUR)
        settled(server, "deadline", 22)  # its own deadline passes, too
        check(server, witness)
        assert kinds(check(server, waiting)) == [(Kind.DECISION, round) for round in range(1, 6)]


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_that_are_held_outlast_a_crash_and_are_learned_from_once_in_the_order_of_the_decisions(
    kind: str, tmp_path: Path
) -> None:
    witness, ids = Witness("held"), [f"visit-{k}" for k in range(1, 9)]
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("held", ARMS, learner="ucb", seed=9, missing=Deadline(HOUR, 1.0, "deadline"))
        decide(client, witness, ids)
        assert observe(client, witness, {"visit-6": 0.25, "visit-2": 0.5, "visit-3": 0.0}) == ["held"] * 3
        server.kill()
        server.pass_time(HOUR)
        assert recorded(server.store, "held")[0].events == 11
        server.start(wait=False)
        settled(server, "held", 19)
        assert observe(client, witness, {"visit-2": 0.5, "visit-1": 0.5}) == ["repeated", "skipped"]
        decide(client, witness, ["next"])
        look_again(server)
        events = check(server, witness)
    told = {2, 3, 6}
    expected = [(Kind.SETTLED if round in told else Kind.DEFAULT, round) for round in range(1, 9)]
    assert kinds(events[8:]) == [
        *((Kind.OUTCOME, round) for round in (6, 2, 3)),
        *expected,
        (Kind.OUTCOME, 1),
        (Kind.DECISION, 9),
    ]
    assert [event.loss for event in events[11:19]] == [1.0, 0.5, 0.0, 1.0, 1.0, 0.25, 1.0, 1.0]
    assert {event.fate for event in events[8:11]} == {Fate.HELD}
    assert {event.fate for event in events[11:19]} == {Fate.USED}
    assert all(event.waited == event.at - events[event.round - 1].at >= HOUR * SECOND for event in events[11:19])


@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_take_each_default_once(kind: str, tmp_path: Path) -> None:
    witness = Witness("deadline")
    first, second = [f"first-{k}" for k in range(100)], [f"second-{k}" for k in range(100)]
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log", workers=2) as server, server.client() as client:
        client.create("deadline", ARMS, seed=6, missing=Deadline(HOUR, 1.0))
        decide(client, witness, first)
        server.kill()
        server.pass_time(HOUR)
        server.start()
        settled(server, "deadline", 200)
        decide(client, witness, second)
        observe(client, witness, dict.fromkeys(second[::3], 0.0))
        server.pass_time(HOUR)
        settled(server, "deadline", 400)
        look_again(server)
        events = check(server, witness)
    told = {event.round for event in events if event.kind == Kind.OUTCOME}
    assert len(told) == len(witness.outcomes) == 34
    defaults = [event.round for event in events if event.kind == Kind.DEFAULT]
    assert defaults == sorted(set(range(1, 201)) - told)


@pytest.mark.parametrize("kind", MOSTLY_SQLITE)
def test_many_deadlines_at_once_do_not_keep_others_waiting(kind: str, tmp_path: Path) -> None:
    """Some are settled in each transaction, in order; what is reported too late is late however many are before it."""
    witness = Witness("deadline")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("deadline", ARMS, seed=7, missing=Deadline(HOUR, 0.5))
        decide(client, witness, [f"visit-{k}" for k in range(300)])
        server.terminate()
        server.pass_time(HOUR)
        server.constants = {"belated.ledger.processor.DEADLINES": 50, "belated.service.service.LOOK_FOR_DEADLINES": 1e6}
        server.start()
        assert observe(client, witness, {"visit-250": 0.25}) == ["skipped"]
        decide(client, witness, ["next"])
        assert client.experiment("deadline").outcomes.defaults < 300
        server.terminate()
        server.pass_time(HOUR)
        del server.constants["belated.service.service.LOOK_FOR_DEADLINES"]
        server.start()
        settled(server, "deadline", 603)
        events = check(server, witness)
    defaults = [event.round for event in events if event.kind == Kind.DEFAULT]
    assert sorted(defaults) == list(range(1, 302))
    assert [round for round in defaults if round != 251] == sorted(set(defaults) - {251})
    came = next(event for event in events if event.kind == Kind.OUTCOME)
    assert (came.round, came.fate) == (251, Fate.LATE)
    assert kinds(events).index((Kind.DEFAULT, 251)) < came.number - 1
    assert next(event.number for event in events if event.round == 301) < 600  # not behind all of them


@pytest.mark.parametrize("kind", MOSTLY_SQLITE)
def test_the_deadline_of_a_decision_that_the_learner_gave_up_on(kind: str, tmp_path: Path) -> None:
    witness = Witness("deadline")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("deadline", ARMS, learner="balanced", seed=8, missing=Deadline(HOUR, 0.5))
        decide(client, witness, ["lost", "told"])
        for wave in range(3):
            ids = [f"{wave}-{k}" for k in range(20)]
            decide(client, witness, ids)
            client.observe_many("deadline", losses=dict.fromkeys(ids, 0.5))
        assert client.experiment("deadline").skipped >= 2
        assert observe(client, witness, {"told": 1.0}) == ["skipped"]
        server.pass_time(HOUR)
        until(lambda: recorded(server.store, "deadline")[1][-1].kind == Kind.DEFAULT)
        assert observe(client, witness, {"lost": 0.25}) == ["skipped"]
        events = check(server, witness)
    told, default, late = events[-3:]
    assert kinds(events[-3:]) == [(Kind.OUTCOME, 2), (Kind.DEFAULT, 1), (Kind.OUTCOME, 1)]
    assert (told.loss, told.fate) == (1.0, Fate.SKIPPED)
    assert (default.loss, default.fate) == (0.5, Fate.SKIPPED)
    assert (late.loss, late.fate) == (0.25, Fate.LATE)
