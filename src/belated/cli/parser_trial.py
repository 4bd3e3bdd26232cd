"""The arguments of `belated trial`."""

from pathlib import Path
from typing import Any

from belated.cli import completion
from belated.cli.options import add_command, add_tables, add_threads, complete, whole

TRIAL_HELP = """\
Design a short trial: simulate it before it begins, once with a learner that allocates patients by
what came of earlier ones, and once with fixed randomisation, at the assumed success rates and
under the null, where all arms have the control's. Prints where patients go, how many succeed, how
often the best arm is found and how often one that is not, and how far estimates are off. Read
docs/trial-design.md first: adaptive designs are easily oversold.

    belated trial --rates 0.3 0.5 --patients 150 --accrual 2 --delay constant:delay=30

    belated trial --outcomes public:data=actg175 --patients 2139 --accrual 5 --stop never

draws outcomes and their delays from data instead, arm by arm; under the null all arms have those
of the control.

Time is in any unit: --accrual is the number of patients in each, say a day, and --delay is in
days, too. --stop win looks at the outcomes every now and then and ends when an arm wins by bets on
the recorded randomisation, which are valid however often one looks; --stop never enrols all patients.
"""


def add(commands: Any) -> None:
    """Add the command."""
    trial = add_command(commands, "trial", "design a short adaptive trial: what it gains, what it costs", TRIAL_HELP)
    trial.add_argument(
        "--rates", nargs="+", type=float, metavar="RATE", help="assumed success rates, the control first"
    )
    outcomes = trial.add_argument(
        "--outcomes",
        metavar="SPEC",
        help="in place of --rates and --delay, outcomes that were observed: resampled:file=log.csv or public:data=NAME",
    )
    complete(outcomes, completion.environments)
    trial.add_argument(
        "--control", metavar="LABEL", help="with --outcomes, the arm that is the control; default: the first"
    )
    trial.add_argument("--patients", type=whole, required=True, metavar="N", help="how many are enrolled, at most")
    trial.add_argument("--accrual", type=float, metavar="RATE", help="patients in a unit of time; default: 1")
    delay = trial.add_argument(
        "--delay",
        metavar="SPEC",
        help="how long outcomes take, in the same unit: a whole number, a law of delay or module:NAME; default: none",
    )
    complete(delay, completion.delays)
    learner = trial.add_argument(
        "--learner", metavar="SPEC", help="a name, spec or module:NAME; default: the default learner"
    )
    complete(learner, completion.learners)
    trial.add_argument(
        "--share-floor", type=float, metavar="SHARE", help="the least share of each arm at any time; default: none"
    )
    trial.add_argument("--stop", default="win", metavar="RULE", help="win or never; default: win")
    trial.add_argument(
        "--look-every", type=whole, metavar="N", help="patients between looks; default: 1 %% of all, at least 1"
    )
    trial.add_argument("--alpha", type=float, default=0.05, metavar="SHARE", help="level of the tests; default: 0.05")
    trial.add_argument("--simulations", type=whole, default=2000, metavar="N", help="simulated trials; default: 2,000")
    trial.add_argument("--seed", type=whole, default=0, metavar="N", help="of the random numbers; default: 0")
    add_threads(trial)
    trial.add_argument("--figure", type=Path, metavar="FILE", help="draw a figure: a .png, .svg or .pdf file")
    add_tables(trial)
