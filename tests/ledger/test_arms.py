"""Arms come and go, and shares are limited, by events of the ledger: replayed exactly, by whoever reads them."""

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from belated import learners
from belated.api.types import ArmLimit, ShareLimits
from belated.ledger import open_ledger
from belated.ledger.changing import AddArm, MoveArm, ReportFallbacks, SetLimits
from belated.ledger.commands import ApplyDeadlines, Change, Command, Decide, KeepSnapshot, Refused, View
from belated.ledger.events import Event, Fate, Kind, Status
from belated.ledger.export import pieces
from belated.ledger.migrations import MIGRATIONS
from belated.ledger.observing import Report
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.sqlite import SqliteLedger
from belated.ledger.verify import verify
from belated.live.limits import Limits
from support.histories import belated, contents
from support.ledger_helpers import observe
from support.played import DEADLINE, NAME, Played, begun, fresh, playing
from support.protocol_model import Controls, read
from support.serving import KINDS

DATA = Path(__file__).parents[1] / "data"
CHANGES = (Kind.ADD_ARM, Kind.RETIRE_ARM, Kind.RESTORE_ARM)
NO_DELAYS = [each.name for each in learners.catalogue.values() if "delay" not in each.needs]


def add(arm: str | int) -> AddArm:
    return AddArm(NAME, arm)


def retire(arm: str) -> MoveArm:
    return MoveArm(NAME, arm, True)


def restore(arm: str) -> MoveArm:
    return MoveArm(NAME, arm, False)


def limit(*arms: ArmLimit, holdout: float = 0.0) -> SetLimits:
    return SetLimits(NAME, ShareLimits(list(arms), holdout))


def live(played: Played, changes: dict[int, list[Command]], turns: int = 30, seed: int = 3) -> None:
    """Decide and observe, late and out of order, with changes, snapshots and new workers in between."""
    rng = random.Random(seed)
    waiting: list[str] = []
    for turn in range(turns):
        played.done(*changes.get(turn, []))
        ids = [f"{turn}-{n}" for n in range(4)]
        played.decide(*ids)
        waiting += ids
        rng.shuffle(waiting)
        come, waiting = waiting[:3], waiting[3:]
        played.run(observe(NAME, [(id, rng.choice([0.0, 0.25, 1.0])) for id in come]))
        if turn % 10 == 4:
            played.run(KeepSnapshot(NAME))
        if turn % 10 == 7:
            played.worker = played.another()


BUSY: dict[int, list[Command]] = {
    3: [add("d")],
    8: [retire("a")],
    9: [limit(ArmLimit("b", 0.1), ArmLimit("d", ceiling=0.4), holdout=0.1)],
    14: [add("e"), retire("c")],
    20: [restore("a")],
    25: [limit()],
    27: [ReportFallbacks(NAME, "f1", "b", 4)],
}


