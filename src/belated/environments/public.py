"""Losses from public data that other packages carry."""

from functools import cached_property
from typing import Any

import numpy as np

from belated.environments.environment import Environment, Filled, Floats, Rounds
from belated.environments.resampled import Integers, Resampled
from belated.errors import check_positive
from belated.logs.public import find_data


class Public(Environment):
    """Outcomes of a real experiment, drawn again by arm, with their delays: see `Resampled` and `belated.logs.public`.

    Parameters
    ----------
    data
        `open-bandit-all`, `open-bandit-men`, `open-bandit-women`, `actg175` or `rossi`. The data are read when they are
        first needed.
    accrual
        Decisions in a unit of time, where the data say when outcomes came: a day in actg175, a week in rossi.
    """

    def __init__(self, data: str, accrual: float = 1.0) -> None:
        self.data = data
        self.accrual = check_positive("accrual", accrual)
        self.brings_delays = find_data(data).has_delays

    def __repr__(self) -> str:
        return f"Public({self.data!r}, accrual={self.accrual:g})"

    @property
    def title(self) -> str:
        pace = f", {self.accrual:.3g} a {find_data(self.data).unit}" if self.brings_delays else ""
        return f"outcomes as in {self.data}{pace}"

    @property
    def source(self) -> str:
        """Where the outcomes are from."""
        return self.data

    @cached_property
    def resampled(self) -> Resampled:
        """The environment that draws from the data."""
        return Resampled(find_data(self.data).load(), accrual=self.accrual if self.brings_delays else None)

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return self.resampled.n_arms

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.resampled.labels

    @property
    def unit(self) -> str | None:
        """In which the data say how long outcomes took; None where they do not say."""
        return find_data(self.data).unit

    @property
    def loses_outcomes(self) -> bool:
        """Whether some outcomes never come."""
        return False

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        return self.resampled.fill(rng, rounds)

    def fill_with_delays(self, rng: np.random.Generator, rounds: Rounds) -> tuple[Floats, Floats, Integers]:
        return self.resampled.fill_with_delays(rng, rounds)
