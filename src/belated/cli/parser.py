"""The arguments of `belated`: commands and options, with their help."""

import argparse
from pathlib import Path
from typing import Any

from belated.cli import (
    completion,
    parser_estimates,
    parser_league,
    parser_ledger,
    parser_range,
    parser_replay,
    parser_service,
    parser_theory,
    parser_trial,
)
from belated.cli.options import (
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

COMPARE_HELP = """\
Compare learners on the same losses, delays and random draws. Prints their regret after the last
round with 95 % confidence intervals; writes the regret curves as a figure and all numbers as CSV.
Without options it repeats the main comparison of the paper.

environments   bernoulli:means=[0.4,0.5,0.5]       fixed mean losses
               stochastic:arms=10,gap=0.1          one best arm
               constrained:arms=10,gap=0.1         the gap stays, the level of all losses jumps
               beta, switching, blocks, resonant, corrupted, drifting: see docs/concepts.md
delays         none, constant:delay=100, geometric:mean=50, uniform:low=0,high=20,
               pareto:shape=1,scale=10, batches:every=1000, burst:count=316,delay=100000
               outlier:others=0                    the first outcome never comes
               dropout:share=0.1,others=20         a share of outcomes never comes
               byarm:laws=[0,100]                  delays depend on the arm
               byloss:good=0,bad=1000              delays depend on the loss
               empirical:file=delays.txt           delays drawn from a file
your own data  resampled:file=log.csv with delays own: outcomes and delays drawn from a log, by arm
learners       robust, robust:delay_constant=1, bold:base=exp3; `belated learners` lists them.
               Learners that need to know something about the problem are told, and marked †.
               thompson:settled=10000 hears of no outcome before its decision is 10,000 rounds
               old; every learner takes settled. It also takes share_floor, the least probability
               of every arm: thompson:share_floor=0.02.
your own       module:NAME, where module.py may be in the current folder: see docs/concepts.md

A TOML file may set learners, environments and delays (lists), rounds, replications and seed.
Options override the file.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="belated",
        description="Bandit decisions whose outcomes come late, out of order, or never.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="command")
    _add_catalogues(commands)
    _add_compare(commands)
    parser_estimates.add(commands)
    parser_replay.add(commands)
    parser_range.add(commands)
    parser_league.add(commands)
    parser_theory.add(commands)
    parser_trial.add(commands)
    parser_service.add(commands)
    parser_ledger.add(commands)
    shells = add_command(
        commands,
        "completion",
        "print the line that turns on completion in your shell",
        'Print the line that turns on completion: eval "$(belated completion bash)".\n'
        "Completion needs argcomplete: pip install 'belated[cli]'.",
    )
    shells.add_argument("shell", choices=tuple(completion.LINES))
    return top


def _add_catalogues(commands: Any) -> None:
    learners = add_command(
        commands,
        "learners",
        "list the learners, or describe one",
        "List the learners: what each needs to know and which regret bounds are proved for it.\n"
        "With NAME: all about one learner, its parameters included.",
    )
    name = learners.add_argument("name", nargs="?", metavar="NAME", help="describe this learner")
    complete(name, completion.learners)
    learners.add_argument("--markdown", action="store_true", help="print the table of docs/learners.md")
    add_tables(learners)

    cells = add_command(
        commands,
        "cells",
        "list the cells of the suite",
        "List the cells of the suite, family by family: the named problems that league, sweep, bounds\n"
        "and audit use. Each is an environment with a law of delay.",
    )
    patterns = cells.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="ids, or beginnings such as 'resonant-*'; default: all"
    )
    complete(patterns, completion.cells)
    add_families(cells)
    add_tables(cells)


def _add_compare(commands: Any) -> None:
    compare = add_command(commands, "compare", "compare learners: a table, a figure, CSV files", COMPARE_HELP)
    compare.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a TOML file with settings")
    add_learners(compare, "names, specs or module:NAME")
    environments = compare.add_argument("--environments", nargs="+", metavar="ENVIRONMENT", help="specs or module:NAME")
    complete(environments, completion.environments)
    delays = compare.add_argument("--delays", nargs="+", metavar="DELAYS", help="specs or module:NAME")
    complete(delays, completion.delays)
    compare.add_argument("--rounds", type=whole, metavar="N", help="how long to play; default: 300,000")
    add_repetition(compare, usual=20, in_file=True)
    add_threads(compare)
    add_out(compare, "results/compare")
    add_tables(compare)
