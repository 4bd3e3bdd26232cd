"""The commands that play on the suite: league and sweep, from what was asked for to the files that are left."""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from belated import learners
from belated.league import comparison, store
from belated.league import league as leagues
from belated.league import suite as suites
from belated.league.plan import League, LeaguePlan, can_play, competitors
from belated.league.standings import Standing, rank
from belated.learners import Learner, TunedLearner
from belated.report import figures, tables
from belated.simulation import frames

Say = Callable[[str], None]


def league(options: argparse.Namespace, say: Say) -> int:
    """`belated league`: its exit status, 1 where a cell failed."""
    cells = _cells(options.cells, suites.SUITES[options.suite], options.rounds)
    chosen = competitors(options.learners)
    if options.learners is None:  # of the catalogue, those that can play somewhere
        able = tuple(each for each in chosen if any(can_play(each, cell) for cell in cells))
        if left_out := [each.label for each in chosen if each not in able]:
            say(f"left out, since nobody can tell them what they must know here: {', '.join(left_out)}")
        chosen = able
    return _run(options, chosen, cells, say)


def sweep(options: argparse.Namespace, say: Say) -> int:
    """`belated sweep`: its exit status, 1 where a cell failed."""
    cells = _cells(options.cells, suites.quick, options.rounds)
    return _run(options, variants(options.learner, options.parameter, options.values), cells, say)


def variants(
    learner: str | Learner | TunedLearner, parameter: str, values: Sequence[float | str]
) -> tuple[TunedLearner, ...]:
    """A learner with one parameter at each of these values."""
    return tuple(learners.tune(learner, **{parameter: value}) for value in values)


def _cells(ids: Sequence[str] | None, otherwise: Any, rounds: int | None) -> tuple[suites.Cell, ...]:
    cells = suites.find(ids) if ids else tuple(otherwise.values())
    return tuple(cell.at(rounds) for cell in cells) if rounds is not None else cells


def _run(
    options: argparse.Namespace, chosen: tuple[TunedLearner, ...], cells: tuple[suites.Cell, ...], say: Say
) -> int:
    plan = LeaguePlan(cells, chosen, options.replications, options.seed)
    played = leagues.play(plan, options.out, threads=options.threads, cluster=options.cluster, report=say)
    if played.results:
        rows = rank(played)
        counts = {"cell": len(played.cells), "learner": len(chosen), "replication": options.replications}
        say(", ".join(f"{count} {what}{'s' if count != 1 else ''}" for what, count in counts.items()))
        say("")
        say(tables.standings_table(rows, options.replications))
        if note := tables.league_note(played):
            say(note)
        order = [row.learner for row in rows]
        if len(order) <= tables.MANY:
            say("")
            say(tables.league_table(played, order))
        say("")
        say("written: " + ", ".join(str(path) for path in write(played, rows, options.out)))
    for name, failure in played.failures.items():
        say(f"cell {name} failed: {failure}")
    return 1 if played.failures else 0


def write(league: League, rows: Sequence[Standing], folder: Path) -> list[Path]:
    """Numbers as CSV and Parquet, the ranking, the plan, the heat map: the files written."""
    written = []
    for name, content in (("final", leagues.final_rows), ("curves", leagues.curve_rows)):
        written.append(folder / f"{name}.csv")
        comparison.write_csv(written[-1], content(league))
        with suppress(ImportError):  # without polars or pandas CSV must do
            frames.write_parquet(folder / f"{name}.parquet", content(league))
            written.append(folder / f"{name}.parquet")
    order = [row.learner for row in rows]
    written.append(folder / "regret.md")
    written[-1].write_text(
        tables.markdown_table(tables.league_header(league, order), tables.league_rows(league, order)) + "\n"
    )
    written.append(folder / "standings.json")
    written[-1].write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n")
    written.append(folder / "league.json")
    written[-1].write_text(json.dumps(store.described(league.plan), indent=1, ensure_ascii=False) + "\n")
    with suppress(ImportError):  # no figures without matplotlib
        written += figures.save(figures.draw_heat_map(league, order), folder / "heatmap", ("png", "svg", "pdf"))
    return written
