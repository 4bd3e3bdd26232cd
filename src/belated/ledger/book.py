"""A worker's book: what it knows of each experiment, and the protocol by which it answers.

`Book.run` takes commands that came together, of any experiments, and answers them in the order in which they came, all
in one turn of the ledger: group commit. Nobody hears an answer before it is committed. Where the commit fails, what
this worker had in mind is thrown away and read anew.
"""

import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from belated.errors import SnapshotError
from belated.ids import new_id
from belated.ledger.contract import Ledger, LedgerUnavailable, Opened, Turn, Uncertain
from belated.ledger.events import SECOND, Event, Fate, Known, Record, Status
from belated.ledger.fold import Fold
from belated.wire import Deadline, Decision, OutcomeReceipt

SNAPSHOT_EVERY = 20_000
"""Events from one snapshot to the next, at least."""
BYTES_AN_EVENT = 100
"""A snapshot waits until there are so many of its bytes for each event: writing it costs less than the events did."""
RESOLVE_SECONDS = 5.0
"""How long to find out whether a commit went through, when the ledger was lost in the middle of it."""


class Decide(NamedTuple):
    """Decisions under these ids; None: make one."""

    name: str
    ids: Sequence[str | None]


class Observe(NamedTuple):
    """Outcomes: (id of the decision, loss)."""

    name: str
    outcomes: Sequence[tuple[str, float]]


class Change(NamedTuple):
    """A new status."""

    name: str
    status: Status


class Read(NamedTuple):
    """The state."""

    name: str


class Settle(NamedTuple):
    """Take the default losses of decisions whose deadline has passed; keep a snapshot if one is wanted."""

    name: str
    snapshot: bool = False


Command = Decide | Observe | Change | Read | Settle


class Refused(NamedTuple):
    """Why a command was not carried out."""

    code: str
    message: str
    field: str | None = None


class View(NamedTuple):
    """An experiment as it is read: its record, its status and its state. Valid until the next turn."""

    record: Record
    status: Status
    fold: Fold


Answer = list[Decision] | list[OutcomeReceipt] | View | Refused | None

RECEIPTS: dict[int, Literal["used", "skipped"]] = {Fate.USED: "used", Fate.SKIPPED: "skipped", Fate.LATE: "skipped"}


class _Page:
    """An experiment in a worker's book."""

    def __init__(self, record: Record, fold: Fold) -> None:
        self.record = record
        self.fold = fold
        self.looked_at = fold.last_default
        """The number of an event up to which every decision has an outcome: at least the round of the last default."""
        self.snapshot_bytes = 0
        """Of the last one that this worker kept."""
        self.wake = 0
        """No deadline passes before this time."""


