"""The problem that a plan asks to simulate: losses, delays, and in which words to speak of them."""

from contextlib import closing
from typing import NamedTuple

from belated.delays import ByLoss, Constant, Delays, Geometric, Never, NoDelay
from belated.environments import Bernoulli, Environment, Resampled
from belated.errors import InvalidValue
from belated.ledger import open_ledger
from belated.service.simulate.past import past_of
from belated.service.simulate.plan import Plan
from belated.service.words import DAY


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


def problem_of(plan: Plan) -> Problem:
    """Return what a plan asks to simulate."""
    return _recorded(plan) if plan.experiment else _guessed(plan)


def _guessed(plan: Plan) -> Problem:
    assert plan.a_day is not None
    mean = plan.delay * plan.a_day
    good = Geometric(mean) if mean > 0.0 else NoDelay()
    delays: Delays = good
    if plan.bad == "deadline":
        delays = ByLoss(good, Constant(max(1, round(plan.deadline * plan.a_day))))
    elif plan.bad == "never":
        delays = ByLoss(good, Never())
    environment = Bernoulli([1.0 - arm.rate for arm in plan.arms])
    best = max(plan.arms, key=lambda arm: arm.rate)
    return Problem(environment, delays, plan.a_day, best.label, "good outcomes")


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
    return Problem(environment, None, a_day, best, unit, size, past.notes)
