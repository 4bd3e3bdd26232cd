"""The list of experiments: shares, the last day, what is outstanding, and what is wrong."""

import time
from collections.abc import Sequence
from typing import Any

from belated.api.types import Experiment, ExperimentTimeline
from belated.ledger.base import Outline
from belated.ledger.events import Status
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages.parts import arm_bars, last_decision, problems
from belated.service.pages.visit import Visit, page
from belated.service.words import DAY
from belated.templates.display import counted

ON_A_PAGE = 50
POINTS = 48
"""Of a curve without axes."""
CHOICES = {
    "all": "all",
    "attention": "needs attention",
    "active": "active",
    "paused": "paused",
    "archived": "archived",
}
"""What the list can be narrowed to, by the word in the address."""
ATTENTION_SECONDS = 3.0
"""How long the list looks for experiments that need attention; what it has seen is remembered."""


async def show(visit: Visit) -> Response:
    """Return the list, or the part of it that is asked for."""
    service = visit.service
    wanted, chosen = visit.query.get("q", ""), visit.query.get("status", "all")
    outlines = await service.read(lambda: list(service.ledger.all_outlines()))
    mine = [each for each in reversed(outlines) if visit.caller.opens(each.name)]
    found = [each for each in mine if wanted.lower() in each.name.lower()]
    unseen = 0
    if chosen == "attention":
        found, unseen = await _needing_attention(visit, found)
    elif chosen != "all":
        found = [each for each in found if each.status.name.lower() == chosen]
    pages = max(1, -(-len(found) // ON_A_PAGE))
    at = min(_page(visit.query.get("page", "1")), pages)
    rows = []
    for outline in found[(at - 1) * ON_A_PAGE : at * ON_A_PAGE]:
        try:
            look = await service.look(outline.name)
            rows.append(row(look.experiment, look.timeline, time.time()))
        except ApiError as error:
            rows.append({"name": outline.name, "status": outline.status.name.lower(), "damage": error.problem.message})
    readiness = service.readiness
    return page(
        "overview.html",
        visit,
        rows=rows,
        is_empty=not mine,
        wanted=wanted,
        chosen=chosen,
        choices=CHOICES,
        unseen=unseen,
        counted=counted(len(found), "experiment"),
        page=at,
        pages=pages,
        troubles=[each for each in (readiness.check(), *readiness.warnings) if each],
    )


async def _needing_attention(visit: Visit, outlines: list[Outline]) -> tuple[list[Outline], int]:
    """Return the experiments that are paused, damaged or have a problem, and of how many that is not known yet."""
    known, give_up = visit.pages.attention, time.monotonic() + ATTENTION_SECONDS
    found, unseen = [], 0
    for each in outlines:
        if each.status == Status.ARCHIVED:
            continue
        seen = known.get(each.name)
        if seen is None or seen[:2] != (each.events, each.status):
            if time.monotonic() > give_up:
                unseen += 1
                continue
            seen = known[each.name] = each.events, each.status, await _needs_attention(visit, each)
        if seen[2]:
            found.append(each)
    return found, unseen


async def _needs_attention(visit: Visit, outline: Outline) -> bool:
    try:
        look = await visit.service.look(outline.name)
    except ApiError:
        return True
    return outline.status == Status.PAUSED or bool(problems(look.experiment))


def _page(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def row(shown: Experiment, timeline: ExperimentTimeline, now: float) -> dict[str, Any]:
    """Return an experiment as the list shows it."""
    return {
        "name": shown.name,
        "status": shown.status,
        "damage": "",
        "arms": arm_bars(shown),
        "rounds": f"{shown.rounds:,}",
        "outstanding": f"{shown.outstanding:,}",
        "last": last_decision(timeline, now),
        "decisions": _curve(timeline, [arm.decisions for arm in timeline.arms], now),
        "outcomes": _curve(timeline, [arm.outcomes for arm in timeline.arms], now),
        "problems": problems(shown),
    }


def _last_day(timeline: ExperimentTimeline, counts: Sequence[Sequence[int]], now: float) -> list[int]:
    """Return the counts of the stretches of the last day, of all arms."""
    totals = [sum(column) for column in zip(*counts, strict=True)]
    first = max(0, int((now - DAY - timeline.begin) // timeline.seconds))
    return totals[first:]


def _grouped(counts: Sequence[int]) -> list[int]:
    """Return counts put together into at most POINTS of equal length, without the last: it is not over yet."""
    counts = counts[:-1] or counts
    size = max(1, -(-len(counts) // POINTS))
    begin = len(counts) % size
    return [sum(counts[k : k + size]) for k in range(begin, len(counts), size)]


def _curve(timeline: ExperimentTimeline, counts: Sequence[Sequence[int]], now: float) -> dict[str, Any]:
    """Return a curve without axes, of 96 by 20, and the total."""
    recent = _last_day(timeline, counts, now)
    drawn = _grouped(recent)
    most = max([*drawn, 1])
    step = 96 / max(len(drawn) - 1, 1)
    points = " ".join(f"{k * step:.1f},{19 - 18 * count / most:.1f}" for k, count in enumerate(drawn))
    return {"points": points, "total": f"{sum(recent):,}"}
