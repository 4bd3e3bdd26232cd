"""The suite of cells and their scale."""

import itertools
import math

import numpy as np
import pytest

from belated import bounds
from belated.delays import NEVER
from belated.league import suite


def test_ids_are_stable() -> None:
    """Results are cited by them: an id may be added, none may change its meaning."""
    assert len(suite.suite) == 41
    for name, environment, delays in [
        ("stochastic-k10/pareto", "Stochastic(arms=10, gap=0.1)", "Pareto(shape=1, scale=10)"),
        ("resonant-k2/1000", "Resonant(arms=2, gap=1.0, delay=1000, shape='sine')", "Constant(delay=1000)"),
        ("blocks-k2/100", "Blocks(arms=2, gap=0.0, length=101)", "Constant(delay=100)"),
        (
            "stochastic-k10/burst",
            "Stochastic(arms=10, gap=0.1)",
            "Burst(count=316, delay=100000, others=Constant(delay=0))",
        ),
        (
            "constrained-k10/outlier",
            "Constrained(arms=10, gap=0.1, growth=1.6, first=30)",
            "Outlier(others=Constant(delay=0))",
        ),
    ]:
        cell = suite.suite[name]
        assert (cell.id, repr(cell.environment), repr(cell.delays), cell.rounds) == (name, environment, delays, 100_000)


def test_quick_cells_are_cells_of_the_suite() -> None:
    for name, cell in suite.quick.items():
        assert cell == suite.suite[name].at(20_000)


def test_cells_by_name() -> None:
    assert [cell.id for cell in suite.find(["resonant-*", "stochastic-k2/none"])] == [
        "resonant-k2/100",
        "resonant-k2/1000",
        "resonant-k10/1000",
        "stochastic-k2/none",
    ]
    with pytest.raises(ValueError, match="Did you mean 'stochastic-k2/none'"):
        suite.find(["stochastik-k2/none"])
    with pytest.raises(ValueError, match="unknown cell 'nothing-\\*'"):
        suite.find(["nothing-*"])


def test_best_skipping_is_the_best_of_all_sets() -> None:
    """All subsets of up to nine rounds."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        delays = rng.choice([0, 1, 3, 10, 50, 400], rng.integers(1, 10))
        weight = float(rng.choice([0.1, 1.0, 5.0]))
        least = min(
            size + math.sqrt(weight * (delays.sum() - delays[list(chosen)].sum()))
            for size in range(delays.size + 1)
            for chosen in itertools.combinations(range(delays.size), size)
        )
        value, skipped = bounds.best_skipping(delays, weight)
        assert value == pytest.approx(least, rel=1e-12, abs=1e-12)
        rest = np.delete(delays, skipped - 1).sum()
        assert skipped.size + math.sqrt(weight * rest) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_scales() -> None:
    """No delay: sqrt(KT). Constant delay d: plus sqrt(d T log K), but for the end. One endless delay: plus 1."""
    assert suite.suite["stochastic-k10/none"].theory == pytest.approx(1000.0)
    assert suite.suite["stochastic-k10/outlier"].theory == pytest.approx(1001.0)
    assert suite.suite["stochastic-k10/burst"].theory == pytest.approx(1316.0)
    plain = 1000.0 + math.sqrt(100 * 100_000 * math.log(10))
    assert suite.suite["stochastic-k10/100"].theory == pytest.approx(plain, rel=1e-3)
    assert bounds.best_skipping([NEVER, 0, 0], 1.0).skipped.tolist() == [1]


def test_uniform_play_is_a_scale() -> None:
    """0.1 * 9/10 a round where one arm in ten is better by 0.1; nothing under resonance, over whole periods."""
    assert suite.suite["stochastic-k10/none"].uniform_regret == pytest.approx(9000.0)
    assert suite.suite["constrained-k10/100"].uniform_regret == pytest.approx(9000.0)
    assert suite.suite["resonant-k2/1000"].uniform_regret == pytest.approx(0.0, abs=1e-6)
    assert suite.suite["blocks-k2/100"].uniform_regret > 0.0


@pytest.mark.parametrize(
    ("delays", "weight", "message"),
    [([[1]], 1.0, "shape"), ([-1], 1.0, "at least 0"), ([1], math.inf, "weight is inf"), ([1], -1.0, "weight is -1")],
)
def test_bad_input(delays: list[int], weight: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bounds.best_skipping(delays, weight)
