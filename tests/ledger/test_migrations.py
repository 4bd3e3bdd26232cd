"""How the tables of a ledger come about: recorded, once, wholly or not at all, whoever begins at the same time."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from belated.ledger import open_ledger
from belated.ledger.base import LedgerUnavailable, NewerLedger
from belated.ledger.migrations import MIGRATIONS, Migration
from belated.ledger.postgres import PostgresLedger
from belated.ledger.sql import SqlLedger
from support.ledger_helpers import append, decision, experiment, together
from support.refusals import refused
from support.serving import KINDS, Stores

NAMES = [migration.name for migration in MIGRATIONS]
NEXT = MIGRATIONS[-1].number + 1
GOOD = Migration(NEXT, "a table", ("CREATE TABLE first_of_two (number BIGINT, state {bytes})",))
BAD = Migration(
    NEXT + 1,
    "a table and a mistake",
    ("CREATE TABLE second_of_two (number BIGINT)", "ALTER TABLE events ADD COLUMN more BIGINT", "CREATE TABEL x (n)"),
)
MENDED = BAD._replace(statements=BAD.statements[:2])


def closed(store: str) -> SqlLedger:
    """A ledger on a store that nobody has migrated yet."""
    if store.startswith("sqlite"):
        from belated.ledger.sqlite import SqliteLedger

        return SqliteLedger(store.removeprefix("sqlite:///"))
    return PostgresLedger(store)


@pytest.fixture
def ledger(store: str) -> Iterator[SqlLedger]:
    with closing(closed(store)) as ledger:
        yield ledger


def asked(ledger: SqlLedger, question: str) -> list[tuple[object, ...]]:
    with ledger.connection() as connection:
        return [tuple(row) for row in ledger.run(connection, question)]


def history(ledger: SqlLedger) -> list[tuple[object, ...]]:
    return asked(ledger, "SELECT number, name FROM migrations ORDER BY number")


@pytest.mark.parametrize("kind", KINDS)
def test_migrations_are_recorded_and_run_once(ledger: SqlLedger) -> None:
    before = time.time()
    assert ledger.migrate() == NAMES
    assert ledger.migrate() == []
    assert history(ledger) == [(migration.number, migration.name) for migration in MIGRATIONS]
    for (applied,) in asked(ledger, "SELECT applied FROM migrations"):
        assert isinstance(applied, int)
        assert abs(applied / 1e6 - before) < 60
    record = experiment(ledger)
    append(ledger, record.number, [decision(1, 1)])
    assert ledger.migrate([*MIGRATIONS, GOOD]) == [GOOD.name]
    assert ledger.migrate([*MIGRATIONS, GOOD]) == []
    assert asked(ledger, "SELECT number, state FROM first_of_two") == []
    assert ledger.events(record.number) == [decision(1, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_migration_that_fails_nothing_stays(ledger: SqlLedger) -> None:
    with refused(None, "TABEL", error=LedgerUnavailable):
        ledger.migrate([*MIGRATIONS, GOOD, BAD])
    known = [*((migration.number, migration.name) for migration in MIGRATIONS), (GOOD.number, GOOD.name)]
    assert history(ledger) == known
    for question in ("SELECT number FROM second_of_two", "SELECT more FROM events"):
        with pytest.raises(LedgerUnavailable):
            asked(ledger, question)
    record = experiment(ledger)
    append(ledger, record.number, [decision(1, 1)])
    assert ledger.migrate([*MIGRATIONS, GOOD, MENDED]) == [MENDED.name]
    assert asked(ledger, "SELECT more FROM events") == [(None,)]
    assert asked(ledger, "SELECT number FROM second_of_two") == []
    assert history(ledger) == [*known, (MENDED.number, MENDED.name)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_migration_leaves_nothing_either(ledger: SqlLedger) -> None:
    with pytest.raises(LedgerUnavailable):
        ledger.migrate([MIGRATIONS[0]._replace(statements=(*MIGRATIONS[0].statements, "nonsense"))])
    assert history(ledger) == []
    assert ledger.migrate() == NAMES


def test_a_ledger_made_by_a_newer_version_is_refused_and_stays_as_it_is(store: str, ledger: SqlLedger) -> None:
    ledger.migrate([*MIGRATIONS, GOOD, MENDED])
    before = history(ledger)
    with refused(None, MENDED.number, error=NewerLedger):
        open_ledger(store)
    assert history(ledger) == before
    assert ledger.migrate([*MIGRATIONS, GOOD, MENDED]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_migrate_at_once_migrate_once(store: str) -> None:
    ledgers = [closed(store) for _ in range(6)]
    done: list[str] = []
    together([partial(lambda ledger: done.extend(ledger.migrate()), ledger) for ledger in ledgers])
    assert sorted(done) == sorted(NAMES)  # several threads may have done one each
    assert history(ledgers[0]) == [(migration.number, migration.name) for migration in MIGRATIONS]
    for ledger in ledgers:
        ledger.close()


# Forks processes that open the ledger of a store at the same moment, store by store; says what any of them raised.
AT_ONCE = """
import os, sys
from belated.ledger import open_ledger, postgres, sqlite
for store in sys.argv[1:]:
    gate, opened = os.pipe()
    children = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os.close(opened)
            os.read(gate, 1)
            try:
                open_ledger(store).close()
            except BaseException as error:
                print(repr(error), flush=True)
            os._exit(0)
        children.append(child)
    os.close(gate)
    os.close(opened)
    for child in children:
        os.waitpid(child, 0)
"""


@pytest.mark.parametrize("files", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_processes_that_open_a_new_ledger_at_once_all_find_it_ready(tmp_path: Path, files: int) -> None:
    stores = [Stores.fresh("postgresql", tmp_path)]
    for k in range(files):
        (tmp_path / str(k)).mkdir()
        stores.append(Stores.fresh("sqlite", tmp_path / str(k)))
    done = subprocess.run([sys.executable, "-c", AT_ONCE, *stores], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    for store in stores:
        with closing(closed(store)) as ledger:
            assert history(ledger) == [(migration.number, migration.name) for migration in MIGRATIONS]


def test_a_new_file_that_another_process_begins_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.db"
    waits: list[float] = []
    with closing(apsw.Connection(str(path))) as another, closing(closed(f"sqlite:///{path}")) as ledger:
        another.execute("BEGIN IMMEDIATE")  # as one does who makes it a file with a write-ahead log

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                another.execute("COMMIT")

        monkeypatch.setattr(time, "sleep", wait)
        assert ledger.migrate() == NAMES
    assert len(waits) >= 3


def test_a_store_that_makes_no_sense_is_refused() -> None:
    for store in ("", "ledger.db", "sqlite://ledger.db", "sqlite:///", "mysql://localhost/x", "postgresql:x"):
        with refused(None, error=ValueError):
            open_ledger(store)
