"""What a league is about, and what comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from belated import learners
from belated.environments import Floats
from belated.errors import InvalidValue, check_count
from belated.league.suite import Cell, by_family
from belated.learners import Learner, TunedLearner
from belated.simulation import Simulation, spaced_checkpoints
from belated.simulation.replication import Job, check_learner
from belated.templates.display import counted, html_table, number

POINTS = 60
"""Checkpoints of each curve."""


def objection(tuned: TunedLearner, cell: Cell) -> InvalidValue | None:
    """Return why a learner cannot play in a cell: some must know what nobody can tell there, some cannot change their
    arms; None where it can.
    """
    try:
        check_learner(tuned, cell.environment, cell.delays, cell.rounds)
    except InvalidValue as error:
        return error
    return None


def can_play(tuned: TunedLearner, cell: Cell) -> bool:
    """Return whether a learner can play in a cell."""
    return objection(tuned, cell) is None


@dataclass(frozen=True)
class LeaguePlan:
    """Which learners play in which cells, how often, and from which random numbers."""

    cells: tuple[Cell, ...]
    learners: tuple[TunedLearner, ...]
    replications: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("replications", self.replications)
        check_count("seed", self.seed, least=0)
        for kind, given in (("cell", [cell.id for cell in self.cells]), ("learner", self.labels)):
            if not given:
                raise InvalidValue(f"there is no {kind}; at least one is needed", f"{kind}s")
            for name in given:
                if given.count(name) > 1:
                    raise InvalidValue(f"{kind} {name!r} is given twice; each may be given once", f"{kind}s")
        for tuned in self.learners:
            reasons = [objection(tuned, cell) for cell in self.cells]
            if all(reasons) and reasons[0]:
                raise reasons[0]

    @property
    def labels(self) -> list[str]:
        return [tuned.label for tuned in self.learners]

    def job(self, cell: Cell, competitors: Sequence[TunedLearner]) -> Job:
        """Return what to do in each replication of a cell."""
        return Job(
            learners=tuple(competitors),
            environment=cell.environment,
            delays=cell.delays,
            rounds=cell.rounds,
            seed=self.seed,
            checkpoints=spaced_checkpoints(cell.rounds, POINTS),
            keep_trace=False,
            known=True,
        )


@dataclass(frozen=True, repr=False)
class League:
    """What came out: a simulation for each cell that went well, and the errors of the others."""

    plan: LeaguePlan
    results: dict[str, Simulation]
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that there are results of."""
        return tuple(cell for cell in self.plan.cells if cell.id in self.results)

    def __repr__(self) -> str:
        failed = f", {counted(len(self.failures), 'cell')} failed" if self.failures else ""
        return (
            f"League({counted(len(self.plan.learners), 'learner')}, {counted(len(self.cells), 'cell')}, "
            f"{counted(self.plan.replications, 'replication')}{failed})"
        )

    def _repr_html_(self) -> str:
        from belated.league.standings import mean_ratios  # which is about leagues

        means = mean_ratios(self)
        families = list(by_family(self.cells))
        shown = families if len(families) > 1 else []
        rows = []
        for k in np.argsort(means.overall, kind="stable").tolist():  # those without a cell, nan, last
            label = self.plan.labels[k]
            values = [means.overall[k], *means.families[k, : len(shown)]]
            played = sum(label in result.learners for result in self.results.values())
            rows.append([label, *map(number, values), str(played)])
        header = ["learner", "mean ratio", *shown, "cells"]
        return html_table(f"{self!r}: regret, over that of the best uninformed learner of each cell", header, rows)

    def finals(self) -> Floats:
        """Return regret at the last round: (learners, cells, replications), nan where a learner cannot play."""
        table = np.full((len(self.plan.learners), len(self.cells), self.plan.replications), np.nan)
        for k, cell in enumerate(self.cells):
            result = self.results[cell.id]
            for label, regret in zip(result.learners, result.regret[:, :, -1], strict=True):
                table[self.plan.labels.index(label), k] = regret
        return table


def competitors(names: Sequence[str | Learner | TunedLearner] | None = None) -> tuple[TunedLearner, ...]:
    """Return the learners of these names; by default the catalogue, without uniform play, which is the scale."""
    chosen = names if names is not None else [name for name in learners.catalogue if name != "uniform"]
    return tuple(learners.tune(each) for each in chosen)
