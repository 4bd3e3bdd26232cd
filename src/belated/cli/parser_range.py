"""The arguments of `belated range`."""

from pathlib import Path
from typing import Any

from belated.cli.options import add_command, add_tables

RANGE_HELP = """\
Propose a range for outcomes in your own units (revenue, minutes, errors) from values of a log, and say
what it costs: how many values are clipped, what that does to the mean of each arm and to their order, and
how many more decisions a wider range would take.

FILE   CSV, NDJSON or Parquet, with a row for each decision: the value, and if there is one, the arm.
"""


def add(commands: Any) -> None:
    """Add the command."""
    command = add_command(commands, "range", "propose a range for outcomes in your own units", RANGE_HELP)
    command.add_argument("source", metavar="FILE", help="a file with values")
    command.add_argument("--value", metavar="COLUMN", help="the values; default: value, revenue, amount, reward, loss")
    command.add_argument(
        "--arm", metavar="COLUMN", help="the arms; by default found by its usual names, if it is there"
    )
    command.add_argument(
        "--better", choices=("higher", "lower"), default="higher", help="which values are better; default: %(default)s"
    )
    command.add_argument(
        "--quantile",
        type=float,
        metavar="X",
        help="the share of values that should not be clipped, of those that are not 0 where 0 is common; default: 0.99,"
        " or more where that takes no more decisions",
    )
    command.add_argument("--empty", type=float, metavar="X", help="what an empty cell stands for; default: left out")
    command.add_argument(
        "--bad-rows",
        choices=("refuse", "leave-out"),
        default="refuse",
        help="rows that cannot be read: refuse the file, or leave them out; default: %(default)s",
    )
    command.add_argument("--rejected", type=Path, metavar="FILE", help="write a list of the rows left out, as CSV")
    add_tables(command)
