"""Serving: one process, or a supervisor with several worker processes on one socket."""

import asyncio
import ctypes
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import uvicorn

from belated.ledger import Ledger, open_ledger
from belated.ledger.base import NewerLedger
from belated.ledger.clock import BOUND_SECONDS, SETTLE_SECONDS, Clock
from belated.service.app import application
from belated.service.counters import WorkerCounters, new_counters
from belated.service.gate import Gate
from belated.service.limits import Limits, option
from belated.service.log import set_up
from belated.service.protocol import connections
from belated.service.stopping import OUTDATED, Stopping

logger = logging.getLogger("belated.service")

GRACE_SECONDS = 30
STUCK_SECONDS = 2
"""When told to stop, how long to wait for a reader that takes nothing."""
WAIT_SECONDS = 60.0
"""How long to wait for a database that is still coming up."""
COLLECT_AFTER = 20_000
"""Objects made and kept before the collector looks for cycles. Requests that wait are many thousands of objects and
hold no cycles; with Python's 700 it looked at them again and again, for a tenth of a worker's time.
"""
FILES = 100
"""Files that a worker has open besides its connections."""
MOST_WORKERS = 64
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""
SOON_SECONDS = 15
MOST_PAUSE_SECONDS = 10
"""A worker that ends soon after its start is started again after a second, then two, at most so many."""


@dataclass(frozen=True)
class ServerSettings:
    """What to serve and where."""

    store: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    wait: float = WAIT_SECONDS
    """Seconds to wait for a database that is still coming up."""
    clock_bound: float = BOUND_SECONDS
    clock_settle: float = SETTLE_SECONDS
    """See `belated.ledger.clock`."""
    log_format: str = "text"
    access_log: bool = False


def listen(host: str, port: int, shared: bool = False) -> socket.socket:
    """Return a socket that clients can connect to; connections wait in it until a worker takes them.

    Sockets that share a port get an even part of the connections each.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    listening.listen(2048)
    listening.set_inheritable(True)
    return listening


def serve(settings: ServerSettings) -> int:
    """Serve until told to stop by SIGTERM or SIGINT: the exit status."""
    listening = listen(settings.host, settings.port)  # refused where somebody else listens
    host, port = listening.getsockname()[:2]
    where = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    said = f"belated serves {where}  (pages: {where}/, API: {where}/docs)"
    if settings.log_format == "json":
        set_up(settings.log_format)
        logger.info(said)
    else:
        print(said, file=sys.stderr, flush=True)
    if settings.workers == 1:
        return work(settings, listening, new_counters(1), 0)
    if sys.platform != "linux":  # elsewhere shared ports do not share connections
        return _supervise(settings, [listening] * settings.workers)
    listening.close()
    return _supervise(settings, [listen(host, port, shared=True) for _ in range(settings.workers)])


def work(settings: ServerSettings, listening: socket.socket, counters: Any, worker: int) -> int:
    """Serve as one worker, until told to stop."""
    set_up(settings.log_format)
    limits = _within_open_files(settings.limits)
    all_counters = [WorkerCounters(counters, k) for k in range(settings.workers)]
    stopping = Stopping()

    def open_it() -> Ledger:
        clock = Clock(settings.clock_bound, settings.clock_settle)
        try:
            return open_ledger(settings.store, clock, settings.wait, stopping.is_set)
        except NewerLedger:
            stopping.status = OUTDATED
            raise

    app = application(open_it, limits, all_counters, worker, stopping, settings.access_log)
    gate = Gate(limits, all_counters[worker], settings.access_log)
    server = _Server(
        stopping,
        gate,
        uvicorn.Config(
            app,
            http=cast(Any, connections(gate)),
            lifespan="on",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ws="none",
        ),
    )
    server.run(sockets=[listening])
    return stopping.status or (0 if server.started else 3)


class _Server(uvicorn.Server):
    """A server that does not wait for live views, nor for readers that take nothing, when it is told to stop."""

    def __init__(self, stopping: Stopping, gate: Gate, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._gate = gate
        self._parent = os.getppid()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._gate.start(asyncio.get_running_loop())
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what was imported stays, and need not be looked at
        gc.set_threshold(COLLECT_AFTER)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._stopping.set()  # a worker that still waits for its database waits no more
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop: told to by a signal, by the service itself, or since the supervisor has ended."""
        if os.getppid() != self._parent and multiprocessing.parent_process() is not None:
            logger.error("the supervisor has ended: this worker stops, too")
            return True
        return await super().on_tick(counter) or self._stopping.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        asyncio.get_running_loop().call_later(STUCK_SECONDS, self._drop_stuck)
        await super().shutdown(sockets)

    def _drop_stuck(self) -> None:
        for connection in list(self._gate.connections):
            connection.hurry()


def _within_open_files(limits: Limits) -> Limits:
    """Let this process open as many files as it may have connections; return limits that it can hold to."""
    needed = limits.connections + FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    possible = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    if possible == needed:
        return limits
    connections = max(1, possible - FILES)
    logger.warning(
        "%s is %d, but this process may open %d files: it takes %d connections",
        *(option("connections"), limits.connections, possible, connections),
    )
    return replace(limits, connections=connections)


def _end_with_parent() -> None:
    """Have the system send this worker SIGTERM when its supervisor ends, however that happens."""
    parent = multiprocessing.parent_process()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if parent is not None and os.getppid() != parent.pid:  # it has ended already
        sys.exit(1)


def _worker_process(settings: ServerSettings, listening: socket.socket, counters: Any, worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor tells when to stop
    _end_with_parent()
    sys.exit(work(settings, listening, counters, worker))


def _supervise(settings: ServerSettings, listening: list[socket.socket]) -> int:
    """Keep the workers alive: one that dies is replaced, and takes the connections that wait in its socket."""
    set_up(settings.log_format)
    context = multiprocessing.get_context("spawn")
    counters = new_counters(settings.workers)
    stop = False

    def told(number: int, frame: Any) -> None:
        nonlocal stop
        stop = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)

    def start(worker: int) -> Any:
        process = context.Process(
            target=_worker_process, args=(settings, listening[worker], counters, worker), name=f"worker-{worker}"
        )
        process.start()
        return process

    processes = [start(worker) for worker in range(settings.workers)]
    begun = [time.monotonic()] * settings.workers
    failures = [0] * settings.workers
    status = 0
    while not stop:
        time.sleep(0.1)
        for worker, process in enumerate(processes):
            since = time.monotonic() - begun[worker]
            if process.exitcode == OUTDATED:
                stop, status = True, OUTDATED
                break
            if process.is_alive() or since < min(failures[worker], MOST_PAUSE_SECONDS):
                continue
            failures[worker] = failures[worker] + 1 if since < SOON_SECONDS else 0
            logger.warning("worker %d ended with status %s; starting another", worker, process.exitcode)
            processes[worker], begun[worker] = start(worker), time.monotonic()
    for process in processes:
        if process.pid and process.is_alive():
            os.kill(process.pid, signal.SIGTERM)
    for process in processes:
        process.join(GRACE_SECONDS + 10)
        if process.is_alive():
            process.kill()
    for each in listening:
        each.close()
    return status