class Book:
    """What one worker knows. Not for two threads at once, unless they run commands of different experiments."""

    def __init__(self, ledger: Ledger, snapshot_every: int = SNAPSHOT_EVERY) -> None:
        self.ledger = ledger
        self._pages: dict[str, _Page] = {}
        self._snapshot_every = snapshot_every

    def run(self, commands: Sequence[Command]) -> list[Answer]:
        """The answers, committed. `LedgerUnavailable`: none of it happened; `Uncertain`: all of it or nothing."""
        answers: list[Answer] = [None] * len(commands)
        waiting: dict[str, list[int]] = {}
        for k, command in enumerate(commands):
            waiting.setdefault(command.name, []).append(k)
        while waiting:
            pages = {name: self._page(name) for name in sorted(waiting)}
            written: list[tuple[str, Event]] = []
            done: list[str] = []
            try:
                with self.ledger.turn() as turn:
                    for name, page in pages.items():
                        if page is None:
                            for k in waiting[name]:
                                answers[k] = Refused("unknown_experiment", f"there is no experiment {name!r}", "name")
                        if page is None or self._take(turn, page, commands, waiting[name], answers, written):
                            done.append(name)
            except Uncertain as error:
                self._forget(waiting)
                self._find_out(written, error)
            except BaseException:
                self._forget(waiting)
                raise
            for name in done:
                del waiting[name]
        return answers

    def _forget(self, names: Sequence[str] | dict[str, Any]) -> None:
        for name in names:
            self._pages.pop(name, None)

    def _page(self, name: str) -> _Page | None:
        page = self._pages.get(name)
        if page is None:
            record = self.ledger.find(name)
            if record is None:
                return None
            page = self._pages[name] = _Page(record, load(self.ledger, record))
        return page

    def _find_out(self, written: list[tuple[str, Event]], cause: Uncertain) -> None:
        """Whether a turn was committed whose end nobody saw: return if so, raise if not.

        What is refused must stay away: a commit that SQLite wrote but could not sync would come back after a crash,
        unless another one has been written over it.
        """
        give_up = time.monotonic() + RESOLVE_SECONDS
        while written:
            try:
                recorded = self._is_recorded(*written[0])
                if not recorded:
                    self.ledger.probe()
            except LedgerUnavailable as error:
                if time.monotonic() > give_up:
                    raise Uncertain(
                        f"{error}; whether it was recorded is not known: ask again with the same id"
                    ) from error
                time.sleep(0.1)
                continue
            if recorded:
                return
            raise LedgerUnavailable(f"{cause}; nothing was recorded")

    def _is_recorded(self, name: str, event: Event) -> bool:
        """Whether an event is in the ledger. Taking the experiment's next turn waits until the lost one is over."""
        record = self.ledger.find(name)
        if record is None:
            return False
        with self.ledger.turn() as turn:
            turn.open(record.key, record.events, [])
        return self.ledger.events(record.key, event.number - 1, 1) == [event]

    def _take(
        self,
        turn: Turn,
        page: _Page,
        commands: Sequence[Command],
        mine: list[int],
        answers: list[Answer],
        written: list[tuple[str, Event]],
    ) -> bool:
        """Answer the commands of one experiment; False where so many deadlines had passed that they took the turn."""
        ids: list[str] = []
        snapshot = False
        for k in mine:
            command = commands[k]
            if isinstance(command, Decide):
                ids += [id for id in command.ids if id is not None]
            elif isinstance(command, Observe):
                ids += [id for id, _ in command.outcomes]
            elif isinstance(command, Settle):
                snapshot = snapshot or command.snapshot
        record, fold = page.record, page.fold
        opened = turn.open(record.key, fold.position, ids)
        for event in opened.tail:
            fold.apply(event)
        now = max(opened.now, fold.at)
        events: list[Event] = []
        status = opened.status
        settled = self._settle(turn, page, opened, now, events)
        if settled:
            for k in mine:
                command = commands[k]
                if isinstance(command, Decide):
                    answers[k] = _decide(fold, status, command, opened.known, now, events)
                elif isinstance(command, Observe):
                    answers[k] = _observe(fold, command, opened.known, now, events)
                elif isinstance(command, Change):
                    answers[k], status = _change(page, status, command, now, events)
                elif isinstance(command, Read):
                    answers[k] = View(record, status, fold)
        if events:
            written.append((record.settings.name, events[0]))
            turn.append(record.key, events, status, fold.bandit.rounds)
        since = fold.position - opened.snapshot
        if since >= max(self._snapshot_every, page.snapshot_bytes // BYTES_AN_EVENT) or (snapshot and since):
            state = fold.to_bytes()
            turn.keep(record.key, fold.position, state)
            page.snapshot_bytes = len(state)
        return settled

    def _settle(self, turn: Turn, page: _Page, opened: Opened, now: int, events: list[Event]) -> bool:
        """Take the default losses that are due, in the order of the decisions; False where more may be due."""
        missing = page.record.settings.missing
        if not isinstance(missing, Deadline) or now < page.wake:
            return True
        span = int(missing.deadline * SECOND)
        due = turn.due(page.record.key, page.looked_at, now - span)
        for id, known in due.decisions:
            events.append(page.fold.default(id, known, missing.loss, now))
            if id in opened.known:
                opened.known[id] = opened.known[id]._replace(defaulted=True)
        page.looked_at = due.looked_at
        page.wake = 0 if due.more else (now if due.next is None else due.next) + span
        return not due.more

    def names(self) -> list[str]:
        """The experiments that this worker has met."""
        return list(self._pages)

    def wake(self, name: str) -> int:
        """No deadline of this experiment passes before this time; 0 where that is not known."""
        page = self._pages.get(name)
        return page.wake if page else 0


def load(ledger: Ledger, record: Record) -> Fold:
    """The state of an experiment: the newest snapshot that can be read, and the events after it."""
    fold = None
    for _, state in ledger.snapshots(record.key):
        try:
            fold = Fold.from_bytes(record.settings, state)
            break
        except SnapshotError:
            continue
    fold = fold or Fold(record.settings)
    for events in ledger.all_events(record.key, fold.position):
        for event in events:
            fold.apply(event)
    return fold


def _decide(
    fold: Fold, status: Status, command: Decide, known: dict[str, Known], now: int, events: list[Event]
) -> list[Decision] | Refused:
    arms = fold.settings.arms
    if status != Status.ACTIVE and any(id is None or id not in known for id in command.ids):
        word = status.name.lower()
        return Refused(word, f"experiment {fold.settings.name!r} is {word}: it decides nothing new")
    answers = []
    for id in command.ids:
        if id is None:
            id = new_id(now)
        before = known.get(id)
        if before is None:
            event = fold.decide(id, now)
            events.append(event)
            _, _, _, number, _, arm, propensity, _, _, _ = event
            known[id] = Known(number, arm, propensity, now, None, 0, False)
            answers.append(Decision(id, number, arms[arm], propensity))
        else:
            answers.append(Decision(id, before.round, arms[before.arm], before.propensity))
    return answers


def _observe(
    fold: Fold, command: Observe, known: dict[str, Known], now: int, events: list[Event]
) -> list[OutcomeReceipt]:
    answers = []
    for id, loss in command.outcomes:
        before = known.get(id)
        if before is None:
            message = f"there is no decision {id!r} in experiment {fold.settings.name!r}"
            answers.append(OutcomeReceipt(id, "unknown", message=message))
        elif before.loss is None:
            event = fold.observe(id, before, loss, now)
            events.append(event)
            known[id] = before._replace(loss=loss, fate=event.fate)
            answers.append(OutcomeReceipt(id, RECEIPTS[event.fate]))
        elif before.loss == loss:
            answers.append(OutcomeReceipt(id, "repeated", RECEIPTS[before.fate]))
        else:
            message = f"decision {id!r} has the outcome {before.loss}, which {loss} contradicts; the first one stays"
            answers.append(OutcomeReceipt(id, "conflict", message=message))
    return answers


def _change(
    page: _Page, status: Status, command: Change, now: int, events: list[Event]
) -> tuple[View | Refused, Status]:
    if status == Status.ARCHIVED and command.status != Status.ARCHIVED:
        name = page.record.settings.name
        return Refused("archived", f"experiment {name!r} is archived, for good"), status
    if status != command.status:
        events.append(page.fold.change(command.status, now))
    return View(page.record, command.status, page.fold), command.status
