import numpy as np
import pytest

from belated.delays import (
    NEVER,
    Constant,
    Delays,
    Dropout,
    Geometric,
    NoDelay,
    Outlier,
    Pareto,
    Recorded,
    Uniform,
    whole,
)

N = 100_000
ROUNDS = np.arange(1, N + 1)


def sample(law: Delays) -> np.ndarray:
    delays = law.fill(np.random.default_rng(7), ROUNDS)
    assert delays.dtype == np.int64
    assert delays.shape == (N,)
    assert (delays >= 0).all()
    return delays


def test_nothing_and_constant() -> None:
    assert (sample(NoDelay()) == 0).all()
    assert (sample(Constant(12)) == 12).all()
    assert Delays.find("none").title == "no delay"
    assert Delays.find(12) == Constant(12)


def test_geometric() -> None:
    """Mean 5 within five standard errors, 5 sqrt(30 / N) = 0.087; P(0) = 1/6 within 0.006."""
    delays = sample(Geometric(5.0))
    assert abs(delays.mean() - 5.0) < 0.087
    assert abs((delays == 0).mean() - 1 / 6) < 0.006


def test_uniform() -> None:
    """Each of 4 values a quarter of the time, within five standard errors, 5 sqrt(3/16 / N) = 0.007."""
    values, counts = np.unique(sample(Uniform(3, 6)), return_counts=True)
    assert values.tolist() == [3, 4, 5, 6]
    np.testing.assert_allclose(counts / N, 0.25, atol=0.007)


def test_pareto() -> None:
    """P(delay >= n) = (scale / n)^shape, within five standard errors, 0.008."""
    delays = sample(Pareto(shape=0.5, scale=10.0))
    assert delays.min() == 10
    for n in (10, 20, 100, 1000, 100_000):
        assert abs((delays >= n).mean() - (10 / n) ** 0.5) < 0.008


def test_what_is_beyond_counting_never_comes() -> None:
    assert whole(np.array([1.9, 1e18, 1e300, np.inf])).tolist() == [1, 10**18, NEVER, NEVER]
    assert sample(Pareto(shape=0.001)).max() == NEVER


def test_outlier() -> None:
    delays = sample(Outlier(others=4))
    assert delays[0] == NEVER
    assert (delays[1:] == 4).all()
    assert Outlier().fill(np.random.default_rng(0), np.array([5, 6])).tolist() == [0, 0]


def test_dropout() -> None:
    """A quarter lost, within five standard errors, 5 sqrt(3/16 / N) = 0.007."""
    delays = sample(Dropout(0.25, others="uniform:low=1,high=2"))
    assert abs((delays == NEVER).mean() - 0.25) < 0.007
    assert set(np.unique(delays)) == {1, 2, NEVER}


def test_recorded() -> None:
    law = Recorded([3, None, 0, float("nan")])  # type: ignore[list-item]
    assert law.fill(np.random.default_rng(0), np.array([2, 3])).tolist() == [NEVER, 0]
    assert law.delays.tolist() == [3, NEVER, 0, NEVER]
    assert law.longest == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("constant:delay=-1", "delay is -1; a whole number of rounds"),
        ("constant:delay=1.5", "delay is 1.5"),
        ("constant", "needs delay"),
        ("geometric:mean=0", "mean is 0; a positive number"),
        ("uniform:low=3,high=2", "high is 2; at least low, 3"),
        ("pareto:shape=-1", "shape is -1"),
        ("pareto:scale=0", "scale is 0"),
        ("geometric:mean=x", "mean is 'x'"),
        ("dropout:share=1.5", "share is 1.5; a number from 0 to 1"),
        ("dropout:others=later", "unknown delays 'later'"),
        ("recorded:delays=[1,-2]", "delays\\[1\\] is -2"),
    ],
)
def test_bad_input(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Delays.find(words)
