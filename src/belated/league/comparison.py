"""A comparison: learners on every environment with every law of delay."""

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from belated import learners as catalogue
from belated.delays import Delays, delays_for
from belated.environments import Environment
from belated.errors import InvalidValue, check_count, unknown
from belated.league.plot import draw
from belated.simulation import Simulation, simulate
from belated.simulation.plot import new_window, settings
from belated.simulation.replication import check_learner
from belated.templates.display import counted, html_table

HEADLINE_DELAYS = ("none", "pareto:shape=1,scale=10", "outlier")


@dataclass(frozen=True)
class ComparisonPlan:
    """What to compare. The default is the paper's headline.

    A stochastic and an adversarial world, for the best of both; no delay, heavy-tailed delays, and one outcome that
    never comes, for robustness to excessive delays.
    """

    learners: tuple[Any, ...] = ("guarded", "robust", "thompson", "damped", "ucb", "tsallis")
    environments: tuple[Any, ...] = ("stochastic:arms=10,gap=0.1", "constrained:arms=10,gap=0.1")
    delays: Any = None
    """By default those of the headline; `own`, where all environments bring delays of their own."""
    rounds: int = 300_000
    replications: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delays", self._delays())
        for name in ("learners", "environments", "delays"):
            given = getattr(self, name)
            values = tuple(given) if isinstance(given, list | tuple) else (given,)
            if not values:
                raise InvalidValue(f"{name} is empty; at least one is needed")
            for value in values:
                if values.count(value) > 1:
                    raise InvalidValue(f"{value!r} is given twice in {name}; each may be given once")
            object.__setattr__(self, name, values)
        for learner in self.learners:
            catalogue.tune(learner)
        object.__setattr__(self, "environments", tuple(Environment.find(each) for each in self.environments))
        object.__setattr__(self, "delays", tuple(Delays.find(each) for each in self.delays))
        check_count("rounds", self.rounds)
        check_count("replications", self.replications)
        check_count("seed", self.seed, least=0)

    def _delays(self) -> Any:
        if self.delays is not None:
            return self.delays
        given = self.environments
        worlds = [Environment.find(each) for each in (given if isinstance(given, list | tuple) else (given,))]
        return ("own",) if worlds and all(each.brings_delays for each in worlds) else HEADLINE_DELAYS

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> "ComparisonPlan":
        """Return a plan from names and values; those that are missing are the default's."""
        allowed = [each.name for each in fields(cls)]
        for name in settings:
            if name not in allowed:
                raise unknown("setting", name, allowed)
        return cls(**settings)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from error


@dataclass(frozen=True, repr=False)
class Comparison:
    """A plan and what came out: one simulation for each cell, environment by environment, each with all delays."""

    plan: ComparisonPlan
    cells: tuple[Simulation, ...]

    @property
    def learners(self) -> tuple[str, ...]:
        return self.cells[0].learners

    def plot(self) -> Any:
        """Draw every cell in a new figure of your matplotlib backend; return the array of axes.

        There is a row for each environment and a column for each law of delay.
        """
        with settings():
            return draw(self, new_window(1.0, 1.0))

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"Comparison({counted(len(plan.learners), 'learner')}, {counted(len(plan.environments), 'environment')}, "
            f"{counted(len(plan.delays), 'law')} of delay, {counted(plan.rounds, 'round')}, "
            f"{counted(plan.replications, 'replication')})"
        )

    def _repr_html_(self) -> str:
        header = ["environment", "delays", *self.learners]
        rows = [
            [cell.environment.title, cell.delays.title, *(cell.final(name).text for name in self.learners)]
            for cell in self.cells
        ]
        return html_table(f"{self!r}: regret at the last round", header, rows, left=2)


def compare(plan: ComparisonPlan, *, threads: int | None = None) -> Comparison:
    """Carry out a plan; refuse learners that cannot play somewhere before anything is played."""
    for environment in plan.environments:
        for law in plan.delays:
            for learner in plan.learners:
                check_learner(catalogue.tune(learner), environment, delays_for(environment, law), plan.rounds)
    pairs = [(environment, delays) for environment in plan.environments for delays in plan.delays]
    cells = [
        simulate(
            plan.learners,
            environment,
            delays,
            rounds=plan.rounds,
            replications=plan.replications,
            seed=plan.seed,
            threads=threads,
            progress=f"{number} of {len(pairs)}: {environment.title}; {delays.title}",
        )
        for number, (environment, delays) in enumerate(pairs, 1)
    ]
    return Comparison(plan, tuple(cells))


def curve_rows(comparison: Comparison) -> Iterator[tuple[Any, ...]]:
    """Yield every curve, point by point: the header first."""
    yield ("environment", "delays", "learner", "told", "round", "mean_regret", "low", "high", "uniform_regret")
    for cell in comparison.cells:
        scale = cell.uniform_regret.mean(axis=0)
        for learner, told in zip(cell.learners, cell.informed, strict=True):
            mean, low, high = cell.curve(learner)
            for k, checkpoint in enumerate(cell.checkpoints):
                yield (
                    repr(cell.environment),
                    repr(cell.delays),
                    learner,
                    " ".join(told),
                    int(checkpoint),
                    mean[k],
                    low[k],
                    high[k],
                    scale[k],
                )


def final_rows(comparison: Comparison) -> Iterator[tuple[Any, ...]]:
    """Yield every replication's regret at the last round: the header first."""
    yield ("environment", "delays", "learner", "told", "replication", "regret", "skipped", "most_outstanding", "drift")
    for cell in comparison.cells:
        for i, learner in enumerate(cell.learners):
            for replication in range(cell.regret.shape[1]):
                yield (
                    repr(cell.environment),
                    repr(cell.delays),
                    learner,
                    " ".join(cell.informed[i]),
                    replication,
                    cell.regret[i, replication, -1],
                    int(cell.skipped[i, replication]),
                    int(cell.most_outstanding[i, replication]),
                    cell.drift[i, replication],
                )


def write_csv(path: Path, rows: Iterator[tuple[Any, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
