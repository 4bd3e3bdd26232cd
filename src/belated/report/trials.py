"""What tables and saved figures show of the design of a trial."""

from typing import Any

from belated.report.columns import Column, Table
from belated.simulation.plot import new_figure, settings
from belated.trial.design import Design
from belated.trial.plot import draw
from belated.trial.words import analysis_rows, arm_rows, design_rows

_LEGEND = """\
of 100: successes in 100 patients; bias: of estimated success rates, in points
power: the best arm wins; wrong arm: another one does
error: some arm wins although all have the control's rate; for a treatment: one other than the control"""

_CONTROL = """
beats control: some arm is shown to be better than the control; falsely: although all have the control's rate"""


def legend(design: Design) -> str:
    """Return what the columns mean."""
    return _LEGEND + (_CONTROL if design.plan.world.n_arms > 2 else "")


def design_table(design: Design) -> Table:
    """Return what each design does with its patients."""
    header, *rows = design_rows(design)
    return Table([Column(name, right=k > 0) for k, name in enumerate(header)], rows, keys=1)


def arm_table(design: Design) -> Table:
    """Return what each design does with each arm; empty where arms have no labels."""
    header, *rows = arm_rows(design)
    columns = [Column(name, right=k > 0) for k, name in enumerate(header)]
    adaptive, fixed = design.designs
    return Table(columns, rows, headings={0: adaptive.name, design.plan.world.n_arms: fixed.name})


def analysis_table(design: Design) -> Table:
    """Return what each analysis finds."""
    header, *rows = analysis_rows(design)
    drops = {"patients": 1, "for a treatment": 2, "wrong arm": 3}
    columns = [Column(name, right=k > 0, drop=drops.get(name, 0)) for k, name in enumerate(header)]
    adaptive, fixed = design.designs
    return Table(columns, rows, headings={0: adaptive.name, len(adaptive.analyses): fixed.name})


def draw_design(design: Design) -> Any:
    """Return a figure to be saved."""
    with settings():
        figure = new_figure(1.0, 1.0)
        draw(design, figure)
    return figure
