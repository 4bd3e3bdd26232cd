"""What the command line understands: commands, options, and the help that goes with them."""

import argparse
import os
from pathlib import Path
from typing import Any

COMPARE_HELP = """\
Play learners against the same losses, delays and draws; print their final regret with 95 % intervals, draw the curves,
write the numbers. Without options: the paper's headline.

environments   bernoulli:means=[0.4,0.5,0.5]    stochastic:arms=10,gap=0.1    constrained:arms=10,gap=0.1,growth=1.6
               beta    switching    blocks    resonant    corrupted    drifting; docs/concepts.md has their settings
delays         none    constant:delay=100    geometric:mean=50    uniform:low=0,high=20    pareto:shape=1,scale=10
               outlier:others=0 (the first outcome never comes)    dropout:share=0.1,others=20 (a share never comes)
               burst:count=316,delay=100000    batches:every=1000    byarm:laws=[0,100]    byloss:good=0,bad=1000
               empirical:file=delays.txt
learners       robust    robust:delay_constant=1    bold:base=exp3 ...; `belated learners` lists them. Those that must
               know something about the problem are told it, and marked

A TOML file holds the same names: learners, environments, delays (lists), rounds, replications, seed. Options given
beside it come first.
"""


LEAGUE_HELP = """\
Play every learner on every cell of the suite. Results are kept in the folder as they come: stop it, start it again with
the same folder, and it goes on. Prints the ranking by the geometric mean of the ratios to the best uninformed learner
of each cell (regret below a tenth of sqrt(KT) counts as that: below it all are as good), writes tables and a heat map.

cells          stochastic-k10/pareto    constrained-k10/*    resonant-k2/1000 …
"""


BOUNDS_HELP = """\
Print what is known about a problem (total delay, most outstanding, the best set of rounds to skip) and every bound of
the paper's table as a number: with the constants of its proof, or marked "order only".

problem        stochastic-k10/pareto    pareto:shape=1,scale=10    delays.txt (one delay a line, `never` for none)
"""

AUDIT_HELP = """\
Play a learner on cells of the suite and check every statement of the paper's proof on what it did: the worst of all
replications against what is allowed. Exit status 1 where one is broken. Writes a JSON file and a figure of how much of
what is allowed was used over time.
"""


