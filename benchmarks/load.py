"""Load on a server, made by wrk: keep-alive connections, each of which sends the next request when its answer is there.

wrk is written in C and costs the machine little, so that the server is measured and not the client.
"""

import itertools
import shutil
import subprocess
import time
from pathlib import Path

import msgspec

KEY = "benchmark-key-0123456789"
CONNECTIONS = 128
SECONDS = 3
SCRIPT = Path(__file__).parent / "load.lua"
_numbers = itertools.count(int(time.time()) * 10**6, 10**8)
"""Where the ids of each load begin: 100 million apart, and after those of earlier runs."""


class Measured(msgspec.Struct):
    """What came of a load; times in seconds."""

    answered: int
    seconds: float
    refused: int
    """Answers other than 200."""
    lost: int
    """Requests without an answer."""
    p50: float
    p99: float
    most: float

    @property
    def rate(self) -> float:
        """Requests answered a second."""
        return self.answered / self.seconds


def load(
    port: int,
    what: str = "decisions",
    *,
    first: int | None = None,
    size: int = 0,
    experiments: int = 1,
    experiment: int = 0,
    connections: int = CONNECTIONS,
    seconds: int = SECONDS,
    rate: float = 0.0,
) -> Measured:
    """Load the server at a port for some seconds: decisions or outcomes of `experiments` experiments in turn, the first
    of which is `experiment`: e0, e1, …

    Ids are numbers of 16 digits from `first`, new ones if it is not given. `size` asks for lists of so many. With
    `rate`, connections pause at random so that there are about so many requests a second.
    """
    program = shutil.which("wrk")
    if program is None:
        raise SystemExit("bench: wrk is missing, which makes the load: make wrk, or apt-get install wrk")
    begin = next(_numbers) if first is None else first
    pause = 1000 * connections / rate if rate else 0.0
    command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(SCRIPT)]
    given = [KEY, what, f"{begin}", f"{size}", f"{experiments}", f"{experiment}", f"{pause}"]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}", "--", *given], capture_output=True, text=True, check=True
    )
    measured = msgspec.json.decode(done.stdout.rpartition("@")[2], type=Measured)
    if measured.refused or measured.lost or not measured.answered:
        raise RuntimeError(
            f"of {measured.answered} requests for {what} {measured.refused} were refused, {measured.lost} lost"
        )
    return measured
