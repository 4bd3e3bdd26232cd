"""What the list and the page of an experiment both show of it."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from belated.api.types import Experiment, ExperimentTimeline, ShareLimits
from belated.service.views import WaitsFor
from belated.service.words import ago, duration, percent
from belated.templates.display import counted, number, shortened

COLOURS = 8
MOST_LISTED = 100
"""Arms in a table, those with the most decisions."""
MOST_DRAWN = 24
"""Arms in a bar of shares, those with the largest; the others are one."""
MOST_NAMED = 8
"""Arms in the legend of a bar."""
LEAST_DECISIONS = 100
"""Of an experiment, or of an arm, before the lack of outcomes is worth a word."""
MOST_THROWN_AWAY = 0.5
HELD_TIMES = 3.0
"""A decision holds up the verdict for long if it has waited so many times as long as 99 % of the outcomes took."""
LEAST_HELD = 60.0
"""Seconds."""


def listed(shown: Experiment) -> list[dict[str, Any]]:
    """Return the arms as a table lists them; of very many, those with the most decisions."""
    places = _largest([arm.decisions for arm in shown.arms], MOST_LISTED)
    shares = _shares(shown)
    return [
        {
            "label": str(arm.arm),
            "percent": percent(shares[k]),
            "colour": k % COLOURS,
            "present": arm.present,
            "decisions": f"{arm.decisions:,}",
            "outcomes": f"{arm.outcomes:,}",
            "mean": mean_of(arm.mean_loss, arm.mean_value),
        }
        for k, arm in ((k, shown.arms[k]) for k in places)
    ]


def share_bar(shown: Experiment) -> dict[str, Any]:
    """Return the present shares of the arms, as a bar and its legend show them."""
    shares = _shares(shown)
    drawn = [k for k in _largest(shares, MOST_DRAWN) if shares[k] > 0.0]
    begins = accumulate((shares[k] for k in drawn), initial=0.0)
    parts = [
        {
            "label": str(shown.arms[k].arm),
            "percent": percent(shares[k]),
            "begin": f"{100 * begin:.3f}",
            "width": f"{100 * shares[k]:.3f}",
            "colour": k % COLOURS,
        }
        for k, begin in zip(drawn, begins, strict=False)
    ]
    named = set(_largest([shares[k] for k in drawn], MOST_NAMED))
    legend = [part for k, part in enumerate(parts) if k in named]
    present = sum(arm.present for arm in shown.arms)
    return {"parts": parts, "legend": legend, "more": present - len(legend)}


def _shares(shown: Experiment) -> list[float]:
    """Return the share of each arm in the last decision, among those that take part now."""
    total = sum(arm.probability for arm in shown.arms if arm.present) or 1.0
    return [arm.probability / total if arm.present else 0.0 for arm in shown.arms]


def _largest(values: Sequence[float], most: int) -> list[int]:
    """Return the places of the largest values, in their order."""
    return sorted(sorted(range(len(values)), key=lambda k: -values[k])[:most])


def mean_of(loss: float | None, value: float | None) -> str:
    """Return a mean in the experiment's own units, or as a reward."""
    if loss is None:
        return "–"
    return number(1.0 - loss if value is None else value)


def last_decision(timeline: ExperimentTimeline, now: float) -> str:
    """Return how long ago the last decision was made."""
    return "never" if timeline.last_decision is None else ago(max(0.0, now - timeline.last_decision))


def problems(shown: Experiment) -> list[str]:
    """Return what is wrong with an experiment, in sentences."""
    found = list(shown.warnings)
    outcomes = shown.outcomes
    came = outcomes.used + outcomes.skipped + outcomes.held
    if not (came or outcomes.defaults) and shown.rounds >= LEAST_DECISIONS:
        found.append(f"No outcome of {shown.rounds:,} decisions has been reported yet.")
    elif came:
        starving = [
            str(arm.arm)
            for arm in shown.arms
            if arm.present and arm.decisions >= LEAST_DECISIONS and not (arm.outcomes or outcomes.held)
        ]
        if starving:
            found.append(f"No outcome has come of {shortened(starving)}, though others have outcomes.")
    if shown.reports != "first" and shown.missing == "wait" and outcomes.held >= LEAST_DECISIONS and not outcomes.used:
        found.append("No decision is settled yet: without a deadline, a report must say that it is final.")
    is_said = any("had skipped their" in warning for warning in shown.warnings)
    if came >= LEAST_DECISIONS and outcomes.skipped > MOST_THROWN_AWAY * came and not is_said:
        found.append(
            f"{outcomes.skipped:,} of {came:,} outcomes were thrown away: they came after the deadline, or after the"
            " learner had given up on their decisions."
        )
    return found


def holding_since(shown: Experiment, waits_for: WaitsFor) -> float:
    """Return from when on a decision without an outcome has held up the verdict for long, in seconds since 1970.

    Never where a deadline settles it, while few decisions wait for it, or where nobody knows how long an outcome takes.
    """
    took = shown.delays.seconds.p99
    if shown.missing != "wait" or took is None or shown.rounds - waits_for.round < LEAST_DECISIONS:
        return math.inf
    return waits_for.at + max(HELD_TIMES * took, LEAST_HELD)


def holding(shown: Experiment, waits_for: WaitsFor, now: float) -> dict[str, Any]:
    """Return the decision that holds up the verdict, as the list names it."""
    waited = max(0.0, now - waits_for.at)
    return {
        "id": waits_for.id,
        "name": f"of round {waits_for.round:,}" if waits_for.id is None else waits_for.id,
        "ago": ago(waited),
        "problem": f"has waited for its outcome for {duration(waited, 0)}, and holds up the verdict on"
        f" {counted(shown.rounds - waits_for.round, 'later decision')}: report its outcome, or give missing outcomes a"
        " deadline in the next experiment."
        if now >= holding_since(shown, waits_for)
        else "",
    }


def limits_words(limits: ShareLimits | None) -> str:
    """Return limits of shares in words; nothing where there are none."""
    if limits is None:
        return ""
    parts = []
    for each in limits.arms:
        low, high = each.range
        parts.append(f"'{each.arm}' from {percent(low)} to {percent(high)}")
    if limits.holdout:
        parts.append(f"holdout {percent(limits.holdout)}")
    return shortened(parts)
