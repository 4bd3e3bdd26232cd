"""The arguments of commands that read a log: an experiment, or a file with its columns."""

import argparse
from pathlib import Path

from belated.cli.options import add_store, rate

LOG_HELP = """\
NAME   of an experiment in the ledger, or a file: CSV, NDJSON or Parquet, with a row for each decision
       (columns arm; reward, loss or value, empty where it is not known yet; if there are any: propensity,
       distribution, time, outcome_time or delay, id), or an export of `belated ledger export`.
"""
_COLUMNS = {
    "arm": "the arm",
    "reward": "the reward, from 0 to 1",
    "loss": "the loss, from 0 to 1, in place of a reward",
    "value": "the outcome in units of its own, with --lowest and --highest, in place of a reward",
    "propensity": "the probability with which the arm was chosen",
    "distribution": "the probability of every arm, as a JSON object",
    "time": "when the decision was made: a round, a number or a date; rows are sorted by it",
    "outcome_time": "when the outcome came, in the same unit",
    "delay": "how much time the outcome took, in place of an outcome time; in seconds where times are dates",
    "id": "the id of the decision",
}


def add_log(command: argparse.ArgumentParser) -> None:
    """Add the arguments that say which log is read, and how."""
    command.add_argument("source", metavar="NAME|FILE", help="an experiment, or a file")
    add_store(command)
    columns = command.add_argument_group("columns of a file", "by default they are found by their usual names")
    for what, summary in _COLUMNS.items():
        columns.add_argument(f"--{what.replace('_', '-')}", metavar="COLUMN", help=summary)
    add_units(command)
    rows = command.add_argument_group("rows of a file")
    rows.add_argument("--arms", nargs="+", metavar="ARM", help="all arms there are, in their order; others are bad")
    rows.add_argument(
        "--bad-rows",
        choices=("refuse", "leave-out"),
        default="refuse",
        help="rows that cannot be read: refuse the file, or leave them out; default: %(default)s",
    )
    rows.add_argument(
        "--accrual",
        type=rate,
        metavar="RATE",
        help="decisions in a unit of time, where a file has delays, but no times; default: 1",
    )
    rows.add_argument("--rejected", type=Path, metavar="FILE", help="write a list of the rows left out, as CSV")


def add_units(command: argparse.ArgumentParser) -> None:
    """Add the arguments that say in which units outcomes are."""
    units = command.add_argument_group("units of outcomes", "such as revenue or minutes; by default from 0 to 1")
    units.add_argument("--lowest", type=float, metavar="X", help="the lowest value; values below count as it")
    units.add_argument("--highest", type=float, metavar="X", help="the highest value; values above count as it")
    units.add_argument("--better", choices=("higher", "lower"), help="which end is the better one; default: higher")
