"""Whether a run kept the promises of the proof: every lemma of the paper that can be computed, measured.

    audit.run("robust", "stochastic:arms=10,gap=0.1", "pareto:shape=1,scale=10", rounds=100_000)
    audit.check(trace, delay_constant=49.0)

`run` plays; `check` looks at a trace of yours. Of many runs the worst is reported, but lemmas about expectations
(the drifted regret, the adversarial bound) compare means, with 95 % intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated import bounds
from belated import learners as catalogue
from belated.audit.drift import Drift
from belated.audit.lemmas import LEMMAS, Measured, Run, exploration_sums, oldest_valid
from belated.audit.observed import check_no_floor
from belated.bounds.waiting import Waiting
from belated.delays import delays_for
from belated.environments import Environment
from belated.environments.environment import check_same_arms
from belated.errors import check_count
from belated.learners import Learner, TunedLearner
from belated.simulation.intervals import mean_interval
from belated.simulation.replication import Job, check_job, compile_for, play_again, replicate
from belated.simulation.run import Trace
from belated.templates.display import counted, html_table, number

Floats = NDArray[np.float64]

POINTS = 400
"""Points of a curve over time: more than a figure shows."""
ROUNDING = 1e-12
"""Relative: sums of the same numbers in another order."""


class Finding(NamedTuple):
    """What was found about one lemma."""

    name: str
    says: str
    where: str
    bound: float
    measured: float
    holds: bool | None
    """None where it does not apply, is not claimed of the learner, or cannot be told from one run."""
    interval: tuple[float, float] | None = None
    """95 %, of a measured mean."""
    shares: Floats | None = None
    """The largest measured / bound in each of the `pieces` of the run."""

    @property
    def slack(self) -> float:
        return self.bound - self.measured

    @property
    def verdict(self) -> str:
        """Whether it holds, in a word; a dash where that is not known."""
        return {True: "yes", False: "NO", None: "–"}[self.holds]


@dataclass(frozen=True, repr=False)
class Audit:
    """The findings about a learner on a problem."""

    learner: str
    problem: str
    arms: int
    rounds: int
    replications: int
    seed: int | None
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing that applies is broken."""
        return all(finding.holds is not False for finding in self.findings)

    def __repr__(self) -> str:
        broken = [finding.name for finding in self.findings if finding.holds is False]
        return (
            f"Audit({self.learner}; {self.problem}; {counted(self.rounds, 'round')}, "
            f"{counted(self.replications, 'replication')}; {'broken: ' + ', '.join(broken) if broken else 'holds'})"
        )

    def _repr_html_(self) -> str:
        rows = [
            [each.name, each.says, number(each.bound), number(each.measured), each.verdict] for each in self.findings
        ]
        return html_table(repr(self), ["lemma", "what is measured", "bound", "measured", "holds?"], rows, left=2)

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.name == name)

    def as_json(self) -> dict[str, Any]:
        """Return the audit for programs: what does not apply has no numbers, what is infinite is null."""
        rows = []
        for each in self.findings:
            row: dict[str, Any] = {"lemma": each.name, "says": each.says, "where": each.where, "holds": each.holds}
            if not math.isnan(each.bound):
                row |= {"bound": _number(each.bound), "measured": _number(each.measured), "slack": _number(each.slack)}
            if each.interval is not None:
                row["interval"] = [_number(end) for end in each.interval]
            rows.append(row)
        facts = {name: getattr(self, name) for name in ("learner", "problem", "arms", "rounds", "replications", "seed")}
        return {**facts, "holds": self.holds, "lemmas": rows}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def check(trace: Trace, delay_constant: float | None = None, learner: str = "a trace") -> Audit:
    """Check every lemma that a trace alone can keep or break.

    delay_constant is that of `robust`, with which the trace was made; without it, what speaks of the constant is left
    out.
    """
    rounds, arms = trace.distributions.shape
    waiting = Waiting.of(trace)
    oldest, needed = _limits(waiting)
    drift = Drift(arms).add(trace.distributions, waiting.cumulative, oldest, needed)
    run = Run(arms, waiting, drift, _cut(trace.delays), delay_constant)
    return Audit(learner, "its own", arms, rounds, 1, None, tuple(_worst([run])))


