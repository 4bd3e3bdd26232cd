"""Algorithm 2: arrivals moved apart."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.audit.rearrangement import rearrange

ARRIVALS = st.lists(st.integers(1, 30), max_size=40)
DELAYS = st.lists(st.none() | st.integers(0, 40), min_size=1, max_size=40)


def literal(arrivals: list[int]) -> list[int]:
    """Algorithm 2 as it is printed: round after round, each arrival to the first round that is free."""
    taken: set[int] = set()
    moved = [0] * len(arrivals)
    for t in range(1, max(arrivals, default=0) + 1):
        for s, arrival in enumerate(arrivals):
            if arrival == t:
                free = t
                while free in taken:
                    free += 1
                moved[s] = free
                taken.add(free)
    return moved


@settings(max_examples=60, deadline=None)
@given(ARRIVALS)
def test_every_arrival_goes_to_the_first_free_round(arrivals: list[int]) -> None:
    assert rearrange(np.array(arrivals, dtype=np.int64)).tolist() == literal(arrivals)


@settings(max_examples=60, deadline=None)
@given(ARRIVALS)
def test_no_round_has_two_arrivals_and_none_comes_earlier(arrivals: list[int]) -> None:
    moved = rearrange(np.array(arrivals, dtype=np.int64))
    assert np.unique(moved).size == len(arrivals)
    assert (moved >= np.array(arrivals, dtype=np.int64)).all()


@settings(max_examples=60, deadline=None)
@given(DELAYS)
def test_no_arrival_moves_further_than_the_most_outstanding(delays: list[int | None]) -> None:
    """Nor those that come after the last decision; what never comes is outstanding for ever."""
    comes = [(s, np.inf if delay is None else s + delay) for s, delay in enumerate(delays, 1)]
    arrivals = [int(when) for _, when in comes if when < np.inf]
    most = [0]
    for t in range(1, max(arrivals, default=0) + 1):
        most.append(max(most[-1], sum(s < t and when >= t for s, when in comes)))
    moved = rearrange(np.array(arrivals, dtype=np.int64))
    for arrival, place in zip(arrivals, moved.tolist(), strict=True):
        assert place - arrival <= most[arrival]


def test_arrivals_one_a_round_stay_where_they_are() -> None:
    assert rearrange(np.array([5, 1, 3, 2])).tolist() == [5, 1, 3, 2]
    assert rearrange(np.empty(0, dtype=np.int64)).tolist() == []


def test_a_crowd_is_served_in_the_order_in_which_it_stands() -> None:
    assert rearrange(np.array([4, 2, 2, 4, 2])).tolist() == [5, 2, 3, 6, 4]


def test_the_most_outstanding_can_be_needed_in_full() -> None:
    """Ten decisions wait for round 11, whose own comes at once: eleven arrivals, the last moved by ten."""
    arrivals = np.full(11, 11)
    assert (rearrange(arrivals) - arrivals).max() == 10
