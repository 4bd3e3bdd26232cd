"""The other learners against their formulas, written out in a few lines each, round by round."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from belated import simulate
from belated.core.random import seed_of_draw, uniform
from belated.learners.klucb import divergence, upper
from belated.simplex import ftrl_distribution
from belated.simulation.simulation import replay

Floats = NDArray[np.float64]
ROUNDS, ARMS = 300, 4
HORIZON = 300.0


class History:
    """What a formula may look at in round t: decisions, and which of their outcomes have come when the round opens."""

    def __init__(self, losses: Floats, delays: list[int | None], arms: Any, x: Floats) -> None:
        self.losses, self.delays, self.arms, self.x = losses, delays, arms, x

    def arrived(self, t: int) -> Iterator[tuple[int, int, float, float]]:
        """(s, arm, loss, propensity) of outcomes that came before round t, in the order in which they came."""
        come = [(s + d, s) for s, d in enumerate(self.delays[: t - 1], 1) if d is not None and s + d < t]
        for _, s in sorted(come):
            arm = self.arms[s - 1]
            yield s, arm, self.losses[s - 1, arm], self.x[s - 1, arm]

    def cumulative(self, t: int) -> int:
        """D_t."""
        return sum(1 for u in range(1, t + 1) for s in range(1, u) if (d := self.delays[s - 1]) is None or s + d >= u)

    def means(self, t: int) -> tuple[Floats, Floats, Floats]:
        """Observed losses, observed outcomes and decisions of each arm."""
        losses, observed, decisions = np.zeros((3, ARMS))
        for _, arm, loss, _ in self.arrived(t):
            losses[arm] += loss
            observed[arm] += 1
        for arm in self.arms[: t - 1]:
            decisions[arm] += 1
        return losses, observed, decisions


def softmax(rate: float, estimates: Floats) -> Floats:
    weights = np.exp(-rate * (estimates - estimates.min()))
    return np.asarray(weights / weights.sum())


def one(arm: int) -> Floats:
    return np.eye(ARMS)[arm]


def weighted(h: History, t: int, extra: Callable[[int, int], float] = lambda s, arm: 0.0) -> Floats:
    estimates = np.zeros(ARMS)
    for s, arm, loss, propensity in h.arrived(t):
        estimates[arm] += loss / (propensity + extra(s, arm))
    return estimates


def exp3_fixed(h: History, t: int) -> Floats:
    slope = 1 / (2 * (1 - 1 / math.e) * 13) + 3 / (ARMS * math.e)
    gamma = min(1.0, math.sqrt(ARMS * math.e * 13 * math.log(ARMS) / (slope * HORIZON)))
    return softmax(gamma / (ARMS * math.e * 13), weighted(h, t))


def exp3_dropping(h: History, t: int) -> Floats:
    rate = math.sqrt(math.log(ARMS) / (ARMS * HORIZON / 2 + 1000))
    estimates = np.zeros(ARMS)
    for s, arm, loss, propensity in h.arrived(t):
        delay = h.delays[s - 1]
        assert delay is not None
        if delay <= math.ceil(0.2 / rate):  # what comes in the round in which it would be skipped is used
            estimates[arm] += loss / propensity
    return softmax(rate, estimates)


def exp3_adaptive(h: History, t: int) -> Floats:
    return softmax(math.sqrt(math.log(ARMS) / (ARMS * t + h.cumulative(t))), weighted(h, t))


def exp3_ix(h: History, t: int) -> Floats:
    rate = math.sqrt(math.log(ARMS) / (ARMS * t))
    return softmax(rate, weighted(h, t, lambda s, arm: 0.5 * math.sqrt(math.log(ARMS) / (ARMS * s))))


def exp3_ix_told(h: History, t: int) -> Floats:
    rate = math.sqrt(2 * math.log(ARMS) / (ARMS * HORIZON))
    return softmax(rate, weighted(h, t, lambda s, arm: rate / 2))


def exp3_drift(h: History, t: int) -> Floats:
    def rate(u: int) -> float:
        return math.sqrt(math.log(ARMS) / (ARMS * u + h.cumulative(u)))

    def extra(s: int, arm: int) -> float:
        delay = h.delays[s - 1]
        assert delay is not None
        return float(max(h.x[s - 1, arm], h.x[s + delay - 1, arm]) - h.x[s - 1, arm] + 0.5 * rate(s))

    return softmax(rate(t), weighted(h, t, extra))


def tsallis_rv(h: History, t: int) -> Floats:
    estimates = np.zeros(ARMS)
    for s, arm, loss, _ in h.arrived(t):
        baseline = np.where(h.x[s - 1] >= 4 / s, 0.5, 0.0)
        estimates += baseline
        estimates[arm] += (loss - baseline[arm]) / h.x[s - 1, arm]
    return ftrl_distribution(estimates - estimates.min(), 0.5 * math.sqrt(t), 0.0)


def first_unobserved(h: History, t: int) -> int | None:
    _, observed, decisions = h.means(t)
    unseen = [i for i in range(ARMS) if observed[i] == 0]
    return min(unseen, key=lambda i: (decisions[i], i)) if unseen else None


def klucb(h: History, t: int) -> Floats:
    if (arm := first_unobserved(h, t)) is not None:
        return one(arm)
    losses, observed, _ = h.means(t)
    bounds = []
    for i in range(ARMS):
        m = 1 - losses[i] / observed[i]
        low, high = m, 1.0
        for _ in range(200):  # bisection
            q = (low + high) / 2
            inside = (
                q < 1.0 and m * math.log(m / q) + (1 - m) * math.log((1 - m) / (1 - q)) <= math.log(t) / observed[i]
            )
            low, high = (q, high) if inside else (low, q)
        bounds.append(low)
    return one(int(np.argmax(bounds)))


def elimination(h: History, t: int) -> Floats:
    active = list(range(ARMS))
    arm = -1
    for u in range(1, t + 1):
        losses, observed, _ = h.means(u)
        means = losses / np.maximum(observed, 1)
        radius = np.array([math.sqrt(0.1 * math.log(HORIZON) / n) if n else math.inf for n in observed])
        lowest = min(means[i] + radius[i] for i in active)
        active = [i for i in active if means[i] - radius[i] <= lowest]
        arm = next(i % ARMS for i in range(arm + 1, arm + 1 + ARMS) if i % ARMS in active)
    return one(arm)


def patient(h: History, t: int) -> Floats:
    losses, observed, decisions = h.means(t)
    if (decisions == 0).any():
        return one(int(np.argmin(decisions > 0)))
    index = (observed - losses) / decisions + np.sqrt(2 * math.log(2 * ARMS * HORIZON**3) / decisions)
    return one(int(np.argmax(index + 2 * decisions**-0.3)))


def epsilon_greedy(h: History, t: int) -> Floats:
    losses, observed, _ = greedy_means(h, t)
    unseen = greedy_unobserved(h, t)
    best = unseen if unseen is not None else int(np.argmin(losses / observed))
    return np.asarray(0.1 / ARMS + 0.9 * one(best))


def greedy_means(h: History, t: int) -> tuple[Floats, Floats, Floats]:
    """As h.means, but decisions count for the arm that was preferred, not the one that chance chose."""
    losses, observed, _ = h.means(t)
    preferred = np.zeros(ARMS)
    for u in range(t - 1):
        preferred[int(np.argmax(h.x[u]))] += 1
    return losses, observed, preferred


def greedy_unobserved(h: History, t: int) -> int | None:
    _, observed, preferred = greedy_means(h, t)
    unseen = [i for i in range(ARMS) if observed[i] == 0]
    return min(unseen, key=lambda i: (preferred[i], i)) if unseen else None


def ewma(h: History, t: int) -> Floats:
    averages: dict[int, float] = {}
    for _, arm, loss, _ in h.arrived(t):
        averages[arm] = averages[arm] + 0.02 * (loss - averages[arm]) if arm in averages else loss
    unseen = greedy_unobserved(h, t)
    best = unseen if unseen is not None else min(averages, key=lambda i: (averages[i], i))
    return np.asarray(0.1 / ARMS + 0.9 * one(best))


FORMULAS = {
    "exp3_fixed:horizon=300,longest_delay=12": exp3_fixed,
    "exp3_dropping:horizon=300,total_delay=1000,drop=0.2": exp3_dropping,
    "exp3_adaptive": exp3_adaptive,
    "exp3_ix": exp3_ix,
    "exp3_ix:horizon=300": exp3_ix_told,
    "exp3_drift": exp3_drift,
    "tsallis_rv": tsallis_rv,
    "klucb": klucb,
    "elimination:horizon=300,radius_constant=0.1": elimination,
    "patient:horizon=300,tail_index=0.3": patient,
    "epsilon_greedy": epsilon_greedy,
    "ewma": ewma,
}


@pytest.mark.parametrize("words", FORMULAS)
def test_every_round(words: str) -> None:
    rng = np.random.default_rng(8)
    losses = rng.random((ROUNDS, ARMS)) * np.array([0.9, 1.0, 0.6, 1.0])
    delays = [None if rng.random() < 0.1 else int(rng.integers(0, 13)) for _ in range(ROUNDS)]
    trace = replay(words, losses, delays, rng.random(ROUNDS).tolist())
    h = History(losses, delays, trace.arms, trace.distributions)
    steps = {"exp3_drift": 23, "elimination:horizon=300,radius_constant=0.1": 11, "exp3_adaptive": 3}
    for t in range(1, ROUNDS + 1, steps.get(words, 2)):
        np.testing.assert_allclose(trace.distributions[t - 1], FORMULAS[words](h, t), rtol=1e-9, err_msg=f"round {t}")
    if words.startswith("elimination"):
        assert len(set(trace.arms[-20:].tolist())) < ARMS
    if words.startswith("exp3_dropping"):
        assert np.count_nonzero(trace.skipped) > 20


def test_chance_is_uniform_and_differs_by_round_draw_and_position() -> None:
    with np.errstate(over="ignore"):
        values = np.array(
            [uniform(np.uint64(seed_of_draw(0.25, float(t))), k) for t in range(1, 201) for k in range(100)]
        )
        assert seed_of_draw(0.25, 1.0) != seed_of_draw(0.250001, 1.0)
    assert 0.0 < values.min() < values.max() < 1.0
    assert np.unique(values).size == values.size
    assert abs(values.mean() - 0.5) < 4 * math.sqrt(1 / 12 / values.size)
    counts = np.histogram(values, bins=50, range=(0, 1))[0]
    assert ((counts - 400) ** 2 / 400).sum() < 49 + 4 * math.sqrt(2 * 49)


@pytest.mark.parametrize("m", [0.0, 1e-9, 0.2, 0.5, 0.9, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("level", [0.0, 1e-12, 1e-3, 0.3, 5.0, 700.0])
def test_upper_bound_of_klucb(m: float, level: float) -> None:
    q = upper(m, level)
    assert m <= q <= 1.0
    if 0.0 < q < 1.0 and level > 0.0:
        assert divergence(m, q) <= level * (1 + 1e-9) + 1e-15
        if q < 1.0 - 1e-12:
            assert divergence(m, min(q + 1e-6 * (1 - q) + 1e-9, 1 - 1e-16)) > level * (1 - 1e-9)


def test_klucb_is_better_than_ucb() -> None:
    """The tighter bound pays: half the regret of UCB1 at least, three arms at 0.1 and 0.2; four standard errors."""
    result = simulate(["klucb", "ucb"], "bernoulli:means=[0.1,0.2,0.2]", rounds=20_000, replications=30, seed=4)
    assert result.final("klucb").high < 0.5 * result.final("ucb").low
