"""How the level of rewards moves: seen where it does, whatever the shares of arms do."""

import numpy as np
import pytest

from belated.inference.level import FIRST_LENGTH, STRETCHES, Level


def level_of(rates: np.ndarray, first: np.ndarray, seed: int = 1, piece: int = 10**9) -> Level:
    """Return the level of decisions between two arms: their rates, (decisions, 2), and the share of arm 0."""
    rng = np.random.default_rng(seed)
    arms = (rng.random(len(rates)) >= first).astype(np.int64)
    rewards = (rng.random(len(rates)) < rates[np.arange(len(rates)), arms]).astype(float)
    rewards[::97] = np.nan  # nobody knows these
    level = Level(2)
    for begin in range(0, len(rates), piece):
        level.add(arms[begin : begin + piece], rewards[begin : begin + piece])
    return level


TIME = np.arange(20_000)
STEADY = np.tile([0.1, 0.2], (20_000, 1))


def test_a_rhythm_is_seen_and_how_far_it_goes() -> None:
    factor = 1 + 0.5 * np.sin(2 * np.pi * TIME / 5_000)
    movement = level_of(STEADY * factor[:, None], np.full(20_000, 0.5)).movement()
    assert movement is not None
    assert movement.length == 512
    assert len(movement.levels) == -(-20_000 // 512)
    assert (movement.low, movement.high) == pytest.approx((0.15 * 0.55, 0.15 * 1.45), abs=0.02)


@pytest.mark.parametrize("first", [np.full(20_000, 0.5), np.linspace(0.95, 0.05, 20_000)], ids=["even", "moving"])
def test_shares_that_move_are_no_level_that_moves(first: np.ndarray) -> None:
    assert all(level_of(STEADY, first, seed).movement() is None for seed in range(40))


def test_rare_outcomes_are_no_movement() -> None:
    rates = np.full((20_000, 2), 0.002)
    assert all(level_of(rates, np.full(20_000, 0.5), seed).movement() is None for seed in range(40))


def test_pieces_copies_and_arrays_go_on_the_same() -> None:
    whole, pieces = (level_of(STEADY, np.full(20_000, 0.3), 3, piece) for piece in (10**9, 777))
    for other in (pieces, whole.copy(), Level.from_arrays(whole.to_arrays())):
        assert (other.length, other.rounds) == (whole.length, whole.rounds) == (512, 20_000)
        for name in ("counts", "rewards", "squares"):
            np.testing.assert_array_equal(getattr(other, name), getattr(whole, name))


def test_stretches_double_when_all_are_full() -> None:
    level = Level(2)
    size = STRETCHES * FIRST_LENGTH
    level.add(np.zeros(size, dtype=np.int64), np.ones(size))
    assert (level.length, level.counts[:, 0].tolist()) == (FIRST_LENGTH, [FIRST_LENGTH] * STRETCHES)
    level.add(np.array([1]), np.array([1.0]))
    assert level.length == 2 * FIRST_LENGTH
    assert level.counts[:33, 0].tolist() == [2 * FIRST_LENGTH] * 32 + [0.0]
    assert level.counts[32, 1] == 1.0
    assert level.movement() is None  # rewards that are all the same do not vary
    level.grow()
    assert level.counts.shape == (STRETCHES, 3)
