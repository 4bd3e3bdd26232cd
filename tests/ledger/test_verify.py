"""Reading a ledger from its beginning finds what is wrong with it, and says where."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from belated.api.types import Deadline
from belated.ledger.commands import Change, Command, Decide
from belated.ledger.events import SECOND, Event, ExperimentRecord, Fate, Kind, Status
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import Verdict, verify
from support.ledger_helpers import observe
from support.protocol_model import Controls, made, new, read


@dataclass
class Played:
    """An experiment in the middle of its life, with snapshots, defaults, skipped and late outcomes."""

    ledger: SqlLedger
    record: ExperimentRecord
    live: tuple[int, str]
    events: list[Event]

    def write(self, statement: str, *given: object) -> None:
        with self.ledger.committing() as connection:
            self.ledger.run(connection, statement, given)

    def set(self, number: int, column: str, value: object) -> None:
        self.write(f"UPDATE events SET {column} = ? WHERE number = ?", value, number)

    def delete(self, number: int) -> None:
        self.write("DELETE FROM events WHERE number = ?", number)

    def verdict(self, live: tuple[int, str] | None = None) -> Verdict:
        record = self.ledger.find("one")
        assert record is not None
        return verify(self.ledger, record, live)

    def a(self, kind: Kind, fate: Fate | None = None, after: int = 40) -> Event:
        """The first event of a kind after so many."""
        return next(e for e in self.events[after:] if e.kind == kind and fate in (None, e.fate))


@pytest.fixture
def played(ledger: SqlLedger) -> Played:
    new(ledger, missing=Deadline(10.0, 0.9))
    controls, processor = Controls(ledger), CommandProcessor(ledger, snapshot_every=60)
    for k in range(20):
        controls.now += 2 * SECOND
        commands: list[Command] = [Decide("one", [f"{k}-{n}" for n in range(6)])]
        if k % 10 == 5:
            commands += [Change("one", Status.PAUSED), Change("one", Status.ACTIVE)]
        come = [n for n in range(min(k, 6)) if n < 5 or k % 2]
        commands += [observe("one", [(f"{k - n}-{n}", 0.05 * n + 0.01 * k) for n in come])]
        processor.run(commands)
    state = read(processor, "one").state
    record = ledger.find("one")
    assert record is not None
    return Played(ledger, record, (state.position, state.digest()), ledger.events(record.number))


def test_a_sound_ledger_has_no_faults(played: Played) -> None:
    assert {event.kind for event in played.events} == {1, 2, 3, 4, 5}
    assert {event.fate for event in played.events} == {None, Fate.USED, Fate.SKIPPED, Fate.LATE}
    last, digest = played.live
    expected = Verdict("one", last, 120, 3, 0.0, digest, [], [])
    assert played.verdict(played.live) == expected
    assert played.verdict() == expected._replace(compared=2)
    position, _ = played.ledger.snapshots(played.record.number)[0]
    assert 60 < position < last


def propensity(played: Played) -> str:
    event = played.a(Kind.DECISION)
    played.set(event.number, "propensity", event.propensity - 2e-9)
    return f"event {event.number} "


def first_propensity(played: Played) -> str:
    played.set(1, "propensity", 1 / 3 + 2e-9)
    return "event 1 "


def arm(played: Played) -> str:
    event = played.a(Kind.DECISION)
    played.set(event.number, "arm", (event.arm + 1) % 3)
    return f"event {event.number} "


def no_arm(played: Played) -> str:
    event = played.a(Kind.DECISION)
    played.set(event.number, "arm", 7)
    return f"event {event.number} "


def loss(played: Played) -> str:
    """What a loss was is seen in what is decided next."""
    event = played.a(Kind.OUTCOME, Fate.USED)
    following = played.a(Kind.DECISION, after=event.number)
    played.set(event.number, "loss", event.loss + 0.1)
    return f"event {following.number} "


def default_loss(played: Played) -> str:
    event = played.a(Kind.DEFAULT, Fate.USED)
    following = played.a(Kind.DECISION, after=event.number)
    played.set(event.number, "loss", 0.0)
    return f"event {following.number} "


def no_loss(played: Played) -> str:
    event = played.a(Kind.OUTCOME, Fate.USED)
    played.set(event.number, "loss", None)
    return f"event {event.number} "


def no_propensity(played: Played) -> str:
    event = played.a(Kind.DECISION)
    played.set(event.number, "propensity", None)
    return f"event {event.number} "


def too_much_loss(played: Played) -> str:
    event = played.a(Kind.OUTCOME, Fate.USED)
    played.set(event.number, "loss", 1.5)
    return f"event {event.number}"


def deleted(played: Played) -> str:
    played.delete(50)
    return "event 51 "


def deleted_first(played: Played) -> str:
    played.delete(1)
    return "event 2 "


def deleted_last(played: Played) -> str:
    last = played.events[-1].number
    played.delete(last)
    return f" {last - 1} "


def swapped(played: Played) -> str:
    """Two neighbours of different dates."""
    one = next(e.number for e, after in zip(played.events[40:], played.events[41:], strict=False) if e.at < after.at)
    for number, other in ((one, -1), (one + 1, one), (-1, one + 1)):
        played.set(number, "number", other)
    return f"event {one + 1}"


def swapped_decisions(played: Played) -> str:
    """Two neighbours of one batch: rounds are numbered too."""
    one = next(
        e.number for e, after in zip(played.events[40:], played.events[41:], strict=False) if e.kind == after.kind == 1
    )
    for number, other in ((one, -1), (one + 1, one), (-1, one + 1)):
        played.set(number, "number", other)
    return f"event {one}"


def fate(played: Played) -> str:
    event = played.a(Kind.OUTCOME, Fate.USED)
    played.set(event.number, "fate", int(Fate.SKIPPED))
    return f"event {event.number}"


def outcome_of_another(played: Played) -> str:
    """Of a decision whose default loss was taken, and whose outcome never came."""
    came = {event.round for event in played.events if event.kind == Kind.OUTCOME}
    before = next(e for e in played.events if e.kind == Kind.DEFAULT and e.fate == Fate.USED and e.round not in came)
    event = played.a(Kind.OUTCOME, Fate.USED, after=before.number)
    played.set(event.number, "round", before.round)
    return f"event {event.number}"


def outcome_of_nothing(played: Played) -> str:
    event = played.a(Kind.OUTCOME, Fate.USED)
    played.set(event.number, "round", 999)
    return f"event {event.number}"


def round(played: Played) -> str:
    event = played.a(Kind.DECISION)
    played.set(event.number, "round", event.round + 1)
    return f"event {event.number}"


def date(played: Played) -> str:
    event = played.a(Kind.DECISION)
    played.set(event.number, "at", event.at - 5 * SECOND)
    return f"event {event.number} "


def snapshot(played: Played) -> str:
    (_, _), (position, state) = played.ledger.snapshots(played.record.number)
    damaged = state[:-1] + bytes([state[-1] ^ 1])
    played.write("UPDATE snapshots SET state = ? WHERE position = ?", damaged, position)
    return f"event {position} "


def waiting_time(played: Played) -> str:
    event = played.a(Kind.OUTCOME)
    played.set(event.number, "waited", event.waited + 5 * SECOND)
    return f"event {event.number} "


def id_of_an_outcome(played: Played) -> str:
    event = played.a(Kind.OUTCOME)
    played.set(event.number, "id", "another")
    return f"event {event.number} "


DAMAGES: list[Callable[[Played], str]] = [
    propensity,
    first_propensity,
    arm,
    no_arm,
    loss,
    default_loss,
    no_loss,
    no_propensity,
    too_much_loss,
    deleted,
    deleted_first,
    deleted_last,
    swapped,
    swapped_decisions,
    fate,
    outcome_of_another,
    outcome_of_nothing,
    round,
    date,
    snapshot,
    waiting_time,
    id_of_an_outcome,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_where_it_is(played: Played, damage: Callable[[Played], str]) -> None:
    said = damage(played)
    for live in (played.live, None):
        faults = played.verdict(live).faults
        assert faults != []
        assert said in faults[0]


def test_a_billionth_of_a_loss_is_found(played: Played) -> None:
    event = played.a(Kind.OUTCOME, Fate.USED)
    played.set(event.number, "loss", event.loss + 1e-9)
    faults = played.verdict(played.live).faults
    assert faults != []
    assert f"event {played.live[0]} " in faults[-1]


def test_a_live_state_that_is_another_is_found(played: Played) -> None:
    last, digest = played.live
    other = ("0" if digest[0] != "0" else "1") + digest[1:]
    verdict = played.verdict((last, other))
    assert [f"event {last} " in fault for fault in verdict.faults] == [True]
    assert verdict.compared == 3
    (fault,) = played.verdict((last - 1, digest)).faults
    assert f"event {last - 1} " in fault


def test_a_worker_that_knows_more_than_the_ledger_is_found(played: Played) -> None:
    """Events that were answered and then lost: the worst that can happen to a ledger."""
    last, _ = played.live
    played.delete(last)
    played.write("UPDATE experiments SET position = ?", last - 1)
    assert played.verdict().faults == []
    (fault,) = played.verdict(played.live).faults
    assert str(last) in fault


def test_a_snapshot_of_more_than_the_ledger_holds_is_found(played: Played) -> None:
    (position, _), _ = played.ledger.snapshots(played.record.number)
    played.write("DELETE FROM events WHERE number >= ?", position)
    played.write("UPDATE experiments SET position = ?", position - 1)
    fault = played.verdict().faults[-1]
    assert str(position) in fault


def test_another_processor_may_compute_the_last_digits_differently(played: Played) -> None:
    """What is on record stays, the next worker goes on from it, and verify says so without calling it a fault."""
    first = next(e for e in played.events[40:] if e.kind == Kind.DECISION and e.propensity < 0.9)
    other = math.nextafter(first.propensity, 1.0)
    played.write("UPDATE events SET propensity = ? WHERE round = ? AND mark IS NOT NULL", other, first.round)
    fault = played.verdict(played.live).faults[0]
    assert fault.startswith(f"event {first.number} ")
    assert repr(other) in fault
    verdict = verify(played.ledger, played.record, played.live, tolerance=1e-9)
    assert verdict.faults == []
    assert 0.0 < verdict.propensity_error < 1e-12
    assert verdict.notes[0] == fault
    played.write("DELETE FROM snapshots")
    (answer,) = CommandProcessor(played.ledger).run([Decide("one", ["next"])])
    assert [decision.round for decision in made(answer)] == [121]
