"""The suite: named problems on which delayed-feedback bandits are compared, the same for everybody.

A cell is an environment with a law of delay, at a number of rounds. Its id stays what it is, `stochastic-k10/pareto`,
so that results can be cited and compared; a cell that should change gets another id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from belated import bounds
from belated.delays import Delays
from belated.environments import Environment
from belated.errors import unknown
from belated.templates.display import counted

ROUNDS = 100_000
QUICK_ROUNDS = 20_000


@dataclass(frozen=True, repr=False)
class Cell:
    """One problem: of the suite, or your own, from environments and delays, words for them, or objects that fill."""

    id: str
    environment: Any
    delays: Any
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", Environment.find(self.environment))
        object.__setattr__(self, "delays", Delays.find(self.delays))

    def __repr__(self) -> str:
        return f"Cell({self.id!r}, {self.title}; {counted(self.rounds, 'round')})"

    @property
    def title(self) -> str:
        return f"{self.environment.title}; {self.delays.title}"

    @cached_property
    def theory(self) -> float:
        """sqrt(KT) + min over S of (|S| + sqrt(D_rest log K)), for one draw of the delays."""
        return bounds.scale(self.environment.n_arms, self.instance().delays)

    def instance(self, delay_constant: float = 49.0) -> bounds.Instance:
        """Return what bounds see of it, for one draw of the delays; the longest of a round where they depend on more.

        Gaps are known where losses are stochastic.
        """
        rounds = np.arange(1, self.rounds + 1)
        delays = self.delays.fill(np.random.default_rng(0), rounds)
        slowest = delays if delays.ndim == 1 else delays.max(axis=1)
        means = self.environment.steady_means
        gaps = np.delete(means, means.argmin()) - means.min() if means is not None else None
        return bounds.Instance(self.environment.n_arms, slowest, gaps=gaps, delay_constant=delay_constant)

    @cached_property
    def uniform_regret(self) -> float:
        """What uniform play costs, for one draw of the losses."""
        rng = np.random.default_rng(0)
        totals = np.zeros(self.environment.n_arms)
        for first in range(1, self.rounds + 1, 10_000):
            piece = np.arange(first, min(first + 10_000, self.rounds + 1))
            expected, _ = self.environment.fill(rng, piece)
            totals += np.broadcast_to(expected, (piece.size, totals.size)).sum(axis=0)
        return float(totals.mean() - totals.min())

    def at(self, rounds: int) -> "Cell":
        """Return the same problem, shorter or longer."""
        return replace(self, rounds=rounds)


_ENVIRONMENTS = {
    "stochastic-k10": "stochastic:arms=10,gap=0.1",
    "stochastic-k2": "stochastic:arms=2,gap=0.1",
    "stochastic-k100": "stochastic:arms=100,gap=0.2",
    "stochastic-k1000": "stochastic:arms=1000,gap=0.4",
    "tiny-k10": "stochastic:arms=10,gap=0.01",
    "beta-k10": "beta:arms=10,gap=0.1,concentration=4",
    "constrained-k10": "constrained:arms=10,gap=0.1",
    "switching-k10": "switching:arms=10,gap=0.2,every=20000",
    "corrupted-k10": "corrupted:arms=10,gap=0.1,budget=2000",
    "drifting-k10": "drifting:arms=10,gap=0.2,period=100000",
    "blocks-k2": "blocks:arms=2,length={length}",
    "blocks-k10": "blocks:arms=10,length={length}",
    "resonant-k2": "resonant:arms=2,delay={delay}",
    "resonant-k10": "resonant:arms=10,delay={delay}",
    "square-k10": "resonant:arms=10,delay={delay},shape=square",
}

_DELAYS = {
    "none": "none",
    "100": "constant:delay=100",
    "1000": "constant:delay=1000",
    "geometric": "geometric:mean=100",
    "pareto": "pareto:shape=1,scale=10",
    "outlier": "outlier",
    "burst": "burst:count=316,delay=100000",
    "dropout": "dropout:share=0.1,others=20",
    "batches": "batches:every=1000",
    "by-arm": "byarm:laws=[1000,0]",
    "by-loss": "byloss:good=0,bad=1000",
}

_CELLS = {
    "stochastic-k10": tuple(_DELAYS),
    "stochastic-k2": ("none", "100", "pareto"),
    "stochastic-k100": ("none", "100"),
    "stochastic-k1000": ("none",),
    "tiny-k10": ("none", "100"),
    "beta-k10": ("none", "pareto"),
    "constrained-k10": ("none", "100", "1000", "pareto", "outlier", "dropout"),
    "switching-k10": ("none", "100", "pareto"),
    "corrupted-k10": ("none", "100"),
    "drifting-k10": ("none", "100"),
    "blocks-k2": ("100", "1000"),
    "blocks-k10": ("100",),
    "resonant-k2": ("100", "1000"),
    "resonant-k10": ("1000",),
    "square-k10": ("1000",),
}

_QUICK = (
    "stochastic-k10/none",
    "stochastic-k10/100",
    "stochastic-k10/pareto",
    "stochastic-k10/outlier",
    "stochastic-k10/dropout",
    "constrained-k10/none",
    "constrained-k10/pareto",
    "resonant-k2/100",
)


def _cell(name: str, law: str) -> Cell:
    words = _ENVIRONMENTS[name]
    if "{" in words:
        words = words.format(delay=law, length=int(law) + 1)
    return Cell(f"{name}/{law}", Environment.find(words), Delays.find(_DELAYS[law]))


suite: Mapping[str, Cell] = MappingProxyType(
    {cell.id: cell for name, laws in _CELLS.items() for cell in (_cell(name, law) for law in laws)}
)
"""All cells by id, at 100,000 rounds."""

quick: Mapping[str, Cell] = MappingProxyType({name: suite[name].at(QUICK_ROUNDS) for name in _QUICK})
"""A few of them at 20,000 rounds."""

SUITES = {"full": suite, "quick": quick}


def find(ids: Iterable[str]) -> tuple[Cell, ...]:
    """Return the cells with these ids; `blocks-k2/*` is all whose ids begin so."""
    found: dict[str, Cell] = {}
    for wanted in ids:
        matching = {name: cell for name, cell in suite.items() if wanted.endswith("*") and name.startswith(wanted[:-1])}
        if not matching and wanted not in suite:
            raise unknown("cell", wanted, suite)
        found |= matching or {wanted: suite[wanted]}
    return tuple(found.values())
