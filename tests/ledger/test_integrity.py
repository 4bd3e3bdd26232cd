"""`belated ledger verify` on what is no sound ledger: damaged, cut off, empty, of somebody else."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from belated.ledger import open_ledger, read_ledger
from belated.ledger.integrity import faults
from belated.ledger.reading import NEWEST, OtherVersion, ReadingLedger
from support.histories import belated, play, run
from support.serving import KINDS, Stores

Captured = pytest.CaptureFixture[str]
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def store(kind: str, tmp_path: Path) -> str:
    """A sound ledger."""
    store = Stores.fresh(kind, tmp_path)
    play(store)
    return store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sound ledger in a file, without a log."""
    play(f"sqlite:///{tmp_path / 'ledger.db'}", 400)
    return tmp_path / "ledger.db"


def faulty(capsys: Captured, store: str, *values: object) -> None:
    """Check that a ledger is found not to be sound, and that these values are named in what is said of it."""
    capsys.readouterr()
    assert belated("ledger", "verify", "--store", store, "--json") == 1
    said = capsys.readouterr()
    assert said.err == ""
    (found,) = json.loads(said.out)
    assert (found["experiment"], found["sound"]) == (None, False)
    words = " ".join(found["faults"])
    assert words
    assert [value for value in values if str(value) not in words] == [], words


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_ledger_is_sound(store: str, capsys: Captured) -> None:
    assert belated("ledger", "verify", "--store", store, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["experiment"], found["sound"], found["faults"]) == ("one", True, [])


def test_a_fault_is_told_without_json_too(store: str, capsys: Captured) -> None:
    run(store, "DROP INDEX outcomes_by_round")
    assert belated("ledger", "verify", "--store", store) == 1
    said = capsys.readouterr()
    assert (said.err, "FAULTY" in said.out, "outcomes_by_round" in said.out) == ("", True, True)


def test_a_ledger_without_experiments_is_sound(tmp_path: Path) -> None:
    store = Stores.fresh("sqlite", tmp_path)
    open_ledger(store).close()
    assert belated("ledger", "verify", "--store", store) == 0


@contextmanager
def without_index(path: Path, index: str) -> Iterator[None]:
    """Change the table while its index is not there to be changed."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        (row,) = connection.execute("SELECT * FROM sqlite_schema WHERE name = ?", (index,)).fetchall()
        connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (index,))
    yield
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", row)


def miss_rows_in_postgres(store: str, index: str) -> None:
    number = f"(SELECT oid FROM pg_class WHERE relname = '{index}')"
    run(store, f"UPDATE pg_index SET indisready = false, indisvalid = false WHERE indexrelid = {number}")
    run(store, "UPDATE events SET id = id || 'x', round = round + 1000000 WHERE number IN (7, 25)")
    run(store, f"UPDATE pg_index SET indisready = true, indisvalid = true WHERE indexrelid = {number}")


def test_a_damaged_index_of_a_file_is_found(file: Path, capsys: Captured) -> None:
    with without_index(file, "decisions_by_id"):
        run(f"sqlite:///{file}", "UPDATE events SET id = id || 'x' WHERE number = 7")
    faulty(capsys, f"sqlite:///{file}", "decisions_by_id")


def test_a_copy_by_rows_mends_a_damaged_index(file: Path, tmp_path: Path, capsys: Captured) -> None:
    with without_index(file, "outcomes_by_round"):
        play(f"sqlite:///{file}", name="two")
    faulty(capsys, f"sqlite:///{file}", "outcomes_by_round")
    mended = f"sqlite:///{tmp_path / 'mended.db'}"
    assert belated("ledger", "copy", "--from", f"sqlite:///{file}", "--to", mended) == 0
    capsys.readouterr()
    assert belated("ledger", "verify", "--store", mended, "--json") == 0
    assert [each["experiment"] for each in json.loads(capsys.readouterr().out)] == ["one", "two"]


@pytest.mark.parametrize("index", ["decisions_by_id", "outcomes_by_round"])
def test_an_index_of_postgres_without_some_rows_is_found(index: str, tmp_path: Path, capsys: Captured) -> None:
    store = Stores.fresh("postgresql", tmp_path)
    play(store)
    miss_rows_in_postgres(store, index)
    faulty(capsys, store, index, "events")


def test_an_index_of_postgres_in_a_wrong_order_is_found(tmp_path: Path, capsys: Captured) -> None:
    """As after an upgrade of the C library, which may change how texts are sorted."""
    store = Stores.fresh("postgresql", tmp_path)
    play(store)
    run(
        store,
        "DROP INDEX decisions_by_id",
        "CREATE UNIQUE INDEX decisions_by_id ON events (experiment, id DESC) WHERE kind = 1",
        # from now on the index says of itself that it goes up
        "UPDATE pg_index SET indoption = '0 0' WHERE indexrelid = 'decisions_by_id'::regclass",
    )
    faulty(capsys, store, "decisions_by_id")


def test_every_index_of_postgres_is_read_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the planner would like better: an index-only scan of each, of large tables too."""
    store = Stores.fresh("postgresql", tmp_path)
    play(store, 1000)
    run(store, "ANALYZE")
    plans = []
    inner: Any = psycopg.Connection.execute

    def explained(self: Any, statement: Any, *given: Any, **settings: Any) -> Any:
        if isinstance(statement, str) and "WINDOW" in statement:
            plans.append(str(inner(self, f"EXPLAIN {statement}").fetchall()))
        return inner(self, statement, *given, **settings)

    monkeypatch.setattr(psycopg.Connection, "execute", explained)
    with closing(read_ledger(store)) as ledger:
        assert faults(ledger) == []
    wanted = {row[0] for row in run(store, "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")}
    assert {"events_pkey", "decisions_by_id", "experiments_name_key", "keys_by_number"} <= wanted
    assert len(plans) == len(wanted)
    assert [name for name in wanted if not any(f"Index Only Scan using {name} " in plan for plan in plans)] == []


