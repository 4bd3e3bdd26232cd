"""The state of an experiment: what its events amount to.

A worker goes forward in two ways that end in the same state, bit for bit: it makes an event (`decide`, `observe`,
`default`, `settle`, `change`), or it applies one that was made before, by another worker or before a restart (`apply`).

The draw of round t is made from the experiment's seed and t, so that the next worker draws what this one would have
drawn. Events carry the arm, the propensity and the learner's mark, which are taken as they are. So the state has no
place for each outstanding decision: its outcome comes with all that is on record of it, and is recorded with it.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from belated.core.kernels import entry
from belated.core.random import DRAW, draw
from belated.core.shares import draw_arm
from belated.errors import SnapshotError
from belated.ledger.base import LedgerError
from belated.ledger.delay_histogram import Histogram, Sizes
from belated.ledger.events import DecisionRecord, Event, ExperimentSettings, Fate, Kind, Status
from belated.live.decisions import Receipt
from belated.live.outstanding import Recorded
from belated.live.recorded import Made, RecordedBandit

_CHECK = 16  # bytes of a snapshot's checksum
STATUS_AFTER = {Kind.PAUSE: Status.PAUSED, Kind.RESUME: Status.ACTIVE, Kind.ARCHIVE: Status.ARCHIVED}
_KINDS = {status: kind for kind, status in STATUS_AFTER.items()}
_FATES = {Receipt.USED: Fate.USED, Receipt.SKIPPED: Fate.SKIPPED}
_RECEIPTS = {fate: receipt for receipt, fate in _FATES.items()}

Source = Callable[[int, int, int], Sequence[Recorded]]
"""(after, until, most) -> that many decisions numbered after an event, and whether they were open after another one."""


class ExperimentState:
    """What the events so far amount to. Arms are places in the list of arms; labels are for the edges."""

    def __init__(self, settings: ExperimentSettings) -> None:
        self._set(settings, RecordedBandit(len(settings.arms), settings.learner, **settings.tuning))
        arms = len(settings.arms)
        self.position = 0
        self.at = 0
        self.decisions = [0] * arms
        self.outcomes = [0] * arms
        self.losses = [0.0] * arms
        self.fates = [0] * (Fate.LATE + 1)  # by fate; an outcome that is held is not counted yet
        self.defaults = 0
        self.delays_rounds = Sizes()
        self.delays_seconds = Sizes()
        self.histogram = Histogram()

    def _set(self, settings: ExperimentSettings, bandit: RecordedBandit) -> None:
        self.settings = settings
        self.bandit = bandit
        self.propensity_error = 0.0
        """The largest difference between a propensity on record and the one that this process computes."""
        self.other_fates = 0
        """Outcomes of which this process would have made something else than what is on record."""
        self._holds = settings.holds
        self._seed = np.uint64(settings.seed)
        self._draw = entry(draw, DRAW)

    def decide(self, id: str, at: int) -> Event:
        """Decide, and the event of it."""
        bandit, place = self.bandit, self.position + 1
        number, arm, propensity, mark, cumulative = bandit.decide(place, draw=self._draw(self._seed, bandit.rounds + 1))
        event = Event(place, 1, at, number, id, arm, propensity, None, None, None, mark, cumulative)
        self._apply_decision(event)
        return event

    def observe(self, id: str, known: DecisionRecord, loss: float, at: int) -> Event:
        """Take the outcome of a decision that has none yet; the event of it."""
        fate = Fate.LATE if known.defaulted else self._tell(Kind.OUTCOME, known, loss)
        return self._outcome(Kind.OUTCOME, id, known, loss, fate, at)

    def default(self, id: str, known: DecisionRecord, loss: float, at: int) -> Event:
        """Take the default loss for a decision whose deadline has passed; the event of it."""
        return self._outcome(Kind.DEFAULT, id, known, loss, self._tell(Kind.DEFAULT, known, loss), at)

    def settle(self, id: str, known: DecisionRecord, loss: float, at: int) -> Event:
        """Let the learner hear of an outcome that was held until its deadline, which has passed; the event of it."""
        return self._outcome(Kind.SETTLED, id, known, loss, self._tell(Kind.SETTLED, known, loss), at)

    def _tell(self, kind: int, known: DecisionRecord, loss: float) -> Fate:
        """Tell the learner of a loss, unless it is to be held; return what becomes of it."""
        if kind == Kind.OUTCOME and self._holds:
            return Fate.HELD
        receipt = self.bandit.receipt(known.round, known.arm)
        self.bandit.observe(_made(known), loss)
        return _FATES[receipt]

    def _outcome(self, kind: Kind, id: str, known: DecisionRecord, loss: float, fate: Fate, at: int) -> Event:
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
        )
        self._apply_outcome(event)
        return event

    def change(self, status: Status, at: int) -> Event:
        """Pause, resume or archive; return the event."""
        event = Event(self.position + 1, int(_KINDS[status]), at)
        self._apply_status(event)
        return event

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
        elif event.kind in (Kind.OUTCOME, Kind.DEFAULT, Kind.SETTLED):
            receipt = _RECEIPTS.get(event.fate)
            if receipt and not self.bandit.observe(_made(event), event.loss, receipt):
                self.other_fates += 1
            self._apply_outcome(event)
        else:
            self._apply_status(event)

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

    def _apply_outcome(self, event: Event) -> None:
        self.position = event.number
        self.at = event.at
        if event.kind == Kind.OUTCOME:
            self.delays_rounds.add(self.bandit.rounds - event.round)
            self.delays_seconds.add(event.waited)
            self.histogram.add(event.waited)
        if event.fate == Fate.HELD:
            return  # nothing has come of it yet
        if event.kind == Kind.DEFAULT:
            self.defaults += 1
        else:
            self.fates[event.fate] += 1
        if event.fate != Fate.LATE:
            self.outcomes[event.arm] += 1
            self.losses[event.arm] += event.loss

    @property
    def held(self) -> int:
        """Outcomes that the learner has yet to hear of: all that were reported, less those that something came of."""
        return sum(self.histogram.counts) - sum(self.fates)

    def _apply_status(self, event: Event) -> None:
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
                "fates": self.fates,
                "defaults": self.defaults,
                "delays_rounds": dict(sorted(self.delays_rounds.counts.items())),
                "delays_seconds": dict(sorted(self.delays_seconds.counts.items())),
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
            state.delays_rounds = Sizes(kept.pop("delays_rounds"))
            state.delays_seconds = Sizes(kept.pop("delays_seconds"))
            state.histogram = Histogram(*kept.pop("histogram"))
            vars(state).update(kept)
        except (msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot of {settings.name!r} cannot be read: {error}") from error
        return state


def _made(recorded: DecisionRecord | Event) -> Made:
    return Made(recorded.round, recorded.arm, recorded.propensity, recorded.mark, recorded.cumulative)
