"""The arguments of `belated replay`."""

from pathlib import Path
from typing import Any

from belated.cli.options import add_command, add_learners, add_tables, whole
from belated.cli.parser_logs import LOG_HELP, add_log

REPLAY_HELP = f"""\
What a log of your own says: how late its outcomes are and whether that depends on the arm or the
outcome; what each learner would have done on it, estimated by the rejection method, by inverse
propensity, self-normalised and doubly robust; and which arm wins.

{LOG_HELP}
    belated replay log.csv --html replay.html
    belated replay log.csv --assigned uniform --deadline-after 7d

Learners can be replayed only where every arm had a chance at every decision, and the log says which
(the column propensity, or --assigned). Read docs/replay.md for what is assumed.
"""


def add(commands: Any) -> None:
    """Add the command."""
    command = add_command(
        commands, "replay", "tell what a log says: its delays, what learners would do, who wins", REPLAY_HELP
    )
    add_log(command)
    add_learners(command, "names, specs or module:NAME; default: guarded robust thompson klucb ucb uniform")
    command.add_argument(
        "--assigned",
        choices=("uniform", "shares"),
        help="how arms were assigned, where there are no propensities: all with the same probability, or at random with"
        " the shares that the log shows",
    )
    command.add_argument(
        "--deadline", type=whole, metavar="N", help="take --missing-loss for decisions without an outcome after N more"
    )
    command.add_argument(
        "--deadline-after",
        metavar="TIME",
        help="the same after a time: 7d, 12h, 30m, 45s where the log has dates, else a number in its own unit",
    )
    command.add_argument("--missing-loss", type=float, metavar="X", help="with a deadline; default: 1")
    command.add_argument(
        "--alpha", type=float, default=0.05, metavar="X", help="how probably an interval may be wrong; default: 0.05"
    )
    command.add_argument("--control", metavar="ARM", help="compare the other arms with this one")
    command.add_argument(
        "--outcomes",
        choices=("settled", "arrived", "bounded"),
        default="settled",
        help="which outcomes tell the arms apart, as in `belated estimates`; default: %(default)s",
    )
    command.add_argument("--seed", type=whole, default=0, metavar="N", help="of the random numbers; default: 0")
    command.add_argument(
        "--most-rows", type=whole, metavar="N", help="replay learners on the first N decisions; default: 1,000,000"
    )
    command.add_argument("--html", type=Path, metavar="FILE", help="write a page with figures")
    add_tables(command)
