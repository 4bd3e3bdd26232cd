"""What tables show of learners, cells, comparisons, leagues, bounds and audits."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from belated.audit.audit import Audit
from belated.audit.split import Split
from belated.bounds import Bound, Fact
from belated.league.comparison import Comparison
from belated.league.plan import League
from belated.league.standings import Standing, floor
from belated.league.suite import Cell, about, by_family
from belated.learners import Learner, published
from belated.learners.published import NOTATION
from belated.report.columns import Column, Table, fold, shown_width
from belated.simulation.informed import INFORMED, informed_note, marked_names
from belated.simulation.simulation import Simulation
from belated.templates.display import number

MANY = 6
"""More learners than this stand in rows, not in columns."""


def comparison_table(comparison: Comparison, width: int | None = None) -> str:
    """Return the final regret of every learner in every cell, the smallest mean of a cell marked by a star.

    Learners stand in columns where they are few and the table fits the width, else in rows.
    """
    cells = comparison.cells
    titles = [[cell.environment.title, cell.delays.title] for cell in cells]
    results = [[*_finals(cell), f"{cell.uniform_regret[:, -1].mean():,.0f} "] for cell in cells]
    names = [*marked_names(cells[0].told), "(uniform play)"]
    columns = [Column("environment"), Column("delays"), *(Column(f"{name} ", right=True) for name in names)]
    text = Table(columns, [title + result for title, result in zip(titles, results, strict=True)]).fit(None).text
    if len(cells[0].learners) > MANY or (width is not None and max(map(shown_width, text.splitlines())) > width):
        columns = [Column("learner"), *(Column(f"({number}) ", right=True) for number in range(1, len(cells) + 1))]
        rows = [[name, *(result[k] for result in results)] for k, name in enumerate(names)]
        keys = [f"({number}) {'; '.join(title)}" for number, title in enumerate(titles, 1)]
        folded = [line for key in keys for line in fold(key, width, indent="    ")]
        text = "\n".join([*folded, "", Table(columns, rows, keys=1).fit(width).text])
    note = informed_note(cells[0].told)
    return "\n".join([text, *fold(note, width, indent="  ")]) if note else text


def _finals(cell: Simulation) -> list[str]:
    """Return each learner's final regret, the smallest marked."""
    finals = [cell.final(learner) for learner in cell.learners]
    least = min(float(final.mean) for final in finals)
    return [final.text + ("*" if float(final.mean) == least and len(finals) > 1 else " ") for final in finals]


CATALOGUE_HEADER = ("learner", "must know", "adversarial bound", "stochastic bound", "endless?", "certain?", "paper")


def catalogue_rows(learners: Sequence[Learner]) -> list[list[str]]:
    """Return the catalogue: name, needs, published bounds, whether it is robust to one endless delay, whether its
    choice is certain, paper.
    """
    rows = []
    for learner in learners:
        known = published.get(learner.name)
        facts = [known.adversarial, known.stochastic, "yes" if known.endless else "no"] if known else ["–", "–", "–"]
        certain = "yes" if learner.deterministic else "no"
        rows.append([learner.name, ", ".join(learner.needs) or "nothing", *facts, certain, cited(learner.paper)])
    return rows


def cited(paper: str) -> str:
    """Return authors and year alone: `Masoudian et al. 2024`."""
    found = re.match(r"(.+?) (\d{4})", paper)
    if not found:
        return paper
    authors, year = found.groups()
    return f"{authors.split(',')[0]} et al. {year}" if "," in authors else f"{authors} {year}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; bars within cells are escaped."""
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def learner_table(learners: Sequence[Learner]) -> Table:
    """Return the catalogue, its bounds last."""
    order = (0, 1, 4, 5, 6, 2, 3)
    columns = [Column(CATALOGUE_HEADER[k], drop=1 if "bound" in CATALOGUE_HEADER[k] else 0) for k in order]
    return Table(columns, [[row[k] for k in order] for row in catalogue_rows(learners)])


