"""Reading a ledger from the beginning, and comparing all that it says with what the learners say."""

from array import array
from bisect import bisect_right
from functools import partial
from typing import NamedTuple

from belated.api.types import Deadline
from belated.ledger.base import Ledger, LedgerError
from belated.ledger.clock import BOUND_SECONDS
from belated.ledger.events import SECOND, Event, ExperimentRecord, Fate, Hears, Kind, Status
from belated.ledger.observing import combined
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
    notes: list[str]
    """What is not wrong, but worth knowing: dates that go back after a clock was ahead, other last digits."""


_DONE, _OPEN, _HELD, _DEFAULTED = range(4)
_ERASED = 0


def verify(
    ledger: Ledger,
    record: ExperimentRecord,
    live: tuple[int, str] | None = None,
    *,
    tolerance: float = 0.0,
    bound: int = int(BOUND_SECONDS * SECOND),
) -> Verdict:
    """Replay an experiment from its first event: numbering, arms, propensities, receipts, snapshots.

    live is the state of a worker to compare with as well: (after which event, its digest). Another processor may
    compute the last digits of propensities differently: up to a tolerance, what differs is a note and no fault. bound
    is how far dates must go back at least where the clock had been ahead.
    """
    replay = _Replay(ledger, record, live, tolerance, bound)
    try:
        source = partial(ledger.decisions, record.number, record.settings.hears)
        for events in ledger.all_events(record.number):
            replay.state.look_in(source)
            for event in events:
                replay.take(event)
    except LedgerError as error:
        replay.faults.append(str(error))
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
        replay.notes,
    )


