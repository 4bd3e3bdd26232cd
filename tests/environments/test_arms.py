"""Arms that come and go: who is present when."""

import itertools
from typing import Any

import numpy as np
import pytest

from belated.environments import Arms, Environment, Stretch
from support.refusals import refused

WORDS = "arms:means=[0.5,0.45,0.4],enter=[0,0,0.5],leave=[1,0.7,1]"


def shown(stretches: tuple[Stretch, ...]) -> list[tuple[int, list[int], bool]]:
    return [(each.first, each.arms.tolist(), each.anew) for each in stretches]


def test_a_spec_says_when_arms_come_and_leave() -> None:
    """An arm plays above its entry and up to its end: rounds 6 to 10 from 0.5 on, rounds 1 to 7 until 0.7, of ten."""
    arms = Environment.find(WORDS)
    assert arms == Arms([0.5, 0.45, 0.4], [0, 0, 0.5], [1, 0.7, 1])
    assert arms.n_arms == 3
    assert shown(arms.stretches(10)) == [(1, [0, 1], False), (6, [0, 1, 2], False), (8, [0, 2], False)]
    assert arms.steady_means is None
    expected, losses = arms.fill(np.random.default_rng(0), np.arange(1, 4))
    assert expected.tolist() == [[0.5, 0.45, 0.4]]
    assert losses is None
    again = Environment.find(f"{WORDS},anew=true")
    assert [each.anew for each in again.stretches(10)] == [True] * 3


def test_arms_that_stay_are_plain() -> None:
    assert Arms([0.5, 0.4]).stretches(100) == ()
    assert Arms([0.5, 0.4]).steady_means is not None
    assert Arms([0.5, 0.4]).steady_means.tolist() == [0.5, 0.4]  # type: ignore[union-attr]


@pytest.mark.parametrize("rounds", range(1, 40))
def test_of_few_rounds_two_arms_are_always_present(rounds: int) -> None:
    """Whatever is rounded away; changes come in their order, and each changes something."""
    world = Arms([0.1] * 6, [0, 0, 0.34, 0.35, 0.7, 0.71], [0.36, 0.35, 0.72, 0.7, 1, 1])
    stretches = world.stretches(rounds)
    firsts = [each.first for each in stretches]
    assert firsts == sorted(set(firsts))
    assert firsts[0] == 1
    assert firsts[-1] <= rounds
    assert all(each.arms.size >= 2 for each in stretches)
    for one, two in itertools.pairwise(stretches):
        assert one.arms.tolist() != two.arms.tolist()
    for t in range(1, rounds + 1):
        present = [i for i in range(6) if world.enter[i] < t / rounds - 1e-12 and t / rounds <= world.leave[i] + 1e-12]
        last = [each for each in stretches if each.first <= t][-1]
        assert last.arms.tolist() == present


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"means": [0.5]}, ("arms", "1")),
        ({"means": [0.5, 2]}, ("means[1]", "2")),
        ({"means": 0.5}, ("means", "0.5")),
        ({"means": [0.5, 0.4], "enter": [0]}, ("enter", "1", "2")),
        ({"means": [0.5, 0.4], "leave": [1, 1, 1]}, ("leave", "3", "2")),
        ({"means": [0.5, 0.4, 0.3], "enter": [0, 0, 0.5], "leave": [1, 1, 0.5]}, ("leave", "2", "0.5", "0")),
        (
            {"means": [0.5, 0.4, 0.3], "enter": [0, 0.1, 0.2]},
            ("leave", "0", "1"),
        ),
        (
            {"means": [0.5, 0.4, 0.3], "enter": [0, 0, 0.6], "leave": [1, 0.5, 1]},
            ("leave", "0.5", "1"),
        ),
        ({"means": [0.5, 0.4, 0.3], "leave": [0.5, 0.5, 0.5]}, ("leave", "0.5", "0")),
        ({"means": [0.5, 0.4], "anew": 1}, ("anew", "1")),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Environment.find({"name": "arms", **settings})
