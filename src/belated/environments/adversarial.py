"""Losses that no fixed distribution explains: adversaries, all oblivious (they do not see what is played)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from belated.core import random
from belated.environments.environment import Environment, Filled, Rounds, WithGap, check_arms
from belated.environments.stochastic import one_better, shares
from belated.errors import InvalidValue, check_count, check_share
from belated.templates.display import shortened


@dataclass(frozen=True)
class Constrained(WithGap):
    """The stochastically constrained adversary: the gap stays, the level of all losses jumps.

    Arm 0 and the others have means (0, gap) in odd phases and (1 - gap, 1) in even ones; each phase is `growth`
    times as long as the one before. Environment of Figures 3 and 4 in Zimmert & Seldin (2021); growth = 1.6 is
    theirs; the length of the first phase they do not state: of 1, 3, 10, 30 and 100, 30 comes closest to their
    curve of UCB1.
    """

    growth: float = 1.6
    first: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.growth, int | float) or not 1.0 <= self.growth <= 100.0:
            raise InvalidValue(f"growth is {self.growth!r}; a number from 1 to 100 is needed")
        if not isinstance(self.first, int) or not self.first >= 1:
            raise InvalidValue(f"first is {self.first!r}; a first phase of at least 1 round is needed")

    @property
    def title(self) -> str:
        return f"constrained adversary, {self.arms} arms, gap {self.gap:g}"

    def high(self, rounds: Rounds) -> NDArray[np.bool_]:
        """Return whether each round lies in a phase of high losses."""
        if self.growth == 1.0:
            phase = (rounds - 1) // self.first
        else:  # phase k begins after first (growth^k - 1) / (growth - 1) rounds
            begun = (rounds - 1) * (self.growth - 1.0) / self.first + 1.0
            phase = np.floor(np.log(begun) / np.log(self.growth) + 1e-12).astype(np.int64)
        return np.asarray(phase % 2 == 1)

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        low = np.full(self.arms, self.gap)
        low[0] = 0.0
        means = low + (1.0 - self.gap) * self.high(rounds)[:, None]
        return means, None


@dataclass(frozen=True)
class Switching(WithGap):
    """The best arm changes: Bernoulli losses as in `stochastic`, but the best arm is the next one every `every` rounds.

    Tests whether a learner can leave an arm that it has settled on. Regret is against the best fixed arm, which over
    whole turns is as bad as uniform play: who follows the changes has less than none.
    """

    every: int = 20_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("every", self.every)

    @property
    def title(self) -> str:
        return f"switching, {self.arms} arms, gap {self.gap:g}, every {self.every} rounds"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        best = (rounds - 1) // self.every % self.arms
        return np.where(np.arange(self.arms) == best[:, None], (1.0 - self.gap) / 2.0, (1.0 + self.gap) / 2.0), None


@dataclass(frozen=True)
class Rhythm(Environment):
    """Conversions with a weekly rhythm: all rates rise and fall together, the better arm stays the better one.

    the rate of arm i in round t = rates[i] (1 + amplitude sin(2 pi t / period)),    losses 1 - conversion, 0 or 1
    """

    rates: Sequence[float]
    amplitude: float = 0.5
    period: int = 7000

    def __post_init__(self) -> None:
        rates = shares("rates", self.rates)
        check_arms(len(rates))
        check_share("amplitude", self.amplitude)
        check_count("period", self.period)
        if max(rates) * (1.0 + self.amplitude) > 1.0:
            raise InvalidValue(
                f"rates is {self.rates!r} and amplitude {self.amplitude!r}; the largest rate times 1 + amplitude must"
                " not exceed 1"
            )
        object.__setattr__(self, "rates", rates)

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(self.rates)

    @property
    def title(self) -> str:
        return f"rates {shortened(f'{rate:.3g}' for rate in self.rates)} with a rhythm of {self.period} rounds"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        swing = 1.0 + self.amplitude * np.sin(2.0 * np.pi * rounds[:, None] / self.period)
        return 1.0 - np.array([self.rates]) * swing, None


@dataclass(frozen=True)
class Blocks(WithGap):
    """One random loss vector a block: all `length` rounds of a block have the same losses, 0 or 1 by coins.

    The lower-bound construction for a delay d = length - 1 (Cesa-Bianchi, Gentile & Mansour 2019): what is
    learned within a block comes too late for it, so that a block is one round of a game without delay, with losses as
    large as the block. The losses are their own expectation: regret is against the best arm in hindsight.
    """

    arms: int = 2
    gap: float = 0.0
    length: int = 101

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("length", self.length)

    @property
    def title(self) -> str:
        return f"blocks of {self.length} rounds, {self.arms} arms" + (f", gap {self.gap:g}" if self.gap else "")

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        blocks, place = np.unique((rounds - 1) // self.length, return_inverse=True)
        losses = random.flip_all(random.seed_of_generator(rng), blocks, one_better(self.arms, self.gap))[place]
        return losses, losses


@dataclass(frozen=True)
class Resonant(WithGap):
    """Losses that swing with a period of four delays, even arms against odd ones.

        mean = 1/2 +- gap/2 cos(2 pi t / (4 delay))

    What a learner sees is a quarter of a period old, the most harmful phase: cumulative losses swing like a sine,
    seen a quarter late like minus the cosine, so that the arm that looks best is always the worst. No arm is better
    than another over whole periods, so uniform play has no regret, and whatever a learner has is what following stale
    losses costs it. The entropy term of `robust` and `hybrid` is there to prevent it.
    shape is sine or square.
    """

    arms: int = 2
    gap: float = 1.0
    delay: int = 1000
    shape: str = "sine"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("delay", self.delay)
        if self.shape not in ("sine", "square"):
            raise InvalidValue(f"shape is {self.shape!r}; sine or square is needed")

    @property
    def title(self) -> str:
        return f"resonant ({self.shape}) with delay {self.delay}, {self.arms} arms"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        swing = np.cos(2.0 * np.pi * (rounds - 0.5) / (4.0 * self.delay))
        if self.shape == "square":
            swing = np.where(swing > 0.0, 1.0, -1.0)
        signs = np.where(np.arange(self.arms) % 2 == 0, 1.0, -1.0)
        return (1.0 + self.gap * swing[:, None] * signs) / 2.0, None


@dataclass(frozen=True)
class Corrupted(WithGap):
    """Stochastic with a budget of lies: as `stochastic`, but in the first `budget` rounds every loss is flipped.

    Early lies do the most harm: the best arm looks worst while everything is still open. The corrupted regime of
    Zimmert & Seldin (2021): regret should grow by sqrt(budget), not by the budget. Regret is on the losses
    as they were seen.
    """

    budget: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.budget, bool) or not isinstance(self.budget, int | np.integer) or self.budget < 0:
            raise InvalidValue(f"budget is {self.budget!r}; a whole number of rounds, at least 0, is needed")

    @property
    def title(self) -> str:
        return f"stochastic with {self.budget} rounds of lies, {self.arms} arms, gap {self.gap:g}"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        means = one_better(self.arms, self.gap)
        return np.where((rounds <= self.budget)[:, None], 1.0 - means, means), None


@dataclass(frozen=True)
class Drifting(WithGap):
    """Means that drift: arm i has mean 1/2 + gap/2 sin(2 pi (t / period + i / arms)), so that all arms take turns.

    Slow change without a jump to notice. Regret is against the best fixed arm.
    """

    period: int = 100_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("period", self.period)

    @property
    def title(self) -> str:
        return f"drifting over {self.period} rounds, {self.arms} arms, gap {self.gap:g}"

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        turns = rounds[:, None] / self.period + np.arange(self.arms) / self.arms
        return 0.5 + 0.5 * self.gap * np.sin(2.0 * np.pi * turns), None
