"""How alpha is shared: equally among arms that stay, and with room for arms that may ever come."""

import itertools
import math

import numpy as np
import pytest

from belated.inference.shares import Shares, level, levels


def test_arms_that_stay_share_equally() -> None:
    shares = Shares(4, 4, has_changed=False)
    arms = np.arange(3)
    assert shares.arms().tolist() == [4.0] * 4
    assert shares.arms(others=1).tolist() == [5.0] * 4
    assert shares.rivals(3, arms).tolist() == [4.0] * 3
    assert shares.differences(arms, arms + 1).tolist() == [6.0] * 3  # two sides of each pair that is shown
    assert shares.differences_to(3, arms).tolist() == [6.0] * 3


def test_levels_are_the_logs_of_the_shares_to_the_bit() -> None:
    assert level(2 * 3, 0.05) == math.log(2 * 3 / 0.05)
    assert levels(2.0 * np.full(2, 7.0), 0.1).tolist() == [math.log(2 * 7 / 0.1)] * 2


def test_after_a_change_the_first_arms_share_one_half_and_the_nth_newcomer_has_its_own() -> None:
    shares = Shares(3, 5, has_changed=True)
    newcomers = [math.pi**2 / 3, 4 * math.pi**2 / 3]
    assert shares.arms() == pytest.approx([6.0, 6.0, 6.0, *newcomers])
    assert shares.arms(others=1) == pytest.approx([8.0, 8.0, 8.0, *newcomers])
    pairs = shares.rivals(1, np.array([0, 2, 3, 4]))
    assert pairs == pytest.approx([12.0, 12.0, 2 * 3 * newcomers[0], 2 * 4 * newcomers[1]])
    assert shares.rivals(4, np.array([1, 3])) == pytest.approx([8 * newcomers[1]] * 2)
    assert shares.differences(np.array([4, 0]), np.array([1, 2])) == pytest.approx([8 * newcomers[1], 12.0])
    assert shares.differences_to(1, np.array([0, 2, 3])) == pytest.approx([8.0, 8.0, 2 * newcomers[0]])
    assert shares.differences_to(3, np.array([0, 4])) == pytest.approx([12.0, 2 * newcomers[1]])


@pytest.mark.parametrize("first", [2, 3, 7])
def test_whoever_comes_alpha_is_never_spent_twice(first: int) -> None:
    """With 400 newcomers the shares add up to a little less than 1; so they do with any number."""
    n_arms = first + 400
    shares = Shares(first, n_arms, has_changed=True)
    everyone = np.arange(n_arms)
    assert 0.998 < (1 / shares.arms()).sum() < 1
    ordered = sum((1 / shares.rivals(a, everyone[everyone != a])).sum() for a in range(n_arms))
    assert 0.998 < ordered < 1
    assert (1 / shares.arms(others=1)).sum() + 1 / shares.arms(others=1)[0] < 1
    for control in (0, first, n_arms - 1):
        sides = 2 * (1 / shares.differences_to(control, everyone[everyone != control])).sum()
        assert 0.5 < sides < 1


def test_one_more_newcomer_changes_nobodys_share() -> None:
    """A share that shrank with each arm that comes would have been spent before."""
    few, many = Shares(2, 4, has_changed=True), Shares(2, 9, has_changed=True)
    assert few.arms().tolist() == many.arms()[:4].tolist()
    for a, b in itertools.permutations(range(4), 2):
        assert few.rivals(a, np.array([b])) == many.rivals(a, np.array([b])) == many.rivals(b, np.array([a]))


def test_a_change_never_makes_it_easier_to_win() -> None:
    """What is said after the first change needs at least the evidence that was needed before."""
    for first in range(2, 12):
        before, after = Shares(first, first, has_changed=False), Shares(first, first + 3, has_changed=True)
        others = np.arange(1, first)
        assert (after.rivals(0, others) >= before.rivals(0, others)).all()
        assert (after.arms()[:first] >= before.arms()).all()
