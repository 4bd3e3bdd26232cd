"""What reading and replaying logs costs: rows a second over plain reading by polars; time and memory of ten million."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars

from belated.logs import read_log

Row = tuple[str, str, str, bool | None]
ROWS, MANY = 10**6, 10**7
TURNS = 5
PLAIN: dict[str, Callable[[Path], polars.DataFrame]] = {
    ".csv": polars.read_csv,
    ".ndjson": polars.read_ndjson,
    ".parquet": polars.read_parquet,
}
MEMORY = """
import sys, time
from belated.logs import read_log
begun = time.perf_counter()
log = read_log(sys.argv[1])
assert log.arms.size == int(sys.argv[2])
taken = time.perf_counter() - begun
print(taken, next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


REPLAY = """
import sys, time
from belated.cli.main import main
begun = time.perf_counter()
assert main(["replay", sys.argv[1], "--deadline-after", "1d", "--json", "--html", sys.argv[1] + ".html"]) == 0
taken = time.perf_counter() - begun
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
print(taken, peak, file=sys.stderr)
"""


def frame(first: int, rows: int) -> polars.DataFrame:
    """A log with ids, dates with a zone, and outcomes up to a day later; decision `first` is the first."""
    rng = np.random.default_rng(first)
    seconds = first + np.arange(rows)
    begin = np.datetime64("2026-01-01T00:00:00", "us")
    dates = {
        "decided_at": begin + seconds.astype("timedelta64[s]"),
        "converted_at": begin + (seconds + rng.integers(0, 86400, rows)).astype("timedelta64[s]"),
    }
    return polars.DataFrame(
        {
            "decision_id": [f"d{k:012d}" for k in seconds.tolist()],
            "variant": rng.choice(["blue", "green", "red", "white"], rows),
            "propensity": np.full(rows, 0.25),
            "reward": rng.integers(0, 2, rows),
            **{name: polars.Series(each).dt.strftime("%Y-%m-%dT%H:%M:%SZ") for name, each in dates.items()},
            "comment": ["hello"] * rows,
        }
    )


def write(path: Path, rows: int) -> None:
    if path.suffix == ".csv":
        with path.open("wb") as file:
            for first in range(0, rows, ROWS):
                frame(first, min(ROWS, rows - first)).write_csv(file, include_header=first == 0)
    elif path.suffix == ".ndjson":
        frame(0, rows).write_ndjson(path)
    else:
        frame(0, rows).write_parquet(path)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def rows() -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix, plain in PLAIN.items():
            path = Path(folder) / f"log{suffix}"
            write(path, ROWS)
            turns = [(timed(lambda p=path: read_log(p)), timed(lambda p=path, r=plain: r(p))) for _ in range(TURNS)]  # type: ignore[misc]
            ours, theirs = (statistics.median(each) for each in zip(*turns, strict=True))
            found += [
                (f"logs: rows a second, {suffix}, seven columns, two dates", f"{ROWS / ours:,.0f}", "", None),
                (
                    f"      times the seconds that polars reads it alone ({theirs:.2f})",
                    f"{ours / theirs:.1f}",
                    "",
                    None,
                ),
            ]
        path = Path(folder) / "many.csv"
        write(path, MANY)
        command = [sys.executable, "-c", MEMORY, str(path), str(MANY)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, peak = map(float, done.stdout.split())
        done = subprocess.run([sys.executable, "-c", REPLAY, str(path)], capture_output=True, text=True, check=True)
        whole, most = map(float, done.stderr.split()[-2:])
    return [
        *found,
        ("logs: 10^7 rows of CSV", f"{seconds:.1f} s", "at most 40 s", seconds <= 40),
        ("logs: the same, peak of memory", f"{peak:.0f} MB", "at most 1300 MB", peak <= 1300),
        ("logs: belated replay of it, six learners, with its page", f"{whole:.1f} s", "at most 60 s", whole <= 60),
        ("logs: the same, peak of memory", f"{most:.0f} MB", "at most 2000 MB", most <= 2000),
    ]
