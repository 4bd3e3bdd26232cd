"""Workers on one ledger against a model of the protocol, whatever comes in whatever order, lost commits included."""

import random
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from belated.api.types import ArmLimit, Deadline, OutcomeScale, Reports, ShareLimits
from belated.ledger.base import LedgerUnavailable
from belated.ledger.changing import AddArm, MoveArm, ReportFallbacks, SetLimits
from belated.ledger.commands import Answer, ApplyDeadlines, Change, Command, Decide, KeepSnapshot, Read
from belated.ledger.events import SECOND, ExperimentRecord, ExperimentSettings, Kind, Status
from belated.ledger.observing import Observe, Report
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from support.model import Model
from support.protocol_model import (
    ARMS,
    IDS,
    LEARNERS,
    LOST,
    START,
    UNSEEN,
    UNSEEN_LOST,
    Controls,
    learned_the_same,
    plain,
    read,
)

WORKERS = {"keeps snapshots": 7, "keeps none": 1_000_000, "keeps some": 23}
IDENTIFIED = st.lists(st.none() | st.sampled_from(IDS), min_size=1, max_size=8)
LOSSES = [0.0, 0.3, 1.0]
VALUES = [-40.0, 0.0, 30.0, 75.5, 230.0]
"""Of outcomes from 0 to 200."""
REPORT_IDS = ["r1", "r2", "r3"]


class Wish(NamedTuple):
    """What somebody reports of a decision, where it may be reported so."""

    who: int | str
    loss: float
    value: float
    id: str | None = None
    final: bool | None = None
    is_odd: bool = False
    """Whether it says more, or less, than it should."""


OUTCOME = st.builds(
    Wish,
    st.integers(0, 40) | st.sampled_from(IDS),
    st.sampled_from(LOSSES),
    st.sampled_from(VALUES),
    st.none() | st.sampled_from(REPORT_IDS),
    st.sampled_from([None, None, None, False, True]),
    st.sampled_from([False, False, False, False, True]),
)
OUTCOMES = st.lists(OUTCOME, min_size=1, max_size=8)
LABELS: list[str | int] = ["new", 7, "7", "blue", "ärm/ü 1"]
LIMITS = [
    ShareLimits(),
    ShareLimits(holdout=0.3),
    ShareLimits([ArmLimit("blue", share=0.25)]),
    ShareLimits([ArmLimit("red", 0.1, 0.4), ArmLimit(2, ceiling=0.5)], 0.1),
    ShareLimits([ArmLimit("blue", 0.1), ArmLimit("new", 0.3)]),
    ShareLimits([ArmLimit("blue", ceiling=0.4), ArmLimit("red", ceiling=0.4)]),
    ShareLimits([ArmLimit("blue", 0.8), ArmLimit("red", 0.3)]),
    ShareLimits([ArmLimit("nobody", 0.1)]),
]
CHANGES = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(LABELS)),
    st.tuples(st.just("retire"), st.sampled_from([*map(str, ARMS), "new", "7", "nobody"])),
    st.tuples(st.just("restore"), st.sampled_from([*map(str, ARMS), "new", "7"])),
    st.tuples(st.just("limit"), st.sampled_from(LIMITS)),
    st.tuples(st.just("fall back"), st.tuples(st.sampled_from(REPORT_IDS), st.sampled_from(["blue", 2, "nobody"]))),
)
WISHES = st.one_of(
    CHANGES,
    st.tuples(st.just("decide"), IDENTIFIED),
    st.tuples(st.just("observe"), OUTCOMES),
    st.tuples(st.just("change"), st.sampled_from([Status.ACTIVE, Status.PAUSED, Status.ACTIVE])),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("settle"), st.booleans()),
)
SEED = st.integers(0, 1_000_000)
WORKER = st.sampled_from(sorted(WORKERS))
MISSING: dict[str, Literal["wait"] | Deadline] = {
    "waits": "wait",
    "defaults": Deadline(10.0, 0.9),
    "holds": Deadline(10.0, 0.9, "deadline"),
}
REPORTED = "reports"
"""The experiment in which several reports of a decision count."""
WHICH = st.integers(0, len(MISSING))
LEARNER = st.sampled_from(sorted(LEARNERS))
UNITS = {
    "none": None,
    "clips": OutcomeScale(0.0, 200.0),
    "refuses": OutcomeScale(0.0, 200.0, "lower", "refuse"),
}
RULES: list[Reports] = ["last", "sum", "largest"]