def test_an_index_that_postgres_does_not_trust_is_found(tmp_path: Path, capsys: Captured) -> None:
    store = Stores.fresh("postgresql", tmp_path)
    play(store)
    run(store, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outcomes_by_round'::regclass")
    faulty(capsys, store, "outcomes_by_round", "events")


@pytest.mark.parametrize("keep", ["half", "all but a page", "a part of a page", "the first page"])
def test_half_a_copy_is_found(file: Path, keep: str, capsys: Captured) -> None:
    size = file.stat().st_size
    left = {"half": size // 2, "all but a page": size - 4096, "a part of a page": size - 100, "the first page": 4096}
    with file.open("r+b") as opened:
        opened.truncate(left[keep])
    faulty(capsys, f"sqlite:///{file}")
    assert file.stat().st_size == left[keep]


def test_a_page_that_was_overwritten_is_found(file: Path, capsys: Captured) -> None:
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 8192 * 4096)
        opened.write(bytes(4096))
    faulty(capsys, f"sqlite:///{file}")


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("This is not a database. " * 50)


def foreign(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE visitors (name TEXT)")
        connection.execute("CREATE TABLE migrations (id TEXT)")


def only_history(path: Path) -> None:
    """What is left of a ledger whose tables were never made."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE migrations (number BIGINT PRIMARY KEY, name TEXT, applied BIGINT)")


@pytest.mark.parametrize("make", [empty, text, foreign, only_history])
def test_a_file_that_is_no_ledger_is_told_and_left_alone(
    make: Callable[[Path], None], tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "other.db"
    make(path)
    before = path.read_bytes()
    faulty(capsys, f"sqlite:///{path}")
    assert belated("ledger", "export", "one", "--store", f"sqlite:///{path}") == 2
    assert belated("ledger", "backup", tmp_path / "backup.db", "--store", f"sqlite:///{path}") == 2
    assert belated("ledger", "migrate", "--store", f"sqlite:///{path}") == 2
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["other.db"]


def test_a_database_that_is_no_ledger_is_told_and_left_alone(tmp_path: Path, capsys: Captured) -> None:
    store = Stores.fresh("postgresql", tmp_path)
    faulty(capsys, store)
    run(store, "CREATE TABLE visitors (name TEXT)", "CREATE TABLE migrations (id TEXT)")
    faulty(capsys, store, "migrations", "visitors")
    assert belated("ledger", "export", "one", "--store", store) == 2
    assert belated("ledger", "migrate", "--store", store) == 2
    assert run(store, "SELECT count(*) FROM pg_class WHERE relname = 'events'") == [(0,)]


@pytest.mark.parametrize("kind", KINDS)
def test_tables_beside_those_of_the_ledger_do_no_harm(store: str) -> None:
    run(store, "CREATE TABLE visitors (name TEXT)", "CREATE INDEX by_kind ON events (kind)")
    assert belated("ledger", "verify", "--store", store) == 0


MISSING: list[tuple[str, list[object]]] = [
    ("DROP INDEX outcomes_by_round", ["outcomes_by_round", "events"]),
    ("ALTER TABLE events DROP COLUMN mark", ["mark", "events"]),
    ("DROP TABLE probes", ["probes"]),
    ("DELETE FROM migrations WHERE number = 2", ["[1, 3"]),
    ("DELETE FROM migrations", ["[]"]),
    ("DELETE FROM experiments", [57, "experiment 1"]),
    ("UPDATE experiments SET position = position + 1", ["'one'", 57, 58]),
    ("DELETE FROM events WHERE number = 1", ["'one'", 56, "2 to 57", 57]),
    ("DELETE FROM events WHERE number = 9", ["'one'", 56, 57]),
    ("UPDATE events SET number = 0 WHERE number = 9", ["'one'", "0 to 57"]),
    ("UPDATE experiments SET rounds = rounds + 1", ["'one'", 40, 41]),
]


@pytest.mark.parametrize(
    ("kind", "statement", "values"),
    [*(("sqlite", *each) for each in MISSING), *(("postgresql", *each) for each in MISSING[:3])],
)
def test_what_is_missing_or_miscounted_is_told(
    store: str, statement: str, values: list[object], capsys: Captured
) -> None:
    run(store, statement)
    faulty(capsys, store, *values)


OTHER_INDEXES = [
    "CREATE INDEX outcomes_by_round ON events (experiment, round) WHERE kind = 2",
    "CREATE UNIQUE INDEX outcomes_by_round ON events (experiment, round) WHERE kind = 3",
    "CREATE UNIQUE INDEX outcomes_by_round ON events (experiment, number) WHERE kind = 2",
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_the_same_name_is_not_enough(store: str, capsys: Captured) -> None:
    for statement in OTHER_INDEXES:
        run(store, "DROP INDEX outcomes_by_round", statement)
        faulty(capsys, store, "outcomes_by_round")


def test_columns_and_keys_of_postgres_are_compared(tmp_path: Path, capsys: Captured) -> None:
    store = Stores.fresh("postgresql", tmp_path)
    play(store)
    run(store, "ALTER TABLE events ALTER COLUMN mark TYPE REAL", "ALTER TABLE events DROP CONSTRAINT events_pkey")
    faulty(capsys, store, "mark", "float4", "DOUBLE PRECISION", "()")


def test_a_newer_ledger_is_not_called_faulty(store: str, capsys: Captured) -> None:
    run(store, f"INSERT INTO migrations (number, name, applied) VALUES ({NEWEST + 1}, 'to come', 0)")
    for command in (["verify"], ["export", "one"], ["migrate"]):
        assert belated("ledger", *command, "--store", store) == 2
        assert f"migration {NEWEST + 1}" in capsys.readouterr().err


def test_an_older_ledger_is_told_to_be_old_and_migrated_on_demand(tmp_path: Path, capsys: Captured) -> None:
    path = Path(shutil.copy(DATA / "ledger-v1.sqlite", tmp_path / "ledger.db"))
    store = f"sqlite:///{path}"
    before = path.read_bytes()
    for command in (["verify"], ["export", "button"]):
        assert belated("ledger", *command, "--store", store) == 2
        said = capsys.readouterr()
        assert [word for word in ("migration 1", str(NEWEST), "belated ledger migrate") if word not in said.err] == []
        assert said.out == ""
    assert path.read_bytes() == before
    assert belated("ledger", "migrate", "--store", store) == 0
    assert f"{NEWEST}: " in capsys.readouterr().out
    assert belated("ledger", "migrate", "--store", store) == 0
    assert f"{NEWEST}: " not in capsys.readouterr().out
    assert belated("ledger", "verify", "--store", store) == 0


def test_an_older_ledger_that_is_damaged_is_faulty(tmp_path: Path, capsys: Captured) -> None:
    path = Path(shutil.copy(DATA / "ledger-v1.sqlite", tmp_path / "ledger.db"))
    run(f"sqlite:///{path}", "DROP INDEX outcomes_by_round")
    faulty(capsys, f"sqlite:///{path}", "outcomes_by_round")


def test_readers_know_what_is_current(store: str) -> None:
    reader = open_ledger(store, read_only=True)
    assert isinstance(reader, ReadingLedger)
    reader.close()
    run(store, f"DELETE FROM migrations WHERE number = {NEWEST}")
    with pytest.raises(OtherVersion):
        open_ledger(store, read_only=True)
