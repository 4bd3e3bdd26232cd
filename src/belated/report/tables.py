"""Tables for a terminal."""

import re
import unicodedata
from collections.abc import Sequence

from belated.audit.audit import Audit
from belated.bounds import Bound, Fact
from belated.league.comparison import Comparison
from belated.league.plan import League
from belated.league.standings import Standing
from belated.learners import Learner, published
from belated.learners.published import NOTATION
from belated.simulation.intervals import Interval
from belated.simulation.simulation import Simulation

INFORMED = "†"
"""What marks a learner that was told something about the problem."""


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Columns as wide as their widest cell, two spaces apart, a rule under the header."""
    widths = [max(_width(row[k]) for row in [header, *rows]) for k in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, width, to_right in zip(cells, widths, right, strict=True):
            blank = " " * (width - _width(cell))
            parts.append(blank + cell if to_right else cell + blank)
        return "  ".join(parts).rstrip()

    return "\n".join([line(header), "  ".join("─" * width for width in widths), *(line(row) for row in rows)])


def _width(text: str) -> int:
    """On a terminal: hats stand over their letters."""
    return sum(not unicodedata.combining(character) for character in text)


def regret(interval: Interval) -> str:
    """Mean and half the width of its interval: `1,234 ± 56`."""
    half = (interval.high - interval.low) / 2.0
    digits = 0 if abs(interval.mean) >= 100.0 else 1
    mean = round(float(interval.mean), digits) + 0.0  # no negative zero
    return f"{mean:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half == half else "")


MANY = 6
"""More learners than this stand in rows, not in columns."""


def comparison_table(comparison: Comparison) -> str:
    """Final regret of every learner in every cell, the smallest mean of a cell marked by a star."""
    cells = comparison.cells
    titles = [[cell.environment.title, cell.delays.title] for cell in cells]
    results = [[*_finals(cell), f"{cell.uniform_regret[:, -1].mean():,.0f} "] for cell in cells]
    names = [*marked_names(cells[0]), "(uniform play)"]
    if len(cells[0].learners) <= MANY:
        rows = [title + result for title, result in zip(titles, results, strict=True)]
        header = ["environment", "delays", *(f"{name} " for name in names)]
        table = text_table(header, rows, [False, False, *(True for _ in names)])
    else:
        rows = [[name, *(result[k] for result in results)] for k, name in enumerate(names)]
        header = ["learner", *(f"({number}) " for number in range(1, len(cells) + 1))]
        table = text_table(header, rows, [False, *(True for _ in cells)])
        keys = [f"({number}) {'; '.join(title)}" for number, title in enumerate(titles, 1)]
        table = "\n".join([*keys, "", table])
    note = informed_note(cells[0])
    return f"{table}\n{note}" if note else table


def _finals(cell: Simulation) -> list[str]:
    """Each learner's final regret, the smallest marked."""
    finals = [cell.final(learner) for learner in cell.learners]
    least = min(float(final.mean) for final in finals)
    return [regret(final) + ("*" if float(final.mean) == least and len(finals) > 1 else " ") for final in finals]


def marked_names(cell: Simulation) -> list[str]:
    """The learners' names, those of informed ones with a mark."""
    return [name + (INFORMED if told else "") for name, told in zip(cell.learners, cell.informed, strict=True)]


def informed_note(cell: Simulation) -> str:
    """What the marks mean; nothing where there are none."""
    told = [f"{name} ({', '.join(what)})" for name, what in zip(cell.learners, cell.informed, strict=True) if what]
    return f"{INFORMED} told about the problem: {', '.join(told)}" if told else ""


CATALOGUE_HEADER = ("learner", "must know", "adversarial bound", "stochastic bound", "endless?", "paper")


def catalogue_rows(learners: Sequence[Learner]) -> list[list[str]]:
    """The catalogue: name, needs, published bounds, whether it is robust to one endless delay, paper."""
    rows = []
    for learner in learners:
        known = published.get(learner.name)
        facts = [known.adversarial, known.stochastic, "yes" if known.endless else "no"] if known else ["–", "–", "–"]
        rows.append([learner.name, ", ".join(learner.needs) or "nothing", *facts, cited(learner.paper)])
    return rows


