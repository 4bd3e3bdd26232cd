"""The report of a league: one HTML page that needs no other file, and its figures as SVG and PDF beside it."""

import base64
import platform
import shlex
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from belated.league import store
from belated.league.plan import League, can_play, competitors
from belated.league.standings import Standing, rank, ratios
from belated.league.suite import SUITES, Cell, about, by_family, find, suite, within
from belated.learners import PythonLearner
from belated.report import figures, tables
from belated.simulation.simulation import simulate
from belated.templates import render

TRACED = "guarded"
TRACED_CELL = "stochastic-k10/pareto"
CURVES = 7
"""Learners in each figure of curves, at most."""
FEW = 12
"""Cells of a league whose curves are shown at once; those of more are folded away."""
RANKING_HEADER = (
    "learner",
    "rank",
    "rank, 95 %",
    "mean ratio",
    "ratio, 95 %",
    "worst ratio",
    "worst cell",
    "known",
    "cells",
)


def write(folder: Path, league: League | None = None) -> Path:
    """Write report.html and figures/ into the folder of a league. Return the path of the page.

    Give the league itself where it has cells or learners that are not in the package.
    """
    league = league or store.read(folder)
    if not league.results:
        raise ValueError(f"{folder} holds no finished cell of this version; `belated league --out {folder}` plays them")
    drawn = Figures(folder / "figures")
    page = folder / "report.html"
    context = _context(league, rank(league), drawn, folder)
    page.write_text(render("report.html", **context), encoding="utf-8")
    return page


