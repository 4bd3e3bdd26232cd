"""The state of an experiment: what its events amount to.

A worker goes forward in two ways that end in the same state, bit for bit: it makes an event (`decide`, `observe`,
`report`, `default`, `settle`, `change`, `change_arm`, `limit`), or it applies one that was made before, by another
worker or before a restart (`apply`).

The draw of round t is made from the experiment's seed and t, so that the next worker draws what this one would have
drawn. Events carry the arm, the propensity and the learner's mark, which are taken as they are. So the state has no
place for each outstanding decision: its outcome comes with all that is on record of it, and is recorded with it.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from belated.api.types import ShareLimits
from belated.core.kernels import entry
from belated.core.random import DRAW, draw
from belated.core.shares import draw_arm
from belated.errors import InvalidValue, SnapshotError
from belated.inference.bets import MAX_ARMS
from belated.ledger.base import LedgerError
from belated.ledger.delay_histogram import Histogram, Sizes
from belated.ledger.events import DecisionRecord, Event, ExperimentSettings, Fate, Hears, Kind, Status
from belated.ledger.timeline import Timeline
from belated.live.decisions import Receipt
from belated.live.limits import Limits
from belated.live.outstanding import Recorded
from belated.live.recorded import Made, RecordedBandit
from belated.live.roster import Roster
from belated.logs.scale import Scale

_CHECK = 16  # bytes of a snapshot's checksum
STATUS_AFTER = {Kind.PAUSE: Status.PAUSED, Kind.RESUME: Status.ACTIVE, Kind.ARCHIVE: Status.ARCHIVED}
_KINDS = {status: kind for kind, status in STATUS_AFTER.items()}
_FATES = {Receipt.USED: Fate.USED, Receipt.SKIPPED: Fate.SKIPPED}
_RECEIPTS = {fate: receipt for receipt, fate in _FATES.items()}
_REWARDS = Scale(0.0, 1.0)
"""What reports of experiments without units are added up in."""

MIN_DISTRIBUTION = 3
"""Arms from which on a decision keeps the probabilities of all: of two arms its propensity says it all."""

Source = Callable[[int, int, int], Sequence[Recorded]]
"""(after, until, most) -> that many decisions numbered after an event, and whether they were open after another one."""


class ExperimentState:
    """What the events so far amount to. Arms are places in the list of arms; labels are for the edges."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self._set(settings, RecordedBandit(len(settings.arms), settings.learner, **settings.tuning))
        arms = len(settings.arms)
        self.added: list[str | int] = []
        """The labels of arms that came later."""
        self.limits = settings.limits
        """As they are now."""
        if self.limits is not None:
            self._limit(self.limits)
        self.position = 0
        self.at = 0
        self.decisions = [0] * arms
        self.outcomes = [0] * arms
        self.losses = [0.0] * arms
        self.all_losses = 0.0
        self.fates = [0] * (Fate.LATE + 1)  # by fate; an outcome that is held is not counted yet
        self.defaults = 0
        self.late_reports = 0
        """Of several reports of a decision, those that came after it was settled."""
        self.clipped = 0
        """Outcomes beyond the range."""
        self.delay_cost = 0.0
        """The loss that delay has cost, estimated."""
        self.certain = 0
        """Outcomes of decisions whose arm was certain."""
        self.fallbacks = 0
        """Decisions made without the service, as far as it was told."""
        self.delays_rounds = Sizes()
        self.delays_seconds = Sizes()
        self.histogram = Histogram()
        self.timeline = Timeline()

    def _set(self, settings: ExperimentSettings, bandit: RecordedBandit) -> None:
        self.settings = settings
        self.bandit = bandit
        self.propensity_error = 0.0
        """The largest difference between a propensity on record and the one that this process computes."""
        self.other_fates = 0
        """Outcomes of which this process would have made something else than what is on record."""
        self._hears = settings.hears
        self._units = settings.scale
        self._seed = np.uint64(settings.seed)
        self._draw = entry(draw, DRAW)

    def decide(self, id: str, at: int) -> Event:
        """Decide, and the event of it."""
        bandit, place = self.bandit, self.position + 1
        number, arm, propensity, mark, cumulative = bandit.decide(place, draw=self._draw(self._seed, bandit.rounds + 1))
        event = Event(
            place,
            1,
            at,
            number,
            id,
            arm,
            propensity,
            None,
            None,
            None,
            mark,
            cumulative,
            None,
            None,
            None,
            self.chances(),
        )
        self._apply_decision(event)
        return event

    def chances(self) -> str | None:
        """Return the probabilities of all arms at the last decision as JSON: for comparisons of three arms or more."""
        if not MIN_DISTRIBUTION <= self.playing <= MAX_ARMS:
            return None
        return msgspec.json.encode(self.bandit.probabilities).decode()

    @property
    def scale(self) -> Scale:
        """What values are in: the experiment's own units, or rewards from 0 to 1."""
        return self._units or _REWARDS

    def observe(
        self,
        id: str,
        known: DecisionRecord,
        loss: float,
        at: int,
        value: float | None = None,
        report: str | None = None,
    ) -> Event:
        """Take the outcome of a decision that has none yet; the event of it. The value is the outcome in units."""
        fate = Fate.LATE if known.defaulted else self._tell(Kind.OUTCOME, known, loss)
        return self._outcome(Kind.OUTCOME, id, known, loss, fate, at, value, report=report)

    def report(
        self, id: str, known: DecisionRecord, value: float, total: float | None, report: str | None, at: int
    ) -> Event:
        """Take one of several reports of a decision; the event of it. total is what all of them amount to with it."""
        if known.settled or known.defaulted:
            fate, total = Fate.LATE, known.total
        else:
            fate = Fate.HELD if known.total is None else Fate.JOINED
        return self._outcome(Kind.REPORT, id, known, None, fate, at, value, total, report)

    def default(self, id: str, known: DecisionRecord, loss: float, at: int) -> Event:
        """Take the default loss for a decision whose deadline has passed; the event of it."""
        return self._outcome(Kind.DEFAULT, id, known, loss, self._tell(Kind.DEFAULT, known, loss), at)

    def settle(self, id: str, known: DecisionRecord, at: int) -> Event:
        """Let the learner hear of what was held of a decision, as its deadline has passed or all was reported; the
        event of it.
        """
        loss = known.loss if known.total is None else self.scale.loss(known.total).loss
        assert loss is not None
        fate = self._tell(Kind.SETTLED, known, loss)
        return self._outcome(Kind.SETTLED, id, known, loss, fate, at, total=known.total)

    def _tell(self, kind: int, known: DecisionRecord, loss: float) -> Fate:
        """Tell the learner of a loss, unless it is to be held; return what becomes of it."""
        if kind == Kind.OUTCOME and self._hears != Hears.ARRIVAL:
            return Fate.HELD
        receipt = self.bandit.receipt(known.round, known.arm)
        self.bandit.observe(_made(known), loss)
        return _FATES[receipt]

    def _outcome(
        self,
        kind: Kind,
        id: str,
        known: DecisionRecord,
        loss: float | None,
        fate: Fate,
        at: int,
        value: float | None = None,
        total: float | None = None,
        report: str | None = None,
    ) -> Event:
        made = _made(known)[2:] if fate in _RECEIPTS else (None, None, None)  # what it takes to learn from it again
        event = Event(
            self.position + 1,
            int(kind),
            at,
            known.round,
            id,
            known.arm,
            made[0],
            loss,
            int(fate),
            max(0, at - known.at),  # the decision may have been dated ahead
            *made[1:],
            value,
            total,
            report,
        )
        self._apply_outcome(event)
        return event

    def change(self, status: Status, at: int) -> Event:
        """Pause, resume or archive; return the event."""
        event = Event(self.position + 1, int(_KINDS[status]), at)
        self._moved(event)
        return event

    def change_arm(self, kind: Kind, arm: int, at: int, label: str | int | None = None) -> Event:
        """Add, retire or restore an arm; return the event. An error leaves all as it is."""
        detail = None if label is None else msgspec.json.encode(label).decode()
        event = Event(self.position + 1, int(kind), at, self.bandit.rounds, arm=arm, detail=detail)
        self._apply_arm(event)
        return event

    def limit(self, limits: ShareLimits, at: int) -> Event:
        """Limit the shares of arms; return the event. An error leaves all as it is."""
        detail = msgspec.json.encode(limits).decode()
        event = Event(self.position + 1, int(Kind.LIMITS), at, self.bandit.rounds, detail=detail)
        self._limit(limits)
        self._moved(event)
        return event

    def fall_back(self, id: str, arm: int, count: int, at: int) -> Event:
        """Count decisions that were made without the service; return the event."""
        event = Event(self.position + 1, int(Kind.FALLBACKS), at, self.bandit.rounds, id, arm, detail=str(count))
        self._apply_fallbacks(event)
        return event

    def label(self, arm: int) -> str | int:
        """Return the label of an arm."""
        first = len(self.decisions) - len(self.added)
        return self.settings.arms[arm] if arm < first else self.added[arm - first]

    @property
    def labels(self) -> list[str | int]:
        """The labels of all arms that there have been."""
        return [*self.settings.arms, *self.added]

    def place(self, label: str | int) -> int | None:
        """Return the number of an arm, given its label, or a label that is a number as text; None: there is none."""
        labels = self.labels
        if label in labels:
            return labels.index(label)
        return next((k for k, each in enumerate(labels) if str(each) == label), None)

    @property
    def playing(self) -> int:
        """How many arms take part."""
        return len(self.bandit.roster.present)

    def apply(self, event: Event) -> None:
        """Go on by an event that is on record.

        What is on record stays: the arm, the propensity, the mark, and what became of an outcome, whatever this process
        would make of them.
        """
        if event.number != self.position + 1:
            raise LedgerError(f"event {event.number} follows event {self.position} of {self.settings.name!r}")
        if event.kind == Kind.DECISION:
            computed = self.bandit.redo(event.number, _made(event), draw=self._draw(self._seed, event.round))
            if computed != event.propensity:
                self.propensity_error = max(self.propensity_error, abs(computed - event.propensity))
            self._apply_decision(event)
        elif event.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED, Kind.REPORT):
            receipt = _RECEIPTS.get(event.fate)
            if receipt and not self.bandit.observe(_made(event), event.loss, receipt):
                self.other_fates += 1
            self._apply_outcome(event)
        elif event.kind in (Kind.ADD_ARM, Kind.RETIRE_ARM, Kind.RESTORE_ARM):
            self._apply_arm(event)
        elif event.kind == Kind.LIMITS:
            self._limit(msgspec.json.decode(event.detail, type=ShareLimits))
            self._moved(event)
        elif event.kind == Kind.FALLBACKS:
            self._apply_fallbacks(event)
        else:
            self._moved(event)

    def _apply_arm(self, event: Event) -> None:
        roster, kind, arm = self.bandit.roster, event.kind, event.arm
        if event.round != self.bandit.rounds:
            raise LedgerError(f"event {event.number} changes arms after round {event.round}, not {self.bandit.rounds}")
        if (arm == len(self.decisions)) != (kind == Kind.ADD_ARM) or (
            kind != Kind.ADD_ARM and roster.has(arm) != (kind == Kind.RETIRE_ARM)
        ):
            raise LedgerError(f"event {event.number} cannot happen to arm {arm}")
        added: list[str | int] = []
        if kind == Kind.ADD_ARM:
            roster = roster.add(event.round)
            added.append(msgspec.json.decode(event.detail, type=str | int))
        else:
            roster = roster.retire(arm) if kind == Kind.RETIRE_ARM else roster.restore(arm, event.round)
        if self.limits is not None:
            self._check_limits(self.limits, roster, self.labels + added)
        self.bandit.change(roster, self.bandit.limits)
        if added:
            self.added += added
            self.decisions.append(0)
            self.outcomes.append(0)
            self.losses.append(0.0)
        self._moved(event)

    def _limit(self, limits: ShareLimits) -> None:
        places = {label: k for k, label in enumerate(self.labels)} if limits.arms else {}
        for each in limits.arms:
            if each.arm not in places:
                raise InvalidValue(f"there is no arm {each.arm!r} to limit", "shares")
        shares: dict[str | int, float | tuple[float, float]] = {places[each.arm]: each.range for each in limits.arms}
        if len(shares) < len(limits.arms):
            raise InvalidValue("an arm has limits twice; once is needed", "shares")
        self._check_limits(limits, self.bandit.roster, self.labels)
        self.bandit.change(self.bandit.roster, Limits(shares, limits.holdout))
        self.limits = limits if limits.arms or limits.holdout else None

    def _check_limits(self, limits: ShareLimits, roster: Roster, labels: list[str | int]) -> None:
        """Refuse limits that the arms present cannot keep, in words that name them by their labels."""
        named = Limits({each.arm: each.range for each in limits.arms}, limits.holdout)
        named.bounds(roster.labels(labels), self.settings.share_floor or 0.0)

    def _apply_fallbacks(self, event: Event) -> None:
        self.fallbacks += int(event.detail)
        self._moved(event)

    def look_in(self, source: Source) -> None:
        """Look outstanding decisions up here from now on. All that has happened so far is on record there."""
        self.bandit.open.recorded()
        self.bandit.open.find = lambda after, most: source(after, self.position, most)

    def drawn(self) -> int:
        """Return the arm that the draw of the last round falls on, the one on record if the record is sound."""
        bandit = self.bandit
        return int(draw_arm(bandit.distribution, self._draw(self._seed, bandit.rounds)))

    def could_draw(self, arm: int, tolerance: float) -> bool:
        """Return whether the draw of the last round falls on an arm, or closer to it than a tolerance."""
        if self.drawn() == arm:
            return True
        bandit = self.bandit
        upper = float(np.sum(bandit.distribution[: arm + 1]))
        draw = self._draw(self._seed, bandit.rounds)
        return upper - bandit.distribution[arm] - tolerance < draw < upper + tolerance and tolerance > 0

    def digest(self) -> str:
        """Return the state in 32 characters: equal states have equal ones."""
        return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()

    def _apply_decision(self, event: Event) -> None:
        self.position = event.number
        self.at = event.at
        self.decisions[event.arm] += 1
        self.timeline.decided(event.at, event.arm, self.bandit.outstanding)

    def _apply_outcome(self, event: Event) -> None:
        self._moved(event)
        if event.kind == Kind.REPORT:
            self.late_reports += event.fate == Fate.LATE
            if event.fate == Fate.HELD:  # the first of its decision
                self._note_delay(event)
            return
        if event.kind == Kind.OUTCOME:
            self._note_delay(event)
        if self._units is not None and event.fate != Fate.LATE:
            told = event.value if event.kind == Kind.OUTCOME else event.total
            self.clipped += told is not None and self._units.loss(told).clipped
        if event.fate == Fate.HELD:
            return  # nothing has come of it yet
        if event.kind == Kind.DEFAULT:
            self.defaults += 1
            self.timeline.missed(event.arm)
        else:
            self.fates[event.fate] += 1
        if event.fate == Fate.USED:
            self._note_cost(event)
        if event.fate != Fate.LATE:
            self.outcomes[event.arm] += 1
            self.losses[event.arm] += event.loss
            self.all_losses += event.loss
            self.timeline.came(event.at, event.arm, event.loss, self.bandit.outstanding)

    def _note_delay(self, event: Event) -> None:
        self.delays_rounds.add(self.bandit.rounds - event.round)
        self.delays_seconds.add(event.waited)
        self.histogram.add(event.waited)
        loss = event.loss if event.total is None else self.scale.loss(event.total).loss
        self.timeline.waited(event.arm, loss, event.waited)

    def _note_cost(self, event: Event) -> None:
        """Add to the cost of delay: (loss - mean loss) (1 - p_t / p_s), with the probability p_s of the arm at the
        decision and p_t now, as the outcome comes.

        Its mean over the draw of the arm is the sum over arms of (p_s - p_t) loss: what the decision cost more than it
        would have with what is known now. The mean loss of all outcomes before changes nothing of that, and makes it
        less noisy. Arms that have come since do not count in p_t. Where an arm was certain, others had no chance, and
        nothing can be said.
        """
        before = self.fates[Fate.USED] + self.fates[Fate.SKIPPED] + self.defaults - 1
        if event.propensity == 1.0:
            self.certain += 1
        elif before and event.propensity is not None:  # earlier versions did not note it
            lost = event.loss - self.all_losses / before
            self.delay_cost += lost * (1.0 - self.bandit.share(event.arm, event.round) / event.propensity)

    @property
    def skipped_outcomes(self) -> int:
        """Outcomes on record that nothing was learned from."""
        return self.fates[Fate.SKIPPED] + self.fates[Fate.LATE] + self.late_reports

    @property
    def held(self) -> int:
        """Outcomes that the learner has yet to hear of: all that were reported, less those that something came of."""
        return sum(self.histogram.counts) - sum(self.fates)

    def _moved(self, event: Event) -> None:
        self.position = event.number
        self.at = event.at

    def to_bytes(self) -> bytes:
        """Return everything, to go on exactly from here."""
        body = msgspec.msgpack.encode(
            {
                "position": self.position,
                "at": self.at,
                "decisions": self.decisions,
                "outcomes": self.outcomes,
                "losses": self.losses,
                "all_losses": self.all_losses,
                "fates": self.fates,
                "defaults": self.defaults,
                "late_reports": self.late_reports,
                "clipped": self.clipped,
                "fallbacks": self.fallbacks,
                "delay_cost": self.delay_cost,
                "certain": self.certain,
                "added": self.added,
                "limits": self.limits,
                "delays_rounds": dict(sorted(self.delays_rounds.counts.items())),
                "delays_seconds": dict(sorted(self.delays_seconds.counts.items())),
                "timeline": self.timeline.to_lists(),
                "histogram": [self.histogram.counts, self.histogram.total],
                "bandit": self.bandit.to_bytes(),
            }
        )
        return hashlib.blake2b(body, digest_size=_CHECK).digest() + body

    @classmethod
    def from_bytes(cls, settings: ExperimentSettings, snapshot: bytes) -> "ExperimentState":
        """Go on from a snapshot; `SnapshotError` where another version of belated made it."""
        check, body = snapshot[:_CHECK], snapshot[_CHECK:]
        if hashlib.blake2b(body, digest_size=_CHECK).digest() != check:
            raise SnapshotError(f"the snapshot of {settings.name!r} is damaged: its checksum does not fit its content")
        try:
            kept: dict[str, Any] = msgspec.msgpack.decode(body, strict=False)
            state = cls.__new__(cls)
            state._set(settings, RecordedBandit.from_bytes(kept.pop("bandit")))
            limits = kept.pop("limits")
            state.limits = None if limits is None else msgspec.convert(limits, ShareLimits)
            state.delays_rounds = Sizes(kept.pop("delays_rounds"))
            state.delays_seconds = Sizes(kept.pop("delays_seconds"))
            state.timeline = Timeline.from_lists(kept.pop("timeline"))
            state.histogram = Histogram(*kept.pop("histogram"))
            vars(state).update(kept)
        except (msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot of {settings.name!r} cannot be read: {error}") from error
        return state


def _made(recorded: DecisionRecord | Event) -> Made:
    return Made(recorded.round, recorded.arm, recorded.propensity, recorded.mark, recorded.cumulative)
