"""The learner contract: two to five compiled functions, a rule for arms that come and go, parameters, declarations.

    decide(state, params, outstanding, p) -> mark
        opens a round and writes the distribution into p (n_arms numbers); outstanding is the number of decisions
        waited for; the mark is remembered with the decision.
    chosen(state, params, arm, propensity, mark) -> mark
        an arm was drawn, with this propensity: the mark returned is the one that is remembered. Most learners need not
        know and have no chosen.
    learn(state, params, arm, loss, propensity, mark)
        an outcome arrives, with the propensity and the mark remembered from its decision.
    patience(state, params) -> float
        how many rounds to wait for an outcome, asked when a round closes. It may grow and never shrinks, except that it
        may come down from inf. A learner that never skips has no patience.
    forget(state, params, mark)
        a decision was skipped: the learner may discard what it keeps about it. A learner that keeps nothing has no
        forget; for a learner with keeps_skipped it is not called.
    rearm(state, n_arms, kept) -> state
        arms come and go: the state for the new arms. This one is plain Python. An arm that nobody knows gets a fair
        chance at once, what is known of the others stays. A learner that cannot has `fixed_arms`, the reason.

state is a vector of as many numbers as the learner asks for, zeros at first; learners on the FTRL solver share its
layout (`belated.core.ftrl`). params holds the values of the parameters in the order of the table. Drawing from p,
counting, remembering and skipping happen outside the learner, in `belated.core.rounds`.

A learner that needs more declares it:

- knowledge, such as the horizon: a parameter whose default is KNOWN. Live, the caller must give it. In simulations
  `belated.simulation.oracle` gives it, only to learners that declare it.
- the delay of each decision when it is made: `delay_at`, a place in the state where it is written before decide.
- random numbers of its own: `draw_at`, where the draw of the round is written before decide. `belated.core.random`
  makes more numbers from it; the mark carries them to learn.
- how long ago the decision was made whose outcome arrives: `round_at`, where its round is written before learn.
- copies of a base learner, or more to remember about a decision than a mark: `pages` (`belated.core.pages`).
- outcomes of skipped decisions, if they come after all: `keeps_skipped`.

A learner that takes the outcomes that arrive for a fair sample of all, as one does that averages them, declares that,
too: `fair_arrivals`. Bandits warn where many outcomes are missing. One that plays an arm with certainty in every round,
whatever its parameters, says `deterministic`.

Every learner takes two settings more, `settled` and `share_floor`: they are about the run, not about the algorithm, so
learners do not declare them and never see them (`TunedLearner`). With a floor, the arm that is drawn need not be one
that the learner would play, and the propensity is the one with the floor.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.core import ftrl, pages
from belated.core.kernels import CHOSEN, DECIDE, FORGET, LEARN, PATIENCE, address
from belated.core.layout import Layout
from belated.core.rounds import NONE
from belated.errors import InvalidValue, check_count, unknown

Value = float | str
Rearm = Callable[[NDArray[np.float64], int, NDArray[np.int64]], NDArray[np.float64]]

FUNCTIONS = {"decide": DECIDE, "chosen": CHOSEN, "learn": LEARN, "patience": PATIENCE, "forget": FORGET}
"""The compiled functions of a learner and their signatures."""

KNOWN = "known"
"""The default of a parameter that the learner must know: the caller or the simulation gives its value."""
UNKNOWN = math.nan
"""The default of a parameter that the learner need not know."""


@dataclass(frozen=True)
class Parameter:
    """A setting of a learner: a number with its default and range, ends included, or one of several words."""

    name: str
    default: Value
    low: float
    high: float
    summary: str
    choices: tuple[str, ...] = ()
    """The words allowed, where it is not a number."""

    @property
    def is_knowledge(self) -> bool:
        """Whether it is a fact about the problem, rather than a setting of the learner."""
        return self.default == KNOWN or self.default != self.default

    def check(self, value: object) -> Value:
        if self.choices:
            if value not in self.choices:
                raise unknown(self.name, str(value), self.choices, field=self.name)
            return str(value)
        if self.is_knowledge and value == KNOWN:
            return KNOWN
        if value == "unknown" and self.shown(self.default) == "unknown":
            return UNKNOWN
        try:
            number = math.nan if isinstance(value, bytes) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not (self.low <= number <= self.high):
            raise InvalidValue(
                f"{self.name} is {value!r}; a number from {self.low:g} to {self.high:g} is needed", self.name
            )
        return number

    def shown(self, value: Value) -> str:
        """Return a value as people write it."""
        if isinstance(value, str):
            return value
        return "unknown" if math.isnan(value) else str(int(value) if value.is_integer() else value)


SHARE_FLOOR = Parameter("share_floor", 0.0, 0.0, 1.0, "the least probability of every arm, at most 1 / K")
"""A setting of the run that every learner takes."""


class Gauge(NamedTuple):
    """A number in a learner's state that an audit may read, and what it is expected not to exceed."""

    name: str
    says: str
    """What is compared: "B, against sqrt(2 D_T log K / kappa)"."""
    where: str
    """Where the bound is derived."""
    at: int
    """Its place in the state."""
    allowed: Callable[[Mapping[str, float], int, float], float]
    """allowed(parameters by name, n_arms, D_T)"""


