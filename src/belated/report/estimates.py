"""Estimates as people read them: tables, sentences, and a figure of intervals over time."""

from typing import Any

import numpy as np

from belated.inference import Course, Estimate, Estimates
from belated.report.columns import Column, Table
from belated.simulation.plot import new_figure, settings, style
from belated.templates.display import number

MOST_ROWS = 30
"""Of a table: the arms with the largest means."""
MOST_CURVES = 7
"""Of a figure, likewise."""


def arms_table(estimates: Estimates) -> Table:
    """Return the arms with their means, the best first."""
    ranked = estimates.ranked
    rows = [
        [
            estimates.name(each.arm),
            f"{each.decisions:,}",
            f"{each.outcomes:,}",
            number(each.mean.value),
            _between(each.mean),
        ]
        for each in ranked[:MOST_ROWS]
    ]
    if len(ranked) > MOST_ROWS:
        rows.append([f"… {len(ranked) - MOST_ROWS:,} more", "", "", "", ""])
    sure = f"{100 * (1 - estimates.alpha):g} % interval"
    numbers = [Column(name, right=True) for name in ("decisions", "outcomes used", f"mean {estimates.measure}")]
    return Table([Column("arm", fold=True), *numbers, Column(sure)], rows)


def differences_table(estimates: Estimates) -> Table:
    """Return the differences between arms."""
    rows = [
        [f"{each.arm} – {each.other}", _signed(each.difference.value), _between(each.difference, signed=True)]
        for each in estimates.differences[:MOST_ROWS]
    ]
    if len(estimates.differences) > MOST_ROWS:
        rows.append([f"… {len(estimates.differences) - MOST_ROWS:,} more", "", ""])
    sure = f"{100 * (1 - estimates.alpha):g} % interval"
    return Table([Column("difference", fold=True), Column(f"mean {estimates.measure}", right=True), Column(sure)], rows)


def sentences(estimates: Estimates) -> str:
    """Return what deciding was worth, what must be true for all this, and what to know about it."""
    lines = []
    for instead, uplift in (
        ("uniform play", estimates.uplift),
        (f"always playing {estimates.control}", estimates.uplift_to_control),
    ):
        if uplift is not None:
            between = _between(uplift, signed=True)
            brought = f"{_signed(uplift.value)} {estimates.measure}"
            lines.append(f"Uplift: a decision brought {brought} against {instead} ({between}).")
    lines += [f"Note: {note}" for note in estimates.notes]
    lines += [f"Holds if: {assumption}" for assumption in estimates.assumptions]
    return "\n".join(lines)


def _between(estimate: Estimate, signed: bool = False) -> str:
    shown = _signed if signed else number
    return f"{shown(estimate.low)} to {shown(estimate.high)}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)


def draw_course(course: Course) -> Any:
    """Return a figure of each arm's mean and interval against the number of decisions."""
    scale = course.scale
    last_means = course.means[-1] if scale is None or scale.better == "higher" else -course.means[-1]
    order = np.argsort(-np.nan_to_num(last_means, nan=-np.inf), kind="stable")[:MOST_CURVES]
    with settings():
        from matplotlib.ticker import LogLocator, NullFormatter

        figure = new_figure(6.4, 4.0)
        axes = figure.subplots()
        x = course.decisions
        begin = max(1, int(x[-1]) // 200)
        for place, k in enumerate(order):
            colour, dashes = style(place)
            label = str(course.labels[k])
            axes.fill_between(x, course.lows[:, k], course.highs[:, k], color=colour, alpha=0.16, linewidth=0, zorder=2)
            for ends in (course.lows, course.highs):
                axes.plot(x, ends[:, k], color=colour, linewidth=0.7, alpha=0.6, zorder=3)
            axes.plot(
                x, course.means[:, k], color=colour, linestyle=dashes, linewidth=1.8, label=label, zorder=4 + place
            )
        if course.known_at is not None:
            axes.axvline(course.known_at, color="#555555", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            is_late = course.known_at**2 > begin * int(x[-1])  # right of the middle: the words go to the left
            axes.annotate(
                f"{course.winner} wins from decision {course.known_at:,} on",
                (course.known_at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(-5 if is_late else 5, -3),
                textcoords="offset points",
                va="top",
                ha="right" if is_late else "left",
                color="#555555",
            )
        shown = x >= begin
        lowest = float(np.nanmin(course.lows[shown][:, order]))
        highest = float(np.nanmax(course.highs[shown][:, order]))
        last = float(course.highs[-1, order].max() - course.lows[-1, order].min())
        # early intervals reach over the whole range; what is known at the end should not be squeezed into a line
        middle = float(np.nanmean(course.means[-1, order]))
        bottom, top = (0.0, 1.0) if scale is None else (scale.lowest, scale.highest)
        axes.set_ylim(max(lowest, middle - 5 * last, bottom), min(highest, middle + 5 * last, top))
        axes.set_xscale("log")
        axes.set_xlim(begin, max(int(x[-1]), begin + 1))
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(True, which="major")
        axes.tick_params(which="minor", length=0)
        axes.set_xlabel("settled decisions" if course.outcomes == "settled" else "decisions")
        measure = "reward" if scale is None else "value"
        axes.set_ylabel(f"mean {measure}")
        sure = f"{100 * (1 - course.alpha):g} %"
        axes.set_title(f"Mean {measure} of each arm, {sure} intervals that hold at all times", pad=8)
        axes.legend(loc="best", title=None if len(order) == len(course.labels) else f"best {len(order)} arms")
    return figure
