"""Events and experiments for tests of ledgers."""

from collections.abc import Callable, Iterable, Sequence
from threading import Thread

from belated.api.types import Deadline
from belated.ledger.base import Ledger, LockedExperiment
from belated.ledger.events import (
    DecisionRecord,
    Event,
    ExperimentRecord,
    ExperimentSettings,
    Fate,
    Kind,
    Status,
)
from belated.ledger.observing import Observe, Report
from belated.ledger.state import Source
from belated.live.outstanding import Recorded

MOST = 1000


def settings(
    name: str, seed: int = 7, learner: str = "balanced", deadline: Deadline | None = None
) -> ExperimentSettings:
    return ExperimentSettings(name, ["blue", "green", "red"], learner, {}, seed, deadline or "wait")


def observe(name: str, losses: Iterable[tuple[str, float]]) -> Observe:
    """Outcomes, by the ids of their decisions."""
    return Observe(name, [Report(id, loss) for id, loss in losses])


def experiment(ledger: Ledger, name: str = "one") -> ExperimentRecord:
    record, is_new = ledger.create(settings(name), 0, MOST)
    assert is_new
    return record


def decision(number: int, round: int, id: str = "", at: int = 0, arm: int = 0, propensity: float = 0.5) -> Event:
    return Event(number, int(Kind.DECISION), at, round, id or f"d{round}", arm, propensity)


def outcome(number: int, round: int, loss: float = 0.25, at: int = 0, kind: Kind = Kind.OUTCOME) -> Event:
    return Event(number, int(kind), at, round, f"d{round}", 0, None, loss, int(Fate.USED), at)


def default(number: int, round: int, at: int = 0) -> Event:
    return outcome(number, round, 1.0, at, Kind.DEFAULT)


def record_of(event: Event) -> DecisionRecord:
    """What is on record of a decision before its outcome."""
    return DecisionRecord(
        event.round, event.arm, event.propensity, event.at, None, 0, False, event.mark, event.cumulative
    )


def source_of(events: Sequence[Event]) -> Source:
    """Events as a place to look outstanding decisions up in."""

    def find(after: int, until: int, most: int) -> list[Recorded]:
        heard = {e.round for e in events if e.number <= until and e.fate in (Fate.USED, Fate.SKIPPED)}
        wanted = [e for e in events if e.kind == Kind.DECISION and after < e.number <= until]
        return [Recorded(e.number, e.round, e.mark, e.round not in heard) for e in wanted[:most]]

    return find


def append(ledger: Ledger, key: int, events: Sequence[Event], status: Status = Status.ACTIVE) -> None:
    """In a turn of their own."""
    with ledger.transaction() as transaction:
        transaction.lock(key, 0, [])
        transaction.append(key, events, status, rounds_of(events))


def rounds_of(events: Sequence[Event]) -> int:
    return max((event.round or 0 for event in events), default=0)


def look(ledger: Ledger, key: int, position: int = 0, ids: Sequence[str] = ()) -> LockedExperiment:
    """What a turn sees."""
    with ledger.transaction() as transaction:
        return transaction.lock(key, position, ids)


def together(works: Sequence[Callable[[], object]], seconds: float = 60.0) -> None:
    """Do all of it at once, in threads; raise what any of them raised."""
    errors: list[BaseException] = []

    def tried(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=tried, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "it does not end"
    if errors:
        raise errors[0]
