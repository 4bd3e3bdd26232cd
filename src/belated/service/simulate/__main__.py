"""Plays the plan on its standard input, a line of JSON; writes findings, a line after each run.

It ends when its standard input does: whoever asked has gone.
"""

import os
import sys
import time
from threading import Thread

import msgspec

from belated.errors import BelatedError
from belated.ledger.base import LedgerUnavailable
from belated.service.simulate.findings import findings
from belated.service.simulate.plan import LEARNERS, RUNS, Plan
from belated.service.simulate.problem import problem_of
from belated.simulation.replication import replicate
from belated.simulation.simulation import job_of, simulation_of

MOST_SECONDS = 120.0
"""After which no further run is begun."""
POINTS = 60
"""Of a curve."""
NICENESS = 15
"""Deciding goes first."""


def main() -> None:
    os.nice(NICENESS)
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
    Thread(target=_end_with_whoever_asked, daemon=True).start()
    try:
        _play(plan)
    except (BelatedError, LedgerUnavailable) as error:
        _tell({"problem": str(error)})


def _end_with_whoever_asked() -> None:
    while os.read(sys.stdin.fileno(), 1024):  # not by sys.stdin, whose lock would be in the way of ending
        pass
    os._exit(0)


def _play(plan: Plan) -> None:
    problem = problem_of(plan)
    job = job_of(
        [*LEARNERS, *filter(None, [problem.learner])],
        problem.environment,
        problem.delays,
        rounds=plan.decisions,
        checkpoints=min(POINTS, plan.decisions) if plan.decisions > 1 else [1],
        spacing="linear",
        known=True,
    )
    begun, results = time.monotonic(), []
    for run in range(RUNS):
        results.append(replicate(job, run))
        is_over = run == RUNS - 1 or time.monotonic() > begun + MOST_SECONDS
        _tell(findings(problem, simulation_of(job, results), is_over))
        if is_over:
            return


def _tell(what: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
