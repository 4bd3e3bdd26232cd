"""The report: a league as one HTML page that needs nothing else, and its figures as SVG and PDF beside it."""

import base64
import html
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from belated.league import store
from belated.league.plan import League, can_play, competitors
from belated.league.standings import Standing, rank, ratios
from belated.league.suite import SUITES, Cell
from belated.learners import PythonLearner
from belated.report import figures, tables
from belated.simulation.simulation import simulate

TRACED = "balanced"
TRACED_CELL = "stochastic-k10/pareto"
CURVES = 7
"""Learners in each figure of curves, at most."""

STYLE = """
:root { color-scheme: light; --ink: #1d2329; --soft: #5b6670; --line: #d9dee3; --back: #ffffff; --tint: #f4f6f8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0.5rem 0 0.25rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 0.6rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 0.3rem; }
p { max-width: 46rem; margin: 0.5rem 0; }
.soft { color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; }
a { color: #0b5c9e; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; margin: 0.8rem 0; }
table { border-collapse: collapse; font-size: 0.86rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: 0.32rem 0.6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--tint); font-weight: 600; }
td.name, th.name { text-align: left; position: sticky; left: 0; background: var(--back); }
th.name { background: var(--tint); z-index: 1; }
tr:last-child td { border-bottom: 0; }
td.best { font-weight: 700; background: #fdf3cf; }
figure { margin: 0.8rem 0; }
figure img { display: block; max-width: 100%; height: auto; }
figure.heat { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
figure.heat img { max-width: none; margin: 0 auto; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 0.4rem 1.4rem; }
.grid figure { margin: 0.4rem 0; }
code, pre { font: 0.86rem/1.5 ui-monospace, "Cascadia Mono", Menlo, monospace; }
pre { background: var(--tint); border-radius: 6px; padding: 0.8rem 1rem; overflow-x: auto; }
figcaption { font-size: 0.86rem; color: var(--soft); max-width: 46rem; }
"""


def write(folder: Path, league: League | None = None) -> Path:
    """Write report.html into the folder of a league, and figures/ beside it: the page.

    Give the league itself where it has cells or learners that are not in the package.
    """
    league = league or store.read(folder)
    if not league.results:
        raise ValueError(f"{folder} holds no finished cell of this version; `belated league --out {folder}` plays them")
    drawn = Figures(folder / "figures")
    page = folder / "report.html"
    page.write_text(_page(league, rank(league), drawn, folder), encoding="utf-8")
    return page


