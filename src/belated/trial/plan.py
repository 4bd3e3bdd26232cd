"""Plans: what is asked of a trial, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import learners as catalogue
from belated.delays import Delays
from belated.environments.environment import check_arms
from belated.environments.stochastic import shares
from belated.errors import InvalidValue, check_count, check_positive, unknown
from belated.learners import TunedLearner
from belated.simulation.replication import Job, check_job
from belated.trial.accrual import InPatients
from belated.trial.patients import Patients

STOPS = ("win", "never")
FIXED = "fixed randomisation"
DEFAULT_LEARNER = "guarded"


@dataclass(frozen=True)
class Plan:
    """A trial as it is planned, and how to simulate it. `design` says what each is."""

    rates: Sequence[float]
    patients: int
    accrual: float = 1.0
    delay: Any = "none"
    learner: Any = DEFAULT_LEARNER
    share_floor: float | None = None
    stop: str = "win"
    look_every: int | None = None
    alpha: float = 0.05
    simulations: int = 2000
    seed: int = 0
    tuned: TunedLearner = field(init=False)
    law: InPatients = field(init=False)
    """The delays, in patients."""

    def __post_init__(self) -> None:
        rates = shares("rates", self.rates)
        check_arms(len(rates))
        if len(set(rates)) == 1:
            raise InvalidValue(
                f"rates is {list(rates)}, the same for all arms; an arm that is better than another is needed (the"
                " null, where all have the control's rate, is simulated in any case)",
                "rates",
            )
        if rates.count(max(rates)) > 1:
            raise InvalidValue(
                f"rates is {list(rates)}, where more than one arm has the largest, {max(rates):g}; one best arm is"
                " needed, if only by a little",
                "rates",
            )
        check_count("patients", self.patients, least=2)
        accrual = check_positive("accrual", self.accrual)
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, Real) or not 0.0 < float(self.alpha) <= 0.5:
            raise InvalidValue(f"alpha is {self.alpha!r}; a number above 0, at most 0.5, is needed", "alpha")
        if self.stop not in STOPS:
            raise unknown("stop", self.stop, STOPS)
        if self.look_every is not None:
            if self.stop == "never":
                raise InvalidValue(
                    f"look_every is {self.look_every!r}, but stop is 'never': there is one analysis, at the end",
                    "look_every",
                )
            if check_count("look_every", self.look_every) > self.patients:
                raise InvalidValue(
                    f"look_every is {self.look_every}; at most the number of patients, {self.patients}, is needed",
                    "look_every",
                )
        check_count("simulations", self.simulations)
        check_count("seed", self.seed, least=0)
        for name, value in (
            ("rates", rates),
            ("accrual", accrual),
            ("delay", _law(self.delay)),
            ("alpha", float(self.alpha)),
        ):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "tuned", self._tuned())
        object.__setattr__(self, "law", InPatients(self.delay, accrual))
        check_job(self.job(self.rates))

    def _tuned(self) -> TunedLearner:
        if self.share_floor is None:
            return catalogue.tune(self.learner)
        most = 1.0 / len(self.rates)
        floor = self.share_floor
        if isinstance(floor, bool) or not isinstance(floor, Real) or not 0.0 <= float(floor) <= most:
            raise InvalidValue(
                f"share_floor is {floor!r}; a number from 0 to {most:g}, the share of an arm if all are equal, is"
                " needed",
                "share_floor",
            )
        return catalogue.tune(self.learner, share_floor=float(floor))

    @property
    def n_arms(self) -> int:
        return len(self.rates)

    @property
    def null_rates(self) -> tuple[float, ...]:
        """All arms at the control's rate."""
        return (self.rates[0],) * self.n_arms

    @property
    def best(self) -> int:
        """The arm with the largest rate."""
        return int(np.argmax(self.rates))

    @property
    def compared(self) -> int:
        """The arm whose difference to the control is estimated: the best one, or the best of the others."""
        return 1 + int(np.argmax(self.rates[1:]))

    @cached_property
    def looks(self) -> NDArray[np.int64]:
        """After how many patients the outcomes are looked at, while patients are enrolled."""
        if self.stop == "never":
            return np.empty(0, dtype=np.int64)
        step = self.look_every or max(1, round(self.patients / 100))
        return np.arange(step, self.patients + 1, step, dtype=np.int64)

    def job(self, rates: Sequence[float]) -> Job:
        """Return what a simulation is to play at these rates: the learner first, then fixed randomisation."""
        return Job(
            learners=(self.tuned, catalogue.tune("uniform")),
            environment=Patients(rates),
            delays=self.law,
            rounds=self.patients,
            seed=self.seed,
            checkpoints=np.array([self.patients], dtype=np.int64),
            keep_trace=True,
        )


def _law(delay: Any) -> Delays:
    """Return the law of delay that is asked for."""
    try:
        return Delays.find(delay)
    except InvalidValue as error:
        name = delay.partition(":")[0] if isinstance(delay, str) else ""
        if name in Delays.members:
            raise
        message = f"delay must be a whole number of units of time, such as 14, or a law of delay: {error}"
        raise InvalidValue(message, "delay") from error
