"""Decisions one by one: the latest, and the story of one that is found by its id."""

from typing import Any, NamedTuple

from belated.ledger.base import Ledger
from belated.ledger.events import SECOND, Event, ExperimentSettings, Fate, Kind, labels_of
from belated.service.handlers import record_of
from belated.service.http import Response
from belated.service.pages.visit import Visit, address, page
from belated.service.reading import Look
from belated.service.words import duration, moment
from belated.templates.display import number

LATEST = 20
_FATES = {
    Fate.USED: "learned from",
    Fate.SKIPPED: "not learned from: the learner had given up on it",
    Fate.LATE: "not learned from: it came after the deadline",
    Fate.HELD: "held until the deadline, or until all is reported",
    Fate.JOINED: "added to what is held",
}


class Line(NamedTuple):
    """Something that happened to a decision."""

    at: str
    what: str
    who: str


async def show(visit: Visit) -> Response:
    """Return the story of the decision that has an id."""
    id = visit.query.get("id", "")
    found = await visit.service.read(_story, visit.service.ledger, visit.name, id)
    return page(
        "decision.html", visit, 200 if found else 404, name=visit.name, id=id, story=found, back=address(visit.name)
    )


def _story(ledger: Ledger, name: str, id: str) -> list[Line]:
    """Return what happened to a decision, in order; nothing where there is none under this id."""
    record = record_of(ledger, name)
    made = ledger.decision(record.number, id) or ledger.decision(record.number, id.strip())
    if made is None:
        return []
    labels = labels_of(record.settings, ledger.changes(record.number, made.number))
    keys = {key.number: key.name for key in ledger.all_keys()}
    events = [made, *ledger.outcomes(record.number, [made.round])]
    lines = [Line(moment(each.at), _words(each, record.settings, labels), keys.get(each.key, "–")) for each in events]
    if not any(each.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED) for each in events):
        lines.append(Line("", "not settled yet", ""))
    return lines


def _words(event: Event, settings: ExperimentSettings, labels: list[str | int]) -> str:
    if event.kind == Kind.DECISION:
        chance = f"with probability {number(event.propensity)}" if event.propensity is not None else ""
        return f"decided as round {event.round:,}: '{labels[event.arm]}', {chance}".rstrip(", ")
    after = f"after {duration(event.waited / SECOND)}"
    fate = _FATES.get(Fate(event.fate), "") if event.fate else ""
    if event.kind == Kind.DEFAULT:
        return f"no outcome {after}, which counts with {_amount(event, settings)}; {fate}"
    if event.kind == Kind.SETTLED:
        return f"settled {after}: {_amount(event, settings)}; {fate}"
    word = f"report '{event.report}'" if event.report else "outcome"
    return f"{word} {after}: {_amount(event, settings)}; {fate}"


def _amount(event: Event, settings: ExperimentSettings) -> str:
    """Return an outcome in the units in which it was reported."""
    scale = settings.scale
    if event.kind == Kind.REPORT:
        together = f", together {number(event.total)}" if event.total != event.value else ""
        return f"value {number(event.value)}{together}"
    if event.value is not None:
        return f"value {number(event.value)}"
    if event.total is not None:
        return f"value {number(event.total)}"
    return f"reward {number(1.0 - event.loss)}" if scale is None else f"value {number(scale.value(event.loss))}"


def latest(ledger: Ledger, look: Look) -> list[dict[str, Any]]:
    """Return the latest decisions of an experiment, the newest first, with what has come of them so far."""
    record = record_of(ledger, look.experiment.name)
    made = ledger.latest(record.number, look.events, LATEST)
    labels = [arm.arm for arm in look.experiment.arms]
    came: dict[int, Event] = {}
    for event in ledger.outcomes(record.number, [each.round for each in made]):
        came[event.round] = event
    return [
        {
            "id": each.id,
            "at": moment(each.at),
            "arm": str(labels[each.arm]),
            "propensity": "–" if each.propensity is None else number(each.propensity),
            "so_far": _so_far(came.get(each.round), record.settings),
        }
        for each in made
    ]


def _so_far(event: Event | None, settings: ExperimentSettings) -> str:
    if event is None:
        return "waiting"
    if event.kind == Kind.DEFAULT:
        return "no outcome in time"
    return _amount(event, settings)
