"""Deadlines: what is not heard of in time counts as a default loss, once, whoever was down meanwhile."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from belated.api.types import Deadline
from belated.client import Client, ServiceError
from belated.ledger import open_ledger
from belated.ledger.events import SECOND, Event, ExperimentRecord, Fate, Kind
from belated.ledger.state import ExperimentState
from support.serving import KINDS, Server, Stores
from support.witness import Witness

ARMS = ["a", "b", "c"]


def soon(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def recorded(store: str, name: str) -> tuple[ExperimentRecord, list[Event]]:
    """What the ledger has, read without the help of a server."""
    with closing(open_ledger(store)) as ledger:
        record = ledger.find(name)
        assert record is not None
        return record, [event for chunk in ledger.all_events(record.number) for event in chunk]


def kinds(events: Iterable[Event]) -> list[tuple[Kind, int]]:
    return [(Kind(event.kind), event.round) for event in events]


def decide(client: Client, witness: Witness, ids: list[str]) -> None:
    for decision in client.decide_many(witness.name, ids):
        witness.decided(msgspec.to_builtins(decision))


def observe(client: Client, witness: Witness, id: str, loss: float) -> str:
    receipt = client.observe(witness.name, id, loss=loss)
    witness.reported(loss, msgspec.to_builtins(receipt))
    return receipt.receipt


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
        client.create("deadline", ARMS, seed=1, missing=Deadline(0.8, 0.75))
        client.create("archived", ARMS, seed=2, missing=Deadline(0.5, 1.0))
        client.create("waiting", ARMS, seed=3)
        decide(client, witness, ids)
        assert observe(client, witness, "visit-3", 0.0) == "used"
        decide(client, archived, ids)
        decide(client, waiting, ids)
        client.archive("archived")
        soon(lambda: recorded(server.store, "deadline")[0].events == 12)  # nobody asks for anything
        soon(lambda: recorded(server.store, "archived")[0].events == 13)
        record, events = recorded(server.store, "deadline")
        assert kinds(events[7:]) == [(Kind.DEFAULT, round) for round in (1, 2, 4, 5, 6)]
        for event in events[7:]:
            decision = events[event.round - 1]
            assert (event.id, event.arm, event.loss) == (decision.id, decision.arm, 0.75)
            assert event.waited == event.at - decision.at >= 0.8 * SECOND
        before = client.experiment("deadline")
        assert (before.outcomes.used, before.outcomes.skipped, before.outcomes.defaults) == (1, 0, 5)
        assert observe(client, witness, "visit-4", 0.25) == "skipped"
        assert observe(client, witness, "visit-4", 0.25) == "repeated"
        with pytest.raises(ServiceError, match=r"has the loss 0\.25") as refused:
            client.observe("deadline", "visit-4", loss=0.75)
        assert refused.value.code == "conflict"
        after = client.experiment("deadline")
        assert (after.outcomes.used, after.outcomes.skipped, after.outcomes.defaults) == (1, 1, 5)
        same = ("rounds", "outstanding", "skipped", "patience", "drift", "arms")
        assert [getattr(after, word) for word in same] == [getattr(before, word) for word in same]
        assert [arm.outcomes for arm in after.arms] == [arm.decisions for arm in after.arms]
        time.sleep(0.9)
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
        client.create("deadline", ARMS, seed=4, missing=Deadline(0.8, 0.5))
        client.create("waiting", ARMS, seed=5)
        decide(client, waiting, first)
        decide(client, witness, first)
        observe(client, witness, "first-1", 0.125)
        server.kill()
        time.sleep(0.9)
        assert recorded(server.store, "deadline")[0].events == 6
        server.start(wait=False)
        soon(lambda: recorded(server.store, "deadline")[0].events == 10)  # nobody asks for anything
        decide(client, witness, second)
        server.terminate()
        time.sleep(0.9)
        server.start(wait=False)
        decide(client, witness, ["third"])  # as soon as there is somebody to ask
        expected = [(Kind.DECISION, round) for round in range(1, 6)] + [(Kind.OUTCOME, 2)]
        expected += [(Kind.DEFAULT, round) for round in (1, 3, 4, 5)]
        expected += [(Kind.DECISION, round) for round in range(6, 11)]
        expected += [(Kind.DEFAULT, round) for round in range(6, 11)] + [(Kind.DECISION, 11)]
        assert kinds(recorded(server.store, "deadline")[1])[:21] == expected
        soon(lambda: recorded(server.store, "deadline")[0].events == 22)  # its own deadline passes, too
        check(server, witness)
        assert kinds(check(server, waiting)) == [(Kind.DECISION, round) for round in range(1, 6)]


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_that_are_held_outlast_a_crash_and_are_learned_from_once_in_the_order_of_the_decisions(
    kind: str, tmp_path: Path
) -> None:
    witness, ids = Witness("held"), [f"visit-{k}" for k in range(1, 9)]
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("held", ARMS, learner="ucb", seed=9, missing=Deadline(1.2, 1.0, "deadline"))
        decide(client, witness, ids)
        for id, loss in (("visit-6", 0.25), ("visit-2", 0.5), ("visit-3", 0.0)):
            assert observe(client, witness, id, loss) == "held"
        server.kill()
        time.sleep(1.3)
        assert recorded(server.store, "held")[0].events == 11
        server.start(wait=False)
        soon(lambda: recorded(server.store, "held")[0].events == 19)  # nobody asks for anything
        assert observe(client, witness, "visit-2", 0.5) == "repeated"
        assert observe(client, witness, "visit-1", 0.5) == "skipped"
        decide(client, witness, ["next"])
        time.sleep(0.6)  # time enough to do it again
        events = check(server, witness)
    settled = {2, 3, 6}
    expected = [(Kind.SETTLED if round in settled else Kind.DEFAULT, round) for round in range(1, 9)]
    assert kinds(events[8:]) == [
        *((Kind.OUTCOME, round) for round in (6, 2, 3)),
        *expected,
        (Kind.OUTCOME, 1),
        (Kind.DECISION, 9),
    ]
    assert [event.loss for event in events[11:19]] == [1.0, 0.5, 0.0, 1.0, 1.0, 0.25, 1.0, 1.0]
    assert {event.fate for event in events[8:11]} == {Fate.HELD}
    assert {event.fate for event in events[11:19]} == {Fate.USED}
    assert all(event.waited == event.at - events[event.round - 1].at >= 1.2 * SECOND for event in events[11:19])


@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_take_each_default_once(kind: str, tmp_path: Path) -> None:
    witness = Witness("deadline")
    store = Stores.fresh(kind, tmp_path)
    first, second = [f"first-{k}" for k in range(300)], [f"second-{k}" for k in range(300)]
    with Server(store, tmp_path / "alone") as alone, alone.client() as client:
        client.create("deadline", ARMS, seed=6, missing=Deadline(0.5, 1.0))
        decide(client, witness, first)
    with Server(store, tmp_path / "log", workers=2) as server, server.client() as client:
        soon(lambda: recorded(store, "deadline")[0].events >= 600)
        decide(client, witness, second)
        for id in second[::3]:
            observe(client, witness, id, 0.0)
        soon(lambda: sum(event.kind == Kind.DEFAULT for event in recorded(store, "deadline")[1]) >= 500)
        time.sleep(0.6)  # time enough to do it again
        events = check(server, witness)
    told = {event.round for event in events if event.kind == Kind.OUTCOME and event.fate != Fate.LATE}
    defaults = [event.round for event in events if event.kind == Kind.DEFAULT]
    assert defaults == sorted(set(range(1, 601)) - told)
    assert len(witness.outcomes) == 100


@pytest.mark.parametrize("kind", KINDS)
def test_three_thousand_deadlines_at_once_do_not_keep_others_waiting(kind: str, tmp_path: Path) -> None:
    """Some are settled in each transaction, in order; what is reported too late is late however many are before it."""
    witness = Witness("deadline")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("deadline", ARMS, seed=7, missing=Deadline(2.0, 0.5))
        begun = time.monotonic()
        decide(client, witness, [f"visit-{k}" for k in range(3_000)])
        server.kill()
        assert time.monotonic() - begun < 2.0
        time.sleep(2.1)
        assert recorded(server.store, "deadline")[0].events == 3_000
        server.start(wait=False)
        with ThreadPoolExecutor(2) as pool:
            late = pool.submit(observe, client, witness, "visit-2500", 0.25)
            decide(client, witness, ["next"])
        assert late.result() == "skipped"
        soon(lambda: sum(event.kind == Kind.DEFAULT for event in recorded(server.store, "deadline")[1]) == 3_001)
        events = check(server, witness)
    defaults = [event.round for event in events if event.kind == Kind.DEFAULT]
    assert sorted(defaults) == list(range(1, 3_002))
    assert [round for round in defaults if round != 2_501] == sorted(set(defaults) - {2_501})
    came = next(event for event in events if event.kind == Kind.OUTCOME)
    assert (came.round, came.fate) == (2_501, Fate.LATE)
    assert kinds(events).index((Kind.DEFAULT, 2_501)) < came.number - 1
    assert next(event.number for event in events if event.round == 3_001) < 6_000  # not behind all of them


@pytest.mark.parametrize("kind", KINDS)
def test_the_deadline_of_a_decision_that_the_learner_gave_up_on(kind: str, tmp_path: Path) -> None:
    witness = Witness("deadline")
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, server.client() as client:
        client.create("deadline", ARMS, learner="balanced", seed=8, missing=Deadline(1.5, 0.5))
        decide(client, witness, ["lost", "told"])
        for wave in range(3):
            ids = [f"{wave}-{k}" for k in range(20)]
            decide(client, witness, ids)
            client.observe_many("deadline", losses=dict.fromkeys(ids, 0.5))
        assert client.experiment("deadline").skipped >= 2
        assert observe(client, witness, "told", 1.0) == "skipped"
        soon(lambda: recorded(server.store, "deadline")[1][-1].kind == Kind.DEFAULT)
        assert observe(client, witness, "lost", 0.25) == "skipped"
        events = check(server, witness)
    told, default, late = events[-3:]
    assert kinds(events[-3:]) == [(Kind.OUTCOME, 2), (Kind.DEFAULT, 1), (Kind.OUTCOME, 1)]
    assert (told.loss, told.fate) == (1.0, Fate.SKIPPED)
    assert (default.loss, default.fate) == (0.5, Fate.SKIPPED)
    assert (late.loss, late.fate) == (0.25, Fate.LATE)