def notation(symbols: Sequence[str] = tuple(NOTATION), width: int | None = None) -> str:
    """Return what symbols of the catalogue mean, a line or more for each."""
    widest = max(map(len, symbols))
    lines = (fold(f"{symbol:<{widest}}  {NOTATION[symbol]}", width, " " * (widest + 2)) for symbol in symbols)
    return "\n".join(line for folded in lines for line in folded)


def learner_details(learner: Learner, width: int | None = None) -> str:
    """Return all about one learner: what it is, what it must know, what is published about it, its parameters."""
    facts = {"paper": learner.paper, "must know": ", ".join(learner.needs) or "nothing"}
    if learner.deterministic:
        facts["certain"] = "yes: it plays one arm with certainty, its propensities are 1"
    if known := published.get(learner.name):
        facts |= {"adversarial": known.adversarial, "stochastic": known.stochastic}
        facts["endless"] = f"{'yes' if known.endless else 'no'}: {known.why}"
    lines = [*fold(f"{learner.name}: {learner.summary}", width, "  "), ""]
    for name, text in facts.items():
        lines += fold(f"{name:<11}  {text}", width, " " * 13)
    if learner.parameters:
        columns = [Column("parameter"), Column("default"), Column("allowed"), Column("what it is", fold=True)]
        rows = []
        for each in learner.parameters:
            allowed = " or ".join(each.choices) if each.choices else f"{each.low:g} to {each.high:g}"
            rows.append([each.name, each.shown(each.default), allowed, each.summary])
        lines += ["", Table(columns, rows).fit(width).text]
    return "\n".join(lines)


def cells_table(cells: Sequence[Cell]) -> Table:
    """Return the cells of the suite, family by family: id, title, arms, rounds."""
    columns = [
        Column("cell"),
        Column("what it is", fold=True),
        Column("arms", right=True),
        Column("rounds", right=True),
    ]
    families = by_family(cells)
    rows = [
        [cell.id, cell.title, f"{cell.environment.n_arms:,}", f"{cell.rounds:,}"]
        for members in families.values()
        for cell in members
    ]
    return Table(columns, rows, headings=_headings(families))


def _headings(families: Mapping[str, Sequence[Cell]]) -> dict[int, str]:
    """Return the lines above the cells of each family, for a table with a row for each cell."""
    headings, row = {}, 0
    for name, members in families.items():
        headings[row] = f"{name}: {about(name)}"
        row += len(members)
    return headings


def standings_rows(rows: Sequence[Standing], replications: int) -> list[list[str]]:
    """Return the ranking, for terminals and pages; one replication gives no intervals."""
    known = replications > 1
    return [
        [
            f"{row.rank}",
            f"{row.best_rank}–{row.worst_rank}" if known else "–",
            row.learner + (INFORMED if row.informed else ""),
            f"{row.geometric:.2f}",
            f"{row.low:.2f}–{row.high:.2f}" if known else "–",
            f"{row.worst:.1f}",
            row.worst_cell,
            "–" if row.known is None else f"{row.known:.0%}".replace("%", " %"),
            f"{row.cells}",
        ]
        for row in rows
    ]


STANDINGS_HEADER = ("rank", "95 %", "learner", "mean ratio", "95 %", "worst", "in cell", "known", "cells")
KNOWN_NOTE = (
    "known: the share of the rounds after which belated.inference tells which arm is the best, with 95 % confidence:"
    " the median over replications, averaged over the cells whose losses do not change; not by the end is 100 %"
)
KNOWN_HERE = "the round after which the best arm is known, the median over replications"
"""What a table of `known_rows` shows."""


def standings_table(rows: Sequence[Standing], replications: int) -> Table:
    """Return the ranking for a terminal."""
    right = {0, 3, 5, 7, 8}
    drop = {8: 1, 6: 2, 1: 3}
    columns = [
        Column(name, right=k in right, fold=name == "learner", drop=drop.get(k, 0))
        for k, name in enumerate(STANDINGS_HEADER)
    ]
    return Table(columns, standings_rows(rows, replications))


