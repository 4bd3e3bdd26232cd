"""Erasing ids: what a decision was about is forgotten, what was decided and learned stays.

The ids of decisions and of their outcomes become NULL. Arms, propensities, losses and rounds stay, so that replaying
the events gives the same state. Everything is done in short transactions with pauses between them, so that deciders
hardly wait.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from belated.ledger.base import Erasure, Ledger
from belated.ledger.events import SECOND, ExperimentRecord, Kind

logger = logging.getLogger("belated.ledger")

AT_ONCE = 200
"""Decisions in one transaction."""
LEAST_PAUSE = 0.01
"""Seconds between two transactions; at least as long as the last one took."""
_NO_TAIL = 2**62


@dataclass(frozen=True)
class Ids:
    """The decisions of these ids."""

    ids: tuple[str, ...]
    what = "by id"

    def find(self, ledger: Ledger, record: ExperimentRecord) -> Iterator[tuple[str, int | None]]:
        for chunk in _chunks((id, None) for id in dict.fromkeys(self.ids) if "\0" not in id):
            with ledger.transaction() as transaction:
                known = transaction.lock(record.number, _NO_TAIL, [id for id, _ in chunk]).known
            yield from dict.fromkeys(known).items()


def matcher(pattern: str) -> Callable[[str], object]:
    """Return what tells whether an id matches, in a time that grows with its length only: each part between stars is
    taken where it comes first, and never sought again (`(?>…)`), but for the last one, which must stand at the end.
    """
    first, *rest = map(re.escape, pattern.split("*"))
    last = f".*{rest.pop()}" if rest else ""
    return re.compile(first + "".join(f"(?>.*?{part})" for part in rest) + last, re.DOTALL).fullmatch


@dataclass(frozen=True)
class Matching:
    """The decisions whose ids match a pattern, in which `*` stands for any characters."""

    pattern: str
    what = "by pattern"

    def find(self, ledger: Ledger, record: ExperimentRecord) -> Iterator[tuple[str, int | None]]:
        matches = matcher(self.pattern)
        for _, _, id in _named(ledger, record, 0):
            if matches(id):
                yield id, None


@dataclass(frozen=True)
class Older:
    """The decisions older than so many seconds."""

    seconds: float

    @property
    def what(self) -> str:
        return f"older than {self.seconds:g} s"

    def find(self, ledger: Ledger, record: ExperimentRecord) -> Iterator[tuple[str, int | None]]:
        """Begin where the last erasure by age ended: before, no decision has an id."""
        before = int((time.time() - self.seconds) * SECOND)
        after = ledger.erased_through(record.number)
        if not any(event.at < before for event in ledger.events(record.number, after, 1)):
            return  # mostly: a whole chunk need not be read to see that
        for number, at, id in _named(ledger, record, after):
            if at >= before:
                return
            yield id, number


Which = Ids | Matching | Older


def _named(ledger: Ledger, record: ExperimentRecord, after: int) -> Iterator[tuple[int, int, str]]:
    """Yield (number, time, id) of the decisions that have an id."""
    for events in ledger.all_events(record.number, after):
        yield from ((each.number, each.at, each.id) for each in events if each.kind == Kind.DECISION and each.id)


def count(ledger: Ledger, record: ExperimentRecord, which: Which) -> int:
    """Return how many ids `forget` would erase."""
    return sum(1 for _ in which.find(ledger, record))


def forget(
    ledger: Ledger,
    record: ExperimentRecord,
    which: Which,
    is_stopped: Callable[[], bool] = lambda: False,
    key: int | None = None,
) -> int:
    """Erase the ids of decisions and of their outcomes; how many decisions.

    Where it is cut short, or fails, what was erased stays erased; doing it again does the rest. So two who do it at
    the same time do it once. key: the number of the key that asked for it.
    """
    erasure = Erasure(int(time.time() * SECOND), record.number, 0, which.what, key)
    for chunk in _chunks(which.find(ledger, record)):
        if is_stopped():
            break
        begun = time.monotonic()
        with ledger.transaction() as transaction:
            known = transaction.lock(record.number, _NO_TAIL, [id for id, _ in chunk]).known
            if known:
                erasure = erasure._replace(ids=erasure.ids + len(known), through=chunk[-1][1])
                transaction.erase(known, erasure)
        time.sleep(max(LEAST_PAUSE, time.monotonic() - begun))
    if erasure.ids:
        logger.info("experiment %s: %d ids erased, %s", record.settings.name, erasure.ids, erasure.what)
    return erasure.ids


def _chunks(found: Iterable[tuple[str, int | None]]) -> Iterator[list[tuple[str, int | None]]]:
    found = iter(found)
    while chunk := list(islice(found, AT_ONCE)):
        yield chunk
