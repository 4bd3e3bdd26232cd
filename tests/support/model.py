"""What one experiment of the service must do, in plain Python: a bandit, a dictionary, and a list of events."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from belated import Bandit, Limits, Receipt
from belated.api.types import Deadline, DecisionResponse, OutcomeReceipt, ShareLimits
from belated.errors import InvalidValue
from belated.ledger import processor
from belated.ledger.changing import AddArm, MoveArm, ReportFallbacks, SetLimits
from belated.ledger.commands import Answer, Change, Command, Decide, Refused, View
from belated.ledger.events import SECOND, Event, ExperimentSettings, Fate, Kind, Status
from belated.ledger.observing import Observe, Report

WORDS = {Status.ACTIVE: Kind.RESUME, Status.PAUSED: Kind.PAUSE, Status.ARCHIVED: Kind.ARCHIVE}
ROUNDING = 1e-9
"""By how much a propensity may miss its limits."""
REFUSED = "refused"


def draw(seed: int, number: int) -> float:
    """The draw of a round: SplitMix64, by hand."""
    whole = (1 << 64) - 1

    def mixed(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & whole
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & whole
        return z ^ (z >> 31)

    return float((mixed((mixed(seed) + number * 0x9E3779B97F4A7C15) & whole) >> 11) * 2.0**-53)


@dataclass
class Made:
    """A decision that was made."""

    answer: DecisionResponse
    arm: int
    at: int
    loss: float | None = None
    fate: Fate | None = None
    """Of the outcome, or of what was settled."""
    defaulted: bool = False
    settled: bool = False
    total: float | None = None
    reports: dict[str, tuple[float, str]] | None = None
    """Report -> value and receipt."""


class Model:
    """A bandit whose arms are their numbers, and all that must be on record."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self.settings = settings
        tuning: dict[str, Any] = dict(settings.tuning)
        self.labels = list(settings.arms)
        self.bandit = Bandit(len(self.labels), settings.learner, seed=settings.seed, outcome=settings.scale, **tuning)
        self.limits = settings.limits
        if self.limits is not None:
            self.bandit.set_limits(self._limits(self.limits))
        self.status = Status.ACTIVE
        self.made: dict[str, Made] = {}
        self.events: list[Event] = []
        self.told: set[str] = set()
        """Ids of fallbacks."""
        self.fallbacks = 0
        self.late_reports = 0
        self.clipped = 0

    def check(self, commands: Sequence[Command], answers: Sequence[Answer], clock: int) -> None:
        """Do what was done in one turn, and see that it was answered as it must be."""
        now = max(clock, self.events[-1].at if self.events else 0)
        self._settle(now)
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(command, Decide):
                self._decide(command, answer, now)
            elif isinstance(command, Observe):
                self._observe(command, answer, now)
            elif isinstance(command, Change):
                self._change(command, answer, now)
            elif isinstance(command, AddArm | MoveArm | SetLimits | ReportFallbacks):
                self._rearrange(command, answer, now)

    def _add(self, kind: Kind, now: int, *rest: Any, **more: Any) -> None:
        self.events.append(Event(len(self.events) + 1, int(kind), now, *rest, **more))

    def _came(self, kind: Kind, made: Made, loss: float | None, fate: Fate, now: int, **more: Any) -> None:
        told = made.answer
        self._add(kind, now, told.round, told.id, made.arm, None, loss, int(fate), now - made.at, **more)

    def _learned(self, made: Made, loss: float) -> Fate:
        return Fate.USED if self.bandit.observe(made.answer.round, loss=loss) is Receipt.USED else Fate.SKIPPED

    # deadlines

    def _settle(self, now: int) -> None:
        due = [made for made in self.made.values() if self._is_due(made, now)]
        for made in due[: processor.DEADLINES]:
            self._take(made, now)

    def _is_due(self, made: Made, now: int) -> bool:
        missing = self.settings.missing
        if not isinstance(missing, Deadline) or made.at + missing.deadline * SECOND > now:
            return False
        if made.settled or made.defaulted:
            return False
        return made.loss is None or made.fate == Fate.HELD

    def _take(self, made: Made, now: int) -> None:
        """Learn what is to be learned at a deadline."""
        assert isinstance(self.settings.missing, Deadline)
        if made.total is not None:
            self._close(made, now)
        elif made.loss is None:
            made.defaulted, loss = True, self.settings.missing.loss
            self._came(Kind.DEFAULT, made, loss, self._learned(made, loss), now)
        else:
            made.settled = True
            self._came(Kind.SETTLED, made, made.loss, self._learned(made, made.loss), now)

    # decisions

    def _decide(self, command: Decide, answer: Answer, now: int) -> None:
        if self.status != Status.ACTIVE and any(id not in self.made for id in command.ids):
            assert isinstance(answer, Refused), answer
            assert answer.code == self.status.name.lower()
            return
        assert isinstance(answer, list), answer
        assert len(answer) == len(command.ids)
        for id, told in zip(command.ids, answer, strict=True):
            assert isinstance(told, DecisionResponse)
            if id is None:
                assert told.id not in self.made
                id = told.id
            if id not in self.made:
                number, arm, propensity = self.bandit.decide(draw=draw(self.settings.seed, self.bandit.rounds + 1))
                assert isinstance(arm, int)
                self.made[id] = Made(DecisionResponse(id, number, self.labels[arm], propensity), arm, now)
                self._add(Kind.DECISION, now, number, id, arm, propensity, detail=self._chances())
                self._check_shares(arm, propensity)
            assert told == self.made[id].answer

    def _chances(self) -> str | None:
        """The probabilities of the arms that are there, in their order; of two arms the propensity says it all."""
        shares, playing = self.bandit.distribution.tolist(), self.bandit.playing
        return msgspec.json.encode([shares[arm] for arm in playing]).decode() if len(playing) > 2 else None

    def _check_shares(self, drawn: int, propensity: float) -> None:
        """Every arm that is present has a share within its limits, and at least its part of the uniform play."""
        shares, present = self.bandit.distribution, self.bandit.playing
        assert propensity == shares[drawn]
        assert abs(shares.sum() - 1.0) < ROUNDING
        uniform = self.settings.share_floor or self.bandit.limits.holdout / len(present)
        for arm, share in enumerate(shares.tolist()):
            if arm not in present:
                assert share == 0.0
                continue
            assert share >= max(self.bandit.limits.floor(arm), uniform) - ROUNDING
            assert share <= self.bandit.limits.ceiling(arm) + ROUNDING

    # outcomes

    def _observe(self, command: Observe, answer: Answer, now: int) -> None:
        assert isinstance(answer, list), answer
        take = self._first if self.settings.reports == "first" else self._report
        expected = []
        for each in command.outcomes:
            made = self.made.get(each.decision)
            word, first = ("unknown", None) if made is None else take(each, made, now)
            expected.append((each.decision, word, first))
        told = [(each.decision, each.receipt, each.first) for each in answer if isinstance(each, OutcomeReceipt)]
        assert [(id, word, first or None) for id, word, first in told] == expected
        refused = [each for each in answer if isinstance(each, OutcomeReceipt) and each.receipt == REFUSED]
        assert all(each.field and each.message for each in refused)

    def _loss(self, value: float) -> float:
        """The loss that a value stands for, by hand."""
        units = self.settings.outcome
        if units is None:
            return 1.0 - min(max(value, 0.0), 1.0)
        share = (min(max(value, units.lowest), units.highest) - units.lowest) / (units.highest - units.lowest)
        return 1.0 - share if units.better == "higher" else share

    def _is_within(self, value: float) -> bool:
        units = self.settings.outcome
        return units is None or units.lowest <= value <= units.highest

    def _is_refused(self, value: float) -> bool:
        units = self.settings.outcome
        return units is not None and units.beyond == "refuse" and not self._is_within(value)

    def _first(self, report: Report, made: Made, now: int) -> tuple[str, str | None]:
        """What stays is the first report."""
        value, loss = report.value, report.loss
        if report.final is not None or (value is not None and self.settings.outcome is None):
            return REFUSED, None
        if value is not None:
            if self._is_refused(value):
                return REFUSED, None
            loss = self._loss(value)
        assert loss is not None
        if made.loss is not None:
            return ("repeated", _word(made.fate)) if made.loss == loss else ("conflict", None)
        if self._is_due(made, now):  # more are due than one turn takes care of
            self._take(made, now)
        made.loss = loss
        if made.defaulted:
            made.fate = Fate.LATE
        else:
            self.clipped += value is not None and not self._is_within(value)
            holds = isinstance(self.settings.missing, Deadline) and self.settings.missing.learn == "deadline"
            made.fate = Fate.HELD if holds else self._learned(made, loss)
        self._came(Kind.OUTCOME, made, loss, made.fate, now, value=value, report=report.id)
        return _word(made.fate), None

    def _report(self, report: Report, made: Made, now: int) -> tuple[str, str | None]:
        """What counts is the last, the sum or the largest of all until it is settled."""
        rule, units = self.settings.reports, self.settings.outcome
        value = report.value
        if value is None and report.loss is None:
            return self._final(made, now)
        if value is not None and units is None:
            return REFUSED, None
        if value is None and rule == "sum" and units is not None:
            return REFUSED, None
        if rule == "sum" and report.id is None:
            return REFUSED, None
        if value is None:
            assert report.loss is not None
            low, high = (0.0, 1.0) if units is None else (units.lowest, units.highest)
            is_higher = units is None or units.better == "higher"
            value = low + (1.0 - report.loss if is_higher else report.loss) * (high - low)
        made.reports = {} if made.reports is None else made.reports
        if report.id in made.reports:
            before, receipt = made.reports[report.id]
            if before != value:
                return "conflict", None
            return self._final(made, now) if report.final else ("repeated", receipt)
        if self._is_due(made, now):
            self._take(made, now)
        if made.settled or made.defaulted:
            fate = Fate.LATE
            self.late_reports += 1
        else:
            together = {"sum": sum, "last": lambda both: both[-1], "largest": max}[rule]
            total = value if made.total is None else together([made.total, value])  # type: ignore[operator]
            if self._is_refused(total):
                return REFUSED, None
            fate = Fate.HELD if made.total is None else Fate.JOINED
            made.total = total
        self._came(Kind.REPORT, made, None, fate, now, value=value, total=made.total, report=report.id)
        receipt = "skipped" if fate == Fate.LATE else "held"
        if report.id is not None:
            made.reports[report.id] = value, receipt
        if report.final and fate != Fate.LATE:
            return self._final(made, now)
        return receipt, None

    def _final(self, made: Made, now: int) -> tuple[str, str | None]:
        if made.settled or made.defaulted:
            return "repeated", _word(made.fate)
        if made.total is None:
            return REFUSED, None
        self._close(made, now)
        return _word(made.fate), None

    def _close(self, made: Made, now: int) -> None:
        assert made.total is not None
        loss = self._loss(made.total)
        self.clipped += not self._is_within(made.total)
        made.settled, made.fate = True, self._learned(made, loss)
        self._came(Kind.SETTLED, made, loss, made.fate, now, total=made.total)

    # changes

    def _change(self, command: Change, answer: Answer, now: int) -> None:
        if self.status == Status.ARCHIVED != command.status:
            assert isinstance(answer, Refused), answer
            assert answer.code == "archived"
            return
        assert isinstance(answer, View), answer
        assert answer.status == command.status
        if self.status != command.status:
            self.status = command.status
            self._add(WORDS[command.status], now)

    def _rearrange(self, command: AddArm | MoveArm | SetLimits | ReportFallbacks, answer: Answer, now: int) -> None:
        before = len(self.events)
        if self.status == Status.ARCHIVED:
            code: str | None = "archived"
        else:
            try:
                code = self._rearranged(command, now)
            except InvalidValue:
                code = "invalid"
        if code is None and isinstance(command, ReportFallbacks):
            assert answer is (len(self.events) > before)
        elif code is None:
            assert isinstance(answer, View), answer
        else:
            assert isinstance(answer, Refused), answer
            assert (answer.code, len(self.events)) == (code, before)

    def _rearranged(self, command: AddArm | MoveArm | SetLimits | ReportFallbacks, now: int) -> str | None:
        """Do it; the code of a refusal, None where there is none."""
        rounds = self.bandit.rounds
        if isinstance(command, SetLimits):
            if command.limits != (self.limits or ShareLimits()):
                self.bandit.set_limits(self._limits(command.limits))
                self.limits = command.limits if command.limits != ShareLimits() else None
                self._add(Kind.LIMITS, now, rounds, detail=msgspec.json.encode(command.limits).decode())
            return None
        texts = [str(label) for label in self.labels]
        arm = texts.index(str(command.arm)) if str(command.arm) in texts else None
        if isinstance(command, AddArm):
            if arm is None:
                self.bandit.add_arm(len(self.labels))
                self.labels.append(command.arm)
                detail = json.dumps(command.arm, ensure_ascii=False)
                self._add(Kind.ADD_ARM, now, rounds, arm=len(self.labels) - 1, detail=detail)
                return None
            if self.labels[arm] != command.arm:
                return "invalid"
            return None if arm in self.bandit.playing else "retired"
        if arm is None:
            return "unknown_arm"
        if isinstance(command, MoveArm):
            if (arm in self.bandit.playing) == command.retire:
                (self.bandit.retire_arm if command.retire else self.bandit.restore_arm)(arm)
                self._add(Kind.RETIRE_ARM if command.retire else Kind.RESTORE_ARM, now, rounds, arm=arm)
            return None
        if command.id not in self.told:
            self.told.add(command.id)
            self.fallbacks += command.count
            self._add(Kind.FALLBACKS, now, rounds, command.id, arm, detail=str(command.count))
        return None

    def _limits(self, limits: ShareLimits) -> Limits:
        """The same limits, of numbers."""
        if any(each.arm not in self.labels for each in limits.arms):
            raise InvalidValue("there is no such arm")
        if len({each.arm for each in limits.arms}) < len(limits.arms):
            raise InvalidValue("twice")
        return Limits({self.labels.index(each.arm): each.range for each in limits.arms}, limits.holdout)


def _word(fate: Fate | None) -> str:
    return {Fate.USED: "used", Fate.HELD: "held"}.get(fate or Fate.LATE, "skipped")
