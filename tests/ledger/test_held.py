"""Outcomes that are held until the deadline: kept at once, learned from once, in the order of the decisions."""

import math
import re
from collections.abc import Callable

import msgspec
import pytest

from belated import Bandit
from belated.api.types import Deadline
from belated.ledger.commands import ApplyDeadlines, Decide, KeepSnapshot
from belated.ledger.events import SECOND, Event, ExperimentSettings, Fate, Kind
from belated.ledger.export import pieces
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.state import ExperimentState
from belated.ledger.verify import Verdict, verify
from support.ledger_helpers import observe, record_of, settings
from support.model import draw
from support.protocol_model import Controls, learned_the_same, new, read, told

HOLDS = Deadline(10.0, 0.9, "deadline")


def verdict(ledger: SqlLedger, live: tuple[int, str] | None = None) -> Verdict:
    record = ledger.find("one")
    assert record is not None
    return verify(ledger, record, live)


def events(ledger: SqlLedger) -> list[Event]:
    record = ledger.find("one")
    assert record is not None
    return ledger.events(record.number)


def test_the_learner_hears_of_everything_at_the_deadline_in_the_order_of_the_decisions(ledger: SqlLedger) -> None:
    """Compared with a bandit that is told by hand. Outcomes come in another order; two never come."""
    wanted = new(ledger, learner="tsallis_rv", missing=HOLDS).settings
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    bandit = Bandit(3, "tsallis_rv", seed=5)

    def decide(*ids: str) -> None:
        processor.run([Decide("one", ids)])
        for _ in ids:
            bandit.decide(draw=draw(wanted.seed, bandit.rounds + 1))

    decide("a", "b", "c")
    controls.now += 4 * SECOND
    decide("d", "e")
    losses = {"d": 0.25, "c": 0.5, "a": 0.75}
    (receipts,) = processor.run([observe("one", list(losses.items()))])
    assert told(receipts) == [("held", None)] * 3
    assert learned_the_same(read(processor, "one").state.bandit, bandit)
    controls.now += 6 * SECOND - 1
    decide("f")
    assert read(processor, "one").state.held == 3
    controls.now += 1  # the deadline of the first three, which comes before what is asked
    (receipts,) = processor.run([observe("one", [("b", 0.0), ("e", 0.125), ("a", 0.75), ("c", 0.75)])])
    assert told(receipts) == [("skipped", None), ("held", None), ("repeated", "held"), ("conflict", None)]
    for number, loss in ((1, 0.75), (2, 0.9), (3, 0.5)):
        bandit.observe(number, loss=loss)
    state = read(processor, "one").state
    assert learned_the_same(state.bandit, bandit)
    assert (state.held, state.fates, state.defaults) == (2, [0, 2, 0, 1], 1)
    controls.now += 100 * SECOND
    assert read(processor, "one").state.held == 0
    for number, loss in ((4, 0.25), (5, 0.125), (6, 0.9)):
        bandit.observe(number, loss=loss)
    assert learned_the_same(read(processor, "one").state.bandit, bandit)
    learned = [(Kind(each.kind), each.round) for each in events(ledger) if each.kind in (Kind.DEFAULT, Kind.SETTLED)]
    assert learned == [
        *((Kind.SETTLED, 1), (Kind.DEFAULT, 2), (Kind.SETTLED, 3)),
        *((Kind.SETTLED, 4), (Kind.SETTLED, 5), (Kind.DEFAULT, 6)),
    ]
    assert verdict(ledger).faults == []


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_crash_between_the_report_and_the_deadline_changes_nothing(ledger: SqlLedger, snapshot: bool) -> None:
    """Another worker, with the state of a snapshot or of the events alone, learns what the first would have learned."""
    new(ledger, missing=HOLDS)
    controls, first = Controls(ledger), CommandProcessor(ledger)
    first.run([Decide("one", [f"d{k}" for k in range(30)])])
    first.run([observe("one", [(f"d{k}", 0.1) for k in range(0, 30, 3)])])
    if snapshot:
        first.run([KeepSnapshot("one")])
    held = read(first, "one").state
    assert held.held == 10
    crashed = read(CommandProcessor(ledger), "one").state
    assert crashed.to_bytes() == held.to_bytes()
    assert crashed.held == 10
    controls.now += 10 * SECOND
    second = CommandProcessor(ledger)
    second.run([ApplyDeadlines("one"), ApplyDeadlines("one")])
    state = read(second, "one").state
    assert (state.position, state.held) == (70, 0)
    for processor in (first, CommandProcessor(ledger)):
        assert read(processor, "one").state.to_bytes() == state.to_bytes()
    found = verdict(ledger, (state.position, state.digest()))
    assert (found.faults, found.compared) == ([], 1 + snapshot)


