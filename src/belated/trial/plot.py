"""A design as a figure: who gets the best arm, when, how sure that is, and what the analyses find."""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from belated.simulation.plot import style
from belated.trial.course import step_ends
from belated.trial.measures import on_best

if TYPE_CHECKING:
    from belated.trial.design import Design
    from belated.trial.plan import Plan
    from belated.trial.trials import Trials

Floats = NDArray[np.float64]

BINS = 25
"""Of the histogram."""


def draw(design: "Design", figure: Any) -> Any:
    """Draw a design on an empty figure; return its three axes. Call it within `settings`."""
    figure.set_size_inches(9.6, 3.9)
    axes = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 1.15))
    _draw_course(axes[0], design)
    _draw_shares(axes[1], design)
    _draw_analyses(axes[2], design)
    figure.legend(handles=_handles(design), loc="outside lower center", ncols=2, handlelength=3.4)
    plan = design.plan
    pace = f"{plan.patients:,} patients, {plan.accrual:g} in a {plan.world.unit}"
    title = f"{plan.world.rates_text}; {pace}; {plan.world.delay.title}"
    figure.suptitle(textwrap.fill(title, 110), fontsize=9)
    return axes


MARKERS = ("o", "s")
"""Of the adaptive design, and of fixed randomisation."""


def _handles(design: "Design") -> list[Any]:
    from matplotlib.lines import Line2D

    handles = []
    for k, each in enumerate(design.designs):
        colour, dashes = style(k)
        handles.append(
            Line2D([], [], color=colour, linestyle=dashes, linewidth=2.0, marker=MARKERS[k], label=each.name)
        )
    return handles


def course(plan: "Plan", trials: "Trials") -> tuple[NDArray[np.int64], Floats]:
    """Return the middle of each step, in patients, and the share of the best arm in it, over trials still enrolling."""
    ends = step_ends(plan.patients)
    new = np.diff(trials.steps, axis=1)
    goes_on = trials.patients[:, None] >= ends[None, 1:]
    count = (new.sum(axis=2) * goes_on).sum(axis=0)
    best = (new[:, :, plan.world.best] * goes_on).sum(axis=0)
    return (ends[1:] + ends[:-1]) // 2, np.where(count > 0, best / np.maximum(count, 1), np.nan)


def _draw_course(axes: Any, design: "Design") -> None:
    for k, (each, trials) in enumerate(zip(design.designs, design.trials, strict=True)):
        colour, dashes = style(k)
        at, share = course(design.plan, trials)
        axes.plot(at, 100.0 * share, color=colour, linestyle=dashes, linewidth=2.0, label=each.name)
    axes.set_xlim(0, design.plan.patients)
    axes.set_ylim(0, 100)
    axes.set_xlabel("patient")
    axes.set_ylabel("% on the best arm")
    axes.set_title("As patients come", loc="left", pad=8)
    axes.grid(True)


def _draw_shares(axes: Any, design: "Design") -> None:
    edges = np.linspace(0.0, 100.0, BINS + 1)
    for k, trials in enumerate(design.trials):
        colour, dashes = style(k)
        shares = 100.0 * on_best(design.plan, trials) / trials.patients
        heights = 100.0 * np.histogram(shares, edges)[0] / shares.size
        filled = np.flatnonzero(heights)  # no line along the axis on either side
        heights, within = heights[filled[0] : filled[-1] + 1], edges[filled[0] : filled[-1] + 2]
        axes.stairs(heights, within, color=colour, linestyle=dashes, linewidth=1.4, zorder=3)
        axes.stairs(heights, within, color=colour, fill=True, alpha=0.18, linewidth=0, zorder=2)
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("% of a trial's patients on the best arm")
    axes.set_ylabel("% of trials")
    axes.set_title("From trial to trial", loc="left", pad=8)
    axes.grid(True)
    axes.set_axisbelow(True)


def _draw_analyses(axes: Any, design: "Design") -> None:
    """Draw power as full and error as open marks with their intervals, a row for each analysis."""
    names = [each.title for each in design.adaptive.analyses]
    for k, each in enumerate(design.designs):
        colour, _ = style(k)
        for row, analysis in enumerate(each.analyses):
            place = row + (k - 0.5) * 0.3
            for share, full in ((analysis.power, True), (analysis.treatment_error, False)):
                mean, low, high = (100.0 * float(end) for end in share)
                axes.plot([low, high], [place, place], color=colour, linewidth=1.2, solid_capstyle="butt")
                axes.plot(
                    mean,
                    place,
                    marker=MARKERS[k],
                    markersize=5.5,
                    color=colour,
                    markerfacecolor=colour if full else "#FFFFFF",
                    clip_on=False,
                    zorder=4,
                )
    axes.axvline(100.0 * design.plan.alpha, color="#8A8A8A", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    axes.set_yticks(range(len(names)), [name.replace(" at ", "\nat ").replace(", ", ",\n") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"% of trials; dotted: alpha, {100.0 * design.plan.alpha:g} %")
    axes.set_title("Power (full) and error (open)", loc="left", pad=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
