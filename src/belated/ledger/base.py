"""What every ledger promises: `Ledger` and `Transaction`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from belated.api.types import Deadline
from belated.errors import BelatedError
from belated.ledger.clock import Clock
from belated.ledger.events import (
    ApiKey,
    DecisionRecord,
    Event,
    ExperimentRecord,
    ExperimentSettings,
    Hears,
    Reported,
    Status,
)
from belated.live.outstanding import Recorded

CHUNK = 5_000
"""Events read at once, at most."""
PIECE = 500
"""Events read at once where all are read: few, so that other threads never wait for long."""
LATEST = 2_000
"""Events among which the last decisions are looked for."""
OUTLINES = 20
"""Experiments listed at once."""


class LedgerError(BelatedError):
    """The ledger holds something that it should not hold."""


class LedgerUnavailable(BelatedError):
    """The ledger could not be reached, read or written: nothing of what was asked has happened."""


class Uncertain(LedgerUnavailable):
    """The ledger was lost in the middle of a commit: what was asked has happened wholly or not at all."""


class ExperimentExists(BelatedError, ValueError):
    """There is an experiment of this name, with other settings."""


class TooManyExperiments(BelatedError, ValueError):
    """The ledger has as many experiments as it may have."""


class NewerLedger(LedgerError):
    """A newer belated has changed the tables."""


class KeyChange(NamedTuple):
    """What is to become of the keys: one to add, and the ids of those to revoke."""

    add: ApiKey | None = None
    revoke: Sequence[str] = ()


class Erasure(NamedTuple):
    """What was erased: how many ids of an experiment, when and why. It does not say which."""

    at: int
    experiment: int
    ids: int
    what: str
    key: int | None = None
    """The number of the key that asked for it; None for a command or an age."""
    through: int | None = None
    """The number of an event up to which no decision has an id."""


class Position(NamedTuple):
    """How far an experiment is, without its settings: cheap to read, however many arms there are."""

    number: int
    name: str
    status: Status
    events: int
    snapshot: int
    """The position of the newest snapshot."""


class Outline(NamedTuple):
    """An experiment in a list."""

    number: int
    name: str
    status: Status
    created: int
    events: int
    rounds: int
    learner: str | None
    """None where the settings cannot be read."""
    arms: int
    deadline: Deadline | None


class Wanted(NamedTuple):
    """An experiment to be locked."""

    experiment: int
    position: int
    """The last event that is known."""
    ids: Sequence[str]
    """Of decisions to look up."""
    hears: Hears = Hears.ARRIVAL
    """When the learner hears of an outcome."""


class Appended(NamedTuple):
    """Events to be appended to an experiment; its status, its rounds and how many arms take part after them."""

    experiment: int
    events: Sequence[Event]
    status: Status
    rounds: int
    arms: int | None = None
    """None: as many as before."""


class LockedExperiment(NamedTuple):
    """An experiment within a transaction: what is true of it while the transaction lasts."""

    status: Status
    tail: list[Event]
    """What was appended after the position that the caller knew."""
    known: dict[str, DecisionRecord]
    now: int
    """The time by the ledger's own clock, or by the steady one where that has jumped."""
    snapshot: int
    """The position of the newest snapshot."""


class Result(NamedTuple):
    """A decision and what came of it."""

    number: int
    """Of the event."""
    arm: int
    propensity: float
    loss: float | None
    """As reported in time, or the default; None where the decision is not settled."""
    distribution: str | None = None
    """The probabilities of all arms that were there, in their order, as JSON; None where the propensity says it all."""


class Due(NamedTuple):
    """Decisions whose deadline has passed."""

    decisions: list[tuple[Any, DecisionRecord]]
    """By their ids; None where the id was erased."""
    looked_at: int
    """The number of an event up to which there are no more."""
    more: bool
    """Whether there may be more after it."""
    next: int | None
    """When the first decision that is not due yet was made, if there is one."""


