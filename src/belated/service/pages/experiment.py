"""The page of an experiment, from top to bottom as one asks: which arm wins, what happens, what can be done."""

import time
from typing import Any

import msgspec

from belated.api.types import ArmTimeline, Deadline, Experiment, ExperimentTimeline, ShareLimits
from belated.ledger.export import FORMATS
from belated.service import handlers
from belated.service.answers import NOTHING
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages.decisions import latest
from belated.service.pages.history import history
from belated.service.pages.parts import MOST_LISTED, last_decision, limits_words, listed, problems
from belated.service.pages.visit import Visit, page
from belated.service.reading import Look
from belated.service.views import Known
from belated.service.words import duration, percent
from belated.templates.display import number

MOST_POINTS = 60
"""Of a chart: more are harder to read, and take longer to send."""
TINY = 1e-9
"""A cost that is but rounding."""
COUNTS = {
    "settled": "all decisions in order, up to the first that waits for its outcome",
    "bounded": "all decisions; those that wait as the worst, then as the best outcome",
    "arrived": "all outcomes that have come; right if how long one takes does not depend on what it is",
}
"""Which outcomes the verdict can count, by the word in the address."""
REPORTS = {
    "first": "the first one stays",
    "last": "the last one counts",
    "sum": "they are added up",
    "largest": "the largest one counts",
}
DONE = {
    "create": "The experiment is there. The lines under “Use it” show how to ask it for decisions.",
    "pause": "It is paused. Whoever asks for a decision is refused until it is resumed; outcomes are still accepted.",
    "resume": "It is resumed, and decides again.",
    "archive": "It is archived, and will never decide again. Outcomes are still accepted.",
    "add-arm": "The arm takes part from the next decision on.",
    "retire-arm": "The arm is retired: it is not chosen any more.",
    "restore-arm": "The arm takes part again, from the next decision on.",
    "limits": "The limits are set, from the next decision on.",
    "erase": "The ids are erased.",
    "erasing": "Erasing goes on in the background. The history shows when it is done.",
}
"""What a page says after something was done, by the word in the address."""
KNOWN_SECONDS = 0.15
"""How long a page waits for estimates; if they take longer, they come later."""


async def show(visit: Visit) -> Response:
    """Return the page of an experiment."""
    count = count_of(visit)
    feed = visit.pages.feed(visit.name, count)
    look = await visit.service.look(visit.name)
    decisions = await visit.service.read(latest, visit.service.ledger, look)
    changes = await visit.service.read(history, visit.service.ledger, visit.name)
    known = await feed.known(KNOWN_SECONDS, look.events)
    found = msgspec.json.decode(known, type=Known) if known else None
    shown = look.experiment
    return page(
        "experiment.html",
        visit,
        name=shown.name,
        shown=shown,
        count=count,
        counts=COUNTS,
        done=DONE.get(visit.query.get("done", ""), ""),
        arms=listed(shown),
        unlisted=f"{max(0, len(shown.arms) - MOST_LISTED):,}",
        settings=settings(shown),
        facts=facts(look, time.time()),
        problems=problems(shown),
        unit="value" if shown.outcome else "reward",
        delays=[duration(each) for each in msgspec.structs.astuple(shown.delays.seconds) if each is not None],
        limits=_limit_rows(shown),
        limits_now=limits_text(shown.limits),
        holdout=shown.limits.holdout if shown.limits else 0.0,
        changes=changes,
        latest=decisions,
        data=in_page(data(look, decisions)),
        answer=found.answer if found else NOTHING,
        known=in_page(known or b"null"),
    )


async def export(visit: Visit) -> Response:
    """Stream every event of an experiment."""
    chosen = visit.query.get("format", "csv")
    if chosen not in FORMATS:
        raise ApiError("invalid", f"format is {chosen[:100]!r}; {' or '.join(FORMATS)} is needed", "format")
    return await handlers.ledger(visit.request(format=chosen, after="0"))


def facts(look: Look, now: float) -> dict[str, str]:
    """Return numbers of an experiment that change all the time, by name."""
    shown = look.experiment
    outcomes = shown.outcomes
    counts = {
        "rounds": shown.rounds,
        "outstanding": shown.outstanding,
        "used": outcomes.used,
        "skipped": outcomes.skipped,
        "defaults": outcomes.defaults,
        "held": outcomes.held,
        "clipped": outcomes.clipped,
        "given-up": shown.skipped,
        "fallbacks": shown.fallbacks,
    }
    return {
        **{name: f"{count:,}" for name, count in counts.items()},
        "last": last_decision(look.timeline, now),
        "patience": "for ever" if shown.patience is None else f"{number(shown.patience)} decisions",
        "drift": number(shown.drift),
        "cost": _cost(shown),
    }


