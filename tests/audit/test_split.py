"""The split of a leader's regret: exact in every run, each term as its definition has it, and wrong learners found."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from belated import audit, learners, simulate
from belated.audit.split import TERMS, Split, split
from belated.core import ftrl
from belated.core.kernels import Vector, kernel
from belated.delays import Recorded as RecordedDelays
from belated.environments import Recorded as RecordedLosses
from belated.learners import Learner, PythonLearner, ftrl_steps, tsallis
from belated.simulation import Trace
from support import reference_algorithms
from support.plain_exp3 import PlainExp3
from support.refusals import refused
from support.sampling import sampled

Floats = NDArray[np.float64]

LEADERS = [name for name, learner in learners.catalogue.items() if learner.is_leader]
CELLS = [
    ("stochastic:arms=10,gap=0.2", "constant:delay=20"),
    ("constrained:arms=3,gap=0.2", "dropout:share=0.2,others=(batches:every=7)"),
    ("resonant:arms=2,delay=30", "constant:delay=30"),
    ("stochastic:arms=13,gap=0.3", "byarm:laws=[9,0]"),
]


def test_all_learners_on_the_solver_are_leaders() -> None:
    others = set(learners.catalogue) - set(LEADERS)
    assert {"guarded", "balanced", "robust", "tsallis_rv", "exp3", "exp3_delayed"} <= set(LEADERS)
    assert {"sapo", "bold", "ucb", "thompson", "uniform"} <= others
    assert not any(learners.find(name).bias for name in others)


@pytest.mark.parametrize(
    ("learner", "environment", "delays"), sampled([(name, *cell) for name in LEADERS for cell in CELLS], 20)
)
def test_the_identity_is_exact(learner: str, environment: str, delays: str) -> None:
    if learner == "exp3_delayed" and delays.startswith("byarm"):
        return  # it must know delays that depend on nothing
    found = split(learner, environment, delays, rounds=700, replications=2, seed=1)
    assert found.error < 1e-6
    assert (found.least_stability >= -1e-9).all()
    assert (found.slack >= -1e-9).all()
    assert (found.penalty > 0.0).all()
    assert found.follows
    assert found.holds is not False


@pytest.mark.parametrize("learner", LEADERS)
def test_the_learner_plays_as_it_always_does(learner: str) -> None:
    """Regret is that of the distributions in a trace of the plain learner."""
    means = np.array([0.5, 0.3, 0.6])
    problem = ("bernoulli:means=[0.5,0.3,0.6]", "dropout:share=0.3,others=4")
    found = split(learner, *problem, rounds=300, replications=1, seed=2)
    plain = simulate(learner, *problem, rounds=300, replications=1, seed=2, keep_trace=True)
    p = plain.traces[0][0].distributions
    assert found.regret[0] == pytest.approx((p @ (means - 0.3)).sum(), abs=1e-9)


# A slow reference: everything from the definitions, one outcome at a time


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a leader does, by hand; t, D_t and s count from 1."""

    rates: Callable[[int, float, int], tuple[float, float]]
    """(t, D_t, arms) -> (a, b)"""
    estimate: Callable[[int, float, Floats, float, float, int], Floats]
    """(arm, loss, x_s, D_s, D_t, s) -> the whole vector"""
    unasked: Callable[[int, int], Floats] | None = None
    """(t, arms) -> what is added to L in decide, after the distribution was computed"""


def weighted(arm: int, loss: float, x: Floats, then: float, now: float, s: int) -> Floats:
    return np.eye(x.size)[arm] * loss / x[arm]


def explored(arm: int, loss: float, x: Floats, then: float, now: float, s: int) -> Floats:
    least = math.exp(-now / (now - then)) if now > then else 0.0
    return np.eye(x.size)[arm] * loss / max(x[arm], least)


def reduced(arm: int, loss: float, x: Floats, then: float, now: float, s: int) -> Floats:
    baselines = np.where(x >= 4.0 / s, 0.5, 0.0)
    return baselines + np.eye(x.size)[arm] * (loss - baselines[arm]) / x[arm]


def lowered(t: int, arms: int) -> Floats:
    change = np.zeros(arms)
    if t % 2 == 0:
        change[0], change[2] = -0.25, 0.5
    return change