def test_many_deadlines_take_several_transactions(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 4)
    new(ledger, missing=HOLDS)
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    processor.run([Decide("one", [f"d{k}" for k in range(18)])])
    processor.run([observe("one", [(f"d{k}", 0.5) for k in range(18) if k % 5])])
    controls.now += 10 * SECOND
    assert processor.run([ApplyDeadlines("one")]) == [True]
    (held,) = processor.run([observe("one", [("d5", 0.1), ("d17", 0.5)])])  # overdue: the default comes first
    assert told(held) == [("skipped", None), ("repeated", "held")]
    while processor.run([ApplyDeadlines("one")]) == [True]:
        pass
    processor.run([Decide("one", ["next"])])
    learned = [each for each in events(ledger) if each.kind in (Kind.DEFAULT, Kind.SETTLED)]
    assert sorted(each.round for each in learned) == list(range(1, 19))
    assert [each.round for each in learned[:9]] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [each.kind == Kind.DEFAULT for each in learned] == [(each.round - 1) % 5 == 0 for each in learned]
    assert events(ledger)[-1].kind == Kind.DECISION


def test_a_decision_that_the_learner_gave_up_on_is_skipped_at_its_deadline(ledger: SqlLedger) -> None:
    new(ledger, learner="robust", missing=HOLDS)
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    processor.run([Decide("one", [f"d{k}" for k in range(50)])])
    assert told(processor.run([observe("one", [("d0", 0.5), ("d49", 0.5)])])[0]) == [("held", None)] * 2
    controls.now += 10 * SECOND
    state = read(processor, "one").state
    settled = {each.round: each.fate for each in events(ledger) if each.kind == Kind.SETTLED}
    assert settled == {1: Fate.SKIPPED, 50: Fate.USED}
    assert (state.fates, state.held) == ([0, 1, 1, 0], 0)
    assert verdict(ledger).faults == []


def test_an_export_shows_both(ledger: SqlLedger) -> None:
    new(ledger, learner="tsallis_rv", missing=HOLDS)
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    processor.run([Decide("one", ["a"])])
    controls.now += 2 * SECOND
    processor.run([observe("one", [("a", 0.25)])])
    controls.now += 8 * SECOND
    processor.run([ApplyDeadlines("one")])
    record = ledger.find("one")
    assert record is not None
    lines = [msgspec.json.decode(line) for line in b"".join(pieces(ledger, record, "ndjson")).splitlines()]
    shown = [(each["kind"], each["loss"], each["receipt"], each["waited"]) for each in lines]
    assert shown == [
        ("decision", None, None, None),
        ("outcome", 0.25, "held", 2.0),
        ("settled", 0.25, "used", 10.0),
    ]
    header, *rows = b"".join(pieces(ledger, record, "csv")).decode().splitlines()
    assert [row.split(",")[1] for row in rows] == ["decision", "outcome", "settled"]
    assert header.startswith("number,kind")


def test_what_is_counted_when() -> None:
    """Delays when outcomes are reported; outcomes, losses and receipts when the learner hears of them."""
    state = ExperimentState(settings("one", learner="ucb", deadline=HOLDS))
    first, second = state.decide("a", 0), state.decide("b", SECOND)
    known = record_of(first)
    state.observe("a", known, 0.25, 3 * SECOND)
    assert (state.delays_rounds.counts, state.histogram.total, state.held) == ({1: 1}, 3.0, 1)
    assert (state.fates, sum(state.outcomes), sum(state.losses), state.bandit.outstanding) == ([0, 0, 0, 0], 0, 0.0, 2)
    state.settle("a", known._replace(loss=0.25, fate=Fate.HELD), 10 * SECOND)
    assert (state.delays_rounds.counts, state.histogram.total, state.held) == ({1: 1}, 3.0, 0)
    assert (state.fates, state.outcomes[first.arm], state.losses[first.arm]) == ([0, 1, 0, 0], 1, 0.25)
    assert (state.defaults, state.bandit.outstanding) == (0, 1)
    assert second.round == 2


