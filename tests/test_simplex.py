import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from belated.core import ftrl
from belated.core.kernels import STATE, VECTOR, entry
from belated.simplex import ftrl_distribution
from support.refusals import refused

solve = entry(ftrl.solve, types.void(STATE, types.float64, types.float64, VECTOR))
add_loss = entry(ftrl.add_loss, types.void(STATE, types.int64, types.float64))


def assert_stationary(losses: np.ndarray, a: float, b: float, x: np.ndarray) -> None:
    """-a / sqrt(x_i) + b log x_i + L_i is the same number for every arm, to 1e-10 of its terms; the sum is 1 to
    1e-12.
    """
    assert abs(x.sum() - 1.0) < 1e-12
    seen = x > 1e-250
    levels = losses[seen] - a / np.sqrt(x[seen]) + b * np.log(x[seen])
    size = np.abs(losses[seen]) + a / np.sqrt(x[seen]) + b * np.abs(np.log(x[seen]))
    assert np.abs(levels - levels[np.argmax(x[seen])]).max() <= 1e-10 * size.max()


@settings(max_examples=80, deadline=None)
@given(
    arms=st.integers(2, 60),
    spread=st.floats(-3.0, 10.0),
    a=st.one_of(st.just(0.0), st.floats(1e-3, 1e5)),
    b=st.one_of(st.just(0.0), st.floats(1e-6, 1e6)),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_mix_of_the_two_regularisers(arms: int, spread: float, a: float, b: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses = rng.random(arms) ** 3 * 10.0**spread
    if a == b == 0.0:
        a = 1.0
    x = ftrl_distribution(losses, a, b)
    assert np.isfinite(x).all()
    assert_stationary(losses - losses.min(), a, b, x)


@pytest.mark.parametrize("arms", [2, 11, 12, 13, 24, 25, 1000, 10_000])
@pytest.mark.parametrize(("a", "b"), [(3.0, 0.0), (0.0, 40.0), (3.0, 40.0), (100.0, 0.01)])
def test_any_number_of_arms(arms: int, a: float, b: float) -> None:
    losses = np.geomspace(1e-4, 1e6, arms)
    x = ftrl_distribution(losses, a, b)
    assert_stationary(losses, a, b, x)
    assert (np.diff(x) <= 0.0).all()


def test_equal_losses_give_the_uniform_distribution() -> None:
    for arms in (2, 5, 12, 77):
        np.testing.assert_allclose(ftrl_distribution(np.full(arms, 1e9), 2.0, 3.0), 1.0 / arms, rtol=1e-14)


def test_adding_a_constant_changes_nothing() -> None:
    losses = np.array([0.0, 1.5, 20.0, 3.0])
    x = ftrl_distribution(losses, 2.0, 1.0)
    np.testing.assert_allclose(ftrl_distribution(losses + 1024.0, 2.0, 1.0), x, rtol=1e-13)


def test_pure_tsallis_by_hand() -> None:
    """Two arms, a = 1, L = (0, d): x_i = (L_i - mu)^-2. With mu = -c: 1/c^2 + 1/(c + d)^2 = 1; d = 2 - 1.25 for c =
    1.25.
    """
    c = 1.25
    d = 1.0 / math.sqrt(1.0 - c**-2) - c
    np.testing.assert_allclose(ftrl_distribution([0.0, d], 1.0, 0.0), [c**-2, 1.0 - c**-2], rtol=1e-14)


def test_pure_entropy_is_the_softmax() -> None:
    losses = np.array([0.0, 3.0, 700.0])
    expected = np.exp(-losses / 2.0) / np.exp(-losses / 2.0).sum()
    np.testing.assert_allclose(ftrl_distribution(losses, 0.0, 2.0), expected, rtol=1e-13)


def test_probabilities_below_the_smallest_number_are_zero() -> None:
    x = ftrl_distribution([0.0, 1e6, 1e10], 0.0, 1.0)
    assert x.tolist() == [1.0, 0.0, 0.0]
    x = ftrl_distribution([0.0, 1e100], 1e-100, 1e-3)
    assert x[0] == 1.0
    assert 0.0 <= x[1] < 1e-300


@settings(max_examples=10, deadline=None)
@given(
    arms=st.integers(2, 40),
    constant=st.sampled_from([0.0, 1e-3, 1.0, 100.0]),
    jump=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_warm_solutions_are_as_good_as_cold_ones(arms: int, constant: float, jump: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state, p = np.zeros(ftrl.size(arms)), np.zeros(arms)
    warm = 0
    for t in range(1, 600):
        a, b = math.sqrt(t), math.sqrt(constant * t * rng.uniform(1.0, 1.0 + 1.0 / t))
        age = state[ftrl.AGE]
        solve(state, a, b, p)
        warm += state[ftrl.AGE] == age + 1.0
        losses = state[ftrl.LOSSES_AT.places(arms)]
        np.testing.assert_allclose(p, ftrl_distribution(losses, a, b), rtol=1e-11)
        assert abs(p.sum() - 1.0) < 1e-12
        for _ in range(rng.integers(0, 4)):
            arm = int(rng.integers(arms))
            add_loss(state, arm, jump * rng.random() / max(p[arm], 1e-3) / 10.0)
    assert warm > 20


def test_jumps_of_one_arm_do_not_start_from_nothing() -> None:
    """1,000 arms, losses of 1 weighted by probabilities near 1/1,000: nine rounds in ten begin from the one before."""
    rng = np.random.default_rng(2)
    arms = 1000
    state, p = np.zeros(ftrl.size(arms)), np.zeros(arms)
    warm = 0
    for t in range(1, 1001):
        age = state[ftrl.AGE]
        solve(state, math.sqrt(t), 0.1 * math.sqrt(t), p)
        warm += state[ftrl.AGE] == age + 1.0
        arm = int(np.searchsorted(np.cumsum(p), rng.random()))
        add_loss(state, arm, 1.0 / p[arm])
    assert warm > 900
    losses = state[ftrl.LOSSES_AT.places(arms)]
    solve(state, math.sqrt(1001), 0.1 * math.sqrt(1001), p)
    np.testing.assert_allclose(p, ftrl_distribution(losses, math.sqrt(1001), 0.1 * math.sqrt(1001)), rtol=1e-11)


def test_rounding_does_not_pile_up() -> None:
    """After 200,000 warm rounds the solution is that of a cold start from the same losses."""
    rng = np.random.default_rng(1)
    arms = 10
    state, p = np.zeros(ftrl.size(arms)), np.zeros(arms)
    for t in range(1, 200_001):
        solve(state, math.sqrt(t), math.sqrt(20.0 * t), p)
        arm = int(rng.integers(arms))
        add_loss(state, arm, float(arm > 0))
    losses = state[ftrl.LOSSES_AT.places(arms)]
    solve(state, math.sqrt(200_001), math.sqrt(20.0 * 200_001), p)
    np.testing.assert_allclose(p, ftrl_distribution(losses, math.sqrt(200_001), math.sqrt(20.0 * 200_001)), rtol=1e-11)


@pytest.mark.parametrize(
    ("losses", "a", "b", "values"),
    [
        ([1.0], 1.0, 0.0, ["loss_estimates", "(1,)"]),
        (np.zeros(10_001), 1.0, 0.0, ["loss_estimates", "(10001,)"]),
        ([[1.0, 2.0]], 1.0, 0.0, ["loss_estimates", "(1, 2)"]),
        ([1.0, math.nan], 1.0, 0.0, ["loss_estimates[1]", "nan"]),
        ([math.inf, 1.0], 1.0, 0.0, ["loss_estimates[0]", "inf"]),
        ([1.0, 2.0], -1.0, 0.0, ["tsallis_rate", "-1.0"]),
        ([1.0, 2.0], 1.0, math.nan, ["entropy_rate", "nan"]),
        ([1.0, 2.0], 0.0, 0.0, ["tsallis_rate", "entropy_rate"]),
    ],
)
def test_bad_input(losses: list[float], a: float, b: float, values: list[str]) -> None:
    with refused(None, *values):
        ftrl_distribution(losses, a, b)


@pytest.mark.parametrize("losses", [[0.0, 1e100], [-1e100, 1e100], [0.0, 1e-300, 5.0], [1e100, 1e100]])
@pytest.mark.parametrize("a", [0.0, 1e-100, 1.0, 1e100])
@pytest.mark.parametrize("b", [0.0, 1e-100, 1.0, 1e100])
def test_nothing_allowed_is_too_extreme(losses: list[float], a: float, b: float) -> None:
    if a == b == 0.0:
        return
    x = ftrl_distribution(losses, a, b)
    assert np.isfinite(x).all()
    assert (x >= 0.0).all()
    assert abs(x.sum() - 1.0) < 1e-12


def test_a_step_out_of_reach_is_not_taken_for_a_small_one() -> None:
    """Where the truncated series rho(q) has another root than q = 0, a large residual could pass for none."""
    for jump in np.linspace(103_954.0, 103_954.1, 101):
        state, p = np.zeros(ftrl.size(3)), np.zeros(3)
        state[ftrl.LOSSES_AT.places(3)] = [0.0, 0.5, 1e4]
        solve(state, 1.0, 100.0, p)
        add_loss(state, 2, float(jump))
        solve(state, 1.0, 100.0, p)
        expected = ftrl_distribution(state[ftrl.LOSSES_AT.places(3)], 1.0, 100.0)
        np.testing.assert_allclose(p, expected, rtol=1e-10)


def test_estimates_stop_growing_before_they_overflow() -> None:
    state, p = np.zeros(ftrl.size(2)), np.zeros(2)
    for _ in range(100):
        solve(state, 1.0, 1e-5, p)
        assert np.isfinite(p).all()
        add_loss(state, 0, 1.0 / p[0] if p[0] > 0.0 else math.inf)
    assert state[ftrl.LOSSES_AT.places(2)[0]] <= 1e100
