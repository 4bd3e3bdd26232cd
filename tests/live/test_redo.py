"""Decisions made again from their record, and the draws that belong to a seed and a round."""

import numpy as np
import pytest

from belated import Bandit, Decision, UnknownDecision
from belated.core.kernels import entry
from belated.core.random import DRAW, draw
from support.refusals import refused

DRAWS = entry(draw, DRAW)


def drawn(number: int) -> float:
    return DRAWS(np.uint64(7), number)


@pytest.mark.parametrize("learner", ["guarded", "balanced", "robust", "thompson", "ucb", "bold", "ucb:share_floor=0.1"])
def test_a_bandit_that_makes_decisions_again_is_the_same_bandit(learner: str) -> None:
    first, again = Bandit(["a", "b", "c"], learner, seed=1), Bandit(["a", "b", "c"], learner, seed=1)
    first.warns = again.warns = False
    losses = np.random.default_rng(3).random(400)
    for number in range(1, 401):
        decision = first.decide(draw=drawn(number))
        assert again.redo(decision, draw=drawn(number)) == decision.propensity
        if number > 5:
            assert first.observe(number - 5, loss=losses[number - 1]) == again.observe(
                number - 5, loss=losses[number - 1]
            )
    assert first.to_bytes() == again.to_bytes()


def test_the_record_is_taken_as_it_is() -> None:
    """An arm that the draw would not have given, a propensity that this bandit would not have: both are remembered."""
    bandit = Bandit(2, "exp3", seed=1)
    assert bandit.redo(Decision(1, 1, 0.125), draw=0.0) == 0.5
    own = Bandit(2, "exp3", seed=1)
    own.redo(Decision(1, 1, 0.5), draw=0.0)
    bandit.observe(1, loss=1.0)
    own.observe(1, loss=1.0)
    estimates = bandit.loss_estimates - bandit.loss_estimates.min()
    assert estimates.argmax() == 1
    assert estimates.max() == 4 * (own.loss_estimates - own.loss_estimates.min()).max()


def test_only_the_next_round_can_be_made_again() -> None:
    bandit = Bandit(2, seed=1)
    before = bandit.to_bytes()
    with refused(None, 2, error=UnknownDecision):
        bandit.redo(Decision(2, 0, 0.5), draw=0.0)
    assert bandit.to_bytes() == before


def test_draws_are_uniform_and_belong_to_seed_and_round() -> None:
    """40,000 draws: each tenth of [0, 1) has a tenth of them, within five standard deviations (300)."""
    values = np.array([DRAWS(np.uint64(seed), number) for seed in range(4) for number in range(1, 10_001)])
    counts, _ = np.histogram(values, bins=10, range=(0.0, 1.0))
    assert np.abs(counts - 4_000).max() < 300
    assert len(set(values.tolist())) == values.size
    assert drawn(5) == drawn(5)
    assert values.min() >= 0.0
    assert values.max() < 1.0
