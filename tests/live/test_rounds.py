"""The protocol of a round, by hand: which arm a draw falls on, and which arrivals count for the drift."""

import math

import numpy as np
import pytest

from belated import Bandit
from belated.core.shares import draw_arm


def test_a_draw_beyond_the_sum_falls_on_the_last_arm_that_has_a_share() -> None:
    """Where rounding leaves the sum below the draw; arms of probability 0 are never chosen."""
    draw = math.nextafter(1.0, 0.0)
    for tail in (0, 1, 3):
        p = np.array([0.5, 0.5 - 2.0**-52, *[0.0] * tail])
        assert p.sum() < draw
        assert draw_arm(p, draw) == 1
        assert draw_arm(p, 0.5) == 1
        assert draw_arm(p, math.nextafter(0.5, 0.0)) == 0
    assert draw_arm(np.array([0.0, 0.0, 1.0]), 0.0) == 2


@pytest.mark.parametrize("learner", ["balanced", "hybrid_skipping", "bold"])
def test_drift_is_that_of_arrivals_that_were_waited_for(learner: str) -> None:
    """x_{t,I_s} / max(x_{s,I_s}, lambda_{s,t}) from the distributions shown.

    It never goes down. A decision that was skipped does not count, though hybrid_skipping learns from it: here it would
    have the largest.
    """
    rng = np.random.default_rng(0)
    bandit = Bandit(3, learner, seed=0)
    waiting: list[int] = []
    made: dict[int, tuple[int, float, int]] = {}
    due: dict[int, list[int]] = {}
    counted, others = 1.0, 1.0
    for t in range(1, 401):
        before = bandit.skipped
        decision = bandit.decide()
        for _ in range(bandit.skipped - before):
            waiting.pop(0)
        waiting.append(t)
        made[t] = int(decision.arm), decision.propensity, bandit.cumulative_outstanding
        due.setdefault(t + int(3 * rng.pareto(0.7)), []).append(t)
        for s in due.pop(t, []):
            arm, propensity, then = made[s]
            now = bandit.cumulative_outstanding
            explored = math.exp(-now / (now - then)) if now > then else 0.0
            drift = bandit.distribution[arm] / max(propensity, explored)
            bandit.observe(s, loss=float(rng.random() < (0.8, 0.5, 0.2)[arm]))
            if s in waiting:
                waiting.remove(s)
                counted = max(counted, drift)
            else:
                others = max(others, drift)
            assert bandit.drift == pytest.approx(counted, rel=1e-12)
    assert counted > 1.0
    if learner == "hybrid_skipping":
        assert others > counted
