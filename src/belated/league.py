"""The league: every learner on every cell of the suite, in replications, kept on disk as it goes.

A folder holds one file for each cell, written when all its replications are done: stop the league whenever you like,
and start it again with the same folder to go on. A stored result is used only if it is that of the same learner,
cell, rounds, replications and seed, computed by the same code; what is missing is computed. Which machine computes
what makes no difference to the numbers.
"""

import hashlib
import json
import os
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from belated import engine, learners, truth
from belated.environments import Floats
from belated.kernels import cache_directory
from belated.learners import Learner, TunedLearner
from belated.progress import Progress
from belated.replication import Outcome, Task, compile_for, replicate
from belated.simulation import Simulation, check_count, spaced_checkpoints
from belated.suite import Cell

POINTS = 60
"""Checkpoints of each curve."""
ARRAYS = ("regret", "skipped", "most_outstanding", "drift")


def can_play(tuned: TunedLearner, cell: Cell) -> bool:
    """Whether a learner can play in a cell: some must know what nobody can tell there."""
    try:
        truth.check([tuned], cell.delays)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Settings:
    """What a league is about."""

    cells: tuple[Cell, ...]
    learners: tuple[TunedLearner, ...]
    replications: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("replications", self.replications)
        check_count("seed", self.seed, least=0)
        for kind, given in (("cell", [cell.id for cell in self.cells]), ("learner", self.labels)):
            if not given:
                raise ValueError(f"there is no {kind}; at least one is needed")
            for name in given:
                if given.count(name) > 1:
                    raise ValueError(f"{kind} {name!r} is given twice; each may be given once")
        for tuned in self.learners:
            if not any(can_play(tuned, cell) for cell in self.cells):
                truth.check([tuned], self.cells[0].delays)  # says why

    @property
    def labels(self) -> list[str]:
        return [tuned.label for tuned in self.learners]

    def task(self, cell: Cell, competitors: Sequence[TunedLearner]) -> Task:
        """What to do in each replication of a cell."""
        return Task(
            learners=tuple(competitors),
            environment=cell.environment,
            delays=cell.delays,
            rounds=cell.rounds,
            seed=self.seed,
            checkpoints=spaced_checkpoints(cell.rounds, POINTS),
            keep_trace=False,
        )


