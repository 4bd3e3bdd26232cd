"""Which random numbers a bandit uses, and what it says of rounds that are over."""

import numpy as np

from belated import AlreadyObserved, Bandit, UnknownDecision
from support.refusals import refused


def test_the_draws_are_those_of_the_seed_in_their_order() -> None:
    """300 rounds, more than are fetched at once."""
    draws = np.random.default_rng(3).random(300)
    own, given = Bandit(4, "tsallis", seed=3), Bandit(4, "tsallis", seed=0)
    for t, draw in enumerate(draws.tolist(), 1):
        assert own.decide() == given.decide(draw=draw)
        loss = float(t % 3 == 0)
        own.observe(t, loss=loss)
        given.observe(t, loss=loss)


def test_the_newest_round_can_be_observed_once() -> None:
    bandit = Bandit(2, "ucb", seed=0)
    for _ in range(3):
        decision = bandit.decide()
    bandit.observe(decision, loss=0.5)
    for number in (3, decision):
        with refused(None, 3, error=AlreadyObserved):
            bandit.observe(number, loss=0.5)
    for number in (0, 4, -1):
        with refused(None, number, error=UnknownDecision):
            bandit.observe(number, loss=0.5)
