"""The arguments of `belated estimates`."""

from pathlib import Path
from typing import Any

from belated.cli.options import add_command, add_tables, whole
from belated.cli.parser_logs import LOG_HELP, add_log

ESTIMATES_HELP = f"""\
Which arm wins, and how sure is that? Means of the arms, differences, the winner and the uplift, with
intervals that hold however arms were chosen and however often you look.

{LOG_HELP}"""


def add(commands: Any) -> None:
    """Add the command."""
    command = add_command(commands, "estimates", "tell which arm wins and how sure that is", ESTIMATES_HELP)
    add_log(command)
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
        choices=("randomisation", "betting"),
        help="randomisation: means may move, propensities are true; betting: means stay the same; default:"
        " randomisation where decisions were open, betting elsewhere",
    )
    command.add_argument(
        "--assigned",
        metavar="SHARES",
        help="how arms were drawn, where the log has no propensities: uniform, or blue=0.5,green=0.5",
    )
    command.add_argument(
        "--floor", type=float, metavar="X", help="the least probability of every arm that was guaranteed from the start"
    )
    command.add_argument(
        "--outcomes",
        choices=("settled", "arrived", "bounded"),
        default="settled",
        help="settled: decisions in order, as far as all have outcomes; arrived: all outcomes, right only if delays"
        " depend neither on them nor on arms; bounded: all decisions, unknown rewards from 0 to 1; default:"
        " %(default)s",
    )
    command.add_argument(
        "--deadline",
        type=whole,
        metavar="N",
        help="take --missing-loss for decisions without an outcome after N more decisions",
    )
    command.add_argument(
        "--deadline-after",
        metavar="TIME",
        help="the same after a time: 7d, 12h, 30m, 45s where the log has dates, else a number in its own unit",
    )
    command.add_argument("--missing-loss", type=float, metavar="X", help="with --deadline; default: 1")
    command.add_argument("--figure", type=Path, metavar="FILE", help="draw intervals over time: .png, .svg or .pdf")
    add_tables(command)