def shares(played: Played) -> dict[str | int, float]:
    """The shares that the last decision was drawn with."""
    state = played.state
    return dict(zip(state.labels, state.bandit.distribution.tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_arms_come_go_and_come_back(ledger: SqlLedger) -> None:
    played = begun(ledger, learner="guarded")
    live(played, BUSY)
    state = played.state
    assert state.labels == ["a", "b", "c", "d", "e"]
    assert [state.bandit.roster.has(arm) for arm in range(5)] == [True, True, False, True, True]
    assert state.bandit.roster.entered[:2] == (80, 0)
    assert state.bandit.roster.entered[3:] == (12, 56)
    assert (state.limits, state.fallbacks, state.playing) == (None, 4, 4)
    decided = {arm: [e.round for e in played.of(Kind.DECISION) if e.arm == arm] for arm in range(5)}
    assert min(decided[3]) > 12
    assert min(decided[4]) > 56
    assert max(decided[2]) <= 56
    assert not any(32 < round <= 80 for round in decided[0])
    assert [(e.kind, e.round, e.arm) for e in played.of(*CHANGES)] == [
        (Kind.ADD_ARM, 12, 3),
        (Kind.RETIRE_ARM, 32, 0),
        (Kind.ADD_ARM, 56, 4),
        (Kind.RETIRE_ARM, 56, 2),
        (Kind.RESTORE_ARM, 80, 0),
    ]
    assert [json.loads(e.detail) for e in played.of(Kind.ADD_ARM)] == ["d", "e"]
    assert all(within(played.events))
    (outline,) = ledger.outlines()
    assert outline.arms == 4
    played.check()


def within(events: list[Event]) -> Iterator[bool]:
    """Whether each propensity between the two events of limits is within them."""
    limited = False
    for event in events:
        if event.kind == Kind.LIMITS:
            limited = not limited
        if event.kind == Kind.DECISION and limited:
            low, high = {1: (0.1, 1.0), 3: (0.0, 0.4)}.get(event.arm, (0.0, 1.0))
            yield max(low, 0.1 / 5) - 1e-12 <= event.propensity <= high + 1e-12


def test_outcomes_of_an_arm_that_left_are_kept_and_not_learned_from(ledger: SqlLedger) -> None:
    played = begun(ledger, learner="exp3", deadline=DEADLINE)
    made = played.decide(*[f"d{k}" for k in range(30)])
    gone = [each.id for each in made if each.arm == "a"]
    others = [each.id for each in made if each.arm != "a"]
    assert len(gone) > 3
    played.done(retire("a"))
    estimates = played.state.bandit.loss_estimates[1:].tolist()
    assert played.report(*[Report(id, 1.0) for id in gone[:2]]) == [("skipped", None)] * 2
    assert played.report(Report(gone[0], 1.0), Report(gone[0], 0.5)) == [("repeated", "skipped"), ("conflict", None)]
    assert played.state.bandit.loss_estimates[1:].tolist() == estimates
    state = played.state
    assert (state.outcomes[0], state.losses[0], state.fates[Fate.SKIPPED]) == (2, 2.0, 2)
    assert state.bandit.outstanding == 28
    # back again: what was decided before is still of another arm
    played.done(restore("a"))
    assert played.report(Report(gone[2], 1.0), Report(others[0], 1.0)) == [("skipped", None), ("used", None)]
    (new,) = [each for each in played.decide(*[f"e{k}" for k in range(20)]) if each.arm == "a"][:1]
    assert played.report(Report(new.id, 1.0)) == [("used", None)]
    played.wait(10)  # the default of a decision for an arm that left is not learned from either
    played.run(ApplyDeadlines(NAME))
    defaults = {event.id: event.fate for event in played.of(Kind.DEFAULT)}
    assert defaults[gone[3]] == Fate.SKIPPED
    assert defaults[others[1]] == Fate.USED
    assert played.state.bandit.outstanding == 0
    played.check()


REFUSED: list[tuple[Command, str, str, list[str]]] = [
    (add("b"), "retired", "arm", ["'b'"]),
    (retire("nobody"), "unknown_arm", "arm", ["'nobody'"]),
    (restore("nobody"), "unknown_arm", "arm", ["'nobody'"]),
    (ReportFallbacks(NAME, "f", "nobody", 1), "unknown_arm", "arm", ["'nobody'"]),
    (limit(ArmLimit("a", 0.6), ArmLimit("c", 0.6)), "invalid", "arms", ["1.2"]),
    (limit(*(ArmLimit(arm, ceiling=0.3) for arm in "acd")), "invalid", "arms", ["0.9"]),
    (limit(ArmLimit("c", ceiling=0.2), holdout=0.9), "invalid", "arms", ["'c'", "0.2", "0.3"]),
    (limit(ArmLimit("c", 0.5, 0.4)), "invalid", "arms", ["'c'", "0.5", "0.4"]),
    (limit(ArmLimit("nobody", 0.5)), "invalid", "arms", ["'nobody'"]),
    (limit(ArmLimit("c", 0.1), ArmLimit("c", 0.2)), "invalid", "arms", []),
    (limit(ArmLimit("c", 0.1, None, 0.2)), "invalid", "arms", []),
    (add("e"), "invalid", "arm", ["4"]),
]


def test_changes_that_cannot_be_made_change_nothing(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment has had as many arms as there may be; those that left count, too."""
    monkeypatch.setattr("belated.live.roster.MOST_ARMS", 4)
    played = begun(ledger)
    played.done(add("d"), retire("b"), limit(ArmLimit("c", 0.05)))
    played.decide("x")
    for command, code, field, values in REFUSED:
        refused = played.refused(command)
        assert (refused.code, refused.field) == (code, field), command
        assert [value for value in values if value not in refused.message] == [], command


def test_doing_it_twice_does_it_once(ledger: SqlLedger) -> None:
    played = begun(ledger)
    limits = limit(ArmLimit("a", 0.2))
    for attempt in range(2):
        played.done(add("d"), add("d"), retire("b"), retire("b"), limits, limits, restore("a"))
        told = played.run(ReportFallbacks(NAME, "f", "a", 7), ReportFallbacks(NAME, "f", "c", 9))
        assert told == [attempt == 0, False]
        played.worker = played.another()
    assert [event.kind for event in played.events] == [Kind.ADD_ARM, Kind.RETIRE_ARM, Kind.LIMITS, Kind.FALLBACKS]
    assert played.state.fallbacks == 7


def test_a_learner_that_cannot_change_its_arms_refuses(ledger: SqlLedger) -> None:
    played = begun(ledger, learner="bold")
    for command in (add("d"), retire("a")):
        refused = played.refused(command)
        assert (refused.code, refused.field) == ("invalid", "arm")
        assert "'bold'" in refused.message
    played.done(limit(ArmLimit("a", 0.2, 0.5)))  # which is another thing


def test_uniform_play_is_asked_for_once(ledger: SqlLedger) -> None:
    played = begun(ledger, share_floor=0.2)
    refused = played.refused(limit(holdout=0.3))
    assert (refused.code, refused.field) == ("invalid", "holdout")
    played.done(limit(ArmLimit("a", ceiling=0.5)))
    played.done(add("d"), add("e"))  # 5 arms with 0.2 each
    refused = played.refused(add("f"))
    assert refused.field == "arm"
    played.decide(*"xyz")
    assert [event.propensity for event in played.of(Kind.DECISION)] == [pytest.approx(0.2)] * 3
    played.check()


def test_a_change_that_fails_changes_nothing_and_the_rest_of_the_batch_is_done(ledger: SqlLedger) -> None:
    played = begun(ledger)
    played.done(limit(ArmLimit("a", ceiling=0.4), ArmLimit("b", ceiling=0.4)))
    answers = played.run(
        Decide(NAME, ["x"]),
        retire("c"),  # the ceilings of the others would sum to 0.8
        Decide(NAME, ["y"]),
        retire("a"),
        retire("b"),  # one alone is too few
        add("d"),
        retire("b"),
        observe(NAME, [("x", 0.5)]),
        Decide(NAME, ["z"]),
    )
    assert [k for k, each in enumerate(answers) if isinstance(each, Refused)] == [1, 4]
    assert [Kind(event.kind).name for event in played.events[1:]] == [
        "DECISION",
        "DECISION",
        "RETIRE_ARM",
        "ADD_ARM",
        "RETIRE_ARM",
        "OUTCOME",
        "DECISION",
    ]
    assert played.state.bandit.roster.present == (2, 3)
    played.check()


def test_archived_experiments_refuse_and_paused_ones_do_not(ledger: SqlLedger) -> None:
    played = begun(ledger)
    played.done(
        Change(NAME, Status.PAUSED), add("d"), retire("a"), limit(holdout=0.2), ReportFallbacks(NAME, "f", "b", 1)
    )
    played.done(Change(NAME, Status.ARCHIVED))
    for command in (add("e"), retire("b"), restore("a"), limit(), ReportFallbacks(NAME, "g", "b", 1), add("d")):
        assert played.refused(command).code == "archived"
    played.check()


ODD: list[str | int] = [7, -3, "a/b", "50%", "ünïcode ☃", " ", "x" * 200, '"quoted"\n', "..", "añb"]


def test_labels_may_be_numbers_and_any_text(ledger: SqlLedger) -> None:
    played = begun(ledger, arms=[1, "two"])
    for label in ODD:
        played.done(add(label))
    assert played.state.labels == [1, "two", *ODD]
    for label in [1, *ODD]:
        played.done(retire(str(label)), restore(str(label)))
    moved = [event.arm for event in played.of(Kind.RETIRE_ARM)]
    assert moved == [0, *range(2, 2 + len(ODD))]
    for label in ("1", "7", "-3"):  # a text that reads like a number that there is
        refused = played.refused(add(label))
        assert (refused.code, refused.field) == ("invalid", "arm")
    played.done(add("8"))
    assert played.refused(add(8)).code == "invalid"
    exported = [json.loads(line) for line in b"".join(pieces(ledger, played.record, "ndjson")).splitlines()]
    assert [line["arm"] for line in exported if line["kind"] == "add_arm"] == [*ODD, "8"]
    played.check()


def test_a_label_is_preferred_to_a_number_that_reads_like_it(ledger: SqlLedger) -> None:
    """Such labels can only be there from the beginning."""
    played = begun(ledger, arms=[7, "7", "other"])
    played.done(retire("7"))
    assert [event.arm for event in played.of(Kind.RETIRE_ARM)] == [1]


def test_workers_see_each_other_s_changes(ledger: SqlLedger) -> None:
    played = begun(ledger)
    other = played.another()
    read(other, NAME)
    played.done(add("d"), retire("a"), limit(ArmLimit("d", 0.4)))
    (answer,) = other.run([add("d")])
    assert isinstance(answer, View)
    assert answer.state.labels[-1] == "d"
    (decisions,) = other.run([Decide(NAME, [f"x{k}" for k in range(40)])])
    assert isinstance(decisions, list)
    drawn = {each.arm for each in decisions}  # type: ignore[union-attr]
    assert drawn == {"b", "c", "d"}
    other.run([restore("a")])
    assert played.decide(*[f"y{k}" for k in range(5)])
    assert played.state.bandit.roster.has(0)
    (outline,) = ledger.outlines()
    assert outline.arms == 4
    assert read(other, NAME).state.to_bytes() == played.state.to_bytes()
    played.check()


@pytest.mark.parametrize(
    ("command", "tampering", "at"),
    [
        (add("d"), "arm = 4", 5),
        (add("d"), "arm = 1", 5),
        (add("d"), "kind = 10", 5),
        (add("d"), "round = 3", 5),
        (add("d"), "detail = 'd'", 5),
        (retire("a"), "kind = 11", 5),
        (retire("a"), "arm = 1", None),
        (retire("a"), "arm = 9", 5),
        (limit(ArmLimit("a", 0.5)), "detail = '{}'", None),
        (limit(ArmLimit("a", 0.5)), 'detail = \'{"arms":[{"arm":"x"}]}\'', 5),
        (limit(ArmLimit("a", 0.5)), "detail = 'x'", 5),
        (ReportFallbacks(NAME, "f", "a", 3), "detail = '4'", None),
        (add("d"), "detail = '\"e\"'", None),
    ],
)
def test_events_that_were_tampered_with_are_found(
    tmp_path: Path, command: Command, tampering: str, at: int | None
) -> None:
    """At the event itself, or where its consequences are seen: in a decision, or at the end."""
    with playing(f"sqlite:///{tmp_path / 'ledger.db'}", learner="exp3") as played:
        played.decide("x0", "x1", "x2", "x3")
        played.done(command)
        played.decide(*[f"y{k}" for k in range(20)])
        now = played.state.position, played.state.digest()
        played.write(f"UPDATE events SET {tampering} WHERE number = 5")
        faults = verify(played.ledger, played.record, now).faults
        assert faults
        assert at is None or faults[0].startswith(f"event {at}"), faults


def test_a_ledger_whose_changes_make_no_sense_is_damaged_and_no_other(tmp_path: Path) -> None:
    with playing(f"sqlite:///{tmp_path / 'ledger.db'}") as played:
        played.done(add("d"))
        played.write("UPDATE events SET arm = 7 WHERE number = 1")
        played.worker = played.another()
        (answer,) = played.run(Decide(NAME, ["x"]))
        assert isinstance(answer, Refused)
        assert answer.code == "damaged"


def test_a_copy_goes_on_as_the_original_does(tmp_path: Path) -> None:
    source, target = fresh("sqlite", tmp_path, "source"), fresh("postgresql", tmp_path, "target")
    with playing(source) as played:
        live(played, BUSY, 28)
        assert belated("ledger", "copy", "--from", source, "--to", target) == 0
        assert contents(target) == contents(source)
        answers: list[object] = []
        with closing(open_ledger(target)) as other:
            assert isinstance(other, SqlLedger)
            Controls(other)
            for worker in (CommandProcessor(other), played.worker):
                worker.run([restore("c"), limit(ArmLimit("c", 0.2))])
                answers.append(worker.run([Decide(NAME, [f"new-{k}" for k in range(30)])]))
                answers.append(read(worker, NAME).state.to_bytes())
        assert answers[:2] == answers[2:]


def test_exports_name_arms_and_changes(ledger: SqlLedger) -> None:
    played = begun(ledger)
    played.done(add("d"), retire("a"), limit(ArmLimit("d", 0.5), holdout=0.1), ReportFallbacks(NAME, "f", "d", 12))
    played.decide(*[f"x{k}" for k in range(10)])
    lines = [json.loads(line) for line in b"".join(pieces(ledger, played.record, "ndjson")).splitlines()]
    shown = [(line["kind"], line["arm"], line["round"], line["decision"], line["detail"]) for line in lines[:4]]
    assert shown == [
        ("add_arm", "d", 0, None, None),
        ("retire_arm", "a", 0, None, None),
        ("limits", None, 0, None, '{"arms":[{"arm":"d","floor":0.5}],"holdout":0.1}'),
        ("fallbacks", "d", 0, "f", "12"),
    ]
    assert "d" in {line["arm"] for line in lines[4:]}
    after = [json.loads(line) for line in b"".join(pieces(ledger, played.record, "ndjson", 6)).splitlines()]
    assert after == lines[6:]  # labels are known, though the events that made them are not read


def test_events_say_who_asked(ledger: SqlLedger) -> None:
    played = begun(ledger)
    limits = ShareLimits(holdout=0.1)
    played.done(AddArm(NAME, "d", key=4), MoveArm(NAME, "a", True, key=4), SetLimits(NAME, limits, key=4))
    played.done(ReportFallbacks(NAME, "f", "d", 1, key=4))
    assert [event.key for event in played.events] == [4, 4, 4, 4]
    played.check()


def test_limits_of_the_beginning_count_from_the_first_decision(ledger: SqlLedger) -> None:
    limits = ShareLimits([ArmLimit("a", share=0.5)])
    played = begun(ledger, limits=limits)
    assert played.state.limits == limits
    played.done(SetLimits(NAME, limits))
    assert played.events == []
    played.decide("x")
    assert shares(played) == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.25})
    played.done(limit())
    played.decide("y")
    assert shares(played)["a"] == pytest.approx(1 / 3, abs=0.05)
    played.check()


def test_limits_of_an_arm_that_left_wait_for_it(ledger: SqlLedger) -> None:
    played = begun(ledger)
    played.done(limit(ArmLimit("a", share=0.6)), retire("a"))
    played.decide("x")
    assert shares(played)["a"] == 0.0
    played.done(restore("a"))
    played.decide("y")
    assert shares(played)["a"] == pytest.approx(0.6)
    assert played.state.bandit.limits == Limits({0: 0.6})
    played.check()


def test_an_old_ledger_takes_the_new_commands(tmp_path: Path) -> None:
    """One of version 1: its experiments go on with other arms and limits."""
    name = "prices"
    file = Path(shutil.copy(DATA / "ledger-v1.sqlite", tmp_path / "ledger.db"))
    with closing(open_ledger(f"sqlite:///{file}")) as ledger:
        assert isinstance(ledger, SqliteLedger)
        assert ledger.newest_migration() == MIGRATIONS[-1].number >= 7
        record = ledger.find(name)
        assert record is not None
        worker = CommandProcessor(ledger)
        Controls(ledger).now = read(worker, name).state.at
        arm = str(record.settings.arms[0])
        first = ShareLimits([ArmLimit("brand new", 0.3)])
        commands = [Change(name, Status.ACTIVE), AddArm(name, "brand new"), SetLimits(name, first)]
        assert all(isinstance(answer, View) for answer in worker.run([*commands, MoveArm(name, arm, True)]))
        (decisions,) = worker.run([Decide(name, [f"new-{k}" for k in range(60)])])
        assert isinstance(decisions, list)
        drawn = {each.arm for each in decisions}  # type: ignore[union-attr]
        assert "brand new" in drawn
        assert arm not in {str(each) for each in drawn}
        worker.run([KeepSnapshot(name)])
        (now,) = [each for each in ledger.experiments() if each.settings.name == name]
        assert verify(ledger, now, tolerance=1e-9).faults == []  # other processors differ in the last bits
        assert read(CommandProcessor(ledger), name).state.digest() == read(worker, name).state.digest()
        outlines = {each.name: each.arms for each in ledger.outlines()}
        assert outlines[name] == len(record.settings.arms)
        assert all(arms >= 2 for arms in outlines.values())
