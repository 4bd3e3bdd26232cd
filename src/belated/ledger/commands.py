"""What can be asked of an experiment: commands. Each knows which decisions it is about and how it is answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import msgspec

from belated.api.ids import new_id
from belated.api.types import Deadline, DecisionResponse, FirstReceipt, OutcomeReceipt
from belated.ledger.events import SECOND, DecisionRecord, Event, ExperimentRecord, Fate, Reported, Status
from belated.ledger.state import ExperimentState

RECEIPTS: dict[int, FirstReceipt] = {
    Fate.USED: "used",
    Fate.SKIPPED: "skipped",
    Fate.LATE: "skipped",
    Fate.HELD: "held",
    Fate.JOINED: "held",
}
"""How a report is answered, by what becomes of it."""


class Refused(NamedTuple):
    """Why a command was not carried out."""

    code: str
    message: str
    field: str | None = None


class View(NamedTuple):
    """An experiment as it is read: its record, its status and its state. Valid until the next transaction."""

    record: ExperimentRecord
    status: Status
    state: ExperimentState


class Later(NamedTuple):
    """The answer to a command of an experiment that somebody else has locked: nothing was done."""


LATER = Later()
Answer = list[DecisionResponse] | list[OutcomeReceipt] | View | Refused | Later | bool | None


@dataclass
class Work:
    """An experiment while commands are carried out on it, within a transaction."""

    record: ExperimentRecord
    state: ExperimentState
    status: Status
    known: dict[str, DecisionRecord]
    """What is on record of the decisions that the commands are about, by id; commands add what they do."""
    now: int
    events: list[Event]
    """What is to be appended."""
    more_due: bool = False
    """Whether more deadlines may have passed than were taken care of."""
    reported: dict[tuple[int, str], Reported] = field(default_factory=dict)
    """What is on record of the reports that the commands make, by round and their own ids; commands add theirs."""
    has_fallbacks: Callable[[str], bool] = lambda id: False
    """Returns whether fallbacks are on record under an id."""

    @property
    def name(self) -> str:
        return self.record.settings.name

    def is_overdue(self, made: DecisionRecord) -> bool:
        """Return whether a decision's deadline has passed."""
        missing = self.record.settings.missing
        return self.more_due and isinstance(missing, Deadline) and made.at + int(missing.deadline * SECOND) <= self.now

    def settle(self, id: str, made: DecisionRecord) -> None:
        """Let the learner hear what it is to hear of a decision whose deadline has passed."""
        missing = self.record.settings.missing
        assert isinstance(missing, Deadline)
        if made.loss is not None or made.total is not None:
            event = self.state.settle(id, made, self.now)
            self.events.append(event)
            if id in self.known:
                self.known[id] = self.known[id]._replace(settled=event.fate)
            return
        self.events.append(self.state.default(id, made, missing.loss, self.now))
        if id in self.known:
            self.known[id] = self.known[id]._replace(defaulted=True)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked."""

    key: int | None = None
    """The number of the key; the events that the command makes have it."""


class Command(_Asked, frozen=True):
    """The base of the commands."""

    name: str
    """Of the experiment."""
    snapshot: ClassVar[bool] = False
    """Whether a snapshot is to be kept afterwards, however few events there are since the last."""

    @property
    def decision_ids(self) -> list[str]:
        """The decisions to look up."""
        return []

    @property
    def report_ids(self) -> list[tuple[str, str]]:
        """The reports to look up: (id of the decision, id of the report)."""
        return []

    def answer(self, work: Work) -> Answer:
        """Carry the command out and return its answer."""
        raise TypeError(f"{type(self).__name__} has no answer")

    def _signed(self, event: Event) -> Event:
        """Return an event that says who asked for it, in a third of the time that `_replace` takes."""
        return event if self.key is None else Event._make(event[:-1] + (self.key,))


class Decide(Command, frozen=True):
    """Make a decision under each of these ids; None stands for a new id."""

    ids: Sequence[str | None]

    @property
    def decision_ids(self) -> list[str]:
        return [id for id in self.ids if id is not None]

    def answer(self, work: Work) -> Answer:
        state, known = work.state, work.known
        if work.status != Status.ACTIVE and any(id is None or id not in known for id in self.ids):
            word = work.status.name.lower()
            return Refused(word, f"experiment {work.name!r} is {word}: it decides nothing new")
        answers = []
        for id in self.ids:
            if id is None:
                id = new_id(work.now)
            made = known.get(id)
            if made is None:
                event = state.decide(id, work.now)
                work.events.append(self._signed(event))
                made = known[id] = DecisionRecord(
                    event.round, event.arm, event.propensity, work.now, None, 0, False, event.mark, event.cumulative
                )
            answers.append(DecisionResponse(id, made.round, state.label(made.arm), made.propensity))
        return answers


class Change(Command, frozen=True):
    """Set a status."""

    status: Status

    def answer(self, work: Work) -> Answer:
        if work.status == Status.ARCHIVED and self.status != Status.ARCHIVED:
            return Refused("archived", f"experiment {work.name!r} is archived, for good")
        if work.status != self.status:
            work.events.append(self._signed(work.state.change(self.status, work.now)))
            work.status = self.status
        return View(work.record, work.status, work.state)


class Read(Command, frozen=True):
    """Look at the state."""

    def answer(self, work: Work) -> Answer:
        return View(work.record, work.status, work.state)


class ApplyDeadlines(Command, frozen=True):
    """Learn from decisions whose deadline has passed, from outcomes held or default losses: every transaction does so
    first, with some of them. The answer says whether more may be due.
    """

    def answer(self, work: Work) -> Answer:
        return work.more_due


class KeepSnapshot(ApplyDeadlines, frozen=True):
    """Keep a snapshot of what there is."""

    snapshot: ClassVar[bool] = True
