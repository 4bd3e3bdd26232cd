"""Oblivious adversaries with a dozen dials, and an optimiser that turns them against a learner.

Losses swing: a wave with a period of some delays, a phase, a duty cycle, a growth of the period, an amplitude, sine or
square, arms in two groups against each other, around a level; from some round on they stop, and one arm is better by a
gap. Losses are 0 or 1 by coins, or the means themselves, without noise, before or after the swings stop. Delays are
constant, released in batches, come and go with the wave, or depend on the arm or on the loss. The search (CMA-ES)
maximises

    (regret - max(0, regret of tsallis without delays)) / sqrt(D log K),

what delay has cost beyond what must be paid without it, in units of the price that every bound has. Where delays depend
on the arm or the loss, D counts the longest of each round.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import simulate
from belated.learners import TunedLearner

DIALS = 13
STARTS = (
    (0.87, 0.6, 0.0, 0.5, 0.0, 1.0, 1.0, 0.0, 0.0, 0.5, 0.1, 0.5, 0.1),  # resonance
    (0.3, 0.6, 0.3, 0.5, 0.5, 1.0, 0.65, 0.9, 1.0, 0.5, 0.1, 0.5, 0.1),  # a trap: swings, then a gap
    (0.5, 0.9, 0.3, 0.5, 0.3, 0.6, 0.5, 0.5, 0.3, 0.3, 0.7, 0.8, 0.5),  # slow arms, high losses, quiet at first
)
PATTERNS = ("constant", "batches", "waves", "by arm", "bad news late", "good news late")
NOISES = ("coins", "quiet, then coins", "coins, then quiet")


class Waves:
    """A delay for half of each period of so many rounds, none for the other half."""

    def __init__(self, delay: int, period: float) -> None:
        self.delay, self.period = delay, period

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where((rounds / self.period) % 1.0 < 0.5, self.delay, 0)


@dataclass(frozen=True)
class Adversary:
    """One setting of the dials, each from 0 to 1."""

    dials: tuple[float, ...]
    n_arms: int
    rounds: int

    @property
    def delay(self) -> int:
        return round(10 * (self.rounds / 250) ** self.dials[0])

    @property
    def period(self) -> float:
        """In rounds: half a delay to sixteen."""
        return float(self.delay * 0.5 * 32 ** self.dials[1])

    @property
    def end(self) -> float:
        """When the swings stop, in shares of all rounds."""
        return 1.2 * self.dials[6]

    @property
    def pattern(self) -> str:
        return PATTERNS[min(int(len(PATTERNS) * self.dials[10]), len(PATTERNS) - 1)]

    @property
    def level(self) -> float:
        """The loss that swings go around."""
        return 0.02 + 0.96 * self.dials[11]

    @property
    def noise(self) -> str:
        return NOISES[min(int(len(NOISES) * self.dials[12]), len(NOISES) - 1)]

    @property
    def first_group(self) -> int:
        """How many arms swing against the rest."""
        return 1 + round(self.dials[9] * (self.n_arms - 2))

    @property
    def delays(self) -> Any:
        if self.pattern == "waves":
            return Waves(self.delay, self.period)
        laws = ",".join(str(self.delay if arm < self.first_group else 0) for arm in range(self.n_arms))
        return {
            "constant": f"constant:delay={self.delay}",
            "batches": f"batches:every={self.delay + 1}",
            "by arm": f"byarm:laws=[{laws}]",
            "bad news late": f"byloss:good=0,bad={self.delay}",
            "good news late": f"byloss:good={self.delay},bad=0",
        }[self.pattern]

    def means(self) -> NDArray[np.float64]:
        """The expected loss of every arm in every round."""
        _, _, phase, duty, growth, amplitude, _, gap, square, *_ = self.dials
        factor = 1.0 + 0.6 * growth**2
        turns = np.arange(self.rounds) / self.period
        if factor > 1.0001:
            turns = np.log1p(turns * (factor - 1.0)) / math.log(factor)
        place = (turns + phase) % 1.0
        duty = 0.15 + 0.7 * duty
        bent = np.where(place < duty, 0.5 * place / duty, 0.5 + 0.5 * (place - duty) / (1.0 - duty))
        swing = np.cos(2.0 * np.pi * bent)
        if square > 0.5:
            swing = np.where(swing > 0.0, 1.0, -1.0)
        signs = np.where(np.arange(self.n_arms) < self.first_group, 1.0, -1.0)
        room = min(self.level, 1.0 - self.level)
        means = self.level + room * amplitude * swing[:, None] * signs
        late = self.late()
        means[late] = self.level + room * gap
        means[late, 0] = self.level - room * gap
        return means

    def late(self) -> NDArray[np.bool_]:
        """Whether the swings have stopped, in every round."""
        return np.arange(self.rounds) >= self.end * self.rounds

    def quiet(self) -> NDArray[np.bool_]:
        """Whether losses are without noise, in every round."""
        if self.noise == "coins":
            return np.zeros(self.rounds, dtype=bool)
        return self.late() if self.noise == "coins, then quiet" else ~self.late()

    def describe(self) -> str:
        """In words."""
        _, _, phase, duty, growth, amplitude, _, gap, square, *_ = self.dials
        words = [
            f"{self.n_arms} arms ({self.first_group} against the rest)",
            f"delay {self.delay} ({self.pattern})",
            f"{'square' if square > 0.5 else 'sine'} of {self.period / self.delay:.1f} delays",
            f"phase {phase:.2f}, duty {0.15 + 0.7 * duty:.2f}",
            f"growth {1 + 0.6 * growth**2:.2f}, amplitude {amplitude:.2f} around {self.level:.2f}",
            self.noise,
        ]
        if self.end < 1.0:
            words.append(f"from {self.end:.0%} of the rounds on a gap of {gap:.2f}")
        return ", ".join(words)


class _Losses:
    """The losses of an adversary, as environments go."""

    def __init__(self, adversary: Adversary) -> None:
        self.means = adversary.means()
        self.quiet = adversary.quiet()
        self.n_arms = adversary.n_arms

    def fill(self, rng: np.random.Generator, rounds: NDArray[np.int64]) -> tuple[NDArray[np.float64], Any]:
        means = self.means[rounds - 1]
        coins = (rng.random(means.shape) < means).astype(np.float64)
        return means, np.where(self.quiet[rounds - 1, None], means, coins)


def costs(learners: Sequence[TunedLearner], adversary: Adversary, replications: int) -> NDArray[np.float64]:
    """What the search maximises, for each learner."""
    losses = _Losses(adversary)
    settings: Any = {"rounds": adversary.rounds, "replications": replications, "progress": False, "checkpoints": 2}
    late = simulate(list(learners), losses, adversary.delays, **settings)
    free = simulate("tsallis", losses, "none", **settings)
    own = np.arange(1, adversary.rounds + 1)
    delays = late.delays.fill(np.random.default_rng(0), own).reshape(adversary.rounds, -1).max(axis=1)
    total = np.minimum(delays, adversary.rounds - own).sum()
    unit = math.sqrt(max(float(total), 1.0) * math.log(adversary.n_arms))
    return (late.regret[:, :, -1].mean(axis=1) - max(0.0, float(free.regret[0, :, -1].mean()))) / unit


def search(learner: TunedLearner, n_arms: int, rounds: int, evaluations: int, seed: int) -> list[Adversary]:
    """The worst adversary found from each start."""
    import cma

    found = []
    for number, start in enumerate(STARTS):
        options = {"bounds": [0, 1], "maxfevals": evaluations, "seed": seed + number + 1, "verbose": -9, "popsize": 10}
        strategy = cma.CMAEvolutionStrategy(list(start), 0.25, options)
        best, worst = -math.inf, None
        while not strategy.stop():
            dials = strategy.ask()
            tried = [Adversary(tuple(float(dial) for dial in each), n_arms, rounds) for each in dials]
            values = [float(costs([learner], each, 2)[0]) for each in tried]
            strategy.tell(dials, [-value for value in values])
            if max(values) > best:
                best, worst = max(values), tried[int(np.argmax(values))]
        if worst is not None:
            found.append(worst)
    return found
