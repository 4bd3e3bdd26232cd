"""The command line. Nothing heavy is imported before a command needs it."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from belated.cli.parser import parser
from belated.errors import BelatedError

INTERRUPTED = 130


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
    except (BelatedError, ValueError, ImportError) as error:
        print(f"belated: {error}", file=sys.stderr)
        return 2


def _learners(options: argparse.Namespace) -> int:
    from belated.learners import catalogue, find
    from belated.report.tables import CATALOGUE_HEADER, catalogue_rows, learner_page, learner_table, markdown_table

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
    from belated.league import comparison
    from belated.report import figures, tables

    names = ("learners", "environments", "delays", "rounds", "replications", "seed")
    settings: dict[str, Any] = comparison.read_settings(options.file) if options.file else {}
    settings |= {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    plan = comparison.ComparisonPlan.from_settings(settings)
    options.out.mkdir(parents=True, exist_ok=True)
    outcome = comparison.compare(plan, threads=options.threads)
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
    from belated.cli import league

    return league.league(options, print)


def _sweep(options: argparse.Namespace) -> int:
    from belated.cli import league

    return league.sweep(options, print)


def _report(options: argparse.Namespace) -> int:
    from belated.report import report

    print(f"written: {report.write(options.folder)}")
    return 0


def _bounds(options: argparse.Namespace) -> int:
    from belated.cli import theory

    return theory.bounds(options, print)


def _audit(options: argparse.Namespace) -> int:
    from belated.cli import theory

    return theory.audit(options, print)


def _service(options: argparse.Namespace) -> int:
    from belated.errors import needs_extra

    with needs_extra("the service", "service"):
        from belated.cli import service

    run: dict[str, Any] = {"serve": service.serve, "keys": service.keys, "ledger": service.ledger}
    return int(run[options.command](options, print))


def _cluster_worker(options: argparse.Namespace) -> int:
    from belated.simulation import parallel

    parallel.join_cluster(options.address, options.threads)
    return 0


_COMMANDS = {
    "learners": _learners,
    "compare": _compare,
    "league": _league,
    "sweep": _sweep,
    "report": _report,
    "bounds": _bounds,
    "audit": _audit,
    "cluster-worker": _cluster_worker,
    "serve": _service,
    "keys": _service,
    "ledger": _service,
}
