"""The arguments of `belated bounds` and `belated audit`."""

from pathlib import Path
from typing import Any

from belated.cli import completion
from belated.cli.options import (
    add_cells,
    add_command,
    add_learners,
    add_out,
    add_repetition,
    add_tables,
    complete,
    whole,
)

BOUNDS_HELP = """\
Compute every regret bound of the paper's table for a problem, and the quantities in them: the total
delay, the most outcomes outstanding, the best set of rounds to skip. Bounds have the constants of
their proofs; where a proof gives none, they are marked "order only".

The problem is one of
    CELL                                   a cell of the suite: stochastic-k10/pareto
    --delays SPEC                          a law of delay: pareto:shape=1,scale=10
    --delays-file FILE                     a file with one delay a line, `never` for a lost outcome
With --delays and --delays-file, --arms and --gaps describe the losses.
"""

AUDIT_HELP = """\
Run a learner on cells of the suite and check every lemma of the paper's proof on what it did. The
table shows the worst of all replications. The exit status is 1 where a lemma is broken. Writes a
JSON file and a figure for each cell.

--split splits the regret of a learner that follows the regularised leader into terms, each
measured: what it gave up, what delay cost it, penalty and stability. Their sum is at least the
regret in expectation. The exit status is 1 where it is not, though all assumptions hold.

The learner may be a name, a spec such as robust:delay_constant=1, or module:NAME for one of your
own, where module.py may be in the current folder.
"""


def add(commands: Any) -> None:
    """Add the commands."""
    bounds = add_command(commands, "bounds", "compute the regret bounds of the paper for a problem", BOUNDS_HELP)
    add_cells(bounds, "cell", nargs="?", help="a cell of the suite; `belated cells` lists them")
    delays = bounds.add_argument("--delays", metavar="SPEC", help="a law of delay, or module:NAME")
    complete(delays, completion.delays)
    bounds.add_argument("--delays-file", type=Path, metavar="FILE", help="delays that were observed, one a line")
    bounds.add_argument("--arms", type=whole, metavar="K", help="number of arms; default: 10")
    bounds.add_argument(
        "--gaps", nargs="+", type=float, metavar="GAP", help="one for all arms but the best, or K - 1; default: 0.1"
    )
    bounds.add_argument(
        "--rounds", type=whole, metavar="N", help="default: 100,000; with --delays-file, the length of the file"
    )
    learner = bounds.add_argument(
        "--learner", metavar="SPEC", default="robust", help="robust with its delay_constant; default: %(default)s"
    )
    complete(learner, completion.learners)
    add_learners(bounds, "run these, too, and draw the bounds over their regret")
    add_repetition(bounds, usual=20)
    add_out(bounds, "results/bounds")
    add_tables(bounds)

    audit = add_command(commands, "audit", "run a learner and check the lemmas of the paper's proof", AUDIT_HELP)
    add_cells(audit, "cells", nargs="+", help="ids, or beginnings such as 'resonant-*'")
    learner = audit.add_argument(
        "--learner", metavar="SPEC", default="robust", help="a name, spec or module:NAME; default: %(default)s"
    )
    complete(learner, completion.learners)
    audit.add_argument(
        "--split", action="store_true", help="split the regret into terms instead; a JSON file, no figure"
    )
    audit.add_argument("--rounds", type=whole, metavar="N", help="how long to play; default: 100,000")
    add_repetition(audit, usual=5)
    add_out(audit, "results/audit")
    add_tables(audit)