RULES = {
    "tsallis": Rule(lambda t, d, k: (math.sqrt(t), 0.0), weighted),
    "hybrid": Rule(lambda t, d, k: (math.sqrt(t), math.sqrt(2.0 * d / math.log(k))), weighted),
    "exp3": Rule(lambda t, d, k: (0.0, math.sqrt(t * k / math.log(k))), weighted),
    "tsallis_rv": Rule(lambda t, d, k: (0.5 * math.sqrt(t), 0.0), reduced),
    "robust:delay_constant=2": Rule(lambda t, d, k: (math.sqrt(t), math.sqrt(2.0 * d / math.log(k))), explored),
    "lowering": Rule(lambda t, d, k: (math.sqrt(t), 0.0), weighted, lowered),
}


def value(losses: Floats, a: float, b: float, x: Floats) -> float:
    return float(losses @ x - 2.0 * a * np.sqrt(x).sum() + b * (x * (np.log(x) - 1.0)).sum())


def terms(rule: Rule, trace: Trace, losses: Floats, delays: Sequence[int | None]) -> dict[str, float]:
    """Return every term of a run, from its arms, its counts and what it skipped."""
    rounds, arms = losses.shape
    counts = np.cumsum(trace.outstanding).astype(float)
    u = np.eye(arms)[losses.sum(axis=0).argmin()]
    estimates = np.zeros(arms)
    shares: list[Floats] = []
    gone: set[int] = set()
    found = dict.fromkeys(("given_up", "noise", "cost_of_delay", "penalty", "stability"), 0.0)
    before: tuple[float, float] | None = None
    learned = set()

    def leader(a: float, b: float) -> Floats:
        return np.array(reference_algorithms.ftrl(estimates.tolist(), a, b))

    def lowest(a: float, b: float) -> float:
        return value(estimates, a, b, leader(a, b))

    for t in range(1, rounds + 1):
        a, b = rates = rule.rates(t, counts[t - 1], arms)
        found["penalty"] -= lowest(a, b) - (lowest(*before) if before else 0.0)
        before = rates
        shares.append(leader(a, b))
        if rule.unasked:
            change, z, old = rule.unasked(t, arms), shares[-1], lowest(a, b)
            estimates += change
            found["stability"] += float(z @ change) - (lowest(a, b) - old)
            found["noise"] -= float((z - u) @ change)
        for s in range(1, t + 1):
            wait = delays[s - 1]
            if wait is None or s + wait != t or s in gone:
                continue
            learned.add(s)
            x, z, old = shares[s - 1], leader(a, b), lowest(a, b)
            arm = int(trace.arms[s - 1])
            change = rule.estimate(arm, losses[s - 1, arm], x, counts[s - 1], counts[t - 1], s)
            estimates += change
            found["stability"] += float(z @ change) - (lowest(a, b) - old)
            found["noise"] += float((x - u) @ (losses[s - 1] - change))
            found["cost_of_delay"] += float((x - z) @ change)
        if trace.skipped[t - 1]:
            gone.add(int(trace.skipped[t - 1]))
    end = value(np.zeros(arms), *rates, np.where(u > 0, 1.0, 1e-300))
    found["penalty"] += end
    found["slack"] = estimates @ u + end - lowest(*rates)
    found["regret"] = sum((x - u) @ loss for x, loss in zip(shares, losses, strict=True))
    found["given_up"] = sum((shares[s - 1] - u) @ losses[s - 1] for s in set(range(1, rounds + 1)) - learned)
    np.testing.assert_allclose(shares, trace.distributions, atol=1e-9)
    return found


