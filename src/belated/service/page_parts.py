"""What pages show, prepared from what the API shows: rows, bars, curves, histories; and what their forms ask for."""

from collections.abc import Sequence
from typing import Any

import msgspec

from belated import learners
from belated.api.types import ArmLimit, Deadline, Experiment, NewExperiment, ShareLimits
from belated.ledger.base import Ledger
from belated.ledger.events import Kind, labels_of, when
from belated.service.errors import ApiError, invalid
from belated.templates.display import counted as counted
from belated.templates.display import number

DAY = 86400.0
COLOURS = 8
_AGES = ((2 * DAY, DAY, "day"), (2 * 3600.0, 3600.0, "hour"), (120.0, 60.0, "minute"), (0.0, 1.0, "second"))
_WORDS = {
    Kind.ADD_ARM: "arm {arm} added",
    Kind.RETIRE_ARM: "arm {arm} retired",
    Kind.RESTORE_ARM: "arm {arm} restored",
    Kind.LIMITS: "limits set: {detail}",
    Kind.FALLBACKS: "{detail} fallbacks to {arm} told",
}
SUGGESTED = ("guarded", "thompson", "robust", "uniform", "klucb", "balanced")


def ago(seconds: float) -> str:
    """Return how long ago something was, in words."""
    if seconds < 1.0:
        return "now"
    for least, unit, word in _AGES:
        if seconds >= least:
            return f"{counted(int(seconds // unit), word)} ago"
    return "now"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.1 else f"{100 * share:.1f} %"


def arms(shown: Experiment) -> list[dict[str, Any]]:
    """Return the arms with their shares, as a bar shows them."""
    begin, bars = 0.0, []
    for k, arm in enumerate(shown.arms):
        share = arm.probability if arm.present else 0.0
        bars.append(
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
                "mean": _mean(shown, arm.mean_loss, arm.mean_value),
            }
        )
        begin += share
    return bars


def _mean(shown: Experiment, loss: float | None, value: float | None) -> str:
    if loss is None:
        return "–"
    return number(value) if value is not None else number(1.0 - loss)


def curve(counts: Sequence[float]) -> dict[str, Any]:
    """Return a curve without axes, of 96 by 20."""
    most = max([*counts, 1])
    step = 96 / max(len(counts) - 1, 1)
    points = " ".join(f"{k * step:.1f},{19 - 18 * count / most:.1f}" for k, count in enumerate(counts))
    return {"points": points, "total": f"{sum(counts):,.0f}"}


