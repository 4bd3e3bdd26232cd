"""A database that is still coming up is waited for; one that refuses us is not."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from belated.ledger import open_ledger, waiting
from belated.ledger.base import LedgerUnavailable
from support.ports import free_port
from support.postgres import Postgres
from support.serving import ADMIN_KEY, Server, is_alive
from support.waiting import until


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres.start() as server:
        yield server


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "SAY_SECONDS", 0.4)


REFUSING = """
import socket, sys
fields = f"SFATAL\\0VFATAL\\0C{sys.argv[1]}\\0Mnot you\\0\\0".encode()
said = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    client, _ = listening.accept()
    with client:
        client.recv(65536)
        client.sendall(said)
"""


@contextmanager
def refusing(state: str) -> Iterator[str]:
    """The store of a server that refuses whoever connects, with a state of PostgreSQL. A process of its own, as asking
    whether a server is up holds all threads of this one.
    """
    with subprocess.Popen([sys.executable, "-c", REFUSING, state], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"postgresql://belated:wrong@127.0.0.1:{int(process.stdout.readline())}/base?sslmode=disable"
        process.kill()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("state", ["28P01", "3D000", "28000"])
def test_a_wrong_password_or_a_missing_database_is_said_at_once(state: str) -> None:
    with refusing(state) as store:
        begun = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="not you"):
            open_ledger(store, wait=60.0)
        assert time.monotonic() - begun < 20


@pytest.mark.usefixtures("often")
def test_a_server_that_starts_up_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with refusing("57P03") as store:
        begun = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="not you"):
            open_ledger(store, wait=1.5)
        assert time.monotonic() - begun >= 1.5
    lines = [record.getMessage() for record in caplog.records if "waiting for the database" in record.getMessage()]
    assert 2 <= len(lines) <= 4  # at the beginning, and then now and again
    assert lines[0].startswith("waiting for the database, for 1 s more at most: ") or "2 s more" in lines[0]
    assert "not you" in lines[0]


@pytest.mark.usefixtures("often")
def test_without_a_wait_it_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LedgerUnavailable, match="refused"):
        open_ledger(f"postgresql://belated@127.0.0.1:{free_port()}/base")
    assert caplog.records == []


@pytest.mark.usefixtures("often")
def test_a_name_that_nobody_knows_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LedgerUnavailable):
        open_ledger("postgresql://belated@nowhere.invalid/base", wait=0.5)
    assert "waiting for the database" in caplog.text


@pytest.mark.usefixtures("often")
def test_who_is_told_to_stop_waits_no_more() -> None:
    told = threading.Event()
    threading.Timer(0.5, told.set).start()
    begun = time.monotonic()
    with pytest.raises(LedgerUnavailable):
        open_ledger(f"postgresql://belated@127.0.0.1:{free_port()}/base", wait=60.0, stopped=told.is_set)
    assert time.monotonic() - begun < 20


def test_serve_waits_for_its_database_and_says_so(postgres: Postgres, tmp_path: Path) -> None:
    store, port, log = postgres.new_database(), free_port(), tmp_path / "log"
    postgres.stop()
    arguments = ["--store", store, "--port", str(port), "--wait", "60"]
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "belated.cli", "serve", *arguments],
            stderr=said,
            env={**os.environ, "BELATED_ADMIN_KEY": ADMIN_KEY},
        )
    try:
        until(lambda: "waiting for the database, for 60 s more at most" in log.read_text(), 60)
        assert process.poll() is None
        postgres.restart()
        until(lambda: "belated serves" in log.read_text(), 60)
        assert "is there after" in log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_a_worker_waits_for_its_database(postgres: Postgres, tmp_path: Path) -> None:
    server = Server(postgres.new_database(), tmp_path / "log")
    postgres.stop()
    server.start(wait=False)
    try:
        until(lambda: server.log.exists() and "waiting for the database" in server.log.read_text(), 60)
        assert is_alive(server.pid)
        postgres.restart()
        server.wait_until_ready()
        assert "is there after" in server.log.read_text()
    finally:
        server.kill()


def test_a_worker_that_waits_can_be_stopped(postgres: Postgres, tmp_path: Path) -> None:
    server = Server(postgres.new_database(), tmp_path / "log")
    postgres.stop()
    try:
        server.start(wait=False)
        until(lambda: server.log.exists() and "waiting for the database" in server.log.read_text(), 60)
        server.terminate()
    finally:
        postgres.restart()
