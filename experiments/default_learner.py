"""Which learner should be the default: the study behind docs/tuning.md, in one command.

    python experiments/default_learner.py                # half an hour on two cores
    python experiments/default_learner.py --quick        # a few minutes: fewer cells, rounds and evaluations

Plays candidates (balanced and robust at several constants, every other learner) on the suite, going on where it was
stopped; lets an optimiser search
for adversaries against some of them, and plays everybody against everything it found. Writes study.md, study.json,
tradeoff.png and .svg into the folder.
"""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from adversary import Adversary, costs, search
from numpy.typing import NDArray

from belated import league, simulate
from belated.league import League, suite
from belated.league.standings import ratios
from belated.league.suite import Cell
from belated.learners import TunedLearner, catalogue, tune
from belated.report import figures
from belated.report.tables import markdown_table
from belated.simulation.plot import new_figure, settings

KAPPAS = (0.5, 1.0, 4.0, 8.0, 16.0)
CONSTANTS = (8.0, 1.0, 0.1, 0.01)
SEARCHED = (
    "balanced:kappa=1",
    "balanced",
    "balanced:kappa=4",
    "balanced:kappa=8",
    "robust",
    "robust:delay_constant=1",
    "robust:delay_constant=0.1",
    "hybrid_skipping",
    "tsallis_rv",
    "thompson",
)

LABELLED = {
    "balanced": ("balanced", "left"),
    "balanced:kappa=1": ("κ = 1", "right"),
    "balanced:kappa=4": ("κ = 4", "left"),
    "balanced:kappa=8": ("κ = 8", "left"),
    "balanced:kappa=16": ("κ = 16", "left"),
    "robust": ("robust (49)", "right"),
    "robust:delay_constant=8": ("8", "right"),
    "robust:delay_constant=1": ("1", "right"),
    "robust:delay_constant=0.1": ("0.1", "right"),
    "robust:delay_constant=0.01": ("0.01", "right"),
    "thompson": ("thompson", "right"),
    "ucb": ("ucb", "right"),
    "klucb": ("klucb", "right"),
    "tsallis_rv": ("tsallis_rv", "right"),
    "hybrid_skipping": ("hybrid_skipping", "right"),
    "uniform": ("uniform", "left"),
}
"""The points of the figure that have a name, and on which side it stands."""


def candidates() -> tuple[TunedLearner, ...]:
    """balanced, its price at other values, its parts left out; robust at other constants; the rest of the catalogue."""
    words: list[Any] = [
        "balanced",
        *(f"balanced:kappa={kappa:g}" for kappa in KAPPAS),
        "balanced:patience_constant=100",
        "balanced:baseline=1e9",
        *(f"robust:delay_constant={constant:g}" for constant in CONSTANTS),
    ]
    return league.competitors([*words, *(name for name in catalogue if name != "balanced")])


def play_suite(cells: Sequence[Cell], replications: int, folder: Path) -> League:
    settings = league.LeaguePlan(tuple(cells), candidates(), replications)
    return league.play(settings, folder, report=print)


def without_delays(cells: Sequence[Cell], replications: int) -> dict[str, float]:
    """The regret of tsallis in each cell, were nothing delayed."""
    found = {}
    for cell in cells:
        settings: Any = {"rounds": cell.rounds, "replications": replications, "progress": False, "checkpoints": 2}
        found[cell.id] = float(simulate("tsallis", cell.environment, "none", **settings).final("tsallis").mean)
    return found


def measures(played: League, free: dict[str, float]) -> dict[str, dict[str, Any]]:
    """For each candidate: mean and worst ratio, worst regret over scale, over ucb, and beyond what delay may cost."""
    labels = played.plan.labels
    finals = played.finals().mean(axis=2)
    table = ratios(played)
    ucb = finals[labels.index("ucb")]
    ids = [cell.id for cell in played.cells]
    steady = np.array([cell.environment.steady_means is not None for cell in played.cells])
    scales = np.array([cell.theory for cell in played.cells])
    units = np.array(
        [math.sqrt(cell.instance().total_delay * math.log(cell.environment.n_arms)) for cell in played.cells]
    )
    base = np.array([max(0.0, free[name]) for name in ids])
    found: dict[str, dict[str, Any]] = {}
    for k, label in enumerate(labels):
        beyond = np.where(units > 0.0, (finals[k] - base) / np.maximum(units, 1.0), -np.inf)
        columns = {"ratio": table[k], "scale": finals[k] / scales, "ucb": np.where(steady, finals[k] / ucb, -np.inf)}
        found[label] = {"geometric": float(np.exp(np.nanmean(np.log(table[k]))))}
        for name, values in {**columns, "delay": beyond}.items():
            worst = int(np.nanargmax(values))
            found[label][name] = (float(values[worst]), ids[worst])
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


