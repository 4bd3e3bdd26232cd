"""The arguments of `belated estimates`."""

from pathlib import Path
from typing import Any

from belated.cli.options import add_command, add_store, add_tables, whole

ESTIMATES_HELP = """\
Which arm wins, and how sure is that? Means of the arms, differences, the winner and the uplift, with
intervals that hold however arms were chosen and however often you look.

NAME   of an experiment in the ledger, or a file: CSV, NDJSON or Parquet, with a row for each decision
       in the order in which they were made (columns arm, reward or loss, propensity if there is one;
       an empty reward is not known yet), or an export of `belated ledger export`.
"""


def add(commands: Any) -> None:
    """Add the command."""
    command = add_command(commands, "estimates", "tell which arm wins and how sure that is", ESTIMATES_HELP)
    command.add_argument("source", metavar="NAME|FILE", help="an experiment, or a file")
    add_store(command)
    command.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        metavar="X",
        help="how probably each kind of statement may be wrong; default: %(default)s",
    )
    command.add_argument("--control", metavar="ARM", help="compare the other arms with this one")
    command.add_argument(
        "--method",
        choices=("betting", "weighted"),
        default="betting",
        help="weighted: means change with time, and propensities are true; default: %(default)s",
    )
    command.add_argument(
        "--outcomes",
        choices=("settled", "arrived", "bounded"),
        default="settled",
        help="settled: decisions in order, as far as all have outcomes; arrived: all outcomes, right only if delays do"
        " not depend on them; bounded: all decisions, unknown rewards from 0 to 1; default: %(default)s",
    )
    command.add_argument(
        "--deadline",
        type=whole,
        metavar="N",
        help="take --missing-loss for decisions without an outcome after N more decisions",
    )
    command.add_argument("--missing-loss", type=float, metavar="X", help="with --deadline; default: 1")
    command.add_argument("--figure", type=Path, metavar="FILE", help="draw intervals over time: .png, .svg or .pdf")
    columns = command.add_argument_group("columns of a file", "by default they are found by their usual names")
    for name, what in (
        ("arm", "the arm"),
        ("reward", "the reward, from 0 to 1"),
        ("loss", "the loss, from 0 to 1, in place of a reward"),
        ("propensity", "the probability with which the arm was chosen"),
        ("order", "a round or a time, which must not go back"),
        ("id", "the id of the decision"),
    ):
        columns.add_argument(f"--{name}", metavar="COLUMN", help=what)
    add_tables(command)
