"""Which learner should be the default: the study behind docs/tuning.md, in one command.

    python experiments/default_learner.py                # an hour on two cores; goes on where it was stopped
    python experiments/default_learner.py --quick        # a few minutes: fewer cells, rounds and evaluations

Plays guarded, parts of it and every other learner on the suite (a folder of `belated league` may be given, so that
nothing is played twice), and thompson with settled outcomes alone where there are deadlines; lets an optimiser search
for adversaries against some of them, and plays everybody against everything it found; plays a few cells for a million
rounds. Writes study.md, study.json, tradeoff.png and .svg into the folder.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from adversary import Adversary, costs, search
from numpy.typing import NDArray

from belated import league, simulate
from belated.league import League, suite
from belated.league.standings import floor, rank
from belated.league.suite import Cell
from belated.learners import TunedLearner, catalogue, tune
from belated.report import figures
from belated.report.tables import markdown_table
from belated.simulation.plot import new_figure, settings

PARTS = {"guarded:pilot=0": "leader alone", "guarded:pilot=1": "pilot alone"}
SEARCHED = ("guarded", "balanced", "robust", "hybrid_skipping", "thompson")
ADVERSARIAL = ("constrained", "changing", "corrupted", "resonant")
SETTLED = {
    "stochastic-k10/by-loss": 1000,
    "deadline-k4/10000": 10_000,
    "deadline-k2/10000": 10_000,
    "deadline-k2/5000": 5_000,
    "deadline-early-k4/20000": 20_000,
    "deadline-k10/5000": 5_000,
}
"""The deadline of each cell in which all is known at a deadline."""
LONG = (
    "stochastic-k10/100",
    "conversions-k4/geometric-1000",
    "slow-best-rare-k2/geometric-1000",
    "constrained-k10/100",
)
LABELLED = (
    "guarded",
    *PARTS,
    "balanced",
    "robust",
    "thompson",
    "klucb",
    "ucb",
    "tsallis",
    "tsallis_rv",
    "exp3",
    "hybrid_skipping",
)
"""The points of the figure that have a name."""


def candidates() -> tuple[TunedLearner, ...]:
    """guarded, parts of it, and the catalogue."""
    return league.competitors(["guarded", *PARTS, *(name for name in catalogue if name not in ("guarded", "uniform"))])


def settled_regret(cells: Sequence[Cell], replications: int) -> dict[str, float]:
    """What thompson costs that learns from settled outcomes alone, in each cell with a deadline."""
    found = {}
    for cell in cells:
        if cell.id in SETTLED and SETTLED[cell.id] < cell.rounds:
            options: Any = {"rounds": cell.rounds, "replications": replications, "progress": False, "checkpoints": 2}
            tuned = tune("thompson", settled=SETTLED[cell.id])
            found[cell.id] = float(simulate(tuned, cell.environment, cell.delays, **options).final(tuned.label).mean)
    return found


class Played:
    """Mean regrets of a league, by learner and cell."""

    def __init__(self, played: League, settled: dict[str, float]) -> None:
        self.cells = played.cells
        self.labels = played.plan.labels
        self.finals = played.finals().mean(axis=2)
        self.uninformed = [k for k, tuned in enumerate(played.plan.learners) if not tuned.informed]
        self.floors = np.array([floor(cell) for cell in played.cells])
        self.settled = settled
        self.uniform = np.array([cell.uniform_regret for cell in played.cells])
        self.families = np.array([cell.family for cell in played.cells])
        self.stochastic = ~np.isin(self.families, ADVERSARIAL)

    def of(self, label: str) -> NDArray[np.float64]:
        return np.asarray(self.finals[self.labels.index(label)])

    def missed(self, allowed: NDArray[np.float64], which: NDArray[np.bool_]) -> list[str]:
        """The cells in which guarded is above what is allowed, and above the floor, with both numbers."""
        own = self.of("guarded")
        return [
            f"`{self.cells[k].id}` {own[k]:,.0f} ({allowed[k]:,.0f})"
            for k in np.flatnonzero(which & (own > np.maximum(allowed, self.floors)))
        ]

    def requirements(self) -> list[list[str]]:
        """One row for each requirement: what is asked, of how many cells, in which it is missed."""
        own, every = self.of("guarded"), np.ones(len(self.cells), dtype=bool)
        near = np.minimum(self.of("thompson"), self.of("klucb"))
        best = np.nanmin(self.finals[self.uninformed], axis=0)
        solvable = self.stochastic & (best < 0.3 * self.uniform)
        allowed = np.array([self.settled.get(cell.id, np.inf) for cell in self.cells])
        none = np.array([cell.id.endswith("/none") for cell in self.cells]) & (self.families == "even")
        scales = own / np.array([cell.theory for cell in self.cells])
        fixed = np.where(self.stochastic, -np.inf, scales)
        rows = [
            ("at most 1.5 times `thompson` or `klucb`, whichever is better", 1.5 * near, self.stochastic),
            ("at most 0.6 of uniform play where somebody is below 0.3", 0.6 * self.uniform, solvable),
            ("deadlines: at most `thompson` with settled outcomes alone", allowed, np.isfinite(allowed)),
            ("one-sided reports: at most `balanced`", self.of("balanced"), self.families == "one-sided"),
            ("losses that change: at most 1.1 times `balanced`", 1.1 * self.of("balanced"), ~self.stochastic),
            ("no delay, losses around ½: at most 1.1 times `tsallis_rv`", 1.1 * self.of("tsallis_rv"), none),
        ]
        found = []
        for says, limit, which in rows:
            where = self.missed(limit, which & every)
            found.append([says, str(int(which.sum())), str(len(where)), ", ".join(where) or "–"])
        worst = int(np.argmax(fixed))
        found.append(
            [
                "losses that change: regret at most 0.9 (√(KT) + Φ)",
                str(int((~self.stochastic).sum())),
                str(int((fixed > 0.9).sum())),
                f"largest: {fixed[worst]:.2f} (`{self.cells[worst].id}`)",
            ]
        )
        return found


def hunt(rounds: int, evaluations: int, arms: Sequence[int]) -> list[tuple[str, Adversary]]:
    """The adversaries found, each with the learner that it was found against."""
    found = []
    for words in SEARCHED:
        for n_arms in arms:
            found += [(words, each) for each in search(tune(words), n_arms, rounds, evaluations, seed=n_arms)]
            print(f"{words}, {n_arms} arms: {found[-1][1].describe()}", flush=True)
    return found


def judge(hunted: list[tuple[str, Adversary]], replications: int) -> tuple[list[str], NDArray[np.float64]]:
    """What delay cost every uninformed candidate against every adversary."""
    able = [each for each in candidates() if not each.informed]
    table = np.array([costs(able, adversary, replications) for _, adversary in hunted]).T
    return [each.label for each in able], table


def long_runs(rounds: int, replications: int) -> list[list[str]]:
    """Regret of guarded, thompson and balanced after a tenth of the rounds and after all of them."""
    rows = []
    for cell in suite.find(LONG):
        options: Any = {"rounds": rounds, "replications": replications, "progress": False}
        names = ["guarded", "thompson", "balanced"]
        result = simulate(names, cell.environment, cell.delays, checkpoints=[rounds // 10, rounds], **options)
        means = result.regret.mean(axis=1)
        rows.append([f"`{cell.id}`", *(f"{means[k, 0]:,.0f} → {means[k, 1]:,.0f}" for k in range(3))])
    return rows


def draw(means: dict[str, float], labels: list[str], table: NDArray[np.float64]) -> Any:
    """How good on the suite on the whole, how bad against the worst adversary found."""
    worst = dict(zip(labels, table.max(axis=1), strict=True))
    with settings():
        figure = new_figure(6.4, 4.2)
        axes = figure.subplots()
        for label, mean in means.items():
            if label not in worst:
                continue
            family = label.partition(":")[0]
            colour = {"guarded": "#0072B2", "robust": "#D55E00"}.get(family, "#8A8A8A")
            axes.plot(mean, worst[label], "o", color=colour, markersize=6 if label in catalogue else 4)
            if label in LABELLED:
                place = (mean, worst[label])
                axes.annotate(
                    PARTS.get(label, label), place, xytext=(0, 6), textcoords="offset points", fontsize=7, ha="center"
                )
        axes.set_xlim(1.0, 20.0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
        axes.set_xlabel("mean ratio to the best of each cell, families weighed equally")
        axes.set_ylabel("worst adversary: cost of delay / √(D log K)")
        axes.grid(True, which="major")
    return figure


def main() -> None:
    """Play, search, judge, write."""
    parser = argparse.ArgumentParser(description="The study behind docs/tuning.md.")
    parser.add_argument("--quick", action="store_true", help="8 cells at 20,000 rounds, short searches")
    parser.add_argument("--rounds", type=int, help="of the searches; default: 20,000 (quick: 5,000)")
    parser.add_argument("--evaluations", type=int, help="of each search; default: 120 (quick: 20)")
    parser.add_argument("--replications", type=int, default=20, help="on the suite; default: 20")
    parser.add_argument("--league", type=Path, help="a folder of `belated league`, to go on from")
    parser.add_argument("--out", type=Path, default=Path("results/study"))
    options = parser.parse_args()
    cells = tuple((suite.quick if options.quick else suite.suite).values())
    rounds = options.rounds or (5_000 if options.quick else 20_000)
    evaluations = options.evaluations or (20 if options.quick else 120)
    options.out.mkdir(parents=True, exist_ok=True)
    plan = league.LeaguePlan(cells, candidates(), options.replications)
    played = league.play(plan, options.league or options.out / "suite", report=print)
    standings = rank(played)
    found = Played(played, settled_regret(cells, options.replications))
    hunted = hunt(rounds, evaluations, (2,) if options.quick else (2, 10))
    labels, table = judge(hunted, 2 if options.quick else 8)
    worst = dict(zip(labels, table.max(axis=1), strict=True))
    means = {each.learner: each.geometric for each in standings}
    header = ["learner", "mean ratio", "worst ratio", "in cell", "worst cost of delay, all adversaries found"]
    rows = [
        [
            f"`{each.learner}`{'†' if each.informed else ''}",
            f"{each.geometric:.2f} [{each.low:.2f}, {each.high:.2f}]",
            f"{each.worst:.1f}",
            f"`{each.worst_cell}`",
            f"{worst[each.learner]:.2f}" if each.learner in worst else "–",
        ]
        for each in standings
    ]
    parts = [
        markdown_table(["requirement", "cells", "missed", "where: regret (allowed)"], found.requirements()),
        markdown_table(header, rows),
        markdown_table(
            ["cell", "`guarded`", "`thompson`", "`balanced`"],
            long_runs(*((20_000, 2) if options.quick else (1_000_000, 8))),
        ),
        "\n".join(
            f"- {table[labels.index('guarded'), k]:.2f} (found against `{words}`): {each.describe()}"
            for k, (words, each) in enumerate(hunted)
        ),
    ]
    (options.out / "study.md").write_text("\n\n".join(parts) + "\n")
    adversaries = [
        {"against": words, "adversary": each.describe(), "costs": dict(zip(labels, table[:, k].tolist(), strict=True))}
        for k, (words, each) in enumerate(hunted)
    ]
    (options.out / "study.json").write_text(
        json.dumps({"means": means, "settled": found.settled, "adversaries": adversaries}, indent=1) + "\n"
    )
    figures.save(draw(means, labels, table), options.out / "tradeoff")
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