class Figures:
    """Figures saved into a folder, as SVG and PDF."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def image(self, figure: Any, name: str, text: str) -> dict[str, Any]:
        """Save a figure under a name. Return what a page needs to show it; `text` is for those who cannot see it."""
        width = round(96 * figure.get_figwidth())
        svg, _ = figures.save(figure, self.folder / name.replace("/", "--"), ("svg", "pdf"))
        return {"data": base64.b64encode(svg.read_bytes()).decode(), "width": width, "text": text}


def _context(league: League, rows: Sequence[Standing], drawn: Figures, folder: Path) -> dict[str, Any]:
    """Return what the template of the report shows."""
    order = [row.learner for row in rows]
    families = by_family(league.cells)
    heat_map = figures.draw_heat_map(league, order)
    return {
        "summary": _summary(league),
        "ranking": {"header": RANKING_HEADER, "rows": _ranking_rows(league, rows)},
        "note": tables.league_note(league),
        "is_known_shown": any(row.known is not None for row in rows),
        "heat_map": drawn.image(heat_map, "heatmap", "The ratio of every learner in every cell, as a heat map"),
        "traced": TRACED if TRACED in league.plan.labels else None,
        "means": {"header": ["learner", *families], "rows": _marked(tables.family_rows(list(families), rows))},
        "families": [_family(league, rows, *each, drawn) for each in families.items()],
        "folded": len(league.cells) > FEW,
        "run": _one_run(league, drawn),
        "own_parts": own_parts(league),
        "command": command(league, folder),
        "versions": _versions(),
    }


def _summary(league: League) -> str:
    plan = league.plan
    least, most = min(cell.rounds for cell in league.cells), max(cell.rounds for cell in league.cells)
    rounds = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return (
        f"{_counted(len(plan.learners), 'learner')}, {_counted(len(league.cells), 'cell')} in"
        f" {_families(len(by_family(league.cells)))}, {_counted(plan.replications, 'replication')} of {rounds} rounds,"
        f" seed {plan.seed}; belated {version('belated')}."
    )


def _families(count: int) -> str:
    return "1 family" if count == 1 else f"{count} families"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _ranking_rows(league: League, rows: Sequence[Standing]) -> list[list[str]]:
    """Return the rows of the ranking, the learner first."""
    return [[row[2], row[0], row[1], *row[3:]] for row in tables.standings_rows(rows, league.plan.replications)]


def _marked(rows: Iterable[Sequence[str]]) -> list[list[str | dict[str, Any]]]:
    """Return the rows of a table; a star in the text of a cell becomes its mark as the best."""
    return [
        [name, *({"text": text.removesuffix("*"), "best": text.endswith("*")} for text in cells)]
        for name, *cells in rows
    ]


def _family(
    league: League, rows: Sequence[Standing], name: str, cells: Sequence[Cell], drawn: Figures
) -> dict[str, Any]:
    """Return what the report has of a family: learners by their rank in it, and their regret in each of its cells.

    The last rows are what regret compares with.
    """
    known = league.plan.replications > 1
    ranked = sorted(rows, key=lambda row: here.rank if (here := row.within(name)) else len(rows) + 1)
    order = [row.learner for row in ranked]
    headings, *columns = zip(*tables.league_rows(league, cells, order), strict=True)
    learners, scales = columns[: len(order)], columns[len(order) :]
    names = tables.league_header(league, order)[1:]
    table = []
    for label, row, regrets in zip(names, ranked, learners, strict=False):
        numbers = ["–", "–", "–"]
        if here := row.within(name):
            numbers = [f"{here.rank}", f"{here.geometric:.2f}", f"{here.low:.2f}–{here.high:.2f}" if known else "–"]
        table.append([label, *numbers, *regrets])
    table += [[label, "", "", "", *values] for label, values in zip(names[len(order) :], scales, strict=True)]
    return {
        "name": name,
        "about": about(name),
        "header": ["learner", "rank", "mean ratio", "ratio, 95 %", *headings],
        "rows": _marked(table),
        "known": _known(league, cells, order),
        "curves": [_curve(league, cell, drawn) for cell in cells],
    }


def _known(league: League, cells: Sequence[Cell], order: Sequence[str]) -> dict[str, Any] | None:
    """Return the table of when the best arm is known, learners in rows; None where losses change in all cells."""
    steady = tables.known_cells(league, cells)
    if not steady:
        return None
    names = tables.league_header(league, order)[: len(order) + 1]
    headings, *columns = zip(*tables.known_rows(league, steady, order), strict=True)
    rows = [[name, *column] for name, column in zip(names[1:], columns, strict=True)]
    return {"header": ["learner", *headings], "rows": rows}


def shown(league: League, cell: Cell) -> list[str]:
    """Return the learners whose curves are drawn in a cell: `TRACED` first, then the best others."""
    table = ratios(league)[:, league.cells.index(cell)]
    means = league.results[cell.id]
    ranked = sorted(
        (k for k, tuned in enumerate(league.plan.learners) if tuned.label in means.learners),
        key=lambda k: (table[k], float(means.final(league.plan.labels[k]).mean)),
    )
    labels = [league.plan.labels[k] for k in ranked]
    return [label for label in labels if label == TRACED] + [label for label in labels if label != TRACED][: CURVES - 1]


def _curve(league: League, cell: Cell, drawn: Figures) -> dict[str, Any]:
    chosen = shown(league, cell)
    figure = figures.draw_curves(cell, league.results[cell.id], chosen)
    text = f"Regret against rounds in cell {cell.id}: {', '.join(chosen)}"
    return {"cell": cell.id, "image": drawn.image(figure, f"curves-{cell.id}", text)}


def _one_run(league: League, drawn: Figures) -> dict[str, Any]:
    """Play one replication again, this time with its trace."""
    candidates = [cell for cell in league.cells if cell.id == TRACED_CELL] or list(league.cells[:1])
    cell = candidates[0]
    tuned = next((each for each in league.plan.learners if each.label == TRACED), None)
    tuned = tuned or next(each for each in league.plan.learners if can_play(each, cell))
    run = simulate(
        tuned,
        cell.environment,
        cell.delays,
        rounds=cell.rounds,
        replications=1,
        seed=league.plan.seed,
        keep_trace=True,
        progress=False,
    )
    figure = figures.draw_trace(run.traces[0][0], f"{tuned.label} in {cell.id}, replication 0")
    text = f"Outstanding decisions, patience and skipped decisions of {tuned.label} over one run in {cell.id}"
    return {"learner": tuned.label, "cell": cell.id, "image": drawn.image(figure, "one-run", text)}


def _versions() -> list[list[str]]:
    """Return rows of a name and a version."""
    rows = [["Python", platform.python_version()], ["machine", platform.machine()]]
    for package in ("belated", "numpy", "numba", "matplotlib"):
        try:
            rows.append([package, version(package)])
        except PackageNotFoundError:
            rows.append([package, "–"])
    return rows


def own_parts(league: League) -> list[str]:
    """Return what the command line cannot name: cells and learners that are not in the package, cells of which some
    have other rounds.
    """
    cells = league.plan.cells
    one_length = len({cell.rounds for cell in cells}) == 1
    found = [
        each.id
        for each in cells
        if not each.spec and (each.id not in suite or (each != suite[each.id] and not one_length))
    ]
    return found + [each.label for each in league.plan.learners if isinstance(each, PythonLearner)]


def command(league: League, folder: Path) -> str | None:
    """Return the commands that play this league again and write its report; none if it has parts of your own."""
    if own_parts(league):
        return None
    plan = league.plan
    words = ["belated", "league"]
    ids = [cell.spec or cell.id for cell in plan.cells]
    named = [name for name, cells in SUITES.items() if list(cells) == ids]
    families = list(by_family(plan.cells))
    whole = not any(cell.spec for cell in plan.cells)
    whole = whole and [cell.id for cell in within(suite.values(), families)] == ids
    words += ["--suite", named[0]] if named else ["--family", *families] if whole else ["--cells", *ids]
    usual = {cell.id: cell for cell in (SUITES[named[0]].values() if named else find(ids))}
    rounds = {cell.rounds for cell in plan.cells if cell.rounds != usual[cell.id].rounds}
    words += ["--rounds", str(rounds.pop())] if rounds else []
    everybody = [tuned.label for tuned in competitors()]
    words += ["--learners", *plan.labels] if plan.labels != everybody else []
    words += ["--replications", str(plan.replications), "--seed", str(plan.seed), "--out", str(folder)]
    return shlex.join(words) + f"\nbelated report {shlex.quote(str(folder))}"
