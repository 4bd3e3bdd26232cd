"""Real servers for tests: `belated serve` as people start it, or the same server forked from a process that has all
imports behind it, so that it is up in a few hundredths of a second and can be killed a hundred times.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import httpx

from belated.client import Client
from belated.ledger import open_ledger
from belated.ledger.keys import ensure_admin
from support.postgres import Postgres

ADMIN_KEY = "admin-key-for-tests-0123456789"
READY_SECONDS = 60.0

# Reads one JSON object a line: {"store", "port", "workers", "log", "limits", "more", "constants", "clock"}; forks a
# server; answers its process id. Constants of modules can be set, and the file "clock" tells how many seconds the
# machine's clock is off.
NURSERY = """
import importlib, json, os, signal, sys, time
from belated.ledger import postgres, sqlite
from belated.service import server, service
from belated.service.limits import Limits
service.warm_up()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("warm", flush=True)
for line in sys.stdin:
    wanted = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = 70
        for path, value in wanted["constants"].items():
            module, _, name = path.rpartition(".")
            setattr(importlib.import_module(module), name, value)
        if wanted["clock"]:
            right = time.time_ns
            time.time_ns = lambda: right() + int(float(open(wanted["clock"]).read() or 0) * 1e9)
        try:
            limits = Limits(**wanted["limits"])
            where = (wanted["store"], "127.0.0.1", wanted["port"], wanted["workers"])
            plan = server.ServerSettings(*where, limits, **wanted["more"])
            status = server.serve(plan)
        finally:
            os._exit(status)
    print(child, flush=True)
"""


class Nursery:
    """The process that servers are forked from; one for all tests."""

    _one: "Nursery | None" = None

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "warm\n"
        atexit.register(self._end)

    @classmethod
    def the_one(cls) -> "Nursery":
        if cls._one is None:
            cls._one = cls()
        return cls._one

    def fork(self, **wanted: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Server:
    """A server on a store, at a port that stays the same when it is started again."""

    def __init__(
        self,
        store: str,
        log: Path,
        workers: int = 1,
        constants: dict[str, Any] | None = None,
        clock: Path | None = None,
        more: dict[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        self.store = store
        self.log = log
        self.workers = workers
        self.limits = limits
        self.constants = constants or {}
        self.clock = clock
        self.more = more or {}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pid = 0
        with closing(open_ledger(store)) as ledger:
            ensure_admin(ledger, ADMIN_KEY)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.pid and is_alive(self.pid):
            self.kill()

    def start(self, wait: bool = True) -> None:
        """Start it; wait until it is ready."""
        self.pid = Nursery.the_one().fork(
            store=self.store,
            port=self.port,
            workers=self.workers,
            log=str(self.log),
            limits=self.limits,
            constants=self.constants,
            clock=str(self.clock or ""),
            more=self.more,
        )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while True:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            said = self.log.read_text() if self.log.exists() else ""
            assert is_alive(self.pid), f"the server has ended: {said}"
            assert time.monotonic() < until, f"the server is not ready: {said}"
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9, the workers of a supervisor too; wait until nothing of it is left."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not come to have a group of its own yet
            os.kill(self.pid, signal.SIGKILL)
        self._wait(10)

    def terminate(self, seconds: float = 40) -> None:
        """SIGTERM; wait until it has ended by itself."""
        os.kill(self.pid, signal.SIGTERM)
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while is_alive(self.pid):
            assert time.monotonic() < until, f"the server does not end: {self.log.read_text()}"
            time.sleep(0.002)

    def client(self, key: str = ADMIN_KEY, **settings: Any) -> Client:
        return Client(self.url, key, **settings)


class Stores:
    """Fresh stores of both kinds; the PostgreSQL server is started when one is first asked for."""

    _postgres: Postgres | None = None

    @classmethod
    def postgres(cls) -> Postgres:
        if cls._postgres is None:
            cls._postgres = Postgres.start()
        return cls._postgres

    @classmethod
    def fresh(cls, kind: str, folder: Path) -> str:
        """A store that nothing is in yet."""
        if kind == "sqlite":
            return f"sqlite:///{folder / 'ledger.db'}"
        return cls.postgres().new_database()


KINDS = ("sqlite", "postgresql")
