"""The arguments of `belated league`, `sweep`, `report` and `cluster-worker`."""

import argparse
from pathlib import Path
from typing import Any

from belated.cli import completion
from belated.cli.options import (
    add_cells,
    add_command,
    add_families,
    add_learners,
    add_out,
    add_repetition,
    add_tables,
    add_threads,
    complete,
    whole,
)

SUITES = ("full", "paper", "practice", "real", "quick")
"""The names in `belated.league.suite`, whose import would slow every --help down."""

LEAGUE_HELP = """\
Run every learner on every cell of the suite and rank them. Results are saved in the output folder
after each cell: if you stop the command, run it again with the same folder to continue.

The ratio of a learner in a cell is its regret divided by that of the best learner that was told
nothing about the problem; regret below sqrt(KT)/10 counts as sqrt(KT)/10. Cells belong to families,
and every family has the same weight: learners are ranked by the geometric mean, over the families,
of the geometric mean of their ratios within each. The folder also gets tables, CSV files and a heat
map.

`belated cells` lists the cells and their families. --cells resampled:file=log.csv is a cell of your
own: outcomes and delays of a log (docs/replay.md). A learner may be a name, a spec such as
robust:delay_constant=1, or module:NAME for one of your own, where module.py may be in the current
folder.
"""

SWEEP_HELP = """\
Run one learner with several values of one parameter on cells of the suite, and rank the values.

    belated sweep robust:delay_constant=49,1,0.1 --cells "stochastic-k10/*"
    belated sweep exp3_drift:exploration=0.5,delay_constant=1,0.1

The parameter that has several values is varied. Exactly one parameter may have several.
`belated learners NAME` lists the parameters of a learner. Every learner also takes settled, how
many rounds old a decision must be before its outcome is learned from: thompson:settled=0,10000;
and share_floor, the least probability of every arm.
"""

REPORT_HELP = """\
Write a report on a league that was run: one HTML page that needs no other files, and its figures
as SVG and PDF.
"""

WORKER_HELP = """\
Join a Dask cluster as a worker. `belated league --cluster ADDRESS` then sends work to it.
"""


def add(commands: Any) -> None:
    """Add the commands."""
    league = add_command(
        commands, "league", "rank all learners on the suite; can be stopped and continued", LEAGUE_HELP
    )
    league.add_argument(
        "--suite",
        choices=SUITES,
        default="full",
        help="paper: the cells that follow the literature; practice: those that follow practice; real: those of real "
        "data; quick: 8 cells at 20,000 rounds; default: %(default)s, all of them",
    )
    add_learners(league, "names, specs or module:NAME; default: all but uniform")
    _add_run(league, "results/league")

    sweep = add_command(commands, "sweep", "compare several values of one parameter of a learner", SWEEP_HELP)
    spec = sweep.add_argument("learner", metavar="LEARNER", help="a spec with several values for one parameter")
    complete(spec, completion.learners)
    _add_run(sweep, "results/sweep")

    report = add_command(commands, "report", "write a report on a league as an HTML page", REPORT_HELP)
    report.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="DIR",
        default=Path("results/league"),
        help="the folder of the league; default: %(default)s",
    )

    worker = add_command(commands, "cluster-worker", "join a Dask cluster as a worker", WORKER_HELP)
    worker.add_argument("address", metavar="ADDRESS", help="of the scheduler: tcp://HOST:8786")
    add_threads(worker)


def _add_run(command: argparse.ArgumentParser, folder: str) -> None:
    """Add what every run on the suite takes."""
    add_cells(command, "--cells", nargs="+", help="ids, or beginnings such as 'resonant-*'")
    add_families(command)
    command.add_argument(
        "--rounds", type=whole, metavar="N", help="how long to play; default: that of the cell (`belated cells`)"
    )
    add_repetition(command, usual=20)
    add_threads(command)
    command.add_argument("--cluster", metavar="ADDRESS", help="run on the Dask cluster at tcp://HOST:8786")
    add_out(command, folder)
    add_tables(command)
