"""The distribution that minimises regularised loss: the one FTRL solver, for every learner, live, bulk and alone.

    x = argmin over the simplex of  <L, x> - 2 a sum_i sqrt(x_i) + b sum_i x_i (log x_i - 1)

a is the rate of the Tsallis part, b the rate of the entropy (1/eta_t and 1/gamma_t in Masoudian, Zimmert & Seldin 2024,
Eq. regularizer). With y_i = x_i^(-1/2) and the multiplier mu of sum_i x_i = 1, stationarity reads

    a y_i + 2 b log y_i = L_i - mu.                                                                             (*)

- a = 0: x is the softmax of -L/b.
- cold: Newton in mu from the right end of its bracket, (*) solved to the last bit for each arm at each step. The sum is
  increasing and convex in mu, so the iteration is monotone and cannot fail. Used when nothing is known.
- warm: from one round to the next the solution hardly moves. One pass takes a joint step in (mu, y) whose error is of
  the fourth order in the relative change of y, from a prediction of mu that is right to first order. Most rounds need
  one pass, and a pass costs one division and no logarithm per arm. A pass whose step was not small is followed by
  another; a step too large for the series hands over to cold.
"""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from belated.core.kernels import STATE, VECTOR, Vector, entry, kernel
from belated.core.layout import Layout

# The state of a learner built on the solver: SINGLES single numbers, then blocks of LANES arms, each block field by
# field. Within a block every distance is a constant of the compiled code, which is what lets the compiler work on
# several arms at once; lanes beyond the last arm are there with weight 0 and never move.
LANES = 12
FIELDS = 8
SINGLES = 24
# Offsets of an arm's fields in the state. Unsigned, so that no code is made for negative indices.
LOSSES = np.uint64(0 * LANES)  # L, the input
ROOTS = np.uint64(1 * LANES)  # y
LOGS = np.uint64(2 * LANES)  # log y, carried along by log1p of each step
PRESENT = np.uint64(3 * LANES)  # 1 for an arm, 0 beyond the last
SHARES = np.uint64(4 * LANES)  # x
SHARE_SLOPES = np.uint64(5 * LANES)  # half of dx/dmu
STEPS = np.uint64(6 * LANES)  # rho, the relative step of y in a pass
STEP_SLOPES = np.uint64(7 * LANES)  # -drho/dmu

# The single numbers.
LEVEL = 0  # mu
TSALLIS_RATE = 1  # a of the last solution
ENTROPY_RATE = 2  # b of the last solution
LEVEL_SLOPE = 3  # dmu / d(sum x) = 1 / (2 sum x w), where w = 1 / (a y + 2b); by the implicit function theorem
TSALLIS_SLOPE = 4  # dmu/da = -(sum x w y) / (sum x w); here sum x w y
ENTROPY_SLOPE = 5  # dmu/db = -2 (sum x w log y) / (sum x w); here sum x w log y
AGE = 6  # warm solutions since the logarithms were computed afresh; 0 where there is no solution yet
OWN = 7  # from here to SINGLES - 1: the learner's own

_FRESH_LOGS = 128  # rounds between fresh logarithms, so that rounding in LOGS cannot pile up
_SMALL = 2e-7  # a sum of squared steps below this: what is left, of the fourth order, is under 2e-13
_CLOSE = 1e-7  # a miss of sum x = 1 below this: what Newton leaves, of the second order, is under 1e-14
_LARGE = 0.1  # a sum of squares above this: the series is not to be trusted
_FAR = 0.1  # a relative step of one arm beyond this: it is solved for by itself first
_TALLEST = 1e90  # roots beyond this (x below 1e-180) would overflow in a pass: such a state stays cold
MOST = 1e100  # no loss estimate goes beyond this; squares and products of what follows from it are still numbers

FEWEST_ARMS = 2
MOST_ARMS = 10_000


