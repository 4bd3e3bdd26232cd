"""Plans: what is asked of a trial, checked."""

from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import learners as catalogue
from belated.errors import InvalidValue, check_count, check_positive, unknown
from belated.learners import TunedLearner
from belated.simulation.replication import Job, check_job
from belated.trial.world import World

STOPS = ("win", "never")
FIXED = "fixed randomisation"
DEFAULT_LEARNER = "guarded"


@dataclass(frozen=True)
class Plan:
    """A trial as it is planned, and how to simulate it. `design` says what each is."""

    world: World
    """What patients meet."""
    patients: int
    accrual: float = 1.0
    learner: Any = DEFAULT_LEARNER
    share_floor: float | None = None
    stop: str = "win"
    look_every: int | None = None
    alpha: float = 0.05
    simulations: int = 2000
    seed: int = 0
    tuned: TunedLearner = field(init=False)

    def __post_init__(self) -> None:
        self.world.check_best()
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
        for name, value in (("accrual", accrual), ("alpha", float(self.alpha)), ("tuned", self._tuned())):
            object.__setattr__(self, name, value)
        check_job(self.job)

    def _tuned(self) -> TunedLearner:
        if self.share_floor is None:
            return catalogue.tune(self.learner)
        most = 1.0 / self.world.n_arms
        floor = self.share_floor
        if isinstance(floor, bool) or not isinstance(floor, Real) or not 0.0 <= float(floor) <= most:
            raise InvalidValue(
                f"share_floor is {floor!r}; a number from 0 to {most:g}, the share of an arm if all are equal, is"
                " needed",
                "share_floor",
            )
        return catalogue.tune(self.learner, share_floor=float(floor))

    @cached_property
    def looks(self) -> NDArray[np.int64]:
        """After how many patients the outcomes are looked at, while patients are enrolled."""
        if self.stop == "never":
            return np.empty(0, dtype=np.int64)
        step = self.look_every or max(1, round(self.patients / 100))
        return np.arange(step, self.patients + 1, step, dtype=np.int64)

    @cached_property
    def job(self) -> Job:
        """What a simulation is to play: the learner first, then fixed randomisation."""
        return self._job(self.world)

    @cached_property
    def null_job(self) -> Job:
        """The same under the null."""
        return self._job(self.world.null())

    def _job(self, world: World) -> Job:
        environment, delays = world.play(self.accrual)
        return Job(
            learners=(self.tuned, catalogue.tune("uniform")),
            environment=environment,
            delays=delays,
            rounds=self.patients,
            seed=self.seed,
            checkpoints=np.array([self.patients], dtype=np.int64),
            keep_trace=True,
        )
