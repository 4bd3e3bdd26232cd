"""The state of an experiment: a fold over its events.

A worker goes forward in two ways that end in the same state, bit for bit: it makes an event (`decide`, `observe`,
`default`, `change`), or it applies one that was made before, by another worker or before a restart (`apply`).

The draw of round t is made from the experiment's seed and t, so that the next worker draws what this one would have
drawn. Events carry the arm and the propensity, which are taken as they are.
"""

import hashlib
from typing import Any

import msgspec
import numpy as np

from belated.bandit import Bandit
from belated.chance import DRAW, draw
from belated.decisions import Decision, Receipt
from belated.errors import SnapshotError
from belated.kernels import entry
from belated.ledger.contract import LedgerError
from belated.ledger.delays import Histogram, Sizes
from belated.ledger.events import Event, Fate, Kind, Known, Settings, Status
from belated.rounds import draw_arm

_CHECK = 16  # bytes of a snapshot's checksum
STATUS_AFTER = {Kind.PAUSE: Status.PAUSED, Kind.RESUME: Status.ACTIVE, Kind.ARCHIVE: Status.ARCHIVED}
_KINDS = {status: kind for kind, status in STATUS_AFTER.items()}
_FATES = {Receipt.USED: Fate.USED, Receipt.SKIPPED: Fate.SKIPPED}


class Fold:
    """What the events so far amount to."""

    def __init__(self, settings: Settings) -> None:
        self._set(settings, Bandit(settings.arms, settings.learner, seed=settings.seed, **settings.parameters))
        arms = len(settings.arms)
        self.position = 0
        self.at = 0
        self.decisions = [0] * arms
        self.outcomes = [0] * arms
        self.losses = [0.0] * arms
        self.fates = [0] * (max(Fate) + 1)
        self.defaults = 0
        self.delays_rounds = Sizes()
        self.delays_seconds = Sizes()
        self.histogram = Histogram()
        self.last_default = 0

    def _set(self, settings: Settings, bandit: Bandit) -> None:
        self.settings = settings
        self.bandit = bandit
        self.places = {arm: place for place, arm in enumerate(settings.arms)}
        self.apart = 0.0
        """The largest difference between a propensity on record and the one that this process computes."""
        self._seed = np.uint64(settings.seed)
        self._draw = entry(draw, DRAW)

    def decide(self, id: str, at: int) -> Event:
        """Decide, and the event of it."""
        bandit = self.bandit
        number, arm, propensity = bandit.decide(draw=self._draw(self._seed, bandit.rounds + 1))
        event = Event(self.position + 1, 1, at, number, id, self.places[arm], propensity)
        self._decided(event)
        return event

    def observe(self, id: str, known: Known, loss: float, at: int) -> Event:
        """Take the outcome of a decision that has none yet; the event of it."""
        fate = Fate.LATE if known.defaulted else _FATES[self.bandit.observe(known.round, loss=loss)]
        return self._outcome(Kind.OUTCOME, id, known, loss, fate, at)

    def default(self, id: str, known: Known, loss: float, at: int) -> Event:
        """Take the default loss for a decision whose deadline has passed; the event of it."""
        fate = _FATES[self.bandit.observe(known.round, loss=loss)]
        return self._outcome(Kind.DEFAULT, id, known, loss, fate, at)

    def _outcome(self, kind: Kind, id: str, known: Known, loss: float, fate: Fate, at: int) -> Event:
        waited = at - known.at
        event = Event(self.position + 1, int(kind), at, known.round, id, known.arm, None, loss, int(fate), waited)
        self._came(event)
        return event

    def change(self, status: Status, at: int) -> Event:
        """Pause, resume or archive; the event of it."""
        event = Event(self.position + 1, int(_KINDS[status]), at)
        self._went(event)
        return event

    def apply(self, event: Event) -> None:
        """Go on by an event that is on record."""
        if event.number != self.position + 1:
            raise LedgerError(f"event {event.number} follows event {self.position} of {self.settings.name!r}")
        if event.kind == Kind.DECISION:
            label = self.settings.arms[event.arm]
            decision = Decision(event.round, label, event.propensity)
            chance = self.bandit.redo(decision, draw=self._draw(self._seed, event.round))
            if chance != event.propensity:
                self.apart = max(self.apart, abs(chance - event.propensity))
            self._decided(event)
        elif event.kind in (Kind.OUTCOME, Kind.DEFAULT):
            if event.fate != Fate.LATE:
                fate = _FATES[self.bandit.observe(event.round, loss=event.loss)]
                if fate != event.fate:
                    raise LedgerError(
                        f"event {event.number} of {self.settings.name!r}: the outcome of round {event.round} is on"
                        f" record as {Fate(event.fate).name.lower()}, the learner has it {fate.name.lower()}"
                    )
            self._came(event)
        else:
            self._went(event)

    def drawn(self) -> int:
        """The arm that the draw of the last round falls on: the one on record, unless the record is another's."""
        bandit = self.bandit
        return int(draw_arm(bandit.distribution, self._draw(self._seed, bandit.rounds)))

    def digest(self) -> str:
        """The state in 32 characters: equal states have equal ones."""
        return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()

    def _decided(self, event: Event) -> None:
        self.position = event.number
        self.at = event.at
        self.decisions[event.arm] += 1

    def _came(self, event: Event) -> None:
        self.position = event.number
        self.at = event.at
        if event.kind == Kind.DEFAULT:
            self.defaults += 1
            self.last_default = event.round
        else:
            self.fates[event.fate] += 1
            self.delays_rounds.add(self.bandit.rounds - event.round)
            self.delays_seconds.add(event.waited)
            self.histogram.add(event.waited)
        if event.fate != Fate.LATE:
            self.outcomes[event.arm] += 1
            self.losses[event.arm] += event.loss

    def _went(self, event: Event) -> None:
        self.position = event.number
        self.at = event.at

    def to_bytes(self) -> bytes:
        """Everything, to go on exactly from here."""
        body = msgspec.msgpack.encode(
            {
                "position": self.position,
                "at": self.at,
                "decisions": self.decisions,
                "outcomes": self.outcomes,
                "losses": self.losses,
                "fates": self.fates,
                "defaults": self.defaults,
                "last_default": self.last_default,
                "delays_rounds": dict(sorted(self.delays_rounds.counts.items())),
                "delays_seconds": dict(sorted(self.delays_seconds.counts.items())),
                "histogram": [self.histogram.counts, self.histogram.total],
                "bandit": self.bandit.to_bytes(),
            }
        )
        return hashlib.blake2b(body, digest_size=_CHECK).digest() + body

    @classmethod
    def from_bytes(cls, settings: Settings, state: bytes) -> "Fold":
        """Go on from a snapshot; `SnapshotError` where another version of belated made it."""
        check, body = state[:_CHECK], state[_CHECK:]
        if hashlib.blake2b(body, digest_size=_CHECK).digest() != check:
            raise SnapshotError(f"the snapshot of {settings.name!r} is damaged: its checksum does not fit its content")
        try:
            kept: dict[str, Any] = msgspec.msgpack.decode(body, strict=False)
            fold = cls.__new__(cls)
            fold._set(settings, Bandit.from_bytes(kept.pop("bandit")))
            fold.delays_rounds = Sizes(kept.pop("delays_rounds"))
            fold.delays_seconds = Sizes(kept.pop("delays_seconds"))
            fold.histogram = Histogram(*kept.pop("histogram"))
            vars(fold).update(kept)
        except (msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot of {settings.name!r} cannot be read: {error}") from error
        return fold
