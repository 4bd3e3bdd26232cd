"""Figures for papers: matplotlib, bands for uncertainty, colours and dashes that everybody can tell apart."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from belated.audit.audit import Audit, pieces
from belated.bounds import Bound
from belated.league.comparison import Comparison
from belated.league.plan import League
from belated.league.standings import ratios
from belated.league.suite import Cell
from belated.report.tables import INFORMED, informed_note, marked_names
from belated.simulation.run import Trace
from belated.simulation.simulation import Simulation

# Okabe & Ito's colours: distinct with every common kind of colour blindness; each with a dash pattern of its own.
STYLES = [
    ("#0072B2", "-"),
    ("#D55E00", (0, (5, 1.5))),
    ("#009E73", (0, (1.2, 1.2))),
    ("#CC79A7", (0, (6, 1.5, 1.2, 1.5))),
    ("#E69F00", (0, (3, 1, 1, 1, 1, 1))),
    ("#56B4E9", (0, (8, 2))),
    ("#000000", (0, (2, 2))),
]
SETTINGS = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "svg.hashsalt": "belated",  # the same figure gives the same file
    "legend.frameon": False,
}


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'belated[plots]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_comparison(comparison: Comparison) -> Any:
    """Regret against rounds, both logarithmic: a row for each environment, a column for each law of delay."""
    plt = _pyplot()
    rows, columns = len(comparison.plan.environments), len(comparison.plan.delays)
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(0.9 + 2.6 * columns, 1.1 + 2.2 * rows),
            squeeze=False,
            sharex=True,
            sharey="row",
            layout="constrained",
        )
        for number, cell in enumerate(comparison.cells):
            _draw_cell(axes[number // columns, number % columns], cell)
        for column, delays in enumerate(comparison.plan.delays):
            axes[0, column].set_title(_folded(delays.title), pad=8)
            axes[-1, column].set_xlabel("round")
        for row, environment in enumerate(comparison.plan.environments):
            axes[row, 0].set_ylabel(f"{_folded(environment.title)}\n\nregret")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        columns = _legend_columns(labels, figure.get_figwidth())
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, handlelength=3.2)
        note = textwrap.fill(informed_note(comparison.cells[0]), int(18 * figure.get_figwidth()))
        if note:
            figure.supxlabel(note, x=0.01, ha="left", fontsize=7.5, color="#5A5A5A")
        figure.set_figheight(figure.get_figheight() + 0.2 * (-(-len(labels) // columns) - 1) + 0.14 * note.count("\n"))
    return figure


def _legend_columns(labels: list[str], width: float) -> int:
    """One row if all labels fit into so many inches, else as many columns as do, all rows about as long."""
    inches = [0.65 + 0.072 * len(label) for label in labels]
    if sum(inches) <= width:
        return len(labels)
    fitting = max(1, int(width / max(inches)))
    return -(-len(labels) // -(-len(labels) // fitting))


def _style(number: int) -> Any:
    """Colour and dashes, no pair twice: where the colours are used up, each comes again with the dashes of the next."""
    turn = number // len(STYLES)
    return STYLES[number % len(STYLES)][0], STYLES[(number + turn) % len(STYLES)][1]


def _folded(title: str) -> str:
    return title.replace(", ", ",\n", 1)


def _draw_cell(axes: Any, cell: Simulation, only: Sequence[str] | None = None) -> None:
    x = cell.checkpoints
    begin = max(1.0, x[-1] / 1000)  # before that nobody has learned anything
    shown = x >= begin
    lowest, highest = np.inf, 1.0
    names = dict(zip(cell.learners, marked_names(cell), strict=True))
    for k, learner in enumerate(only if only is not None else cell.learners):
        colour, dashes = _style(k)
        mean, low, high = (np.maximum(values, 1e-3) for values in cell.curve(learner))
        # later ones thinner and on top, so that curves that coincide both show
        axes.plot(
            x, mean, color=colour, linestyle=dashes, linewidth=2.2 - 0.2 * min(k, 5), label=names[learner], zorder=4 + k
        )
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
        lowest = min(lowest, float(mean[shown].min()))
        highest = max(highest, float(mean.max()))
    uniform = np.maximum(cell.uniform_regret.mean(axis=0), 1e-3)
    axes.plot(x, uniform, color="#8A8A8A", linewidth=0.9, label="uniform play", zorder=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(begin, max(x[-1], 2.0 * begin))
    axes.set_ylim(max(lowest * 0.7, 1.0), 1.6 * max(highest, float(uniform[-1])))
    axes.grid(True, which="major")
    axes.tick_params(which="minor", length=0)


def draw_heat_map(league: League, order: Sequence[str]) -> Any:
    """The ratio of each learner to the best uninformed one, cell by cell, on a logarithmic scale, the best on top."""
    plt = _pyplot()
    table = ratios(league)
    labels = league.plan.labels
    rows = np.array([table[labels.index(name)] for name in order])
    informed = [bool(league.plan.learners[labels.index(name)].informed) for name in order]
    with plt.rc_context(SETTINGS):
        size = (2.6 + 0.34 * len(league.cells), 1.9 + 0.21 * len(order))
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        limit = max(10.0, float(np.nanquantile(rows, 0.97)))
        shown = np.log10(np.clip(rows, 1.0, limit))
        colours = plt.get_cmap("cividis_r").with_extremes(bad="#FFFFFF")
        image = axes.imshow(shown, cmap=colours, vmin=0.0, vmax=np.log10(limit), aspect="auto")
        for (i, k), value in np.ndenumerate(rows):
            text = "–" if np.isnan(value) else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
            dark = not np.isnan(value) and shown[i, k] > 0.55 * np.log10(limit)
            axes.text(k, i, text, ha="center", va="center", fontsize=6, color="#FFFFFF" if dark else "#222222")
        axes.set_xticks(range(len(league.cells)), [cell.id for cell in league.cells], rotation=90, fontsize=7)
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(order)), [n + (INFORMED if i else "") for n, i in zip(order, informed, strict=True)])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.01, aspect=30)
        ticks = [value for value in (1, 2, 5, 10, 20, 50, 100, 200, 500) if value <= limit]
        bar.set_ticks(np.log10(ticks), labels=[str(value) for value in ticks])
        bar.set_label("regret / that of the best uninformed learner")
    return figure


def draw_curves(cell: Cell, result: Simulation, order: Sequence[str]) -> Any:
    """Regret against rounds in one cell, with bands, for these learners; uniform play and the theory's scale."""
    plt = _pyplot()
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(5.0, 3.6), layout="constrained")
        _draw_cell(axes, result, [name for name in order if name in result.learners])
        axes.axhline(cell.theory, color="#8A8A8A", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1, label="√(KT) + Φ")
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.3 * cell.theory))
        axes.set_xlabel("round")
        axes.set_ylabel("regret")
        axes.set_title(f"{cell.environment.title}\n{cell.delays.title}", pad=8, fontsize=8)
        handles, labels = axes.get_legend_handles_labels()
        columns = _legend_columns(labels, figure.get_figwidth())
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7, handlelength=2.6)
        figure.set_figheight(figure.get_figheight() + 0.16 * -(-len(labels) // columns))
    return figure


def draw_trace(trace: Trace, title: str) -> Any:
    """One run: how many decisions are outstanding, how long the learner waits, how many it has given up on."""
    plt = _pyplot()
    shown = slice(None, None, -(-trace.arms.size // 3000))  # more points than a screen has serve nobody
    rounds = np.arange(1, trace.arms.size + 1)[shown]
    with plt.rc_context(SETTINGS):
        figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.4, 4.2), sharex=True, layout="constrained")
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
    """Measured regret, and over it the bounds of the learners that were measured, as they grow with the horizon.

    Thin lines in the learner's colour: drawn through with explicit constants, dotted or dashed where only the order is
    known. Lower bounds are grey.
    """
    plt = _pyplot()
    colours: dict[str, str] = {"any": "#8A8A8A"}
    for k, name in enumerate(result.learners):
        colours.setdefault(name.partition(":")[0], _style(k)[0])
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
        _draw_cell(axes, result)
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


def draw_slack(audit: Audit) -> Any:
    """How much of what each statement allows was used, over the rounds of the run closest to breaking it."""
    plt = _pyplot()
    shown = [finding for finding in audit.findings if finding.shares is not None and (finding.shares > 0.0).any()]
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(6.8, 3.9), layout="constrained")
        lowest = 1.0
        for k, finding in enumerate(shown):
            colour, dashes = _style(k)
            shares = np.asarray(finding.shares)
            used = np.where((shares > 0.0) & np.isfinite(shares), shares, np.nan)
            rounds = pieces(audit.rounds) + 1
            broken = "" if finding.holds else " (broken)"
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
    plt = _pyplot()
    written = []
    with plt.rc_context(SETTINGS):
        for kind in kinds:
            written.append(path.with_suffix(f".{kind}"))
            options = (
                {"dpi": 200} if kind == "png" else {"metadata": {{"svg": "Date", "pdf": "CreationDate"}[kind]: None}}
            )
            figure.savefig(written[-1], **options)
    plt.close(figure)
    return written