class _Replay:
    """An experiment being read, and what was found."""

    def __init__(
        self, ledger: Ledger, record: ExperimentRecord, live: tuple[int, str] | None, tolerance: float, bound: int
    ) -> None:
        self._tolerance = tolerance
        self.state = ExperimentState(record.settings)
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.compared = 0
        self._record = record
        self._live = live
        self._kept = dict(ledger.snapshots(record.number))
        self._at = 0
        self._dates = _Dates(bound)
        self._status = {0: Status.ACTIVE}
        # of each round, in few bytes: what may still come of it, when it was decided, the arm, fingerprints of the id
        # and of all that goes with its outcome, and the loss that is held, or what reports amount to
        self._open = bytearray([_DONE])
        self._decided, self._named, self._made = (array("q", [0]) for _ in range(3))
        self._arms, self._held = array("i", [0]), array("d", [0.0])

    def take(self, event: Event) -> None:
        """Apply an event and compare."""
        number, state = event.number, self.state
        if event.at < self._at:
            self._take_date(number, self._at - event.at)
        self._at = event.at
        error, fates = state.propensity_error, state.other_fates
        state.apply(event)
        if state.propensity_error > error == 0.0 or state.propensity_error > self._tolerance >= error > 0.0:
            self._differs.append(
                f"event {number} has propensity {event.propensity!r}, off by {state.propensity_error:.3g}"
            )
        if state.other_fates > fates:
            self._differs.append(
                f"event {number}: the outcome of round {event.round} is on record as {Fate(event.fate).name.lower()},"
                " which is not what the learner makes of it now"
            )
        if event.kind == Kind.DECISION:
            if event.detail is not None and event.detail != state.chances():
                self._differs.append(f"event {number} has other probabilities of arms than the learner gives them now")
            if not state.could_draw(event.arm, self._tolerance if state.propensity_error else 0.0):
                self.faults.append(f"event {number} has arm {event.arm}, where {state.drawn()} is drawn")
            self._open.append(_OPEN)
            self._decided.append(event.at)
            self._named.append(_ERASED if event.id is None else hash(event.id))
            self._arms.append(event.arm)
            self._made.append(_fingerprint(event))
            self._held.append(0.0)
            self._dates.add(event.round, event.at)
        elif event.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED):
            self._take_outcome(event)
        elif event.kind == Kind.REPORT:
            self._take_report(event)
        elif event.kind in STATUS_AFTER:
            self._status = {number: STATUS_AFTER[Kind(event.kind)]}
        if self._live and self._live[0] == number:
            self.compared += 1
            if state.digest() != self._live[1]:
                self._differs.append(f"the live state after event {number} is not what its events make")
        if number in self._kept:
            self.compared += 1
            if state.to_bytes() != self._kept[number]:
                self._differs.append(f"the snapshot at event {number} is not the state after that event")

    @property
    def _differs(self) -> list[str]:
        """Where to say that something is not as it is on record: no fault, where propensities differ a little."""
        return self.notes if 0.0 < self.state.propensity_error <= self._tolerance else self.faults

    def _take_date(self, number: int, back: int) -> None:
        """Note that an event is dated before its predecessor: a fault, unless that was dated ahead."""
        if self._dates.may_go_back(back):
            ahead = f"{back / SECOND:,.0f} s before event {number - 1}: the clock was ahead until then"
            self.notes.append(f"event {number} is dated {ahead}")
        else:
            self.faults.append(f"event {number} is dated before event {number - 1}")

    def _take_outcome(self, event: Event) -> None:
        """Compare an outcome, or what was learned at a deadline, with what is known of its decision."""
        number, round = event.number, event.round
        settles = event.kind == Kind.SETTLED
        wanted = _HELD if settles else _DEFAULTED if event.fate == Fate.LATE else _OPEN
        if not 0 < round < len(self._open) or self._open[round] != wanted:
            self.faults.append(f"event {number}: no outcome of round {round} was {'held' if settles else 'waited for'}")
            return
        decided = self._decided[round]
        waited = max(0, event.at - decided)
        # the id may have been erased after the decision was read
        fits = event.id is None or self._named[round] == hash(event.id)
        fits = fits and (self._arms[round], waited) == (event.arm, event.waited)
        if not fits or (event.mark is not None and _fingerprint(event) != self._made[round]):
            self.faults.append(f"event {number} does not fit the decision of round {round}")
        held = self._held[round]
        is_sum = self._record.settings.hears == Hears.REPORTS
        if settles and event.loss != (self.state.scale.loss(held).loss if is_sum else held):
            self.faults.append(f"event {number} has loss {event.loss}, where {held} was held")
        if settles and event.total != (held if is_sum else None):
            self.faults.append(f"event {number} has the total {event.total}, where {held} was held")
        if event.value is not None and event.loss != self.state.scale.loss(event.value).loss:
            self.faults.append(f"event {number} has loss {event.loss}, which is not that of its value {event.value}")
        if event.kind == Kind.OUTCOME:
            self._open[round] = _HELD if event.fate == Fate.HELD else _DONE
            self._held[round] = event.loss
            return
        missing = self._record.settings.missing
        made = self._dates.made(round, decided)
        is_early = not isinstance(missing, Deadline) or event.at - made < int(missing.deadline * SECOND)
        if is_early and not (settles and is_sum):  # reports may be settled before, when all are there
            self.faults.append(f"event {number} comes before the deadline of round {round}")
        self._open[round] = _DONE if settles else _DEFAULTED

    def _take_report(self, event: Event) -> None:
        """Compare one of several reports with those before it."""
        number, round = event.number, event.round
        wanted = {Fate.HELD: (_OPEN,), Fate.JOINED: (_HELD,), Fate.LATE: (_DONE, _DEFAULTED)}.get(event.fate, ())
        if not 0 < round < len(self._open) or self._open[round] not in wanted:
            self.faults.append(f"event {number}: no such report of round {round} was waited for")
            return
        fits = event.id is None or self._named[round] == hash(event.id)
        if not fits or (self._arms[round], max(0, event.at - self._decided[round])) != (event.arm, event.waited):
            self.faults.append(f"event {number} does not fit the decision of round {round}")
        if event.fate == Fate.LATE:
            settled = self._held[round] if self._open[round] == _DONE else None
            if event.total != settled:
                self.faults.append(f"event {number} has the total {event.total}, where {settled} was settled")
            return
        before = None if event.fate == Fate.HELD else self._held[round]
        total = combined(self._record.settings.reports, before, event.value)
        if event.total != total:
            self.faults.append(f"event {number} has the total {event.total}, where reports amount to {total}")
        self._open[round] = _HELD
        self._held[round] = event.total

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


def _fingerprint(event: Event) -> int:
    """Return what a decision and its outcome have in common beyond id and arm, as one number."""
    return hash((event.propensity, event.mark, event.cumulative))


class _Dates:
    """The dates of decisions, where they go back: a decision that was dated ahead was made before the next one."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._last = 0
        self._rounds: list[int] = []
        self._ats: list[int] = []

    def may_go_back(self, back: int) -> bool:
        """Return whether dates may go back so far: not by less than the bound, which a clock that jumped exceeds."""
        return back > self._bound

    def add(self, round: int, at: int) -> None:
        """Take the date of a decision. Only steps back are kept, as others are after what they follow."""
        if at < self._last:
            while self._ats and self._ats[-1] >= at:
                self._rounds.pop()
                self._ats.pop()
            self._rounds.append(round)
            self._ats.append(at)
        self._last = at

    def made(self, round: int, at: int) -> int:
        """Return when a decision was made: at its date, or at that of a later decision if that is before it."""
        k = bisect_right(self._rounds, round)
        return min(at, self._ats[k]) if k < len(self._ats) else at
