"""Messages of the ledger: what is refused, what is wrong with a file, what `verify` finds."""

import logging
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from belated.api.types import ArmLimit, OutcomeScale, ShareLimits
from belated.ledger import open_ledger
from belated.ledger.changing import AddArm, MoveArm, ReportFallbacks, SetLimits
from belated.ledger.clock import Clock
from belated.ledger.commands import Change, Command, Decide, Refused
from belated.ledger.events import SECOND, ApiKey, Status
from belated.ledger.keys import ensure_admin, new_key
from belated.ledger.observing import Report
from belated.ledger.reading import NEWEST
from belated.ledger.sql import SqlLedger
from support.histories import belated, play, run
from support.ledger_helpers import settings
from support.played import DEADLINE, NAME, REVENUE, Played, begun, playing
from support.protocol_model import START

DATA = Path(__file__).parents[1] / "data"
Case = Callable[[Path], object]


STORE, OTHER = "sqlite:///ledger.db", "sqlite:///other.db"
"""In the folder of a case, which is the current one: lines break at the same place wherever that is."""


def commands(*before: Command, asked: list[Command], learner: str = "balanced") -> Case:
    """What commands are told that are refused."""

    def case(_: Path) -> str:
        with playing(STORE, learner=learner) as played:
            played.run(*before)
            return "\n".join(answer.message for answer in played.run(*asked) if isinstance(answer, Refused))

    return case


def reports(*asked: Report, **wanted: Any) -> Case:
    """What reports are told that are refused, or contradict others."""

    def case(_: Path) -> str:
        with playing(STORE, **wanted) as played:
            played.decide("d", "e")
            return "\n".join(str(each.message) for each in played.receipts(*asked) if each.message)

    return case


def tampered(*changes: str) -> Case:
    """The first fault that is found after each change of the events of a sound ledger, each by itself."""

    def case(_: Path) -> str:
        with playing(STORE, outcome=REVENUE, reports="sum", deadline=DEADLINE) as played:
            played.decide("d", "e", "f")
            played.report(Report("d", None, 30.0, "r1"), Report("d", None, 20.0, "r2"), Report("d", final=True))
            played.wait(10)
            played.done(AddArm(NAME, "new"), MoveArm(NAME, "a", True), Change(NAME, Status.PAUSED))
            assert played.faults() == []
            return "\n".join(_first_fault(played, change) for change in changes)

    return case


def _first_fault(played: Played, change: str) -> str:
    before = run(played.ledger.store, "SELECT * FROM events")
    run(played.ledger.store, change)
    (fault, *_) = played.faults()
    marks = ", ".join("?" * len(before[0]))
    with played.ledger.committing() as connection:
        played.ledger.run(connection, "DELETE FROM events")
        for row in before:
            played.ledger.run(connection, f"INSERT INTO events VALUES ({marks})", row)
    return fault


def verified(*changes: str) -> Case:
    """What `belated ledger verify` says of a ledger that was changed."""

    def case(_: Path) -> None:
        play(STORE, 8)
        run(STORE, *changes)
        belated("ledger", "verify", "--store", STORE)

    return case


def file_of(make: Callable[[Path], object], *action: str) -> Case:
    """What is said of a file."""

    def case(_: Path) -> None:
        make(Path("ledger.db"))
        belated("ledger", *action, "--store", STORE)

    return case


def refused_backups(_: Path) -> None:
    play(STORE, 8)
    play(OTHER, 8)
    with closing(open_ledger(OTHER)) as other:
        other.probe()
        for target in ("ledger.db", "other.db", "none/b.db"):
            belated("ledger", "backup", target, "--store", STORE, "--force")
    Path("there").touch()
    belated("ledger", "backup", Path("there"), "--store", STORE)
    belated("ledger", "copy", "--from", STORE, "--to", OTHER)


def unsound_backup(_: Path) -> None:
    play(STORE, 8)
    run(STORE, "DELETE FROM events WHERE number = 3")
    belated("ledger", "restore", Path("ledger.db"), "--store", "sqlite:///new.db")


