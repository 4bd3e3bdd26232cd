"""What a processor answers, case by case: skipped, late, paused, archived, many deadlines, many workers."""

from functools import partial

import numpy as np
import pytest

from belated.api.types import Deadline
from belated.ledger.commands import Answer, ApplyDeadlines, Change, Command, Decide, Refused
from belated.ledger.events import SECOND, Status
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from support.ledger_helpers import observe, together
from support.protocol_model import IDS, START, UNSEEN, Controls, made, new, plain, read, told
from support.serving import KINDS


@pytest.mark.parametrize("learner", ["balanced", "robust", "robust:delay_constant=1"])
def test_an_outcome_that_comes_when_the_learner_has_given_up_is_skipped(ledger: SqlLedger, learner: str) -> None:
    model, processor, controls = new(ledger, "one", learner), CommandProcessor(ledger), Controls(ledger)
    commands: list[Command] = [Decide("one", IDS), observe("one", [(IDS[0], 0.3), (IDS[0], 0.3), (IDS[0], 0.4)])]
    answers = processor.run(commands)
    assert told(answers[1]) == [("skipped", None), ("repeated", "skipped"), ("conflict", None)]
    assert [decision.round for decision in made(answers[0])] == list(range(1, 13))
    model.check(commands, answers, controls.now)
    (again,) = CommandProcessor(ledger).run(
        [observe("one", [(IDS[0], 0.3), (IDS[0], 1.0), (IDS[-1], 0.0), ("nobody", 0.0)])]
    )
    assert told(again) == [("repeated", "skipped"), ("conflict", None), ("used", None), ("unknown", None)]


