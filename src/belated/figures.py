"""Figures for papers: matplotlib, bands for uncertainty, colours and dashes that everybody can tell apart."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from belated.comparison import Comparison
from belated.simulation import Simulation
from belated.tables import informed_note, marked_names

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


def _draw_cell(axes: Any, cell: Simulation) -> None:
    x = cell.checkpoints
    begin = max(1.0, x[-1] / 1000)  # before that nobody has learned anything
    shown = x >= begin
    lowest, highest = np.inf, 1.0
    for k, (learner, name) in enumerate(zip(cell.learners, marked_names(cell), strict=True)):
        colour, dashes = _style(k)
        mean, low, high = (np.maximum(values, 1e-3) for values in cell.curve(learner))
        # later ones thinner and on top, so that curves that coincide both show
        axes.plot(x, mean, color=colour, linestyle=dashes, linewidth=2.2 - 0.2 * min(k, 5), label=name, zorder=4 + k)
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


def save(figure: Any, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG: the files written."""
    plt = _pyplot()
    written = [path.with_suffix(".png"), path.with_suffix(".svg")]
    with plt.rc_context(SETTINGS):
        figure.savefig(written[0], dpi=200)
        figure.savefig(written[1], metadata={"Date": None})
    plt.close(figure)
    return written
