"""Whether a ledger is whole: its tables and indexes, how the database keeps them, and the numbers that must agree."""

from collections.abc import Iterator
from typing import Any

from belated.ledger.reading import ReadingLedger
from belated.ledger.shape import differences

_COUNTS = """
SELECT experiment, count(*), min(number), max(number), sum(CASE WHEN kind = 1 THEN 1 ELSE 0 END),
       coalesce(max(CASE WHEN kind = 1 THEN round END), 0)
FROM events GROUP BY experiment ORDER BY experiment
"""
_EXPERIMENTS = "SELECT key, name, position, rounds FROM experiments ORDER BY key"


def faults(ledger: ReadingLedger) -> list[str]:
    """Return what is wrong; nothing, if all is well. The ledger may be of an older belated.

    `Damaged` where it cannot be read, or is no ledger; `OtherVersion` where it is of a newer belated.
    """
    with ledger.committing() as connection:
        shape = ledger.expected(connection)
        if found := list(differences(ledger.shape(connection), shape)):
            return found
        if found := list(ledger.storage_faults(connection, shape)):
            return found
        return list(_miscounts(ledger, connection))


def _miscounts(ledger: ReadingLedger, connection: Any) -> Iterator[str]:
    """Compare the events with what is said about them. Replaying tells more, and takes longer."""
    counted = {row[0]: tuple(int(value) for value in row[1:]) for row in ledger.run(connection, _COUNTS)}
    for key, name, position, rounds in ledger.run(connection, _EXPERIMENTS):
        events, first, last, decisions, latest = counted.pop(key, (0, 1, 0, 0, 0))
        if (events, first, last) != (position, 1, position):
            yield f"{name!r} has {events} events, numbered {first} to {last}, where 1 to {position} are expected"
        elif (decisions, latest) != (rounds, rounds):
            yield f"{name!r} has {decisions} decisions, the last of round {latest}, where {rounds} are expected"
    for key, (events, *_) in counted.items():
        yield f"there are {events} events of experiment {key}, which is not there"
