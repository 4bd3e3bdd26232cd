"""Ledgers that are only read: nothing changes, nothing is made, and reading goes on while others write."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from belated.ledger import open_ledger
from belated.ledger.base import LedgerUnavailable
from belated.ledger.keys import new_key
from belated.ledger.reading import ReadingLedger
from support.histories import belated, files, play, run
from support.http_helpers import create, decide, observe, talk
from support.ledger_helpers import MOST, settings
from support.serving import KINDS, Server, Stores

Captured = pytest.CaptureFixture[str]


def look(store: str, times: int = 2) -> None:
    """Do what only reads."""
    for _ in range(times):
        assert belated("ledger", "verify", "--store", store) == 0
        assert belated("ledger", "export", "one", "--store", store) == 0


def test_a_file_at_rest_stays_as_it_is(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ledger.db'}"
    play(store)
    assert run(store, "PRAGMA journal_mode") == [("wal",)]
    before = files(tmp_path)
    assert list(before) == ["ledger.db"]
    look(store)
    assert files(tmp_path) == before


def test_the_log_of_a_killed_service_stays_as_it_is_and_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with Server(Stores.fresh("sqlite", folder), tmp_path / "log") as server, talk(server) as http:
        create(http, "one")
        decide(http, "one", *(f"n{k}" for k in range(200)))
        observe(http, "one", {f"n{k}": 0.5 for k in range(100)})
        server.kill()
    before = files(folder)
    assert before.keys() == {"ledger.db", "ledger.db-wal", "ledger.db-shm"}
    assert before["ledger.db-wal"][0]
    look(server.store)
    assert files(folder) == before
    with closing(open_ledger(server.store, read_only=True)) as reader:
        record = reader.find("one")
        assert record is not None
        assert (record.events, record.rounds) == (300, 200)


def test_a_running_service_goes_on(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with Server(Stores.fresh(kind, folder), tmp_path / "log") as server, talk(server) as http:
        create(http, "one")
        decide(http, "one", "a")
        before = files(folder)
        with closing(open_ledger(server.store, read_only=True)) as reader:
            assert files(folder) == before
            record = reader.find("one")
            assert record is not None
            assert len(reader.events(record.number)) == 1
            decide(http, "one", "b")
            assert len(reader.events(record.number)) == 2
        look(server.store)
        decide(http, "one", "c")
        server.terminate()
    assert belated("ledger", "verify", "--store", server.store) == 0
    with closing(open_ledger(server.store)) as ledger:
        found = ledger.find("one")
        assert found is not None
        assert found.events == 3


@pytest.mark.parametrize("kind", KINDS)
def test_who_reads_cannot_write(kind: str, tmp_path: Path) -> None:
    store = Stores.fresh(kind, tmp_path)
    play(store)
    with closing(open_ledger(store, read_only=True)) as reader:
        assert isinstance(reader, ReadingLedger)
        with pytest.raises(LedgerUnavailable):
            reader.add_key(new_key("somebody", "admin")[1])
        with pytest.raises(LedgerUnavailable):
            reader.create(settings("two"), 0, MOST)
        with pytest.raises(LedgerUnavailable), reader.connection() as connection:
            reader.run(connection, "DELETE FROM keys")  # outside of a transaction, too
        assert [record.settings.name for record in reader.experiments()] == ["one"]
        assert [key.name for key in reader.all_keys()] == ["key of one"]


@pytest.mark.parametrize("action", [("verify",), ("export", "one"), ("backup", "copy.db"), ("migrate",)])
def test_a_file_that_is_not_there_is_not_made(
    action: tuple[str, ...], tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert belated("ledger", *action, "--store", "sqlite:///none.db") == 2
    assert "none.db" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_may_have_any_characters(tmp_path: Path) -> None:
    """They are no addresses, where %20 and ? mean something."""
    store = f"sqlite:///{tmp_path / 'a?b %20#c.db'}"
    play(store)
    look(store, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["a?b %20#c.db"]


@contextmanager
def unable_to_write(folder: Path) -> Iterator[None]:
    """As somebody who may read the files of a folder and nothing more: root becomes another user for a moment."""
    for path in folder.iterdir():
        path.chmod(0o644 if os.geteuid() == 0 else 0o444)
    if os.geteuid() == 0:
        for path in (folder, *folder.parents):
            if path.owner() == "root" and not path.stat().st_mode & 0o001:
                path.chmod(0o755)
        os.seteuid(65534)
    else:
        folder.chmod(0o555)
    try:
        assert not os.access(folder, os.W_OK, effective_ids=True)
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        else:
            folder.chmod(0o700)


@pytest.mark.parametrize("at_rest", [True, False])
def test_who_may_not_write_can_still_verify(at_rest: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """At rest, or beside a service that has the file open."""
    folder = tmp_path_factory.mktemp("store")
    store = f"sqlite:///{folder / 'ledger.db'}"
    play(store)
    with closing(open_ledger(store)) as ledger:
        if at_rest:
            ledger.close()
        else:
            ledger.probe()
        look(store, 1)  # all that is imported for it can be read
        before = files(folder)
        with unable_to_write(folder):
            look(store, 1)
        assert files(folder) == before
