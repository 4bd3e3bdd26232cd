"""The problem that a plan asks to simulate: losses, delays, and in which words to speak of them."""

import math
from contextlib import closing
from typing import NamedTuple

import numpy as np

from belated import learners
from belated.delays import ByLoss, Constant, Delays, Empirical, Geometric, Never, NoDelay
from belated.environments import Bernoulli, Environment, Resampled
from belated.errors import InvalidValue
from belated.learners import TunedLearner
from belated.ledger import open_ledger
from belated.service.simulate.past import past_of
from belated.service.simulate.plan import LEARNERS, Plan
from belated.service.words import DAY

QUANTILES = 10_000
LATE = 0.005
"""The share of good outcomes after the deadline that is worth a word."""


class Problem(NamedTuple):
    """What is simulated."""

    environment: Environment
    delays: Delays | None
    """None: the environment's own."""
    a_day: float
    """Decisions in a day."""
    best: str
    """The best arm."""
    unit: str
    """What is lost, in a word or two."""
    size: float = 1.0
    """How much of that a loss of 1 is."""
    notes: tuple[str, ...] = ()
    learner: TunedLearner | None = None
    """The experiment's own, where it has one that is not simulated anyway."""


def problem_of(plan: Plan) -> Problem:
    """Return what a plan asks to simulate."""
    return _recorded(plan) if plan.experiment else _guessed(plan)


def _guessed(plan: Plan) -> Problem:
    assert plan.a_day is not None
    mean = plan.delay * plan.a_day
    good: Delays = Geometric(mean) if mean > 0.0 else NoDelay()
    delays, share = good, 1.0
    notes: tuple[str, ...] = ()
    if plan.bad == "deadline":
        deadline = max(1, round(plan.deadline * plan.a_day))
        good, share = in_time(mean, deadline)
        delays = ByLoss(good, Constant(deadline))
        if share < 1.0 - LATE:
            notes = (f"{1.0 - share:.0%} of good outcomes come after the deadline, and count as bad ones.",)
    elif plan.bad == "never":
        delays = ByLoss(good, Never())
    environment = Bernoulli([1.0 - share * arm.rate for arm in plan.arms])
    best = max(plan.arms, key=lambda arm: arm.rate)
    return Problem(environment, delays, plan.a_day, best.label, "good outcomes", notes=notes)


def in_time(mean: float, deadline: int) -> tuple[Delays, float]:
    """Return the law of geometric delays that are below a deadline, and how many are: by the middles of QUANTILES equal
    parts of the law.
    """
    if mean <= 0.0:
        return NoDelay(), 1.0
    log_ratio = math.log(mean / (1.0 + mean))
    share = -math.expm1(deadline * log_ratio)
    parts = (np.arange(QUANTILES) + 0.5) / QUANTILES
    delays = np.minimum(np.floor(np.log1p(-share * parts) / log_ratio), deadline - 1)
    return Empirical(delays.astype(np.int64).tolist()), share


def _recorded(plan: Plan) -> Problem:
    """Return a problem whose outcomes and delays are drawn from what an experiment has on record."""
    with closing(open_ledger(plan.store, read_only=True)) as ledger:
        record = ledger.find(plan.experiment)
        if record is None:
            raise InvalidValue(f"there is no experiment {plan.experiment!r}", "experiment")
        past = past_of(ledger, record)
    a_day = past.a_day if plan.a_day is None else plan.a_day
    environment = Resampled(past.log, accrual=a_day / DAY)
    scale = record.settings.scale
    unit, size = ("of reward", 1.0) if scale is None else ("of value", scale.highest - scale.lowest)
    best = str(past.log.labels[int(environment.means.argmin())])
    own = learners.tune(record.settings.learner, **record.settings.parameters)
    return Problem(environment, None, a_day, best, unit, size, past.notes, None if own.label in LEARNERS else own)
