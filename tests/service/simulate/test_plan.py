"""Plans of simulations: what a form may ask for, and what is wrong where it may not."""

import pytest

from belated.service.simulate.plan import MOST_ARMS, MOST_DECISIONS, Arm, Plan, plan_of
from support.refusals import refused

GUESS = {"decisions": "1000", "arms": "blue 4\ngreen 5.5", "a_day": "200", "delay": "1.5", "bad": "alike"}


def test_what_is_guessed() -> None:
    assert plan_of(GUESS) == Plan(1000, 200.0, [Arm("blue", 0.04), Arm("green", 0.055)], 1.5)
    with_deadline = plan_of(GUESS | {"bad": "deadline", "deadline": "14"})
    assert (with_deadline.bad, with_deadline.deadline) == ("deadline", 14.0)
    assert plan_of(GUESS | {"bad": "never", "deadline": "nonsense"}).bad == "never"
    assert plan_of(GUESS | {"decisions": "200,000", "delay": "0"}).decisions == MOST_DECISIONS


def test_lines_of_arms() -> None:
    found = plan_of(GUESS | {"arms": "\n  with pictures, 2 %\n3.5\nred: 0\nall 100%\n"}).arms
    assert found == [Arm("with pictures", 0.02), Arm("arm 2", 0.035), Arm("red", 0.0), Arm("all", 1.0)]


def test_an_experiment() -> None:
    asked = {"source": "experiment", "experiment": " button ", "decisions": "10"}
    assert plan_of(asked | {"arms": "nonsense", "a_day": ""}) == Plan(10, None, experiment="button")
    assert plan_of(asked | {"a_day": "50"}).a_day == 50.0


@pytest.mark.parametrize(
    ("changed", "field", "names"),
    [
        ({"decisions": ""}, "decisions", ["''"]),
        ({"decisions": "1e5"}, "decisions", ["'1e5'"]),
        ({"decisions": "0"}, "decisions", ["0"]),
        ({"decisions": "200001"}, "decisions", ["200,000"]),
        ({"arms": ""}, "arms", ["0", "2 to 20"]),
        ({"arms": "blue 4"}, "arms", ["1 arm"]),
        ({"arms": "1\n" * (MOST_ARMS + 1)}, "arms", ["21"]),
        ({"arms": "blue 4\nblue 5"}, "arms", ["'blue'"]),
        ({"arms": "blue 4\ngreen"}, "arms", ["'green'"]),
        ({"arms": "blue 4\ngreen 101"}, "arms", ["'green 101'"]),
        ({"arms": "blue 4\ngreen -1"}, "arms", ["'green -1'"]),
        ({"arms": "blue 4\ngreen nan"}, "arms", ["'green nan'"]),
        ({"a_day": "0"}, "a_day", ["0"]),
        ({"a_day": "many"}, "a_day", ["'many'"]),
        ({"a_day": "inf"}, "a_day", ["1e+09"]),
        ({"delay": "-1"}, "delay", ["-1"]),
        ({"delay": "nan"}, "delay", ["'nan'", "10000"]),
        ({"delay": "10001"}, "delay", ["10000"]),
        ({"bad": "soon"}, "bad", ["'soon'", "alike, deadline or never"]),
        ({"bad": "deadline", "deadline": "0"}, "deadline", ["0"]),
        ({"source": "experiment"}, "experiment", []),
        ({"source": "experiment", "experiment": "a", "a_day": "-3"}, "a_day", ["-3"]),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, str], field: str, names: list[str]) -> None:
    with refused(field, *names):
        plan_of(GUESS | changed)
