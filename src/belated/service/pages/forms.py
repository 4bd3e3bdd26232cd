"""What forms ask for, checked as the API checks it."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from belated import learners
from belated.api.types import ArmLimit, NewExperiment, ShareLimits
from belated.service.errors import ApiError, invalid
from belated.service.words import DAY

T = TypeVar("T")

MOST_DAYS = 3660.0
SUGGESTED = ("guarded", "thompson", "robust", "uniform", "klucb", "balanced")


def learner_choices() -> list[tuple[str, str]]:
    """Return the learners that a form offers, with what they are."""
    return [(name, learners.find(name).summary) for name in SUGGESTED]


def limits_of(fields: dict[str, list[str]], labels: Mapping[str, str | int]) -> ShareLimits:
    """Return the limits that a form asks for. labels: those of the arms, which may be numbers, by their text."""
    limits = []
    given = (fields.get(name, []) for name in ("arm", "floor", "ceiling"))
    for arm, floor, ceiling in zip(*given, strict=False):
        low, high = _share("floor", floor, 0.0), _share("ceiling", ceiling, 1.0)
        if (low, high) != (0.0, 1.0):
            limits.append(ArmLimit(labels.get(arm, arm), low if low > 0.0 else None, high if high < 1.0 else None))
    return ShareLimits(limits, _share("holdout", (fields.get("holdout") or [""])[0], 0.0))


def _share(name: str, text: str, default: float) -> float:
    """Return a share: 0.2 or 20 %."""
    plain = text.strip()
    try:
        share = float(plain.removesuffix("%")) / (100.0 if plain.endswith("%") else 1.0) if plain else default
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ApiError("invalid", f"{name} is {text!r}; a number from 0 to 1, or a percentage, is needed", name)
    return share


def new_experiment(given: dict[str, str]) -> NewExperiment:
    """Return the experiment that a form asks for."""
    body: dict[str, Any] = {
        "name": given.get("name", ""),
        "arms": [line.strip() for line in given.get("arms", "").splitlines() if line.strip()],
        "learner": given.get("learner", "guarded"),
        "reports": given.get("reports", "first"),
    }
    if given.get("missing") not in ("wait", "deadline"):
        raise ApiError("invalid", "what a missing outcome means is not chosen; one of the two is needed", "missing")
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
        body["share_floor"] = _share("share_floor", given["share_floor"], 0.0)
    if given.get("holdout"):
        body["limits"] = {"holdout": _share("holdout", given["holdout"], 0.0)}
    return checked(body, NewExperiment)


def checked(body: dict[str, Any], kind: type[T]) -> T:
    """Return what a form asks for as the API takes it, or refuse it as the API does."""
    raw = msgspec.json.encode(body)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(raw, error, kind) from None


def number_of(given: dict[str, str], name: str) -> float:
    """Return a field that must be a number."""
    try:
        number = float(given.get(name, ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ApiError("invalid", f"{name} is {given.get(name, '')!r}; a number is needed", name)
    return number