class Pages(NamedTuple):
    """Where the head of a learner's pages is in its state, and the size of a page for a number of arms."""

    at: int
    size: Callable[[int], int]


@dataclass(frozen=True, repr=False)
class Learner:
    """One algorithm of the catalogue."""

    name: str
    summary: str
    paper: str
    size: Callable[[int], int]
    """The size of its state, as a function of the number of arms."""
    decide: Callable[..., Any]
    learn: Callable[..., Any]
    chosen: Callable[..., Any] | None = None
    patience: Callable[..., Any] | None = None
    forget: Callable[..., Any] | None = None
    rearm: Rearm | None = None
    """rearm(state, n_arms, kept) -> state: the state for other arms, kept being the former number of each, -1 for one
    that comes (`belated.learners.rearm`).
    """
    fixed_arms: str = ""
    """Why arms cannot come and go, where there is no rearm."""
    losses_at: Layout = field(default_factory=Layout)
    """Where the loss estimates are in its state."""
    parameters: tuple[Parameter, ...] = ()
    draw_at: int | None = None
    delay_at: int | None = None
    round_at: int | None = None
    pages: Pages | None = None
    keeps_skipped: bool = False
    fair_arrivals: bool = False
    """Whether it takes the outcomes that arrive for a fair sample of all."""
    deterministic: bool = False
    """Whether it plays one arm with certainty in every round: its propensities are 1, and nothing can be said about the
    other arms by weighting.
    """
    gauges: tuple[Gauge, ...] = ()
    """What an audit may read of its state."""
    proof_constant: str | None = None
    """The parameter that is the constant c of the paper's proof, where its lemmas are claimed of the learner."""
    bias: str = ""
    """Why its loss estimates are biased, whatever delays depend on; nothing where they are not."""
    check: Callable[[Mapping[str, Value]], None] | None = None
    """Raises an error for parameters, given by name, that do not fit together."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What it must know, nothing for most learners. `delay`: the delay of each decision, when it is made."""
        known = tuple(parameter.name for parameter in self.parameters if parameter.default == KNOWN)
        return known + (("delay",) if self.delay_at is not None else ())

    @property
    def is_leader(self) -> bool:
        """Whether it follows the regularised leader: its state begins with that of the solver."""
        return self.losses_at == ftrl.LOSSES_AT

    def __repr__(self) -> str:
        settings = [f"{each.name}={each.shown(each.default)}" for each in self.parameters]
        return f"Learner({', '.join([repr(self.name), *settings])})"

    def new_state(self, n_arms: int) -> NDArray[np.float64]:
        state = np.zeros(self.size(n_arms))
        if self.pages:
            state[self.pages.at + pages.FIRST] = state.size
            state[self.pages.at + pages.SIZE] = self.pages.size(n_arms)
        return state

    def with_more_pages(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a state with room for twice as many pages."""
        if not self.pages:
            raise ValueError(f"{self.name} has no pages")
        first, size = (int(state[self.pages.at + place]) for place in (pages.FIRST, pages.SIZE))
        have = (state.size - first) // size
        return np.concatenate([state, np.zeros(size * max(have, 4))])

    def page_count(self, state: NDArray[np.float64]) -> int:
        """Return how many pages a state has room for."""
        if not self.pages:
            return 0
        return (state.size - int(state[self.pages.at + pages.FIRST])) // int(state[self.pages.at + pages.SIZE])

    def fits(self, state: NDArray[np.float64], n_arms: int) -> bool:
        """Return whether a state has as many numbers as one of this learner."""
        more = state.size - self.size(n_arms)
        return more == 0 or (self.pages is not None and more > 0 and more % self.pages.size(n_arms) == 0)

    def rearmed(self, state: NDArray[np.float64], n_arms: int, kept: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the state for other arms: kept has the former number of each, -1 for one that comes."""
        self.check_rearm()
        assert self.rearm is not None
        return np.ascontiguousarray(self.rearm(state, n_arms, kept), dtype=np.float64)

    def check_rearm(self) -> None:
        """Refuse if arms cannot come and go."""
        if self.rearm is None:
            reason = self.fixed_arms or "it does not say how"
            raise InvalidValue(f"learner {self.name!r} cannot change its arms: {reason}", "learner")

    def connect(self, clock: NDArray[np.void]) -> None:
        """Write the addresses of this learner's functions, in this process, into a clock."""
        for name, place in zip(FUNCTIONS, self.addresses, strict=True):
            clock[f"{name}_address"] = place
        clock["draw_place"] = NONE if self.draw_at is None else self.draw_at
        clock["delay_place"] = NONE if self.delay_at is None else self.delay_at
        clock["round_place"] = NONE if self.round_at is None else self.round_at
        clock["pages_place"] = NONE if self.pages is None else self.pages.at
        clock["keeps_skipped"] = self.keeps_skipped

    @property
    def words(self) -> tuple[str, ...]:
        """What can be set of it: its parameters, `settled` and `share_floor`."""
        return (*(parameter.name for parameter in self.parameters), "settled", SHARE_FLOOR.name)

    def with_parameters(self, settled: Value = 0, share_floor: Value = 0.0, **values: Value) -> "TunedLearner":
        """Return this learner with some parameters set; the others keep their defaults."""
        table = {parameter.name: parameter for parameter in self.parameters}
        for name in values:
            if name not in table:
                raise unknown(f"parameter of {self.name}", name, self.words, field=name)
        optional = {parameter.name for parameter in self.parameters if parameter.shown(parameter.default) == "unknown"}
        if missing := sorted(optional - values.keys()) if optional & values.keys() else []:
            given = sorted(optional & values.keys())
            raise InvalidValue(
                f"learner {self.name!r} is told {', '.join(given)} but not {', '.join(missing)};"
                " both or neither is needed",
                missing[0],
            )
        checked = {name: table[name].check(value) for name, value in values.items()}
        if self.check:
            self.check(checked)
        if isinstance(settled, float) and settled.is_integer():
            settled = int(settled)  # 1e4, and what JSON makes of whole numbers
        floor = float(SHARE_FLOOR.check(share_floor)) + 0.0  # never -0.0
        return TunedLearner(self, checked, check_count("settled", settled, least=0), floor)

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where its compiled functions are in this process, in the order of FUNCTIONS; 0 for none."""
        return _addresses(*(getattr(self, name) for name in FUNCTIONS))


@cache
def _addresses(*functions: Any) -> tuple[int, ...]:
    kinds = FUNCTIONS.values()
    return tuple(address(each, kind) if each else 0 for each, kind in zip(functions, kinds, strict=True))


@dataclass(frozen=True, repr=False)
class TunedLearner:
    """A learner and the parameters that were set."""

    learner: Learner
    values: Mapping[str, Value]
    settled: int = 0
    """How many rounds old a decision is, at least, when a simulation lets the learner hear of its outcome."""
    share_floor: float = 0.0
    """The least probability of every arm: arms are drawn from p'_i = share_floor + (1 - K share_floor) p_i."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"

    @property
    def label(self) -> str:
        """The learner's name, with the parameters that were set: `robust:delay_constant=1`."""
        table = {parameter.name: parameter for parameter in self.learner.parameters}
        settings = [f"{name}={table[name].shown(value)}" for name, value in self.values.items()]
        if self.settled:
            settings.append(f"settled={self.settled}")
        if self.share_floor:
            settings.append(f"share_floor={SHARE_FLOOR.shown(self.share_floor)}")
        return f"{self.learner.name}:{','.join(settings)}" if settings else self.learner.name

    def with_parameters(self, **values: Value) -> "TunedLearner":
        """Return the same with some more parameters set."""
        run = {"settled": self.settled, "share_floor": self.share_floor}
        return self.learner.with_parameters(**{**run, **self.values, **values})

    def check_arms(self, n_arms: int) -> None:
        """Refuse a floor that so many arms cannot all have."""
        if self.share_floor > 1.0 / n_arms:
            raise InvalidValue(
                f"share_floor is {self.share_floor!r}; a number from 0 to 1/{n_arms} is needed, as there are"
                f" {n_arms} arms",
                SHARE_FLOOR.name,
            )

    def connect(self, clock: NDArray[np.void], n_arms: int) -> None:
        """Write the addresses of the learner's functions, in this process, and the settings of the run into a clock."""
        self.check_arms(n_arms)
        self.learner.connect(clock)
        clock["share_floor"] = self.share_floor

    def value(self, parameter: Parameter) -> Value:
        return self.values.get(parameter.name, parameter.default)

    @property
    def missing(self) -> tuple[str, ...]:
        """The parameters that it must know and that have no value yet."""
        return tuple(each.name for each in self.learner.parameters if self.value(each) == KNOWN)

    @property
    def informed(self) -> tuple[str, ...]:
        """What it is told about the problem besides the outcomes, nothing for most learners."""
        told = tuple(
            each.name
            for each in self.learner.parameters
            if each.is_knowledge and each.shown(self.value(each)) != "unknown"
        )
        return told + (("delay",) if self.learner.delay_at is not None else ())

    @property
    def params(self) -> NDArray[np.float64]:
        return self.params_given({})

    @property
    def by_name(self) -> dict[str, float]:
        """The values of its parameters that are known numbers."""
        values = {each.name: self.value(each) for each in self.learner.parameters}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def params_given(self, truth: Mapping[str, float]) -> NDArray[np.float64]:
        """Return the values of all parameters as compiled functions take them, known facts from the truth."""
        numbers = []
        for parameter in self.learner.parameters:
            value = self.value(parameter)
            if value == KNOWN:
                if parameter.name not in truth:
                    raise InvalidValue(
                        f"learner {self.learner.name!r} must know {parameter.name}, {parameter.summary.split(';')[0]}:"
                        f" {parameter.name}=… is missing",
                        parameter.name,
                    )
                value = parameter.check(truth[parameter.name])
            numbers.append(parameter.choices.index(value) if isinstance(value, str) else value)
        return np.array(numbers, dtype=np.float64)
