"""Backups under full load, and what is made of them again."""

import os
import re
import resource
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from belated.ledger import backup, open_ledger, sqlite_path
from belated.ledger.commands import Decide
from belated.ledger.processor import CommandProcessor
from belated.ledger.reading_sqlite import SqliteReader
from support.histories import belated, contents, files, play, run
from support.http_helpers import at, create, decide, talk
from support.serving import KINDS, Server, Stores
from support.waiting import until

Captured = pytest.CaptureFixture[str]
CONNECTIONS = 4


@pytest.fixture
def store(kind: str, tmp_path: Path) -> str:
    """A ledger with a history."""
    (tmp_path / "store").mkdir()
    store = Stores.fresh(kind, tmp_path / "store")
    play(store)
    return store


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Where nothing is yet, in a folder of its own."""
    (tmp_path / "target").mkdir()
    return f"sqlite:///{tmp_path / 'target' / 'ledger.db'}"


class Load:
    """Decisions as fast as they are answered, on several connections; what was acknowledged, in order."""

    def __init__(self, server: Server) -> None:
        self.acknowledged: list[str] = []
        self._goes_on = True
        self._threads = [threading.Thread(target=self._visit, args=(server, k)) for k in range(CONNECTIONS)]
        for thread in self._threads:
            thread.start()

    def _visit(self, server: Server, number: int) -> None:
        with talk(server) as http:
            asked = 0
            while self._goes_on:
                asked += 1
                id = f"visitor-{number}-{asked}"
                answer = http.post(at("one", "decisions"), json={"id": id})
                if answer.status_code == 200:
                    self.acknowledged.append(id)

    def wait(self, count: int) -> None:
        until(lambda: len(self.acknowledged) >= count)

    def stop(self) -> None:
        self._goes_on = False
        for thread in self._threads:
            thread.join(60)


@contextmanager
def under_load(server: Server) -> Iterator[Load]:
    load = Load(server)
    try:
        yield load
    finally:
        load.stop()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_a_backup_under_full_load_has_what_was_acknowledged_before(kind: str, tmp_path: Path) -> None:
    with Server(Stores.fresh(kind, tmp_path), tmp_path / "log") as server, talk(server) as http:
        create(http, "one")
        decide(http, "one", *(f"before-{k}" for k in range(1000)))
        with under_load(server) as load:
            load.wait(50)
            before = list(load.acknowledged)
            assert belated("ledger", "backup", tmp_path / "b.db", "--store", server.store) == 0
            load.wait(len(before) + 20)  # the service went on all the time
        made = contents(f"sqlite:///{tmp_path / 'b.db'}")["events"]
        assert made == contents(server.store)["events"][: len(made)]
        assert len(made) >= 1050
        assert set(before) <= {row[0] for row in run(f"sqlite:///{tmp_path / 'b.db'}", "SELECT id FROM events")}
        assert belated("ledger", "verify", "--store", f"sqlite:///{tmp_path / 'b.db'}") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_is_for_its_owner_alone_and_nothing_is_written_over(store: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "backup.db"
    assert belated("ledger", "backup", file, "--store", store) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert contents(f"sqlite:///{file}") == contents(store)
    before = files(file.parent)
    assert list(before) == ["backup.db"]
    play(store, name="two")
    assert belated("ledger", "backup", file, "--store", store) == 2
    assert files(file.parent) == before
    assert belated("ledger", "backup", file, "--store", store, "--force") == 0
    assert [path.name for path in file.parent.iterdir()] == ["backup.db"]
    assert contents(f"sqlite:///{file}") == contents(store)
    assert belated("ledger", "verify", "--store", f"sqlite:///{file}") == 0
    assert list(files(file.parent)) == ["backup.db"]


def test_what_is_counted_is_told(store: str, tmp_path: Path, capsys: Captured) -> None:
    assert belated("ledger", "backup", tmp_path / "b.db", "--store", store) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"sqlite:///{tmp_path / 'b.db'}" in said
    assert re.findall(r"\b\d+ (?=[a-z])", said)[:3] == ["1 ", "57 ", "1 "]


def test_a_backup_has_its_name_only_when_it_is_sound_and_on_disk(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(handle: int) -> None:
        did.append("sync " + Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        sync(handle)

    def renamed(old: str, new: str) -> None:
        did.append(f"rename {Path(old).name} {Path(new).name}")
        rename(old, new)

    def checked(ledger: SqliteReader) -> list[str]:
        did.append("check " + Path(ledger.store).name)
        return []

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(backup, "faults", checked)
    assert belated("ledger", "backup", tmp_path / "b.db", "--store", store) == 0
    unnamed = did[0].removeprefix("check ")
    assert unnamed.startswith(".b.db.")
    assert did == [f"check {unnamed}", f"sync {unnamed}", f"rename {unnamed} b.db", f"sync {tmp_path.name}"]


def test_what_does_not_verify_gets_no_name(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "backup.db"
    file.write_text("an older one")

    def damaging(source: object, unnamed: Path, note: object) -> None:
        inner(source, unnamed, note)  # type: ignore[arg-type]
        run(f"sqlite:///{unnamed}", "DELETE FROM events WHERE number = 3")

    inner = backup._copy_to_file
    monkeypatch.setattr(backup, "_copy_to_file", damaging)
    assert belated("ledger", "backup", file, "--store", store, "--force") == 2
    assert "56" in capsys.readouterr().err
    assert file.read_text() == "an older one"
    assert [path.name for path in file.parent.iterdir()] == ["backup.db"]


def test_a_full_disk_leaves_nothing_behind(store: str, tmp_path: Path) -> None:
    play(store, 1000, "two")
    (tmp_path / "out").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        done = belated("ledger", "backup", tmp_path / "out" / "b.db", "--store", store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done == 2
    assert list((tmp_path / "out").iterdir()) == []


def test_the_ledger_itself_and_files_in_use_are_not_replaced(tmp_path: Path, capsys: Captured) -> None:
    store, other = f"sqlite:///{tmp_path / 'one.db'}", f"sqlite:///{tmp_path / 'two.db'}"
    play(store)
    play(other)
    before = files(tmp_path)
    assert belated("ledger", "backup", tmp_path / "one.db", "--store", store, "--force") == 2
    assert files(tmp_path) == before
    with closing(open_ledger(other)) as ledger:
        ledger.probe()
        assert belated("ledger", "backup", tmp_path / "two.db", "--store", store, "--force") == 2
        assert "two.db-wal" in capsys.readouterr().err
    assert belated("ledger", "backup", tmp_path / "none" / "b.db", "--store", store) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert belated("ledger", "backup", tmp_path, "--store", store, "--force") == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_goes_on_from_a_backup(kind: str, store: str, tmp_path: Path) -> None:
    """In the other kind of database: the same ids have the same decisions, the next are the same."""
    assert belated("ledger", "backup", tmp_path / "b.db", "--store", store) == 0
    (tmp_path / "again").mkdir()
    again = Stores.fresh("sqlite" if kind == "postgresql" else "postgresql", tmp_path / "again")
    assert belated("ledger", "restore", tmp_path / "b.db", "--store", again) == 0
    assert contents(again) == contents(store)
    asked = [Decide("one", [f"one-{k}" for k in range(60)])]
    answers = []
    for each in (store, again):
        with closing(open_ledger(each)) as ledger:
            answers.append(CommandProcessor(ledger).run(asked))
    assert answers[0] == answers[1]
    assert belated("ledger", "verify", "--store", again) == 0


def test_a_restored_ledger_is_served(tmp_path: Path) -> None:
    first = tmp_path / "first.db"
    with Server(f"sqlite:///{first}", tmp_path / "log") as server, talk(server) as http:
        create(http, "one")
        answers = decide(http, "one", "a", "b")
        assert belated("ledger", "backup", tmp_path / "b.db", "--store", server.store) == 0
    store = f"sqlite:///{tmp_path / 'second.db'}"
    assert belated("ledger", "restore", tmp_path / "b.db", "--store", store) == 0
    with Server(store, tmp_path / "log") as server, talk(server) as http:
        assert decide(http, "one", "a", "b") == answers
        assert decide(http, "one", "c")[0]["round"] == 3


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A backup."""
    (tmp_path / "saved").mkdir()
    store = f"sqlite:///{tmp_path / 'saved' / 'ledger.db'}"
    play(store)
    assert belated("ledger", "backup", tmp_path / "saved" / "b.db", "--store", store) == 0
    return tmp_path / "saved" / "b.db"


