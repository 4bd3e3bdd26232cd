"""Worlds: what comes of a patient on each arm, and when. Rates and delays are assumed, or they are those of data."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from belated.delays import Delays, Own
from belated.environments import Environment, Public, Resampled
from belated.environments.environment import check_arms
from belated.environments.stochastic import shares
from belated.errors import InvalidValue, unknown
from belated.templates.display import shortened
from belated.trial.accrual import InPatients
from belated.trial.patients import Patients


class World(ABC):
    """What the patients of a trial meet. The control is arm 0."""

    field: str
    """By what it was given, for errors."""
    rates: tuple[float, ...]
    """The success rate of each arm."""
    labels: tuple[str, ...] = ()
    """Of the arms; none where they have none."""
    delay: Delays
    """How long outcomes take."""
    unit: str = "unit of time"
    title: str
    """What a prompt shows of it."""

    @abstractmethod
    def play(self, accrual: float) -> tuple[Environment, Delays]:
        """Return outcomes and delays as a simulation takes them, counted in patients, with so many in a unit of time.

        The delays of all arms are drawn beforehand, as their outcomes are.
        """

    @abstractmethod
    def null(self) -> "World":
        """Return the world in which all arms are as the control is."""

    @property
    def n_arms(self) -> int:
        return len(self.rates)

    @property
    def best(self) -> int:
        """The arm with the largest rate."""
        return int(np.argmax(self.rates))

    @property
    def compared(self) -> int:
        """The arm whose difference to the control is estimated: the best one, or the best of the others."""
        return 1 + int(np.argmax(self.rates[1:]))

    @property
    def rates_text(self) -> str:
        """The rates, with the arms' labels where there are any: `success rates 0.3, 0.5`."""
        rates = [f"{rate:.3g}" if self.labels else f"{rate:g}" for rate in self.rates]
        named: Iterable[str] = map(" ".join, zip(self.labels, rates, strict=True)) if self.labels else rates
        return f"success rates {shortened(named) if self.labels else ', '.join(named)}"

    @property
    def best_text(self) -> str:
        """What sentences call the best arm."""
        return f"the best arm ({self.labels[self.best]})" if self.labels else "the best arm"

    def check_best(self) -> Self:
        """Return the world, if one arm is the best."""
        if len(set(self.rates)) == 1:
            raise InvalidValue(
                f"{self._given()}, the same for all arms; an arm that is better than another is needed (the null, where"
                " all have the control's rate, is simulated in any case)",
                self.field,
            )
        if self.rates.count(max(self.rates)) > 1:
            raise InvalidValue(
                f"{self._given()}, where more than one arm has the largest, {max(self.rates):g}; one best arm is"
                " needed, if only by a little",
                self.field,
            )
        return self

    def _given(self) -> str:
        return f"{self.field} is {list(self.rates)}"


class Assumed(World):
    """Success rates and a law of delay that somebody assumes."""

    field = "rates"

    def __init__(self, rates: Sequence[float], delay: Any = "none") -> None:
        self.rates = shares("rates", rates)
        check_arms(len(self.rates))
        self.delay = _law(delay)
        self.title = f"rates {', '.join(f'{rate:g}' for rate in self.rates)}; {self.delay.title}"

    def play(self, accrual: float) -> tuple[Environment, Delays]:
        return Patients(self.rates), InPatients(self.delay, accrual)

    def null(self) -> World:
        return Assumed((self.rates[0],) * self.n_arms, self.delay)


class Observed(World):
    """Outcomes that were observed, with their delays: each patient has those of one of the arm's in the data."""

    field = "outcomes"

    def __init__(self, outcomes: Any, control: Any = None) -> None:
        given = Environment.find(outcomes)
        if not isinstance(given, Public | Resampled):
            raise InvalidValue(
                f"outcomes is {given!r}; outcomes that were observed are needed, such as resampled:file=log.csv or"
                " public:data=actg175",
                "outcomes",
            )
        if given.accrual not in (None, 1.0):
            raise InvalidValue(
                f"outcomes has an accrual of its own, {given.accrual:g}; that of the trial counts, leave this one out",
                "outcomes",
            )
        drawn = copy.copy(given.resampled) if isinstance(given, Public) else given
        drawn.source = given.source
        _check_outcomes(drawn)
        self.drawn = drawn if control is None else drawn.led_by(_label(drawn, control))
        self.source = given.source
        self.delay = Own.of(self.drawn)
        self.labels = tuple(map(str, self.drawn.labels))
        self.rates = tuple((1.0 - self.drawn.means).tolist())
        self.unit = given.unit or "unit of time"
        self.title = f"outcomes and delays as in {self.source}"

    def play(self, accrual: float) -> tuple[Environment, Delays]:
        environment = self.drawn.at(accrual)
        return environment, Own.of(environment)

    def null(self) -> World:
        same = copy.copy(self)
        same.drawn = self.drawn.only(self.drawn.labels[0])
        same.delay = Own.of(same.drawn)
        same.rates = (self.rates[0],) * self.n_arms
        return same

    def _given(self) -> str:
        return f"outcomes is {self.source}, with {self.rates_text}"


def world_of(rates: Any, delay: Any, outcomes: Any, control: Any) -> World:
    """Return the world that is asked for: either rates with a delay, or outcomes with a control."""
    if outcomes is None:
        if rates is None:
            raise InvalidValue("neither rates nor outcomes are given; one of them is needed", "rates")
        if control is not None:
            raise InvalidValue(f"control is {control!r}, but arms have no labels; the first rate is its own", "control")
        return Assumed(rates, "none" if delay is None else delay)
    for name, value in (("rates", rates), ("delay", delay)):
        if value is not None:
            raise InvalidValue(
                f"{name} is {value!r}, and outcomes are given, too, which have rates and delays of their own; one of"
                " the two is needed",
                name,
            )
    return Observed(outcomes, control)


def _check_outcomes(drawn: Resampled) -> None:
    """Refuse outcomes that a trial cannot have."""
    other = drawn.losses[(drawn.losses != 0.0) & (drawn.losses != 1.0)]
    if other.size:
        found = 1.0 - other[0]
        raise InvalidValue(
            f"{drawn.source} has {other.size:,} outcomes other than 0 and 1, the first a reward of {found:g}; success"
            " (1) or failure (0) is needed",
            "outcomes",
        )
    if drawn.loses_outcomes:
        raise InvalidValue(
            f"{drawn.source} has outcomes that never come; outcomes that all come are needed: with a deadline, a"
            " missing one counts as a failure after that time",
            "outcomes",
        )


def _label(drawn: Resampled, control: Any) -> Any:
    """Return the label of the control, which may be given as it is written."""
    for label in drawn.labels:
        if control in (label, str(label)):
            return label
    raise unknown("control", control, map(str, drawn.labels))


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