class Kinds(NamedTuple):
    """What experiments are like."""

    learners: tuple[str, str, str, str]
    units: tuple[str, str]
    """Of those in which the first report stays, and of the other."""
    rule: Reports
    deadline: str
    """Of the experiment in which several reports count."""


KINDS_OF = st.builds(
    Kinds,
    st.tuples(LEARNER, LEARNER, LEARNER, LEARNER),
    st.tuples(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS))),
    st.sampled_from(RULES),
    st.sampled_from(["waits", "defaults"]),
)


class Workers(RuleBasedStateMachine):
    """Three workers and four experiments: without a deadline, with one, with outcomes that are held until it, and with
    several reports of a decision.
    """

    numbers = count()

    def __init__(self, ledger: SqlLedger, controls: Controls) -> None:
        super().__init__()
        self.ledger = ledger
        self.controls = controls
        self.processors = {name: CommandProcessor(ledger, every) for name, every in WORKERS.items()}
        self.records: dict[str, ExperimentRecord] = {}
        self.models: dict[str, Model] = {}
        self.verified: dict[str, int] = {}
        """Events that were there when an experiment was last read from the beginning."""

    @initialize(kinds=KINDS_OF, seeds=st.tuples(SEED, SEED, SEED, SEED))
    def begin(self, kinds: Kinds, seeds: tuple[int, ...]) -> None:
        self.controls.now = START
        missing = {**MISSING, REPORTED: MISSING[kinds.deadline]}
        for word, learner in zip(missing, kinds.learners, strict=True):
            name = f"{word}-{next(self.numbers)}"
            floor = 0.1 if word == "defaults" else None
            units = UNITS[kinds.units[word == REPORTED]]
            rule: Reports = kinds.rule if word == REPORTED else "first"
            limits = LIMITS[3] if word == "waits" else None
            wanted = ExperimentSettings(
                name, ARMS, learner, LEARNERS[learner], 5, missing[word], floor, units, rule, limits
            )
            self.records[name], _ = self.ledger.create(wanted, START, 1_000_000)
            self.models[name] = Model(wanted)
        for which, seed in enumerate(seeds):
            self.be_busy("keeps none", which, seed)

    @rule(worker=WORKER, which=WHICH, seed=SEED)
    def be_busy(self, worker: str, which: int, seed: int) -> None:
        """Much of what usually happens: without it examples would stay small."""
        rng = random.Random(seed)
        for _ in range(rng.randrange(1, 5)):
            decisions = [None] * rng.randrange(1, 7)
            outcomes = [
                Wish(rng.randrange(8), rng.choice(LOSSES), rng.choice(VALUES[1:4]), rng.choice(REPORT_IDS))
                for _ in range(rng.randrange(6))
            ]
            wishes: list[tuple[int, tuple[str, Any]]] = [(which, ("decide", decisions)), (which, ("observe", outcomes))]
            if rng.random() < 0.6:
                wishes.insert(rng.randrange(3), (which, self._usual(which, rng)))
            self.ask(worker, [each for each in wishes if each[1][1]], "")
            if rng.random() < 0.3:
                self.look(rng.choice(sorted(WORKERS)))
        if rng.random() < 0.5:
            self.agree()

    def _usual(self, which: int, rng: random.Random) -> tuple[str, Any]:
        """A change that is probably possible: arms that are there go, others come back."""
        model = list(self.models.values())[which]
        what = rng.randrange(5)
        if what == 0:
            return "limit", rng.choice(LIMITS[:4])
        if what == 1 and len(model.labels) < 5:
            return "add", rng.choice(LABELS)
        arm = rng.randrange(len(model.labels))
        return ("retire" if arm in model.bandit.playing else "restore"), str(model.labels[arm])

    @rule(worker=WORKER, which=WHICH, ids=IDENTIFIED)
    def decide(self, worker: str, which: int, ids: list[str | None]) -> None:
        self.ask(worker, [(which, ("decide", ids))], "")

    @rule(worker=WORKER, which=WHICH, changes=st.lists(CHANGES, min_size=1, max_size=3), ids=IDENTIFIED)
    def change(self, worker: str, which: int, changes: list[tuple[str, Any]], ids: list[str | None]) -> None:
        self.ask(worker, [*((which, each) for each in changes), (which, ("decide", ids))], "")

    @rule(worker=WORKER, which=WHICH, outcomes=OUTCOMES)
    def observe(self, worker: str, which: int, outcomes: list[Any]) -> None:
        self.ask(worker, [(which, ("observe", outcomes))], "")

    @rule(
        worker=WORKER,
        wishes=st.lists(st.tuples(WHICH, WISHES), min_size=1, max_size=5),
        fate=st.sampled_from(["", LOST, UNSEEN, UNSEEN_LOST]),
    )
    def ask(self, worker: str, wishes: list[tuple[int, tuple[str, Any]]], fate: str) -> None:
        names = list(self.models)
        commands = [self._command(names[which], *wish) for which, wish in wishes]
        self.controls.next = fate
        try:
            answers = self.processors[worker].run(commands)
        except LedgerUnavailable:
            assert fate in (LOST, UNSEEN_LOST)
            return
        assert fate != LOST
        for name, model in self.models.items():
            mine = [k for k, command in enumerate(commands) if command.name == name]
            if mine:
                model.check([commands[k] for k in mine], [answers[k] for k in mine], self.controls.now)

    def _command(self, name: str, word: str, wish: Any) -> Command:
        if word == "decide":
            return Decide(name, wish)
        if word == "observe":
            return Observe(name, [self._report(name, each) for each in wish])
        if word == "add":
            return AddArm(name, wish)
        if word in ("retire", "restore"):
            return MoveArm(name, wish, word == "retire")
        if word == "limit":
            return SetLimits(name, wish)
        if word == "fall back":
            id, arm = wish
            return ReportFallbacks(name, id, arm, 3)
        if word == "change":
            return Change(name, wish)
        if word == "read":
            return Read(name)
        return KeepSnapshot(name) if wish else ApplyDeadlines(name)

    def _report(self, name: str, wish: Wish) -> Report:
        model = self.models[name]
        made = ["nobody", *model.made]
        id = made[-1 - wish.who % len(made)] if isinstance(wish.who, int) else wish.who
        in_units = (model.settings.outcome is not None) != wish.is_odd
        final = wish.final if model.settings.reports != "first" or wish.is_odd else None
        if final and wish.is_odd:
            return Report(id, None, None, wish.id, final)  # that is all
        loss, value = (None, wish.value) if in_units else (wish.loss, None)
        return Report(id, loss, value, wish.id, final)

    @rule(seconds=st.sampled_from([0.0, 0.000001, 3.0, 5.0, 9.999999, 10.0]))
    def wait(self, seconds: float) -> None:
        self.controls.now += int(seconds * SECOND)

    @rule(worker=WORKER)
    def restart(self, worker: str) -> None:
        self.processors[worker] = CommandProcessor(self.ledger, WORKERS[worker])

    @precondition(lambda self: all(len(model.events) > 40 for model in self.models.values()))
    @rule(which=WHICH)
    def archive(self, which: int) -> None:
        self.ask("keeps none", [(which, ("change", Status.ARCHIVED))], "")

    @rule(worker=WORKER)
    def look(self, worker: str) -> None:
        """To look at a state must not change it: not everybody looks each time."""
        for name, model in self.models.items():
            view = read(self.processors[worker], name)
            model.check([Read(name)], [view], self.controls.now)
            assert view.status == model.status
            assert view.state.position == len(model.events)
            view.state.to_bytes()

    @rule()
    def agree(self) -> None:
        """All workers have the same state, bit for bit: that of the model, and that of whoever reads it all."""
        for name, model in self.models.items():
            more: list[Answer] = [True]
            while more == [True]:  # deadlines that passed: nobody settles more of them later
                more = self.processors["keeps some"].run([ApplyDeadlines(name)])
                model.check([], [], self.controls.now)
            states = set()
            for processor in self.processors.values():
                state = read(processor, name).state
                model.check([], [], self.controls.now)
                assert learned_the_same(state.bandit, model.bandit)
                counts = state.labels, state.limits, state.clipped, state.fallbacks, state.late_reports
                expected = model.labels, model.limits, model.clipped, model.fallbacks, model.late_reports
                assert counts == expected
                states.add(state.to_bytes())
                live = state.position, state.digest()
            assert len(states) == 1
            verdict = verify(self.ledger, self.records[name], live)
            assert (verdict.faults, verdict.events) == ([], len(model.events))

    @invariant()
    def the_ledger_holds_what_must_be(self) -> None:
        for name, model in self.models.items():
            record = self.records[name]
            assert plain(self.ledger.events(record.number)) == model.events
            assert self.ledger.find(name) == record._replace(
                status=model.status, events=len(model.events), rounds=len(model.made)
            )
            (outline,) = self.ledger.outlines(record.number - 1, 1)
            assert (outline.name, outline.arms) == (name, len(model.bandit.playing))
            assert [made.answer.round for made in model.made.values()] == list(range(1, len(model.made) + 1))
            if self.verified.get(name) != len(model.events):
                self.verified[name] = len(model.events)
                verdict = verify(self.ledger, record)
                assert (verdict.faults, verdict.events, verdict.rounds) == ([], len(model.events), len(model.made))

    def teardown(self) -> None:
        if self.models:
            self.agree()


