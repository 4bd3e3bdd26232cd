"""A ledger under a test's control, and its workers compared with the model of an experiment."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from belated import Bandit
from belated.api.types import Deadline, DecisionResponse, OutcomeReceipt
from belated.core.rounds import COUNTERS
from belated.ledger.base import LedgerUnavailable, LockedExperiment, Transaction, Uncertain, Wanted
from belated.ledger.commands import Answer, Read, View
from belated.ledger.events import SECOND, Event, ExperimentSettings, Kind
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.live.recorded import RecordedBandit
from support.ledger_helpers import MOST
from support.model import Model

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
