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


@pytest.mark.parametrize(
    ("alpha", "freedom", "quantile", "off"),
    [
        (0.5, 1, 1.0, 1e-12),
        (0.1, 1, 6.313751514675, 1e-12),
        (0.01, 1, 63.656741162872, 1e-12),
        (0.1, 2, 2.919985580354, 1e-12),
        (0.01, 2, 9.924843200918, 1e-12),
        (0.1, 3, 2.353363434802, 5e-4),
        (0.01, 3, 5.840909309733, 1e-2),
        (0.1, 5, 2.015048373333, 1e-4),
        (0.01, 5, 4.032142983555, 1e-3),
        (0.01, 10, 3.169272672617, 1e-4),
        (0.001, 10, 4.586893858703, 3e-4),
        (0.2, 30, 1.310415025391, 1e-8),
        (0.001, 1000, 3.300282648424, 1e-6),
    ],
)
def test_quantiles_at_other_levels(alpha: float, freedom: int, quantile: float, off: float) -> None:
    """Against scipy; the fewer degrees of freedom, and the smaller alpha, the further off."""
    assert student_quantile(freedom, alpha) == pytest.approx(quantile, rel=off)
    assert student_quantile(freedom, 0.05) == student_quantile(freedom)