def report(suite_measures: dict[str, dict[str, Any]], labels: list[str], hunted: NDArray[np.float64]) -> str:
    """One row for each candidate."""
    worst = dict(zip(labels, hunted.max(axis=1), strict=True))
    rows = []
    for label, each in sorted(suite_measures.items(), key=lambda item: item[1]["geometric"]):
        cells = [f"{each[name][0]:.2f} ({each[name][1]})" for name in ("ratio", "scale", "ucb", "delay")]
        rows.append(
            [f"`{label}`", f"{each['geometric']:.2f}", *cells, f"{worst[label]:.2f}" if label in worst else "–"]
        )
    header = ["learner", "mean ratio", "worst ratio", "worst regret / scale", "worst / ucb", "worst cost of delay"]
    return markdown_table([*header, "… of all adversaries found"], rows)


def draw(suite_measures: dict[str, dict[str, Any]], labels: list[str], hunted: NDArray[np.float64]) -> Any:
    """How good on the suite on the whole, how bad at the worst: against adversaries, and in a cell."""
    worst = dict(zip(labels, hunted.max(axis=1), strict=True))
    with settings():
        figure = new_figure(9.6, 4.2)
        panels = figure.subplots(1, 2, sharex=True)
        for axes, title in zip(panels, ("worst adversary found", "worst cell of the suite"), strict=True):
            for label, each in suite_measures.items():
                if label not in worst:
                    continue
                family = label.partition(":")[0]
                colour = {"balanced": "#0072B2", "robust": "#D55E00"}.get(family, "#8A8A8A")
                height = worst[label] if axes is panels[0] else each["ratio"][0]
                axes.plot(each["geometric"], height, "o", color=colour, markersize=6 if label in catalogue else 4)
                if label in LABELLED:
                    name, side = LABELLED[label]
                    place = (each["geometric"], height)
                    offset = {"right": (6, -2), "left": (-6, -2)}[side]
                    axes.annotate(
                        name,
                        place,
                        xytext=offset,
                        textcoords="offset points",
                        fontsize=7,
                        ha="left" if side == "right" else "right",
                    )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(1.2, 15)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("mean ratio to the best of each cell")
            axes.grid(True, which="major")
        panels[0].set_ylabel("(regret - tsallis without delays) / √(D log K)")
        panels[1].set_ylabel("regret / that of the best")
    return figure


def main() -> None:
    """Play, search, judge, write."""
    parser = argparse.ArgumentParser(description="The study behind docs/tuning.md.")
    parser.add_argument("--quick", action="store_true", help="8 cells at 20,000 rounds, short searches")
    parser.add_argument("--rounds", type=int, help="of the searches; default: 50,000 (quick: 5,000)")
    parser.add_argument("--evaluations", type=int, help="of each search; default: 100 (quick: 20)")
    parser.add_argument("--replications", type=int, default=20, help="on the suite; default: 20")
    parser.add_argument("--out", type=Path, default=Path("results/study"))
    options = parser.parse_args()
    cells = tuple((suite.quick if options.quick else suite.suite).values())
    rounds = options.rounds or (5_000 if options.quick else 50_000)
    evaluations = options.evaluations or (20 if options.quick else 100)
    options.out.mkdir(parents=True, exist_ok=True)
    played = play_suite(cells, options.replications, options.out / "suite")
    on_suite = measures(played, without_delays(cells, options.replications))
    hunted = hunt(rounds, evaluations, (2,) if options.quick else (2, 10))
    labels, table = judge(hunted, 2 if options.quick else 8)
    text = report(on_suite, labels, table)
    adversaries = [
        {"against": words, "adversary": each.describe(), "costs": dict(zip(labels, table[:, k].tolist(), strict=True))}
        for k, (words, each) in enumerate(hunted)
    ]
    (options.out / "study.md").write_text(text + "\n")
    (options.out / "study.json").write_text(
        json.dumps({"suite": on_suite, "adversaries": adversaries}, indent=1) + "\n"
    )
    figures.save(draw(on_suite, labels, table), options.out / "tradeoff")
    print(text)


if __name__ == "__main__":
    main()
