"""Where one learner becomes another, as the papers say: bit for bit unless said otherwise."""

import random
from typing import Any

import numpy as np
import pytest

from belated import Trace, simulate
from belated.simulation.simulation import replay

Problem = tuple[Any, list[int | None], list[float]]


def problem(rounds: int, arms: int, delays: list[int | None] | int, seed: int = 4) -> Problem:
    rng = np.random.default_rng(seed)
    losses = (rng.random((rounds, arms)) < np.linspace(0.3, 0.7, arms)).astype(float)
    losses[::4] = rng.random((len(losses[::4]), arms))
    waits: list[int | None] = [delays] * rounds if isinstance(delays, int) else delays
    return losses, waits, rng.random(rounds).tolist()


def assert_same(first: Trace, second: Trace, rounds: int | None = None) -> None:
    np.testing.assert_array_equal(first.arms[:rounds], second.arms[:rounds])
    np.testing.assert_array_equal(first.distributions[:rounds], second.distributions[:rounds])


@pytest.mark.parametrize(
    ("learner", "undelayed"),
    [
        ("robust", "tsallis"),
        ("hybrid", "tsallis"),
        ("hybrid_skipping", "tsallis"),
        ("damped:longest_delay=0", "tsallis"),
        ("bold", "tsallis"),
        ("bold:base=exp3", "exp3"),
        ("exp3_adaptive", "exp3"),
        ("exp3_drift", "exp3_ix"),
    ],
)
@pytest.mark.parametrize("arms", [2, 7, 30])
def test_without_delay(learner: str, undelayed: str, arms: int) -> None:
    assert_same(replay(learner, *problem(3000, arms, 0)), replay(undelayed, *problem(3000, arms, 0)))


def test_queued_is_ucb_without_delay() -> None:
    """Fed at once, UCB1 is asked in round t what it would play after t - 1 outcomes."""
    for exploration in (2.0, 0.5):
        settings = f":exploration={exploration}"
        assert_same(replay(f"queued{settings}", *problem(5000, 6, 0)), replay(f"ucb{settings}", *problem(5000, 6, 0)))


@pytest.mark.parametrize("base", ["tsallis", "exp3"])
@pytest.mark.parametrize("delay", [0, 1, 4, 100])
def test_bold_under_a_constant_delay_is_copies_in_turns(base: str, delay: int) -> None:
    losses, waits, draws = problem(3000, 5, delay)
    together = replay(f"bold:base={base}", losses, waits, draws)
    for copy in range(delay + 1):
        own = slice(copy, None, delay + 1)
        alone = replay(base, losses[own], [0] * len(losses[own]), draws[own])
        np.testing.assert_array_equal(together.arms[own], alone.arms)
        np.testing.assert_array_equal(together.distributions[own], alone.distributions)


@pytest.mark.parametrize("seed", range(5))
def test_hybrid_skipping_is_hybrid_with_the_other_constant_until_the_first_skip(seed: int) -> None:
    chance = random.Random(seed)
    delays = [chance.randrange(2 if t < 300 else 9) for t in range(1500)] + [None] * 500
    skipping = replay("hybrid_skipping", *problem(2000, 6, delays, seed))
    plain = replay("hybrid:delay_constant=1", *problem(2000, 6, delays, seed))
    first = int(np.flatnonzero(skipping.skipped)[0]) + 1  # the round at whose end it skips
    assert first > 300
    assert skipping.outstanding[: first - 1].any()
    assert_same(skipping, plain, first)
    assert (skipping.distributions[first] != plain.distributions[first]).any()


def test_hybrid_skipping_uses_what_it_skipped() -> None:
    """Everything that comes at all is in the loss estimates at the end, skipped or not."""
    chance = random.Random(1)
    delays = [chance.choice([0, 1, 2, 500, None]) for _ in range(3000)]
    losses, waits, draws = problem(3000, 3, delays)
    trace = replay("hybrid_skipping", losses, waits, draws)
    skipped = {int(s) for s in trace.skipped if s}
    came_after = [s for s in skipped if (d := delays[s - 1]) is not None and s + d <= 3000]
    assert len(came_after) > 300
    expected = np.zeros(3)
    for s, delay in enumerate(delays, 1):
        if delay is not None and s + delay <= 3000:
            arm = trace.arms[s - 1]
            expected[arm] += losses[s - 1, arm] / trace.distributions[s - 1, arm]
    np.testing.assert_allclose(trace.loss_estimates[-1], expected, rtol=1e-9)


def test_at_most_one_skip_a_round_and_the_count_within_patience() -> None:
    """Lemma 7 of Zimmert & Seldin (2020): after a round's skip nobody else's time is up."""
    chance = random.Random(3)
    delays = [chance.choice([0, 3, 30, 300, None]) for _ in range(5000)]
    trace = replay("hybrid_skipping", *problem(5000, 4, delays))
    b = np.sqrt(np.cumsum(trace.outstanding) / np.log(4))
    np.testing.assert_array_equal(trace.patience, np.floor(b) + 1)
    assert (trace.outstanding <= b + 1).all()
    for t in np.flatnonzero(trace.skipped):
        assert t + 1 - trace.skipped[t] > b[t]


def test_exp3_delayed_with_all_delays_below_its_threshold_is_dew() -> None:
    """The wrapper at beta = d_max skips nothing; eta' = min(eta, 1 / (4 e d_max)) by hand."""
    losses, waits, draws = problem(400, 3, [t % 5 for t in range(400)])
    trace = replay("exp3_delayed:horizon=400,total_delay=800,threshold=4", losses, waits, draws)
    rate = min(np.sqrt(np.log(3) / (3 * 400 * np.e / 2 + 800)), 1 / (4 * np.e * 4))
    estimates = np.zeros(3)
    for t in range(1, 401):
        x = np.exp(-rate * (estimates - estimates.min()))
        np.testing.assert_allclose(trace.distributions[t - 1], x / x.sum(), rtol=1e-11)
        for s in range(max(1, t - 4), t + 1):
            if s + s_delay(waits, s) == t:
                arm = trace.arms[s - 1]
                estimates[arm] += losses[s - 1, arm] / trace.distributions[s - 1, arm]
    tight = replay("exp3_delayed:horizon=400,total_delay=800,threshold=3", losses, waits, draws)
    assert (tight.distributions[10:] != trace.distributions[10:]).any()


def s_delay(waits: list[int | None], s: int) -> int:
    delay = waits[s - 1]
    assert delay is not None
    return delay


def test_learners_told_the_truth_are_those_told_by_hand() -> None:
    """In a simulation with constant delay 7 and 500 rounds the truth is plain."""
    total = 493 * 7 + sum(range(7))  # the last seven outcomes count up to the last round
    pairs = {
        "damped": "damped:longest_delay=7",
        "exp3_fixed": "exp3_fixed:horizon=500,longest_delay=7",
        "exp3_dropping": f"exp3_dropping:horizon=500,total_delay={total}",
        "exp3_ix:horizon=known": "exp3_ix:horizon=500",
        "elimination": "elimination:horizon=500",
        "sapo": "sapo:horizon=500",
        "exp3_delayed:horizon=known,total_delay=known": f"exp3_delayed:horizon=500,total_delay={total}",
    }
    result = simulate(
        [*pairs, *pairs.values()],
        "stochastic:arms=3,gap=0.4",
        "constant:delay=7",
        rounds=500,
        replications=3,
        keep_trace=True,
    )
    for k in range(len(pairs)):
        for r in range(3):
            assert_same(result.traces[k][r], result.traces[k + len(pairs)][r])
