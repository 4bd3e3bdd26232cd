"""One experiment on a ledger whose clock a test sets: commands in, receipts, events and verdicts out."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from belated.api.types import Deadline, DecisionResponse, OutcomeReceipt, OutcomeScale, Reports, ShareLimits
from belated.ledger import open_ledger
from belated.ledger.commands import Answer, Command, Decide, Refused, View
from belated.ledger.events import SECOND, Event, ExperimentRecord, ExperimentSettings, Kind
from belated.ledger.observing import Observe, Report
from belated.ledger.processor import CommandProcessor
from belated.ledger.sql import SqlLedger
from belated.ledger.state import ExperimentState
from belated.ledger.verify import verify
from support.ledger_helpers import MOST
from support.protocol_model import START, Controls, read
from support.serving import Stores

NAME = "one"
REVENUE = OutcomeScale(0.0, 200.0)
DEADLINE = Deadline(10.0, 0.9)


class Played:
    """An experiment and its workers."""

    def __init__(self, ledger: SqlLedger, record: ExperimentRecord) -> None:
        self.ledger = ledger
        self.controls = Controls(ledger)
        self.number = record.number
        self.worker = CommandProcessor(ledger)

    def another(self) -> CommandProcessor:
        """A worker that has yet to read all."""
        return CommandProcessor(self.ledger)

    def wait(self, seconds: float) -> None:
        self.controls.now += int(seconds * SECOND)

    def run(self, *commands: Command) -> list[Answer]:
        return self.worker.run(commands)

    def decide(self, *ids: str) -> list[DecisionResponse]:
        (answer,) = self.run(Decide(NAME, ids))
        assert isinstance(answer, list), answer
        return [each for each in answer if isinstance(each, DecisionResponse)]

    def receipts(self, *reports: Report) -> list[OutcomeReceipt]:
        (answer,) = self.run(Observe(NAME, reports))
        assert isinstance(answer, list), answer
        return [each for each in answer if isinstance(each, OutcomeReceipt)]

    def report(self, *reports: Report) -> list[tuple[str, str | None]]:
        """What reports are answered with, and what repeated ones say of the first."""
        return [(each.receipt, each.first or None) for each in self.receipts(*reports)]

    def done(self, *commands: Command) -> None:
        for answer in self.run(*commands):
            assert isinstance(answer, View | bool), answer

    def refused(self, command: Command) -> Refused:
        """Why; nothing has changed, and everybody agrees on that."""
        before = self.events, self.state.to_bytes()
        (answer,) = self.run(command)
        assert isinstance(answer, Refused), answer
        assert (self.events, self.state.to_bytes()) == before
        return answer

    @property
    def record(self) -> ExperimentRecord:
        record = self.ledger.find(NAME)
        assert record is not None
        return record

    @property
    def events(self) -> list[Event]:
        return self.ledger.events(self.number)

    def of(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    @property
    def state(self) -> ExperimentState:
        return read(self.worker, NAME).state

    def write(self, statement: str, *given: object) -> None:
        """Behind the back of the ledger."""
        with self.ledger.committing() as connection:
            self.ledger.run(connection, statement, given)

    def faults(self) -> list[str]:
        return verify(self.ledger, self.record).faults

    def check(self) -> None:
        """Workers old and new have the same state, bit for bit, that of whoever reads all from the beginning."""
        state = self.state
        for worker in (self.another(), self.worker):
            assert read(worker, NAME).state.to_bytes() == state.to_bytes()
        verdict = verify(self.ledger, self.record, (state.position, state.digest()))
        assert verdict.faults == verdict.notes == []
        assert verdict.compared >= 1


@contextmanager
def playing(store: str, arms: Sequence[str | int] = ("a", "b", "c"), **settings: Any) -> Iterator[Played]:
    with closing(open_ledger(store)) as ledger:
        assert isinstance(ledger, SqlLedger)
        yield begun(ledger, arms, **settings)


def begun(
    ledger: SqlLedger,
    arms: Sequence[str | int] = ("a", "b", "c"),
    learner: str = "balanced",
    *,
    deadline: Deadline | None = None,
    share_floor: float | None = None,
    outcome: OutcomeScale | None = None,
    reports: Reports = "first",
    limits: ShareLimits | None = None,
    parameters: dict[str, float | str] | None = None,
) -> Played:
    wanted = ExperimentSettings(
        NAME, list(arms), learner, parameters or {}, 5, deadline or "wait", share_floor, outcome, reports, limits
    )
    record, _ = ledger.create(wanted, START, MOST)
    return Played(ledger, record)


def fresh(kind: str, folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return Stores.fresh(kind, folder / name)
