"""What a comparison takes by the formula, against what the intervals by betting take."""

import math

import numpy as np
import pytest

from belated.inference import capital
from belated.inference.tally import Tally
from belated.logs.effort import difference_to_show, effort, in_proportion
from belated.logs.log import Floats
from belated.logs.scale import Scale
from support.sampling import sampled

SIZE = 100_000
QUANTILES = (0.9999, 0.999, 0.99, 0.95)


def orders(rate: float, spread: float, size: float, seed: int) -> Floats:
    chance = np.random.default_rng(seed)
    return np.where(chance.random(SIZE) < rate, size * chance.lognormal(math.log(40), spread, SIZE), 0.0)


def minutes(mean: float, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(mean, 5.0, SIZE)


KINDS = {
    "rare": (orders(0.05, 1.0, 1.0, 1), orders(0.06, 1.0, 1.0, 2)),
    "rare-and-large": (orders(0.05, 1.5, 1.0, 3), orders(0.06, 1.5, 1.0, 4)),
    "frequent": (orders(0.5, 1.0, 1.0, 5), orders(0.6, 1.0, 1.0, 6)),
    "always": (orders(1.0, 1.0, 1.0, 7), orders(1.0, 1.0, 1.2, 8)),
    "twice": (orders(0.02, 1.0, 1.0, 9), orders(0.04, 1.0, 1.0, 10)),
    "minutes": (minutes(20.0, 11), minutes(21.0, 12)),
}


def taken(first: Floats, second: Floats, scale: Scale) -> float:
    """How many outcomes of each arm it takes until the second is known to be better, if they come as here."""
    tally = Tally(2)
    for arm, values in enumerate((first, second)):
        shares = (np.clip(values, scale.lowest, scale.highest) - scale.lowest) / scale.span
        tally.add(np.full(values.size, arm), shares)
    counts = tally.counts / SIZE

    def is_enough(outcomes: float) -> bool:
        evidence = capital.log_evidence(counts[1:] * outcomes, counts[:1] * outcomes, tally.places)
        return bool(evidence[0] >= math.log(20))

    low, high = 1.0, 2.0
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 0.005 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@pytest.mark.parametrize("kind", sampled(KINDS, 3))
def test_ratios_are_those_of_intervals_by_betting(kind: str) -> None:
    """Within a factor of 1.6 in all ranges, and of 1.3 in those that the log's own values give."""
    first, second = KINDS[kind]
    both = np.concatenate([first, second])
    lowest, highest = min(0.0, float(both.min())), float(both.max())

    def of(end: float) -> tuple[float, float]:
        scale = Scale(lowest, end)
        inside = [np.clip(values, lowest, end) for values in (first, second)]
        found = effort(np.concatenate(inside), scale, float(inside[1].mean() - inside[0].mean()))
        return taken(first, second, scale), found.decisions

    base = of(float(np.quantile(both[both != 0], 0.99)))
    own = [highest, *(float(np.quantile(both[both != 0], each)) for each in QUANTILES)]
    for end in (100 * highest, 10 * highest, *own):
        measured, formula = (here / there for here, there in zip(of(end), base, strict=True))
        most = 1.3 if end in own else 1.6
        assert 1 / most < formula / measured < most, (end, measured, formula)


def test_it_is_the_game_of_two_gamblers() -> None:
    """Against bets that are tried one by one; the range reaches further above the means than below."""
    values = np.array([0.0, 0.0, 0.0, 4.0])
    variance, low, high = 3.0, 0.6, 1.4
    tried = np.linspace(0.0, 1.0, 4001)

    def gain(gap: float, room: float) -> float:
        bets = tried / room
        return float((bets * gap - 0.5 * bets**2 * variance).max())

    for highest in (4.0, 7.0, 20.0):
        sums = [gain(high - c, c) + gain(c - low, highest - c) for c in np.linspace(low, high, 801)]
        assert effort(values, Scale(0, highest), 0.8).decisions == pytest.approx(1 / min(sums), rel=1e-4)


def test_without_limits_the_spread_alone_counts() -> None:
    values = np.array([0.0, 1.0] * 50)
    found = effort(values, Scale(-5, 6), 0.01)
    assert found.by_spread == pytest.approx(4 * 0.25 / 0.01**2)
    assert found.decisions == pytest.approx(found.by_spread)


def test_in_a_wide_range_decisions_grow_with_it() -> None:
    """g = d / highest: what is left when c is the larger mean, less the variance, which is small here."""
    values = np.array([10.0, 11.0] * 50)
    for highest in (1e4, 1e6):
        found = effort(values, Scale(0, highest), 1.0)
        assert found.decisions == pytest.approx(highest, rel=0.01)
        assert found.by_spread == pytest.approx(1.0)


def test_it_is_the_same_upside_down() -> None:
    values = KINDS["rare"][0][:5000]
    found = effort(values, Scale(0, 1e4), 0.3)
    assert effort(-values, Scale(-1e4, 0), 0.3).decisions == pytest.approx(found.decisions)


def test_the_difference_to_show() -> None:
    assert difference_to_show(np.array([0.0, 20.0])) == pytest.approx(1.0)  # a tenth of the mean
    assert difference_to_show(np.array([-0.0, -20.0])) == pytest.approx(1.0)
    assert difference_to_show(np.array([1000.0, 1001.0])) == pytest.approx(0.25)  # half a deviation
    assert difference_to_show(np.array([-1.0, 1.0])) == pytest.approx(0.1)  # a tenth of the deviation


def test_arms_differ_by_a_factor_or_by_a_shift() -> None:
    assert in_proportion(1.0, np.array([0.0, 20.0]), np.array([0.0, 10.0])) == pytest.approx(0.5)
    assert in_proportion(1.0, np.array([-4.0, 20.0]), np.array([-4.0, 10.0])) == 1.0
