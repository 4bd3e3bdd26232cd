"""How many more decisions it takes until an arm wins: simulated forward from what is known.

Rates are drawn from what the outcomes so far leave open of them, decisions go on with the present shares of arms, and
bets go on from the wealth that they have. The range from 20 to 80 % of the simulated futures is told. Learners change
their shares and rates change with time, so it is a forecast, not a statement with a probability of being right.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from belated.core.bets import KAPPAS, OUTCOMES, REWARDS
from belated.inference.bets import Bets
from belated.inference.tally import Tally

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FUTURES = 60
"""Simulated futures."""
MAX_ARMS = 5
"""Arms that are simulated: those with the largest means. The others are ruled out sooner."""
STEPS_A_DOUBLING = 4
MIN_STEP = 8
"""Decisions up to the first look ahead."""
FURTHEST = 100
"""How far is looked ahead: so many times the decisions so far, at least MIN_FURTHEST and at most MAX_FURTHEST."""
MIN_FURTHEST, MAX_FURTHEST = 100_000, 100_000_000
LOW, HIGH = 0.2, 0.8

Range = tuple[int, int | None]
"""From how many more decisions to how many; None: beyond what is looked at."""


class Futures(NamedTuple):
    """Simulated outcomes of some arms."""

    ahead: Integers
    """After so many more decisions one looks."""
    counts: Floats
    """Of the outcomes to come by then: (futures, looks, arms, places)."""
    places: Floats


def simulate(tally: Tally, shares: Floats, arms: Integers, rounds: int) -> Futures:
    """Return simulated outcomes of some arms, played with these shares, after `rounds` decisions."""
    rng = np.random.default_rng(rounds)  # the same decisions have the same forecast
    counts = tally.counts[arms]
    used = np.asarray(counts.any(axis=0))
    used[[0, -1]] = True
    open_ = counts[:, used].copy()
    open_[:, [0, -1]] += 0.5
    furthest = min(max(FURTHEST * rounds, MIN_FURTHEST), MAX_FURTHEST)
    looks = int(STEPS_A_DOUBLING * math.log2(furthest / MIN_STEP)) + 1
    ahead = np.rint(MIN_STEP * 2.0 ** (np.arange(looks) / STEPS_A_DOUBLING)).astype(np.int64)
    steps = np.diff(ahead, prepend=0)
    played = rng.binomial(steps[None, :, None], np.minimum(shares[arms], 1.0), (FUTURES, looks, arms.size))
    came = np.empty((FUTURES, looks, arms.size, open_.shape[1]))
    for k in range(arms.size):
        rates = rng.dirichlet(open_[k], FUTURES)
        came[:, :, k] = rng.multinomial(played[:, :, k], rates[:, None, :])
    return Futures(ahead, came.cumsum(axis=1), tally.places[used])


def leading(means: Floats, present: NDArray[np.bool_]) -> Integers:
    """Return the arms that are there with the largest means, MAX_ARMS at most."""
    order = np.argsort(-np.where(present, np.nan_to_num(means, nan=-1.0), -2.0), kind="stable")
    return np.sort(order[: min(MAX_ARMS, int(np.count_nonzero(present)))])


def by_bets(bets: Bets, tally: Tally, arms: Integers, alpha: float) -> Range | None:
    """Return how many more decisions it takes until bets on the recorded randomisation name an arm."""
    shares = bets.state.shares
    if not (shares[arms] > 0.0).all():
        return None
    futures = simulate(tally, shares, arms, bets.decisions)
    centre = (0.5 + bets.state.totals[REWARDS]) / (1.0 + bets.state.totals[OUTCOMES])
    least = np.full((*futures.counts.shape[:2], arms.size), np.inf)
    for i, a in enumerate(arms.tolist()):
        for j, b in enumerate(arms.tolist()):
            if i == j:
                continue
            weight = bets.weight_of(a, b, float(shares[a]), float(shares[b]))
            gains = np.log1p(np.outer(weight / shares[a] * (futures.places - centre), KAPPAS))
            losses = np.log1p(-np.outer(weight / shares[b] * (futures.places - centre), KAPPAS))
            logs = futures.counts[:, :, i] @ gains + futures.counts[:, :, j] @ losses + bets.log_wealth(a, b)
            top = logs.max(axis=2)
            wealth = top + np.log(np.exp(logs - top[:, :, None]).sum(axis=2)) + bets.state.scales[a, b]
            least[:, :, i] = np.minimum(least[:, :, i], wealth)
    return _range(futures.ahead, least.max(axis=2) >= bets.needed(alpha))


def by_search(futures: Futures, is_enough: Callable[[Floats], NDArray[np.bool_]]) -> Range:
    """Return the same where each look is dear: by halves, as if evidence only grew.

    is_enough: tells of counts of outcomes to come, (futures, arms, places), whether an arm wins with them.
    """
    rows = np.arange(FUTURES)
    low, high = np.full(FUTURES, -1), np.full(FUTURES, futures.ahead.size)
    while (high - low > 1).any():
        middle = np.clip((low + high) // 2, 0, futures.ahead.size - 1)
        wins = is_enough(futures.counts[rows, middle])
        is_open = high - low > 1
        high, low = np.where(wins & is_open, middle, high), np.where(~wins & is_open, middle, low)
    return _range(futures.ahead, np.arange(futures.ahead.size) >= high[:, None])


def _range(ahead: Integers, wins: NDArray[np.bool_]) -> Range:
    """Return the range of the first looks at which an arm wins: (futures, looks)."""
    first = np.where(wins.any(axis=1), ahead[wins.argmax(axis=1)], np.inf)
    low, high = np.quantile(first, [LOW, HIGH], method="inverted_cdf").tolist()
    if math.isinf(low):
        return _rounded(float(ahead[-1]), math.floor), None
    return _rounded(low, math.floor), None if math.isinf(high) else _rounded(high, math.ceil)


def _rounded(value: float, towards: Callable[[float], int]) -> int:
    """Return a number to two digits."""
    step = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return towards(value / step) * step
