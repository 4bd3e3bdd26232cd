"""`belated league`, `sweep`, `report` and `cluster-worker`: runs on the suite."""

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from belated import learners, specs
from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.league import comparison, store
from belated.league import league as leagues
from belated.league import suite as suites
from belated.league.plan import League, LeaguePlan, can_play, competitors, objection
from belated.league.standings import Standing, rank
from belated.learners import TunedLearner
from belated.report import figures, tables
from belated.simulation import frames, parallel


def league(options: argparse.Namespace, out: Output) -> int:
    """Run a league; return 1 where a cell failed."""
    cells = _cells(options, suites.SUITES[options.suite])
    if options.suite in ("full", "real") and not options.cells and (not options.family or "real" in options.family):
        for name, reason in suites.left_out.items():
            out.note(f"cell {name} is left out: {reason}")
    chosen = competitors(options.learners)
    if options.learners is None:  # of the catalogue, those that can play somewhere
        able = tuple(each for each in chosen if any(can_play(each, cell) for cell in cells))
        for each in chosen:
            if each not in able:
                out.note(f"left out: {objection(each, cells[0])}")
        chosen = able
    return _run(options, chosen, cells, out)


def sweep(options: argparse.Namespace, out: Output) -> int:
    """Run a learner with several values of a parameter; return 1 where a cell failed."""
    cells = _cells(options, suites.suite if options.family else suites.quick)
    return _run(options, variants(options.learner), cells, out)


def variants(spec: str) -> tuple[TunedLearner, ...]:
    """Return a learner with one parameter at each of its values: `robust:delay_constant=49,1` gives two."""
    name, settings = specs.parse(spec)
    several = [key for key, value in settings.items() if isinstance(value, list)]
    if len(several) != 1:
        found = f"{' and '.join(several)} have several" if several else "none has several"
        raise InvalidValue(
            f"one parameter with several values is needed, as in robust:delay_constant=49,1,0.1; in {spec!r} {found}",
            "learner",
        )
    (swept,) = several
    return tuple(learners.tune(name, **{**settings, swept: value}) for value in settings[swept])


def report(options: argparse.Namespace, out: Output) -> int:
    """Write the report on a league."""
    from belated.report import report as reports

    out.line(f"written: {reports.write(options.folder)}")
    return 0


def cluster_worker(options: argparse.Namespace, out: Output) -> int:
    """Work for a Dask cluster until it closes."""
    parallel.join_cluster(options.address, options.threads)
    return 0


def _cells(options: argparse.Namespace, otherwise: Mapping[str, suites.Cell]) -> tuple[suites.Cell, ...]:
    cells = suites.find(options.cells) if options.cells else tuple(otherwise.values())
    if options.family:
        cells = suites.within(cells, options.family)
    return tuple(cell.at(options.rounds) for cell in cells) if options.rounds is not None else cells


def _run(
    options: argparse.Namespace, chosen: tuple[TunedLearner, ...], cells: tuple[suites.Cell, ...], out: Output
) -> int:
    plan = LeaguePlan(cells, chosen, options.replications, options.seed)
    own = [each.label for each in chosen if learners.catalogue.get(each.learner.name) != each.learner]
    if own:
        out.note(f"results are stored by name: after a change to {', '.join(own)}, use another --out")
    played = leagues.play(plan, options.out, threads=options.threads, cluster=options.cluster, report=out.note)
    rows = rank(played) if played.results else []
    written = write(played, rows, options.out) if played.results else []
    out.result(_data(played, rows), *(_shown(played, rows) if played.results else ()))
    if written:
        out.note("written: " + ", ".join(str(path) for path in written))
    for name, failure in played.failures.items():
        out.note(f"cell {name} failed: {failure}")
    return 1 if played.failures else 0


def _shown(played: League, rows: Sequence[Standing]) -> list[Any]:
    """Return what people see of a league."""
    plan = played.plan
    counts = {"cell": len(played.cells), "learner": len(plan.learners), "replication": plan.replications}
    parts: list[Any] = [", ".join(f"{count} {what}{'s' if count != 1 else ''}" for what, count in counts.items())]
    parts.append(tables.standings_table(rows, plan.replications))
    if note := tables.league_note(played):
        parts.append(note)
    if any(row.known is not None for row in rows):
        parts.append(tables.KNOWN_NOTE)
    families = list(suites.by_family(played.cells))
    if len(families) > 1:
        parts += ["mean ratio in each family, the best with a star", tables.family_table(families, rows)]
    order = [row.learner for row in rows]
    if len(order) <= tables.MANY:
        parts.append(tables.league_table(played, order))
        if tables.known_cells(played, played.cells):
            parts += [tables.KNOWN_HERE, tables.known_table(played, order)]
    return parts


def _data(played: League, rows: Sequence[Standing]) -> dict[str, Any]:
    """Return what programs see of a league.

    One replication gives no intervals: their ends are null. A share of uniform play's regret is null where uniform play
    has next to none. The round after which the best arm is known is null where half of the replications or more never
    know; the shares of those that know, and that name a wrong arm, are null where losses change.
    """
    results = []
    for cell in played.cells:
        result = played.results[cell.id]
        for k, learner in enumerate(result.learners):
            mean, low, high = result.final(learner)
            is_steady = not np.isnan(result.known[k]).any()
            results.append(
                {
                    "cell": cell.id,
                    "family": cell.family,
                    "learner": learner,
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "share_of_uniform": tables.uniform_share(cell, result, learner),
                    "known": result.known_after(learner),
                    "known_in": np.isfinite(result.known[k]).mean() if is_steady else None,
                    "known_wrong": result.known_wrong[k].mean() if is_steady else None,
                }
            )
    return {
        **store.described(played.plan),
        "standings": [asdict(row) for row in rows],
        "results": results,
        "failures": played.failures,
    }


def write(league: League, rows: Sequence[Standing], folder: Path) -> list[Path]:
    """Write numbers as CSV and Parquet, the ranking, the plan, the heat map; return the files."""
    written = []
    for name, content in (("final", leagues.final_rows), ("curves", leagues.curve_rows)):
        written.append(folder / f"{name}.csv")
        comparison.write_csv(written[-1], content(league))
        with suppress(ImportError):  # without polars or pandas CSV must do
            frames.write_parquet(folder / f"{name}.parquet", content(league))
            written.append(folder / f"{name}.parquet")
    order = [row.learner for row in rows]
    written.append(folder / "regret.md")
    written[-1].write_text(tables.league_markdown(league, order) + "\n")
    written.append(folder / "standings.md")
    families = list(suites.by_family(league.cells))
    written[-1].write_text(tables.standings_markdown(families, rows, league.plan.replications) + "\n")
    written.append(folder / "standings.json")
    written[-1].write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n")
    written.append(folder / "league.json")
    written[-1].write_text(json.dumps(store.described(league.plan), indent=1, ensure_ascii=False) + "\n")
    with suppress(ImportError):  # no figures without matplotlib
        written += figures.save(figures.draw_heat_map(league, order), folder / "heatmap", ("png", "svg", "pdf"))
    return written
