"""What the league costs: two cores against one, a cluster against threads, a second start, memory."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from belated import league
from belated.league import suite

CELLS = ["stochastic-k10/*", "constrained-k10/*", "resonant-k2/1000"]
MEMORY = """
import sys, tempfile
from pathlib import Path
from belated import league, suite
names = ["stochastic-k1000/none", "stochastic-k10/dropout", "stochastic-k100/100"]
cells = tuple(cell.at(20_000) for cell in suite.find(names))
with tempfile.TemporaryDirectory() as folder:
    league.play(league.LeaguePlan(cells, league.competitors(), replications=2), Path(folder), progress=False)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


def settings(rounds: int, replications: int) -> league.LeaguePlan:
    cells = tuple(cell.at(rounds) for cell in suite.find(CELLS))
    return league.LeaguePlan(cells, league.competitors(), replications=replications)


def seconds(**where: Any) -> float:
    """How long a league takes whose jobs are those of the full one: 18 cells, 100,000 rounds, two replications."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        league.play(settings(100_000, 2), Path(folder), progress=False, **where)
        return time.perf_counter() - begun


@contextmanager
def dask_cluster() -> Iterator[str]:
    """A scheduler and two workers of one thread, all on this machine: the address."""
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        scheduler: list[Any] = [programs / "dask", "scheduler", "--port", "0", "--scheduler-file", file]
        processes = [subprocess.Popen([*scheduler, "--no-dashboard", "--host", "127.0.0.1"], **quiet)]
        try:
            while not (file.exists() and "tcp://" in file.read_text()):
                time.sleep(0.05)
            address = next(part for part in file.read_text().split('"') if part.startswith("tcp://"))
            for _ in range(2):
                worker: list[Any] = [programs / "dask", "worker", address, "--nthreads", "1", "--no-dashboard"]
                processes.append(subprocess.Popen(worker, **quiet))
            yield address
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def rows(times: int = 3) -> list[tuple[str, str, str, bool | None]]:
    with dask_cluster() as address:
        seconds(cluster=address)  # once before, so that nothing is compiled or loaded later
        taken = [(seconds(threads=1), seconds(threads=2), seconds(cluster=address)) for _ in range(times)]
    one, two, cluster = (statistics.median(column) for column in zip(*taken, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        plan = league.LeaguePlan(tuple(cell.at(2000) for cell in suite.suite.values()), league.competitors(), 5)
        league.play(plan, Path(folder), progress=False)
        begun = time.perf_counter()
        league.play(plan, Path(folder), progress=False)
        again = time.perf_counter() - begun
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    peak = float(done.stdout)
    efficiency, overhead = one / two / 2.0, cluster / two - 1.0
    return [
        (
            f"league: efficiency of two cores ({one:.1f} s on one)",
            f"{efficiency:.2f}",
            "at least 0.85",
            efficiency >= 0.85,
        ),
        ("league: Dask, two workers, over two threads", f"{overhead:+.1%}", "at most +5%", overhead <= 0.05),
        (f"league: a finished one again, {len(suite.suite)} cells", f"{again:.2f} s", "at most 5 s", again <= 5.0),
        ("league: peak memory, 1,000 arms among the cells", f"{peak:.0f} MB", "at most 1000 MB", peak <= 1000.0),
    ]
