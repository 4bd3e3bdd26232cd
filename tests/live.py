"""Plays a recorded problem through a live bandit, so that it can be compared with the bulk loop."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from belated import Bandit, Receipt, Trace
from belated.delays import NEVER
from belated.learners import find


def play_live(bandit: Bandit, losses: Any, delays: Sequence[int | None], draws: Sequence[float]) -> Trace:
    """Decide and observe round by round; outcomes that are due together come in the order of their decisions.

    A learner that must know the delay of a decision is told. Where several decisions are skipped at once, the newest of
    them is noted.
    """
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
        told = {"delay": NEVER if delay is None else delay} if learner.delay_at is not None else {}
        decision = bandit.decide(draw=draws[t - 1], **told)
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
    bandit.decide(draw=0.0, **told)
    for _ in range(bandit.skipped - before):
        skipped[rounds - 1] = waiting.pop(0)
    return Trace(chosen, distributions, estimates, outstanding, np.full(rounds, np.nan), skipped)
