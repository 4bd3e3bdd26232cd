"""A bandit whose arms come and go, and whose shares are limited, while it runs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.core import rounds
from belated.core.rounds import Run
from belated.errors import InvalidValue, unknown
from belated.live.labels import Arm, check_label
from belated.live.limits import Limits
from belated.live.outcomes import Outcomes
from belated.live.roster import Roster
from belated.live.running import Running


class Arrangement(NamedTuple):
    """The arms of a bandit and their limits, with what goes with them: replaced as a whole."""

    run: Run
    labels: list[Arm]
    roster: Roster
    limits: Limits
    outcomes: Outcomes | None = None


class Changing(Running):
    """What a `Bandit` has of arms and limits."""

    _labels: list[Arm]
    _round: int
    _busy: bool
    _outcomes: Outcomes
    _p_bytes: memoryview
    """The bytes of the last distribution."""
    _keeps_chances: bool
    """Whether outcomes keep the distribution of each decision."""
    _coming: Arrangement | None
    """Other arms or limits, on their way."""

    @property
    def rounds(self) -> int:
        """Decisions made."""
        raise NotImplementedError

    def _fold(self) -> Outcomes:
        """Fold in what was noted of decisions and outcomes."""
        raise NotImplementedError

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The labels of all arms that there have been; what is told by arm is in this order."""
        return tuple(self._labels)

    @property
    def playing(self) -> tuple[Arm, ...]:
        """The labels of the arms that take part: those that have not left."""
        return tuple(self._playing)

    def add_arm(self, label: Arm) -> None:
        """Let a new arm take part from the next decision on. What is known of the others stays; a fair chance is given
        to the new one at once, in the way of the learner (docs/learners.md).
        """
        check_label(label, "arm")
        if label in self._labels:
            gone = not self._roster.has(self._labels.index(label))
            hint = "it has left, and restore_arm brings it back" if gone else "labels must differ"
            raise InvalidValue(f"there is an arm {label!r}: {hint}", "arm")
        self._change(self._roster.add(self.rounds), self._limits, [*self._labels, label])

    def retire_arm(self, label: Arm) -> None:
        """Let an arm leave: it is not played any more. Its decisions whose outcomes are still to come are not learned
        from (`observe` answers SKIPPED), but estimates use them.
        """
        arm = self._number_of(label)
        if not self._roster.has(arm):
            raise InvalidValue(f"arm {label!r} has left already", "arm")
        self._change(self._roster.retire(arm), self._limits, self._labels)

    def restore_arm(self, label: Arm) -> None:
        """Bring back an arm that had left. For the learner it is a new one: it may have changed meanwhile."""
        arm = self._number_of(label)
        if self._roster.has(arm):
            raise InvalidValue(f"arm {label!r} has not left", "arm")
        self._change(self._roster.restore(arm, self.rounds), self._limits, self._labels)

    def set_limits(self, limits: Limits | None) -> None:
        """Limit the shares of arms from the next decision on; None limits nothing."""
        if limits is not None and not isinstance(limits, Limits):
            raise InvalidValue(f"limits is {limits!r}; belated.Limits is needed", "limits")
        self._change(self._roster, limits or Limits(), self._labels)

    def _number_of(self, label: Arm) -> int:
        if label not in self._labels:
            raise unknown("arm", label, [str(each) for each in self._labels])
        return self._labels.index(label)

    def _change(self, roster: Roster, limits: Limits, labels: list[Arm]) -> None:
        """Go on with other arms or limits. Whatever may fail comes first; an interrupt after that is made good."""
        self._catch_up()
        before = self._roster
        if roster.present != before.present:
            self._tuned.learner.check_rearm()
        outcomes = self._fold()
        for arm in sorted({*roster.present} ^ {*before.present}):
            outcomes = outcomes.changed(self._round, arm, roster.has(arm), roster.present)
        if not self._round:
            outcomes = outcomes.guaranteed(self._guaranteed(roster, limits, labels))
        coming = Arrangement(self._rearranged(roster, limits, labels), labels, roster, limits, outcomes)
        self._busy = True
        self._coming = coming
        self._arrange(coming)
        self._coming = None
        self._busy = False

    def _guaranteed(self, roster: Roster, limits: Limits, labels: list[Arm]) -> NDArray[np.float64]:
        """Return the least probability of each arm by number."""
        floors = np.zeros(len(roster.entered))
        floors[list(roster.present)] = limits.guaranteed(roster.labels(labels), self._tuned.share_floor)
        return floors

    def _arrange(self, arrangement: "Arrangement") -> None:
        """Take over other arms or limits. Doing it twice does no harm."""
        self._run, self._labels, self._roster, self._limits, outcomes = arrangement
        self._numbers = list(self._roster.present)  # the learner's number of an arm -> its number
        self._playing = self._roster.labels(self._labels)
        self._index = {label: place for place, label in enumerate(self._playing)}
        self._orphans = {
            number
            for number, slot in rounds.waiting_slots(self._run.clock, self._run.memory).items()
            if self._run.memory[slot]["arm"] == rounds.NONE
        }
        self._p_bytes = self._run.p.data.cast("B")
        if outcomes is not None:
            self._set_outcomes(outcomes)

    def _set_outcomes(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._keeps_chances = outcomes.keeps_chances
