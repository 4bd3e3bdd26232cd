"""A learner at work, live: its arms and their limits, and what can be read of it, whoever remembers its decisions."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from belated import learners
from belated.core.kernels import PATIENCE, entry
from belated.core.rounds import NONE, Run, rearm_memory
from belated.errors import InvalidValue
from belated.learners import Learner, TunedLearner
from belated.learners.learner import Value
from belated.live.labels import Arm
from belated.live.limits import Limits
from belated.live.roster import Roster


def tune_live(learner: str | Learner | TunedLearner, **parameters: Value) -> TunedLearner:
    """Return a learner with parameters, one that can decide live."""
    tuned = learners.tune(learner, **parameters)
    if isinstance(tuned, learners.PythonLearner):
        raise InvalidValue(
            f"learner {tuned.label!r} is plain Python, for simulations; live, call it yourself", "learner"
        )
    if tuned.settled:
        raise InvalidValue(
            f"settled is {tuned.settled}, which is for simulations; live, observe outcomes when they are settled,"
            ' or let an experiment of the service learn at its deadline: "learn": "deadline"',
            "settled",
        )
    return tuned


class Running:
    """The arrays of a learner at work, and what they say."""

    _tuned: TunedLearner
    _run: Run
    _roster: Roster
    _limits: Limits

    def _catch_up(self) -> None:
        """Learn from what was left for later, if anything was."""

    def _rearranged(self, roster: Roster, limits: Limits, names: Sequence[Arm]) -> Run:
        """Return the arrays for other arms or limits, names being what limits call the arms. Nothing is changed yet."""
        tuned, run = self._tuned, self._run
        playing = roster.labels(names)
        tuned.check_arms(len(playing))
        limits.check_arms(names)
        bounds = limits.bounds(playing, tuned.share_floor)
        params = tuned.params
        clock = run.clock.copy()
        clock["limits_place"] = params.size if bounds.lows else NONE
        clock["share_floor"] = bounds.uniform
        run = Run(run.state, np.concatenate([params, bounds.lows, bounds.highs]), clock, run.memory, run.p)
        if roster.present == self._roster.present:
            return run
        kept = roster.kept(self._roster)
        state = tuned.learner.rearmed(run.state, run.p.size, kept)
        clock["pages"] = tuned.learner.page_count(state)
        clock["patience"] = 0  # it may be less with other arms
        memory = run.memory.copy()
        rearm_memory(memory, kept, run.p.size)
        p = np.where(kept == NONE, 0.0, run.p[kept]) if clock["round"][0] else np.full(kept.size, 1.0 / kept.size)
        return run._replace(state=state, memory=memory, p=p)

    @property
    def limits(self) -> Limits:
        """The limits of the shares of arms; nothing is limited at first."""
        return self._limits

    @property
    def learner(self) -> str:
        """The learner's name, with the parameters that were set."""
        return self._tuned.label

    @property
    def distribution(self) -> NDArray[np.float64]:
        """The distribution that the last decision was drawn from, by arm; uniform before the first. Arms that have come
        since, or have left, have 0.
        """
        return self._roster.by_arm(self._run.p, 0.0)

    @property
    def loss_estimates(self) -> NDArray[np.float64]:
        """What the learner holds against each arm: estimates of its total loss, up to a constant common to all; nan for
        arms that have left.
        """
        self._catch_up()
        losses = self._run.state[self._tuned.learner.losses_at.places(self._run.p.size)]
        return self._roster.by_arm(losses, math.nan)

    @property
    def cumulative_outstanding(self) -> int:
        """D_t: the numbers of outstanding decisions with which the rounds so far were opened, summed up."""
        return int(self._run.clock["cumulative_outstanding"][0])

    @property
    def patience(self) -> float:
        """How many rounds the learner waits for an outcome before it skips the decision; inf if it never does."""
        patience = self._tuned.learner.patience
        if patience is None:
            return math.inf
        self._catch_up()
        return float(entry(patience, PATIENCE)(self._run.state, self._run.params))

    @property
    def drift(self) -> float:
        """The largest x_{t,I_s} / max(x_{s,I_s}, lambda_{s,t}) at an arrival: above 4 the paper's proof is broken."""
        self._catch_up()
        return float(self._run.clock["drift"][0])

    @property
    def skipped(self) -> int:
        """Decisions given up on."""
        return int(self._run.clock["skips"][0])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the learner cannot be right, in sentences; nothing, if all looks well."""
        return tuple(self.warnings_by_kind.values())

    @property
    def warnings_by_kind(self) -> dict[str, str]:
        """The same by what it is about. `missing`: many old decisions have no outcome, and the learner takes those that
        arrive for a fair sample. `patience`: most outcomes come after the learner has skipped their decisions.
        """
        raise NotImplementedError