def _limits(waiting: Waiting) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the oldest round that counts in each, and in it or any later one."""
    oldest = oldest_valid(waiting)
    return oldest, np.minimum.accumulate(oldest[::-1])[::-1] if oldest.size else oldest


def _cut(delays: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.minimum(delays, delays.size - np.arange(1, delays.size + 1))


def _worst(runs: Sequence[Run]) -> list[Finding]:
    """Return each lemma, in the run that is closest to breaking it."""
    findings = []
    for lemma in LEMMAS:
        if not all(lemma.applies(run) for run in runs):
            findings.append(Finding(lemma.name, lemma.says, lemma.where, math.nan, math.nan, None))
            continue
        found = [lemma.measure(run) for run in runs]
        worst = max(found, key=_share)
        findings.append(
            Finding(
                lemma.name,
                lemma.says,
                lemma.where,
                worst.bound,
                worst.measured,
                worst.measured <= worst.bound + ROUNDING * abs(worst.bound) if lemma.judges(runs[0]) else None,
                shares=_thinned(worst.shares) if worst.shares is not None else None,
            )
        )
    return findings


def _share(found: Measured) -> float:
    return found.measured / found.bound if found.bound else found.measured


def pieces(rounds: int) -> NDArray[np.int64]:
    """Return where the pieces of a run begin whose largest shares are kept: at most POINTS, longer and longer."""
    return np.unique(np.geomspace(1, max(rounds, 1), min(POINTS, max(rounds, 1))).astype(np.int64)) - 1


def _thinned(values: Floats) -> Floats:
    return np.maximum.reduceat(values, pieces(values.size)) if values.size else values


class _Played(NamedTuple):
    """One replication: what lemmas see of it, and the numbers whose means are compared."""

    run: Run
    regret: float
    pseudo_regret: float
    drifted_regret: float
    exploration: float
    """The sums of lambda_{t,t+dhat} and of lambda_{t,t+dhat+sigma_max}."""
    gauges: tuple[float, ...]
    """What the learner's gauges showed at the end."""


def run(
    learner: str | Learner | TunedLearner,
    environment: Any,
    delays: Any = None,
    *,
    rounds: int,
    replications: int = 5,
    seed: int = 0,
) -> Audit:
    """Play a learner and check every lemma on what it did: the worst of all replications.

    Replications are those of `simulate` with the same seed. Each is played twice: for what was counted and waited for,
    then for the distributions, which are looked at chunk by chunk and not kept.
    """
    tuned = catalogue.tune(learner)
    check_no_floor(tuned)
    check_count("rounds", rounds)
    check_count("replications", replications)
    check_count("seed", seed, least=0)
    where = Environment.find(environment)
    check_same_arms(where, rounds)
    job = Job(
        learners=(tuned,),
        environment=where,
        delays=delays_for(where, delays),
        rounds=rounds,
        seed=seed,
        checkpoints=np.array([rounds]),
        keep_trace=True,
        window=0,
    )
    check_job(job)
    compile_for(job.learners)
    played = [_play(job, number) for number in range(replications)]
    findings = _worst([each.run for each in played])
    findings += [_adversarial_bound(played), _drifted_regret(played)]
    findings += [_gauge(tuned, played, number) for number in range(len(tuned.learner.gauges))]
    problem = f"{job.environment.title}; {job.delays.title}"
    arms = job.environment.n_arms
    return Audit(tuned.label, problem, arms, rounds, replications, seed, tuple(findings))


