"""What has come out of a simulation so far, as curves, a table and sentences."""

import math

import msgspec
import numpy as np

from belated.service.simulate.plan import RUNS
from belated.service.simulate.problem import Problem
from belated.service.words import DAY, duration
from belated.simulation import Simulation
from belated.templates.display import counted, number

NAMES = {"guarded": "guarded (the default)", "thompson": "thompson", "ucb": "ucb", "uniform": "an even split"}


class LearnerFindings(msgspec.Struct):
    """What a learner lost, and when one would have known: a number for each point of the curves."""

    name: str
    lost: list[float]
    low: list[float]
    high: list[float]
    """A 95 % interval of the mean over runs."""
    known: list[float]
    """In which share of the runs the best arm was known by then."""
    known_after: float | None
    """In how many decisions it was known in half of the runs; None: not within these."""


class Findings(msgspec.Struct):
    """What has come out after some runs."""

    runs: int
    of: int
    is_over: bool
    decisions: list[int]
    """The points of the curves."""
    learners: list[LearnerFindings]
    sentences: list[str]
    notes: list[str]


def findings(problem: Problem, simulation: Simulation, is_over: bool) -> Findings:
    """Return what has come out so far."""
    at = simulation.checkpoints
    learners = []
    for k, name in enumerate(simulation.learners):
        mean, low, high = simulation.curve(name)
        after = simulation.known_after(name)
        learners.append(
            LearnerFindings(
                NAMES.get(name, f"{name} (this experiment's)"),
                _rounded(problem.size * mean),
                _rounded(problem.size * np.where(np.isnan(low), mean, low)),
                _rounded(problem.size * np.where(np.isnan(high), mean, high)),
                [float((simulation.known[k] <= each).mean()) for each in at],
                after if math.isfinite(after) else None,
            )
        )
    runs = simulation.regret.shape[1]
    notes = list(problem.notes)
    if is_over and runs < RUNS:
        notes.append(f"Time was up after {counted(runs, 'run')} of {RUNS}.")
    decisions = at.tolist()
    sentences = [_lost(problem, learners, decisions[-1]), _when(problem, learners, decisions[-1])]
    return Findings(runs, RUNS, is_over, decisions, learners, sentences, notes)


def _rounded(values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> list[float]:
    """Return values with as many digits as a chart needs."""
    return [float(f"{value:.5g}") if abs(value) > 1e-6 else 0.0 for value in values.tolist()]


def _lost(problem: Problem, learners: list[LearnerFindings], decisions: int) -> str:
    """Say what the first learner loses, and what the others do."""
    first, *others = learners
    rest = ", ".join(f"{each.name} {number(each.lost[-1])}" for each in others)
    return (
        f"In {decisions:,} decisions ({_time(problem, decisions)}) {first.name} loses about"
        f" {number(first.lost[-1])} {problem.unit} ({number(first.low[-1])} to {number(first.high[-1])}), compared with"
        f" playing the best arm, {problem.best}, from the beginning; {rest}."
    )


def _when(problem: Problem, learners: list[LearnerFindings], decisions: int) -> str:
    """Say when one would know which arm is the best."""
    known = sorted((each for each in learners if each.known_after is not None), key=lambda each: each.known_after or 0)
    if not known:
        return f"In most runs one would not know which arm is best within {decisions:,} decisions, whoever decides."
    parts = [
        f"{int(each.known_after or 0):,} decisions ({_time(problem, each.known_after or 0)}) with {each.name}"
        for each in known
    ]
    never = [each.name for each in learners if each.known_after is None]
    rest = f"; not within {decisions:,} with {' or '.join(never)}" if never else ""
    return f"You would know which arm is best after about {'; '.join(parts)}{rest}."


def _time(problem: Problem, decisions: float) -> str:
    return duration(decisions / problem.a_day * DAY)
