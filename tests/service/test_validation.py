"""What is found wrong with a body that does not fit: which field, what stands there, what its bounds are."""

import json
from typing import Any

import pytest

from belated.api.types import MOST_SECONDS, MOST_SEED, DecisionRequest, NewExperiment, OutcomeReport
from belated.service.validation import Fault, find_fault

LONG = 10_001
SEED = f"{MOST_SEED:,}"


def fault(value: Any, kind: Any = NewExperiment) -> Fault | None:
    return find_fault(json.dumps(value).encode(), kind)


def check(found: Fault | None, path: str, *named: object) -> None:
    """Check that a fault is at this path, and that its message names these values."""
    assert found is not None
    assert found.field == path
    assert [each for each in named if str(each) not in found.message] == [], found.message


@pytest.mark.parametrize(
    ("field", "value", "path", "named"),
    [
        ("arms", 1, "arms", ["arms is 1;", "2", "10,000"]),
        ("arms", LONG, "arms", [LONG, "2", "10,000"]),
        ("arms", True, "arms", ["true", "2", "10,000"]),
        ("arms", 2.5, "arms", [2.5, "10,000"]),
        ("arms", "ab", "arms", ["'ab'", "2", "10,000"]),
        ("arms", ["a"], "arms", ["['a']", "2", "10,000"]),
        ("arms", ["a", ""], "arms[1]", ["''", "1", "200"]),
        ("arms", ["a", True], "arms[1]", ["true", "200", f"-{SEED}"]),
        ("arms", [1.5, "a"], "arms[0]", [1.5, "200", f"-{SEED}"]),
        ("arms", ["a", -MOST_SEED - 1], "arms[1]", [-MOST_SEED - 1, f"-{SEED}"]),
        ("name", "a b", "name", ["'a b'"]),
        ("name", "-a", "name", ["'-a'"]),
        ("name", "a\n", "name", ["'a\\n'"]),
        ("name", "", "name", ["''", "1", "100"]),
        ("name", 5, "name", [5]),
        ("seed", -1, "seed", [-1, "0", SEED]),
        ("seed", True, "seed", ["true", "0", SEED]),
        ("missing", "never", "missing", ["'never'", '"wait"', "deadline", "loss", "learn"]),
        ("missing", {"deadline": 0, "loss": 1}, "missing.deadline", ["0", "316,224,000"]),
        ("missing", {"deadline": MOST_SECONDS + 1, "loss": 1}, "missing.deadline", [MOST_SECONDS + 1, "316,224,000"]),
        ("missing", {"deadline": 5}, "missing.loss", ["0", "1"]),
        ("missing", {"deadline": 5, "loss": 1.5}, "missing.loss", [1.5, "0", "1"]),
        ("missing", {"deadline": 5, "loss": True}, "missing.loss", ["true"]),
        (
            "missing",
            {"deadline": 5, "loss": 1, "learn": "later"},
            "missing.learn",
            ["'later'", '"arrival"', '"deadline"'],
        ),
        ("parameters", {"kappa": [1]}, "parameters.kappa", ["[1]"]),
        ("parameters", 5, "parameters", [5]),
    ],
)
def test_the_field_that_is_wrong_is_named(field: str, value: Any, path: str, named: list[object]) -> None:
    found = fault({"name": "a", "arms": 2, field: value})
    check(found, path, path, *named)


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
    allowed = "name, arms, learner, parameters, seed, missing, share_floor, outcome, reports, limits"
    check(fault({"arms": 2}), "name", "name")
    check(fault({"name": "a", "arms": 2, "x": 1}), "x", "'x'", allowed)
    inner = {"name": "a", "arms": 2, "missing": {"deadline": 5, "loss": 1, "x": 1}}
    check(fault(inner), "missing.x", "'x'", "deadline, loss, learn")
    check(fault([]), "", "[]", allowed)


def test_one_or_many() -> None:
    """Of a body that may be an object or a list of them, the fault is that of its own kind."""
    kind = OutcomeReport | list[OutcomeReport]
    good: dict[str, Any] = {"decision": "a", "loss": 0.5}
    check(fault([good, {**good, "loss": -0.1}], kind), "[1].loss", "[1].loss", -0.1)
    check(fault({**good, "loss": 1.1}, kind), "loss", "loss", 1.1)
    check(fault([good, {"loss": 0.5}], kind), "[1].decision")
    check(fault("x", kind), "", "'x'", "decision, loss, reward, value, report, final")
    assert fault(good, kind) is None
    assert fault([good, good], kind) is None


def test_ids() -> None:
    for id in ("a b", "", "ä", "a" * 129, "a\n"):
        check(fault({"id": id}, DecisionRequest), "id", "1", "128")
    for id in ("!", "~", "a" * 128):
        assert fault({"id": id}, DecisionRequest) is None


def test_what_is_no_json_has_no_field() -> None:
    assert find_fault(b"{", NewExperiment) is None
    assert find_fault(b"\xff", NewExperiment) is None
    assert find_fault(b"[" * 100_000, NewExperiment) is None
