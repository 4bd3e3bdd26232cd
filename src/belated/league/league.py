"""The league: every learner on every cell of the suite, in replications, kept on disk as it goes.

Stop the league whenever you like, and start it again with the same folder to go on: what is stored is used, what is
missing is computed. Which machine computes what makes no difference to the numbers.
"""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from belated.errors import check_count
from belated.league.plan import League, LeaguePlan, can_play
from belated.league.store import Store
from belated.league.suite import Cell
from belated.simulation import parallel
from belated.simulation.progress import Progress
from belated.simulation.replication import Job, ReplicationResult, compile_for, replicate


def play(
    plan: LeaguePlan,
    folder: Path,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    progress: bool | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> League:
    """Play what is not in the folder yet, and put everything together.

    A cell in which something goes wrong is reported with its name; the others go on.
    """
    if threads is not None:
        check_count("threads", threads)
    store = Store(folder, plan)
    work: dict[str, tuple[Cell, Job]] = {}
    for cell in plan.cells:
        missing = [each for each in plan.learners if can_play(each, cell) and not store.has(cell, each)]
        if missing:
            work[cell.id] = (cell, plan.job(cell, missing))
    failures: dict[str, str] = {}
    if work:
        _play(plan, store, work, failures, threads, cluster, progress, report)
    return store.league(failures)


def _play(
    plan: LeaguePlan,
    store: Store,
    work: dict[str, tuple[Cell, Job]],
    failures: dict[str, str],
    threads: int | None,
    cluster: str | None,
    progress: bool | None,
    report: Callable[[str], None],
) -> None:
    compile_for(plan.learners)
    jobs = [(name, job, number) for name, (_, job) in work.items() for number in range(plan.replications)]
    costs = {name: _cost(job) for name, (_, job) in work.items()}
    bar = Progress(plan.replications * sum(costs.values()), f"{len(work)} cells", progress)
    results: dict[str, dict[int, ReplicationResult]] = {name: {} for name in work}
    done = 0
    try:
        for name, number, result in parallel.run_jobs(attempt, jobs, threads=threads, cluster=cluster):
            done += costs[name]
            bar.at(done)
            if isinstance(result, str):
                if name not in failures:
                    failures[name] = result
                    report(f"cell {name} failed: {result.splitlines()[-1]}")
                continue
            results[name][number] = result
            if len(results[name]) == plan.replications:
                cell, job = work[name]
                store.write(cell, job.learners, [results[name][k] for k in range(plan.replications)])
                results[name].clear()
    finally:
        bar.close()


def attempt(name: str, job: Job, number: int) -> tuple[str, int, ReplicationResult | str]:
    """Return one replication of a cell, or the error that it ended in, in words."""
    try:
        return name, number, replicate(job, number)
    except Exception:
        return name, number, traceback.format_exc().strip()


def _cost(job: Job) -> int:
    """Return about how long a replication takes, in nanoseconds: the base of the time left."""
    return len(job.learners) * job.rounds * (120 + 12 * job.environment.n_arms)


def final_rows(league: League) -> Iterator[tuple[Any, ...]]:
    """Yield every replication's regret at the last round, and when the best arm was known: the header first."""
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
        "known",
        "known_wrong",
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
                    float(result.known[k, r]),
                    bool(result.known_wrong[k, r]),
                )


def curve_rows(league: League) -> Iterator[tuple[Any, ...]]:
    """Yield every mean curve, point by point: the header first."""
    yield ("cell", "learner", "told", "round", "mean_regret", "low", "high")
    for cell in league.cells:
        result = league.results[cell.id]
        for learner, told in zip(result.learners, result.informed, strict=True):
            for point in zip(result.checkpoints, *result.curve(learner), strict=True):
                yield (cell.id, learner, " ".join(told), int(point[0]), *(float(value) for value in point[1:]))
