"""A comparison as a figure: a panel for each environment and law of delay."""

import textwrap
from typing import TYPE_CHECKING, Any

from belated.simulation.informed import informed_note
from belated.simulation.plot import draw_regret, legend_columns

if TYPE_CHECKING:
    from belated.league.comparison import Comparison


def draw(comparison: "Comparison", figure: Any) -> Any:
    """Draw regret against rounds, both logarithmic, on an empty figure; return the axes, an array (rows, columns).

    There is a row for each environment and a column for each law of delay. Call it within `settings`.
    """
    rows, columns = len(comparison.plan.environments), len(comparison.plan.delays)
    figure.set_size_inches(0.9 + 2.6 * columns, 1.1 + 2.2 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey="row")
    for panel, cell in zip(axes.flat, comparison.cells, strict=True):
        draw_regret(panel, cell)
    for panel, delays in zip(axes[0], comparison.plan.delays, strict=True):
        panel.set_title(_folded(delays.title), pad=8)
    for panel in axes[-1]:
        panel.set_xlabel("round")
    for panel, environment in zip(axes[:, 0], comparison.plan.environments, strict=True):
        panel.set_ylabel(f"{_folded(environment.title)}\n\nregret")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    columns = legend_columns(labels, figure.get_figwidth())
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, handlelength=3.2)
    note = textwrap.fill(informed_note(comparison.cells[0].told), int(18 * figure.get_figwidth()))
    if note:
        figure.supxlabel(note, x=0.01, ha="left", fontsize=7.5, color="#5A5A5A")
    figure.set_figheight(figure.get_figheight() + 0.2 * (-(-len(labels) // columns) - 1) + 0.14 * note.count("\n"))
    return axes


def _folded(title: str) -> str:
    return title.replace(", ", ",\n", 1)