def _play(job: Job, replication: int) -> _Played:
    outcome = replicate(job, replication)
    trace = outcome.traces[0]
    waiting = Waiting.of(trace)
    arms, rounds = job.environment.n_arms, job.rounds
    oldest, needed = _limits(waiting)
    explored, later = exploration_sums(waiting)
    used = np.flatnonzero((waiting.ended > 0) & ~waiting.skipped)
    used = used[np.argsort(waiting.ended[used], kind="stable")]  # decisions in the order of their arrival
    drift, propensities = np.empty(rounds), np.empty(rounds)
    means = job.environment.steady_means
    pseudo_regret = drifted_regret = 0.0 if means is not None else math.nan  # the lemma speaks of stochastic losses
    measure = Drift(arms)
    tuned = job.learners[0]
    gauges: tuple[float, ...] = ()
    for chunk, learner_run in play_again(job, replication):
        p = learner_run.notes.distributions[: chunk.size]
        gauges = tuple(float(learner_run.state[gauge.at]) for gauge in tuned.learner.gauges)
        here = chunk.numbers
        drift[here] = measure.add(p, waiting.cumulative[here], oldest[here], needed[here])
        propensities[here] = p[np.arange(len(p)), trace.arms[here]]
        if means is None:
            continue
        best = int(means.argmin())
        pseudo_regret += float((p @ (means - means[best])).sum())
        begin, end = np.searchsorted(waiting.ended[used], [chunk.first, chunk.first + len(p)])
        s = used[begin:end]
        arm = trace.arms[s]
        estimates = means[arm] / np.maximum(propensities[s], explored[s])
        drifted_regret += float((estimates * (p[waiting.ended[s] - chunk.first, arm] - (arm == best))).sum())
    constant = tuned.learner.proof_constant
    return _Played(
        Run(arms, waiting, drift, _cut(trace.delays), tuned.by_name[constant] if constant else None),
        float(outcome.regret[0, -1]),
        pseudo_regret,
        drifted_regret,
        float(explored.sum() + later.sum()),
        gauges,
    )


def _compared(name: str, says: str, where: str, measured: Floats, bound: Floats, applies: bool) -> Finding:
    """Return a finding about expectations: broken where the interval of measured - bound lies above 0.

    One run has no interval: it can keep such a lemma, not break it.
    """
    if not applies:
        return Finding(name, says, where, math.nan, math.nan, None)
    difference, mean = mean_interval(measured - bound), mean_interval(measured)
    found = Finding(name, says, where, float(bound.mean()), float(mean.mean), True)
    if measured.size == 1:
        return found._replace(holds=True if difference.mean <= 0.0 else None)
    return found._replace(holds=bool(difference.low <= 0.0), interval=(float(mean.low), float(mean.high)))


def _adversarial_bound(played: Sequence[_Played]) -> Finding:
    """Compare regret with the theorem's adversarial bound, with the proof's constants and for any c."""
    applies = played[0].run.delay_constant is not None
    allowed = [
        bounds.robust_bound(each.run.arms, each.run.waiting, each.run.delay_constant or math.nan) for each in played
    ]
    return _compared(
        "regret",
        "regret, against 4√(KT) + (2/√c + √c) √(D_T log K) + S* + K Σ λ",
        "Theorem 1, adversarial part",
        np.array([each.regret for each in played]),
        np.array(allowed),
        applies,
    )


def _drifted_regret(played: Sequence[_Played]) -> Finding:
    """Compare the drifted regret with its lemma, for stochastic losses: in expectation over arms, by Monte Carlo."""
    applies = all(each.run.skips for each in played) and not math.isnan(played[0].pseudo_regret)
    allowed = [
        2.0 * each.run.arms * each.exploration
        + (float(each.run.waiting.outstanding.max(initial=0)) + 1.0) / 4.0
        + float(each.run.waiting.skipped.sum())
        for each in played
    ]
    return _compared(
        "drifted regret",
        "regret/4 - drifted regret, against 2K Σ (λ + λ') + (σ_max + 1)/4 + S*",
        "Lemma, drift of the drifted regret",
        np.array([each.pseudo_regret / 4.0 - each.drifted_regret for each in played]),
        np.array(allowed),
        applies,
    )


def _gauge(tuned: TunedLearner, played: Sequence[_Played], number: int) -> Finding:
    """Return what a gauge of the learner showed, at the worst. It is expected, not proved, so nothing is judged."""
    gauge = tuned.learner.gauges[number]
    found = [
        Measured(
            each.gauges[number],
            gauge.allowed(tuned.by_name, each.run.arms, float(each.run.waiting.outstanding.sum())),
        )
        for each in played
    ]
    worst = max(found, key=_share)
    return Finding(gauge.name, gauge.says, gauge.where, worst.bound, worst.measured, None)
