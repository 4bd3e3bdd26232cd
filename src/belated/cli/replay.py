"""`belated replay`: what a log says."""

import argparse
import shlex
from typing import Any

from belated.cli.logs import experiment, is_file, log_of_options, scale_of_options
from belated.cli.output import Output
from belated.errors import InvalidValue, needs_extra
from belated.replay.replay import DEFAULT_LEARNERS, Replay, replay_log
from belated.replay.values import MOST_ROWS
from belated.report import replays
from belated.report.estimates import arms_table, sentences


def replay(options: argparse.Namespace, out: Output) -> int:
    """Print what a log says; write it as a page."""
    if options.html is not None and options.html.suffix != ".html":
        raise InvalidValue(f"html is {str(options.html)!r}; a file that ends in .html is needed", "html")
    found, notes = _replay(options, out)
    out.result({**found.as_dict(), "notes": notes}, *_parts(found))
    if options.html is not None:
        with needs_extra("a page", "league"):
            from belated.report.replay_page import page
        options.html.parent.mkdir(parents=True, exist_ok=True)
        command = shlex.join(["belated", *options.arguments])
        options.html.write_text(page(found, options.source, notes, command), encoding="utf-8")
        out.note(f"written: {options.html}")
    return 0


def _replay(options: argparse.Namespace, out: Output) -> tuple[Replay, list[str]]:
    read = log_of_options(options, out)
    labels = {str(label): label for label in read.log.labels}
    asked: dict[str, Any] = {
        "assigned": options.assigned,
        "deadline": options.deadline,
        "deadline_after": options.deadline_after,
        "missing_loss": options.missing_loss,
        "alpha": options.alpha,
        "control": labels.get(options.control, options.control),
        "outcomes": options.outcomes,
        "seed": options.seed,
        "most_rows": MOST_ROWS if options.most_rows is None else options.most_rows,
    }
    learners = DEFAULT_LEARNERS if options.learners is None else options.learners
    notes = [*read.notes, *([read.rejections.sentence] if read.rejections.total else [])]
    if (scale := scale_of_options(options)) is not None:
        if "value" not in read.columns:
            raise InvalidValue(f"--lowest is {scale.lowest:g}, but no column of values was read", "lowest")
        worst, best = scale.value(1.0), scale.value(0.0)
        notes.append(f"Values from {worst:g} to {best:g} are shown as rewards from 0 to 1.")
    if is_file(options.source):
        return replay_log(read.log, learners, **asked), notes
    from belated.replay.ledgers import replay_experiment

    with experiment(options.source, options.store) as (ledger, record):
        return replay_experiment(ledger, record, read.log, learners, **asked), notes


def _parts(found: Replay) -> list[Any]:
    """Return what people see."""
    parts: list[Any] = [replays.summary(found)]
    if found.reproduced is not None:
        parts.append(found.reproduced.sentence)
    if found.delays is None:
        parts.append("The log does not say when its outcomes came: --outcome-time or --delay names the column.")
    else:
        parts += [
            replays.delay_table(found.delays),
            "\n".join([*replays.delay_sentences(found.delays), replays.bound_sentence(found)]),
        ]
    if any(each.refused is None for each in found.values):
        sure = f"{100 * (1 - found.alpha):g} %"
        parts += [f"mean reward of a decision, with {sure} intervals", replays.value_table(found)]
        parts.append(replays.share_table(found))
    parts.append("\n".join([*replays.value_sentences(found), *found.warnings]))
    parts += [found.estimates.verdict, arms_table(found.estimates), sentences(found.estimates)]
    return parts
