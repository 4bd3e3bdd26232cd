"""Learners told what they must know, and recorded problems played through a live bandit."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from belated import Bandit, Receipt, Trace
from belated.delays.law import NEVER
from belated.learners import TunedLearner, find, tune

# Learners in forms that run other code than their defaults.
VARIANTS = [
    "bold:base=exp3",
    "exp3_ix:horizon=3000",
    "exp3_delayed:horizon=3000,total_delay=20000",
    "exp3_delayed:horizon=3000,total_delay=20000,threshold=4",
    "sapo:elimination_widths=0.5,phase_constant=5,regret_constant=0.01",
    "hybrid:delay_constant=0.01",
]

TOLD: dict[str, dict[str, float]] = {
    "damped": {"longest_delay": 20},
    "exp3_fixed": {"horizon": 3000, "longest_delay": 20},
    "exp3_dropping": {"horizon": 3000, "total_delay": 9000},
    "elimination": {"horizon": 3000},
    "patient": {"horizon": 3000, "tail_index": 0.5},
    "sapo": {"horizon": 3000},
}


def informed(words: str) -> TunedLearner:
    """A learner of the catalogue, told what it must know; made up, where it does not matter."""
    return tune(words, **TOLD.get(words.partition(":")[0], {}))


def told(words: str, delay: int | None) -> dict[str, float]:
    """The delay of a decision, for a learner that must know it."""
    wants = find(words.partition(":")[0]).delay_at is not None
    return {"delay": math.inf if delay is None else delay} if wants else {}


def play_live(bandit: Bandit, losses: Any, delays: Sequence[int | None], draws: Sequence[float]) -> Trace:
    """Decide and observe round by round; outcomes that are due together come in the order of their decisions.

    A learner that must know the delay of a decision is told. Where several decisions are skipped at once, the newest of
    them is noted. The bandit raises no warnings.
    """
    bandit.warns = False
    learner = find(bandit.learner.partition(":")[0])
    rounds, arms = len(draws), len(bandit.arms)
    chosen = np.zeros(rounds, dtype=np.int64)
    distributions = np.zeros((rounds, arms))
    estimates = np.zeros((rounds, arms))
    outstanding = np.zeros(rounds, dtype=np.int64)
    skipped = np.zeros(rounds, dtype=np.int64)
    due: dict[int, list[int]] = {}
    waiting: list[int] = []
    for t in range(1, rounds + 1):
        before = bandit.skipped
        delay = delays[t - 1]
        decision = bandit.decide(draw=draws[t - 1], **told(bandit.learner, delay))
        for _ in range(bandit.skipped - before):
            skipped[t - 2] = waiting.pop(0)
        chosen[t - 1] = decision.arm
        outstanding[t - 1] = bandit.outstanding - 1
        distributions[t - 1] = bandit.distribution
        waiting.append(t)
        if delay is not None:
            due.setdefault(t + delay, []).append(t)
        for s in due.pop(t, []):
            receipt = bandit.observe(s, loss=losses[s - 1][chosen[s - 1]])
            assert (receipt is Receipt.USED) == (s in waiting or learner.keeps_skipped)
            if s in waiting:
                waiting.remove(s)
        estimates[t - 1] = bandit.loss_estimates
    # the last round of a live bandit stays open: close it to see its skip test
    before = bandit.skipped
    bandit.decide(draw=0.0, **told(bandit.learner, 0))
    for _ in range(bandit.skipped - before):
        skipped[rounds - 1] = waiting.pop(0)
    waits = np.array([NEVER if delay is None else delay for delay in delays], dtype=np.int64)
    came = waits <= rounds - np.arange(1, rounds + 1)
    paid = np.where(came, np.asarray(losses)[np.arange(rounds), chosen], np.nan)
    return Trace(chosen, distributions, estimates, outstanding, np.full(rounds, np.nan), skipped, waits, paid)
