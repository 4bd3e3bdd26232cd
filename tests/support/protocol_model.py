"""The protocol of the service in plain Python, to compare a processor with; a ledger under a test's control."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import Bandit, Receipt
from belated.api.types import Deadline, DecisionResponse, OutcomeReceipt
from belated.core.rounds import COUNTERS
from belated.ledger import processor
from belated.ledger.base import LedgerUnavailable, LockedExperiment, Transaction, Uncertain, Wanted
from belated.ledger.commands import Answer, Change, Command, Decide, Read, Refused, View
from belated.ledger.events import SECOND, Event, ExperimentSettings, Fate, Kind, Status
from belated.ledger.observing import Observe
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.live.recorded import RecordedBandit
from support.ledger_helpers import MOST

LOST = "lost"
"""A commit that fails: nothing happened."""
UNSEEN = "unseen"
"""A commit that went through, but the connection was lost before anybody heard of it."""
UNSEEN_LOST = "unseen and lost"
"""A commit that did not go through, and the connection was lost before anybody heard of it."""
START = 1_800_000_000 * SECOND
ARMS: list[str | int] = ["blue", 2, "red"]
LEARNERS: dict[str, dict[str, float | str]] = {
    "guarded": {},
    "balanced": {},
    "robust": {},
    "robust:delay_constant=1": {},
    "tsallis_rv": {},
    "bold": {},
    "sapo": {"horizon": 3000.0},
}
IDS = [f"id-{k}" for k in range(12)]
WORDS = {Status.ACTIVE: Kind.RESUME, Status.PAUSED: Kind.PAUSE, Status.ARCHIVED: Kind.ARCHIVE}


class Controls:
    """Takes over the clock of a ledger, and what becomes of its next commit."""

    def __init__(self, ledger: SqlLedger) -> None:
        self.now = START
        self.next = ""
        """What becomes of the next commit; nothing special, if it is empty."""
        inner = ledger.transaction

        @contextmanager
        def controlled() -> Iterator[Transaction]:
            fate, self.next = self.next, ""
            with inner() as transaction:
                self._set_clock(transaction)
                yield transaction
                if fate == LOST:
                    raise LedgerUnavailable("the test lost it")
                if fate == UNSEEN_LOST:
                    raise Uncertain("the test lost it in the middle")
            if fate == UNSEEN:
                raise Uncertain("the test lost it at the end")

        ledger.transaction = controlled  # type: ignore[method-assign]

    def _set_clock(self, transaction: Transaction) -> None:
        inner = transaction.lock_many

        def locked(wanted: Sequence[Wanted], wait: bool = True) -> dict[int, LockedExperiment]:
            return {number: each._replace(now=self.now) for number, each in inner(wanted, wait).items()}

        transaction.lock_many = locked  # type: ignore[method-assign]


def draw(seed: int, number: int) -> float:
    """The draw of a round: SplitMix64, by hand."""
    whole = (1 << 64) - 1

    def mixed(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & whole
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & whole
        return z ^ (z >> 31)

    return float((mixed((mixed(seed) + number * 0x9E3779B97F4A7C15) & whole) >> 11) * 2.0**-53)


@dataclass
class Made:
    """A decision that was made."""

    answer: DecisionResponse
    arm: int
    at: int
    loss: float | None = None
    fate: Fate | None = None
    defaulted: bool = False
    settled: bool = False


class Model:
    """What one experiment must do: a bandit, a dictionary, and the list of events that the ledger must hold."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self.settings = settings
        tuning: dict[str, Any] = dict(settings.tuning)
        self.bandit = Bandit(len(settings.arms), settings.learner, seed=settings.seed, **tuning)
        self.status = Status.ACTIVE
        self.made: dict[str, Made] = {}
        self.events: list[Event] = []

    def check(self, commands: Sequence[Command], answers: Sequence[Answer], clock: int) -> None:
        """Do what was done in one turn, and see that it was answered as it must be."""
        now = max(clock, self.events[-1].at if self.events else 0)
        self._settle(now)
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(command, Decide):
                self._decide(command, answer, now)
            elif isinstance(command, Observe):
                self._observe(command, answer, now)
            elif isinstance(command, Change):
                self._change(command, answer, now)

    def _add(self, kind: Kind, now: int, *rest: Any) -> None:
        self.events.append(Event(len(self.events) + 1, int(kind), now, *rest))

    def _came(self, kind: Kind, made: Made, loss: float, fate: Fate, now: int) -> None:
        told = made.answer
        self._add(kind, now, told.round, told.id, made.arm, None, loss, int(fate), now - made.at)

    def _learned(self, made: Made, loss: float) -> Fate:
        return Fate.USED if self.bandit.observe(made.answer.round, loss=loss) is Receipt.USED else Fate.SKIPPED

    def _settle(self, now: int) -> None:
        due = [made for made in self.made.values() if self._is_due(made, now)]
        for made in due[: processor.DEADLINES]:
            self._take(made, now)

    def _is_due(self, made: Made, now: int) -> bool:
        missing = self.settings.missing
        if not isinstance(missing, Deadline) or made.at + missing.deadline * SECOND > now:
            return False
        return not made.defaulted if made.loss is None else made.fate == Fate.HELD and not made.settled

    def _take(self, made: Made, now: int) -> None:
        """Learn what is to be learned at a deadline."""
        assert isinstance(self.settings.missing, Deadline)
        if made.loss is None:
            made.defaulted, loss = True, self.settings.missing.loss
            self._came(Kind.DEFAULT, made, loss, self._learned(made, loss), now)
        else:
            made.settled = True
            self._came(Kind.SETTLED, made, made.loss, self._learned(made, made.loss), now)

    def _decide(self, command: Decide, answer: Answer, now: int) -> None:
        if self.status != Status.ACTIVE and any(id not in self.made for id in command.ids):
            assert isinstance(answer, Refused), answer
            assert answer.code == self.status.name.lower()
            return
        assert isinstance(answer, list), answer
        assert len(answer) == len(command.ids)
        for id, told in zip(command.ids, answer, strict=True):
            assert isinstance(told, DecisionResponse)
            if id is None:
                assert told.id not in self.made
                id = told.id
            if id not in self.made:
                number, arm, propensity = self.bandit.decide(draw=draw(self.settings.seed, self.bandit.rounds + 1))
                assert isinstance(arm, int)
                self.made[id] = Made(DecisionResponse(id, number, self.settings.arms[arm], propensity), arm, now)
                self._add(Kind.DECISION, now, number, id, arm, propensity)
            assert told == self.made[id].answer

    def _observe(self, command: Observe, answer: Answer, now: int) -> None:
        assert isinstance(answer, list), answer
        expected = [self._receipt(each.decision, each.loss or 0.0, now) for each in command.outcomes]
        told = [(each.decision, each.receipt, each.first) for each in answer if isinstance(each, OutcomeReceipt)]
        assert [(id, word, first or None) for id, word, first in told] == expected

    def _receipt(self, id: str, loss: float, now: int) -> tuple[str, str, str | None]:
        made = self.made.get(id)
        if made is None:
            return id, "unknown", None
        if made.loss is None:
            if self._is_due(made, now):  # more are due than one turn takes care of
                self._take(made, now)
            made.loss = loss
            if made.defaulted:
                made.fate = Fate.LATE
            elif isinstance(self.settings.missing, Deadline) and self.settings.missing.learn == "deadline":
                made.fate = Fate.HELD
            else:
                made.fate = self._learned(made, loss)
            self._came(Kind.OUTCOME, made, loss, made.fate, now)
            return id, _word(made), None
        return (id, "repeated", _word(made)) if made.loss == loss else (id, "conflict", None)

    def _change(self, command: Change, answer: Answer, now: int) -> None:
        if self.status == Status.ARCHIVED != command.status:
            assert isinstance(answer, Refused), answer
            assert answer.code == "archived"
            return
        assert isinstance(answer, View), answer
        assert answer.status == command.status
        if self.status != command.status:
            self.status = command.status
            self._add(WORDS[command.status], now)