SERVE_HELP = """\
Serve decisions over HTTP. What was answered is on disk. At the first start an admin key is printed, this once;
BELATED_ADMIN_KEY sets it instead where nobody watches. `belated keys` makes others; /docs describes what can be asked.

store          sqlite:///belated.db (beside this folder's other files; made if need be)    sqlite:////var/lib/belated.db
               postgresql://USER@HOST/DATABASE, for workers on several machines
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="belated", description="Decisions whose outcomes come late, out of order, or never."
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="command")

    catalogue = commands.add_parser("learners", help="list the learners: what each must know, what is proved of it")
    catalogue.add_argument("name", nargs="?", help="one of them: all about it, its parameters above all")
    catalogue.add_argument("--markdown", action="store_true", help="the table as docs/learners.md has it")

    compare = commands.add_parser(
        "compare",
        help="compare learners: a table, a figure, the numbers",
        description=COMPARE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument("file", nargs="?", type=Path, help="a TOML file with settings")
    compare.add_argument("--learners", nargs="+", metavar="LEARNER")
    compare.add_argument("--environments", nargs="+", metavar="ENVIRONMENT")
    compare.add_argument("--delays", nargs="+", metavar="DELAYS")
    compare.add_argument("--rounds", type=_whole, metavar="N")
    compare.add_argument("--replications", type=_whole, metavar="N")
    compare.add_argument("--seed", type=_whole, metavar="N")
    compare.add_argument("--threads", type=_whole, metavar="N", help="default: all cores")
    compare.add_argument(
        "--out", type=Path, default=Path("results/compare"), metavar="DIR", help="default: %(default)s"
    )
    _add_league(commands)
    _add_service(commands)
    return top


def _add_league(commands: Any) -> None:
    league = commands.add_parser(
        "league",
        help="all learners on the suite: a ranking, a table, a heat map; goes on where it was stopped",
        description=LEAGUE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    league.add_argument("--suite", choices=("full", "quick"), default="full", help="default: %(default)s")
    league.add_argument("--learners", nargs="+", metavar="LEARNER", help="default: the catalogue")
    _add_run(league, "results/league")

    sweep = commands.add_parser(
        "sweep",
        help="one parameter of a learner over values, on cells of the suite",
        description="Play a learner with one parameter at several values on cells of the suite: a league of its own.",
    )
    sweep.add_argument("learner", help="its name, with other parameters if need be: robust, ucb, bold:base=exp3")
    sweep.add_argument("parameter", help="delay_constant, exploration, …; `belated learners NAME` lists them")
    sweep.add_argument("values", nargs="+", help="49 1 0.1 0.01")
    _add_run(sweep, "results/sweep")

    report = commands.add_parser(
        "report", help="one self-contained HTML page of a league that was played, and its figures as SVG and PDF"
    )
    report.add_argument("folder", nargs="?", type=Path, default=Path("results/league"), help="default: %(default)s")

    _add_theory(commands)
    worker = commands.add_parser("cluster-worker", help="join a cluster: work for the Dask scheduler at this address")
    worker.add_argument("address", help="tcp://HOST:8786")
    worker.add_argument("--threads", type=_whole, metavar="N", help="default: all cores")


def _add_theory(commands: Any) -> None:
    bounds = commands.add_parser(
        "bounds",
        help="what every bound of the paper's table says about a problem",
        description=BOUNDS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bounds.add_argument("problem", help="a cell of the suite, a file of delays, or words for delays")
    bounds.add_argument("--arms", type=_whole, metavar="K", help="with delays of your own; default: 10")
    bounds.add_argument("--gaps", nargs="+", type=float, metavar="GAP", help="likewise; one, or K - 1; default: 0.1")
    bounds.add_argument("--rounds", type=_whole, metavar="N", help="default: 100,000; of a file, its length")
    bounds.add_argument("--delay-constant", type=float, metavar="C", default=49.0, help="of robust; default: 49")
    bounds.add_argument(
        "--learners", nargs="+", metavar="LEARNER", help="play these, draw the bounds over their regret"
    )
    bounds.add_argument("--replications", type=_whole, metavar="N", default=20, help="default: %(default)s")
    bounds.add_argument("--seed", type=_whole, metavar="N", default=0)
    bounds.add_argument("--out", type=Path, default=Path("results/bounds"), metavar="DIR", help="of the figure")
    bounds.add_argument("--json", action="store_true", help="print it for machines")

    audit = commands.add_parser(
        "audit",
        help="play a learner and check every statement of the paper's proof on what it did",
        description=AUDIT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit.add_argument("cells", nargs="+", metavar="CELL", help="of the suite; beginnings such as 'resonant-*' too")
    audit.add_argument("--learner", default="robust", help="default: %(default)s")
    audit.add_argument(
        "--set", nargs="+", action="extend", metavar="NAME=VALUE", default=[], help="parameters: delay_constant=1"
    )
    audit.add_argument("--rounds", type=_whole, metavar="N", help="default: 100,000")
    audit.add_argument("--replications", type=_whole, metavar="N", default=5, help="default: %(default)s")
    audit.add_argument("--seed", type=_whole, metavar="N", default=0)
    audit.add_argument("--out", type=Path, default=Path("results/audit"), metavar="DIR", help="default: %(default)s")
    audit.add_argument("--json", action="store_true", help="print it for machines")


def _add_service(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="decisions over HTTP, durable: the service",
        description=SERVE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_store(serve)
    serve.add_argument("--host", default="127.0.0.1", help="default: %(default)s; TLS is a proxy's work")
    serve.add_argument("--port", type=_whole, default=8000, metavar="N", help="default: %(default)s; 0: any free one")
    serve.add_argument("--workers", type=_whole, default=1, metavar="N", help="processes; default: %(default)s")

    keys = commands.add_parser("keys", help="who may use the service: create, list and revoke keys")
    actions = keys.add_subparsers(dest="action", metavar="action", required=True)
    create = actions.add_parser("create", help="make a key and print it, this once")
    create.add_argument("name", help="whose it is, for the list")
    create.add_argument("--role", choices=("decide", "read", "admin"), default="decide", help="default: %(default)s")
    revoke = actions.add_parser("revoke", help="refuse a key from now on")
    revoke.add_argument("id", help="as `belated keys list` shows it")
    for action in (create, actions.add_parser("list", help="all keys, without their secrets"), revoke):
        _add_store(action)

    ledger = commands.add_parser("ledger", help="the record of an experiment: verify it, export it")
    actions = ledger.add_subparsers(dest="action", metavar="action", required=True)
    verify = actions.add_parser(
        "verify", help="replay every event and compare with what is on record; exit status 1 where they differ"
    )
    verify.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="default: all")
    verify.add_argument("--url", metavar="URL", help="of a service: compare with its live state too (key: BELATED_KEY)")
    export = actions.add_parser("export", help="every event as lines of JSON, CSV or Parquet")
    export.add_argument("experiment", metavar="EXPERIMENT")
    export.add_argument("--format", choices=("ndjson", "csv", "parquet"), default="ndjson", help="default: %(default)s")
    export.add_argument("--after", type=_whole, default=0, metavar="N", help="only events numbered after this one")
    export.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    for action in (verify, export):
        _add_store(action)


def _add_store(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--store",
        default=os.environ.get("BELATED_STORE", "sqlite:///belated.db"),
        help="sqlite:///PATH or postgresql://…; default: BELATED_STORE, else sqlite:///belated.db",
    )


def _add_run(command: argparse.ArgumentParser, folder: str) -> None:
    """What every run on the suite takes."""
    command.add_argument("--cells", nargs="+", metavar="CELL", help="ids, or beginnings such as 'resonant-*'")
    command.add_argument("--rounds", type=_whole, metavar="N", help="default: 100,000 (quick: 20,000)")
    command.add_argument("--replications", type=_whole, metavar="N", default=20, help="default: %(default)s")
    command.add_argument("--seed", type=_whole, metavar="N", default=0)
    command.add_argument("--threads", type=_whole, metavar="N", help="default: all cores")
    command.add_argument("--cluster", metavar="ADDRESS", help="of a Dask scheduler, tcp://HOST:8786, to do the work")
    command.add_argument("--out", type=Path, default=Path(folder), metavar="DIR", help="default: %(default)s")


def _whole(text: str) -> int:
    """A whole number, as people write them: 100000, 100_000, 1e5."""
    try:
        number = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0.5
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(number)