def size(n_arms: int) -> int:
    """Return how many numbers the state has for so many arms."""
    return SINGLES + FIELDS * LANES * -(-n_arms // LANES)


LOSSES_AT = Layout(first=SINGLES, width=LANES, step=FIELDS * LANES)
"""Where the loss estimates stand in the state."""


@kernel(inline=True)
def at(arm: int | np.int64) -> np.uint64:
    """Return where the fields of an arm begin in the state."""
    return np.uint64(SINGLES + arm // LANES * (FIELDS * LANES) + arm % LANES)


@kernel(reassociate=True, inline=True)
def _warm(state: Vector, a: float, b: float) -> bool:
    """Move the last solution to the present losses and rates; False where it is too far away."""
    blocks = state.size // (FIELDS * LANES)
    level = (
        state[LEVEL]
        - ((a - state[TSALLIS_RATE]) * state[TSALLIS_SLOPE] + 2.0 * (b - state[ENTROPY_RATE]) * state[ENTROPY_SLOPE])
        * 2.0
        * state[LEVEL_SLOPE]
    )
    for _ in range(10):
        # With q = -(residual of (*)) w and v = b w, the root of (*) is y (1 + rho), where
        #   rho = q + v q^2 + O(q^3)   and   (1 + rho)^-2 = 1 - 2q + (3 - 2v) q^2 - (4 - 22v/3 + 4v^2) q^3 + O(q^4).
        # x, which is what is asked for, takes the latter; what y lacks is only where the next pass starts from.
        miss = -1.0
        far = 0.0
        slope = 0.0
        tsallis_slope = 0.0
        entropy_slope = 0.0
        for block in range(blocks):
            for lane in range(LANES):
                i = np.uint64(SINGLES + block * (FIELDS * LANES) + lane)
                y = state[i + ROOTS]
                log_y = state[i + LOGS]
                square = y * y
                curvature = a * y + 2.0 * b
                inverse = state[i + PRESENT] / (square * curvature)  # one division for both x and w
                x = inverse * curvature
                w = inverse * square
                q = (state[i + LOSSES] - level - a * y - 2.0 * b * log_y) * w
                v = b * w
                qq = q * q
                bend = (3.0 - 2.0 * v) * q
                share = x * (1.0 - q * ((2.0 - bend) + qq * (4.0 + v * (4.0 * v - 22.0 / 3.0))))
                xw = x * w
                share_slope = xw - xw * bend
                miss += share
                far += qq
                slope += share_slope
                tsallis_slope += xw * y
                entropy_slope += xw * log_y
                state[i + SHARES] = share
                state[i + SHARE_SLOPES] = share_slope
                state[i + STEPS] = q + v * qq
                state[i + STEP_SLOPES] = w
        if not far <= _LARGE:  # nan counts as large
            return False
        half = miss / slope
        shift = 0.5 * half
        level -= shift
        moved = 0.0
        for block in range(blocks):
            for lane in range(LANES):
                i = np.uint64(SINGLES + block * (FIELDS * LANES) + lane)
                rho = state[i + STEPS] + shift * state[i + STEP_SLOPES]
                square = rho * rho
                state[i + SHARES] -= half * state[i + SHARE_SLOPES]
                state[i + STEPS] = rho
                state[i + ROOTS] += state[i + ROOTS] * rho
                state[i + LOGS] += (rho - 0.5 * square) + square * rho * (1 / 3 - 0.25 * rho)
                moved += square
        if not moved <= _LARGE:  # nan counts as large
            return False
        if moved >= _SMALL:
            for arm in range(blocks * LANES):
                if abs(state[at(arm) + STEPS]) > 4e-4:  # beyond the four terms of log1p
                    state[at(arm) + LOGS] = math.log(state[at(arm) + ROOTS])
        elif abs(miss) < _CLOSE:
            state[LEVEL] = level
            state[TSALLIS_RATE] = a
            state[ENTROPY_RATE] = b
            state[LEVEL_SLOPE] = 0.5 / slope
            state[TSALLIS_SLOPE] = tsallis_slope
            state[ENTROPY_SLOPE] = entropy_slope
            state[AGE] += 1.0
            if state[AGE] >= _FRESH_LOGS:
                state[AGE] = 1.0
                for arm in range(blocks * LANES):
                    state[at(arm) + LOGS] = math.log(state[at(arm) + ROOTS])
            return True
    return False


@kernel
def _log_root(a: float, b: float, z: float) -> float:
    """Return s = log y with a e^s + 2 b s = z, for z >= a > 0.

    In closed form a Wright omega function. The left side is increasing and convex, and each of its terms is at most
    z at the root, so Newton from the smaller of the two bounds descends to it.
    """
    log_a = math.log(a)
    s = math.log(z) - log_a
    if b > 0.0:
        s = min(s, z / (2.0 * b))
        for _ in range(100):
            power = math.exp(s + log_a)
            step = (power + 2.0 * b * s - z) / (power + 2.0 * b)
            s -= step
            if step <= 1e-16 * s:
                break
    return max(s, 0.0)


@kernel
def _least(state: Vector, arms: int) -> float:
    least = state[at(0) + LOSSES]
    for i in range(1, arms):
        least = min(least, state[at(i) + LOSSES])
    return least


@kernel
def _cold(state: Vector, a: float, b: float, arms: int) -> None:
    """Solve from nothing: safe for any losses and rates with a > 0."""
    for i in range(arms, state.size // (FIELDS * LANES) * LANES):
        state[at(i) + ROOTS] = 1.0  # lanes beyond the last arm
    least = _least(state, arms)
    depth = a  # least - mu; here x of the best arm is 1 and the sum at least 1
    total = 0.0
    largest = 0.0
    for _ in range(200):
        total = 0.0
        slope = 0.0
        tsallis_slope = 0.0
        entropy_slope = 0.0
        for i in range(arms):
            s = _log_root(a, b, (state[at(i) + LOSSES] - least) + depth)
            y = math.exp(min(s, 700.0))  # beyond that a state stays cold, and nobody looks at y
            x = math.exp(-2.0 * s)
            w = 1.0 / (a * y + 2.0 * b)
            xw = x * w
            state[at(i) + PRESENT] = 1.0
            state[at(i) + ROOTS] = y
            state[at(i) + LOGS] = s
            state[at(i) + SHARES] = x
            state[at(i) + STEP_SLOPES] = w
            total += x
            slope += xw
            tsallis_slope += xw * y
            entropy_slope += xw * s
            largest = max(largest, y)
        state[LEVEL] = least - depth
        state[LEVEL_SLOPE] = 0.5 / slope
        state[TSALLIS_SLOPE] = tsallis_slope
        state[ENTROPY_SLOPE] = entropy_slope
        step = (total - 1.0) / (2.0 * slope)
        # The steps shrink quadratically, from above: the one after a step this small is below rounding.
        if step <= 1e-15 * depth or total - 1.0 < 1e-15:
            break
        depth += step
    for i in range(arms):
        state[at(i) + SHARES] /= total
    state[TSALLIS_RATE] = a
    state[ENTROPY_RATE] = b
    state[AGE] = 1.0 if largest < _TALLEST else 0.0


@kernel
def _softmax(state: Vector, b: float, p: Vector) -> None:
    least = _least(state, p.size)
    total = 0.0
    for i in range(p.size):
        p[i] = math.exp((least - state[at(i) + LOSSES]) / b)
        total += p[i]
    for i in range(p.size):
        p[i] /= total
        state[at(i) + SHARES] = p[i]
    state[TSALLIS_RATE] = 0.0
    state[ENTROPY_RATE] = b


@kernel(inline=True)
def share(state: Vector, arm: int) -> float:
    """Return the probability of an arm in the last distribution."""
    return float(state[at(arm) + SHARES])


@kernel(inline=True)
def solve(state: Vector, a: float, b: float, p: Vector) -> None:
    """Write into p the distribution for the losses in the state at Tsallis rate a and entropy rate b, not both 0."""
    if a == 0.0:
        _softmax(state, b, p)
        return
    if state[AGE] == 0.0 or not _warm(state, a, b):
        _cold(state, a, b, p.size)
    place = at(0) + SHARES
    lane = 0
    for i in range(p.size):
        p[i] = state[place]
        place += np.uint64(1)
        lane += 1
        if lane == LANES:
            lane = 0
            place += np.uint64((FIELDS - 1) * LANES)


@kernel
def settle(state: Vector, arms: int) -> None:
    """Let the shares follow the losses that were added since the last distribution, at its rates."""
    if state[AGE] == 0.0 or not _warm(state, state[TSALLIS_RATE], state[ENTROPY_RATE]):
        _cold(state, state[TSALLIS_RATE], state[ENTROPY_RATE], arms)


@kernel
def _jump(state: Vector, i: np.uint64) -> None:
    """Solve (*) for one arm alone, at the present mu, where its loss has changed by more than the series bears, and let
    mu give to the others what the arm has lost. A pass then finds all of them close.
    """
    a = state[TSALLIS_RATE]
    b = state[ENTROPY_RATE]
    before = math.exp(-2.0 * state[i + LOGS])
    s = _log_root(a, b, max(state[i + LOSSES] - state[LEVEL], a))
    y = math.exp(min(s, 700.0))
    state[i + ROOTS] = y
    state[i + LOGS] = s
    state[i + STEP_SLOPES] = 1.0 / (a * y + 2.0 * b)
    state[LEVEL] += (before - math.exp(-2.0 * s)) * state[LEVEL_SLOPE]
    if y > _TALLEST:
        state[AGE] = 0.0


@kernel(inline=True)
def add_loss(state: Vector, arm: int, amount: float) -> None:
    """Add to L_arm and let mu follow: dmu/dL_i = x_i w_i / sum x w, so that the next pass starts close."""
    i = at(arm)
    amount = max(min(amount, MOST - state[i + LOSSES]), -MOST - state[i + LOSSES])
    state[i + LOSSES] += amount
    if state[AGE] > 0.0:
        step = amount * state[i + STEP_SLOPES]
        if abs(step) > _FAR:
            _jump(state, i)
        else:
            state[LEVEL] += 2.0 * step * state[i + SHARES] * state[LEVEL_SLOPE]


SOLVE = types.void(STATE, types.float64, types.float64, VECTOR)


def distribution(losses: NDArray[np.float64], a: float, b: float) -> NDArray[np.float64]:
    """Return x for these losses and rates, not both 0, from nothing."""
    state, x = np.zeros(size(losses.size)), np.empty(losses.size)
    state[LOSSES_AT.places(losses.size)] = losses
    entry(solve, SOLVE)(state, a, b, x)
    return x
