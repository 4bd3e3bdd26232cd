"""Regret curves with matplotlib: bands for uncertainty, colours and dashes that everybody can tell apart.

Nothing here chooses a backend. `new_figure` makes a figure that pyplot does not know of: it is there to be saved, needs
no closing, and threads may draw at the same time.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.errors import needs_extra
from belated.simulation.informed import informed_note, marked_names

if TYPE_CHECKING:
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
_LOCK = threading.RLock()  # matplotlib's settings belong to the whole process


@contextmanager
def settings() -> Iterator[None]:
    """Draw with the settings above, one thread at a time; afterwards matplotlib's settings are what they were."""
    with needs_extra("a figure", "plots"):
        import matplotlib as mpl
    with _LOCK, mpl.rc_context(SETTINGS):
        yield


def new_figure(width: float, height: float) -> Any:
    """Return a figure of so many inches to draw on and save. Call it within `settings`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_window(width: float, height: float) -> Any:
    """Return a figure of so many inches that the user's backend shows. Call it within `settings`."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def style(number: int) -> tuple[str, Any]:
    """Return colour and dashes of a curve, no pair twice.

    Where the colours are used up, each comes again with the dashes of the next.
    """
    turn = number // len(STYLES)
    return STYLES[number % len(STYLES)][0], STYLES[(number + turn) % len(STYLES)][1]


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return one row's worth of columns if all labels fit into so many inches, else rows of about the same length."""
    inches = [0.65 + 0.072 * len(label) for label in labels]
    if sum(inches) <= width:
        return len(labels)
    fitting = max(1, int(width / max(inches)))
    return -(-len(labels) // -(-len(labels) // fitting))


def draw_regret(axes: Any, result: "Simulation", learners: Sequence[str] | None = None) -> None:
    """Draw regret against rounds, both logarithmic, with bands, for these learners or all; and uniform play."""
    x = result.checkpoints
    begin = max(1.0, x[-1] / 1000)  # before that nobody has learned anything
    shown = x >= begin
    lowest, highest = np.inf, 1.0
    names = dict(zip(result.learners, marked_names(result.told), strict=True))
    for k, learner in enumerate(learners if learners is not None else result.learners):
        colour, dashes = style(k)
        mean, low, high = (np.maximum(values, 1e-3) for values in result.curve(learner))
        # later ones thinner and on top, so that curves that coincide both show
        axes.plot(
            x, mean, color=colour, linestyle=dashes, linewidth=2.2 - 0.2 * min(k, 5), label=names[learner], zorder=4 + k
        )
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
        lowest = min(lowest, float(mean[shown].min()))
        highest = max(highest, float(mean.max()))
    uniform = np.maximum(result.uniform_regret.mean(axis=0), 1e-3)
    axes.plot(x, uniform, color="#8A8A8A", linewidth=0.9, label="uniform play", zorder=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(begin, max(x[-1], 2.0 * begin))
    axes.set_ylim(max(lowest * 0.7, 1.0), 1.6 * max(highest, float(uniform[-1])))
    axes.grid(True, which="major")
    axes.tick_params(which="minor", length=0)


def plot(result: "Simulation", learners: Sequence[str] | None, axes: Any) -> Any:
    """Draw a simulation on these axes, or on those of a new figure of the user's backend; return the axes."""
    with settings():
        if axes is None:
            axes = new_window(5.6, 4.0).subplots()
        draw_regret(axes, result, learners)
        note = informed_note([each for each in result.told if learners is None or each[0] in learners])
        axes.set_xlabel(f"round\n{note}" if note else "round")
        axes.set_ylabel("regret")
        axes.set_title(f"{result.environment.title}\n{result.delays.title}", pad=8)
        axes.legend(loc="upper left", handlelength=3.2)
    return axes