def family_rows(families: Sequence[str], rows: Sequence[Standing]) -> list[list[str]]:
    """Return the mean ratio of each learner in each family, a dash where it does not play; a star marks the best."""
    found = []
    for row in rows:
        means = []
        for name in families:
            here = row.within(name)
            best = here is not None and here.rank == 1 and len(rows) > 1
            means.append("–" if here is None else f"{here.geometric:.2f}{'*' if best else ''}")
        found.append([row.learner + (INFORMED if row.informed else ""), *means])
    return found


def family_table(families: Sequence[str], rows: Sequence[Standing]) -> Table:
    """Return the mean ratios by family for a terminal."""
    columns = [Column("learner"), *(Column(f"{name} ", right=True) for name in families)]
    aligned = [
        [learner, *(text if text.endswith("*") else f"{text} " for text in means)]
        for learner, *means in family_rows(families, rows)
    ]
    return Table(columns, aligned, keys=1)


def standings_markdown(families: Sequence[str], rows: Sequence[Standing], replications: int) -> str:
    """Return the ranking in Markdown, overall and by family."""
    overall = markdown_table(STANDINGS_HEADER, standings_rows(rows, replications))
    return f"{overall}\n\n{markdown_table(['learner', *families], family_rows(families, rows))}"


def uniform_share(cell: Cell, result: Simulation, learner: str) -> float | None:
    """Return a learner's regret over that of uniform play; None where uniform play's is below the floor of ratios."""
    uniform = float(result.uniform_regret[:, -1].mean())
    return float(result.final(learner).mean) / uniform if uniform >= floor(cell) else None


def league_rows(league: League, cells: Sequence[Cell], order: Sequence[str]) -> list[list[str]]:
    """Return regret with intervals: a row for each cell, a column for each learner, then what it compares with:
    uniform play, the share of it that the best learner has, and theory.
    """
    rows = []
    for cell in cells:
        result = league.results[cell.id]
        finals = {learner: result.final(learner) for learner in result.learners}
        least = min(float(final.mean) for final in finals.values())
        regrets = [
            finals[name].text + ("*" if float(finals[name].mean) == least else "") if name in finals else "–"
            for name in order
        ]
        level = float(result.uniform_regret[:, -1].mean())
        uniform = f"{level:,.0f}" if level >= 100.0 else f"{level:.1f}"
        shares = [share for name in finals if (share := uniform_share(cell, result, name)) is not None]
        rows.append([cell.id, *regrets, uniform, f"{min(shares):.0%}" if shares else "–", f"{cell.theory:,.0f}"])
    return rows


def known_cells(league: League, cells: Sequence[Cell]) -> list[Cell]:
    """Return those of the cells in which the best arm can be known: their losses do not change."""
    return [cell for cell in cells if not np.isnan(league.results[cell.id].known).all()]


def known_rows(league: League, cells: Sequence[Cell], order: Sequence[str]) -> list[list[str]]:
    """Return after which round the best arm is known, the median over replications: a row for each cell, a column for
    each learner. A dash where half of the replications or more never know, or where a learner does not play.
    """
    rows = []
    for cell in cells:
        result = league.results[cell.id]
        after = [result.known_after(name) if name in result.learners else math.inf for name in order]
        rows.append([cell.id, *(f"{value:,.0f}" if value < math.inf else "–" for value in after)])
    return rows


def known_table(league: League, order: Sequence[str]) -> Table:
    """Return after which round the best arm is known in the cells whose losses do not change."""
    columns = [Column(name, right=k > 0) for k, name in enumerate(league_header(league, order)[: len(order) + 1])]
    families = by_family(known_cells(league, league.cells))
    ordered = [cell for members in families.values() for cell in members]
    return Table(columns, known_rows(league, ordered, order), keys=1, headings=_headings(families))


