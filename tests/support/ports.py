"""Free ports on loopback that no client connection is given by chance."""

import os
import random
import socket
from collections.abc import Iterator

HOST = "127.0.0.1"
FIRST, END = 20_000, 32_768
"""Below the ports that Linux gives to clients, so that a server can be started on its port again."""
MAX_WORKERS = 8


def _ports() -> Iterator[int]:
    """Yield the ports of this process: those of one worker of pytest-xdist are no other worker's."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MAX_WORKERS
    size = (END - FIRST) // MAX_WORKERS
    start = random.SystemRandom().randrange(size)
    while True:
        yield from (FIRST + worker * size + (start + k) % size for k in range(size))


_next_ports = _ports()


def free_port() -> int:
    """Return a port on which nothing listens, another one each time."""
    for port in _next_ports:
        if is_free(port):
            return port
    raise AssertionError("the ports have an end")


def is_free(port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
