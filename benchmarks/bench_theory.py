"""What theory costs: the audit of a long run, the bounds of many delays."""

import subprocess
import sys

AUDIT = """
import time
from belated import audit
audit.run("robust", "stochastic:arms=10,gap=0.1", "constant:delay=100", rounds=100, replications=1)
begun = time.perf_counter()
found = audit.run("robust", "stochastic:arms=10,gap=0.1", "constant:delay=100", rounds=1_000_000, replications=1)
taken = time.perf_counter() - begun
assert found.holds
print(taken, next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""
BOUNDS = """
import time
import numpy as np
from belated import bounds
delays = np.random.default_rng(0).geometric(0.01, 10_000_000)
bounds.table(bounds.Instance(10, delays[:100]))
begun = time.perf_counter()
instance = bounds.Instance(10, delays, gaps=[0.1] * 9)
bounds.facts(instance), bounds.table(instance)
taken = time.perf_counter() - begun
print(taken, next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


def measured(code: str) -> tuple[float, float]:
    """Seconds and peak megabytes of a fresh process."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def rows() -> list[tuple[str, str, str, bool | None]]:
    seconds, megabytes = measured(AUDIT)
    found: list[tuple[str, str, str, bool | None]] = [
        ("audit of 10^6 rounds, K = 10, delay 100", f"{seconds:.1f} s", "at most 60 s", seconds <= 60.0),
        ("  its peak memory", f"{megabytes:.0f} MB", "at most 500 MB", megabytes <= 500.0),
    ]
    seconds, megabytes = measured(BOUNDS)
    found.append(("bounds of 10^7 delays, K = 10", f"{seconds:.1f} s", "at most 5 s", seconds <= 5.0))
    found.append(("  its peak memory", f"{megabytes:.0f} MB", "", None))
    return found
