"""Real servers for tests: `belated serve` as people start it, or the same server forked from a process that has all
imports behind it, so that it is up in a few hundredths of a second and can be killed a hundred times.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self

import httpx

from belated.client import Client
from belated.ledger import open_ledger
from belated.ledger.keys import ensure_admin
from support.ports import free_port, is_free
from support.postgres import Postgres, new_database
from support.waiting import until

ADMIN_KEY = "admin-key-for-tests-0123456789"
POSTGRES = "BELATED_TEST_POSTGRES"
"""The environment variable with the URL of the PostgreSQL server that all tests of a run share."""

# Reads one JSON object a line: {"store", "port", "workers", "log", "limits", "more", "constants", "clock", "spawns"};
# forks a server; answers its process id. Constants of modules can be set. The file "clock" has two numbers of seconds:
# how far the ledger's clock is off, and how far the steady clock is with it, as if that time had passed. Workers of a
# supervisor are forked, too, unless "spawns".
NURSERY = """
import importlib, json, multiprocessing, os, signal, sys, time, traceback
from belated.ledger import clock, postgres, sqlite
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
        if wanted["workers"] > 1 and not wanted["spawns"]:
            context = multiprocessing.get_context("fork")
            multiprocessing.get_context = lambda method=None: context
            os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
        for path, value in wanted["constants"].items():
            module, _, name = path.rpartition(".")
            setattr(importlib.import_module(module), name, value)
        if wanted["clock"]:
            steady, read = clock._steady, clock.Clock.read
            def moved(which):
                return int(float(open(wanted["clock"]).read().split()[which]) * 1e6)
            clock._steady = lambda: steady() + 1000 * moved(1)
            clock.Clock.read = lambda self, reading: read(self, reading + moved(0))
        try:
            limits = Limits(**wanted["limits"])
            where = (wanted["store"], "127.0.0.1", wanted["port"], wanted["workers"])
            plan = server.ServerSettings(*where, limits, **wanted["more"])
            status = server.serve(plan)
        except Exception:
            traceback.print_exc()
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
        self._process.wait(60)


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
        more: dict[str, Any] | None = None,
        spawns: bool = False,
        **limits: Any,
    ) -> None:
        self.store = store
        self.log = log
        self.workers = workers
        self.limits = limits
        self.constants = constants or {}
        self._clock = Path(f"{log}.clock")
        self.set_clock(0.0)
        self.more = more or {}
        self.spawns = spawns
        """Whether workers of a supervisor are new processes that import everything, as in production."""
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
            clock=str(self._clock),
            more=self.more,
            spawns=self.spawns,
        )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        until(self._is_ready)

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            if httpx.get(f"{self.url}/readyz", timeout=60).status_code == 200:
                return True
        if not is_alive(self.pid):
            raise RuntimeError(f"the server has ended: {self.log.read_text() if self.log.exists() else ''}")
        return False

    def set_clock(self, seconds: float, passed: float = 0.0) -> None:
        """Set the ledger's clock off by so much, as somebody does who sets the clock of the machine."""
        self._passed = passed
        new = self._clock.with_suffix(".new")
        new.write_text(f"{seconds} {passed}")
        new.rename(self._clock)

    def pass_time(self, seconds: float) -> None:
        """Let this much time pass for deadlines and all that goes by the ledger's clock, also while it is down."""
        passed = self._passed + seconds
        self.set_clock(passed, passed)

    def kill(self) -> None:
        """kill -9, the workers of a supervisor too; wait until nothing of it is left."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not come to have a group of its own yet
            os.kill(self.pid, signal.SIGKILL)
        self.wait_until_gone()
        until(lambda: is_free(self.port))  # workers listen, too

    def terminate(self) -> None:
        """SIGTERM; wait until it has ended by itself."""
        os.kill(self.pid, signal.SIGTERM)
        self.wait_until_gone()

    def wait_until_gone(self) -> None:
        until(lambda: not is_alive(self.pid))

    def client(self, key: str = ADMIN_KEY, **settings: Any) -> Client:
        return Client(self.url, key, **settings)


class Stores:
    """Fresh stores of both kinds; the PostgreSQL server is the one of the whole run, which no test may stop."""

    _postgres: Postgres | None = None

    @classmethod
    def new_database(cls) -> str:
        """A database on the server of the run; one that runs a single process starts it when it is first needed."""
        if POSTGRES not in os.environ:
            cls._postgres = Postgres.start()
            os.environ[POSTGRES] = cls._postgres.url("postgres")
        return new_database(os.environ[POSTGRES])

    @classmethod
    def fresh(cls, kind: str, folder: Path) -> str:
        """A store that nothing is in yet."""
        return f"sqlite:///{folder / 'ledger.db'}" if kind == "sqlite" else cls.new_database()


KINDS = ("sqlite", "postgresql")
