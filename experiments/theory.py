"""What the proof needs of its constant and of its way of counting: the tables of docs/theory.md and docs/math.md.

    python experiments/theory.py                    # all cells of the suite `paper`, 5 constants: about four minutes

Prints three tables as Markdown. The first compares the count when a round opens with that of the paper's listing. The
second audits `robust` on every cell at each constant: the largest measured / bound, and where it is broken. The third
has the cost of delay that `balanced` measures on every cell, against what its derivation allows, and its drift.
"""

import argparse
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from belated.audit import audit, lemmas
from belated.audit.audit import Audit
from belated.audit.lemmas import Run
from belated.bounds.waiting import Waiting, follow
from belated.delays import Delays
from belated.league import suite
from belated.league.suite import Cell
from belated.learners import tune
from belated.report.tables import markdown_table
from belated.simulation.parallel import available_cores
from belated.templates.display import number

CONSTANTS = (49.0, 8.0, 1.0, 0.1, 0.01)
READINGS = ("constant:delay=1", "uniform:low=0,high=2", "constant:delay=20", "pareto:shape=1,scale=10")


def audits(
    cells: Sequence[Cell], constants: Sequence[float], rounds: int | None, replications: int
) -> list[list[Audit]]:
    """For each constant, the audits of all cells."""

    def one(job: tuple[float, Cell]) -> Audit:
        constant, cell = job
        return audit.run(
            tune("robust", delay_constant=constant),
            cell.environment,
            cell.delays,
            rounds=rounds or cell.rounds,
            replications=replications,
        )

    with ThreadPoolExecutor(available_cores()) as pool:
        done = list(pool.map(one, [(constant, cell) for constant in constants for cell in cells]))
    return [done[k * len(cells) : (k + 1) * len(cells)] for k in range(len(constants))]


def constants_table(constants: Sequence[float], found: list[list[Audit]]) -> str:
    """Return a row for each lemma: at each constant the worst measured / bound, and in how many cells it is broken."""
    rows = []
    for name in [finding.name for finding in found[0][0].findings]:
        row = [name, found[0][0][name].where]
        for of_constant in found:
            known = [each[name] for each in of_constant if each[name].holds is not None]
            worst = max((_share(finding.measured, finding.bound) for finding in known), default=math.nan)
            broken = sum(finding.holds is False for finding in known)
            row.append(number(worst) + (f" (**broken in {broken} of {len(known)}**)" if broken else ""))
        rows.append(row)
    return markdown_table(["lemma", "where", *(f"c = {constant:g}" for constant in constants)], rows)


def _share(measured: float, bound: float) -> float:
    return measured / bound if bound else measured


def literal(delays: np.ndarray, arms: int, constant: float) -> Waiting:
    """The paper's listing as it stands: sigma_t counts s < t with s + d_s > t, after the arrivals of round t."""
    rounds = delays.size
    unit = constant * arms ** (2 / 3) * math.log(arms)
    ended = np.zeros(rounds, dtype=np.int64)
    skipped = np.zeros(rounds, dtype=np.bool_)
    outstanding = np.zeros(rounds, dtype=np.int64)
    patience = np.zeros(rounds)
    total = 0
    active: list[int] = []
    due: dict[int, list[int]] = {}
    for t in range(1, rounds + 1):
        for s in due.pop(t, []):
            if s in active:
                active.remove(s)
                ended[s - 1] = t
        outstanding[t - 1] = len(active)
        total += len(active)
        patience[t - 1] = math.sqrt(total / unit)
        if active and t - active[0] >= patience[t - 1]:
            skipped[active[0] - 1], ended[active[0] - 1] = True, t
            active.pop(0)
        if delays[t - 1] == 0:
            ended[t - 1] = t
        else:
            active.append(t)
            due.setdefault(t + int(delays[t - 1]), []).append(t)
    return Waiting(outstanding, patience, ended, skipped)


def readings_table(rounds: int, arms: int = 10, constant: float = 49.0) -> str:
    """Statements under the two ways of counting."""
    rows = []
    for words in READINGS:
        law = Delays.find(words)
        delays = law.fill(np.random.default_rng(0), np.arange(1, rounds + 1))
        ways = {
            "when the round opens": follow(tune("robust", delay_constant=constant), arms, delays),
            "as listed": literal(delays, arms, constant),
        }
        for name, waiting in ways.items():
            run = Run(arms, waiting, np.ones(rounds), delays, constant)
            rows.append(
                [
                    law.title,
                    name,
                    number(float(waiting.outstanding.sum())),
                    number(float(waiting.waited.sum())),
                    *(number(float(each(run).measured)) for each in (lemmas.counts, lemmas.rearrangement)),
                    number(lemmas.total_wait(run).measured),
                    number(float(waiting.skipped.sum())),
                ]
            )
    header = [
        "delays",
        "σ_t is counted",
        "D_T",
        "Σ d̂",
        "σ_t is too small by, at most",
        "an arrival moves beyond σ_max by",
        "largest Σ d̂ / (2 D_t + 1)",
        "skipped",
    ]
    return markdown_table(header, rows)


def balance_table(cells: Sequence[Cell], rounds: int | None, replications: int) -> str:
    """What `balanced` pays for delay on every cell with some, in the replication closest to what is allowed."""

    def row(cell: Cell) -> list[str]:
        found = audit.run(
            "balanced", cell.environment, cell.delays, rounds=rounds or cell.rounds, replications=replications
        )
        balance, drift = found["balance"], found["drift control"]
        share = _share(balance.measured, balance.bound)
        return [f"`{cell.id}`", number(balance.measured), number(balance.bound), f"{share:.3f}", number(drift.measured)]

    with ThreadPoolExecutor(available_cores()) as pool:
        rows = list(pool.map(row, [cell for cell in cells if cell.instance().total_delay > 0]))
    return markdown_table(["cell", "B", "√(2 D_T log K / κ)", "share", "drift"], rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="The tables of docs/theory.md and docs/math.md.")
    parser.add_argument("--cells", nargs="+", default=list(suite.paper))
    parser.add_argument("--constants", nargs="+", type=float, default=CONSTANTS)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--replications", type=int, default=5)
    options = parser.parse_args()
    print(readings_table(options.rounds or 20_000))
    print()
    cells = suite.find(options.cells)
    print(constants_table(options.constants, audits(cells, options.constants, options.rounds, options.replications)))
    print()
    print(balance_table(cells, options.rounds, options.replications))


if __name__ == "__main__":
    main()
