"""Reading a ledger from the beginning, and comparing all that it says with what the learners say."""

from typing import NamedTuple

from belated.api.types import Deadline
from belated.errors import AlreadyObserved, UnknownDecision
from belated.ledger.base import Ledger, LedgerError
from belated.ledger.events import SECOND, Event, ExperimentRecord, Fate, Kind, Status
from belated.ledger.state import STATUS_AFTER, ExperimentState


class Verdict(NamedTuple):
    """What replaying an experiment found."""

    name: str
    events: int
    rounds: int
    compared: int
    """How many snapshots and live states were compared, bit for bit."""
    propensity_error: float
    """The largest difference between a propensity on record and the one computed now; 0: bit for bit."""
    digest: str
    """Of the state at the end, as the service shows it."""
    faults: list[str]
    """What is wrong; nothing, if all is well."""


def verify(ledger: Ledger, record: ExperimentRecord, live: tuple[int, str] | None = None) -> Verdict:
    """Replay an experiment from its first event: numbering, arms, propensities, receipts, snapshots.

    live is the state of a worker to compare with as well: (after which event, its digest).
    """
    replay = _Replay(ledger, record, live)
    try:
        for events in ledger.all_events(record.number):
            for event in events:
                replay.take(event)
    except LedgerError as error:
        replay.faults.append(str(error))
    except (UnknownDecision, AlreadyObserved) as error:
        replay.faults.append(f"event {replay.state.position + 1}: {error}")
    except (LookupError, ValueError, TypeError) as error:
        replay.faults.append(f"event {replay.state.position + 1} makes no sense: {error}")
    else:
        replay.end()
    state = replay.state
    return Verdict(
        record.settings.name,
        state.position,
        state.bandit.rounds,
        replay.compared,
        state.propensity_error,
        state.digest(),
        replay.faults,
    )


class _Replay:
    """An experiment being read, and what was found."""

    def __init__(self, ledger: Ledger, record: ExperimentRecord, live: tuple[int, str] | None) -> None:
        self.state = ExperimentState(record.settings)
        self.faults: list[str] = []
        self.compared = 0
        self._record = record
        self._live = live
        self._kept = dict(ledger.snapshots(record.number))
        self._at = 0
        self._status = {0: Status.ACTIVE}
        self._open: dict[int, Event] = {}  # decisions whose outcome may still come
        self._held: dict[int, Event] = {}  # outcomes that the learner has yet to hear of

    def take(self, event: Event) -> None:
        """Apply an event and compare."""
        number, state = event.number, self.state
        if event.at < self._at:
            self.faults.append(f"event {number} is dated before event {number - 1}")
        self._at = event.at
        exact = not state.propensity_error
        state.apply(event)
        if exact and state.propensity_error:
            self.faults.append(
                f"event {number} has propensity {event.propensity!r}, off by {state.propensity_error:.3g}"
            )
        if event.kind == Kind.DECISION:
            if state.drawn() != event.arm:
                self.faults.append(f"event {number} has arm {event.arm}, where {state.drawn()} is drawn")
            self._open[event.round] = event
        elif event.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED):
            self._take_outcome(event)
        else:
            self._status = {number: STATUS_AFTER[Kind(event.kind)]}
        if self._live and self._live[0] == number:
            self.compared += 1
            if state.digest() != self._live[1]:
                self.faults.append(f"the live state after event {number} is not what its events make")
        if number in self._kept:
            self.compared += 1
            if state.to_bytes() != self._kept[number]:
                self.faults.append(f"the snapshot at event {number} is not the state after that event")

    def _take_outcome(self, event: Event) -> None:
        """Compare an outcome, or what was learned at a deadline, with what is known of its decision."""
        number, round = event.number, event.round
        settles = event.kind == Kind.SETTLED
        before = (self._held if settles else self._open).get(round)
        if before is None:
            self.faults.append(f"event {number}: no outcome of round {round} was {'held' if settles else 'waited for'}")
            return
        decided = before.at - (before.waited or 0)
        if (before.id, before.arm, event.at - decided) != (event.id, event.arm, event.waited):
            self.faults.append(f"event {number} does not fit the decision of round {round}")
        if settles and event.loss != before.loss:
            self.faults.append(f"event {number} has loss {event.loss}, where {before.loss} was held")
        if event.kind == Kind.OUTCOME:
            del self._open[round]
            if event.fate == Fate.HELD:
                self._held[round] = event
            return
        missing = self._record.settings.missing
        if not isinstance(missing, Deadline) or event.waited < int(missing.deadline * SECOND):
            self.faults.append(f"event {number} comes before the deadline of round {round}")
        if settles:
            del self._held[round]

    def end(self) -> None:
        """Compare what is said about the whole."""
        last, record = self.state.position, self._record
        if last < record.events:
            self.faults.append(f"there are {last} events where {record.events} are counted")
        elif last == record.events and self.state.bandit.rounds != record.rounds:
            self.faults.append(f"there are {self.state.bandit.rounds} rounds where {record.rounds} are counted")
        changed, status = next(iter(self._status.items()))
        if changed <= record.events == last and status != record.status:
            self.faults.append(f"the experiment is {record.status.name.lower()}, its events say {status.name.lower()}")
        if self._live and self._live[0] > last:
            self.faults.append(f"there is a live state after event {self._live[0]}, but no such event")
        self.faults += [
            f"there is a snapshot after event {position}, but no such event"
            for position in self._kept
            if position > last
        ]
