"""The suite: named problems on which delayed-feedback bandits are compared, the same for everybody.

A cell is an environment with a law of delay, at a number of rounds. Its id stays what it is, `stochastic-k10/pareto`,
so that results can be cited and compared; a cell that should change gets another id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import bounds
from belated.delays import delays_for
from belated.environments import Environment, Resampled, Stretch
from belated.environments.environment import check_same_arms
from belated.errors import InvalidValue, unknown
from belated.logs import public
from belated.templates.display import counted

ROUNDS = 100_000
QUICK_ROUNDS = 20_000
OWN = "own"
"""The family of cells that are not of the suite."""


@dataclass(frozen=True, repr=False)
class Cell:
    """One problem: of the suite, or your own, from environments and delays, words for them, or objects that fill."""

    id: str
    environment: Any
    delays: Any
    rounds: int = ROUNDS
    family: str = OWN
    spec: str = ""
    """By which `find` finds it, if not by its id."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", Environment.find(self.environment))
        object.__setattr__(self, "delays", delays_for(self.environment, self.delays))

    def __repr__(self) -> str:
        return f"Cell({self.id!r}, {self.title}; {counted(self.rounds, 'round')})"

    @property
    def title(self) -> str:
        return f"{self.environment.title}; {self.delays.title}"

    @cached_property
    def theory(self) -> float:
        """sqrt(KT) + min over S of (|S| + sqrt(D_rest log K)), for one draw of the delays."""
        return bounds.scale(self.environment.n_arms, self._slowest())

    def instance(self, delay_constant: float = 49.0) -> bounds.Instance:
        """Return what bounds see of it, for one draw of the delays; the longest of a round where they depend on more.

        Gaps are known where losses are stochastic. Bounds are about arms that stay.
        """
        check_same_arms(self.environment, self.rounds)
        means = self.environment.steady_means
        gaps = np.delete(means, means.argmin()) - means.min() if means is not None else None
        return bounds.Instance(self.environment.n_arms, self._slowest(), gaps=gaps, delay_constant=delay_constant)

    def _slowest(self) -> NDArray[np.int64]:
        """Return one draw of the delays, the longest of each round."""
        delays = self.delays.fill(np.random.default_rng(0), np.arange(1, self.rounds + 1))
        return delays if delays.ndim == 1 else delays.max(axis=1)

    @cached_property
    def uniform_regret(self) -> float:
        """What uniform play of the arms that are present costs, for one draw of the losses."""
        rng = np.random.default_rng(0)
        regret = 0.0
        stretches = self.environment.stretches(self.rounds) or [Stretch(1, np.arange(self.environment.n_arms))]
        ends = [stretch.first for stretch in stretches[1:]] + [self.rounds + 1]
        for stretch, end in zip(stretches, ends, strict=True):
            totals = np.zeros(self.environment.n_arms)
            for first in range(stretch.first, end, 10_000):
                piece = np.arange(first, min(first + 10_000, end))
                expected, _ = self.environment.fill(rng, piece)
                totals += np.broadcast_to(expected, (piece.size, totals.size)).sum(axis=0)
            regret += float(totals[stretch.arms].mean() - totals[stretch.arms].min())
        return regret

    def at(self, rounds: int) -> "Cell":
        """Return the same problem, shorter or longer."""
        return replace(self, rounds=rounds)


FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "even": "losses around one half, drawn anew in every round",
        "spread": "arms whose means are spread over (0, 1)",
        "conversions": "rare wins: rates of 1 to 6 %",
        "rare-losses": "rare losses: 2 to 5 %",
        "deadline": "wins come early, the absence of a win at a deadline",
        "one-sided": "only wins are ever reported, or only losses",
        "slow-arms": "each arm has delays of its own",
        "revenue": "skewed revenue, mostly none",
        "rhythm": "a weekly rhythm of all arms",
        "trials": "short trials with delays of a tenth to a half of them",
        "arms": "arms that come and go",
        "real": "outcomes, and where they are known delays, of real experiments",
        "constrained": "the level of all losses jumps, the gap stays",
        "changing": "the best arm changes",
        "corrupted": "stochastic losses, some of them corrupted",
        "resonant": "losses that swing with the delay",
    }
)
"""The families of the suite and what each is about. In rankings every family has the same weight."""


