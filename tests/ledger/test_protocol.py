"""Workers on one ledger against a model of the protocol, whatever comes in whatever order, lost commits included."""

import random
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

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

from belated.api.types import Deadline
from belated.ledger import open_ledger
from belated.ledger.base import LedgerUnavailable
from belated.ledger.commands import Answer, ApplyDeadlines, Change, Command, Decide, KeepSnapshot, Read
from belated.ledger.events import SECOND, ExperimentRecord, ExperimentSettings, Kind, Status
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.verify import verify
from support.ledger_helpers import observe
from support.protocol_model import (
    ARMS,
    IDS,
    LEARNERS,
    LOST,
    START,
    UNSEEN,
    UNSEEN_LOST,
    Controls,
    Model,
    learned_the_same,
    plain,
    read,
)
from support.serving import KINDS, Stores

WORKERS = {"keeps snapshots": 7, "keeps none": 1_000_000, "keeps some": 23}
IDENTIFIED = st.lists(st.none() | st.sampled_from(IDS), min_size=1, max_size=8)
OUTCOMES = st.lists(
    st.tuples(st.integers(0, 40) | st.sampled_from(IDS), st.sampled_from([0.0, 0.3, 1.0])), min_size=1, max_size=8
)
WISHES = st.one_of(
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
WHICH = st.integers(0, len(MISSING) - 1)
LEARNER = st.sampled_from(sorted(LEARNERS))


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlLedger]:
    with closing(open_ledger(Stores.fresh(request.param, tmp_path))) as ledger:
        assert isinstance(ledger, SqlLedger)
        yield ledger


class Workers(RuleBasedStateMachine):
    """Three workers and three experiments: without a deadline, with one, and with outcomes that are held until it."""

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

    @initialize(learners=st.tuples(LEARNER, LEARNER, LEARNER), seeds=st.tuples(SEED, SEED, SEED))
    def begin(self, learners: tuple[str, ...], seeds: tuple[int, ...]) -> None:
        self.controls.now = START
        for word, learner in zip(MISSING, learners, strict=True):
            name = f"{word}-{next(self.numbers)}"
            floor = 0.1 if word == "defaults" else None
            wanted = ExperimentSettings(name, ARMS, learner, LEARNERS[learner], 5, MISSING[word], floor)
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
            outcomes = [(rng.randrange(8), rng.choice([0.0, 0.3, 1.0])) for _ in range(rng.randrange(6))]
            wishes = [(which, ("decide", decisions)), (which, ("observe", outcomes))]
            self.ask(worker, wishes[: 1 + bool(outcomes)], "")
            if rng.random() < 0.3:
                self.look(rng.choice(sorted(WORKERS)))
        if rng.random() < 0.5:
            self.agree()

    @rule(worker=WORKER, which=WHICH, ids=IDENTIFIED)
    def decide(self, worker: str, which: int, ids: list[str | None]) -> None:
        self.ask(worker, [(which, ("decide", ids))], "")

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
            made = ["nobody", *self.models[name].made]
            return observe(
                name, [(made[-1 - who % len(made)] if isinstance(who, int) else who, loss) for who, loss in wish]
            )
        if word == "change":
            return Change(name, wish)
        if word == "read":
            return Read(name)
        return KeepSnapshot(name) if wish else ApplyDeadlines(name)

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
            assert [made.answer.round for made in model.made.values()] == list(range(1, len(model.made) + 1))
            if self.verified.get(name) != len(model.events):
                self.verified[name] = len(model.events)
                verdict = verify(self.ledger, record)
                assert (verdict.faults, verdict.events, verdict.rounds) == ([], len(model.events), len(model.made))

    def teardown(self) -> None:
        if self.models:
            self.agree()


def test_workers_do_what_the_model_does(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belated.ledger.processor.DEADLINES", 6)
    controls = Controls(ledger)
    wanted = settings(
        max_examples=60 if ledger.writers == 1 else 12,
        stateful_step_count=30,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],  # add Phase.shrink to see the shortest way to a failure: it takes minutes
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(partial(Workers, ledger, controls), settings=wanted)  # type: ignore[arg-type]
    assert any(ledger.snapshots(record.number) for record in ledger.experiments())
    held = [record.number for record in ledger.experiments() if record.settings.missing == MISSING["holds"]]
    kinds = {event.kind for number in held for event in ledger.events(number)}
    assert {Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED} < kinds