@pytest.mark.parametrize(("kind", "has"), [("sqlite", "keys"), ("postgresql", "experiments")])
def test_nothing_is_restored_over_another_ledger(
    kind: str, has: str, saved: Path, tmp_path: Path, capsys: Captured
) -> None:
    store = Stores.fresh(kind, tmp_path)
    if has == "keys":
        assert belated("keys", "create", "me", "--store", store) == 0
    else:
        play(store, name="other")
    before = contents(store)
    assert belated("ledger", "restore", saved, "--store", store) == 2
    assert f"1 {has[:-1]}" in capsys.readouterr().err
    assert contents(store) == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_ledger_is_filled(kind: str, saved: Path, tmp_path: Path) -> None:
    store = Stores.fresh(kind, tmp_path)
    open_ledger(store).close()
    assert belated("ledger", "restore", saved, "--store", store) == 0
    assert contents(store) == contents(f"sqlite:///{saved}")


def test_a_file_without_anything_in_it_is_filled(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    assert belated("ledger", "restore", saved, "--store", f"sqlite:///{tmp_path / 'ledger.db'}") == 0
    assert contents(f"sqlite:///{tmp_path / 'ledger.db'}") == contents(f"sqlite:///{saved}")


def test_nothing_is_restored_over_something_else(saved: Path, tmp_path: Path) -> None:
    for name, content in (("text.db", b"a text " * 100), ("half.db", saved.read_bytes()[:9000])):
        (tmp_path / name).write_bytes(content)
        assert belated("ledger", "restore", saved, "--store", f"sqlite:///{tmp_path / name}") == 2
        assert (tmp_path / name).read_bytes() == content
    store = Stores.fresh("postgresql", tmp_path)
    run(store, "CREATE TABLE events (name TEXT)")
    assert belated("ledger", "restore", saved, "--store", store) == 2
    assert run(store, "SELECT * FROM events") == []


def test_a_log_without_its_file_is_not_taken_for_that_of_the_backup(
    saved: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Somebody has moved ledger.db away and left ledger.db-wal: SQLite would write it into what is restored."""
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger:
        ledger.probe()
        left = (tmp_path / "ledger.db-wal").read_bytes()
    (tmp_path / "ledger.db").unlink()
    (tmp_path / "ledger.db-wal").write_bytes(left)
    assert belated("ledger", "restore", saved, "--store", store) == 2
    assert "ledger.db-wal" in capsys.readouterr().err
    assert not (tmp_path / "ledger.db").exists()


def test_a_file_that_is_open_elsewhere_is_not_replaced(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "BUSY_MS", 0)
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_ledger(store)) as ledger:
        ledger.probe()
        assert belated("ledger", "restore", saved, "--store", store) == 2
    assert belated("ledger", "restore", saved, "--store", store) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_that_is_not_sound_is_refused(kind: str, saved: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "again").mkdir()
    store = Stores.fresh(kind, tmp_path / "again")
    run(f"sqlite:///{saved}", "DELETE FROM events WHERE number = 9")
    assert belated("ledger", "restore", saved, "--store", store) == 2
    assert "56" in capsys.readouterr().err
    saved.write_bytes(saved.read_bytes()[:9000])
    assert belated("ledger", "restore", saved, "--store", store) == 2
    assert belated("ledger", "restore", tmp_path / "none.db", "--store", store) == 2
    assert "none.db" in capsys.readouterr().err
    assert list((tmp_path / "again").iterdir()) == []
    if sqlite_path(store) is None:
        assert run(store, "SELECT count(*) FROM pg_class WHERE relname = 'events'") == [(0,)]


def test_a_restore_that_is_cut_off_leaves_nothing(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "again").mkdir()

    def fails(*given: object) -> None:
        raise OSError("no more")

    monkeypatch.setattr(os, "rename", fails)
    assert belated("ledger", "restore", saved, "--store", f"sqlite:///{tmp_path / 'again' / 'ledger.db'}") == 2
    assert list((tmp_path / "again").iterdir()) == []


def test_a_backup_is_made_of_a_ledger_of_an_older_belated(tmp_path: Path) -> None:
    """Before an upgrade is when one is wanted."""
    old = Path(__file__).parents[1] / "data" / "ledger-v1.sqlite"
    assert belated("ledger", "backup", tmp_path / "b.db", "--store", f"sqlite:///{old}") == 0
    store = Stores.fresh("postgresql", tmp_path)
    assert belated("ledger", "restore", tmp_path / "b.db", "--store", store) == 0
    assert run(store, "SELECT number FROM migrations") == [(1,)]
    assert belated("ledger", "migrate", "--store", store) == 0
    assert belated("ledger", "backup", tmp_path / "again.db", "--store", store) == 0
    assert belated("ledger", "verify", "--store", f"sqlite:///{tmp_path / 'again.db'}") == 0


def test_the_backup_of_sqlite_does_not_wait_for_writers(tmp_path: Path) -> None:
    """Nor they for it: a transaction that is open for writing holds nobody up."""
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    play(store)
    with closing(apsw.Connection(str(tmp_path / "ledger.db"))) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE experiments SET position = 0")
        assert belated("ledger", "backup", tmp_path / "b.db", "--store", store) == 0
        writer.execute("ROLLBACK")
    assert contents(f"sqlite:///{tmp_path / 'b.db'}") == contents(store)
