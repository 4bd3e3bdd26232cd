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
delays         none    constant:delay=100    geometric:mean=50    uniform:low=0,high=20    pareto:shape=1,scale=10
               outlier:others=0 (the first outcome never comes)    dropout:share=0.1,others=20 (a share never comes)
learners       robust    robust:delay_constant=1    bold:base=exp3 ...; `belated learners` lists them. Those that must
               know something about the problem are told it, and marked

A TOML file holds the same names: learners, environments, delays (lists), rounds, replications, seed. Options given
beside it come first.
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
    return top


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


_COMMANDS = {"learners": _learners, "compare": _compare}

if __name__ == "__main__":
    sys.exit(main())
