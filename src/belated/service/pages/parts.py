"""What the list and the page of an experiment both show of it."""

from itertools import accumulate
from typing import Any

from belated.api.types import Experiment, ExperimentTimeline
from belated.service.words import ago, percent
from belated.templates.display import number

COLOURS = 8
LEAST_DECISIONS = 100
"""Of an experiment, or of an arm, before the lack of outcomes is worth a word."""
MOST_THROWN_AWAY = 0.5


def arm_bars(shown: Experiment) -> list[dict[str, Any]]:
    """Return the arms with their shares, as a bar shows them."""
    shares = [arm.probability if arm.present else 0.0 for arm in shown.arms]
    begins = accumulate(shares[:-1], initial=0.0)
    return [
        {
            "label": str(arm.arm),
            "share": share,
            "percent": percent(share),
            "begin": f"{100 * begin:.3f}",
            "width": f"{100 * share:.3f}",
            "colour": k % COLOURS,
            "present": arm.present,
            "decisions": f"{arm.decisions:,}",
            "outcomes": f"{arm.outcomes:,}",
            "mean": mean_of(arm.mean_loss, arm.mean_value),
        }
        for k, (arm, share, begin) in enumerate(zip(shown.arms, shares, begins, strict=True))
    ]


def mean_of(loss: float | None, value: float | None) -> str:
    """Return a mean in the experiment's own units, or as a reward."""
    if loss is None:
        return "–"
    return number(1.0 - loss if value is None else value)


def last_decision(timeline: ExperimentTimeline, now: float) -> str:
    """Return how long ago the last decision was made."""
    totals = [sum(column) for column in zip(*(arm.decisions for arm in timeline.arms), strict=True)]
    last = next((k for k in range(len(totals) - 1, -1, -1) if totals[k]), None)
    if last is None:
        return "never"
    return ago(max(0.0, now - timeline.begin - (last + 1) * timeline.seconds))


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
            found.append(f"No outcome has come of {', '.join(starving)}, though others have outcomes.")
    if shown.reports != "first" and shown.missing == "wait" and outcomes.held >= LEAST_DECISIONS and not outcomes.used:
        found.append("No decision is settled yet: without a deadline, a report must say that it is final.")
    is_said = any("had skipped their" in warning for warning in shown.warnings)
    if came >= LEAST_DECISIONS and outcomes.skipped > MOST_THROWN_AWAY * came and not is_said:
        found.append(
            f"{outcomes.skipped:,} of {came:,} outcomes were thrown away: they came after the deadline, or after the"
            " learner had given up on their decisions."
        )
    return found