def cited(paper: str) -> str:
    """Authors and year alone: `Masoudian et al. 2024`."""
    found = re.match(r"(.+?) (\d{4})", paper)
    if not found:
        return paper
    authors, year = found.groups()
    return f"{authors.split(',')[0]} et al. {year}" if "," in authors else f"{authors} {year}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """For pages; bars within cells are escaped."""
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def learner_table(learners: Sequence[Learner]) -> str:
    """The catalogue, with the symbols of its bounds explained under it."""
    table = text_table(CATALOGUE_HEADER, catalogue_rows(learners), [False] * len(CATALOGUE_HEADER))
    width = max(map(len, NOTATION))
    return "\n".join([table, "", *(f"{symbol:<{width}}  {meaning}" for symbol, meaning in NOTATION.items())])


def learner_page(learner: Learner) -> str:
    """One learner: what it is, what it must know, what it can be told, what is published about it."""
    lines = [f"{learner.name}: {learner.summary}", "", f"paper        {learner.paper}"]
    lines.append(f"must know    {', '.join(learner.needs) or 'nothing'}")
    if known := published.get(learner.name):
        lines.append(f"adversarial  {known.adversarial}")
        lines.append(f"stochastic   {known.stochastic}")
        lines.append(f"endless      {'yes' if known.endless else 'no'}: {known.why}")
    if learner.parameters:
        rows = []
        for each in learner.parameters:
            allowed = " or ".join(each.choices) if each.choices else f"{each.low:g} to {each.high:g}"
            rows.append([each.name, each.shown(each.default), allowed, each.summary])
        lines += ["", text_table(["parameter", "default", "allowed", "what it is"], rows, [False] * 4)]
    return "\n".join(lines)


def standings_rows(rows: Sequence[Standing], replications: int) -> list[list[str]]:
    """The ranking, for terminals and pages; one replication gives no intervals."""
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
            f"{row.cells}",
        ]
        for row in rows
    ]


STANDINGS_HEADER = ("rank", "95 %", "learner", "mean ratio", "95 %", "worst", "in cell", "cells")


def standings_table(rows: Sequence[Standing], replications: int) -> str:
    right = [True, False, False, True, False, True, False, True]
    return text_table(STANDINGS_HEADER, standings_rows(rows, replications), right)


def league_rows(league: League, order: Sequence[str]) -> list[list[str]]:
    """Regret with intervals: a row for each cell, a column for each learner, then uniform play and theory."""
    rows = []
    for cell in league.cells:
        result = league.results[cell.id]
        finals = {learner: result.final(learner) for learner in result.learners}
        least = min(float(final.mean) for final in finals.values())
        cells = [
            regret(finals[name]) + ("*" if float(finals[name].mean) == least else "") if name in finals else "–"
            for name in order
        ]
        level = float(result.uniform_regret[:, -1].mean())
        uniform = f"{level:,.0f}" if level >= 100.0 else f"{level:.1f}"
        rows.append([cell.id, *cells, uniform, f"{cell.theory:,.0f}"])
    return rows


def league_header(league: League, order: Sequence[str]) -> list[str]:
    informed = {tuned.label for tuned in league.plan.learners if tuned.informed}
    return ["cell", *(name + (INFORMED if name in informed else "") for name in order), "uniform play", "√(KT) + Φ"]


def league_table(league: League, order: Sequence[str]) -> str:
    """Regret at the last round, mean and half of its 95 % interval, the smallest of a cell with a star."""
    return text_table(league_header(league, order), league_rows(league, order), [False] + [True] * (len(order) + 2))


def league_note(league: League) -> str:
    """What the marks mean; nothing where there are none."""
    told = [f"{tuned.label} ({', '.join(tuned.informed)})" for tuned in league.plan.learners if tuned.informed]
    return f"{INFORMED} told about the problem: {', '.join(told)}" if told else ""


def facts_table(facts: Sequence[Fact]) -> str:
    """What bounds are made of."""
    return text_table(
        ["", "value", "what it is"], [[f.symbol, number(f.value), f.meaning] for f in facts], [False, True, False]
    )


BOUNDS_HEADER = ("learner", "regime", "bound on regret", "value", "constants", "source")


def bounds_rows(bounds: Sequence[Bound]) -> list[list[str]]:
    """Each bound with its value, or with what is not known that it needs; lower bounds last."""
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


def bounds_table(bounds: Sequence[Bound]) -> str:
    return text_table(BOUNDS_HEADER, bounds_rows(bounds), [False, False, False, True, False, False])


AUDIT_HEADER = ("statement", "what is measured", "bound", "measured", "slack", "holds?", "where in the paper")


def audit_rows(audit: Audit) -> list[list[str]]:
    """Each statement with what was measured; a dash where it does not apply."""
    rows = []
    for each in audit.findings:
        if each.bound != each.bound:
            numbers = ["–", "–", "–", "–"]
        else:
            half = ""
            if each.interval:
                width = (each.interval[1] - each.interval[0]) / 2
                half = f" ± {number(width if width > 1e-9 * abs(each.measured) else 0.0)}"
            verdict = {True: "yes", False: "NO", None: "–"}[each.holds]
            numbers = [number(each.bound), number(each.measured) + half, number(each.slack), verdict]
        rows.append([each.name, each.says, *numbers, each.where])
    return rows


def audit_table(audit: Audit) -> str:
    return text_table(AUDIT_HEADER, audit_rows(audit), [False, False, True, True, True, False, False])


def number(value: float) -> str:
    """As many digits as a table needs: 12,345, 17.3, 0.00123."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"inf": "∞", "-inf": "-∞"}.get(str(value), "–")
    if abs(value) >= 1e12:
        return f"{value:.3g}"
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 100.0:
        return f"{value:,.0f}"
    return f"{value:.3g}"
