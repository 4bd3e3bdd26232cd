"""What a good programmer writes in an afternoon: the loops that belated is measured against.

Both play K Bernoulli arms whose outcomes come a fixed number of rounds late, and keep what was known at the decision.
"""

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray


def plain_ucb1(rewards: list[list[float]], delay: int) -> list[int]:
    """Delayed UCB1 in plain Python: choose + update for each row of rewards; how often each arm was played."""
    arms = len(rewards[0])
    counts = [0] * arms
    sums = [0.0] * arms
    played = [0] * arms
    waiting: deque[tuple[int, float]] = deque()
    log, sqrt = math.log, math.sqrt
    for t, row in enumerate(rewards, 1):
        choice = -1
        best = -1.0
        bonus = 2.0 * log(t)
        for arm in range(arms):
            n = counts[arm]
            if n == 0:
                choice = min((a for a in range(arms) if counts[a] == 0), key=played.__getitem__)
                break
            index = sums[arm] / n + sqrt(bonus / n)
            if index > best:
                best = index
                choice = arm
        played[choice] += 1
        waiting.append((choice, row[choice]))
        if len(waiting) > delay:
            arm, reward = waiting.popleft()
            counts[arm] += 1
            sums[arm] += reward
    return played


def numpy_tsallis_inf(losses: NDArray[np.float64], delay: int, seed: int) -> NDArray[np.int64]:
    """Tsallis-INF (importance-weighted) in numpy, Newton warm-started, with decision-time probabilities."""
    rounds, arms = losses.shape
    rng = np.random.default_rng(seed)
    estimates = np.zeros(arms)
    level = -math.sqrt(arms)
    played = np.zeros(arms, dtype=np.int64)
    waiting: deque[tuple[int, float]] = deque()
    for t in range(1, rounds + 1):
        eta = 2.0 / math.sqrt(t)
        while True:
            weights = 4.0 / (eta * (estimates - level)) ** 2
            step = (weights.sum() - 1.0) / (eta * (weights**1.5).sum())
            level -= step
            if abs(step) < 1e-9:
                break
        weights /= weights.sum()
        arm = int(np.searchsorted(weights.cumsum(), rng.random()))
        arm = min(arm, arms - 1)
        played[arm] += 1
        waiting.append((arm, losses[t - 1, arm] / weights[arm]))
        if len(waiting) > delay:
            late, estimate = waiting.popleft()
            estimates[late] += estimate
    return played