def about(family: str) -> str:
    """Return what the cells of a family have in common."""
    return FAMILIES.get(family, "cells that are not of the suite")


def by_family(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each family: families of the suite in the order of `FAMILIES`, then the others."""
    found: dict[str, list[Cell]] = {name: [] for name in FAMILIES}
    for cell in cells:
        found.setdefault(cell.family, []).append(cell)
    return {name: members for name, members in found.items() if members}


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
    "stochastic-k10": ("even", tuple(_DELAYS)),
    "stochastic-k2": ("even", ("none", "100", "pareto")),
    "stochastic-k100": ("even", ("none", "100")),
    "stochastic-k1000": ("even", ("none",)),
    "tiny-k10": ("even", ("none", "100")),
    "beta-k10": ("even", ("none", "pareto")),
    "constrained-k10": ("constrained", ("none", "100", "1000", "pareto", "outlier", "dropout")),
    "switching-k10": ("changing", ("none", "100", "pareto")),
    "corrupted-k10": ("corrupted", ("none", "100")),
    "drifting-k10": ("changing", ("none", "100")),
    "blocks-k2": ("resonant", ("100", "1000")),
    "blocks-k10": ("resonant", ("100",)),
    "resonant-k2": ("resonant", ("100", "1000")),
    "resonant-k10": ("resonant", ("1000",)),
    "square-k10": ("resonant", ("1000",)),
}

_ELSEWHERE = {"stochastic-k10/by-arm": "slow-arms", "stochastic-k10/by-loss": "deadline"}
"""Cells that belong to another family than the rest of their environment."""


# The cells of practice have their best arm last: a learner that knows nothing and takes the first of equals must not
# look as if it knew. Here the best is written first.


def _listed(values: Iterable[float | str]) -> str:
    return f"[{','.join(str(each) for each in reversed(list(values)))}]"


def _rates(*percent: float) -> str:
    """Return Bernoulli arms that convert at these rates, in percent."""
    return f"bernoulli:means={_listed(f'{1.0 - each / 100.0:.6g}' for each in percent)}"


def _means(*means: float) -> str:
    return f"bernoulli:means={_listed(f'{each:g}' for each in means)}"


def _by_arm(*laws: float | str) -> str:
    return f"byarm:laws={_listed(laws)}"


def _arms(*arms: tuple[float, float, float]) -> str:
    """Return arms that come and go: the mean of each, and the parts of the run at which it comes and leaves."""
    means, enter, leave = (_listed(f"{each:.6g}" for each in column) for column in zip(*arms, strict=True))
    return f"arms:means={means},enter={enter},leave={leave}"


def _turnover() -> str:
    """Return ten arms, of which the oldest makes room for a new one after every tenth of the run; the best comes half
    way.
    """
    arms = [(0.5 - 0.02 * (7 * i % 5), max(i - 9, 0) / 10, (i + 1) / 10 if i < 9 else 1.0) for i in range(19)]
    _, enter, leave = arms.pop(14)
    return _arms((0.38, enter, leave), *arms)


_LATE = "geometric:mean=1000"
_CONVERSIONS = {
    "none": "none",
    "1000": "constant:delay=1000",
    "geometric-1000": _LATE,
    "pareto": "pareto:shape=1,scale=100",
}

# (family, id, environment, delays, rounds)
_PRACTICE = (
    *(
        ("conversions", f"conversions-{name}/{law}", arms, delays, 200_000)
        for name, arms in {
            "k2": _rates(6, 5),
            "k4": _rates(2.5, 2.2, 2.1, 2.0),
            "k10": _rates(3, *[2] * 9),
        }.items()
        for law, delays in _CONVERSIONS.items()
    ),
    ("conversions", "conversions-low-k4/geometric-1000", _rates(1.5, 1.2, 1.1, 1.0), _LATE, 200_000),
    ("rare-losses", "rare-losses-k2/none", _means(0.02, 0.03), "none", 200_000),
    ("rare-losses", "rare-losses-k10/none", _means(0.02, *[0.03] * 9), "none", 200_000),
    ("rare-losses", "rare-losses-k10/100", _means(0.02, *[0.03] * 9), "constant:delay=100", 200_000),
    ("rare-losses", "rare-losses-k4/geometric-1000", _means(0.02, 0.03, 0.04, 0.05), _LATE, 200_000),
    ("deadline", "deadline-k4/10000", _rates(2.5, 2.2, 2.1, 2.0), f"byloss:good=({_LATE}),bad=10000", 200_000),
    ("deadline", "deadline-k2/10000", _rates(6, 5), f"byloss:good=({_LATE}),bad=10000", 200_000),
    ("deadline", "deadline-k2/5000", _rates(12, 10), "byloss:good=(geometric:mean=300),bad=5000", 100_000),
    ("deadline", "deadline-early-k4/20000", _rates(4, 3, 3, 3), "byloss:good=(geometric:mean=200),bad=20000", 200_000),
    ("deadline", "deadline-k10/5000", _rates(30, *[20] * 9), "byloss:good=(geometric:mean=500),bad=5000", 100_000),
    (
        "one-sided",
        "wins-only-k10/geometric",
        _means(0.4, *[0.5] * 9),
        "byloss:good=(geometric:mean=100),bad=never",
        100_000,
    ),
    ("one-sided", "wins-only-k2/geometric-1000", _rates(6, 5), f"byloss:good=({_LATE}),bad=never", 200_000),
    ("one-sided", "wins-only-k4/geometric", _rates(4, 3, 3, 3), "byloss:good=(geometric:mean=100),bad=never", 200_000),
    (
        "one-sided",
        "losses-only-k4/geometric-1000",
        _means(0.05, 0.1, 0.1, 0.1),
        f"byloss:good=never,bad=({_LATE})",
        100_000,
    ),
    *(
        ("slow-arms", f"{kind}-{name}/{law}", arms, delays, rounds)
        for name, arms, rounds in (
            ("low-k2", _means(0.15, 0.25), 100_000),
            ("even-k2", _means(0.45, 0.55), 100_000),
            ("high-k2", _means(0.75, 0.85), 100_000),
            ("rare-k2", _means(0.94, 0.95), 200_000),
        )
        for kind, law, delays in (
            ("slow-best", "geometric-1000", _by_arm(_LATE, 10)),
            ("fast-best", "geometric-1000", _by_arm(10, _LATE)),
        )
    ),
    (
        "slow-arms",
        "slow-best-rare-k2/geometric-3000",
        _means(0.94, 0.95),
        _by_arm("geometric:mean=3000", 10),
        200_000,
    ),
    ("slow-arms", "slow-best-low-k10/1000", _means(0.15, *[0.25] * 9), _by_arm(1000, *[0] * 9), 100_000),
    ("slow-arms", "slow-best-low-k2/10000", _means(0.15, 0.25), _by_arm(10000, 10), 100_000),
    (
        "slow-arms",
        "each-arm-k4/mixed",
        _means(0.3, 0.4, 0.4, 0.4),
        _by_arm(_LATE, 0, 100, "geometric:mean=3000"),
        100_000,
    ),
    (
        "slow-arms",
        "each-arm-rare-k4/mixed",
        _rates(4, 3, 3, 3),
        _by_arm(300, "geometric:mean=3000", 0, _LATE),
        200_000,
    ),
    ("spread", "spread-k10/none", _means(*[0.05 + 0.1 * i for i in range(10)]), "none", 100_000),
    ("spread", "spread-k10/100", _means(*[0.05 + 0.1 * i for i in range(10)]), "constant:delay=100", 100_000),
    ("spread", "spread-k4/pareto", _means(0.2, 0.35, 0.6, 0.9), "pareto:shape=1,scale=10", 100_000),
    ("spread", "spread-k20/geometric", _means(*[0.3 + 0.03 * i for i in range(20)]), "geometric:mean=100", 100_000),
    ("revenue", "revenue-k4/none", "revenue:rates=[0.05,0.05,0.05,0.08]", "none", 200_000),
    ("revenue", "revenue-k4/geometric-1000", "revenue:rates=[0.05,0.05,0.05,0.08]", _LATE, 200_000),
    (
        "revenue",
        "revenue-k3/pareto",
        "revenue:rates=[0.2,0.1,0.05],amounts=[0.08,0.2,0.5]",
        "pareto:shape=1,scale=100",
        200_000,
    ),
    ("rhythm", "rhythm-k4/none", "rhythm:rates=[0.04,0.04,0.04,0.05]", "none", 200_000),
    ("rhythm", "rhythm-k4/geometric-1000", "rhythm:rates=[0.04,0.04,0.04,0.05]", _LATE, 200_000),
    ("rhythm", "rhythm-even-k10/100", f"rhythm:rates={_listed([0.5, *[0.4] * 9])}", "constant:delay=100", 100_000),
    ("trials", "trial-k2/50-of-500", _means(0.4, 0.6), "constant:delay=50", 500),
    ("trials", "trial-k3/geometric-250-of-1000", _means(0.3, 0.5, 0.5), "geometric:mean=250", 1000),
    ("trials", "trial-k4/200-of-2000", _means(0.6, 0.7, 0.7, 0.7), "constant:delay=200", 2000),
    ("trials", "trial-k2/1000-of-2000", _means(0.5, 0.65), "constant:delay=1000", 2000),
    ("trials", "trial-rare-k2/200-of-2000", _rates(15, 8), "constant:delay=200", 2000),
    ("trials", "trial-k3/by-loss-of-1500", _means(0.55, 0.7, 0.7), "byloss:good=(geometric:mean=100),bad=400", 1500),
    *(
        ("arms", f"arms-better-k4/{law}", _arms((0.4, 0.5, 1), (0.45, 0, 1), (0.5, 0, 1), (0.5, 0, 1)), delays, 100_000)
        for law, delays in (("none", "none"), ("geometric-1000", _LATE))
    ),
    (
        "arms",
        "arms-worse-k4/100",
        _arms((0.4, 0, 1), (0.5, 0, 1), (0.5, 0, 1), (0.5, 0.5, 1)),
        "constant:delay=100",
        100_000,
    ),
    (
        "arms",
        "arms-leave-k4/100",
        _arms((0.4, 0, 0.5), (0.45, 0, 1), (0.5, 0, 1), (0.5, 0, 1)),
        "constant:delay=100",
        100_000,
    ),
    (
        "arms",
        "arms-conversions-k5/geometric-1000",
        _arms((0.97, 0.75, 1), (0.975, 0.25, 1), (0.976, 0.5, 1), (0.978, 0, 1), (0.98, 0, 1)),
        _LATE,
        200_000,
    ),
    ("arms", "arms-turnover-k10/100", _turnover(), "constant:delay=100", 100_000),
)

# A click is known soon, its absence when the visit is over. The data do not say when; these delays are made up.
_VISIT = "byloss:good=(geometric:mean=20),bad=200"

# (id, data, environment, delays, rounds)
_REAL = (
    *(
        (f"open-bandit-{name}/{law}", f"open-bandit-{name}", f"public:data=open-bandit-{name}", delays, 200_000)
        for name, law, delays in (("men", "none", "none"), ("men", "visit", _VISIT), ("women", "visit", _VISIT))
    ),
    ("open-bandit-all/visit", "open-bandit-all", "public:data=open-bandit-all", _VISIT, 200_000),
    ("actg175/daily", "actg175", "public:data=actg175,accrual=1", "own", 2139),
    ("actg175/one-in-five-days", "actg175", "public:data=actg175,accrual=0.2", "own", 2139),
    ("rossi/ten-a-week", "rossi", "public:data=rossi,accrual=10", "own", 2000),
)

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


def _cell(name: str, law: str, family: str) -> Cell:
    words = _ENVIRONMENTS[name]
    if "{" in words:
        words = words.format(delay=law, length=int(law) + 1)
    id = f"{name}/{law}"
    return Cell(id, words, _DELAYS[law], family=_ELSEWHERE.get(id, family))


paper: Mapping[str, Cell] = MappingProxyType(
    {cell.id: cell for name, (family, laws) in _CELLS.items() for cell in (_cell(name, law, family) for law in laws)}
)
"""The cells that follow the literature: losses around one half, adversaries. At 100,000 rounds."""

practice: Mapping[str, Cell] = MappingProxyType(
    {id: Cell(id, environment, delays, rounds, family) for family, id, environment, delays, rounds in _PRACTICE}
)
"""The cells that follow practice: rare outcomes, slow arms, deadlines, short trials."""

left_out: Mapping[str, str] = MappingProxyType(
    {id: reason for id, data, *_ in _REAL if (reason := public.missing(data)) is not None}
)
"""Cells of real data that cannot be played here, and why: a package that carries the data is not installed."""

real: Mapping[str, Cell] = MappingProxyType(
    {
        id: Cell(id, environment, delays, rounds, "real")
        for id, _, environment, delays, rounds in _REAL
        if id not in left_out
    }
)
"""The cells of real data."""

suite: Mapping[str, Cell] = MappingProxyType({**paper, **practice, **real})
"""All cells by id."""

quick: Mapping[str, Cell] = MappingProxyType({name: suite[name].at(QUICK_ROUNDS) for name in _QUICK})
"""A few of them at 20,000 rounds."""

SUITES = {"full": suite, "paper": paper, "practice": practice, "real": real, "quick": quick}


def find(ids: Iterable[str]) -> tuple[Cell, ...]:
    """Return the cells with these ids; `blocks-k2/*` is all whose ids begin so.

    `resampled:file=log.csv` is a cell of your own: outcomes and delays of a log, as many rounds as it has decisions.
    """
    found: dict[str, Cell] = {}
    for wanted in ids:
        if wanted.partition(":")[0] == "resampled":
            cell = _of_log(wanted)
            found[cell.id] = cell
            continue
        matching = {name: cell for name, cell in suite.items() if wanted.endswith("*") and name.startswith(wanted[:-1])}
        if not matching and wanted not in suite:
            raise _not_there(wanted)
        found |= matching or {wanted: suite[wanted]}
    return tuple(found.values())


def _of_log(spec: str) -> Cell:
    environment = Environment.find(spec)
    assert isinstance(environment, Resampled)
    return Cell(Path(environment.source).stem, environment, None, rounds=environment.losses.size, spec=spec)


def _not_there(wanted: str) -> InvalidValue:
    """Return the error for a cell that is not in the suite, or is left out of it here."""
    absent = [id for id in left_out if id == wanted or (wanted.endswith("*") and id.startswith(wanted[:-1]))]
    if absent:
        return InvalidValue(f"cell {absent[0]} is left out here: {left_out[absent[0]]}", "cell")
    return unknown("cell", wanted, suite)


def within(cells: Iterable[Cell], families: Iterable[str]) -> tuple[Cell, ...]:
    """Return those of the cells that belong to these families."""
    wanted = list(families)
    for name in wanted:
        if name not in FAMILIES:
            raise unknown("family", name, FAMILIES)
    found = tuple(cell for cell in cells if cell.family in wanted)
    if not found and wanted == ["real"] and left_out:
        raise _not_there(next(iter(left_out)))
    if not found:
        raise InvalidValue(f"none of the cells is of the family {' or '.join(wanted)}", "family")
    return found
