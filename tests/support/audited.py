"""What tests of audits share: problems, runs that were played, findings sorted."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import Trace, learners
from belated.audit import audit
from belated.audit.lemmas import LEMMAS
from belated.delays import NEVER, Delays
from belated.environments import Environment
from belated.simulation.replication import Job

NAMES = [lemma.name for lemma in LEMMAS]
MEANS = ["regret", "drifted regret"]
ALWAYS = {lemma.name for lemma in LEMMAS if lemma.measured_for_all}

PROBLEMS = [
    ("stochastic:arms=2,gap=0.1", "pareto:shape=1,scale=10"),
    ("stochastic:arms=10,gap=0.5", "dropout:share=0.2,others=20"),
    ("stochastic:arms=10,gap=0.1", "constant:delay=100"),
    ("stochastic:arms=2,gap=1.0", "outlier"),
    ("stochastic:arms=3,gap=0.2", "byarm:laws=[50,0]"),
    ("constrained:arms=10,gap=0.1", "pareto:shape=1,scale=10"),
    ("constrained:arms=2,gap=0.3", "dropout:share=0.5,others=0"),
    ("resonant:arms=2,delay=100", "constant:delay=100"),
    ("blocks:arms=10,length=21", "outlier"),
]


def broken(findings: tuple[audit.Finding, ...] | list[audit.Finding]) -> set[str]:
    return {finding.name for finding in findings if finding.holds is False}


def silent(findings: tuple[audit.Finding, ...] | list[audit.Finding]) -> set[str]:
    return {finding.name for finding in findings if finding.holds is None}


def job(learner: str, environment: str, delays: str, rounds: int) -> Job:
    return Job(
        learners=(learners.tune(learner),),
        environment=Environment.find(environment),
        delays=Delays.find(delays),
        rounds=rounds,
        seed=0,
        checkpoints=np.array([rounds]),
        keep_trace=True,
        window=0,
    )


@cache
def played() -> tuple[audit._Played, ...]:
    """A robust that skips often."""
    wanted = job("robust", "stochastic:arms=2,gap=0.3", "dropout:share=0.5,others=2", 3000)
    return tuple(audit._play(wanted, replication) for replication in range(6))


def hand_trace(**changes: Any) -> Trace:
    """Round 1 comes after round 3, round 2 is given up on then, round 3 comes at once, round 4 too late."""
    trace = Trace(
        arms=np.zeros(4, dtype=np.int64),
        distributions=np.full((4, 2), 0.5),
        loss_estimates=np.zeros((4, 2)),
        outstanding=np.array([0, 1, 2, 0]),
        patience=np.array([0.0, 0.5, 1.0, 1.0]),
        skipped=np.array([0, 0, 2, 0]),
        delays=np.array([2, NEVER, 0, 1]),
        losses=np.array([0.5, np.nan, 0.5, np.nan]),
    )
    return dataclasses.replace(trace, **changes)


def spoiled(values: NDArray[Any], index: Any, value: Any) -> NDArray[Any]:
    again = values.copy()
    again[index] = value
    return again
