"""Losses that are drawn anew in every round, from distributions that stay; and losses from a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from belated.environments.environment import Environment, Filled, Floats, Rounds, WithGap, check_arms
from belated.errors import InvalidValue, check_share
from belated.templates.display import shortened


def one_better(arms: int, gap: float) -> Floats:
    """Return means (1 - gap)/2 for arm 0 and (1 + gap)/2 for the others: shape (1, arms)."""
    means = np.full((1, arms), (1.0 + gap) / 2.0)
    means[0, 0] = (1.0 - gap) / 2.0
    return means


def shares(name: str, values: Any) -> tuple[float, ...]:
    """Return a list of numbers from 0 to 1 as a tuple, or raise."""
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
        raise InvalidValue(f"{name} is {values!r}; a list of numbers from 0 to 1 is needed", name)
    return tuple(check_share(f"{name}[{i}]", value) for i, value in enumerate(values))


@dataclass(frozen=True)
class Bernoulli(Environment):
    """Stochastic: losses 0 or 1, the loss of arm i is 1 with probability means[i] in every round."""

    means: Sequence[float]

    def __post_init__(self) -> None:
        means = shares("means", self.means)
        check_arms(len(means))
        object.__setattr__(self, "means", means)

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(self.means)

    @property
    def title(self) -> str:
        return f"Bernoulli({shortened(f'{mean:g}' for mean in self.means)})"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        means = np.array([self.means])
        return means, None


@dataclass(frozen=True)
class Stochastic(WithGap):
    """Stochastic with one best arm: Bernoulli losses, mean (1 - gap)/2 for arm 0 and (1 + gap)/2 for the others.

    Environment of Figures 1 and 2 in Zimmert & Seldin (2021).
    """

    @property
    def title(self) -> str:
        return f"stochastic, {self.arms} arms, gap {self.gap:g}"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        return one_better(self.arms, self.gap), None


@dataclass(frozen=True)
class Beta(WithGap):
    """Losses between 0 and 1: Beta-distributed with mean (1 - gap)/2 for arm 0 and (1 + gap)/2 for the others.

    `concentration` is the sum of the two parameters of the Beta distribution: the larger, the closer losses are to
    their means. For learners that count on losses 0 or 1, and for the binarisation of `thompson`.
    """

    concentration: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.concentration, int | float) or not 1e-3 <= self.concentration <= 1e6:
            raise InvalidValue(f"concentration is {self.concentration!r}; a number from 0.001 to 1e6 is needed")
        if self.gap == 1.0:
            raise InvalidValue("gap is 1; a number below 1 is needed, since Beta losses are never certain")

    @property
    def title(self) -> str:
        return f"Beta losses, {self.arms} arms, gap {self.gap:g}"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        means = one_better(self.arms, self.gap)
        losses = rng.beta(self.concentration * means, self.concentration * (1.0 - means), (rounds.size, self.arms))
        return means, losses


@dataclass(frozen=True)
class Revenue(Environment):
    """Skewed revenue, mostly none: arm i sells with probability rates[i], for an amount of mean amounts[i].

    The loss is 1 - revenue. Amounts are Beta(1, 1/mean - 1): many small ones, few large ones, at most 1. `amounts` has
    one mean for each arm, or a single one for all.
    """

    rates: Sequence[float]
    amounts: Sequence[float] = (0.2,)

    def __post_init__(self) -> None:
        rates = shares("rates", self.rates)
        amounts = shares("amounts", self.amounts)
        check_arms(len(rates))
        if len(amounts) not in (1, len(rates)):
            raise InvalidValue(f"amounts has {len(amounts)} numbers; 1 or {len(rates)}, one for each arm, is needed")
        if not all(0.0 < amount < 1.0 for amount in amounts):
            raise InvalidValue(f"amounts is {self.amounts!r}; means above 0 and below 1 are needed")
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "amounts", amounts)

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(self.rates)

    @property
    def title(self) -> str:
        amounts = shortened(f"{amount:.3g}" for amount in self.amounts)
        return f"revenue of mean {amounts} at rates {shortened(f'{rate:.3g}' for rate in self.rates)}"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        rates = np.array([self.rates])
        amounts = np.broadcast_to(np.array([self.amounts]), rates.shape)
        shape = (rounds.size, self.n_arms)
        sold = rng.random(shape) < rates
        return 1.0 - rates * amounts, 1.0 - sold * rng.beta(1.0, 1.0 / amounts - 1.0, shape)


class Recorded(Environment):
    """Losses from a matrix, (rounds, arms). They are their own expectation: regret is against the best arm in
    hindsight.
    """

    def __init__(self, losses: ArrayLike) -> None:
        matrix = np.array(losses, dtype=np.float64, order="C")  # compiled code reads rows
        if matrix.ndim != 2:
            raise InvalidValue(f"losses has shape {matrix.shape}; a matrix of rounds x arms is needed")
        self.n_arms = check_arms(matrix.shape[1])
        wrong = np.argwhere(~((matrix >= 0.0) & (matrix <= 1.0)))
        if wrong.size:
            t, arm = (int(index) for index in wrong[0])
            raise InvalidValue(f"losses[{t}, {arm}] is {matrix[t, arm]}; a number from 0 to 1 is needed")
        self.losses = matrix
        self.longest = matrix.shape[0]

    def __repr__(self) -> str:
        return f"Recorded({self.longest} rounds x {self.n_arms} arms)"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        losses = self.losses[rounds - 1]
        return losses, losses
