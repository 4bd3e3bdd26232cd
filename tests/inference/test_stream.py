"""Settled decisions in a few numbers: in pieces or at once, and the pace of the arms."""

import numpy as np
import pytest

from belated.inference.stream import Stream


def rounds(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    arms, shares = rng.integers(0, 3, count), rng.dirichlet(np.ones(3), count)
    return arms, rng.random(count), shares[np.arange(count), arms], shares


@pytest.mark.parametrize("size", [1, 7, 64, 500])
def test_pieces_do_not_matter(size: int) -> None:
    arms, rewards, propensities, shares = rounds(1_000)
    rewards[::17] = np.nan
    at_once, in_pieces = Stream(3), Stream(3)
    at_once.add(arms, rewards, propensities, shares)
    for begin in range(0, 1_000, size):
        piece = slice(begin, begin + size)
        in_pieces.add(arms[piece], rewards[piece], propensities[piece], shares[piece])
    assert at_once.bets is not None
    assert at_once.bets.compared
    header, arrays = at_once.to_arrays()
    other_header, others = in_pieces.to_arrays()
    assert header == other_header
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], name)
    assert at_once.unknown.tolist() == [int(np.isnan(rewards[arms == arm]).sum()) for arm in range(3)]


@pytest.mark.parametrize("size", [1, 100, 1_000])
def test_the_pace_is_that_of_the_later_decisions(size: int) -> None:
    """After 700 decisions those since the 256th count; arm 0 had all before."""
    arms = np.array([0] * 256 + [1, 2, 2, 2] * 111)
    stream = Stream(3)
    for begin in range(0, 700, size):
        piece = arms[begin : begin + size]
        stream.add(piece, np.ones(piece.size), np.full(piece.size, 0.5))
    assert stream.pace.tolist() == [0.0, 0.25, 0.75]
    assert Stream(3).pace.tolist() == [0.0, 0.0, 0.0]


def test_a_stream_goes_on_from_its_arrays_and_a_copy_is_its_own() -> None:
    arms, rewards, propensities, shares = rounds(300)
    stream = Stream(3)
    stream.add(arms[:200], rewards[:200], propensities[:200], shares[:200])
    again, copy = Stream.from_arrays(*stream.to_arrays()), stream.copy()
    for each in (stream, again):
        each.add(arms[200:], rewards[200:], propensities[200:], shares[200:])
    for name, array in stream.to_arrays()[1].items():
        np.testing.assert_array_equal(array, again.to_arrays()[1][name], name)
    assert copy.rounds == 200
    assert copy.bets is not None
    assert copy.bets.decisions == 200
