"""What travels between the service and its clients, as types: the OpenAPI document is made from them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from belated.api.most import MOST_AT_ONCE as MOST_AT_ONCE
from belated.errors import InvalidValue

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)"
ID_PATTERN = r"^[!-~]+$(?!\n)"
"""Python takes `$` for the end or a line break at the end; the last part leaves the end only, in JavaScript too."""
MOST_SEED = 2**53 - 1
MOST_SECONDS = 10 * 366 * 86400

# `description` is for the API's documentation; `needs` is what an error says is needed, where a type does not say it.
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=NAME_PATTERN,
        description="letters, digits, dot, dash, underscore",
        extra={"needs": "a name of 1 to 100 letters, digits, dots, dashes and underscores, a letter or digit first,"},
    ),
]
Id = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=ID_PATTERN,
        description="visible ASCII characters without spaces",
        extra={"needs": "an id of 1 to 128 visible ASCII characters without spaces"},
    ),
]
Label = Annotated[str, Meta(min_length=1, max_length=200)] | Annotated[int, Meta(ge=-MOST_SEED, le=MOST_SEED)]
Share = Annotated[float, Meta(ge=0, le=1)]
FirstReceipt = Literal["used", "skipped", "held"]
"""What a decision's first report can be answered with."""
ReceiptName = FirstReceipt | Literal["repeated", "conflict", "unknown", "refused"]
StatusName = Literal["active", "paused", "archived"]
Reports = Literal["first", "last", "sum", "largest"]
"""What counts of several reports of one decision."""
Number = Annotated[float, Meta(ge=-1e300, le=1e300, extra={"needs": "a number"})]


class Deadline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A default loss, used when no outcome arrives within the deadline."""

    deadline: Annotated[float, Meta(gt=0, le=MOST_SECONDS, description="seconds after the decision")]
    loss: Share
    learn: Annotated[
        Literal["arrival", "deadline"],
        Meta(description="when to learn from an outcome: when it is reported, or when the decision's deadline passes"),
    ] = "arrival"


class OutcomeScale(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The range of outcomes in units of your own: revenue, minutes, errors."""

    lowest: Number
    highest: Number
    better: Annotated[Literal["higher", "lower"], Meta(description="which end of the range is the better one")] = (
        "higher"
    )
    beyond: Annotated[
        Literal["clip", "refuse"],
        Meta(description="what becomes of a value beyond the range: counted as its end, or refused"),
    ] = "clip"


class ArmLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The limits of one arm's share: a floor, a ceiling, or both; or a fixed share, for a control."""

    arm: Label
    floor: Share | None = None
    ceiling: Share | None = None
    share: Share | None = None

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest share."""
        if self.share is not None:
            if self.floor is not None or self.ceiling is not None:
                raise InvalidValue(
                    f"arm {self.arm!r} has a share and a floor or a ceiling; a fixed share needs neither", "shares"
                )
            return self.share, self.share
        return (
            0.0 if self.floor is None else self.floor,
            1.0 if self.ceiling is None else self.ceiling,
        )


class ShareLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much of the traffic arms may have, whatever the learner makes of them."""

    arms: Annotated[list[ArmLimit], Meta(max_length=10_000)] = []
    holdout: Annotated[
        float, Meta(ge=0, le=1, description="the share of decisions that play all arms uniformly, to measure them")
    ] = 0.0


