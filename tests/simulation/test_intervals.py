import numpy as np
import pytest

from belated.simulation.intervals import mean_interval, student_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (4, 2.7764),
        (5, 2.5706),
        (9, 2.2622),
        (19, 2.0930),
        (99, 1.9842),
        (1000, 1.9623),
    ],
)
def test_quantiles_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=2e-3)


def test_mean_and_interval_by_hand() -> None:
    """1, 2, 3: mean 2, standard error 1 / sqrt(3), two degrees of freedom."""
    mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2.0
    assert high - mean == pytest.approx(4.302652730 / np.sqrt(3.0))
    assert mean - low == pytest.approx(high - mean)


def test_one_value_has_no_interval() -> None:
    mean, low, high = mean_interval(np.array([[5.0, 6.0]]))
    assert mean.tolist() == [5.0, 6.0]
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@pytest.mark.parametrize("count", [3, 5, 20])
def test_covers_the_truth_as_often_as_it_says(count: int) -> None:
    """5,000 intervals of normal values: 95 % within four standard errors, 4 sqrt(0.95 * 0.05 / 5000) = 0.0123."""
    values = np.random.default_rng(0).normal(3.0, 2.0, (count, 5000))
    _, low, high = mean_interval(values)
    assert abs(((low <= 3.0) & (high >= 3.0)).mean() - 0.95) < 0.0123