def test_a_missing_outcome_means_the_default_loss_and_a_late_one_is_kept_but_not_learned_from(
    ledger: SqlLedger,
) -> None:
    model, controls = new(ledger, "one", "tsallis_rv", Deadline(10.0, 0.9)), Controls(ledger)
    one, two = CommandProcessor(ledger), CommandProcessor(ledger)

    def run(processor: CommandProcessor, *commands: Command) -> list[Answer]:
        answers = processor.run(commands)
        model.check(commands, answers, controls.now)
        return answers

    run(one, Decide("one", ["a", "b", "c"]))
    controls.now += 10 * SECOND - 1
    assert told(run(two, observe("one", [("a", 0.1)]))[0]) == [("used", None)]
    controls.now += 1
    assert told(run(two, observe("one", [("b", 0.1), ("a", 0.1), ("b", 0.1), ("b", 0.9)]))[0]) == [
        ("skipped", None),
        ("repeated", "used"),
        ("repeated", "skipped"),
        ("conflict", None),
    ]
    state = read(one, "one").state
    assert (state.bandit.outstanding, state.defaults, sum(state.outcomes)) == (0, 2, 3)
    assert sum(state.losses) == pytest.approx(0.1 + 0.9 + 0.9)
    (record,) = ledger.experiments()
    assert plain(ledger.events(record.number)) == model.events
    assert len(model.events) == 3 + 1 + 2 + 1
    assert verify(ledger, record, (state.position, state.digest())).faults == []
    assert (
        state.to_bytes() == read(two, "one").state.to_bytes() == read(CommandProcessor(ledger), "one").state.to_bytes()
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fate", ["", UNSEEN])
def test_more_deadlines_than_are_looked_at_at_once_take_several_turns(
    ledger: SqlLedger, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 5)
    model, controls, processor = new(ledger, missing=Deadline(10.0, 0.9)), Controls(ledger), CommandProcessor(ledger)
    new(ledger, "other")
    first: list[Command] = [Decide("one", [f"d{k}" for k in range(23)])]
    model.check(first, processor.run(first), controls.now)
    controls.now += 11 * SECOND
    commands: list[Command] = [Decide("one", ["late"]), observe("one", [("d22", 0.5), ("d21", 0.9), ("late", 0.5)])]
    controls.next = fate
    *answers, elsewhere = processor.run([*commands, Decide("other", ["x"])])
    model.check(commands, answers, controls.now)
    assert told(answers[1]) == [("skipped", None), ("skipped", None), ("used", None)]
    assert [decision.round for decision in made(elsewhere)] == [1]
    record = ledger.find("one")
    assert record is not None
    assert plain(ledger.events(record.number)) == model.events
    assert [event.kind for event in model.events] == [1] * 23 + [3] * 5 + [1, 3, 2, 3, 2, 2]
    rest: list[Command] = [ApplyDeadlines("one")]
    for more in (True, True, True, False):
        answer = processor.run(rest)
        assert answer == [more]
        model.check(rest, answer, controls.now)
    assert plain(ledger.events(record.number)) == model.events
    assert sorted(event.round for event in model.events if event.kind == 3) == list(range(1, 24))


def test_dates_never_go_back_even_if_the_clock_does(ledger: SqlLedger) -> None:
    new(ledger)
    controls, processor = Controls(ledger), CommandProcessor(ledger)
    for seconds in (0, -5, 3, -50, 7):
        controls.now = START + seconds * SECOND
        processor.run([Decide("one", [None])])
    (record,) = ledger.experiments()
    assert [(event.at - START) // SECOND for event in ledger.events(record.number)] == [0, 0, 3, 3, 7]
    assert verify(ledger, record).faults == []


def test_a_paused_experiment_repeats_and_learns_but_decides_nothing_new(ledger: SqlLedger) -> None:
    new(ledger)
    processor, other = CommandProcessor(ledger), CommandProcessor(ledger)
    (first,) = processor.run([Decide("one", ["a", "b"])])
    answers = other.run(
        [
            Change("one", Status.PAUSED),
            Decide("one", ["a", "b"]),
            Decide("one", ["a", "new"]),
            observe("one", [("a", 0.5)]),
            Change("one", Status.PAUSED),
            Decide("nowhere", ["a"]),
        ]
    )
    assert answers[1] == first
    assert [answer.code for answer in answers if isinstance(answer, Refused)] == ["paused", "unknown_experiment"]
    assert told(answers[3]) == [("used", None)]
    (refused,) = processor.run([Decide("one", [None])])
    assert isinstance(refused, Refused)
    _, resumed = processor.run([Change("one", Status.ACTIVE), Decide("one", ["new"])])
    assert [decision.round for decision in made(resumed)] == [3]
    answers = other.run([Change("one", Status.ARCHIVED), Change("one", Status.ACTIVE), Decide("one", ["x"])])
    assert [answer.code for answer in answers if isinstance(answer, Refused)] == ["archived", "archived"]
    assert told(processor.run([observe("one", [("new", 0.5)])])[0]) == [("used", None)]
    assert [event.kind for event in ledger.events(1)] == [1, 1, 4, 2, 5, 1, 6, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_workers_that_work_at_once_end_in_the_same_state(ledger: SqlLedger) -> None:
    for name in ("one", "two"):
        new(ledger, name)
    processors = [CommandProcessor(ledger, 40) for _ in range(4)]
    answered: dict[tuple[str, str], set[tuple[int, str | int, float]]] = {}

    def work(processor: CommandProcessor, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(12):
            name = ("one", "two")[rng.integers(2)]
            ids = [f"id-{k}" for k in rng.integers(0, 60, 4)]
            decisions, receipts = processor.run([Decide(name, ids), observe(name, [(ids[0], float(rng.random()))])])
            assert told(receipts)[0][0] in ("used", "skipped", "conflict")
            for each in made(decisions):
                answered.setdefault((name, each.id), set()).add((each.round, each.arm, each.propensity))

    together([partial(work, processor, seed) for seed, processor in enumerate(processors)])
    assert {len(answers) for answers in answered.values()} == {1}
    for record in ledger.experiments():
        name = record.settings.name
        states = [read(processor, name).state for processor in [*processors, CommandProcessor(ledger)]]
        assert len({state.to_bytes() for state in states}) == 1
        verdict = verify(ledger, record, (states[0].position, states[0].digest()))
        assert (verdict.faults, verdict.propensity_error) == ([], 0.0)
        assert verdict.rounds == sum(each == name for each, _ in answered)