def play(ledger: SqlLedger, examples: int) -> dict[str, set[int]]:
    """Run so many examples; the kinds of events that were met, for each kind of experiment."""
    controls = Controls(ledger)
    wanted = settings(
        max_examples=examples,
        stateful_step_count=30,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # add Phase.shrink to see the shortest way to a failure: it takes minutes
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(partial(Workers, ledger, controls), settings=wanted)  # type: ignore[arg-type]
    met: dict[str, set[int]] = {}
    for record in ledger.experiments():
        found = {event.kind for event in ledger.events(record.number)}
        met.setdefault(record.settings.name.partition("-")[0], set()).update(found)
    return met


@pytest.fixture(autouse=True)
def few_deadlines_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 6)


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 8), ("postgresql", 1)])
def test_workers_do_what_the_model_does(ledger: SqlLedger, examples: int) -> None:
    play(ledger, examples)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 60), ("postgresql", 12)])
def test_workers_do_what_the_model_does_whatever_happens(ledger: SqlLedger, examples: int) -> None:
    met = play(ledger, examples)
    assert any(ledger.snapshots(record.number) for record in ledger.experiments())
    changes = {Kind.ADD_ARM, Kind.RETIRE_ARM, Kind.RESTORE_ARM, Kind.LIMITS, Kind.FALLBACKS}
    assert {Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED} | changes < met["holds"]
    assert {Kind.REPORT, Kind.DEFAULT, Kind.SETTLED} | changes < met[REPORTED]
    assert {Kind.OUTCOME} | changes < met["waits"]
