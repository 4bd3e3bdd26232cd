"""The regret of every leader on every cell, split into terms: the table of docs/theory.md.

    python experiments/split.py                     # all leaders on all cells of the suite: about five minutes

Prints a table as Markdown, a row for each leader: in how many cells mean regret is at most the mean bound, the cell
where regret comes closest to it or goes furthest beyond, and where the noise is not 0 and why. Cells are played for at
most 20,000 rounds, those with many arms for fewer.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from belated import learners
from belated.audit.split import Split, split
from belated.errors import InvalidValue
from belated.league import suite
from belated.league.suite import Cell
from belated.report.tables import markdown_table
from belated.simulation.intervals import mean_interval
from belated.simulation.parallel import available_cores

MOST_NUMBERS = 2_000_000
"""Arms times rounds."""
LEADERS = [name for name, learner in learners.catalogue.items() if learner.is_leader]
HEADER = ("leader", "cells", "bound holds", "(regret - bound) / bound, largest", "in cell", "noise is not 0", "why")


def splits(names: Sequence[str], cells: Sequence[Cell], rounds: int, replications: int) -> dict[str, dict[str, Split]]:
    """For each leader, its split on every cell that it can be played on."""

    def one(job: tuple[str, Cell]) -> Split | None:
        name, cell = job
        length = min(rounds, cell.rounds, MOST_NUMBERS // cell.environment.n_arms)
        try:
            return split(name, cell.environment, cell.delays, rounds=length, replications=replications)
        except InvalidValue:  # it must know what this cell cannot tell
            return None

    jobs = [(name, cell) for name in names for cell in cells]
    with ThreadPoolExecutor(available_cores()) as pool:
        done = list(pool.map(one, jobs))
    found: dict[str, dict[str, Split]] = {name: {} for name in names}
    for (name, cell), result in zip(jobs, done, strict=True):
        if result:
            found[name][cell.id] = result
    return found


def row(name: str, found: dict[str, Split]) -> list[str]:
    """Return what all cells say about one leader."""
    shares = {cell: mean_interval(each.excess / each.bound.mean()) for cell, each in found.items()}
    worst = max(shares, key=lambda cell: float(shares[cell].mean))
    mean, low, high = (float(each) for each in shares[worst])
    why: Counter[str] = Counter()
    for each in found.values():
        if each.unbiased is False:
            side = "above" if each.noise.mean() > 0.0 else "below"
            why[f"{' and '.join(each.assumptions) or 'no assumption fails'}: {side}"] += 1
    return [
        f"`{name}`",
        str(len(found)),
        str(sum(each.holds is not False for each in found.values())),
        f"{mean:.3f} ({low:.3f} to {high:.3f})",
        f"`{worst}`",
        str(sum(why.values())),
        "; ".join(f"{reason} ({count})" for reason, count in why.most_common()) or "–",
    ]


def main() -> None:
    """Print the table, the cells where the bound does not hold, and how exact the identity was."""
    parser = argparse.ArgumentParser(description="The split of every leader's regret on every cell.")
    parser.add_argument("--cells", nargs="+", default=["*"])
    parser.add_argument("--learners", nargs="+", default=LEADERS)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--replications", type=int, default=10)
    options = parser.parse_args()
    found = splits(options.learners, suite.find(options.cells), options.rounds, options.replications)
    print(markdown_table(HEADER, [row(name, cells) for name, cells in found.items() if cells]))
    print()
    every = [(name, cell, each) for name, cells in found.items() for cell, each in cells.items()]
    for name, cell, each in every:
        if each.holds is False or not each.follows:
            print(
                f"- `{name}` on `{cell}`: regret {each.mean('regret').text}, bound {each.mean('bound').text};", end=" "
            )
            print(each.verdict)
    print()
    least = min(float(np.min(each.least_stability)) for _, _, each in every)
    print(
        f"Largest error of the identity: {max(each.error for _, _, each in every):.1e}. Least stability: {least:.1e}."
    )


if __name__ == "__main__":
    main()
