"""A learner at work, live: what can be read of it, whoever remembers its decisions."""

import math

import numpy as np
from numpy.typing import NDArray

from belated import learners
from belated.core.kernels import PATIENCE, entry
from belated.core.rounds import Run
from belated.errors import InvalidValue
from belated.learners import Learner, TunedLearner
from belated.learners.learner import Value


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

    def _catch_up(self) -> None:
        """Learn from what was left for later, if anything was."""

    @property
    def learner(self) -> str:
        """The learner's name, with the parameters that were set."""
        return self._tuned.label

    @property
    def distribution(self) -> NDArray[np.float64]:
        """The distribution that the last decision was drawn from, by arm; uniform before the first."""
        return self._run.p.copy()

    @property
    def loss_estimates(self) -> NDArray[np.float64]:
        """What the learner holds against each arm: estimates of its total loss, up to a constant common to all."""
        self._catch_up()
        return self._run.state[self._tuned.learner.losses_at.places(self._run.p.size)]

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
