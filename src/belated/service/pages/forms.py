"""What forms ask for, checked as the API checks it."""

import math
from typing import Any

import msgspec

from belated import learners
from belated.api.types import ArmLimit, NewExperiment, ShareLimits
from belated.service.errors import ApiError, invalid
from belated.service.words import DAY

MOST_DAYS = 3660.0
SUGGESTED = ("guarded", "thompson", "robust", "uniform", "klucb", "balanced")


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
    """Return the experiment that a form asks for."""
    body: dict[str, Any] = {
        "name": given.get("name", ""),
        "arms": [line.strip() for line in given.get("arms", "").splitlines() if line.strip()],
        "learner": given.get("learner", "guarded"),
        "reports": given.get("reports", "first"),
    }
    if given.get("learn") == "deadline" and given.get("missing") != "deadline":
        raise ApiError("invalid", "learning at the deadline only needs a deadline", "missing")
    if given.get("missing") == "deadline":
        days = number_of(given, "deadline")
        if not 0.0 < days <= MOST_DAYS:
            raise ApiError(
                "invalid",
                f"the deadline is {days:g} days; more than 0 and at most {MOST_DAYS:,.0f} are needed",
                "missing",
            )
        body["missing"] = {"deadline": days * DAY, "loss": 1}
        if given.get("learn") == "deadline":
            body["missing"]["learn"] = "deadline"
    if given.get("units") == "own":
        body["outcome"] = {
            "lowest": number_of(given, "lowest"),
            "highest": number_of(given, "highest"),
            "better": given.get("better", "higher"),
        }
    if given.get("share_floor"):
        body["share_floor"] = number_of(given, "share_floor")
    if given.get("holdout"):
        body["limits"] = {"holdout": number_of(given, "holdout")}
    raw = msgspec.json.encode(body)
    try:
        return msgspec.json.decode(raw, type=NewExperiment)
    except msgspec.ValidationError as error:
        raise invalid(raw, error, NewExperiment) from None


def number_of(given: dict[str, str], name: str) -> float:
    """Return a field that must be a number."""
    try:
        number = float(given.get(name, ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ApiError("invalid", f"{name} is {given.get(name, '')!r}; a number is needed", name)
    return number
