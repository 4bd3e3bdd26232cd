"""`belated trial`: what a short adaptive trial gains over fixed randomisation, and what it costs."""

import argparse
from pathlib import Path
from typing import Any

from belated.cli.output import Output
from belated.errors import InvalidValue, needs_extra
from belated.report import figures, trials
from belated.trial import Design, design

KINDS = (".png", ".svg", ".pdf")


def trial(options: argparse.Namespace, out: Output) -> int:
    """Simulate a trial; print the tables, draw the figure."""
    figure = None if options.figure is None else _check_figure(options.figure)
    given: dict[str, Any] = {} if options.learner is None else {"learner": options.learner}
    found = design(
        options.rates,
        options.patients,
        accrual=options.accrual,
        delay=int(options.delay) if (options.delay or "").isdecimal() else options.delay,
        outcomes=options.outcomes,
        control=options.control,
        share_floor=options.share_floor,
        stop=options.stop,
        look_every=options.look_every,
        alpha=options.alpha,
        simulations=options.simulations,
        seed=options.seed,
        threads=options.threads,
        **given,
    )
    out.result(
        found.as_dict(),
        _heading(found),
        trials.design_table(found),
        *([trials.arm_table(found)] if found.plan.world.labels else []),
        trials.analysis_table(found),
        trials.legend(found),
        found.verdict,
    )
    if figure is not None:
        (written,) = figures.save(trials.draw_design(found), figure, (figure.suffix[1:],))
        out.note(f"written: {written}")
    return 0


def _check_figure(path: Path) -> Path:
    """Refuse a figure that could not be written, before anything is simulated."""
    if path.suffix not in KINDS:
        raise InvalidValue(f"figure is {str(path)!r}; a file that ends in .png, .svg or .pdf is needed", "figure")
    if not path.parent.is_dir():
        raise InvalidValue(f"figure is {str(path)!r}, but there is no folder {str(path.parent)!r}", "figure")
    with needs_extra("a figure", "plots"):
        import matplotlib  # noqa: F401
    return path


def _heading(found: Design) -> str:
    plan = found.plan
    rule = "all are enrolled"
    if plan.stop == "win":
        rule = f"looked at every {plan.looks[0]} until an arm wins" if plan.looks[0] > 1 else "until an arm wins"
    return (
        f"{plan.world.rates_text}, the first of the control; {plan.world.delay.title}\n"
        f"{plan.patients:,} patients, {plan.accrual:g} in a {plan.world.unit}, {rule}\n"
        f"mean and 95 % interval over {plan.simulations:,} simulated trials; alpha {plan.alpha:g}"
    )
