"""The HTML page of a replay: one file that needs no other."""

import base64
import io
from collections.abc import Sequence
from typing import Any

from belated.inference import course
from belated.replay.replay import Replay
from belated.report import estimates as shown_estimates
from belated.report import replays
from belated.simulation.plot import settings
from belated.templates import render
from belated.templates.display import number

MOST_FOR_COURSE = 2_000_000
"""Decisions up to which intervals are drawn over time."""


def page(replay: Replay, source: str, notes: Sequence[str], command: str) -> str:
    """Return the page. `notes` say how the log was read, `command` what was asked for."""
    found, profile = replay.estimates, replay.delays
    arms = shown_estimates.arms_table(found)
    differences = shown_estimates.differences_table(found) if found.differences else None
    told = [each for each in replay.values if each.refused is None]
    return render(
        "replay.html",
        source=source,
        summary=replays.summary(replay),
        notes=[*notes, *replay.warnings],
        verdict=found.verdict,
        reproduced=None if replay.reproduced is None else replay.reproduced.sentence,
        delay_sentences=[] if profile is None else replays.delay_sentences(profile),
        delays=None if profile is None else {"header": replays.DELAYS_HEADER, "rows": replays.delay_rows(profile)},
        delay_figure=None
        if profile is None
        else _image(replays.draw_delays(profile), "The share of outcomes that come within a delay, by arm and outcome"),
        outstanding_figure=None
        if profile is None
        else _image(replays.draw_outstanding(profile), "Outstanding decisions, as decisions were made"),
        facts=None if profile is None else [[f.symbol, f.meaning, number(f.value)] for f in profile.facts],
        bound=None if profile is None else replays.bound_sentence(replay),
        value_sentences=replays.value_sentences(replay),
        values={"header": replays.value_header(), "rows": replays.value_rows(replay)} if told else None,
        shares={"header": replays.SHARES_HEADER, "rows": replays.share_rows(replay)} if told else None,
        value_figure=_image(replays.draw_values(replay), "What each learner is worth, with intervals")
        if told
        else None,
        arms={"header": [column.name for column in arms.columns], "rows": arms.rows},
        differences=None
        if differences is None
        else {"header": [column.name for column in differences.columns], "rows": differences.rows},
        estimate_sentences=shown_estimates.sentences(found).splitlines(),
        course_figure=_course(replay),
        sure=f"{100 * (1 - replay.alpha):g} %",
        command=command,
    )


def _course(replay: Replay) -> dict[str, Any] | None:
    log, found = replay.log, replay.estimates
    if not found.used or log.arms.size > MOST_FOR_COURSE:
        return None
    drawn = shown_estimates.draw_course(course(log, alpha=found.alpha, outcomes=found.outcomes))
    return _image(drawn, "Mean reward of each arm over time, with intervals")


def _image(figure: Any, text: str) -> dict[str, Any]:
    """Return what a page needs to show a figure."""
    content = io.BytesIO()
    with settings():
        figure.savefig(content, format="svg", metadata={"Date": None})
    data = base64.b64encode(content.getvalue()).decode()
    return {"data": data, "width": round(96 * figure.get_figwidth()), "text": text}
