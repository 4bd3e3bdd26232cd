"""Write a log of a fixed split, as a shop may have one, and say what it tells: delays, learners, arms.

    python examples/replay_log.py            # or with the name of a file, which is kept
    python examples/replay_log.py log.csv
    belated replay log.csv --time day --arm page --reward bought --outcome-time bought_on \\
        --assigned uniform --deadline-after 14
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from belated.inference import Estimate
from belated.logs import read_log
from belated.replay import replay_log

ARMS = np.array(["blue", "green", "red"])
RATES = np.array([0.05, 0.06, 0.09])
"""Conversions of each page."""
DAYS = 14
"""A visitor who has not bought by then does not count."""


def write_log(path: Path, visitors: int = 6000, seed: int = 11) -> None:
    """Write a row for each visitor: the day, the page shown, whether it sold, and when."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, ARMS.size, visitors)
    days = np.sort(rng.random(visitors) * 90)
    bought = rng.random(visitors) < RATES[arms]
    when = days + rng.exponential(3.0, visitors)
    with path.open("w", encoding="utf-8") as file:
        file.write("day,page,bought,bought_on\n")
        for day, arm, buys, at in zip(days, arms, bought, when, strict=True):
            came = buys and at <= 90
            file.write(f"{day:.4f},{ARMS[arm]},{int(came)},{f'{at:.4f}' if came else ''}\n")


with tempfile.TemporaryDirectory() as folder:
    log_file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "log.csv"
    write_log(log_file)
    log = read_log(log_file, time="day", arm="page", reward="bought", outcome_time="bought_on")

found = replay_log(log, ["guarded", "thompson"], assigned="uniform", deadline_after=DAYS)
print(log)
print(found.estimates.verdict)
for value in found.values:
    dr = value.estimates["dr"]
    if isinstance(dr, Estimate):  # where rewards are missing, it is a range without a value
        print(f"{value.learner}: {dr.value:.4f} ({dr.low:.4f} to {dr.high:.4f}) a decision")
if isinstance(found.logged, Estimate):
    print(f"as logged: {found.logged.value:.4f}; the difference is the regret that a learner would have saved")