def _word(made: Made) -> str:
    return {Fate.USED: "used", Fate.HELD: "held"}.get(made.fate or Fate.LATE, "skipped")


def read(processor: CommandProcessor, name: str) -> View:
    (view,) = processor.run([Read(name)])
    assert isinstance(view, View)
    return view


def new(ledger: SqlLedger, name: str = "one", learner: str = "balanced", missing: Deadline | None = None) -> Model:
    wanted = ExperimentSettings(name, ARMS, learner, LEARNERS[learner], 5, missing or "wait")
    ledger.create(wanted, START, MOST)
    return Model(wanted)


def learned_the_same(recorded: RecordedBandit, bandit: Bandit) -> bool:
    """Return whether two bandits are in the same state, bit for bit, whoever remembers their decisions."""
    bandit._catch_up()
    one, other = recorded._run, bandit._run
    size = min(one.state.size, other.state.size)  # rooms may differ, as one of them skips before it makes room
    counts = [name for name in COUNTERS.names or () if name not in ("oldest", "newest", "free", "pages")]
    return (
        np.array_equal(one.state[:size], other.state[:size])
        and not (one.state[size:].any() or other.state[size:].any())
        and np.array_equal(one.p, other.p)
        and all(one.clock[name] == other.clock[name] for name in counts)
        and recorded.warnings_by_kind == bandit.warnings_by_kind
    )


def plain(events: Sequence[Event]) -> list[Event]:
    """Events without what is kept for the learner, as the model has them."""
    return [
        event._replace(mark=None, cumulative=None, propensity=event.propensity if event.kind == Kind.DECISION else None)
        for event in events
    ]


def told(answer: Answer) -> list[tuple[str, str | None]]:
    """Receipts, and what repeated ones say of the first."""
    assert isinstance(answer, list)
    return [(each.receipt, each.first or None) for each in answer if isinstance(each, OutcomeReceipt)]


def made(answer: Answer) -> list[DecisionResponse]:
    assert isinstance(answer, list)
    return [each for each in answer if isinstance(each, DecisionResponse)]