def league_header(league: League, order: Sequence[str]) -> list[str]:
    informed = {tuned.label for tuned in league.plan.learners if tuned.informed}
    learners = [name + (INFORMED if name in informed else "") for name in order]
    return ["cell", *learners, "uniform play", "best / uniform", "√(KT) + Φ"]


def league_table(league: League, order: Sequence[str]) -> Table:
    """Return regret at the last round, mean and half of its 95 % interval, the smallest of a cell with a star."""
    cell, *others = league_header(league, order)
    columns = [Column(cell), *(Column(name, right=True) for name in others)]
    families = by_family(league.cells)
    ordered = [cell for members in families.values() for cell in members]
    return Table(columns, league_rows(league, ordered, order), keys=1, headings=_headings(families))


def league_markdown(league: League, order: Sequence[str]) -> str:
    """Return regret at the last round, and when the best arm is known, in Markdown: tables for each family."""
    header = league_header(league, order)
    parts = []
    for name, members in by_family(league.cells).items():
        parts += [
            f"## {name}",
            f"{about(name).capitalize()}.",
            markdown_table(header, league_rows(league, members, order)),
        ]
        if steady := known_cells(league, members):
            parts.append(f"{KNOWN_HERE.capitalize()}:")
            parts.append(markdown_table(header[: len(order) + 1], known_rows(league, steady, order)))
    return "\n\n".join(parts)


def league_note(league: League) -> str:
    """Return what the marks mean; nothing where there are none."""
    return informed_note((tuned.label, tuned.informed) for tuned in league.plan.learners)


def facts_table(facts: Sequence[Fact]) -> Table:
    """Return what bounds are made of."""
    columns = [Column(""), Column("value", right=True), Column("what it is", fold=True)]
    return Table(columns, [[fact.symbol, number(fact.value), fact.meaning] for fact in facts])


BOUNDS_HEADER = ("learner", "regime", "bound on regret", "value", "constants", "source")


def bounds_rows(bounds: Sequence[Bound]) -> list[list[str]]:
    """Return each bound with its value, or with what is not known that it needs; lower bounds last."""
    return [
        [
            bound.learner,
            bound.regime,
            ("at least " if bound.constants == "lower" else "") + bound.formula,
            number(bound.value) if bound.value is not None else f"needs {bound.missing}",
            "order only" if bound.constants == "lower" else bound.constants,
            bound.source,
        ]
        for bound in bounds
    ]


def bounds_table(bounds: Sequence[Bound]) -> Table:
    """Return the bounds for a terminal."""
    columns = [
        Column(name, right=name == "value", fold=name == "bound on regret", drop=1 if name == "source" else 0)
        for name in BOUNDS_HEADER
    ]
    return Table(columns, bounds_rows(bounds))


AUDIT_HEADER = ("lemma", "what is measured", "bound", "measured", "slack", "holds?", "where in the paper")


def audit_rows(audit: Audit) -> list[list[str]]:
    """Return each lemma with what was measured; a dash where it does not apply."""
    rows = []
    for each in audit.findings:
        if each.bound != each.bound:
            numbers = ["–", "–", "–", "–"]
        else:
            half = ""
            if each.interval:
                width = (each.interval[1] - each.interval[0]) / 2
                half = f" ± {number(width if width > 1e-9 * abs(each.measured) else 0.0)}"
            numbers = [number(each.bound), number(each.measured) + half, number(each.slack), each.verdict]
        rows.append([each.name, each.says, *numbers, each.where])
    return rows


def audit_table(audit: Audit) -> Table:
    """Return the findings of an audit for a terminal."""
    columns = [
        Column(name, right=k in (2, 3, 4), fold=k == 1, drop=1 if name == "where in the paper" else 0)
        for k, name in enumerate(AUDIT_HEADER)
    ]
    return Table(columns, audit_rows(audit))


def split_table(split: Split) -> Table:
    """Return the terms of a leader's regret for a terminal."""
    return Table([Column("term"), Column("what it is", fold=True), Column("mean", right=True)], split.rows())
