"""What a simulation is asked to do, as a form says it."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from belated.errors import InvalidValue, check_count
from belated.templates.display import counted

MOST_DECISIONS = 200_000
MOST_ARMS = 20
RUNS = 20
"""Work is bounded: so many decisions of so many arms, played so often by each learner."""
LEARNERS = ("guarded", "thompson", "ucb", "uniform")
"""The default, what many use, and an even split."""
MOST_DAYS = 10_000.0
MOST_A_DAY = 1e9


class Arm(msgspec.Struct):
    """An arm and the share of its outcomes that are good."""

    label: str
    rate: float


class Plan(msgspec.Struct):
    """Play so many decisions, on arms whose rates are guessed, or on the outcomes of an experiment.

    Guessed are `arms`, `delay` (days that outcomes take on average), `bad` (when bad outcomes are known: like good
    ones, at a deadline, or never) and `deadline` (in days). Otherwise `experiment` names whose outcomes are drawn, with
    their delays.
    """

    decisions: int
    a_day: float | None
    """How many decisions are made in a day; None: as many as in the experiment."""
    arms: list[Arm] = []
    delay: float = 0.0
    bad: Literal["alike", "deadline", "never"] = "alike"
    deadline: float = 7.0
    experiment: str = ""
    store: str = ""
    """The ledger that has the experiment."""


def plan_of(given: Mapping[str, str]) -> Plan:
    """Return the plan that a form asks for; `InvalidValue` where it cannot be played."""
    decisions = check_count("decisions", _whole("decisions", given.get("decisions", "")))
    if decisions > MOST_DECISIONS:
        raise InvalidValue(f"decisions is {decisions:,}; at most {MOST_DECISIONS:,} are simulated", "decisions")
    if given.get("source") == "experiment":
        name = given.get("experiment", "").strip()
        if not name:
            raise InvalidValue("the experiment is not named; its name is needed", "experiment")
        a_day = _number("a_day", given["a_day"], 0.0, MOST_A_DAY) if given.get("a_day", "").strip() else None
        return Plan(decisions, a_day, experiment=name)
    bad = given.get("bad", "alike")
    if bad not in ("alike", "deadline", "never"):
        raise InvalidValue(f"bad is {bad!r}; alike, deadline or never is needed", "bad")
    plan = Plan(
        decisions,
        _number("a_day", given.get("a_day", ""), 0.0, MOST_A_DAY),
        _arms(given.get("arms", "")),
        _number("delay", given.get("delay", ""), -math.inf, MOST_DAYS),
        bad,  # type: ignore[arg-type]
    )
    if plan.delay < 0.0:
        raise InvalidValue(f"the delay is {plan.delay:g} days; 0 or more are needed", "delay")
    if bad == "deadline":
        plan.deadline = _number("deadline", given.get("deadline", ""), 0.0, MOST_DAYS)
    return plan


def _arms(text: str) -> list[Arm]:
    """Return the arms of a text that has a label and a rate in percent on each line."""
    arms: list[Arm] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        label, _, rate = line.removesuffix("%").strip().rpartition(" ")
        try:
            percent = float(rate)
        except ValueError:
            percent = math.nan
        if not 0.0 <= percent <= 100.0:
            wanted = "a line such as 'blue 2.5' is needed, with a percentage from 0 to 100"
            raise InvalidValue(f"{line[:100]!r} is not an arm and its rate; {wanted}", "arms")
        arms.append(Arm(label.rstrip(" ,:;\t") or f"arm {len(arms) + 1}", percent / 100.0))
        if arms[-1].label in (arm.label for arm in arms[:-1]):
            raise InvalidValue(f"there are two arms {arms[-1].label!r}; each needs a name of its own", "arms")
    if not 2 <= len(arms) <= MOST_ARMS:
        raise InvalidValue(f"{counted(len(arms), 'arm')} given; 2 to {MOST_ARMS} are needed, one on each line", "arms")
    return arms


WORDS = {"a_day": "the number of decisions a day", "delay": "the delay", "deadline": "the deadline"}
"""Fields, as messages name them."""


def _whole(name: str, text: str) -> int:
    plain = text.strip().replace(",", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 15):
        raise InvalidValue(f"{name} is {text[:100]!r}; a whole number is needed", name)
    return int(plain)


def _number(name: str, text: str, above: float, most: float) -> float:
    try:
        number = float(text.strip().replace(",", ""))
    except ValueError:
        number = math.nan
    if not above < number <= most:
        least = "" if above == -math.inf else f" above {above:g} and"
        raise InvalidValue(f"{WORDS[name]} is {text[:100]!r}; a number{least} up to {most:g} is needed", name)
    return number
