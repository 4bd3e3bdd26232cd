"""Many simulated trials: each stopped by its rule and analysed, one block of simulations at a time."""

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.simulation.parallel import available_cores
from belated.simulation.progress import Progress
from belated.simulation.replication import Job, compile_for
from belated.trial import analyses
from belated.trial.course import Course, play, stacked
from belated.trial.plan import Plan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCK = 50
"""Simulations that a thread plays and analyses at a time."""

ANALYSES = {
    "randomisation": "bets on randomisation",
    "betting": "betting",
    "calibrated": "z-test, calibrated",
    "naive": "z-test",
    "peeking": "z-test at every look",
}
"""Names of analyses, and what tables call them."""


@dataclass(frozen=True)
class Trials:
    """What came of many trials of one design. The first axis is that of the simulations."""

    enrolled: Integers
    """Patients of each arm when the trial ended: (simulations, arms)."""
    successes: Integers
    """How many of them had a success, those included whose outcomes came after the end."""
    time: Floats
    """When the trial ended: when an arm won, or when all outcomes were in."""
    winners: Mapping[str, Integers]
    """The arm that wins by each analysis, or -1."""
    sizes: Mapping[str, Integers]
    """How many patients were enrolled if that analysis alone decided when to stop."""
    beats: Mapping[str, Bools]
    """Whether some arm is shown to be better than the control by each analysis."""
    leader: Integers
    """The arm that leads once all patients are enrolled and all outcomes are in."""
    z: Floats
    """Its least z statistic against another arm then."""
    control_z: Floats
    """The largest z statistic of an arm against the control then."""
    steps: Integers
    """Patients of each arm up to the end of each step, as if nothing had stopped: (simulations, steps + 1, arms)."""

    @property
    def patients(self) -> Integers:
        return self.enrolled.sum(axis=1)


def analysed(plan: Plan, courses: Course, is_certain: bool = False) -> Trials:
    """Return what came of these trials. A learner that is certain which arm it chooses is judged by betting."""
    rows = np.arange(len(courses.known))
    sizes = np.append(plan.looks, plan.patients)
    bet, better = analyses.first_wins(courses.known, plan.alpha)
    at, winner = (bet, better) if is_certain else analyses.first_shown(courses.evidence, plan.alpha)
    is_over = at < plan.looks.size  # before all outcomes were in
    critical = analyses.critical_value(plan.alpha, plan.world.n_arms)
    leader, z = analyses.z_statistics(courses.known[:, -1])
    found = {"betting": better, "naive": analyses.z_wins(leader, z, critical)}
    control_z = analyses.control_statistics(courses.known)
    beats = {
        "betting": analyses.beat_control(courses.known[rows, bet], plan.alpha),
        "naive": analyses.is_significant(control_z[:, -1], critical),
    }
    enrolled = {"betting": sizes[bet], "naive": np.full(rows.size, plan.patients)}
    if not is_certain:
        found = {"randomisation": winner, **found}
        level = np.log((plan.world.n_arms - 1) / plan.alpha)
        beats = {"randomisation": np.asarray(courses.control_evidence[rows, at] >= level), **beats}
        enrolled = {"randomisation": sizes[at], **enrolled}
    if plan.looks.size:
        peeked, found["peeking"] = analyses.first_z_wins(courses.known, critical)
        enrolled["peeking"] = sizes[peeked]
        beats["peeking"] = np.asarray(analyses.is_significant(control_z, critical).any(axis=1))
    return Trials(
        enrolled=courses.enrolled[rows, at],
        successes=courses.successes[rows, at],
        time=np.where(is_over, sizes[at], courses.complete[rows, at]) / plan.accrual,
        winners=found,
        sizes=enrolled,
        beats=beats,
        leader=leader,
        z=z,
        control_z=control_z[:, -1],
        steps=courses.steps,
    )


def _joined(parts: Sequence[Trials]) -> Trials:
    def join(values: Sequence[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: np.concatenate([value[name] for value in values]) for name in values[0]}
        return np.concatenate(values)

    return Trials(**{each.name: join([getattr(part, each.name) for part in parts]) for each in fields(Trials)})


def _calibrated(trials: Trials, null: Trials, alpha: float) -> Trials:
    """Return the trials with one analysis more: the z-test with critical values from the trials under the null."""
    winner = analyses.z_wins(trials.leader, trials.z, analyses.calibrated_value(null.leader, null.z, alpha))
    critical = analyses.calibrated_value(np.ones_like(null.leader), null.control_z, alpha)
    return replace(
        trials,
        winners={**trials.winners, "calibrated": winner},
        sizes={**trials.sizes, "calibrated": trials.sizes["naive"]},
        beats={**trials.beats, "calibrated": analyses.is_significant(trials.control_z, critical)},
    )


Pair = tuple[Trials, Trials]
"""Trials of the learner, and of fixed randomisation."""


def _block(plan: Plan, job: Job, begin: int) -> Pair:
    simulations = range(begin, min(begin + BLOCK, plan.simulations))
    courses = zip(*(play(plan, job, simulation) for simulation in simulations), strict=True)
    adaptive, fixed = (stacked(each) for each in courses)
    is_certain = plan.tuned.learner.deterministic and not plan.tuned.share_floor
    return analysed(plan, adaptive, is_certain), analysed(plan, fixed)


def simulate_trials(plan: Plan, threads: int | None = None, progress: bool | None = None) -> tuple[Pair, Pair]:
    """Return trials as planned, and under the null. They depend on the plan alone."""
    jobs = [(job, begin) for job in (plan.job, plan.null_job) for begin in range(0, plan.simulations, BLOCK)]
    label = f"{plan.simulations:,} trials of {plan.patients:,} patients"
    bar = Progress(len(jobs), label, progress)
    pool = ThreadPoolExecutor(threads or available_cores())
    try:
        compile_for(plan.job.learners)
        futures = [pool.submit(_block, plan, job, begin) for job, begin in jobs]
        waiting: set[Future[Pair]] = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            bar.at(len(jobs) - len(waiting))
            for future in finished:
                future.result()  # raises what the simulation raised
        blocks = [future.result() for future in futures]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        bar.close()
    half = len(blocks) // 2
    both = [[_joined(each) for each in zip(*part, strict=True)] for part in (blocks[:half], blocks[half:])]
    for k in range(2):  # each design by its own null
        null = both[1][k]
        both[0][k], both[1][k] = _calibrated(both[0][k], null, plan.alpha), _calibrated(null, null, plan.alpha)
    (adaptive, fixed), (null_adaptive, null_fixed) = both
    return (adaptive, fixed), (null_adaptive, null_fixed)
