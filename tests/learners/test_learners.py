"""What every learner of the catalogue must do, whatever it is."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated import Bandit, learners, simulate
from belated.delays import NEVER, Constant, Delays, Dropout, Geometric, NoDelay, Outlier, Pareto, Uniform
from belated.simulation.simulation import replay
from support.play_live import VARIANTS, informed, play_live, told
from support.refusals import refused
from support.sampling import sampled

NAMES = sorted(learners.catalogue)
LAWS: list[Delays] = [
    NoDelay(),
    Constant(7),
    Geometric(5.0),
    Uniform(0, 20),
    Pareto(1.0, 3.0),
    Outlier(),
    Dropout(0.2, others=3),
]
MIXED = Dropout(0.1, others=Geometric(15.0))
"""Some outcomes at once, some late and in another order, some never."""


def problem(law: Delays, rounds: int, arms: int, seed: int = 1) -> tuple[Any, list[int | None], list[float]]:
    rng = np.random.default_rng(seed)
    losses = (rng.random((rounds, arms)) < np.linspace(0.2, 0.8, arms)).astype(float)
    losses[::3] = rng.random((len(losses[::3]), arms))
    delays = law.fill(rng, np.arange(1, rounds + 1))
    return losses, [None if delay == NEVER else int(delay) for delay in delays], rng.random(rounds).tolist()


@pytest.mark.parametrize(
    ("words", "law"),
    [
        *((words, MIXED) for words in (*NAMES, *VARIANTS)),
        *sampled(product((*NAMES, *VARIANTS), LAWS), 12),
    ],
    ids=repr,
)
def test_live_equals_bulk_bit_for_bit(words: str, law: Delays) -> None:
    losses, delays, draws = problem(law, rounds=1000, arms=5)
    bulk = replay(informed(words), losses, delays, draws)
    live = play_live(Bandit(5, informed(words)), losses, delays, draws)
    np.testing.assert_array_equal(live.arms, bulk.arms)
    np.testing.assert_array_equal(live.distributions, bulk.distributions)
    np.testing.assert_array_equal(live.loss_estimates, bulk.loss_estimates)
    np.testing.assert_array_equal(live.outstanding, bulk.outstanding)
    np.testing.assert_array_equal(live.skipped, bulk.skipped)


@pytest.mark.parametrize("name", NAMES)
def test_distributions_stay_on_the_simplex(name: str) -> None:
    for arms in (2, 3, 17, 100):
        losses, delays, draws = problem(Geometric(3.0), rounds=500, arms=arms)
        x = replay(informed(name), losses, delays, draws).distributions
        assert np.isfinite(x).all()
        assert (x >= 0.0).all()
        assert np.abs(x.sum(axis=1) - 1.0).max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", [0.0, 1.0])
def test_extreme_losses_do_no_harm(name: str, loss: float) -> None:
    losses = np.full((2000, 3), loss)
    losses[:, 0] = 1.0 - loss
    rng = np.random.default_rng(3)
    trace = replay(informed(name), losses, [0] * 2000, rng.random(2000).tolist())
    assert np.isfinite(trace.distributions).all()
    assert np.isfinite(trace.loss_estimates).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "uniform"])
def test_learns(name: str) -> None:
    """At most 0.3 of the regret of uniform play, means 0.3 against 0.7, delay 3; the margin is ten standard errors and
    more. sapo eliminates nothing before some 200 log T / gap^2 plays of an arm: it has 200,000 rounds and a gap of 0.8.
    """
    gap, rounds = (0.8, 200_000) if name == "sapo" else (0.4, 20_000)
    result = simulate(
        [name, "uniform"], f"stochastic:arms=3,gap={gap}", "constant:delay=3", rounds=rounds, replications=4, seed=5
    )
    assert result.final(name).high < 0.3 * result.final("uniform").low


@pytest.mark.parametrize("name", NAMES)
def test_seeds_make_the_difference(name: str) -> None:
    def arms(seed: int) -> list[Any]:
        bandit = Bandit(4, informed(name), seed=seed)
        chosen = []
        for _ in range(60):
            decision = bandit.decide(**told(name, 0))
            bandit.observe(decision, loss=0.5)
            chosen.append(decision.arm)
        return chosen

    assert arms(1) == arms(1)
    assert (arms(1) == arms(2)) == learners.find(name).deterministic


@pytest.mark.parametrize("name", NAMES)
def test_learners_that_choose_with_certainty_say_so(name: str) -> None:
    """One that does has propensities of 1 in every round; one that does not, a smaller one before long."""
    for law in (NoDelay(), Geometric(5.0)):
        losses, delays, draws = problem(law, rounds=500, arms=4)
        x = replay(informed(name), losses, delays, draws).distributions
        assert bool((x.max(axis=1) == 1.0).all()) == learners.find(name).deterministic


def test_uniform_play_costs_what_it_must() -> None:
    """Regret gap (K - 1)/K a round: 0.2 * 3/4 * 20,000 = 3,000, within four standard errors (sqrt(20,000 * 0.0075 /
    20) = 2.7).
    """
    result = simulate("uniform", "stochastic:arms=4,gap=0.2", rounds=20_000, replications=20, seed=2)
    assert abs(result.final("uniform").mean - 3000.0) < 4 * 2.74


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_that_never_come(name: str) -> None:
    losses, _, draws = problem(NoDelay(), rounds=2000, arms=4)
    trace = replay(informed(name), losses, [None] * 2000, draws)
    assert np.isfinite(trace.distributions).all()
    assert (trace.loss_estimates == 0.0).all()
    skips = learners.find(name).patience is not None and name not in ("sapo", "guarded")  # which wait longer
    assert (trace.outstanding[-1] == 1999) == (not skips)


@pytest.mark.parametrize("name", NAMES)
def test_tells_about_itself(name: str) -> None:
    learner = learners.find(name)
    assert learner.name == name
    assert learner.summary
    assert learner.paper
    assert name in learners.published
    for parameter in learner.parameters:
        assert parameter.summary
        if not parameter.is_knowledge:
            assert parameter.check(parameter.default) == parameter.default


def test_no_delay_makes_robust_tsallis_bit_for_bit() -> None:
    losses, _, draws = problem(NoDelay(), rounds=20_000, arms=7)
    delays = [0] * len(losses)
    robust = replay("robust", losses, delays, draws)
    tsallis = replay("tsallis", losses, delays, draws)
    np.testing.assert_array_equal(robust.arms, tsallis.arms)
    np.testing.assert_array_equal(robust.distributions, tsallis.distributions)


def test_exp3_by_hand() -> None:
    """x proportional to exp(-sqrt(log K / (t K)) L), with the propensity of the decision although the outcome comes
    later.
    """
    trace = replay("exp3", [[1.0, 0.5]] * 4, [1, 1, 0, 0], [0.1, 0.9, 0.1, 0.1])
    estimates = np.zeros((4, 2))
    estimates[1:, 0] += 1.0 / 0.5
    assert trace.arms[:2].tolist() == [0, 1]
    third = np.exp(-math.sqrt(math.log(2) / 6) * estimates[1])
    third /= third.sum()
    np.testing.assert_allclose(trace.distributions[:2], 0.5)
    np.testing.assert_allclose(trace.distributions[2], third, rtol=1e-14)
    assert trace.arms[2] == 0
    np.testing.assert_allclose(trace.loss_estimates[2], [2.0 + 1.0 / third[0], 0.5 / 0.5], rtol=1e-14)


def test_ucb_by_hand() -> None:
    """Fewest decisions first until each arm was seen; then the largest mean reward + sqrt(2 ln t / n)."""
    losses = [[0.0, 1.0, 0.5]] * 8
    trace = replay("ucb", losses, [4, 0, 0, 0, 0, 0, 0, 0], [0.5] * 8)
    # 0, 1, 2 in turn; arm 0 is not seen before the end of round 5, so it is the only unobserved one in 4 and 5
    assert trace.arms[:5].tolist() == [0, 1, 2, 0, 0]
    counts, sums = {0: 3, 1: 1, 2: 1}, {0: 0.0, 1: 1.0, 2: 0.5}
    for t in (6, 7, 8):
        index = {i: 1 - sums[i] / counts[i] + math.sqrt(2 * math.log(t) / counts[i]) for i in range(3)}
        chosen = max(index, key=index.__getitem__)
        assert trace.arms[t - 1] == chosen
        counts[chosen] += 1
        sums[chosen] += losses[0][chosen]


@settings(max_examples=12, deadline=None)
@given(
    arms=st.integers(2, 12),
    constant=st.sampled_from([49.0, 49.0, 100.0, 60.0]),
    seed=st.integers(0, 2**32 - 1),
    kinds=st.lists(st.sampled_from([0, 1, 2, 5, 20, 100, 1000, None]), min_size=1, max_size=8),
)
def test_invariants_of_robust(arms: int, constant: float, seed: int, kinds: list[int | None]) -> None:
    """One skip a round at most, D and patience monotone, the count against the patience, D_t <= 2 D_s: algorithm
    and lemmas.
    """
    rng = np.random.default_rng(seed)
    rounds = 3000
    delays = [kinds[k] for k in rng.integers(0, len(kinds), rounds)]
    trace = replay(f"robust:delay_constant={constant}", rng.random((rounds, arms)), delays, rng.random(rounds).tolist())
    cumulative = np.cumsum(trace.outstanding)
    assert (np.diff(trace.patience) >= 0.0).all()
    unit = constant * arms ** (2 / 3) * math.log(arms)
    np.testing.assert_allclose(trace.patience, np.sqrt(cumulative / unit), rtol=1e-12)
    assert (trace.outstanding <= trace.patience + 1.0).all()
    skipped = {int(s): t for t, s in enumerate(trace.skipped, 1) if s}
    assert len(skipped) == np.count_nonzero(trace.skipped)
    gone = [
        s + d if d is not None and s + d <= skipped.get(s, rounds) else skipped.get(s, rounds)
        for s, d in enumerate(delays, 1)
    ]
    for s, t in skipped.items():
        assert t - s >= trace.patience[t - 1]
        assert delays[s - 1] is None or delays[s - 1] > t - s
    active = np.zeros(rounds + 2)
    for s, end in enumerate(gone, 1):
        active[s + 1] += 1
        active[min(end, rounds) + 1] -= 1
    np.testing.assert_array_equal(np.cumsum(active)[1 : rounds + 1], trace.outstanding)
    # the lemma behind "one skip a round": after the round's arrivals and its skip nobody else's time is up
    left = [
        end if end < rounds or s in skipped or delays[s - 1] == rounds - s else math.inf
        for s, end in enumerate(gone, 1)
    ]
    oldest = 1
    for t in range(2, rounds + 1):
        while left[oldest - 1] <= t and oldest < t:
            oldest += 1
        assert oldest == t or t - oldest < trace.patience[t - 1]
    for s in range(1, rounds + 1, 37):
        last = min(s + int(trace.patience[s - 1]), rounds)
        while last < rounds and last + 1 - s <= trace.patience[last]:
            last += 1
        assert cumulative[last - 1] <= 2 * cumulative[s - 1] or last == s


def test_memory_is_bounded_when_nothing_ever_arrives() -> None:
    """Active decisions lie within the patience: about rounds / (100 K^(2/3) log K) of them, where K = 4."""
    bandit = Bandit(4, learner="robust", seed=0)
    for _ in range(20_000):
        bandit.decide()
    assert bandit.outstanding <= bandit.patience + 2
    assert bandit.outstanding < 20_000 / (60 * 4 ** (2 / 3) * math.log(4)) + 2
    assert bandit._run.memory.size <= 512


@pytest.mark.parametrize(
    ("call", "field", "values"),
    [
        (lambda: learners.find("robost"), "learner", ["'robost'", "'robust'"]),
        (lambda: learners.tune("robust", delay_konstant=1.0), "delay_konstant", ["'delay_constant'"]),
        (lambda: learners.tune("robust:delay_constant=-1"), "delay_constant", ["-1", "1e-09", "1e+09"]),
        (lambda: learners.tune("robust", delay_constant=math.nan), "delay_constant", ["nan"]),
        (lambda: learners.tune("robust", delay_constant="much"), "delay_constant", ["'much'"]),
        (lambda: learners.tune("robust:delay_constant"), None, ["'delay_constant'"]),
        (lambda: learners.tune("tsallis", exploration=2.0), "exploration", ["settled"]),
    ],
)
def test_bad_names_and_parameters(call: Any, field: str | None, values: list[str]) -> None:
    with refused(field, *values):
        call()


def test_labels_name_what_was_set() -> None:
    assert learners.tune("robust").label == "robust"
    assert learners.tune("robust:delay_constant=1").label == "robust:delay_constant=1"
    assert learners.tune(learners.find("ucb"), exploration=1.5).label == "ucb:exploration=1.5"
