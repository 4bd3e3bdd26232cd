"""Tallies: nothing is lost, means are kept, pieces do not matter."""

import numpy as np
import pytest

from belated.inference.tally import ENDS, PLACES, Tally


def test_places_are_the_same_from_both_ends() -> None:
    assert PLACES[0] == 0.0
    assert PLACES[-1] == 1.0
    assert (np.diff(PLACES) > 0).all()
    assert (1.0 - PLACES[::-1] == PLACES).all()
    assert (np.diff(PLACES) ** 2 / 4).max() < 0.000151


def test_rewards_of_0_and_1_are_counted_as_they_are() -> None:
    tally = Tally(3)
    tally.add(np.array([0, 2, 2, 0]), np.array([1.0, 0.0, 1.0, 1.0]))
    assert tally.places is ENDS
    assert tally.counts.tolist() == [[0, 2], [0, 0], [1, 1]]
    assert tally.known.tolist() == [2, 0, 2]
    assert tally.rewards.tolist() == [2.0, 0.0, 1.0]


def test_others_are_split_so_that_count_and_mean_stay() -> None:
    rng = np.random.default_rng(1)
    rewards = np.concatenate([rng.random(500), PLACES, [1.0, 0.0, 1e-300]])
    tally = Tally(1)
    tally.add(np.zeros(rewards.size, dtype=np.int64), rewards)
    assert (tally.counts >= 0).all()
    assert tally.counts.sum() == pytest.approx(rewards.size, rel=1e-12)
    assert tally.counts[0] @ PLACES == pytest.approx(rewards.sum(), rel=1e-12)
    assert tally.rewards[0] == pytest.approx(rewards.sum(), rel=1e-12)


def test_a_reward_at_a_place_is_not_split() -> None:
    tally = Tally(1)
    tally.add(np.array([0, 0]), np.array([0.5, PLACES[7]]))
    assert np.flatnonzero(tally.counts[0]).tolist() == [7, 32]


def test_counts_go_on_when_the_first_other_reward_comes() -> None:
    tally, at_once = Tally(2), Tally(2)
    arms, rewards = np.array([0, 1, 1, 0, 1]), np.array([1.0, 0.0, 1.0, 0.25, 1.0])
    for k in range(5):
        tally.add(arms[k : k + 1], rewards[k : k + 1])
    at_once.add(arms, rewards)
    np.testing.assert_array_equal(tally.counts, at_once.counts)
    assert tally.counts[:, -1].tolist() == [1, 2]
    assert tally.places is PLACES


@pytest.mark.parametrize("rewards", [[0.0, 1.0, 1.0], [0.1, 0.7, 1.0]])
def test_a_tally_goes_on_from_its_arrays(rewards: list[float]) -> None:
    tally = Tally(2)
    tally.add(np.array([0, 1, 1]), np.array(rewards))
    again = Tally.from_arrays(tally.to_arrays())
    copy = tally.copy()
    for each in (tally, again):
        each.add(np.array([1]), np.array([0.3]))
    np.testing.assert_array_equal(tally.counts, again.counts)
    np.testing.assert_array_equal(tally.known, again.known)
    assert copy.known.sum() == 3
