"""`belated estimates`: which arm wins, and how sure."""

import argparse
from pathlib import Path

from belated import inference
from belated.cli.logs import log_of_options, scale_of_source
from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.inference import course
from belated.logs.deadlines import with_deadline
from belated.logs.log import Arm
from belated.report import figures
from belated.report.estimates import arms_table, differences_table, draw_course, sentences
from belated.specs import duration


def estimates(options: argparse.Namespace, out: Output) -> int:
    """Print what is known of the arms of an experiment, or of a log; draw intervals over time."""
    kind = _kind(options.figure)
    log = log_of_options(options, out).log
    scale = scale_of_source(options)
    labels = {str(label): label for label in log.labels}
    found = inference.estimates(
        log,
        alpha=options.alpha,
        control=labels.get(options.control, options.control),
        method=options.method,
        outcomes=options.outcomes,
        assigned=_assigned(options.assigned),
        floor=options.floor,
        deadline=options.deadline,
        deadline_after=options.deadline_after,
        missing_loss=options.missing_loss,
        scale=scale,
    )
    out.text(found.verdict, arms_table(found))
    if found.differences:
        out.text(differences_table(found))
    out.result(found.as_dict(), sentences(found))
    if options.figure is not None:
        after = options.deadline_after
        after = None if after is None else duration("deadline_after", after, log.in_seconds)
        if (settled := with_deadline(log, options.deadline, after, options.missing_loss)) is not None:
            log = settled.log
        found_course = course(log, alpha=options.alpha, method=options.method, outcomes=options.outcomes)
        drawn = draw_course(found_course if scale is None else found_course.in_units(scale))
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        out.note("written: " + ", ".join(map(str, figures.save(drawn, options.figure, [kind]))))
    return 0


def _assigned(text: str | None) -> str | dict[Arm, float] | None:
    """Return how arms were drawn: `uniform`, or a share for each arm."""
    if text is None or "=" not in text:
        return text
    shares: dict[Arm, float] = {}
    for part in text.split(","):
        arm, _, share = part.rpartition("=")
        try:
            shares[arm.strip()] = float(share)
        except ValueError:
            raise InvalidValue(f"assigned has {part!r}; an arm and its share such as blue=0.5 is needed") from None
    return shares


def _kind(figure: Path | None) -> str:
    """Return which kind of file a figure is to be."""
    kind = "png" if figure is None else figure.suffix.removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise InvalidValue(f"the figure is {str(figure)!r}; a name that ends in .png, .svg or .pdf is needed")
    return kind
