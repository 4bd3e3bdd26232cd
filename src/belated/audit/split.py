"""The regret of a leader, term by term: what it gave up, what delay cost it, what any leader pays.

    audit.split("hybrid", "stochastic:arms=10,gap=0.1", "pareto:shape=1,scale=10", rounds=20_000)

docs/theory.md has the statement and its proof. In every run, exactly,

    regret = given up + noise + cost of delay + penalty + stability + pilot - slack,        slack >= 0,

and the noise has mean 0 where estimates are unbiased. So in expectation regret is at most the sum of the others.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated import learners as catalogue
from belated.audit import observed
from belated.audit.observed import Observed
from belated.delays import Delays, delays_for
from belated.environments import Environment
from belated.environments.environment import check_same_arms
from belated.errors import InvalidValue, check_count
from belated.learners import Learner, TunedLearner
from belated.simulation.intervals import Interval, mean_interval
from belated.simulation.replication import Job, check_job, chunks, compile_for, play_again
from belated.templates.display import counted, html_table

Floats = NDArray[np.float64]

FOLLOWS = 1e-6
"""How far a share may be from the one that the solver gives for the same losses and rates."""

TERMS = {
    "given_up": "⟨x_s - u, ℓ_s⟩ of decisions that were skipped or whose outcome had not come",
    "cost_of_delay": "⟨x_s - z_n, ℓ̂_s⟩ of all outcomes",
    "penalty": "what the regulariser takes, and its growth",
    "stability": "what each outcome moves, without delay",
    "pilot": "⟨p_s - x_s, ℓ_s⟩, where what is played is not the leader",
}
"""The terms whose sum bounds regret in expectation."""


@dataclass(frozen=True, repr=False)
class Split:
    """The regret of a leader on a problem, split. Arrays have one number for each replication."""

    learner: str
    problem: str
    arms: int
    rounds: int
    seed: int
    regret: Floats
    """Pseudo-regret against the best fixed arm, in expectation over the draw of each arm."""
    given_up: Floats
    noise: Floats
    cost_of_delay: Floats
    penalty: Floats
    stability: Floats
    pilot: Floats
    slack: Floats
    least_stability: Floats
    """That of the one outcome with the smallest: at least 0 up to rounding."""
    distance: Floats
    """The largest difference between a share that the learner solved for and the share that the solver gives."""
    decisions_given_up: NDArray[np.int64]
    assumptions: tuple[str, ...]
    """Assumptions that do not hold here, each in words. Without them the noise may be biased."""

    @property
    def bound(self) -> Floats:
        """The sum of the terms: in expectation at least the regret."""
        return np.sum([getattr(self, name) for name in TERMS], axis=0)

    @property
    def excess(self) -> Floats:
        """Regret minus the bound: the noise minus the slack."""
        return self.regret - self.bound

    @property
    def error(self) -> float:
        """By how much both sides of the identity differ at most, relative to the larger of the bound and 1."""
        difference = np.abs(self.excess - self.noise + self.slack)
        return float((difference / np.maximum(np.abs(self.bound), 1.0)).max())

    def mean(self, name: str) -> Interval:
        """Return the mean of a term, of the `regret`, the `bound` or the `excess`, with its 95 % interval."""
        return mean_interval(getattr(self, name))

    @property
    def follows(self) -> bool:
        """Whether the learner plays what the solver gives for its losses and rates."""
        return bool((self.distance <= FOLLOWS).all())

    @property
    def holds(self) -> bool | None:
        """Whether mean regret is at most the mean bound: the interval of their difference is not wholly above 0.

        None where there is one run only, which lies above.
        """
        mean, low, _ = self.mean("excess")
        if self.regret.size == 1:
            return True if mean <= 0.0 else None
        return bool(low <= 0.0)

    @property
    def unbiased(self) -> bool | None:
        """Whether the interval of the mean noise covers 0, up to rounding; None where there is one run only."""
        if self.regret.size == 1:
            return None
        _, low, high = self.mean("noise")
        rounding = 1e-9 * max(1.0, float(np.abs(self.bound).max()))
        return bool(low <= rounding and high >= -rounding)

    @property
    def verdict(self) -> str:
        """Whether the bound holds, and why not, or why the noise is no noise, in words."""
        if not self.follows:
            return "NO: what is played is not the leader's distribution"
        word = {True: "yes", False: "NO", None: "–"}[self.holds]
        if self.holds and self.unbiased is not False:
            return word
        why = " and ".join(self.assumptions) or "no known reason; one interval in 20 misses the mean"
        return f"{word}; the noise is biased: {why}" if self.unbiased is False else f"{word}: {why}"

    @property
    def broken(self) -> bool:
        """Whether the statement fails where all of its assumptions hold, or is not about this learner at all."""
        return not self.follows or (self.holds is False and not self.assumptions)

    def __repr__(self) -> str:
        runs = f"{counted(self.rounds, 'round')}, {counted(self.regret.size, 'replication')}"
        return f"Split({self.learner}; {self.problem}; {runs}; holds: {self.verdict})"

    def _repr_html_(self) -> str:
        return html_table(repr(self), ["term", "what it is", "mean"], self.rows(), left=2)

    def rows(self) -> list[list[str]]:
        """Return each term with what it is and its mean, then their sum, and what it is compared with."""
        shown = {**TERMS, "bound": "their sum", "regret": "Σ ⟨p_s - u, ℓ_s⟩", "noise": "⟨x_s - u, ℓ_s - ℓ̂_s⟩"}
        shown["slack"] = "what penalty and stability are too large by"
        return [[name.replace("_", " "), says, self.mean(name).text] for name, says in shown.items()]

    def as_json(self) -> dict[str, Any]:
        """Return the split for programs; what is infinite or not known is null."""
        facts = {name: getattr(self, name) for name in ("learner", "problem", "arms", "rounds", "seed")}
        terms = {}
        for name in ("regret", "bound", *TERMS, "noise", "slack", "excess"):
            mean, low, high = (float(each) for each in self.mean(name))
            interval = None if math.isnan(low) else [low, high]
            terms[name] = {"mean": mean, "interval": interval, "values": getattr(self, name).tolist()}
        return {
            **facts,
            "replications": self.regret.size,
            "holds": self.holds,
            "unbiased": self.unbiased,
            "follows": self.follows,
            "broken": self.broken,
            "verdict": self.verdict,
            "assumptions_that_fail": list(self.assumptions),
            "decisions_given_up": self.decisions_given_up.tolist(),
            "error": self.error,
            "terms": terms,
        }


def split(
    learner: str | Learner | TunedLearner,
    environment: Any,
    delays: Any = None,
    *,
    rounds: int,
    replications: int = 10,
    seed: int = 0,
) -> Split:
    """Play a leader and split its regret into terms, each measured.

    Replications are those of `simulate` with the same seed. Each needs 8 (arms + 2) bytes a round.

    >>> from belated import audit
    >>> found = audit.split("tsallis", "stochastic:arms=2,gap=0.2", "constant:delay=5", rounds=500, replications=5)
    >>> found.holds, bool(found.error < 1e-6)
    (True, True)
    """
    tuned = catalogue.tune(learner)
    check_count("rounds", rounds)
    check_count("replications", replications)
    check_count("seed", seed, least=0)
    if not tuned.learner.is_leader:
        names = ", ".join(name for name, each in catalogue.catalogue.items() if each.is_leader)
        raise InvalidValue(
            f"learner {tuned.label!r} does not follow the regularised leader on the solver's state;"
            f" one that does is needed: {names}",
            "learner",
        )
    where = Environment.find(environment)
    check_same_arms(where, rounds)
    job = Job(
        learners=(Observed.of(tuned, where.n_arms, rounds),),
        environment=where,
        delays=delays_for(where, delays),
        rounds=rounds,
        seed=seed,
        checkpoints=np.array([rounds]),
        keep_trace=False,
    )
    check_job(job)
    tuned.learner.addresses  # noqa: B018, compiles what is called through
    compile_for(job.learners)
    played = [_play(job, number) for number in range(replications)]
    terms = {name: np.array([each[name] for each in played]) for name in played[0]}
    return Split(
        learner=tuned.label,
        problem=f"{job.environment.title}; {job.delays.title}",
        arms=where.n_arms,
        rounds=rounds,
        seed=seed,
        assumptions=_failing(tuned, job.delays, bool(terms["decisions_given_up"].any())),
        **terms,
    )


def _failing(tuned: TunedLearner, delays: Delays, gave_up: bool) -> tuple[str, ...]:
    """Return the assumptions that do not hold, in words."""
    failing = [tuned.learner.bias] if tuned.learner.bias else []
    if delays.by != "round" and gave_up:
        failing.append(f"delays depend on the {delays.by}, and decisions are given up")
    return tuple(failing)


def _play(job: Job, replication: int) -> dict[str, float]:
    """Return the terms of one replication."""
    (learner,) = job.learners
    assert isinstance(learner, Observed)
    paid = 0.0
    totals = np.zeros(job.environment.n_arms)
    for chunk, run in play_again(job, replication):
        p = run.notes.distributions[: chunk.size]
        paid += float((p * chunk.rounds.expected).sum())
        totals += np.broadcast_to(chunk.rounds.expected, p.shape).sum(axis=0)
    account = learner.read(run.run.params)
    if account[observed.TSALLIS] == account[observed.ENTROPY] == 0.0:
        raise InvalidValue(f"learner {learner.original.label!r} has no leader: it never solved for one", "learner")
    best = int(totals.argmin())
    led = kept = given_up = 0.0
    for chunk in chunks(job, replication):
        x, learned = account.shares[chunk.numbers], account.learned[chunk.numbers]
        expected = np.broadcast_to(chunk.rounds.expected, x.shape)
        losses = (x * expected).sum(axis=1)
        led += float(losses.sum())
        regrets = losses - expected[:, best]
        kept += float(regrets[learned].sum())
        given_up += float(regrets[~learned].sum())
    learned_sum, unasked_sum = float(account.learned_sum[best]), float(account.unasked_sum[best])
    played, unasked = account[observed.PLAYED], account[observed.UNASKED]
    return {
        "regret": paid - float(totals[best]),
        "given_up": given_up,
        "noise": kept - (played - learned_sum) - (unasked - unasked_sum),
        "cost_of_delay": played - account[observed.LED],
        "penalty": account[observed.PENALTY],
        "stability": account[observed.STABILITY],
        "pilot": paid - led,
        "slack": account[observed.END] + learned_sum + unasked_sum,
        "least_stability": account[observed.LEAST_STABILITY],
        "distance": account[observed.DISTANCE],
        "decisions_given_up": int(np.count_nonzero(~account.learned)),
    }
