"""Figures for papers, made to be saved: matplotlib, but nothing of pyplot. `belated.simulation.plot` has the style."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from belated.audit.audit import Audit, pieces
from belated.bounds import Bound
from belated.environments import Floats
from belated.league import plot
from belated.league.comparison import Comparison
from belated.league.plan import League
from belated.league.standings import mean_ratios, ratios
from belated.league.suite import Cell, by_family
from belated.simulation.informed import marked_names
from belated.simulation.plot import STYLES, draw_regret, legend_columns, new_figure, settings, style
from belated.simulation.run import Trace
from belated.simulation.simulation import Simulation


def draw_comparison(comparison: Comparison) -> Any:
    """Return a figure of regret against rounds: a row for each environment, a column for each law of delay."""
    with settings():
        figure = new_figure(1.0, 1.0)
        plot.draw(comparison, figure)
    return figure


FAMILY_GAP = 0.5
"""Between the families of a heat map, in rows."""
TALL = 30
"""Rows of a heat map above which the learners stand below it, too."""


def draw_heat_map(league: League, order: Sequence[str]) -> Any:
    """Draw the ratio of each learner to the best uninformed one on a logarithmic scale.

    There is a column for each learner and a block of rows for each family: its mean first, then its cells. The mean of
    all families stands above them.
    """
    blocks = _heat_blocks(league, order)
    told = [(name, league.plan.learners[league.plan.labels.index(name)].informed) for name in order]
    limit = max(10.0, float(np.nanquantile(ratios(league), 0.97)))
    rows = sum(len(names) + FAMILY_GAP for names, _ in blocks)
    with settings():
        from matplotlib import colormaps

        colours = colormaps["cividis_r"].with_extremes(bad="#FFFFFF")
        figure = new_figure(2.7 + 0.29 * len(order), 2.2 + 0.185 * rows)
        axes = figure.subplots()
        top, places = 0.0, []
        for names, values in blocks:
            shown = np.log10(np.clip(values, 1.0, limit))
            corners = (-0.5, len(order) - 0.5, top + len(names), top)
            image = axes.imshow(shown, colours, vmin=0.0, vmax=np.log10(limit), aspect="auto", extent=corners)
            for (i, k), value in np.ndenumerate(values):
                dark = not np.isnan(value) and shown[i, k] > 0.48 * np.log10(limit)
                axes.text(
                    k,
                    top + i + 0.5,
                    "–" if np.isnan(value) else f"{value:.1f}" if value < 9.95 else f"{value:.0f}",
                    ha="center",
                    va="center",
                    fontsize=6,
                    fontweight="normal" if i else "bold",
                    color="#FFFFFF" if dark else "#222222",
                    in_layout=False,  # which would take most of the time
                )
            axes.axhline(top + 1.0, color="#FFFFFF", linewidth=1.6)
            places += [top + i + 0.5 for i in range(len(names))]
            top += len(names) + FAMILY_GAP
        axes.set_ylim(top - FAMILY_GAP, 0.0)
        axes.set_yticks(places, [name for names, _ in blocks for name in names], fontsize=7)
        for label, first in zip(
            axes.get_yticklabels(), [not i for names, _ in blocks for i in range(len(names))], strict=True
        ):
            label.set_fontweight("bold" if first else "normal")
        axes.set_xticks(range(len(order)), marked_names(told), rotation=90, fontsize=8)
        axes.tick_params(length=0, labeltop=True, labelbottom=rows > TALL)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=axes, location="top", shrink=0.6, pad=0.01, aspect=40)
        ticks = [value for value in (1, 2, 5, 10, 20, 50, 100, 200, 500) if value <= limit]
        bar.set_ticks(np.log10(ticks), labels=[str(value) for value in ticks])
        bar.set_label("regret / that of the best uninformed learner")
    return figure


def _heat_blocks(league: League, order: Sequence[str]) -> list[tuple[list[str], Floats]]:
    """Return the names and ratios of the rows of each block of a heat map; the first row of a block is a mean."""
    learners = [league.plan.labels.index(name) for name in order]
    means, table, ids = mean_ratios(league), ratios(league), [cell.id for cell in league.cells]
    blocks = [(["all families"], means.overall[None, learners])]
    for k, (name, members) in enumerate(by_family(league.cells).items()):
        values = np.column_stack([means.families[:, k], table[:, [ids.index(cell.id) for cell in members]]])
        blocks.append(([name, *(cell.id for cell in members)], values[learners].T))
    return blocks if len(blocks) > 2 else blocks[1:]


def draw_curves(cell: Cell, result: Simulation, order: Sequence[str]) -> Any:
    """Draw regret against rounds in one cell, with bands, for these learners; uniform play and the theory's scale."""
    with settings():
        figure = new_figure(5.0, 3.6)
        axes = figure.subplots()
        draw_regret(axes, result, [name for name in order if name in result.learners])
        axes.axhline(cell.theory, color="#8A8A8A", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1, label="√(KT) + Φ")
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.3 * cell.theory))
        axes.set_xlabel("round")
        axes.set_ylabel("regret")
        title = "\n".join(textwrap.fill(each.title, 70) for each in (cell.environment, cell.delays))
        axes.set_title(title, pad=8, fontsize=8)
        handles, labels = axes.get_legend_handles_labels()
        columns = legend_columns(labels, figure.get_figwidth())
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7, handlelength=2.6)
        figure.set_figheight(figure.get_figheight() + 0.16 * -(-len(labels) // columns))
    return figure


def draw_trace(trace: Trace, title: str) -> Any:
    """Draw one run: how many decisions are outstanding, how long the learner waits, how many it has given up on."""
    shown = slice(None, None, -(-trace.arms.size // 3000))  # more points than a screen has serve nobody
    rounds = np.arange(1, trace.arms.size + 1)[shown]
    with settings():
        figure = new_figure(6.4, 4.2)
        upper, lower = figure.subplots(2, 1, sharex=True)
        upper.plot(rounds, trace.outstanding[shown], color=STYLES[0][0], linewidth=0.8, label="outstanding")
        if np.isfinite(trace.patience).all():
            upper.plot(
                rounds, trace.patience[shown], color=STYLES[1][0], linewidth=1.4, linestyle="--", label="patience"
            )
        upper.set_ylabel("decisions; rounds")
        upper.legend(loc="upper left")
        upper.set_title(title, pad=8)
        lower.plot(rounds, np.cumsum(trace.skipped > 0)[shown], color=STYLES[6][0], linewidth=1.4)
        lower.set_ylabel("skipped so far")
        lower.set_xlabel("round")
        for axes in (upper, lower):
            axes.grid(True, which="major")
            axes.set_xlim(1, max(rounds[-1], 2))
            axes.set_ylim(bottom=0)
    return figure


def draw_bounds(title: str, result: Simulation, horizons: Sequence[int], tables: Sequence[Sequence[Bound]]) -> Any:
    """Draw measured regret, and over it the bounds of the learners that were measured, as they grow with the horizon.

    Thin lines in the learner's colour: drawn through with explicit constants, dotted or dashed where only the order is
    known. Lower bounds are grey.
    """
    colours: dict[str, str] = {"any": "#8A8A8A"}
    for k, name in enumerate(result.learners):
        colours.setdefault(name.partition(":")[0], style(k)[0])
    with settings():
        figure = new_figure(6.4, 4.6)
        axes = figure.subplots()
        draw_regret(axes, result)
        top = axes.get_ylim()[1]
        for k, last in enumerate(tables[-1]):
            if last.value is None or last.learner not in colours:
                continue
            values = [table[k].value for table in tables]
            order = (0, (1, 1.6)) if last.regime == "adversarial" else (0, (4, 2))
            dashes = "-" if last.constants == "explicit" else order
            label = (
                f"{'lower bound, order only' if last.learner == 'any' else last.learner}, {last.regime}: {last.formula}"
            )
            colour = colours[last.learner]
            axes.plot(horizons, values, color=colour, linestyle=dashes, linewidth=0.9, zorder=3, label=label)
            top = max(top, 1.3 * last.value)
        axes.set_ylim(top=top)
        axes.set_xlabel("round")
        axes.set_ylabel("regret thick, bounds thin")
        axes.set_title(title, pad=8, fontsize=8)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=7, handlelength=2.6)
        figure.set_figheight(figure.get_figheight() + 0.15 * -(-len(labels) // 2))
    return figure


MOST_USED = 1e12
"""What is beyond it, or infinite, is drawn there."""


def draw_slack(audit: Audit) -> Any:
    """Draw how much of what each lemma allows was used, over the rounds of the run closest to breaking it."""
    shown = [finding for finding in audit.findings if finding.shares is not None and (finding.shares > 0.0).any()]
    with settings():
        figure = new_figure(6.8, 3.9)
        axes = figure.subplots()
        lowest = 1.0
        for k, finding in enumerate(shown):
            colour, dashes = style(k)
            shares = np.asarray(finding.shares)
            used = np.where(shares > 0.0, np.minimum(shares, MOST_USED), np.nan)
            rounds = pieces(audit.rounds) + 1
            broken = " (broken)" if finding.holds is False else ""
            axes.plot(rounds, used, color=colour, linestyle=dashes, linewidth=1.3, label=finding.name + broken)
            lowest = min(lowest, float(np.nanquantile(used, 0.05)))
        axes.axhline(1.0, color="#000000", linewidth=1.2, zorder=1)
        axes.annotate(
            "what is allowed", (0.995, 1.0), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7.5
        )
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(lowest * 0.5, 1e-4))
        axes.set_xscale("log")
        axes.set_xlim(1, max(audit.rounds, 2))
        axes.set_xlabel("round")
        axes.set_ylabel("measured / bound")
        axes.set_title(f"{audit.learner}\n{audit.problem}", pad=8, fontsize=8)
        axes.grid(True, which="major")
        axes.tick_params(which="minor", length=0)
        figure.legend(loc="outside right center", fontsize=7.5, handlelength=2.8)
    return figure


def save(figure: Any, path: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure, by default as PNG and SVG: the files written."""
    written = []
    with settings():
        for kind in kinds:
            written.append(path.with_suffix(f".{kind}"))
            options = (
                {"dpi": 200} if kind == "png" else {"metadata": {{"svg": "Date", "pdf": "CreationDate"}[kind]: None}}
            )
            figure.savefig(written[-1], **options)
    return written
