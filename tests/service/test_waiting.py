"""A database that is still coming up is waited for; one that refuses us is not."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from belated.ledger import waiting
from belated.ledger.base import LedgerUnavailable
from belated.ledger.postgres import PostgresLedger
from belated.ledger.waiting import PAUSE_SECONDS, SAY_SECONDS, migrate_when_up
from support.cutting_proxy import Proxy
from support.ports import free_port
from support.serving import Server, Stores, is_alive
from support.waiting import until


class Database:
    """A ledger whose database is there after a while, on a clock that goes on by the pauses between attempts."""

    store = "test:///"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, up_after: float = 0.0) -> None:
        self.now = self.begun = 1000.0
        self.up_after = up_after
        self.refuses = False
        self.attempts: list[float] = []
        monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def migrate(self) -> None:
        self.attempts.append(self.now - self.begun)
        if self.refuses or self.now - self.begun < self.up_after:
            raise LedgerUnavailable("not you")

    def is_coming_up(self) -> bool:
        return not self.refuses and self.now - self.begun < self.up_after


def test_a_database_that_comes_up_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database: Any = Database(monkeypatch, up_after=2.5 * SAY_SECONDS)
    with caplog.at_level(logging.INFO):
        migrate_when_up(database, 60.0)
    pauses = [after - before for before, after in zip(database.attempts, database.attempts[1:], strict=False)]
    assert set(pauses) == {PAUSE_SECONDS}
    assert database.attempts[-1] == 2.5 * SAY_SECONDS
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    *said, last = [record.args or () for record in caplog.records]
    assert [(words[0], str(words[1])) for words in said] == [  # type: ignore[index]
        (60 - k * SAY_SECONDS, "not you") for k in range(3)
    ]
    assert last == ("test:///", 2.5 * SAY_SECONDS)


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_it_is_waited_for_no_longer_than_that(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    database: Any = Database(monkeypatch, up_after=100)
    with pytest.raises(LedgerUnavailable):
        migrate_when_up(database, seconds)
    assert database.attempts[-1] == seconds


def test_without_a_wait_nothing_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    migrate_when_up(Database(monkeypatch), 0.0)  # type: ignore[arg-type]
    with pytest.raises(LedgerUnavailable):
        migrate_when_up(Database(monkeypatch, up_after=1), 0.0)  # type: ignore[arg-type]
    assert caplog.records == []


def test_one_that_refuses_us_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have come up just now."""
    database: Any = Database(monkeypatch)
    database.refuses = True
    with pytest.raises(LedgerUnavailable):
        migrate_when_up(database, 60.0)
    assert database.attempts == [0.0, 0.0]


def test_who_is_told_to_stop_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    database: Any = Database(monkeypatch, up_after=100)
    with pytest.raises(LedgerUnavailable):
        migrate_when_up(database, 60.0, lambda: database.now >= database.begun + 7)
    assert database.attempts[-1] == 7


REFUSING = """
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
for state in sys.argv[1:]:
    for _ in range(2):
        client, _ = listening.accept()
        fields = f"SFATAL\\0VFATAL\\0C{state}\\0Mnot you\\0\\0".encode()
        with client:
            client.recv(65536)
            client.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
"""


@contextmanager
def refusing(*states: str) -> Iterator[str]:
    """The store of a server that refuses whoever connects, twice with each of these states of PostgreSQL. A process of
    its own, as asking whether a server is up holds all threads of this one.
    """
    with subprocess.Popen([sys.executable, "-c", REFUSING, *states], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"postgresql://belated:wrong@127.0.0.1:{int(process.stdout.readline())}/base?sslmode=disable"
        process.kill()


def test_a_wrong_password_or_a_missing_database_is_not_coming_up_and_silence_is() -> None:
    states = {"28P01": False, "3D000": False, "28000": False, "57P03": True}
    with refusing(*states) as store:
        ledger = PostgresLedger(store)
        for state, comes in states.items():
            with pytest.raises(LedgerUnavailable):
                ledger.migrate()
            assert ledger.is_coming_up() == comes, state
    assert PostgresLedger(f"postgresql://belated@127.0.0.1:{free_port()}/base").is_coming_up()
    assert PostgresLedger("postgresql://belated@nowhere.invalid/base").is_coming_up()


def test_a_worker_waits_for_its_database_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    with Proxy(Stores.new_database()) as proxy:
        server = Server(proxy.url, tmp_path / "log", constants={"belated.ledger.waiting.PAUSE_SECONDS": 0.05})

        def waits() -> bool:
            return server.log.exists() and " WARNING belated.ledger: " in server.log.read_text()

        for is_stopped in (True, False):
            proxy.down()
            server.log.unlink(missing_ok=True)
            server.start(wait=False)
            try:
                until(waits)
                assert is_alive(server.pid)
                if not is_stopped:
                    proxy.up()
                    server.wait_until_ready()
                server.terminate()
            finally:
                if is_alive(server.pid):
                    server.kill()
