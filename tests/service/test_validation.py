"""What is said of a body that does not fit: which field, what stands there, what is needed."""

import json
from typing import Any

import pytest

from belated.api.types import MOST_SECONDS, MOST_SEED, DecisionRequest, NewExperiment, OutcomeReport
from belated.service.validation import find_fault

LABEL = f"a text of 1 to 200 characters or a whole number from -{MOST_SEED:,} to {MOST_SEED:,}"
NAME = "a name of 1 to 100 letters, digits, dots, dashes and underscores, a letter or digit first,"
ARMS = "a list of 2 to 10,000 labels or a number of arms from 2 to 10,000"
LONG = 10_001

UNITS = "a number from 0 to 1, or `value` in an experiment that was created with units (`outcome`), is needed"


def fault(value: Any, kind: Any = NewExperiment) -> tuple[str, str] | None:
    found = find_fault(json.dumps(value).encode(), kind)
    return None if found is None else (found.field, found.message)


@pytest.mark.parametrize(
    ("field", "value", "path", "says"),
    [
        ("arms", 1, "arms", "is 1; a number of arms from 2 to 10,000 is needed"),
        ("arms", LONG, "arms", "is 10001; a number of arms from 2 to 10,000 is needed"),
        ("arms", True, "arms", f"is true; {ARMS} is needed"),
        ("arms", 2.5, "arms", f"is 2.5; {ARMS} is needed"),
        ("arms", "ab", "arms", f"is 'ab'; {ARMS} is needed"),
        ("arms", ["a"], "arms", "is ['a']; a list of 2 to 10,000 labels is needed"),
        ("arms", ["a", ""], "arms[1]", "is ''; a text of 1 to 200 characters is needed"),
        ("arms", ["a", True], "arms[1]", f"is true; {LABEL} is needed"),
        ("arms", [1.5, "a"], "arms[0]", f"is 1.5; {LABEL} is needed"),
        (
            "arms",
            ["a", -MOST_SEED - 1],
            "arms[1]",
            f"is {-MOST_SEED - 1}; a whole number from -{MOST_SEED:,} to {MOST_SEED:,} is needed",
        ),
        ("name", "a b", "name", f"is 'a b'; {NAME} is needed"),
        ("name", "-a", "name", f"is '-a'; {NAME} is needed"),
        ("name", "a\n", "name", f"is 'a\\n'; {NAME} is needed"),
        ("name", "", "name", f"is ''; {NAME} is needed"),
        ("name", 5, "name", f"is 5; {NAME} is needed"),
        ("seed", -1, "seed", f"is -1; a whole number from 0 to {MOST_SEED:,} is needed"),
        ("seed", True, "seed", f"is true; a whole number from 0 to {MOST_SEED:,} is needed"),
        ("missing", "never", "missing", "is 'never'; \"wait\" or an object with deadline, loss, learn is needed"),
        ("missing", {"deadline": 0, "loss": 1}, "missing.deadline", "is 0; a number above 0, at most 316,224,000 is"),
        ("missing", {"deadline": MOST_SECONDS + 1, "loss": 1}, "missing.deadline", "a number above 0, at most"),
        ("missing", {"deadline": 5}, "missing.loss", "is missing; a number from 0 to 1 is needed"),
        ("missing", {"deadline": 5, "loss": 1.5}, "missing.loss", "is 1.5; a number from 0 to 1 is needed"),
        ("missing", {"deadline": 5, "loss": True}, "missing.loss", "is true; a number from 0 to 1 is needed"),
        (
            "missing",
            {"deadline": 5, "loss": 1, "learn": "later"},
            "missing.learn",
            'is \'later\'; "arrival" or "deadline" is needed',
        ),
        ("parameters", {"kappa": [1]}, "parameters.kappa", "is [1]; a number or a text is needed"),
        ("parameters", 5, "parameters", "is 5; an object is needed"),
    ],
)
def test_the_field_that_is_wrong_is_named(field: str, value: Any, path: str, says: str) -> None:
    found = fault({"name": "a", "arms": 2, field: value})
    assert found is not None
    assert found[0] == path
    assert found[1].startswith(path)
    assert says in found[1]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"arms": ["a", "b"]},
        {"arms": ["a", MOST_SEED]},
        {"arms": 10_000},
        {"seed": None},
        {"seed": 0},
        {"parameters": {"kappa": 1, "base": "exp3"}},
        {"missing": "wait"},
        {"missing": {"deadline": 0.001, "loss": 0}},
        {"missing": {"deadline": MOST_SECONDS, "loss": 1}},
        {"missing": {"deadline": 5, "loss": 1, "learn": "arrival"}},
        {"missing": {"deadline": 5, "loss": 1, "learn": "deadline"}},
    ],
)
def test_nothing_is_wrong_with_what_fits(changes: dict[str, Any]) -> None:
    assert fault({"name": "a", "arms": 2, **changes}) is None


def test_unknown_and_missing_fields() -> None:
    assert fault({"arms": 2}) == ("name", f"name is missing; {NAME} is needed")
    allowed = "name, arms, learner, parameters, seed, missing, share_floor, outcome, reports, limits"
    assert fault({"name": "a", "arms": 2, "x": 1}) == ("x", f"unknown field 'x'; allowed is {allowed}")
    inner = {"name": "a", "arms": 2, "missing": {"deadline": 5, "loss": 1, "x": 1}}
    assert fault(inner) == ("missing.x", "unknown field 'x'; allowed is deadline, loss, learn")
    assert fault([]) == ("", f"the body is []; an object with {allowed} is needed")


def test_one_or_many() -> None:
    """Of a body that may be an object or a list of them, the fault is that of its own kind."""
    kind = OutcomeReport | list[OutcomeReport]
    good: dict[str, Any] = {"decision": "a", "loss": 0.5}
    assert fault([good, {**good, "loss": -0.1}], kind) == (
        "[1].loss",
        f"[1].loss is -0.1; {UNITS}",
    )
    assert fault({**good, "loss": 1.1}, kind) == ("loss", f"loss is 1.1; {UNITS}")
    assert fault([good, {"loss": 0.5}], kind) is not None
    assert fault("x", kind) == (
        "",
        "the body is 'x'; an object with decision, loss, reward, value, report, final or a list is needed",
    )
    assert fault(good, kind) is None
    assert fault([good, good], kind) is None


def test_ids() -> None:
    for id in ("a b", "", "ä", "a" * 129, "a\n"):
        found = fault({"id": id}, DecisionRequest)
        assert found is not None
        assert "an id of 1 to 128 visible ASCII characters without spaces is needed" in found[1]
    for id in ("!", "~", "a" * 128):
        assert fault({"id": id}, DecisionRequest) is None


def test_what_is_no_json_has_no_field() -> None:
    assert find_fault(b"{", NewExperiment) is None
    assert find_fault(b"\xff", NewExperiment) is None
    assert find_fault(b"[" * 100_000, NewExperiment) is None
