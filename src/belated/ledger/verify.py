"""Reading a ledger from the beginning, and comparing all that it says with what the learners say."""

from typing import NamedTuple

from belated.errors import BelatedError
from belated.ledger.contract import Ledger
from belated.ledger.events import Kind, Record
from belated.ledger.fold import Fold


class Verdict(NamedTuple):
    """What replaying an experiment found."""

    name: str
    events: int
    rounds: int
    compared: int
    """How many snapshots and live states were compared, bit for bit."""
    apart: float
    """The largest difference between a propensity on record and the one computed now; 0: bit for bit."""
    digest: str
    """Of the state at the end, as the service shows it."""
    faults: list[str]
    """What is wrong; nothing, if all is well."""


def verify(ledger: Ledger, record: Record, live: tuple[int, str] | None = None) -> Verdict:
    """Replay an experiment from its first event: numbering, arms, propensities, receipts, snapshots.

    live is the state of a worker to compare with as well: (after which event, its digest).
    """
    fold = Fold(record.settings)
    kept = dict(ledger.snapshots(record.key))
    faults: list[str] = []
    compared = 0
    latest = 0
    try:
        for events in ledger.all_events(record.key):
            for event in events:
                if event.at < latest:
                    faults.append(f"event {event.number} is dated before event {event.number - 1}")
                latest = event.at
                apart = fold.apart
                fold.apply(event)
                if fold.apart > apart and not apart:
                    faults.append(f"event {event.number} has propensity {event.propensity!r}, off by {fold.apart:.3g}")
                if event.kind == Kind.DECISION and fold.drawn() != event.arm:
                    faults.append(f"event {event.number} has arm {event.arm}, where {fold.drawn()} is drawn")
                if live and live[0] == event.number:
                    compared += 1
                    if fold.digest() != live[1]:
                        faults.append(f"the live state after event {event.number} is not what its events make")
                if event.number in kept:
                    compared += 1
                    if fold.to_bytes() != kept[event.number]:
                        faults.append(f"the snapshot at event {event.number} is not the state after that event")
    except BelatedError as error:
        faults.append(str(error))
    except (LookupError, ValueError, TypeError) as error:
        faults.append(f"event {fold.position + 1} makes no sense: {error}")
    if fold.position < record.events and not faults:
        faults.append(f"there are {fold.position} events where {record.events} are counted")
    return Verdict(record.settings.name, fold.position, fold.bandit.rounds, compared, fold.apart, fold.digest(), faults)