@dataclass(frozen=True)
class League:
    """What came out: a simulation for each cell that went well, and the errors of the others."""

    settings: Settings
    results: dict[str, Simulation]
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that there are results of."""
        return tuple(cell for cell in self.settings.cells if cell.id in self.results)

    def finals(self) -> Floats:
        """Regret at the last round: (learners, cells, replications), nan where a learner cannot play."""
        table = np.full((len(self.settings.learners), len(self.cells), self.settings.replications), np.nan)
        for k, cell in enumerate(self.cells):
            result = self.results[cell.id]
            for label, regret in zip(result.learners, result.regret[:, :, -1], strict=True):
                table[self.settings.labels.index(label), k] = regret
        return table


def competitors(names: Sequence[str | Learner | TunedLearner] | None = None) -> tuple[TunedLearner, ...]:
    """The learners of these names; by default the catalogue, without uniform play, which is the scale."""
    chosen = names if names is not None else [name for name in learners.catalogue if name != "uniform"]
    return tuple(learners.tune(each) for each in chosen)


def play(
    settings: Settings,
    folder: Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    progress: bool | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> League:
    """Play what is not in the folder yet, and put everything together.

    A cell in which something goes wrong is reported with its name; the others go on.
    """
    if workers is not None:
        check_count("workers", workers)
    store = Store(folder, settings)
    work: dict[str, tuple[Cell, Task]] = {}
    for cell in settings.cells:
        missing = [each for each in settings.learners if can_play(each, cell) and not store.has(cell, each)]
        if missing:
            work[cell.id] = (cell, settings.task(cell, missing))
    failures: dict[str, str] = {}
    if work:
        _play(settings, store, work, failures, workers, cluster, progress, report)
    results = {cell.id: store.read(cell) for cell in settings.cells if cell.id not in failures and store.known[cell.id]}
    return League(settings, results, failures)


def _play(
    settings: Settings,
    store: "Store",
    work: dict[str, tuple[Cell, Task]],
    failures: dict[str, str],
    workers: int | None,
    cluster: str | None,
    progress: bool | None,
    report: Callable[[str], None],
) -> None:
    compile_for(settings.learners)
    tasks = [(name, task, number) for name, (_, task) in work.items() for number in range(settings.replications)]
    costs = {name: _cost(task) for name, (_, task) in work.items()}
    bar = Progress(settings.replications * sum(costs.values()), f"{len(work)} cells", progress)
    outcomes: dict[str, dict[int, Outcome]] = {name: {} for name in work}
    done = 0
    try:
        for name, number, outcome in engine.run(attempt, tasks, workers=workers, cluster=cluster):
            done += costs[name]
            bar.at(done)
            if isinstance(outcome, str):
                if name not in failures:
                    failures[name] = outcome
                    report(f"cell {name} failed: {outcome.splitlines()[-1]}")
                continue
            outcomes[name][number] = outcome
            if len(outcomes[name]) == settings.replications:
                cell, task = work[name]
                store.write(cell, task, [outcomes[name][k] for k in range(settings.replications)])
                outcomes[name].clear()
    finally:
        bar.close()


def attempt(name: str, task: Task, number: int) -> tuple[str, int, Outcome | str]:
    """One replication of a cell, or the error that it ended in, in words."""
    try:
        return name, number, replicate(task, number)
    except Exception:
        return name, number, traceback.format_exc().strip()


def _cost(task: Task) -> int:
    """About how long a replication takes, in nanoseconds: the base of the time left."""
    return len(task.learners) * task.rounds * (120 + 12 * task.environment.n_arms)


class Store:
    """The folder of a league: a file for each cell, with the results of each learner and what they are results of."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.known: dict[str, dict[str, Any]] = {}
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        for cell in settings.cells:
            self.known[cell.id] = self._load(cell)

    def path(self, cell: Cell) -> Path:
        """Another for each number of rounds, of replications, seed and version of the code: they do not disturb."""
        return self.folder / "cells" / f"{cell.id.replace('/', '--')}--{self.fingerprint(cell)[:8]}.npz"

    def fingerprint(self, cell: Cell) -> str:
        """What a stored result must agree in to be used."""
        facts = [cell.id, repr(cell.environment), repr(cell.delays), cell.rounds]
        facts += [self.settings.replications, self.settings.seed, POINTS, cache_directory().name]
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()

    def _load(self, cell: Cell) -> dict[str, Any]:
        """Learner -> its arrays; and under "" what they share. Empty where the file is missing, foreign or damaged."""
        try:
            with self.path(cell).open("rb") as raw, np.load(raw) as file:
                content = {name: file[name] for name in file.files}
            if str(content["fingerprint"]) != self.fingerprint(cell):
                return {}
            stored: dict[str, Any] = {"": content["uniform_regret"]}
            for k, label in enumerate(content["learners"]):
                stored[str(label)] = {name: content[name][k] for name in ARRAYS}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return {}
        return stored

    def has(self, cell: Cell, tuned: TunedLearner) -> bool:
        return tuned.label in self.known[cell.id]

    def write(self, cell: Cell, task: Task, outcomes: list[Outcome]) -> None:
        """Add what a cell has given. The file is replaced as a whole, so that a stop leaves the old or the new one."""
        stored = self.known[cell.id]
        stored[""] = np.stack([outcome.uniform_regret for outcome in outcomes])
        for k, tuned in enumerate(task.learners):
            stored[tuned.label] = {
                name: np.stack([getattr(outcome, name)[k] for outcome in outcomes]) for name in ARRAYS
            }
        labels = [label for label in stored if label]
        arrays: dict[str, Any] = {name: np.stack([stored[label][name] for label in labels]) for name in ARRAYS}
        path = self.path(cell)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                fingerprint=np.array(self.fingerprint(cell)),
                learners=np.array(labels),
                uniform_regret=stored[""],
                **arrays,
            )
        os.replace(part, path)

    def read(self, cell: Cell) -> Simulation:
        """The results of a cell for the learners of the settings."""
        stored = self.known[cell.id]
        present = [tuned for tuned in self.settings.learners if tuned.label in stored]
        arrays: dict[str, Any] = {name: np.stack([stored[tuned.label][name] for tuned in present]) for name in ARRAYS}
        return Simulation(
            learners=tuple(tuned.label for tuned in present),
            informed=tuple(tuned.informed for tuned in present),
            environment=cell.environment,
            delays=cell.delays,
            seed=self.settings.seed,
            checkpoints=spaced_checkpoints(cell.rounds, POINTS),
            uniform_regret=stored[""],
            **arrays,
        )


def final_rows(league: League) -> Iterator[tuple[Any, ...]]:
    """Every replication's regret at the last round: the header first."""
    yield (
        "cell",
        "learner",
        "told",
        "rounds",
        "replication",
        "regret",
        "uniform_regret",
        "skipped",
        "most_outstanding",
        "drift",
    )
    for cell in league.cells:
        result = league.results[cell.id]
        for k, (learner, told) in enumerate(zip(result.learners, result.informed, strict=True)):
            for r in range(result.regret.shape[1]):
                yield (
                    cell.id,
                    learner,
                    " ".join(told),
                    cell.rounds,
                    r,
                    float(result.regret[k, r, -1]),
                    float(result.uniform_regret[r, -1]),
                    int(result.skipped[k, r]),
                    int(result.most_outstanding[k, r]),
                    float(result.drift[k, r]),
                )


def curve_rows(league: League) -> Iterator[tuple[Any, ...]]:
    """Every mean curve, point by point: the header first."""
    yield ("cell", "learner", "told", "round", "mean_regret", "low", "high")
    for cell in league.cells:
        result = league.results[cell.id]
        for learner, told in zip(result.learners, result.informed, strict=True):
            for point in zip(result.checkpoints, *result.curve(learner), strict=True):
                yield (cell.id, learner, " ".join(told), int(point[0]), *(float(value) for value in point[1:]))