class NewExperiment(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of a new experiment. Arms and limits can be changed later, the others cannot."""

    name: Name
    arms: (
        Annotated[
            list[Label],
            Meta(
                min_length=2,
                max_length=10_000,
                description="labels, all different",
                extra={"needs": "a list of 2 to 10,000 labels"},
            ),
        ]
        | Annotated[
            int,
            Meta(
                ge=2,
                le=10_000,
                description="a number of arms, labelled 0, 1, 2, …",
                extra={"needs": "a number of arms from 2 to 10,000"},
            ),
        ]
    )
    learner: Annotated[
        str, Meta(min_length=1, max_length=200, description="a learner that `belated learners` lists")
    ] = "guarded"
    parameters: dict[str, float | str] = {}
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] | None = None
    missing: Annotated[
        Literal["wait"] | Deadline,
        Meta(description="what a missing outcome means: `wait` as long as the learner waits, or use a default loss"),
    ] = "wait"
    share_floor: Annotated[
        float, Meta(ge=0, le=1, description="the least probability of every arm, at most 1 / the number of arms")
    ] = 0.0
    outcome: Annotated[
        OutcomeScale | None, Meta(description="the range of outcomes that are reported as values in your own units")
    ] = None
    reports: Annotated[
        Reports,
        Meta(
            description="what counts of several reports of one decision: the first, which stays; or the last, the sum"
            " or the largest of all until the deadline, or until one is final"
        ),
    ] = "first"
    limits: Annotated[ShareLimits | None, Meta(description="limits of the shares of arms")] = None


class NewArm(msgspec.Struct, forbid_unknown_fields=True):
    """An arm to be added."""

    arm: Label


class Fallbacks(msgspec.Struct, forbid_unknown_fields=True):
    """Decisions that somebody made without the service while it was away: so often this arm was shown. The same id is
    counted once.
    """

    id: Id
    arm: Label
    count: Annotated[int, Meta(ge=1, le=10**12)]


class FallbackReceipt(msgspec.Struct):
    """What happened to a report of fallbacks: they were counted, or had been under this id before."""

    id: str
    receipt: Literal["counted", "repeated"]


class DecisionRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request for a decision. The same id returns the same decision."""

    id: Id | None = None


class DecisionResponse(msgspec.Struct):
    """A decision: play this arm, and report the outcome under this id."""

    id: str
    round: int
    arm: str | int
    propensity: float


_OF_UNITS = {"needs": "a number from 0 to 1, or `value` in an experiment that was created with units (`outcome`),"}
OutcomeShare = Annotated[float, Meta(ge=0, le=1, extra=_OF_UNITS)]


class OutcomeReport(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of a decision: a loss from 0 to 1, a reward = 1 - loss, or a value in the experiment's own units."""

    decision: Id
    loss: OutcomeShare | None = None
    reward: OutcomeShare | None = None
    value: Annotated[Number | None, Meta(description="in the units of the experiment's `outcome`")] = None
    report: Annotated[
        Id | None,
        Meta(description="an id of this report, under which it counts once; needed where reports are summed up"),
    ] = None
    final: Annotated[
        bool | None, Meta(description="whether no more reports will come, where several of a decision count")
    ] = None

    @property
    def as_loss(self) -> float | None:
        """The loss, whichever was given, never -0.0; None where a value is given, or nothing but that it is final."""
        if self.value is not None:
            if self.loss is not None or self.reward is not None:
                raise InvalidValue("one of loss, reward and value is needed, not two of them", "value")
            return None
        if self.loss is None and self.reward is None:
            if self.final:
                return None
            raise InvalidValue("neither loss nor reward is given; one of loss, reward and value is needed", "loss")
        if self.loss is not None and self.reward is not None:
            raise InvalidValue("one of loss and reward is needed, not both", "loss")
        return (self.loss if self.loss is not None else 1.0 - (self.reward or 0.0)) + 0.0


class OutcomeReceipt(msgspec.Struct, omit_defaults=True):
    """What happened to an outcome.

    used: the learner learned from it. skipped: it is kept in the ledger, but came after the learner's patience or the
    deadline, or of an arm that has left. held: it is kept, and the learner hears of it when the deadline passes, or the
    last report is there. repeated: it was reported before; `first` is the receipt of the first report. conflict:
    another outcome was reported before, and the first one counts. unknown: there is no such decision. refused: this
    experiment takes no such report; nothing was recorded of it.
    """

    decision: str
    receipt: ReceiptName
    first: FirstReceipt | UnsetType = UNSET
    message: str | UnsetType = UNSET
    field: Annotated[str | UnsetType, Meta(description="what is refused")] = UNSET


class ArmState(msgspec.Struct):
    """One arm of an experiment."""

    arm: str | int
    probability: float
    decisions: int
    outcomes: int
    mean_loss: float | None
    present: Annotated[bool, Meta(description="whether it takes part; false after it was retired")] = True
    mean_value: Annotated[float | None, Meta(description="the mean outcome in the experiment's own units")] = None
    entered: Annotated[int, Meta(description="the number of decisions before it came, the last time that it did")] = 0


class Quantiles(msgspec.Struct):
    """Quantiles of the delays of the outcomes so far; null before the first outcome."""

    p50: float | None
    p90: float | None
    p99: float | None


class DelayQuantiles(msgspec.Struct):
    """How long outcomes took, in rounds and in seconds."""

    rounds: Quantiles
    seconds: Quantiles


class OutcomeCounts(msgspec.Struct):
    """Counts of outcomes: used, skipped, defaults for missing ones, held until their deadlines pass; values that were
    clipped to the range.
    """

    used: int
    skipped: int
    defaults: int
    held: int = 0
    clipped: int = 0


class Experiment(msgspec.Struct):
    """An experiment and its state."""

    name: str
    status: StatusName
    created: str
    learner: str
    parameters: dict[str, float | str]
    seed: int
    missing: Literal["wait"] | Deadline
    rounds: int
    outstanding: int
    skipped: int
    patience: float | None
    """In rounds; None where the learner never gives up."""
    drift: float
    delay_cost: Annotated[
        float | None,
        Meta(description="an estimate of the loss that delay has cost so far; null where propensities do not tell"),
    ]
    warnings: Annotated[list[str], Meta(description="why the learner cannot be right; empty if all looks well")]
    outcomes: OutcomeCounts
    delays: DelayQuantiles
    arms: list[ArmState]
    events: int
    share_floor: float = 0.0
    outcome: OutcomeScale | None = None
    reports: Reports = "first"
    limits: Annotated[ShareLimits | None, Meta(description="of the shares of arms, as they are now")] = None
    fallbacks: Annotated[int, Meta(description="decisions made without the service, as far as it was told")] = 0
    digest: str | UnsetType = UNSET


class ArmTimeline(msgspec.Struct):
    """What an arm did in each stretch of time; `arm` is null for all arms beyond the first 24 together."""

    arm: str | int | None
    decisions: list[int]
    outcomes: list[int]
    losses: Annotated[list[float], Meta(description="the sum of the losses of these outcomes")]
    defaults: Annotated[int, Meta(description="decisions without an outcome at their deadline, in all")] = 0


class DelayCounts(msgspec.Struct):
    """How long the outcomes of an arm took: counts up to each bound, and beyond the last."""

    arm: str | int | None
    good: Annotated[bool, Meta(description="outcomes with a loss below 1/2, or the others")]
    counts: list[int]


class LastDay(msgspec.Struct):
    """Decisions and outcomes in half hours, up to the last one in which there was any; at most the 49 newest."""

    begin: Annotated[float, Meta(description="when the first half hour begins, in seconds since 1970")]
    seconds: Annotated[float, Meta(description="the length of a half hour")]
    decisions: list[int]
    outcomes: list[int]


class ExperimentTimeline(msgspec.Struct):
    """What an experiment did over time, in at most 240 stretches of equal length."""

    name: str
    begin: Annotated[float, Meta(description="when the first stretch begins, in seconds since 1970")]
    seconds: Annotated[float, Meta(description="the length of a stretch")]
    arms: list[ArmTimeline]
    outstanding: Annotated[list[int], Meta(description="decisions waited for at the end of each stretch")]
    delay_bounds: Annotated[list[float], Meta(description="in seconds")]
    delays: list[DelayCounts]
    last_decision: Annotated[float | None, Meta(description="in seconds since 1970; null where there is none")]
    last_day: LastDay


class Summary(msgspec.Struct):
    """An experiment in a list."""

    name: str
    status: StatusName
    created: str
    learner: str
    arms: int
    rounds: int
    events: int


class Experiments(msgspec.Struct):
    """The list of experiments."""

    experiments: list[Summary]


class LedgerEvent(msgspec.Struct):
    """One line of the ledger: a decision, an outcome or one report of several, what was learned at a deadline, or a
    change of status, arms or limits.
    """

    number: int
    kind: Literal[
        "decision",
        "outcome",
        "default",
        "settled",
        "report",
        "pause",
        "resume",
        "archive",
        "add_arm",
        "retire_arm",
        "restore_arm",
        "limits",
        "fallbacks",
    ]
    at: str
    round: int | None
    decision: str | None
    arm: str | int | None
    propensity: float | None
    loss: float | None
    receipt: FirstReceipt | None
    waited: float | None
    key: Annotated[str | None, Meta(description="the id of the key that asked for it; null where nobody did")] = None
    value: Annotated[float | None, Meta(description="the outcome in the experiment's own units, as reported")] = None
    total: Annotated[float | None, Meta(description="what the reports of the decision amount to so far")] = None
    report: Annotated[str | None, Meta(description="the id of the report")] = None
    detail: Annotated[
        str | None,
        Meta(description="new limits, how many fallbacks, or the probability of each of three arms or more, as JSON"),
    ] = None


class Range(msgspec.Struct):
    """A number and the ends of its interval; the number is null where nothing is known."""

    value: float | None
    low: float
    high: float


class ArmMean(msgspec.Struct):
    """An arm: how often it was chosen, how many outcomes are used, and its mean reward (reward = 1 - loss), or its mean
    outcome in the experiment's own units.
    """

    arm: str | int
    decisions: int
    outcomes: int
    mean: Range


class ArmDifference(msgspec.Struct):
    """By how much the mean reward of an arm is above that of another."""

    arm: str | int
    other: str | int
    difference: Range


class NamedArm(msgspec.Struct):
    """An arm that was shown to be better than every other, and after how many decisions."""

    arm: str | int
    decisions: int


class DecisionRange(msgspec.Struct):
    """From how many more decisions to how many it takes until an arm wins, 20 to 80 % of what may be; the high end is
    null where it is beyond sight.
    """

    low: int
    high: int | None


class DayRange(msgspec.Struct):
    """The same in days at the present pace."""

    low: float
    high: float | None


class LevelMovement(msgspec.Struct):
    """How the level of outcomes moved, whatever the shares of arms did: the mean in stretches of equal length."""

    length: Annotated[int, Meta(description="settled decisions in a stretch")]
    levels: list[float | None]


class ExperimentEstimates(msgspec.Struct):
    """What is known of the arms. Each kind of statement holds with probability 1 - alpha, at all times at once: the
    intervals of all arms together, all differences together, the winner, each uplift.
    """

    name: str
    method: str
    outcomes: Annotated[str, Meta(description="which outcomes are used")]
    alpha: float
    decisions: int
    used: Annotated[int, Meta(description="decisions that are taken into account")]
    waiting: Annotated[int, Meta(description="decisions without an outcome")]
    verdict: Annotated[str, Meta(description="which arm wins and how sure that is, in a sentence")]
    leader: str | int | None
    rival: Annotated[str | int | None, Meta(description="the arm of which it is least sure that the leader is better")]
    winner: str | int | None
    p_value: Annotated[float, Meta(description="the least alpha at which the leader would win now")]
    candidates: Annotated[list[str | int], Meta(description="the arms that are not ruled out as the best")]
    average: Annotated[
        Literal["plain", "open", "same"],
        Meta(
            description="what comparisons are of: plain averages over the decisions so far, averages that count each by"
            " how open the choice was, or means that stay the same"
        ),
    ]
    progress: Annotated[float | None, Meta(description="the evidence for the leader as a share of what is needed")]
    named: Annotated[NamedArm | None, Meta(description="an arm that was shown to be the best when it was named")]
    more: Annotated[DecisionRange | None, Meta(description="how many more decisions it takes; null: no telling")]
    days: Annotated[DayRange | None, Meta(description="how many days that is; null where the pace is not known")]
    movement: Annotated[LevelMovement | None, Meta(description="how the level moved, if more than chance explains")]
    arms: list[ArmMean]
    control: str | int | None
    differences: list[ArmDifference]
    uplift: Annotated[Range | None, Meta(description="reward a decision brought beyond that of uniform play")]
    uplift_to_control: Range | None
    assumptions: list[str]
    notes: list[str]


class Health(msgspec.Struct):
    """Whether the service works."""

    status: Literal["ok", "unavailable"]
    version: str
    reason: str | None = None
    """Why it does not work."""
    warnings: list[str] = []
    """What is not well, but lets it work."""


class Problem(msgspec.Struct):
    """An error: a code for programs, a message for people, and the field that is wrong, if any."""

    code: str
    message: str
    field: str | None = None


def shown(value: Any) -> str:
    """Return a value as an error message names it, cut if it is long."""
    try:
        text = msgspec.json.encode(value).decode() if isinstance(value, bool | None) else repr(value)
    except (ValueError, RecursionError):  # Python does not write out numbers of thousands of digits
        text = f"a number of {value.bit_length():,} bits" if isinstance(value, int) else "too much to show"
    return text if len(text) <= 80 else text[:77] + "..."