def _cost(shown: Experiment) -> str:
    """Return what delay has cost, in the experiment's own units."""
    if shown.delay_cost is None:
        return "–"
    units = shown.outcome.highest - shown.outcome.lowest if shown.outcome else 1.0
    return number(float(f"{shown.delay_cost * units:.2g}")) if abs(shown.delay_cost) > TINY else "0"


def missing(shown: Experiment) -> str:
    """Return what a missing outcome means, in a sentence."""
    if not isinstance(shown.missing, Deadline):
        return "There is no deadline: a decision without an outcome is waited for, and holds up the verdict."
    loss, scale = shown.missing.loss, shown.outcome
    taken = f"a reward of {number(1.0 - loss)}"
    if scale is not None:
        share = loss if scale.better == "lower" else 1.0 - loss
        taken = f"a value of {number(scale.lowest + share * (scale.highest - scale.lowest))}"
    found = f"A decision without an outcome after {duration(shown.missing.deadline)} counts with {taken}."
    return f"{found} Nothing is learned from before that." if shown.missing.learn == "deadline" else found


def settings(shown: Experiment) -> list[tuple[str, str]]:
    """Return how an experiment was made, as names and sentences."""
    scale = shown.outcome
    parameters = ", ".join(f"{name} {value}" for name, value in shown.parameters.items())
    floor = f"at least {percent(shown.share_floor)} for each arm" if shown.share_floor else ""
    limits = "; ".join(filter(None, [floor, limits_words(shown.limits)]))
    words = f"values from {number(scale.lowest)} to {number(scale.highest)}, {scale.better} is better" if scale else ""
    return [
        ("Learner", f"{shown.learner}{f' ({parameters})' if parameters else ''}"),
        ("Outcomes", words or "rewards from 0 to 1"),
        ("Several reports of a decision", REPORTS[shown.reports]),
        ("Missing outcomes", missing(shown)),
        ("Shares", limits or "no limits"),
    ]


def count_of(visit: Visit) -> str:
    """Return which outcomes the verdict of a page counts."""
    count = visit.query.get("count", "settled")
    if count not in COUNTS:
        raise ApiError("invalid", f"count is {count[:100]!r}; one of {', '.join(COUNTS)} is needed", "count")
    return count


def limits_text(limits: ShareLimits | None) -> str:
    """Return limits as a form carries them, so that one filled in before they were changed is told."""
    return msgspec.json.encode(limits or ShareLimits()).decode()


def _limit_rows(shown: Experiment) -> list[dict[str, Any]]:
    """Return the limits of each arm that is listed and takes part, or has limits."""
    ranges = {str(each.arm): each.range for each in shown.limits.arms} if shown.limits else {}
    present = [arm["label"] for arm in listed(shown) if arm["present"]]
    rows = []
    for label in dict.fromkeys([*present, *ranges]):
        floor, ceiling = (repr(each).removesuffix(".0") for each in ranges.get(label, (0.0, 1.0)))
        rows.append({"label": label, "floor": floor, "ceiling": ceiling})
    return rows


def data(look: Look, decisions: list[dict[str, Any]]) -> bytes:
    """Return what changes on the page of an experiment, as JSON: its state, and its latest decisions."""
    shown, scale, now = look.experiment, look.experiment.outcome, time.time()
    content = {
        "now": now,
        "facts": facts(look, now),
        "arms": listed(shown),
        "n_arms": len(shown.arms),
        "problems": problems(shown),
        "form": [shown.status, len(shown.arms), [arm.arm for arm in shown.arms if not arm.present], shown.limits],
        "scale": None if scale is None else [scale.lowest, scale.highest, scale.better == "higher"],
        "latest": decisions,
        "timeline": grouped(look.timeline, MOST_POINTS),
    }
    return msgspec.json.encode(content)


def in_page(content: bytes) -> str:
    """Return JSON as it can stand within a page: nothing in it ends the element."""
    return content.decode().replace("<", "\\u003c").replace("&", "\\u0026")


def grouped(timeline: ExperimentTimeline, most: int) -> ExperimentTimeline:
    """Return a timeline of at most so many stretches: neighbours are put together."""
    size = -(-len(timeline.outstanding) // most)
    if size <= 1:
        return timeline
    last = len(timeline.outstanding) - 1
    arms = [
        ArmTimeline(
            arm.arm, _sums(arm.decisions, size), _sums(arm.outcomes, size), _sums(arm.losses, size), arm.defaults
        )
        for arm in timeline.arms
    ]
    outstanding = [timeline.outstanding[min(k + size - 1, last)] for k in range(0, last + 1, size)]
    return msgspec.structs.replace(timeline, seconds=size * timeline.seconds, arms=arms, outstanding=outstanding)


def _sums(counts: list[Any], size: int) -> list[Any]:
    return [sum(counts[k : k + size]) for k in range(0, len(counts), size)]
