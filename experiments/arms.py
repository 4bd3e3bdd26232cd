"""What it costs to start anew when arms come and go: the study behind docs/learners.md, in one command.

    python experiments/arms.py                # two minutes on two cores
    python experiments/arms.py --tune         # ten minutes: YOUTH and YOUNG_NOISE, on random problems

Plays learners on the cells of the family `arms` as they are, and once more so that every learner starts from nothing
whenever an arm comes or goes. Prints the regret of both, and their ratio with a 95 % interval: bootstrap percentiles
over replications, which meet the same losses either way. Below 1, what was known was worth something.

The random problems have other arms than the suite, at other times: losses around one half, rare wins or spread means;
newcomers that are better than all others, worse than the best, or any; delays of five kinds.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated import simulate
from belated.environments import Arms
from belated.league import suite
from belated.learners import guarded, rearm
from belated.report.tables import markdown_table

LEARNERS = ("guarded", "balanced", "robust", "thompson", "klucb", "tsallis")
DRAWS = 1000
FLOOR = 5.0
"""Of the mean regrets that ratios are made of in random problems: less is luck."""
YOUTHS = (1.0, 8.0, 64.0, 512.0, 2048.0, math.inf)
NOISES = (2.0, 32.0, 128.0, 512.0, 2048.0, math.inf)
LAWS = ("none", "constant:delay=100", "geometric:mean=100", "geometric:mean=1000", "pareto:shape=1,scale=10")

Floats = NDArray[np.float64]


class Problem(NamedTuple):
    """Arms that come and go, and their delays."""

    arms: Arms
    delays: Any
    rounds: int


def regrets(learners: Sequence[str], problem: Problem, replications: int) -> Floats:
    """Return regret at the last round: (learners, replications)."""
    options: Any = {"rounds": problem.rounds, "replications": replications, "progress": False, "checkpoints": 2}
    return simulate(list(learners), problem.arms, problem.delays, **options).regret[:, :, -1]


def anew(problem: Problem) -> Problem:
    """Return the same problem, in which learners start from nothing at every change."""
    return problem._replace(arms=replace(problem.arms, anew=True))


def ratio(going_on: Floats, starting: Floats) -> str:
    """Return the ratio of mean regrets with its interval."""
    drawn = np.random.default_rng(0).integers(0, going_on.size, (DRAWS, going_on.size))
    low, high = np.percentile(going_on[drawn].mean(axis=1) / starting[drawn].mean(axis=1), [2.5, 97.5])
    return f"{going_on.mean() / starting.mean():.2f} ({low:.2f}–{high:.2f})"


def compare(rounds: int | None, replications: int) -> str:
    """Return the table of the cells: going on, starting anew, their ratio."""
    rows = []
    for cell in suite.within(suite.suite.values(), ["arms"]):
        problem = Problem(cell.environment, cell.delays, rounds or cell.rounds)
        on, start = (regrets(LEARNERS, each, replications) for each in (problem, anew(problem)))
        rows += [
            [f"`{cell.id}`", f"`{name}`", f"{a.mean():,.0f}", f"{b.mean():,.0f}", ratio(a, b)]
            for name, a, b in zip(LEARNERS, on, start, strict=True)
        ]
    return markdown_table(["cell", "learner", "going on", "starting anew", "ratio"], rows)


def random_problem(rng: np.random.Generator, rounds: int) -> Problem:
    """Return 2 to 8 arms, of which one may leave, and 1 to 3 that come."""
    first, new = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    level = rng.choice(["even", "rare", "spread"])
    low, high = {"even": (0.4, 0.6), "rare": (0.94, 0.98), "spread": (0.1, 0.9)}[str(level)]
    means = rng.uniform(low, high, first + new)
    best, width = means[:first].min(), np.ptp(means[:first])
    kind = rng.choice(["any", "better", "worse"])
    if kind == "better":
        means[first] = best - width * rng.uniform(0.1, 0.5)
    elif kind == "worse":
        means[first:] = best + width * rng.uniform(0.1, 1.0, new)
    enter, leave = np.zeros(first + new), np.ones(first + new)
    enter[first:] = rng.uniform(0.1, 0.9, new)
    if first > 2 and rng.random() < 0.5:
        leave[rng.integers(first)] = rng.uniform(0.2, 0.9)
    arms = Arms(means.clip(0.01, 0.99).tolist(), enter.tolist(), leave.tolist())
    return Problem(arms, str(rng.choice(LAWS)), rounds)


def tune(rounds: int, replications: int, count: int) -> str:
    """Return the table of both constants: ratios to starting anew, over random problems of two lengths."""
    rng = np.random.default_rng(1)
    problems = [random_problem(rng, rounds if k % 3 else 5 * rounds) for k in range(count)]
    rows = []
    for module, constant, values, learners in (
        (rearm, "YOUTH", YOUTHS, ("balanced", "tsallis", "exp3", "hybrid_skipping", "robust")),
        (guarded, "YOUNG_NOISE", NOISES, ("guarded", "guarded:pilot=0")),
    ):
        start = np.array([regrets(learners, anew(each), replications).mean(axis=1) for each in problems])
        usual = getattr(module, constant)
        for value in values:
            setattr(module, constant, value)
            on = np.array([regrets(learners, each, replications).mean(axis=1) for each in problems])
            ratios = np.maximum(on, FLOOR) / np.maximum(start, FLOOR)
            means = np.exp(np.log(ratios).mean(axis=0))
            shown = [
                f"`{name}` {a:.2f}, {b:.2f}" for name, a, b in zip(learners, means, ratios.max(axis=0), strict=True)
            ]
            rows.append([f"`{constant}` = {value:g}", "; ".join(shown)])
        setattr(module, constant, usual)
    return markdown_table(["constant", "ratio to starting anew: geometric mean, worst"], rows)


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description="What it costs to start anew when arms come and go.")
    parser.add_argument("--tune", action="store_true", help="try values of YOUTH and YOUNG_NOISE instead")
    parser.add_argument("--rounds", type=int, help="default: those of the cells; with --tune 50,000")
    parser.add_argument("--replications", type=int, help="default: 20; with --tune 8")
    parser.add_argument("--problems", type=int, default=30, help="random ones, with --tune; default: 30")
    options = parser.parse_args()
    if options.tune:
        print(tune(options.rounds or 50_000, options.replications or 8, options.problems))
    else:
        print(compare(options.rounds, options.replications or 20))


if __name__ == "__main__":
    main()
