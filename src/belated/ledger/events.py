"""What a ledger holds: events, and the settings of the experiment that they belong to."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import msgspec

from belated.api.types import Deadline, OutcomeScale, Reports, ShareLimits
from belated.logs.scale import Scale

SECOND = 1_000_000
"""Times are whole microseconds since 1970."""


def when(at: int) -> str:
    """Return a time as people and programs read it: UTC, to the microsecond."""
    return datetime.fromtimestamp(at // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{at % SECOND:06d}Z"


class Kind(IntEnum):
    """What happened."""

    DECISION = 1
    OUTCOME = 2
    DEFAULT = 3
    """The deadline of a decision passed without an outcome: the default loss was taken for it."""
    PAUSE = 4
    RESUME = 5
    ARCHIVE = 6
    SETTLED = 7
    """What was held of a decision counts from now on, as its deadline passed or all was reported: the learner heard of
    it.
    """
    REPORT = 8
    """One of several reports of a decision."""
    ADD_ARM = 9
    RETIRE_ARM = 10
    RESTORE_ARM = 11
    LIMITS = 12
    FALLBACKS = 13
    """Decisions that were made without the service."""


class Fate(IntEnum):
    """What became of a loss."""

    USED = 1
    SKIPPED = 2
    """The learner had given up on the decision."""
    LATE = 3
    """The deadline had passed and the default loss was taken."""
    HELD = 4
    """The learner will hear of it when the deadline passes, or all is reported."""
    JOINED = 5
    """It was put together with earlier reports of the decision, which are held."""


class Hears(IntEnum):
    """When a learner hears of an outcome."""

    ARRIVAL = 0
    """When it is reported."""
    DEADLINE = 1
    """When the deadline of its decision passes."""
    REPORTS = 2
    """When the deadline passes, or all is reported; of what several reports amount to."""


class Status(IntEnum):
    """Whether an experiment decides. Outcomes are taken whatever its status."""

    ACTIVE = 1
    PAUSED = 2
    ARCHIVED = 3


class Event(NamedTuple):
    """One row of the ledger. Events of an experiment are numbered from 1 without gaps; `at` never goes back.

    A decision has round, id, arm, propensity, mark and cumulative, and, where three or more arms are there, their
    probabilities as its detail. An outcome, a default or what was settled has round,
    id, arm, loss, fate and waited, and, where the learner is told of it, the decision's propensity, mark and cumulative
    once more: nothing else need be read to learn from it again. A report has round, id, arm, value, total, fate, waited
    and its own id. A change of arms has the arm and the number of rounds before it; a new arm, limits and fallbacks
    have a detail, as JSON. Each has the key of who asked for it; what an event has not is None.
    """

    number: int
    kind: int
    at: int
    round: Any = None
    id: Any = None
    """Of the decision: the caller's, or a UUIDv7."""
    arm: Any = None
    """Its place in the list of arms."""
    propensity: Any = None
    loss: Any = None
    fate: Any = None
    waited: Any = None
    """Microseconds from the decision to this event."""
    mark: Any = None
    """What the learner wants back with the outcome; None in events of earlier versions."""
    cumulative: Any = None
    """D_s: the numbers of outstanding decisions with which the rounds so far were opened, summed up."""
    value: Any = None
    """The outcome in the experiment's own units, as reported; None in experiments without units."""
    total: Any = None
    """What the reports of the decision amount to, this one included, before clipping."""
    report: Any = None
    """The id of the report, if it has one."""
    detail: Any = None
    """The label of a new arm, limits, how many fallbacks, or the probabilities of all arms in their order, as JSON."""
    key: Any = None
    """The number of the key that asked for it; None where nobody did."""


class ExperimentSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an experiment is when it is created; nothing of it ever changes. Arms and limits go on by events."""

    name: str
    arms: list[str | int]
    learner: str
    parameters: dict[str, float | str]
    seed: int
    missing: Literal["wait"] | Deadline
    share_floor: float | None = None
    """The least probability of every arm, above 0; None for none, so that it is not stored."""
    outcome: OutcomeScale | None = None
    reports: Reports = "first"
    limits: ShareLimits | None = None

    @property
    def tuning(self) -> dict[str, float | str]:
        """The learner's parameters, with the settings of the run."""
        return self.parameters if self.share_floor is None else {**self.parameters, "share_floor": self.share_floor}

    @property
    def hears(self) -> Hears:
        """When the learner hears of an outcome."""
        if self.reports != "first":
            return Hears.REPORTS
        is_late = isinstance(self.missing, Deadline) and self.missing.learn == "deadline"
        return Hears.DEADLINE if is_late else Hears.ARRIVAL

    @property
    def scale(self) -> Scale | None:
        """The range of outcomes in the user's units."""
        units = self.outcome
        return None if units is None else Scale(units.lowest, units.highest, units.better, units.beyond)


def labels_of(settings: ExperimentSettings, changes: Iterable[Event]) -> list[str | int]:
    """Return the labels of all arms that there have been after some changes."""
    added = [msgspec.json.decode(each.detail, type=str | int) for each in changes if each.kind == Kind.ADD_ARM]
    return [*settings.arms, *added]


class ExperimentRecord(NamedTuple):
    """An experiment as its ledger lists it."""

    number: int
    settings: ExperimentSettings
    status: Status
    created: int
    events: int
    rounds: int


class DecisionRecord(NamedTuple):
    """What the ledger knows of a decision."""

    round: int
    arm: int
    propensity: float
    at: int
    loss: float | None
    """As reported; None before."""
    fate: int
    """Of the loss reported; 0 before."""
    defaulted: bool
    """Whether the default loss was taken for it."""
    mark: float | None = None
    """What the learner wants back with the outcome."""
    cumulative: int | None = None
    total: float | None = None
    """What several reports amount to so far; None before the first."""
    settled: int = 0
    """What became of what several reports amount to, a fate; 0 before that is settled."""


class Reported(NamedTuple):
    """What is on record of one report of several."""

    value: float
    fate: int


class ApiKey(NamedTuple):
    """A key that lets somebody in: its secret is kept as a digest only."""

    id: str
    name: str
    role: str
    digest: bytes
    created: int
    revoked: int | None
    number: int | None = None
    """Given by the ledger; events have it."""
    experiments: tuple[str, ...] | None = None
    """The experiments that it opens; None: all."""
    expires: int | None = None
    used: int | None = None
    """When it was last used, to the minute."""
    rate: float | None = None
    """Requests a second that it may make; None: any number."""


COMINGS = {Kind.ADD_ARM: True, Kind.RETIRE_ARM: False, Kind.RESTORE_ARM: True}
"""Changes of arms, and whether the arm takes part after them."""


def present_after(change: Event, present: Sequence[int]) -> list[int]:
    """Return the arms that are there after a change of arms, in their order."""
    others = [arm for arm in present if arm != change.arm]
    return sorted([*others, change.arm]) if COMINGS[Kind(change.kind)] else others


def distribution_of(
    decision: Event, labels: Sequence[str | int], present: Sequence[int]
) -> dict[str | int, float] | None:
    """Return the probability of each arm at a decision, where they are on record, given the arms that were there."""
    if decision.detail is None:
        return None
    chances = msgspec.json.decode(decision.detail, type=list[float])
    return {labels[arm]: chance for arm, chance in zip(present, chances, strict=True)}
