"""The list of experiments: shares, the last day, what is outstanding, and what is wrong."""

import math
import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from belated.api.types import Experiment, ExperimentTimeline
from belated.ledger.base import Outline
from belated.ledger.events import Status
from belated.service.errors import ApiError
from belated.service.http import Response
from belated.service.pages.feed import MANY_EVENTS
from belated.service.pages.parts import holding, holding_since, last_decision, problems, share_bar
from belated.service.pages.visit import Visit, page
from belated.service.reading import Look
from belated.service.views import Known
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
KNOWN_SECONDS = 0.1
VERDICTS_SECONDS = 0.4
"""How long the list waits for the verdict on an experiment, and on all; those that take longer come the next time."""
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
    rows, give_up = [], time.monotonic() + VERDICTS_SECONDS
    for outline in found[(at - 1) * ON_A_PAGE : at * ON_A_PAGE]:
        try:
            look = await service.look(outline.name)
            known = await _known(visit, look, give_up)
            rows.append(row(look.experiment, look.timeline, known, time.time()))
        except ApiError as error:
            rows.append({"name": outline.name, "status": outline.status.name.lower(), "damage": error.problem.message})
    readiness = service.readiness
    return page(
        "overview.html",
        visit,
        rows=rows,
        alarms=sum(
            bool(each["damage"] or each["problems"] or (each["holding"] and each["holding"]["problem"]))
            for each in rows
        ),
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
    """Return the experiments that are paused, damaged, held up or have a problem, and of how many that is not known
    yet.
    """
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
            since = await _attention_from(visit, each, give_up)
            if since is None:
                unseen += 1
                continue
            seen = known[each.name] = each.events, each.status, since
        if seen[2] <= time.time():
            found.append(each)
    return found, unseen


async def _attention_from(visit: Visit, outline: Outline, give_up: float) -> float | None:
    """Return from when on an experiment needs attention if nothing happens, in seconds since 1970.

    None: that is not known yet, as its estimates take their time. Of one with very many decisions nobody waits for
    them: what holds it up is known once its page was open.
    """
    try:
        look = await visit.service.look(outline.name)
    except ApiError:
        return 0.0
    if outline.status == Status.PAUSED or problems(look.experiment):
        return 0.0
    known = await _known(visit, look, give_up)
    if known is None:
        return math.inf if look.events > MANY_EVENTS else None
    return math.inf if known.waits_for is None else holding_since(look.experiment, known.waits_for)


def _page(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else 1


async def _known(visit: Visit, look: Look, give_up: float) -> Known | None:
    """Return what is known of an experiment, if that can be had soon."""
    seconds = min(KNOWN_SECONDS, give_up - time.monotonic())
    known = await visit.pages.feed(look.experiment.name).known(max(0.0, seconds), look.events)
    return None if known is None else msgspec.json.decode(known, type=Known)


def _verdict(known: Known | None) -> str:
    """Return which arm wins, in a few words."""
    if known is None:
        return "open it to see"
    found = known.estimates
    if found.winner is not None:
        return f"{found.winner} wins"
    if found.leader is None:
        return "nothing is known yet"
    evidence = "not sure yet" if known.answer.progress is None else f"{known.answer.progress} % of the evidence needed"
    return f"{found.leader} leads, {evidence}"


def row(shown: Experiment, timeline: ExperimentTimeline, known: Known | None, now: float) -> dict[str, Any]:
    """Return an experiment as the list shows it."""
    waits_for = None if known is None else known.waits_for
    return {
        "name": shown.name,
        "status": shown.status,
        "damage": "",
        "shares": share_bar(shown),
        "verdict": _verdict(known),
        "holding": None if waits_for is None else holding(shown, waits_for, now),
        "rounds": f"{shown.rounds:,}",
        "outstanding": f"{shown.outstanding:,}",
        "last": last_decision(timeline, now),
        "decisions": _curve(*last_day(timeline, "decisions", now)),
        "outcomes": _curve(*last_day(timeline, "outcomes", now)),
        "problems": problems(shown),
    }


def last_day(timeline: ExperimentTimeline, what: Literal["decisions", "outcomes"], now: float) -> tuple[int, list[int]]:
    """Return how many decisions or outcomes there were in the last day, and the same over time.

    Stretches of the timeline are used while they are short; those of an old experiment are longer than half an hour.
    """
    kept = timeline.last_day
    if timeline.seconds <= kept.seconds:
        begin, seconds = timeline.begin, timeline.seconds
        counts = [sum(column) for column in zip(*(getattr(arm, what) for arm in timeline.arms), strict=True)]
    else:
        begin, seconds, counts = kept.begin, kept.seconds, getattr(kept, what)
    first = max(0, math.ceil((now - DAY - begin) / seconds))
    recent = counts[first:]
    until_now = [0] * min(int((now - begin) // seconds) + 1 - max(first, len(counts)), math.ceil(DAY / seconds))
    return sum(recent), _grouped([*recent, *until_now] if counts else [])


def _grouped(counts: Sequence[int]) -> list[int]:
    """Return counts put together into at most POINTS of equal length, without the last: it is not over yet."""
    counts = counts[:-1] or counts
    size = max(1, -(-len(counts) // POINTS))
    begin = len(counts) % size
    return [sum(counts[k : k + size]) for k in range(begin, len(counts), size)]


def _curve(total: int, counts: Sequence[int]) -> dict[str, str]:
    """Return a total, and a curve without axes, of 96 by 20."""
    most = max([*counts, 1])
    step = 96 / max(len(counts) - 1, 1)
    points = " ".join(f"{k * step:.1f},{19 - 18 * count / most:.1f}" for k, count in enumerate(counts))
    return {"points": points, "total": f"{total:,}"}