class Transaction(ABC):
    """One transaction: experiments are opened, events appended, and all of it is committed together."""

    @abstractmethod
    def lock_many(self, wanted: Sequence[Wanted], wait: bool = True) -> dict[int, LockedExperiment]:
        """Let nobody else append to these experiments until the transaction ends. Return what is on record of them, by
        number. Those that somebody else has locked are left out unless `wait`.
        """

    def lock(self, experiment: int, position: int, ids: Sequence[str]) -> LockedExperiment:
        """Let nobody else append to this experiment until the transaction ends. Return what is on record of it."""
        return self.lock_many([Wanted(experiment, position, ids)])[experiment]

    @abstractmethod
    def decisions(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> Sequence[Recorded]:
        """Return decisions numbered after an event, in order, and whether they had no outcome after the event `until`;
        where outcomes are held, whether nothing was learned from them.
        """

    @abstractmethod
    def reports(self, experiment: int, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Reported]:
        """Return what is on record of reports, by the rounds of their decisions and their own ids."""

    @abstractmethod
    def fallbacks(self, experiment: int, id: str) -> bool:
        """Return whether fallbacks are on record under an id."""

    @abstractmethod
    def due(self, experiment: int, after: int, before: int, hears: Hears, most: int, now: int | None = None) -> Due:
        """Return decisions made until a time, after the event of a number, that have no outcome, or, where outcomes are
        held, that nothing was learned from; of the next `most`, the oldest first. A decision that a clock dated ahead
        counts as made when the next one was; it is told by its date, which lies after now.
        """

    @abstractmethod
    def append_many(self, appended: Sequence[Appended]) -> None:
        """Add events to experiments, events that go on without a gap from the last one of each."""

    def append(self, experiment: int, events: Sequence[Event], status: Status, rounds: int) -> None:
        """Add events that go on without a gap from the last one."""
        self.append_many([Appended(experiment, events, status, rounds)])

    @abstractmethod
    def erase(self, known: Mapping[str, DecisionRecord], erasure: Erasure) -> None:
        """Erase the ids of decisions of an experiment that is locked, and of their outcomes; nothing else changes.

        The erasure is noted, in place of an earlier note of the same experiment and time.
        """


class Ledger(ABC):
    """The record of everything that was decided and of everything that came of it.

    - **Append-only.** Events are added, never changed or removed, but for ids, which can be erased. What an experiment
      has learned is a state over its events: whoever reads them all has the same state, bit for bit. Snapshots, and
      what is kept of settled decisions, only save the reading; without them everything still works.
    - **In order.** The events of one experiment are numbered 1, 2, 3, … without gaps, and so are its rounds. A
      transaction has the experiment to itself, among all threads, processes and machines; it sees all that was appended
      before.
    - **All or nothing.** What a transaction appends is there wholly or not at all, whenever whoever is killed.
    - **Durable.** When a transaction has ended without an error, its events are on disk: they survive a power cut.
    - **Once.** An experiment has one decision under an id; a decision has at most one outcome, one default, one
      event that lets the learner hear of what was held, and one report under an id.
    - **Honest.** A transaction that fails raises `LedgerUnavailable`, and nothing of it happened; or, where the
      connection was lost during the commit itself, `Uncertain`. The ledger works again when the cause is gone; nobody
      needs to restart.
    - **No clock needed to read.** A deadline that passes is an event like any other.

    Threads may share a ledger; transactions of different experiments may overlap where `writers` allows it.
    """

    writers: int
    """How many transactions can go on at once with profit."""
    store: str
    """What it was opened by, without a password."""
    address: str
    """The same with its password, for other processes; never to be shown."""
    clock: Clock
    """What tells the time, guarded against jumps."""

    @abstractmethod
    def migrate(self) -> list[str]:
        """Bring the tables up to date, each migration wholly or not at all; those that were missing."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Give a transaction; leaving it without an error commits."""

    @abstractmethod
    def create(self, settings: ExperimentSettings, at: int, most: int) -> tuple[ExperimentRecord, bool]:
        """Return a new experiment, or the one there is if it has these settings, and whether it is new."""

    @abstractmethod
    def experiments(self) -> list[ExperimentRecord]:
        """Return all experiments, in the order of their creation."""

    @abstractmethod
    def find(self, name: str) -> ExperimentRecord | None:
        """Return the experiment of this name."""

    @abstractmethod
    def positions(self) -> list[Position]:
        """Return how far all experiments are, in the order of their creation."""

    @abstractmethod
    def position(self, experiment: int) -> Position:
        """Return how far an experiment is."""

    @abstractmethod
    def outlines(self, after: int = 0, limit: int = OUTLINES) -> list[Outline]:
        """Return some experiments numbered after a number, in order; those whose settings cannot be read too."""

    @abstractmethod
    def events(self, experiment: int, after: int = 0, limit: int = CHUNK) -> list[Event]:
        """Return some events numbered after a number, in order."""

    @abstractmethod
    def changes(self, experiment: int, until: int, after: int = 0) -> list[Event]:
        """Return the events after one, up to another, that changed arms or limits, or told of fallbacks."""

    @abstractmethod
    def status_changes(self, experiment: int) -> list[Event]:
        """Return the events that paused, resumed or archived an experiment, in order."""

    @abstractmethod
    def decisions(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> Sequence[Recorded]:
        """Return the same as `Transaction.decisions`."""

    @abstractmethod
    def results(self, experiment: int, hears: Hears, after: int, until: int, most: int) -> list[Result]:
        """Return decisions numbered after an event, up to another, in order, with what came of them so far; where
        several reports of a decision count, only once they are settled.
        """

    @abstractmethod
    def decision(self, experiment: int, id: str) -> Event | None:
        """Return the decision under an id."""

    @abstractmethod
    def latest(self, experiment: int, until: int, most: int) -> list[Event]:
        """Return the last decisions up to an event, the newest first; only those among the LATEST events before."""

    @abstractmethod
    def outcomes(self, experiment: int, rounds: Sequence[int]) -> list[Event]:
        """Return all that came of decisions: outcomes, reports, defaults and what was settled, in order."""

    @abstractmethod
    def snapshots(self, experiment: int) -> list[tuple[int, bytes]]:
        """Return (position, state), the newest first."""

    @abstractmethod
    def keep(self, experiment: int, position: int, state: bytes) -> None:
        """Keep a snapshot of the state after an event, and drop old ones."""

    @abstractmethod
    def settled(self, experiment: int, after: int = 0) -> bytes | None:
        """Return what was kept of its settled decisions, if they were read further than an event."""

    @abstractmethod
    def keep_settled(self, experiment: int, position: int, state: bytes) -> None:
        """Keep what settled decisions amount to that were read up to an event, unless what is kept has read further."""

    @abstractmethod
    def all_keys(self) -> list[ApiKey]:
        """Return all keys, revoked ones too."""

    @abstractmethod
    def add_key(self, key: ApiKey) -> None:
        """Let somebody in; a key that is there stays as it is."""

    @abstractmethod
    def change_keys(self, change: Callable[[list[ApiKey]], KeyChange]) -> KeyChange:
        """Change the keys as a function of all of them says, while nobody else does; what it said."""

    @abstractmethod
    def note_use(self, ids: Sequence[str], at: int) -> None:
        """Note that keys were used; of a key at most once a minute."""

    @abstractmethod
    def newest_migration(self) -> int:
        """Return the number of the last migration of the tables."""

    @abstractmethod
    def erasures(self, experiment: int | None = None) -> list[Erasure]:
        """Return the erasures, perhaps those of one experiment, in the order in which they began."""

    @abstractmethod
    def erased_through(self, experiment: int) -> int:
        """Return the number of an event up to which no decision has an id, as far as erasures tell."""

    def scrub(self, rewrite: bool = False) -> bool:
        """Remove what is left of erased ids from the files of the store, where it has some; whether that was possible.

        rewrite writes the whole store anew for it, and all wait meanwhile.
        """
        return True

    def readable_by_others(self) -> str | None:
        """Return which file of the ledger other users of the machine may read or write, if there is one."""
        return None

    @abstractmethod
    def revoke_key(self, id: str, at: int) -> bool:
        """Keep somebody out; whether there was such a key, not revoked before."""

    @abstractmethod
    def probe(self, names: Sequence[str] = ()) -> None:
        """Write and commit something that changes nothing, to see whether the ledger can be written: under the locks
        that a commit takes, and those of experiments of these names.
        """

    def tidy(self) -> None:  # noqa: B027
        """Do what the database would otherwise do in the middle of somebody's commit; nothing, where there is none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

    def is_coming_up(self) -> bool:
        """Return whether a database that could not be opened is not there yet, rather than refusing us."""
        return False

    def all_outlines(self, after: int = 0) -> Iterator[Outline]:
        """Yield all experiments numbered after a number, in order."""
        while outlines := self.outlines(after):
            yield from outlines
            after = outlines[-1].number

    def all_events(self, experiment: int, after: int = 0) -> Iterator[list[Event]]:
        """Yield all events after a number, in chunks: no transaction stays open in between."""
        while events := self.events(experiment, after, PIECE):
            yield events
            after = events[-1].number
