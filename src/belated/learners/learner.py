"""What a learner is: three compiled functions, a table of parameters, and what one should know about it.

    decide(state, params, outstanding, p) -> mark
        opens a round: writes the distribution into p (n_arms); outstanding is the number of decisions still waited for;
        the mark is remembered with the decision.
    learn(state, params, arm, loss, propensity, mark)
        an outcome arrives, with the propensity and the mark remembered from its decision.
    patience(state, params) -> float
        how many rounds to wait for an outcome, asked when a round closes; it may grow, never shrink. A learner that
        never skips has none.

state is a vector of as many numbers as the learner asks for, zeros at first; learners on the FTRL solver share its
layout (`belated.simplex`). params holds the parameters' values in the order of the table. Drawing from p, counting,
remembering and skipping are not the learner's business: see `belated.rounds`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.errors import unknown
from belated.kernels import DECIDE, LEARN, PATIENCE, address
from belated.layout import Layout


@dataclass(frozen=True)
class Parameter:
    """A number that tunes a learner: its default and the range of its values, ends included."""

    name: str
    default: float
    low: float
    high: float
    summary: str

    def check(self, value: object) -> float:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not (self.low <= number <= self.high):
            raise ValueError(f"{self.name} is {value!r}; a number from {self.low:g} to {self.high:g} is needed")
        return number


@dataclass(frozen=True)
class Learner:
    """One algorithm of the catalogue."""

    name: str
    summary: str
    paper: str
    size: Callable[[int], int] = field(repr=False)
    """How many numbers its state has for so many arms."""
    decide: Callable[..., Any] = field(repr=False)
    learn: Callable[..., Any] = field(repr=False)
    patience: Callable[..., Any] | None = field(default=None, repr=False)
    losses_at: Layout = field(default_factory=Layout)
    """Where the loss estimates stand in its state."""
    parameters: tuple[Parameter, ...] = ()
    needs: tuple[str, ...] = ()
    """What it must know in advance; nothing, for most."""

    def new_state(self, n_arms: int) -> NDArray[np.float64]:
        return np.zeros(self.size(n_arms))

    def with_parameters(self, **values: float) -> "TunedLearner":
        """This learner with some parameters set; the others keep their defaults."""
        table = {parameter.name: parameter for parameter in self.parameters}
        for name in values:
            if name not in table:
                raise unknown(f"parameter of {self.name}", name, table)
        checked = {name: table[name].check(value) for name, value in values.items()}
        return TunedLearner(self, checked)

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Where its compiled functions are in this process: (decide, learn, patience); 0 for no patience."""
        return _addresses(self.decide, self.learn, self.patience)


@cache
def _addresses(decide: Any, learn: Any, patience: Any) -> tuple[int, int, int]:
    return address(decide, DECIDE), address(learn, LEARN), address(patience, PATIENCE) if patience else 0


@dataclass(frozen=True)
class TunedLearner:
    """A learner and the parameters that were set."""

    learner: Learner
    values: Mapping[str, float]

    @property
    def label(self) -> str:
        """The learner's name, with the parameters that were set: `robust:delay_constant=1`."""
        settings = ",".join(
            f"{name}={int(value) if value.is_integer() else value}" for name, value in self.values.items()
        )
        return f"{self.learner.name}:{settings}" if settings else self.learner.name

    @property
    def params(self) -> NDArray[np.float64]:
        return np.array(
            [self.values.get(parameter.name, parameter.default) for parameter in self.learner.parameters],
            dtype=np.float64,
        )