def _last_day(timeline: dict[str, Any], field: str, now: float) -> list[float]:
    """Return the counts of the stretches of the last day, at most 48 of them."""
    seconds = timeline["seconds"]
    totals = [sum(column) for column in zip(*(arm[field] for arm in timeline["arms"]), strict=True)]
    first = max(0, int((now - DAY - timeline["begin"]) // seconds)) if totals else 0
    recent = totals[first:]
    size = max(1, -(-len(recent) // 48))
    return [float(sum(recent[k : k + size])) for k in range(0, len(recent), size)]


def _last_decision(timeline: dict[str, Any], now: float) -> str:
    totals = [sum(column) for column in zip(*(arm["decisions"] for arm in timeline["arms"]), strict=True)]
    last = next((k for k in range(len(totals) - 1, -1, -1) if totals[k]), None)
    if last is None:
        return "never"
    end = timeline["begin"] + (last + 1) * timeline["seconds"]
    return ago(max(0.0, now - end))


def row(shown: Experiment, timeline: dict[str, Any], now: float) -> dict[str, Any]:
    """Return an experiment as the list shows it."""
    return {
        "name": shown.name,
        "status": shown.status,
        "problem": "",
        "arms": arms(shown),
        "rounds": f"{shown.rounds:,}",
        "outstanding": f"{shown.outstanding:,}",
        "last": _last_decision(timeline, now),
        "decisions": curve(_last_day(timeline, "decisions", now)),
        "outcomes": curve(_last_day(timeline, "outcomes", now)),
        "warnings": shown.warnings,
    }


def experiment(shown: Experiment, timeline: dict[str, Any], now: float) -> dict[str, Any]:
    """Return an experiment as its page shows it."""
    quantiles = shown.delays.seconds
    return {
        **row(shown, timeline, now),
        "shown": shown,
        "unit": "value" if shown.outcome else "reward",
        "patience": "for ever" if shown.patience is None else f"{number(shown.patience)} decisions",
        "drift": number(shown.drift),
        "delays": [_seconds(each) for each in (quantiles.p50, quantiles.p90, quantiles.p99)],
        "missing": missing(shown),
        "limits": limit_rows(shown),
        "holdout": shown.limits.holdout if shown.limits else 0.0,
    }


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for least, unit, word in _AGES:
        if seconds >= least:
            return f"{number(round(seconds / unit, 1))} {word}s"
    return f"{number(seconds)} s"


def missing(shown: Experiment) -> str:
    """Return what a missing outcome means, in a sentence."""
    if not isinstance(shown.missing, Deadline):
        return "A missing outcome means nothing: the learner waits as long as its patience lasts."
    return (
        f"A decision without an outcome after {_seconds(shown.missing.deadline)} has a loss of"
        f" {number(shown.missing.loss)}."
    )


def limit_rows(shown: Experiment) -> list[dict[str, Any]]:
    """Return the limits of each arm that takes part."""
    ranges = {each.arm: each.range for each in shown.limits.arms} if shown.limits else {}
    rows = []
    for arm in shown.arms:
        if arm.present:
            low, high = ranges.get(arm.arm, (0.0, 1.0))
            rows.append({"label": str(arm.arm), "floor": f"{low:g}", "ceiling": f"{high:g}"})
    return rows


def data(shown: Experiment, timeline: dict[str, Any]) -> str:
    """Return what the charts show, as JSON that can stand in a page."""
    scale = shown.outcome
    content = {
        "rounds": shown.rounds,
        "outstanding": shown.outstanding,
        "events": shown.events,
        "arms": arms(shown),
        "scale": None if scale is None else [scale.lowest, scale.highest, scale.better == "higher"],
        "timeline": timeline,
    }
    return msgspec.json.encode(content).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def history(ledger: Ledger, name: str) -> list[dict[str, str]]:
    """Return what was changed, the newest first, with who asked for it."""
    record = ledger.find(name)
    if record is None:
        return []
    changes = ledger.changes(record.number, record.events)
    labels, keys = labels_of(record.settings, changes), {key.number: key.name for key in ledger.all_keys()}
    rows = [
        {
            "at": when(each.at)[:19].replace("T", " "),
            "what": _WORDS[Kind(each.kind)].format(
                arm=repr(labels[each.arm]) if each.arm is not None else "", detail=each.detail
            ),
            "who": keys.get(each.key, "–"),
        }
        for each in changes
    ]
    rows.insert(0, {"at": when(record.created)[:19].replace("T", " "), "what": "created", "who": "–"})
    return rows[::-1]


def learner_choices() -> list[tuple[str, str]]:
    """Return the learners that a form offers, with what they are."""
    return [(name, learners.find(name).summary) for name in SUGGESTED]


def limits_of(fields: dict[str, list[str]]) -> ShareLimits:
    """Return the limits that a form asks for."""
    limits = []
    given = (fields.get(name, []) for name in ("arm", "floor", "ceiling"))
    for arm, floor, ceiling in zip(*given, strict=False):
        low, high = _share("floor", floor, 0.0), _share("ceiling", ceiling, 1.0)
        if (low, high) != (0.0, 1.0):
            limits.append(ArmLimit(arm, low if low > 0.0 else None, high if high < 1.0 else None))
    return ShareLimits(limits, _share("holdout", (fields.get("holdout") or [""])[0], 0.0))


def _share(name: str, text: str, default: float) -> float:
    try:
        share = float(text) if text.strip() else default
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ApiError("invalid", f"{name} is {text!r}; a number from 0 to 1 is needed", name)
    return share


def new_experiment(given: dict[str, str]) -> NewExperiment:
    """Return the experiment that a form asks for, checked as the API checks it."""
    body: dict[str, Any] = {
        "name": given.get("name", ""),
        "arms": [line.strip() for line in given.get("arms", "").splitlines() if line.strip()],
        "learner": given.get("learner", "guarded"),
        "reports": given.get("reports", "first"),
    }
    if given.get("missing") == "deadline":
        body["missing"] = {"deadline": _number(given, "deadline") * DAY, "loss": 1}
    if given.get("units") == "own":
        body["outcome"] = {
            "lowest": _number(given, "lowest"),
            "highest": _number(given, "highest"),
            "better": given.get("better", "higher"),
        }
    if given.get("holdout"):
        body["limits"] = {"holdout": _number(given, "holdout")}
    raw = msgspec.json.encode(body)
    try:
        return msgspec.json.decode(raw, type=NewExperiment)
    except msgspec.ValidationError as error:
        raise invalid(raw, error, NewExperiment) from None


def _number(given: dict[str, str], name: str) -> float:
    try:
        return float(given.get(name, ""))
    except ValueError:
        raise ApiError("invalid", f"{name} is {given.get(name, '')!r}; a number is needed", name) from None
