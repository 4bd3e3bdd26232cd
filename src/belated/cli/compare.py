"""`belated compare`: learners on every environment with every law of delay."""

import argparse
from pathlib import Path
from typing import Any

from belated.cli.output import Output
from belated.league import comparison
from belated.report import figures, tables

SETTINGS = ("learners", "environments", "delays", "rounds", "replications", "seed")


def compare(options: argparse.Namespace, out: Output) -> int:
    """Run a comparison; print the table, write the figure and the numbers."""
    settings: dict[str, Any] = comparison.read_settings(options.file) if options.file else {}
    settings |= {name: getattr(options, name) for name in SETTINGS if getattr(options, name) is not None}
    plan = comparison.ComparisonPlan.from_settings(settings)
    options.out.mkdir(parents=True, exist_ok=True)
    outcome = comparison.compare(plan, threads=options.threads)
    written = _write(outcome, options.out, out)
    rounds, replications = f"{plan.rounds:,} rounds", f"{plan.replications} replications"
    out.result(
        {"rounds": plan.rounds, "replications": plan.replications, "seed": plan.seed, "results": _results(outcome)},
        f"regret after {rounds}: mean and 95 % interval over {replications}, * smallest",
        tables.comparison_table(outcome, out.width),
    )
    out.note("written: " + ", ".join(str(path) for path in written))
    return 0


def _write(outcome: comparison.Comparison, folder: Path, out: Output) -> list[Path]:
    written = [folder / "curves.csv", folder / "final.csv"]
    comparison.write_csv(written[0], comparison.curve_rows(outcome))
    comparison.write_csv(written[1], comparison.final_rows(outcome))
    try:
        return written + figures.save(figures.draw_comparison(outcome), folder / "regret")
    except ImportError as error:
        out.note(f"no figure: {error}")
        return written


def _results(outcome: comparison.Comparison) -> list[dict[str, Any]]:
    """Return final regret, a row for each learner in each cell."""
    rows = []
    for cell in outcome.cells:
        for learner, told in zip(cell.learners, cell.informed, strict=True):
            mean, low, high = cell.final(learner)
            rows.append(
                {
                    "environment": cell.environment.title,
                    "delays": cell.delays.title,
                    "learner": learner,
                    "told": told,
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "uniform_regret": cell.uniform_regret[:, -1].mean(),
                }
            )
    return rows
