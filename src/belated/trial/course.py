"""The course of a trial: what was known at each look, and what came of the patients enrolled until then."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.delays import NEVER
from belated.errors import InvalidValue
from belated.inference.bets import PairBets
from belated.simulation.replication import Job, chunks, replicate
from belated.trial.plan import Plan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_STEPS = 50
"""Into how many parts of equal length the enrolment is divided, at most, to draw how shares change."""


class Course(NamedTuple):
    """One trial, as if nothing had stopped it. The last look is at the end, when all outcomes are in."""

    known: Integers
    """Failures and successes of each arm that are used at each look: (looks, arms, 2)."""
    enrolled: Integers
    """Patients of each arm at each look: (looks, arms)."""
    successes: Integers
    """How many of them have a success in the end."""
    complete: Integers
    """When the outcomes of all of them are in: (looks,). Times are counted in patients."""
    steps: Integers
    """Patients of each arm up to the end of each step: (steps + 1, arms)."""
    evidence: Floats
    """log of the least wealth of bets that each arm is better than another, at each look: (looks, arms)."""
    control_evidence: Floats
    """log of the largest wealth of bets that an arm is better than the control, arm 0, at each look: (looks,)."""


def step_ends(patients: int) -> Integers:
    """Return the patients with which the steps end; 0 first."""
    return np.unique(np.linspace(0, patients, min(patients, MOST_STEPS) + 1).round().astype(np.int64))


def play(plan: Plan, job: Job, simulation: int) -> Iterator[Course]:
    """Yield the course of a simulated trial under each of a job's learners: the same patients, the same draws."""
    result = replicate(job, simulation)
    parts = list(chunks(job, simulation))
    losses = np.concatenate([part.rounds.losses for part in parts])
    delays = np.concatenate([part.rounds.delays for part in parts])
    for trace in result.traces:
        rows = np.arange(trace.arms.size)
        fails = losses[rows, trace.arms].astype(np.int64)
        # not the delays of the trace: a learner that waits until outcomes are settled hears of them later
        column = {"round": np.zeros_like(rows), "arm": trace.arms, "loss": fails}[job.delays.by]
        waits = delays[rows, np.minimum(column, delays.shape[1] - 1)]
        if (waits == NEVER).any():
            raise InvalidValue(
                f"delay is {plan.world.delay!r}, under which some outcomes never come; a law under which all come is"
                " needed: decide when a missing outcome counts as a failure, as in"
                " byloss:good=(uniform:low=1,high=30),bad=30",
                "delay",
            )
        yield follow(plan, trace.arms, 1 - fails, waits, trace.distributions, trace.share_floor)


def follow(
    plan: Plan, arms: Integers, successes: Integers, waits: Integers, distributions: Floats, floor: float = 0.0
) -> Course:
    """Return the course of a trial: each patient's arm, success (1) or failure (0), and delay in patients."""
    chosen = (arms[:, None] == np.arange(plan.world.n_arms)).astype(np.int64)
    enrolled = _summed(chosen)
    succeeded = _summed(chosen * successes[:, None])
    arrived = np.arange(1, arms.size + 1) + waits
    complete = np.maximum.accumulate(arrived)  # the first s patients are settled then
    settled = np.append(np.searchsorted(complete, plan.looks, side="right"), arms.size)
    at = np.append(plan.looks, arms.size)
    bets, done, evidence = PairBets(plan.world.n_arms, floor), 0, []
    for until in settled.tolist():
        part, done = slice(done, until), until
        bets.add(arms[part], successes[part].astype(np.float64), distributions[part])
        evidence.append(bets.evidence())
    found = np.stack(evidence)
    return Course(
        known=np.stack([enrolled[settled] - succeeded[settled], succeeded[settled]], axis=2),
        enrolled=enrolled[at],
        successes=succeeded[at],
        complete=complete[at - 1],
        steps=enrolled[step_ends(arms.size)],
        evidence=found.min(axis=2),
        control_evidence=found[:, 1:, 0].max(axis=1),
    )


def _summed(values: Integers) -> Integers:
    return np.concatenate([np.zeros((1, values.shape[1]), dtype=np.int64), np.cumsum(values, axis=0)])


def stacked(courses: Sequence[Course]) -> Course:
    """Return many courses in one: arrays have one axis more, the first."""
    return Course(*(np.stack(values) for values in zip(*courses, strict=True)))