def test_settings_of_before_learn_on_arrival() -> None:
    """What is stored of an experiment that says nothing stays as it was."""
    plain = settings("one", deadline=Deadline(5.0, 1.0))
    stored = msgspec.json.encode(plain)
    assert b'learn":' not in stored.replace(b"learner", b"")
    assert msgspec.json.decode(stored, type=ExperimentSettings).missing == Deadline(5.0, 1.0, "arrival")
    held = settings("one", deadline=HOLDS)
    assert msgspec.json.decode(msgspec.json.encode(held), type=ExperimentSettings) == held != plain


Damage = Callable[[list[Event]], tuple[Event, str, object]]


def loss_settled(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.kind == Kind.SETTLED)
    return event, "loss", math.nextafter(event.loss, 1.0)


def loss_held(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.kind == Kind.OUTCOME)
    return event, "loss", 0.75


def used_at_once(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.fate == Fate.HELD)
    return event, "fate", int(Fate.USED)


def never_held(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.fate == Fate.HELD)
    return event, "fate", int(Fate.LATE)


def a_default_instead(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.kind == Kind.SETTLED)
    return event, "kind", int(Kind.DEFAULT)


def settled_instead(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.kind == Kind.DEFAULT)
    return event, "kind", int(Kind.SETTLED)


def of_another(found: list[Event]) -> tuple[Event, str, object]:
    event = next(each for each in found if each.kind == Kind.SETTLED)
    return event, "arm", (event.arm + 1) % 3


def made_later(found: list[Event]) -> tuple[Event, str, object]:
    """A decision that was made later than on record would not have been due: what it says of its wait is wrong."""
    event = next(each for each in found if each.kind == Kind.SETTLED)
    return event, "waited", 9 * SECOND


@pytest.mark.parametrize(
    "damage",
    [loss_settled, loss_held, used_at_once, never_held, a_default_instead, settled_instead, of_another, made_later],
)
def test_a_doctored_event_is_found(ledger: SqlLedger, damage: Damage) -> None:
    new(ledger, learner="tsallis_rv", missing=HOLDS)
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    processor.run([Decide("one", ["a", "b", "c", "d"])])
    processor.run([observe("one", [("b", 0.5), ("c", 0.25)])])
    controls.now += 10 * SECOND
    processor.run([Decide("one", ["e"])])
    assert verdict(ledger).faults == []
    event, column, value = damage(events(ledger))
    with ledger.committing() as connection:
        ledger.run(connection, f"UPDATE events SET {column} = ? WHERE number = ?", (value, event.number))
    of_round = [each.number for each in events(ledger) if each.round == event.round]
    assert re.match(r"event (\d+)", verdict(ledger).faults[0])[1] in map(str, of_round)  # type: ignore[index]


@pytest.mark.parametrize("learn", ["arrival", "deadline"])
def test_what_was_learned_before_its_deadline_is_found(ledger: SqlLedger, learn: str) -> None:
    """The deadline of the settings is longer than the one that was kept."""
    new(ledger, learner="tsallis_rv", missing=Deadline(10.0, 0.9, learn))  # type: ignore[arg-type]
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    processor.run([Decide("one", ["a", "b"])])
    processor.run([observe("one", [("a", 0.5)])])
    controls.now += 10 * SECOND
    processor.run([ApplyDeadlines("one")])
    assert verdict(ledger).faults == []
    record = ledger.find("one")
    assert record is not None
    longer = msgspec.structs.replace(record.settings, missing=Deadline(10.5, 0.9, learn))  # type: ignore[arg-type]
    with ledger.committing() as connection:
        ledger.run(connection, "UPDATE experiments SET settings = ?", (msgspec.json.encode(longer).decode(),))
    faults = verdict(ledger).faults
    assert len(faults) == (2 if learn == "deadline" else 1)
