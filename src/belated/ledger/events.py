"""What a ledger holds: events, and the settings of the experiment that they belong to."""

from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import msgspec

from belated.api.types import Deadline

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
    """The deadline of a decision passed, and its outcome was held until then: the learner heard of it."""


class Fate(IntEnum):
    """What became of a loss."""

    USED = 1
    SKIPPED = 2
    """The learner had given up on the decision."""
    LATE = 3
    """The deadline had passed and the default loss was taken."""
    HELD = 4
    """The learner will hear of it when the deadline passes."""


class Status(IntEnum):
    """Whether an experiment decides. Outcomes are taken whatever its status."""

    ACTIVE = 1
    PAUSED = 2
    ARCHIVED = 3


class Event(NamedTuple):
    """One row of the ledger. Events of an experiment are numbered from 1 without gaps; `at` never goes back.

    A decision has round, id, arm, propensity, mark and cumulative. An outcome, a default or what was settled has round,
    id, arm, loss, fate and waited, and, where the learner is told of it, the decision's propensity, mark and cumulative
    once more: nothing else need be read to learn from it again. A change of status has none of them: None. Each has the
    key of who asked for it.
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
    key: Any = None
    """The number of the key that asked for it; None where nobody did."""


class ExperimentSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an experiment is; nothing of it ever changes."""

    name: str
    arms: list[str | int]
    learner: str
    parameters: dict[str, float | str]
    seed: int
    missing: Literal["wait"] | Deadline
    share_floor: float | None = None
    """The least probability of every arm, above 0; None for none, so that it is not stored."""

    @property
    def tuning(self) -> dict[str, float | str]:
        """The learner's parameters, with the settings of the run."""
        return self.parameters if self.share_floor is None else {**self.parameters, "share_floor": self.share_floor}

    @property
    def holds(self) -> bool:
        """Whether outcomes are held until their deadlines."""
        return isinstance(self.missing, Deadline) and self.missing.learn == "deadline"


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