class Figures:
    """Draws figures into a folder, as SVG and PDF, and into a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def image(self, figure: Any, name: str, text: str) -> str:
        """Save a figure under a name: an <img> that holds it, with a text for those who cannot see it."""
        width = round(96 * figure.get_figwidth())
        svg, _ = figures.save(figure, self.folder / name.replace("/", "--"), ("svg", "pdf"))
        data = base64.b64encode(svg.read_bytes()).decode()
        return f'<img src="data:image/svg+xml;base64,{data}" width="{width}" alt="{html.escape(text, quote=True)}">'


def _page(league: League, rows: Sequence[Standing], drawn: Figures, folder: Path) -> str:
    order = [row.learner for row in rows]
    plan = league.plan
    rounds = sorted({cell.rounds for cell in league.cells})
    sections = [
        ("Ranking", _ranking(league, rows)),
        ("Heat map", _heat_map(league, order, drawn)),
        ("Curves", _curves(league, drawn)),
        ("One run", _one_run(league, drawn)),
        ("All numbers", _numbers(league, order)),
        ("LeaguePlan", _settings(league, folder)),
    ]
    links = "".join(f'<a href="#{_anchor(title)}">{title}</a>' for title, _ in sections)
    body = "".join(f'<h2 id="{_anchor(title)}">{title}</h2>{content}' for title, content in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>belated: a league of learners under delay</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>A league of learners under delay</h1>
<p class="soft">{_counted(len(order), "learner")}, {_counted(len(league.cells), "cell")},
{_counted(plan.replications, "replication")} of
{" and ".join(f"{count:,}" for count in rounds)} rounds, seed {plan.seed}; belated {version("belated")}.</p>
<nav>{links}</nav>
{body}
</main>
</body>
</html>
"""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[int] = (0,)) -> str:
    """A table that scrolls sideways by itself; the columns in `names` hold words; a star marks the best of a row."""

    def cell(tag: str, k: int, text: str) -> str:
        best = tag == "td" and text.endswith("*")
        kind = ' class="name"' if k in names else ' class="best"' if best else ""
        return f"<{tag}{kind}>{html.escape(text.removesuffix('*') if best else text)}</{tag}>"

    head = "".join(cell("th", k, text) for k, text in enumerate(header))
    body = "".join("<tr>" + "".join(cell("td", k, text) for k, text in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _ranking(league: League, rows: Sequence[Standing]) -> str:
    header = ["learner", "rank", "95 %", "mean ratio", "95 %", "worst", "in cell", "cells"]
    cells = [[row[2], row[0], row[1], *row[3:]] for row in tables.standings_rows(rows, league.plan.replications)]
    return f"""<p>The ratio of a learner in a cell is its regret over that of the best uninformed learner there;
the mean is geometric, over all cells. Regret below a tenth of √(KT) counts as that: below it, where regret may even
be negative, all are as good. Intervals are bootstrap percentiles over replications, each cell measured by the same
learner in every draw.</p>
{_table(header, cells, names=(0, 6))}
<p class="soft">{html.escape(tables.league_note(league))}</p>"""


def _heat_map(league: League, order: Sequence[str], drawn: Figures) -> str:
    image = drawn.image(
        figures.draw_heat_map(league, order),
        "heatmap",
        "The ratio of every learner in every cell; the table has regrets",
    )
    return f"""<p>Yellow is as good as the best uninformed learner of the cell, dark is worse. A learner whose row has
no dark cell is one that nothing here breaks.</p><figure class="heat">{image}</figure>"""


def shown(league: League, cell: Cell) -> list[str]:
    """The learners worth a curve: the paper's, then the best of the cell, informed and not."""
    table = ratios(league)[:, league.cells.index(cell)]
    means = league.results[cell.id]
    ranked = sorted(
        (k for k, tuned in enumerate(league.plan.learners) if tuned.label in means.learners),
        key=lambda k: (table[k], float(means.final(league.plan.labels[k]).mean)),
    )
    labels = [league.plan.labels[k] for k in ranked]
    return [label for label in labels if label == TRACED] + [label for label in labels if label != TRACED][: CURVES - 1]


def _curves(league: League, drawn: Figures) -> str:
    parts = []
    for cell in league.cells:
        chosen = shown(league, cell)
        figure = figures.draw_curves(cell, league.results[cell.id], chosen)
        text = f"Regret against rounds in cell {cell.id}: {', '.join(chosen)}"
        parts.append(
            f"<figure><h3>{html.escape(cell.id)}</h3>{drawn.image(figure, f'curves-{cell.id}', text)}</figure>"
        )
    first = f"<code>{TRACED}</code> and the best others" if TRACED in league.plan.labels else "the best learners"
    return f"""<p>Regret against rounds, both logarithmic, mean and 95 % band: {first} of each cell. The grey line is
uniform play, the dotted one √(KT) + Φ, the order that no learner can beat against all losses (Φ, the price of delay:
min over sets S of rounds of |S| + √(D log K), D being the delays outside S).</p>
<div class="grid">{"".join(parts)}</div>"""


def _one_run(league: League, drawn: Figures) -> str:
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
    return f"""<figure>{drawn.image(figure, "one-run", text)}
<figcaption>What <code>{html.escape(tuned.label)}</code> waits for: the decisions outstanding when each round opens,
how many rounds it waits before it gives one up, and how many it has given up on.</figcaption></figure>"""


def _numbers(league: League, order: Sequence[str]) -> str:
    table = _table(tables.league_header(league, order), tables.league_rows(league, order))
    return f"""<p>Regret at the last round, mean ± half of its 95 % interval; the smallest of a cell is marked; – where
a learner must know what nobody can tell.</p>{table}"""


def _settings(league: League, folder: Path) -> str:
    versions = {"Python": platform.python_version(), "machine": platform.machine()}
    for package in ("belated", "numpy", "numba", "matplotlib"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "–"
    return f"""<pre>{html.escape(command(league, folder))}</pre>
{_table(["what", "version"], [[name, text] for name, text in versions.items()])}"""


def command(league: League, folder: Path) -> str:
    """The command that plays this league again, where there is one."""
    plan = league.plan
    strangers = [cell.id for cell in plan.cells if cell.id not in SUITES["full"]]
    strangers += [each.label for each in plan.learners if isinstance(each, PythonLearner)]
    if strangers:
        return f"played from Python: {', '.join(strangers)} is not in the package"
    words = ["belated", "league"]
    ids = [cell.id for cell in plan.cells]
    named = [name for name, cells in SUITES.items() if list(cells) == ids]
    words += ["--suite", named[0]] if named else ["--cells", *ids]
    usual = SUITES[named[0]] if named else SUITES["full"]
    rounds = {cell.rounds for cell in plan.cells if cell.rounds != usual[cell.id].rounds}
    words += ["--rounds", str(rounds.pop())] if rounds else []
    everybody = [tuned.label for tuned in competitors()]
    words += ["--learners", *plan.labels] if plan.labels != everybody else []
    words += ["--replications", str(plan.replications), "--seed", str(plan.seed), "--out", str(folder)]
    return shlex.join(words) + f"\nbelated report {shlex.quote(str(folder))}"
