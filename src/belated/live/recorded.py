"""A learner at work whose decisions are on record elsewhere, in a ledger: an outcome brings its decision along.

It decides and learns as a `Bandit` does, bit for bit, without a place in memory for each outstanding decision.
"""

from typing import NamedTuple

import numpy as np

from belated.core import rounds
from belated.core.kernels import entry
from belated.core.rounds import Run
from belated.errors import SnapshotError
from belated.learners import TunedLearner
from belated.learners.learner import Value
from belated.live import snapshot, warning
from belated.live.decisions import Receipt
from belated.live.limits import Limits
from belated.live.outstanding import Outstanding
from belated.live.roster import Roster
from belated.live.running import Running, tune_live


class Made(NamedTuple):
    """A decision as it goes on record: what `learn` needs to know of it later."""

    round: int
    arm: int
    propensity: float | None
    """None in outcomes that were recorded before it was kept with them, as the next two."""
    mark: float | None
    """What the learner wants back with the outcome."""
    cumulative: int | None
    """D_s, for the drift."""


class RecordedBandit(Running):
    """A learner that hands each decision out to be recorded, and gets it back with its outcome.

    Arms are their numbers, in limits, too. A learner whose marks are places in its own state (pages) keeps that much of
    each outstanding decision; all others keep nothing of them.
    """

    def __init__(self, arms: int, learner: str, **parameters: Value) -> None:
        tuned = tune_live(learner, **parameters)
        clock = rounds.new_clock()
        tuned.connect(clock, arms)
        run = Run(tuned.learner.new_state(arms), tuned.params, clock, rounds.new_memory(), np.full(arms, 1.0 / arms))
        self._set(tuned, Roster.of(arms), run, Outstanding())

    def _set(self, tuned: TunedLearner, roster: Roster, run: Run, open_rounds: Outstanding) -> None:
        self._tuned = tuned
        self._arrange(run, roster, Limits())
        self.open = open_rounds
        """The decisions without an outcome, skipped ones among them."""
        self._frontier = 0  # the round skipped last: older ones are skipped, too, or have their outcomes
        self._late = 0  # outcomes of skipped decisions
        self._own: dict[int, tuple[float, float, int]] = {}
        """Round -> propensity, mark and D_s, where the record does not have them."""
        self._keeps = tuned.learner.keeps_skipped
        self._pages = tuned.learner.pages is not None
        self._gives_up = tuned.learner.patience is not None
        self._round = int(run.clock["round"][0])
        self._patience = int(run.clock["patience"][0])
        self._decide = entry(rounds.decide_on_record, rounds.DECIDE_ON_RECORD)
        self._arrive = entry(rounds.arrive_on_record, rounds.ARRIVE_ON_RECORD)
        self._skip = entry(rounds.skip_on_record, rounds.SKIP_ON_RECORD)

    def _arrange(self, run: Run, roster: Roster, limits: Limits) -> None:
        self._run, self._roster, self._limits = run, roster, limits
        self._places = None if roster.is_plain else {arm: place for place, arm in enumerate(roster.present)}
        """Arm -> the learner's number of it; None where they are the same."""

    def change(self, roster: Roster, limits: Limits) -> None:
        """Go on with other arms or limits; an error leaves all as it is."""
        self._arrange(self._rearranged(roster, limits, range(len(roster.entered))), roster, limits)
        self._patience = int(self._run.clock["patience"][0])

    @property
    def roster(self) -> Roster:
        """Which arms are played."""
        return self._roster

    def _place(self, arm: int, decided: int) -> int:
        """Return the learner's number of an arm; NONE where it has not been there all the time since a decision."""
        if self._places is None:
            return arm
        return rounds.NONE if self._roster.entered[arm] >= decided else self._places[arm]

    def decide(self, place: int, *, draw: float) -> Made:
        """Choose an arm by a number in [0, 1), for a record at this place."""
        arm, propensity, mark, cumulative = self._open_round(draw, rounds.NONE, 0.0)
        number = self._round
        self.open.add(number, place, mark)
        return Made(number, arm if self._places is None else self._roster.present[arm], propensity, mark, cumulative)

    def redo(self, place: int, made: Made, *, draw: float) -> float:
        """Make the next decision as it is on record, with its arm and its propensity.

        Return the propensity that this bandit itself would give the arm: the same, bit for bit, after the same rounds.
        """
        if made.round != self._round + 1:
            raise ValueError(f"the decision of round {made.round} cannot follow round {self._round}")
        if not 0 <= made.arm < len(self._roster.entered) or not self._roster.has(made.arm):
            raise ValueError(f"the decision of round {made.round} has arm {made.arm}, which there is not")
        if made.propensity is None:
            raise ValueError(f"the decision of round {made.round} has no propensity")
        _, propensity, mark, cumulative = self._open_round(draw, self._place(made.arm, made.round), made.propensity)
        if made.mark is None or made.cumulative is None or (self._pages and made.mark != mark):
            # also where a mark is of another state's pages: it would mean nothing here
            self._own[made.round] = (made.propensity, mark, cumulative)
        self.open.add(made.round, place, mark if made.mark is None else made.mark)
        return propensity

    def _open_round(self, draw: float, made: int, propensity: float) -> tuple[int, float, float, int]:
        if self._gives_up and self.open.total:
            low = max(self._frontier + 1, self.open.low)
            if self._round - low >= self._patience:  # patience never shrinks: no need to look before
                self._close_round()
        while True:
            opened = self._decide(self._run, draw, made, propensity)
            if opened[0] >= 0:
                self._round += 1
                return opened
            run = self._run
            self._run = run._replace(state=self._tuned.learner.with_more_pages(run.state))
            run.clock["pages"] = self._tuned.learner.page_count(self._run.state)

    def _close_round(self) -> None:
        """Skip the oldest outstanding decision if the patience with it is over; all such, if the learner keeps them."""
        while (oldest := self.open.oldest(self._frontier)) is not None:
            number, mark = oldest
            own = self._own.get(number)
            is_over = self._skip(self._run, number, own[1] if own else mark, False)
            self._patience = int(self._run.clock["patience"][0])
            if not is_over:
                return
            self._frontier = number
            if not self._keeps:
                self._own.pop(number, None)
                return

    def receipt(self, number: int, arm: int) -> Receipt:
        """Return what would become of the outcome of a decision for an arm that has none yet."""
        if self._place(arm, number) == rounds.NONE:
            return Receipt.SKIPPED
        return Receipt.USED if self._keeps or number > self._frontier else Receipt.SKIPPED

    def observe(self, made: Made, loss: float, receipt: Receipt | None = None) -> bool:
        """Take the outcome of a decision that has none yet, with the receipt on record, if there is one.

        Return whether that receipt is the one that this bandit gives.
        """
        number, arm, propensity, mark, cumulative = made
        place = self._place(arm, number)
        if not 0.0 <= loss <= 1.0:
            raise ValueError(f"loss is {loss}; a number from 0 to 1 is needed")
        self.open.settle(number)
        outstanding = number > self._frontier
        own_receipt = self.receipt(number, arm)
        own = self._own.pop(number, None)
        if own is not None:
            propensity, mark, cumulative = own
        is_used = (receipt or own_receipt) is Receipt.USED
        if place == rounds.NONE:  # its arm has left: there is nothing to learn from it, whatever is on record
            is_used = False
            self._late += not (outstanding or self._keeps)
        else:
            self._late += not is_used
        if outstanding or is_used:
            if propensity is None or mark is None or cumulative is None:
                raise ValueError(f"the outcome of round {number} is on record without what the learner wants back")
            if not is_used:
                self._skip(self._run, number, mark, True)
            # where the record and this bandit disagree on what was skipped, a page may have been given back before
            elif own_receipt is Receipt.USED or not self._pages:
                self._arrive(self._run, number, place, propensity, mark, cumulative, loss, outstanding)
        return receipt is None or receipt is own_receipt

    def share(self, arm: int, since: int) -> float:
        """Return the probability of an arm in the last round, among the arms that were there in an earlier one too."""
        p = self._run.p
        if self._places is None:
            return float(p[arm])
        entered = self._roster.entered
        total = float(p[[entered[each] < since for each in self._roster.present]].sum())
        return float(p[self._places[arm]]) / total if arm in self._places and total > 0.0 else 0.0

    @property
    def probabilities(self) -> list[float]:
        """The probabilities that the last decision was drawn with, of the arms that were there, in their order."""
        return list(self._run.p.tolist())

    @property
    def rounds(self) -> int:
        """Decisions made."""
        return self._round

    @property
    def outstanding(self) -> int:
        """Decisions still waited for, skipped ones not among them."""
        return int(self._run.clock["outstanding"][0])

    @property
    def warnings_by_kind(self) -> dict[str, str]:
        learner, clock = self._tuned.learner, self._run.clock
        given_up = 0 if self._keeps else self.skipped
        learned = self._round - given_up - (self.open.total if self._keeps else self.outstanding)
        found: dict[str, str | None] = {}
        if learner.fair_arrivals:
            longest = int(clock["longest_delay"][0])
            old = max(self._round - warning.age_of_missing(longest), 0)
            kept = self.open.count_until(min(self._frontier, old)) if self._keeps else 0
            missing = self.open.count_until(old) - kept
            found["missing"] = warning.about_missing(self.learner, longest, old, missing, learned)
        if learner.patience is not None:
            found["patience"] = warning.about_patience(self.learner, self.patience, learned + self._late, self._late)
        return {kind: sentence for kind, sentence in found.items() if sentence}

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes."""
        return int(self._run.state.nbytes + 2 * self._run.p.nbytes) + self.open.nbytes + 200 * len(self._own)

    def __repr__(self) -> str:
        return (
            f"RecordedBandit({len(self._roster.entered)} arms, learner={self.learner!r}, rounds={self.rounds}, "
            f"outstanding={self.outstanding}, skipped={self.skipped})"
        )

    def to_bytes(self) -> bytes:
        """Return everything, to go on exactly from here."""
        head, counts, places = self.open.to_lists()
        header = {
            "arms": len(self._roster.entered),
            "learner": self._tuned.learner.name,
            "parameters": dict(self._tuned.values),
            "frontier": self._frontier,
            "late": self._late,
            "own": sorted([number, *own] for number, own in self._own.items()),
            "outstanding": head,
            **snapshot.settings_of_run(self._tuned.share_floor),
            **snapshot.arrangement(self._roster, self._limits),
        }
        arrays = {
            "state": self._run.state,
            "clock": rounds.counters(self._run.clock),
            "distribution": self._run.p,
            "blocks": np.array([counts, places], dtype=np.int64),
        }
        return snapshot.pack(header, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "RecordedBandit":
        """Go on from a snapshot; who has the record sets `open.find` before the next decision."""
        header, arrays = snapshot.unpack(blob)
        try:
            tuned = tune_live(header["learner"], **snapshot.tuning(header))
            frontier, late, own, head = (header[name] for name in ("frontier", "late", "own", "outstanding"))
        except (ValueError, LookupError) as error:
            raise SnapshotError(f"the snapshot is not of decisions on record: {error}") from error
        roster, limits = snapshot.roster_of(header, header["arms"]), snapshot.limits_of(header)
        n_arms = len(roster.present)
        fits = tuned.learner.fits(arrays["state"], n_arms)
        snapshot.check_sizes(arrays, n_arms, tuned.learner.name, fits, tuned.learner.size(n_arms))
        clock = rounds.clock_of(arrays["clock"])
        tuned.connect(clock, n_arms)
        run = Run(arrays["state"], tuned.params, clock, rounds.new_memory(), arrays["distribution"])
        counts, places = arrays["blocks"].reshape(2, -1).tolist()
        bandit = cls.__new__(cls)
        bandit._set(tuned, roster, run, Outstanding.from_lists(head, counts, places))
        if limits:
            bandit.change(roster, limits)
        bandit._frontier, bandit._late = frontier, late
        bandit._own = {number: (float(propensity), float(mark), int(count)) for number, propensity, mark, count in own}
        return bandit
