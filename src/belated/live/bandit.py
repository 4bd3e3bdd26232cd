"""Live: decide now, observe whenever. The same compiled rounds and learners as in simulations.

>>> from belated import Bandit
>>> bandit = Bandit(["blue", "green", "red"], seed=7)
>>> first, second = bandit.decide(), bandit.decide()
>>> bandit.observe(second, reward=1.0), bandit.outstanding
(<Receipt.USED: 'used'>, 1)
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import Any

import numpy as np

from belated import learners
from belated.core import rounds
from belated.core.kernels import entry
from belated.core.rounds import Run
from belated.errors import AlreadyObserved, BelatedWarning, InvalidValue, SnapshotError, UnknownDecision
from belated.inference.estimates import Estimates
from belated.inference.method import Options
from belated.inference.stream import Stream
from belated.learners import Learner, TunedLearner
from belated.learners.learner import Value
from belated.live import snapshot, warning
from belated.live.changing import Arrangement, Changing
from belated.live.decisions import Decision, Receipt, check_delay, checked_loss, round_of
from belated.live.labels import Arm, arm_labels
from belated.live.limits import Limits
from belated.live.outcomes import Outcomes
from belated.live.roster import Roster
from belated.live.running import tune_live
from belated.logs.scale import Scale, Scaled
from belated.templates.display import html_table, largest, number

_DRAWS = 128  # random numbers fetched at once: one at a time they would cost more than the decision
_USED = Receipt.USED
_SKIPPED = Receipt.SKIPPED
_new_tuple = tuple.__new__


class Bandit(Changing):
    """A learner that decides one round at a time and hears of outcomes in any order, late, or never.

    One thread at a time: share a bandit between threads under a lock. An interrupt leaves it in order: what was under
    way has happened wholly or not at all.

    Parameters
    ----------
    arms
        The labels of the arms, strings or integers, or their number: 2 to 10,000.
    learner
        A name of the catalogue, words such as `"robust:delay_constant=1"`, or a learner.
    seed
        Anything that `numpy.random.default_rng` takes.
    share_floor
        The least probability of every arm, from 0 to 1 / K, for who wants to keep measuring all arms: an arm is drawn
        from p'_i = share_floor + (1 - K share_floor) p_i, and p' is its propensity.
    limits
        Floors, ceilings and fixed shares of arms, and a share that plays uniformly (`belated.Limits`).
    outcome
        The range of outcomes in units of your own, for `observe(value=…)`: a `belated.Scale`, or its fields as a
        mapping: `{"lowest": 0, "highest": 200, "better": "higher"}`.
    parameters
        Of the learner.
    """

    warns: bool = True
    """Whether `decide` and `observe` raise what `warnings` says as Python warnings, each once."""
    _scale: Scale | None

    def __init__(
        self,
        arms: Sequence[Arm] | int,
        learner: str | Learner | TunedLearner = "guarded",
        *,
        seed: Any = None,
        share_floor: Value | None = None,
        limits: Limits | None = None,
        outcome: Scale | Mapping[str, Any] | None = None,
        **parameters: Value,
    ) -> None:
        if share_floor is not None:
            parameters["share_floor"] = share_floor
        tuned = tune_live(learner, **parameters)
        labels = arm_labels(arms)
        params = tuned.params
        clock = rounds.new_clock()
        tuned.connect(clock, len(labels))
        memory = rounds.enlarge(clock, rounds.new_memory())
        p = np.full(len(labels), 1.0 / len(labels))
        run = Run(tuned.learner.new_state(len(labels)), params, clock, memory, p)
        self._set(tuned, labels, Roster.of(len(labels)), run)
        self._scale = outcome if outcome is None or isinstance(outcome, Scale) else Scale(**outcome)
        if limits is not None:
            self.set_limits(limits)
        try:
            self._generator = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise InvalidValue(
                f"seed is {seed!r}; what numpy.random.default_rng takes is needed: {error}", "seed"
            ) from error

    # A decision is one call into compiled code. So that an outcome costs no call of its own, `observe` only notes it
    # (`_noted_slot`, `_noted_loss`), and the next decision takes it along. An interrupt (Ctrl-C) can fall between two
    # steps of Python, never into a compiled call. What Python keeps beside the compiled arrays is then put in order
    # from them (`_recover`). The states between calls:
    #
    #   _busy   _noted_slot   meaning
    #   False   NONE          in order; every outcome that was observed has been learned from
    #   False   a slot        in order; one outcome will be learned from by the next decision, or by `_catch_up`
    #   True    any           an interrupt fell into decide, observe or _catch_up: `_recover` comes first

    def _set(self, tuned: TunedLearner, labels: list[Arm], roster: Roster, run: Run) -> None:
        self._tuned = tuned
        self._scale = None
        self.clipped = 0
        """Outcomes whose value was beyond the range, and was taken as its end."""
        self._arrange(Arrangement(run, labels, roster, Limits()))
        self._delay_at = tuned.learner.delay_at
        self._draws: list[float] = []
        self._round = int(run.clock["round"][0])
        self._slots = rounds.waiting_slots(run.clock, run.memory)  # round -> slot
        self._busy = False
        self._noted_slot = rounds.NONE
        self._noted_loss = 0.0
        self._coming = None
        self._missed = bytearray()  # one bit a round: skipped, and no outcome has come since
        self._missed_end = 0
        self._late = 0  # outcomes that came after their decision was skipped
        self._warned: list[str] = []  # kinds of warnings that were raised
        self._look_at = warning.next_look(self._round - 1)  # the number of decisions at which to look for warnings
        stream = Stream(len(labels), self._guaranteed(roster, Limits(), labels))
        self._set_outcomes(Outcomes(stream, roster.present, self._round + 1))
        self._next_decision = entry(rounds.next_decision, rounds.NEXT_DECISION)
        self._arrive = entry(rounds.arrive, rounds.ARRIVE)

    def decide(self, *, draw: float | None = None, delay: float | None = None) -> Decision:
        """Choose an arm: closes the round before, opens the next.

        draw
            A number in [0, 1) to use in place of the generator: the arm is the first i with draw < p_1 + ... + p_i.
        delay
            How many rounds the outcome of this decision will take (inf: it never comes), for a learner that must know.
        """
        if delay is not None or self._delay_at is not None:
            check_delay(delay, self.learner, self._delay_at is not None)
        if draw is None:
            if not self._draws:
                if self._round >= self._look_at:  # here, where it costs nothing: _DRAWS divides every power of two
                    self._warn(3)
                if self._outcomes.is_full:
                    self._fold()
                self._draws = self._generator.random(_DRAWS).tolist()
                self._draws.reverse()
            draw = self._draws.pop()
        elif not isinstance(draw, int | float | np.number) or not 0.0 <= draw < 1.0:
            raise InvalidValue(f"draw is {draw!r}; a number of at least 0 and below 1 is needed", "draw")
        else:
            if self._round >= self._look_at:
                self._warn(3)
            if self._outcomes.is_full:
                self._fold()
        if self._delay_at is not None:
            self._run.state[self._delay_at] = delay
        return self._decide(draw, rounds.NONE, 0.0)

    def redo(self, decision: Decision, *, draw: float) -> float:
        """Make the next decision as it is on record: its draw, its arm, its propensity.

        Return the propensity that this bandit itself would give the arm: the same, bit for bit, after the same rounds.
        """
        if decision.round != self._round + 1 or self._delay_at is not None:
            raise UnknownDecision(f"the decision of round {decision.round} cannot follow round {self._round}")
        if decision.arm not in self._index:
            raise UnknownDecision(f"arm {decision.arm!r} of round {decision.round} is not among those that are played")
        return self._decide(draw, self._index[decision.arm], decision.propensity).propensity

    def _decide(self, draw: float, made: int, propensity: float) -> Decision:
        if self._busy:
            self._recover()
        self._busy = True
        skipped, slot, arm, share = self._next_decision(
            self._run, draw, self._noted_slot, self._noted_loss, made, propensity
        )
        if slot < 0:
            self._busy = False
            self._make_room()
            return self._decide(draw, made, propensity)
        self._noted_slot = -1
        if skipped:
            if skipped < self._missed_end:
                self._missed[skipped >> 3] |= 1 << (skipped & 7)
            else:
                self._miss(skipped)
            del self._slots[skipped]  # last: what is in neither would count as observed
        self._round = number = self._round + 1
        self._slots[number] = slot
        outcomes = self._outcomes
        outcomes.arms.append(self._numbers[arm])
        outcomes.propensities.append(share if made < 0 else propensity)
        if self._keeps_chances:
            outcomes.chances.frombytes(self._p_bytes)
        self._busy = False
        return _new_tuple(Decision, (number, self._playing[arm], share))

    def observe(
        self,
        decision: Decision | int,
        *,
        loss: float | None = None,
        reward: float | None = None,
        value: float | None = None,
    ) -> Receipt:
        """Report the outcome of a decision, or of its round: a loss in [0, 1], a reward = 1 - loss, or a value in the
        units of the bandit's `outcome`.
        """
        number = decision[0] if type(decision) is Decision else round_of(decision)
        clipped = False
        if value is not None:
            loss, clipped = self._scaled(value, loss, reward)
        elif loss is None:
            if reward is None:
                raise InvalidValue("neither loss nor reward is given; one of them is needed", "loss")
            if type(reward) is not float or not 0.0 <= reward <= 1.0:
                reward = checked_loss("reward", reward)
            loss = 1.0 - reward
        elif reward is not None:
            raise InvalidValue(f"both loss={loss!r} and reward={reward!r} are given; one of them is needed", "loss")
        elif type(loss) is not float or not 0.0 <= loss <= 1.0:
            loss = checked_loss("loss", loss)
        if self._busy:
            self._recover()
        slot = self._slots.get(number)
        if slot is None:
            receipt = self._observe_late(number, loss)
            self.clipped += clipped
            return receipt
        if self._noted_slot >= 0:
            self._catch_up()
        self._busy = True
        self._noted_loss = loss
        self._noted_slot = slot
        del self._slots[number]
        outcomes = self._outcomes
        outcomes.rounds.append(number)
        outcomes.losses.append(loss)
        self._busy = False
        if clipped:
            self.clipped += 1
        if number in self._orphans:  # nothing is learned from it
            self._orphans.discard(number)
            return _SKIPPED
        return _USED

    def _scaled(self, value: float, loss: float | None, reward: float | None) -> Scaled:
        """Return the loss that a value stands for, which must be the only outcome that is given."""
        if loss is not None or reward is not None:
            word, other = ("loss", loss) if loss is not None else ("reward", reward)
            raise InvalidValue(f"both value={value!r} and {word}={other!r} are given; one of them is needed", "value")
        if self._scale is None:
            raise InvalidValue(
                f"value is {value!r}, but the bandit has no scale: Bandit(…, outcome=Scale(lowest, highest))", "value"
            )
        return self._scale.loss(self._scale.check(value))

    def _make_room(self) -> None:
        """Enlarge memory or state, whichever is full. The clock is told last: an interrupt in between loses room, not
        decisions.
        """
        self._catch_up()  # what is learned from may give back what is wanted
        run = self._run
        if run.clock["free"][0] == rounds.NONE:
            self._run = run._replace(memory=rounds.enlarged(run.memory))
            run.clock["free"] = run.memory.size
        run = self._run
        if rounds.wants_pages(run):
            self._run = run._replace(state=self._tuned.learner.with_more_pages(run.state))
            run.clock["pages"] = self._tuned.learner.page_count(self._run.state)

    def _catch_up(self) -> None:
        """Learn from the outcome that was left for the next decision."""
        if self._busy:
            self._recover()
        if self._noted_slot >= 0:
            self._busy = True
            self._arrive(self._run, self._noted_slot, self._noted_loss)
            self._noted_slot = -1
            self._busy = False

    def _recover(self) -> None:
        """Put what Python keeps in order again, from what the compiled rounds keep."""
        if self._coming is not None:
            self._arrange(self._coming)
            self._coming = None
        clock, memory = self._run.clock, self._run.memory
        waiting = rounds.waiting_slots(clock, memory)
        self._outcomes.even()
        for untold in range(self._outcomes.last + 1, int(clock["round"][0]) + 1):
            self._outcomes.arms.append(self._numbers[int(memory[waiting[untold]]["arm"])])
            self._outcomes.propensities.append(float(memory[waiting[untold]]["propensity"]))
            if self._keeps_chances:  # it is the last decision, if any
                self._outcomes.chances.frombytes(self._p_bytes)
        observed: set[int] = set()
        if self._noted_slot >= 0:
            number = int(memory[self._noted_slot]["round"])
            if number <= self._round and waiting.get(number) == self._noted_slot:
                self._outcomes.rounds.append(number)  # perhaps once more, which does no harm
                self._outcomes.losses.append(self._noted_loss)
                del waiting[number]  # still to be learned from
            else:  # learned from already; a decision that nobody has been told of may have its slot
                observed.add(number)
                self._noted_slot = -1
        learning = int(memory[self._noted_slot]["round"]) if self._noted_slot >= 0 else 0
        for number in self._slots.keys() - waiting.keys() - {learning, *observed}:
            self._miss(number)  # given up on
        self._slots = waiting
        self._round = int(clock["round"][0])
        self._busy = False

    def _observe_late(self, number: int, loss: float) -> Receipt:
        """Answer for a decision that is not waited for: skipped, or an error."""
        if not isinstance(number, int):
            raise UnknownDecision(f"{number!r} is not the round of a decision")
        bit = 1 << (number & 7)
        if 0 < number < self._missed_end and self._missed[number >> 3] & bit:
            if warning.is_look(self._late):
                self._warn(4)
            self._outcomes.even()
            self._outcomes.rounds.append(number)  # before it counts as observed
            self._outcomes.losses.append(loss)
            self._missed[number >> 3] ^= bit
            self._late += 1
            return _SKIPPED
        if not 1 <= number <= self._round:
            decided = f"rounds 1 to {self._round} have been decided" if self._round else "nothing has been decided yet"
            raise UnknownDecision(f"there is no decision of round {number}: {decided}")
        raise AlreadyObserved(f"the outcome of round {number} was observed before")

    def _fold(self) -> Outcomes:
        """Fold in what was noted of decisions and outcomes."""
        if self._busy:
            self._recover()
        self._set_outcomes(self._outcomes.folded())
        return self._outcomes

    def estimates(
        self,
        *,
        alpha: float = 0.05,
        control: Arm | None = None,
        method: str | None = None,
        outcomes: str = "settled",
    ) -> Estimates:
        """Return what is known of the arms: means, differences, the winner, the uplift, with intervals that hold at any
        time, however often you look.

        The options are those of `belated.inference.estimates`. A bandit knows no deadlines: report the loss that a
        missing outcome stands for when yours has passed.
        """
        found = self._fold().method(self._labels, Options(alpha, control, method, outcomes)).estimates()
        return found if self._scale is None else found.in_units(self._scale)

    def _miss(self, number: int) -> None:
        if number >= self._missed_end:
            self._missed.extend(bytes(number // 8 + 64))  # about twice what is needed
            self._missed_end = 8 * len(self._missed)
        self._missed[number >> 3] |= 1 << (number & 7)

    def _missed_until(self, number: int) -> int:
        """Return how many of the rounds up to a number were skipped and have no outcome."""
        bits = int.from_bytes(self._missed[: number // 8 + 1], "little")
        return bits.bit_count() - (bits >> (number + 1)).bit_count()

    def _warn(self, stacklevel: int) -> None:
        """Raise the warnings of kinds that were not raised before, as of the line that called decide or observe."""
        self._look_at = warning.next_look(self._round)
        if self.warns:
            for kind, sentence in self.warnings_by_kind.items():
                if kind not in self._warned:
                    self._warned.append(kind)  # first: where warnings are errors, the next call goes on
                    warnings.warn(sentence, BelatedWarning, stacklevel=stacklevel)

    @property
    def outcome(self) -> Scale | None:
        """The range of outcomes in the user's units, if there is one."""
        return self._scale

    @property
    def rounds(self) -> int:
        """Decisions made."""
        if self._busy:
            self._recover()
        return self._round

    @property
    def outstanding(self) -> int:
        """Decisions still waited for, skipped ones not among them."""
        if not self._tuned.learner.keeps_skipped:
            return len(self._slots)
        self._catch_up()
        return int(self._run.clock["outstanding"][0])

    @property
    def warnings_by_kind(self) -> dict[str, str]:
        self._catch_up()
        learner, clock, memory = self._tuned.learner, self._run.clock, self._run.memory
        learned = self._round - len(self._slots) - (0 if learner.keeps_skipped else self.skipped)
        found: dict[str, str | None] = {}
        if learner.fair_arrivals:
            longest = int(clock["longest_delay"][0])
            old = max(self._round - warning.age_of_missing(longest), 0)  # the newest round of that age
            young = sum(1 for _ in takewhile(lambda number: number > old, reversed(self._slots)))
            # a learner that has skipped a decision and keeps it does not hold its outcome for missing
            kept = int(np.count_nonzero((memory["older"] == rounds.KEPT) & (memory["round"] <= old)))
            missing = len(self._slots) - young - kept + self._missed_until(old)
            found["missing"] = warning.about_missing(self.learner, longest, old, missing, learned)
        if learner.patience is not None:
            found["patience"] = warning.about_patience(self.learner, self.patience, learned + self._late, self._late)
        return {kind: sentence for kind, sentence in found.items() if sentence}

    def __repr__(self) -> str:
        return (
            f"Bandit({len(self._labels)} arms, learner={self.learner!r}, rounds={self.rounds}, "
            f"outstanding={self.outstanding}, skipped={self.skipped})"
        )

    def _repr_html_(self) -> str:
        p, estimates = self.distribution, self.loss_estimates
        rows = [[str(self._labels[k]), number(p[k]), number(estimates[k])] for k in largest(p)]
        if len(rows) < len(self._labels):
            rows.append(["…", "", ""])
        return html_table(repr(self), ["arm", "probability", "loss estimate"], rows)

    def __reduce__(self) -> Any:
        return Bandit.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Return everything, the generator included, to go on exactly from here."""
        self._catch_up()
        run = self._run
        header = {
            "arms": self._labels,
            "learner": self._tuned.learner.name,
            "parameters": dict(self._tuned.values),
            "generator": snapshot.generator_state(self._generator),
            "draws": self._draws,
            "warned": self._warned,
            "late": self._late,
            **snapshot.settings_of_run(self._tuned.share_floor),
            **snapshot.arrangement(self._roster, self._limits),
        }
        if self._scale is not None:
            header |= {"outcome": asdict(self._scale), "clipped": self.clipped}
        arrays = {
            "state": run.state,
            "clock": rounds.counters(run.clock),
            "memory": run.memory,
            "distribution": run.p,
            "missed": np.frombuffer(bytes(self._missed), dtype=np.uint8),
        }
        header["outcomes"], kept = self._outcomes.to_arrays()
        return snapshot.pack(header, arrays | kept)

    @classmethod
    def from_bytes(cls, blob: bytes, learner: Learner | None = None) -> "Bandit":
        """Go on from a snapshot. A learner that is not in the catalogue must be given again."""
        header, arrays = snapshot.unpack(blob)
        if learner is not None and learner.name != header["learner"]:
            raise SnapshotError(f"the snapshot is of learner {header['learner']!r}, not of {learner.name!r}")
        try:
            settings = snapshot.tuning(header)
            tuned = learners.tune(learner or learners.find(header["learner"]), **settings)
        except ValueError as error:
            raise SnapshotError(f"the snapshot is of an unregistered learner; pass learner=: {error}") from error
        roster, limits = snapshot.roster_of(header, len(header["arms"])), snapshot.limits_of(header)
        n_arms = len(roster.present)
        fits = tuned.learner.fits(arrays["state"], n_arms)
        snapshot.check_sizes(arrays, n_arms, tuned.learner.name, fits, tuned.learner.size(n_arms))
        clock = rounds.clock_of(arrays["clock"])
        tuned.connect(clock, n_arms)
        bandit = cls.__new__(cls)
        run = Run(arrays["state"], tuned.params, clock, arrays["memory"], arrays["distribution"])
        bandit._set(tuned, header["arms"], roster, run)
        bandit._scale = Scale(**header["outcome"]) if "outcome" in header else None
        bandit.clipped = header.get("clipped", 0)
        bandit._missed = bytearray(arrays["missed"].tobytes())
        bandit._missed_end = 8 * len(bandit._missed)
        late = 0 if tuned.learner.keeps_skipped else bandit.skipped - bandit._missed_until(bandit._round)
        bandit._late = header.get("late", late)
        bandit._warned = header.get("warned", [])
        if "outcomes" in header:
            bandit._set_outcomes(Outcomes.from_arrays(header["outcomes"], arrays, roster.present))
        if limits:
            bandit.set_limits(limits)
        bandit._draws = header["draws"]
        bandit._generator = snapshot.generator_from(header["generator"])
        return bandit
