"""The folder of a league: a file for each cell with the results of each learner, and what the league is about.

A stored result is used only if it is that of the same learner, cell, rounds, replications and seed, computed by the
same code. Files are replaced as a whole, so that a stop leaves the old or the new one.
"""

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.core.kernels import source_digest
from belated.environments import Floats
from belated.errors import InvalidValue
from belated.league import suite
from belated.league.plan import POINTS, League, LeaguePlan, competitors
from belated.league.suite import Cell
from belated.learners import TunedLearner
from belated.simulation import Simulation, spaced_checkpoints
from belated.simulation.replication import ReplicationResult

ARRAYS = ("regret", "skipped", "most_outstanding", "drift", "known", "known_wrong")
_SOURCES = ("core", "delays", "environments", "inference", "learners", "simulation")
"""The packages whose code decides the numbers."""


@dataclass
class StoredCell:
    """The results of a cell."""

    uniform_regret: Floats
    """(replications, checkpoints)"""
    learners: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)
    """Label -> the arrays named in ARRAYS, each by replication."""


class Store:
    """The results in a folder, for the cells of a plan."""

    def __init__(self, folder: Path, plan: LeaguePlan) -> None:
        self.folder = folder
        self.plan = plan
        (folder / "cells").mkdir(parents=True, exist_ok=True)
        self.cells = {cell.id: stored for cell in plan.cells if (stored := self._load(cell)) is not None}

    def path(self, cell: Cell) -> Path:
        """Return the file of a cell: another one for other rounds, replications, seeds and versions of the code."""
        return self.folder / "cells" / f"{cell.id.replace('/', '--')[:80]}--{self.fingerprint(cell)[:8]}.npz"

    def fingerprint(self, cell: Cell) -> str:
        """Return what a stored result must agree in to be used, as a hash."""
        facts = [cell.id, repr(cell.environment), repr(cell.delays), cell.rounds]
        facts += [self.plan.replications, self.plan.seed, POINTS, source_digest(*_SOURCES)]
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()

    def _load(self, cell: Cell) -> StoredCell | None:
        """Return what is stored of a cell; None where the file is missing, foreign or damaged."""
        try:
            with self.path(cell).open("rb") as raw, np.load(raw) as file:
                content = {name: file[name] for name in file.files}
            if str(content["fingerprint"]) != self.fingerprint(cell):
                return None
            stored = StoredCell(content["uniform_regret"])
            for k, label in enumerate(content["learners"]):
                stored.learners[str(label)] = {name: content[name][k] for name in ARRAYS}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        return stored

    def has(self, cell: Cell, tuned: TunedLearner) -> bool:
        return cell.id in self.cells and tuned.label in self.cells[cell.id].learners

    def write(self, cell: Cell, learners: tuple[TunedLearner, ...], results: list[ReplicationResult]) -> None:
        """Add what these learners did in the replications of a cell."""
        uniform_regret = np.stack([result.uniform_regret for result in results])
        stored = self.cells.setdefault(cell.id, StoredCell(uniform_regret))
        for k, tuned in enumerate(learners):
            stored.learners[tuned.label] = {
                name: np.stack([getattr(result, name)[k] for result in results]) for name in ARRAYS
            }
        arrays: dict[str, Any] = {name: np.stack([kept[name] for kept in stored.learners.values()]) for name in ARRAYS}
        path = self.path(cell)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                fingerprint=np.array(self.fingerprint(cell)),
                learners=np.array(list(stored.learners)),
                uniform_regret=stored.uniform_regret,
                **arrays,
            )
        os.replace(part, path)

    def read(self, cell: Cell) -> Simulation:
        """Return the results of a cell for the learners of the plan."""
        stored = self.cells[cell.id]
        present = [tuned for tuned in self.plan.learners if tuned.label in stored.learners]
        arrays: dict[str, Any] = {
            name: np.stack([stored.learners[tuned.label][name] for tuned in present]) for name in ARRAYS
        }
        return Simulation(
            learners=tuple(tuned.label for tuned in present),
            informed=tuple(tuned.informed for tuned in present),
            environment=cell.environment,
            delays=cell.delays,
            seed=self.plan.seed,
            checkpoints=spaced_checkpoints(cell.rounds, POINTS),
            uniform_regret=stored.uniform_regret,
            **arrays,
        )

    def league(self, failures: dict[str, str] | None = None) -> League:
        """Return all that is stored, as a league."""
        failed = failures or {}
        results = {
            cell.id: self.read(cell) for cell in self.plan.cells if cell.id in self.cells and cell.id not in failed
        }
        return League(self.plan, results, failed)


def described(plan: LeaguePlan) -> dict[str, Any]:
    """Return a plan as `league.json` holds it."""
    return {
        "cells": [
            {"id": cell.id, "rounds": cell.rounds} | ({"spec": cell.spec} if cell.spec else {}) for cell in plan.cells
        ],
        "learners": plan.labels,
        "replications": plan.replications,
        "seed": plan.seed,
    }


def read(folder: Path) -> League:
    """Return the league that was played into a folder."""
    path = folder / "league.json"
    if not path.exists():
        raise InvalidValue(f"{folder} holds no league; `belated league --out {folder}` plays one")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        wanted = [(each.get("spec", each["id"]), each["rounds"]) for each in facts["cells"]]
        labels, replications, seed = list(facts["learners"]), facts["replications"], facts["seed"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValue(f"{path} is damaged; `belated league --out {folder}` plays the league again") from error
    try:
        cells = tuple(suite.find([name])[0].at(rounds) for name, rounds in wanted)
        plan = LeaguePlan(cells, competitors(labels), replications, seed)
    except ValueError as error:
        raise InvalidValue(
            f"{folder} holds a league with cells or learners of your own: report.write(folder, league). {error}"
        ) from error
    return Store(folder, plan).league()
