"""The guards of the solver: rounding does not pile up, nothing overflows, nothing far away is taken for close.

The reference is a solution in 60 digits, by bisection with Python's decimal; or, where that would take too long, the
solver's own cold start, which is compared with it.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numba import types
from numpy.typing import NDArray

from belated.core import ftrl
from belated.core.kernels import STATE, entry
from belated.simplex import ftrl_distribution

Floats = NDArray[np.float64]

solve = entry(ftrl.solve, ftrl.SOLVE)
add_loss = entry(ftrl.add_loss, types.void(STATE, types.int64, types.float64))
settle = entry(ftrl.settle, types.void(STATE, types.int64))


class Solver:
    """A state of the solver for some losses and rates."""

    def __init__(self, losses: list[float], a: float, b: float) -> None:
        self.arms, self.a, self.b = len(losses), a, b
        self.state, self.p = np.zeros(ftrl.size(self.arms)), np.zeros(self.arms)
        self.losses = losses

    @property
    def losses(self) -> Floats:
        return self.state[ftrl.LOSSES_AT.places(self.arms)]

    @losses.setter
    def losses(self, losses: list[float]) -> None:
        self.state[ftrl.LOSSES_AT.places(self.arms)] = losses

    @property
    def age(self) -> float:
        """1 after a cold start, one more after each warm solution; 0 where the next one must start cold."""
        return float(self.state[ftrl.AGE])

    def solve(self) -> Floats:
        solve(self.state, self.a, self.b, self.p)
        return self.p.copy()

    def add(self, arm: int, amount: float) -> None:
        add_loss(self.state, arm, amount)

    def cold(self) -> Floats:
        """Return the solution that a cold start finds."""
        return ftrl_distribution(self.losses, self.a, self.b)


def exact(losses: Floats, a: float, b: float) -> list[Decimal]:
    """Solve a y + 2 b log y = L - mu, sum y^-2 = 1, to 50 digits."""
    with localcontext() as context:
        context.prec = 60
        rate, entropy = Decimal(a), Decimal(b)
        given = [Decimal(float(loss)) for loss in losses]

        def log_root(z: Decimal) -> Decimal:
            """s with a e^s + 2 b s = z >= a: Newton from above, as far as it changes anything."""
            s = (z / rate).ln()
            if entropy:
                s = min(s, z / (2 * entropy))
            for _ in range(500):
                power = rate * s.exp()
                step = (power + 2 * entropy * s - z) / (power + 2 * entropy)
                s -= step
                if abs(step) < Decimal("1e-55"):
                    break
            return s

        least = min(given)
        low, high = rate, 2 * rate * len(given) + 2 * entropy * Decimal(len(given)).ln()
        for _ in range(180):
            middle = (low + high) / 2
            if sum((-2 * log_root(loss - least + middle)).exp() for loss in given) > 1:
                low = middle
            else:
                high = middle
        return [(-2 * log_root(loss - least + low)).exp() for loss in given]


@pytest.mark.parametrize(
    ("losses", "a", "b"),
    [
        ([0.0, 1.0, 30.0], 2.0, 0.0),
        ([0.0, 300.0, 6000.0], 1.0, 200.0),
        ([-5.0, 1e6, 2.0], 3.0, 1e-3),
        ([0.0, 150.0], 1e-60, 1.0),
    ],
)
def test_cold_and_warm_against_60_digits(losses: list[float], a: float, b: float) -> None:
    solver = Solver(losses, a, b)
    solver.solve()
    for _ in range(3):
        solver.add(1, 1e-3 * a)
        warm = solver.solve()
    assert solver.age > 1.0
    reference = [float(share) for share in exact(solver.losses, a, b)]
    np.testing.assert_allclose(solver.cold(), reference, rtol=1e-12)
    np.testing.assert_allclose(warm, reference, rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(1.0, 20.0), (1e-3, 20.0), (1.0, 1000.0), (1.0, 1e4)])
def test_rounding_of_logarithms_does_not_pile_up(a: float, b: float) -> None:
    """100,000 warm rounds with small steps up and down. Each rounds the logarithm that it carries along.

    Without fresh logarithms that adds up to errors from 4e-12 to 3e-11; with them it stays below 2e-14.
    """
    arms = 10
    solver = Solver(np.linspace(0.0, 15.0 * b, arms).tolist(), a, b)
    amount = 1e-5 * max(a, b)
    for t in range(100_000):
        solver.solve()
        solver.add(t % arms, -amount if t // arms % 2 else amount)
    np.testing.assert_allclose(solver.solve(), solver.cold(), rtol=1e-12)
    assert solver.age > 1.0


@pytest.mark.parametrize("amount", [-1e100, -1e300, -math.inf])
@pytest.mark.parametrize("settled", [False, True])
def test_estimates_stop_falling_before_they_overflow(amount: float, settled: bool) -> None:
    """Estimates of reduced variance can be negative: they stop at -1e100, from where they can still come back."""
    solver = Solver([0.0, 1.0, 2.0], 1.0, 0.5)
    for _ in range(4):
        solver.solve()
        solver.add(1, amount)
        if settled:
            settle(solver.state, 3)
    assert solver.losses.tolist() == [0.0, -ftrl.MOST, 2.0]
    p = solver.solve()
    np.testing.assert_allclose(p, [0.0, 1.0, 0.0], atol=1e-150)
    for _ in range(4):
        solver.add(1, -amount)
        solver.solve()
    assert solver.losses.tolist() == [0.0, ftrl.MOST, 2.0]
    np.testing.assert_allclose(solver.solve(), solver.cold(), rtol=1e-11)


def test_an_arm_that_all_but_vanished_comes_back() -> None:
    """Its root is 1e120: its cube is no number, so a pass could never move it again."""
    solver = Solver([0.0, 1e100], 1e-20, 0.0)
    solver.solve()
    assert solver.age == 0.0
    solver.solve()
    solver.add(1, -1e100)
    np.testing.assert_allclose(solver.solve(), [0.5, 0.5], rtol=1e-12)


def test_an_arm_that_vanished_by_one_large_loss_comes_back() -> None:
    """From a root of 1e80, which stays warm, to one of 1e120 while the other arm hardly moves."""
    solver = Solver([0.0, 1e60], 1e-20, 0.0)
    solver.solve()
    solver.solve()
    assert solver.age == 2.0
    solver.add(1, 1e100)
    solver.solve()
    assert solver.age == 0.0
    solver.solve()
    solver.add(1, -1e100)
    np.testing.assert_allclose(solver.solve(), [0.5, 0.5], rtol=1e-12)


def test_a_root_just_within_reach_stays_warm() -> None:
    """1e89, so x = 1e-178: a pass still moves it, and is right."""
    solver = Solver([0.0, 1e89], 1.0, 0.0)
    solver.solve()
    assert solver.age == 1.0
    for _ in range(5):
        solver.add(1, 1e87)
        np.testing.assert_allclose(solver.solve(), solver.cold(), rtol=1e-12)
    assert solver.age == 6.0


@pytest.mark.parametrize(("change", "warm"), [(0.4, True), (0.46, False), (0.6, False), (0.9, False)])
def test_a_pass_is_trusted_only_where_its_slope_has_the_right_sign(change: float, warm: bool) -> None:
    """The slope of the sum in mu has the factor 1 - (3 - 2v) q for each arm, negative from q = 1/3 on where v = 0.

    So sums of q^2 are trusted up to 0.1, where q < 0.317. Two arms with x = 1/2 have w = 1/sqrt(2): a loss that changes
    by 0.4 has q = 0.28, one that changes by 0.46 has q = 0.325, and the solver starts cold.
    """
    solver = Solver([0.0, 0.0], 1.0, 0.0)
    solver.solve()
    solver.solve()
    assert solver.age == 2.0
    solver.losses = [0.0, change]
    p = solver.solve()
    assert solver.age == (3.0 if warm else 1.0)
    np.testing.assert_allclose(p, solver.cold(), rtol=1e-12)
    assert 1.0 - 3.0 * math.sqrt(ftrl._LARGE) > 0.0
