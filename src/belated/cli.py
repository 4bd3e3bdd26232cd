"""The command line. Nothing heavy is imported before a command needs it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

INTERRUPTED = 130

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
    compare.add_argument("--workers", type=_whole, metavar="N", help="threads; all cores by default")
    compare.add_argument(
        "--out", type=Path, default=Path("results/compare"), metavar="DIR", help="default: %(default)s"
    )
    _add_league(commands)
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
    worker = commands.add_parser("worker", help="join a cluster: work for the Dask scheduler at this address")
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


def _add_run(command: argparse.ArgumentParser, folder: str) -> None:
    """What every run on the suite takes."""
    command.add_argument("--cells", nargs="+", metavar="CELL", help="ids, or beginnings such as 'resonant-*'")
    command.add_argument("--rounds", type=_whole, metavar="N", help="default: 100,000 (quick: 20,000)")
    command.add_argument("--replications", type=_whole, metavar="N", default=20, help="default: %(default)s")
    command.add_argument("--seed", type=_whole, metavar="N", default=0)
    command.add_argument("--workers", type=_whole, metavar="N", help="threads; all cores by default")
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command: its exit status."""
    options = parser().parse_args(arguments)
    if options.version:
        from belated import __version__

        print(__version__)
        return 0
    if options.command is None:
        parser().print_help()
        return 0
    try:
        return _COMMANDS[options.command](options)
    except KeyboardInterrupt:
        print("belated: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone
        sys.stdout = None
        return INTERRUPTED
    except OSError as error:
        print(f"belated: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, ImportError) as error:
        print(f"belated: {error}", file=sys.stderr)
        return 2


def _learners(options: argparse.Namespace) -> int:
    from belated.learners import catalogue, find
    from belated.tables import CATALOGUE_HEADER, catalogue_rows, learner_page, learner_table, markdown_table

    if options.markdown:
        rows = [[f"[`{name}`](#{name})", *rest] for name, *rest in catalogue_rows(list(catalogue.values()))]
        print(markdown_table(CATALOGUE_HEADER, rows))
    elif options.name is None:
        print(learner_table(list(catalogue.values())))
        print("\n`belated learners NAME` tells all about one, its parameters above all")
    else:
        print(learner_page(find(options.name)))
    return 0


def _compare(options: argparse.Namespace) -> int:
    from belated import comparison, figures, tables

    names = ("learners", "environments", "delays", "rounds", "replications", "seed")
    settings: dict[str, Any] = comparison.read_settings(options.file) if options.file else {}
    settings |= {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    plan = comparison.Plan.from_settings(settings)
    options.out.mkdir(parents=True, exist_ok=True)
    outcome = comparison.compare(plan, workers=options.workers)
    print(
        f"regret after {plan.rounds:,} rounds: mean and 95 % interval over {plan.replications} replications, * smallest"
    )
    print()
    print(tables.comparison_table(outcome))
    print()
    written = [options.out / "curves.csv", options.out / "final.csv"]
    comparison.write_csv(written[0], comparison.curve_rows(outcome))
    comparison.write_csv(written[1], comparison.final_rows(outcome))
    try:
        written += figures.save(figures.draw_comparison(outcome), options.out / "regret")
    except ImportError as error:
        print(f"no figure: {error}", file=sys.stderr)
    print("written: " + ", ".join(str(path) for path in written))
    return 0


def _league(options: argparse.Namespace) -> int:
    from belated import runs

    return runs.league(options, print)


def _sweep(options: argparse.Namespace) -> int:
    from belated import runs

    return runs.sweep(options, print)


def _report(options: argparse.Namespace) -> int:
    from belated import report

    print(f"written: {report.write(options.folder)}")
    return 0


def _bounds(options: argparse.Namespace) -> int:
    from belated import theory

    return theory.bounds(options, print)


def _audit(options: argparse.Namespace) -> int:
    from belated import theory

    return theory.audit(options, print)


def _worker(options: argparse.Namespace) -> int:
    from belated import engine

    engine.work_for(options.address, options.threads)
    return 0


_COMMANDS = {
    "learners": _learners,
    "compare": _compare,
    "league": _league,
    "sweep": _sweep,
    "report": _report,
    "bounds": _bounds,
    "audit": _audit,
    "worker": _worker,
}

if __name__ == "__main__":
    sys.exit(main())