@kernel
def decide_and_lower(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    tsallis.decide(state, params, outstanding, p)
    if state[ftrl_steps.ROUND] % 2.0 == 0.0:
        ftrl.add_loss(state, 0, -0.25)
        ftrl.add_loss(state, 2, 0.5)
    return 0.0


LOWERING = dataclasses.replace(tsallis.LEARNER, name="lowering", decide=decide_and_lower)


@pytest.mark.parametrize("name", RULES)
def test_each_term_is_what_its_definition_says(name: str) -> None:
    """20 rounds, 3 arms; outcomes that come at once, together, out of order, too late, never."""
    learner = LOWERING if name == "lowering" else name
    delays = [3, 2, 1, 0, 0, 4, 4, None, 1, 5, 2, 2, 1, 0, 6, 1, 3, 0, 1, 9]
    losses = np.random.default_rng(5).random((20, 3)).round(2)
    problem = (RecordedLosses(losses), RecordedDelays(delays))
    found = split(learner, *problem, rounds=20, replications=2, seed=4)
    traces = simulate(learner, *problem, rounds=20, replications=2, seed=4, keep_trace=True).traces[0]
    for number, trace in enumerate(traces):
        for term, expected in terms(RULES[name], trace, losses, delays).items():
            assert getattr(found, term)[number] == pytest.approx(expected, abs=1e-7), term
    assert found.error < 1e-9
    assert found.follows
    assert (found.decisions_given_up >= 3).all()
    assert (np.abs(found.pilot) < 1e-12).all()
    assert ("robust" in name) == bool((found.decisions_given_up > 3).any())


@kernel
def decide_and_mix(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    tsallis.decide(state, params, outstanding, p)
    for i in range(p.size):
        p[i] = 0.9 * p[i] + 0.1 / p.size
    return 0.0


def test_the_pilot_is_the_difference_between_what_is_played_and_the_leader() -> None:
    mixed = dataclasses.replace(tsallis.LEARNER, name="mixed", decide=decide_and_mix)
    problem = ("bernoulli:means=[0.2,0.8]", "constant:delay=3")
    found = split(mixed, *problem, rounds=200, replications=2)
    traces = simulate(mixed, *problem, rounds=200, replications=2, keep_trace=True).traces[0]
    for trace, pilot in zip(traces, found.pilot, strict=True):
        x = (trace.distributions - 0.05) / 0.9
        assert pilot == pytest.approx(((trace.distributions - x) @ [0.2, 0.8]).sum(), abs=1e-9)
    assert (found.pilot > 1.0).all()
    assert found.follows
    assert found.error < 1e-9
    ahead = split("guarded", *problem, rounds=400, replications=2)
    assert (ahead.pilot < -1.0).all()  # where losses are stochastic the pilot is better than its leader


def test_outcomes_that_the_learner_leaves_out_are_given_up_whatever_their_loss() -> None:
    """A loss of 0 changes nothing, used or not."""
    delays = [3, 10] * 30
    learner = "exp3_delayed:horizon=60,total_delay=390,threshold=5"
    found = split(learner, "bernoulli:means=[0.9,0.1]", RecordedDelays(delays), rounds=60, replications=3)
    assert found.decisions_given_up.tolist() == [30 + 1] * 3  # the last one of delay 3 comes too late
    assert found.error < 1e-9


def test_a_leader_that_begins_anew_is_several_leaders() -> None:
    """Epoch m of the doubling has the entropy rate sqrt(2^m) / log K, and so the penalty sqrt(2^m)."""
    losses = RecordedLosses(np.tile([1.0, 0.5], (300, 1)))
    found = split("exp3_delayed", losses, rounds=300, replications=2)
    left, m, penalty = 300, 0, 0.0
    while left > 0:
        m += 1
        length = math.floor(2.0**m / (math.e * math.log(2)))
        penalty += math.sqrt(2.0**m) if length else 0.0
        left -= length
    assert m > 6
    assert found.penalty == pytest.approx([penalty] * 2, rel=1e-9)
    assert found.error < 1e-9
    assert (found.slack >= 0.0).all()
    assert (found.decisions_given_up == 0).all()


# Expectations


@pytest.mark.parametrize("learner", ["hybrid", "tsallis_rv", "exp3"])
def test_the_noise_has_mean_0_and_the_sum_bounds_regret(learner: str) -> None:
    found = split(learner, "stochastic:arms=2,gap=0.2", "geometric:mean=20", rounds=1000, replications=40, seed=3)
    assert found.assumptions == ()
    assert found.unbiased
    assert found.holds
    assert not found.broken


def test_the_sum_bounds_the_regret_of_guarded_though_its_baseline_is_that_of_the_arrival() -> None:
    found = split("guarded", "stochastic:arms=2,gap=0.2", "geometric:mean=20", rounds=1000, replications=40, seed=3)
    assert found.assumptions == (learners.find("guarded").bias,)
    assert found.holds
    assert not found.broken


def _learning(share: float) -> Learner:
    """Tsallis-INF that counts a part of each loss."""

    @kernel
    def learn(state: Vector, params: Vector, arm: int, loss: float, propensity: float, mark: float) -> None:
        ftrl.add_loss(state, arm, share * loss / propensity)

    return dataclasses.replace(tsallis.LEARNER, name="doctored", learn=learn)


def test_estimates_that_are_too_small_are_found_as_bias() -> None:
    """Half of each loss: half of the regret is bias, 30 to 60 here with a deviation of its mean of 5."""
    found = split(_learning(0.5), "bernoulli:means=[0.1,0.9]", rounds=1000, replications=40)
    assert found.unbiased is False
    assert 0.3 * found.mean("regret").mean < found.mean("noise").mean < 0.7 * found.mean("regret").mean
    assert found.assumptions == ()
    sound = split(_learning(1.0), "bernoulli:means=[0.1,0.9]", rounds=1000, replications=40)
    assert sound.unbiased


def test_a_bound_that_does_not_hold_is_found() -> None:
    """A hundredth of each loss: regret grows as fast as that of uniform play, what a leader pays does not."""
    found = split(_learning(0.01), "bernoulli:means=[0.1,0.9]", rounds=3000, replications=5)
    assert found.holds is False
    assert found.broken
    alone = split(_learning(0.01), "bernoulli:means=[0.1,0.9]", rounds=3000, replications=1)
    assert alone.holds is None  # one run has no interval
    assert alone.unbiased is None
    assert not alone.broken


def test_delays_that_depend_on_the_loss_give_bias_where_decisions_are_given_up() -> None:
    problem = ("bernoulli:means=[0.3,0.6]", "byloss:good=0,bad=never")
    found = split("tsallis", *problem, rounds=1000, replications=10)
    assert found.unbiased is False
    assert found.holds is False
    assert len(found.assumptions) == 1
    assert found.assumptions[0] in found.verdict
    assert not found.broken  # what is not claimed cannot be broken
    too_safe = split("tsallis", problem[0], "byloss:good=never,bad=0", rounds=1000, replications=10)
    assert too_safe.unbiased is False
    assert too_safe.mean("noise").high < 0.0
    assert too_safe.holds
    soon = split("tsallis", problem[0], "byloss:good=0,bad=0", rounds=1000, replications=10)
    assert soon.assumptions == ()
    assert soon.unbiased


def test_implicit_exploration_is_named() -> None:
    found = split("exp3_ix", "stochastic:arms=10,gap=0.3", rounds=2000, replications=10)
    assert found.unbiased is False
    assert found.assumptions == (learners.find("exp3_ix").bias,)
    assert found.assumptions[0] in found.verdict


@kernel
def decide_other(state: Vector, params: Vector, outstanding: int, p: Vector) -> float:
    """Solve for the leader, and play something else under its name: a little more of the first arm."""
    tsallis.decide(state, params, outstanding, p)
    p[0] += 0.01 * p[1]
    p[1] -= 0.01 * p[1]
    for i in range(2):
        state[ftrl.at(i) + ftrl.SHARES] = p[i]
    return 0.0


def test_a_learner_that_does_not_play_its_leader_is_found() -> None:
    doctored = dataclasses.replace(tsallis.LEARNER, name="doctored", decide=decide_other)
    found = split(doctored, "bernoulli:means=[0.4,0.6]", rounds=200, replications=2)
    assert not found.follows
    assert found.broken
    assert found.error < 1e-6  # the identity holds for whatever is played


# What is shown and what is refused


def test_a_split_shows_its_terms() -> None:
    found = audit.split("hybrid", "bernoulli:means=[0.4,0.6]", "constant:delay=2", rounds=50, replications=3)
    assert isinstance(found, Split)
    np.testing.assert_allclose(found.bound, sum(getattr(found, name) for name in TERMS))
    np.testing.assert_allclose(found.excess, found.noise - found.slack, atol=1e-9)
    assert [row[0] for row in found.rows()][:3] == ["given up", "cost of delay", "penalty"]
    assert repr(found).startswith("Split(hybrid; Bernoulli(0.4, 0.6); delay 2; 50 rounds, 3 replications; holds: ")
    assert "cost of delay" in found._repr_html_()
    content = found.as_json()
    assert content["terms"]["regret"]["values"] == found.regret.tolist()
    assert content["terms"]["bound"]["interval"] == [float(found.mean("bound").low), float(found.mean("bound").high)]
    alone = audit.split("hybrid", "bernoulli:means=[0.4,0.6]", rounds=50, replications=1).as_json()
    assert alone["terms"]["regret"]["interval"] is None


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("ucb", ("learner", "ucb")),
        ("bold", ("learner",)),
        ("guarded:pilot=1", ("learner", "guarded:pilot=1")),
        (PythonLearner("plain", PlainExp3), ("learner", "plain")),
    ],
)
def test_others_are_refused(learner: str | PythonLearner, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        split(learner, "bernoulli:means=[0.4,0.6]", rounds=20, replications=1)