def key(**more: object) -> Case:
    return lambda _: new_key(**{"name": "ci", "role": "decide", **more})  # type: ignore[arg-type]


def admin_key(change: Callable[[ApiKey], ApiKey]) -> Case:
    """What is said of a key in BELATED_ADMIN_KEY that is not the administrator's."""

    def case(_: Path) -> None:
        secret = "a-key-of-twenty-characters"
        with closing(open_ledger(STORE)) as ledger:
            ledger.add_key(change(new_key("ci", "admin", secret)[1]))
            ensure_admin(ledger, secret)

    return case


def in_ledger(use: Callable[[SqlLedger], object]) -> Case:
    def case(_: Path) -> object:
        with closing(open_ledger(STORE)) as ledger:
            assert isinstance(ledger, SqlLedger)
            return use(ledger)

    return case


def closed(ledger: SqlLedger) -> None:
    ledger.close()
    ledger.find("one")


def created_again(ledger: SqlLedger) -> None:
    ledger.create(settings("one"), 0, 1)
    ledger.create(settings("one", learner="robust"), 0, 1)


def one_too_many(ledger: SqlLedger) -> None:
    ledger.create(settings("one"), 0, 1)
    ledger.create(settings("two"), 0, 1)


def damaged(ledger: SqlLedger) -> str:
    played = begun(ledger)
    played.decide("d", "e")
    played.write("DELETE FROM events WHERE number = 1")
    played.worker = played.another()
    logging.disable()
    try:
        (answer,) = played.run(Decide(NAME, ["f"]))
    finally:
        logging.disable(logging.NOTSET)
    assert isinstance(answer, Refused)
    return answer.message


def clock_that_jumps(_: Path) -> str:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("belated.ledger")
    logger.addHandler(handler)
    seconds = 0
    clock = Clock(steady=lambda: seconds * SECOND)
    try:
        for seconds, off in ((0, 0), (1, 3600), (2, 0), (3, -3600), (700, -3600)):
            clock.read(START + (seconds + off) * SECOND)
    finally:
        logger.removeHandler(handler)
    return "\n".join(said)


LIMITED = SetLimits(NAME, ShareLimits([ArmLimit("a", ceiling=0.4), ArmLimit("b", ceiling=0.4)]))
PAID = Report("d", None, 30.0, "r1")

CASES: dict[str, Case] = {
    "commands: arms that cannot come or go": commands(
        MoveArm(NAME, "a", True),
        asked=[
            AddArm(NAME, "a"),
            MoveArm(NAME, "nobody", True),
            ReportFallbacks(NAME, "f", "nobody", 1),
            MoveArm(NAME, "b", True),
        ],
    ),
    "commands: a label that reads like another": commands(AddArm(NAME, 7), asked=[AddArm(NAME, "7")]),
    "commands: a learner that cannot change its arms": commands(asked=[AddArm(NAME, "d")], learner="bold"),
    "commands: limits that cannot be kept": commands(
        LIMITED,
        asked=[
            MoveArm(NAME, "c", True),
            *(
                SetLimits(NAME, ShareLimits(list(arms), holdout))
                for arms, holdout in [
                    ((ArmLimit("a", 0.6), ArmLimit("b", 0.6)), 0.0),
                    ((ArmLimit("b", ceiling=0.2),), 0.9),
                    ((ArmLimit("b", 0.5, 0.4),), 0.0),
                    ((ArmLimit("nobody", 0.5),), 0.0),
                    ((ArmLimit("b", 0.1), ArmLimit("b", 0.2)), 0.0),
                    ((ArmLimit("b", 0.1, None, 0.2),), 0.0),
                ]
            ),
        ],
    ),
    "commands: a paused experiment": commands(Change(NAME, Status.PAUSED), asked=[Decide(NAME, ["x"])]),
    "commands: an archived experiment": commands(
        Change(NAME, Status.ARCHIVED), asked=[Decide(NAME, ["x"]), Change(NAME, Status.ACTIVE), AddArm(NAME, "d")]
    ),
    "commands: no such experiment": commands(asked=[Decide("nowhere", ["x"])]),
    "commands: a damaged experiment": in_ledger(damaged),
    "reports: where they are added up": reports(
        PAID,
        Report("d", None, 31.0, "r1"),
        Report("d", None, 30.0),
        Report("d", 0.5, id="r2"),
        Report("d", None, 180.0, "r3"),
        Report("e", None, 201.0, "r4"),
        Report("e", final=True),
        Report("nobody", None, 1.0, "r5"),
        outcome=OutcomeScale(0.0, 200.0, beyond="refuse"),
        reports="sum",
    ),
    "reports: where the first stays": reports(
        Report("d", 0.5), Report("d", 0.25), Report("d", None, 1.0), Report("e", 0.5, final=True)
    ),
    "verify: events that do not fit": tampered(
        "DELETE FROM events WHERE number = 2",
        "UPDATE events SET arm = 9 WHERE number = 1",
        "UPDATE events SET arm = (arm + 1) % 3 WHERE number = 4",
        "UPDATE events SET at = at - 1 WHERE number = 2",
        "UPDATE events SET total = 50.5 WHERE number = 5",
        "UPDATE events SET round = 99 WHERE number = 5",
        "UPDATE events SET loss = 0.5 WHERE kind = 7",
        "UPDATE events SET total = 51 WHERE kind = 7",
        "UPDATE events SET at = at - 1, waited = waited - 1 WHERE number = 7",
        "UPDATE events SET kind = 10 WHERE kind = 9",
        "UPDATE events SET detail = 'd' WHERE kind = 9",
        "DELETE FROM events WHERE kind = 4",
    ),
    "verify: an index is missing": verified("DROP INDEX outcomes_by_round"),
    "verify: a column is missing": verified("ALTER TABLE events DROP COLUMN mark"),
    "verify: a table is missing": verified("DROP TABLE probes"),
    "verify: another index": verified(
        "DROP INDEX statuses_by_number", "CREATE INDEX statuses_by_number ON events (at)"
    ),
    "verify: a migration is missing": verified("DELETE FROM migrations WHERE number = 2"),
    "verify: an experiment is missing": verified("DELETE FROM experiments"),
    "verify: an event is missing": verified("DELETE FROM events WHERE number = 9"),
    "verify: rounds are miscounted": verified("UPDATE experiments SET rounds = rounds + 1"),
    "verify: no file": file_of(lambda path: None, "verify"),
    "verify: an empty file": file_of(Path.touch, "verify"),
    "verify: a text": file_of(lambda path: path.write_text("This is not a database. " * 50), "verify"),
    "verify: another database": file_of(lambda path: run(f"sqlite:///{path}", "CREATE TABLE visitors (n)"), "verify"),
    "verify: an older ledger": file_of(lambda path: shutil.copy(DATA / "ledger-v1.sqlite", path), "verify"),
    "verify: a newer ledger": verified(f"INSERT INTO migrations VALUES ({NEWEST + 1}, 'to come', 0)"),
    "backup and copy: what is in the way": refused_backups,
    "restore: a backup that is not sound": unsound_backup,
    "keys: a role": key(role="boss"),
    "keys: a name": key(name=""),
    "keys: a short secret": key(secret="short"),
    "keys: a pattern": key(experiments=["a b"]),
    "keys: an end that is past": key(expires=0),
    "keys: a rate": key(rate=0.0),
    "admin key: a lesser role": admin_key(lambda made: made._replace(role="read")),
    "admin key: some experiments only": admin_key(lambda made: made._replace(experiments=("one",))),
    "admin key: expired": admin_key(lambda made: made._replace(expires=START - 10**9 * SECOND)),
    "experiments: the same name": in_ledger(created_again),
    "experiments: too many": in_ledger(one_too_many),
    "a ledger that is closed": in_ledger(closed),
    "a store that makes no sense": lambda _: open_ledger("mysql://localhost/x"),
    "a clock that jumps": clock_that_jumps,
}
