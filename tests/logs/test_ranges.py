"""Ranges that are proposed: where they end, what they clip, and what is said about it."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belated.logs import propose_scale
from belated.logs.log import Floats
from belated.logs.scale import Scale
from support.refusals import refused


def orders(rate: float = 0.1, size: int = 20_000, spread: float = 1.0, seed: int = 1) -> Floats:
    chance = np.random.default_rng(seed)
    return np.where(chance.random(size) < rate, chance.lognormal(math.log(40), spread, size), 0.0)


def test_revenue_begins_at_zero_and_ends_at_a_round_number_above_the_quantile_of_orders() -> None:
    values = orders()
    found = propose_scale(values)
    bought = values[values > 0]
    quantile = float(np.quantile(bought, 0.99, method="higher"))
    assert found.scale.lowest == 0.0
    assert quantile <= found.scale.highest <= 1.13 * quantile
    assert found.scale.highest % 50 == 0
    assert found.recommended.quantile == 0.99
    assert 0 < found.recommended.clipped <= 0.01 * bought.size / values.size
    assert found.zeros == np.mean(values == 0)
    assert found.zero_is_end
    assert [each.quantile for each in found.choices] == [1.0, 0.999, 0.99, 0.95]
    assert found.widest.clipped == 0.0
    assert found.notes == ()


def test_what_it_counts_by_hand() -> None:
    values = [0.0, 0.0, 0.0, 10.0, 30.0, 100.0]
    arms = ["a", "b", "a", "b", "b", "a"]
    found = propose_scale(values, arms, quantile=0.5)
    scale = found.scale
    assert scale == Scale(0, 30)
    assert found.order == ("a", "b")
    best = found.recommended
    assert best.order == ("b", "a")
    assert best.clipped == pytest.approx(1 / 6)
    assert best.mean == pytest.approx(70 / 6)
    clipped = np.array([0, 0, 0, 10, 30, 30])
    assert best.deviation == pytest.approx(clipped.std() / 30)
    first, second = best.arms
    assert (first.arm, first.values, first.mean, first.clipped_mean) == ("a", 3, 100 / 3, 10.0)
    assert first.bias == pytest.approx(10 - 100 / 3)
    assert first.clipped == pytest.approx(1 / 3)
    assert (second.clipped, second.bias) == (0.0, 0.0)
    assert found.decisions(best) == found.decisions_by_spread(best) == 1.0
    spread = (np.var(values) / np.mean(values) ** 2) / (clipped.var() / clipped.mean() ** 2)
    assert found.decisions_by_spread(found.widest) == pytest.approx(spread)
    assert len(found.notes) == 2
    assert any("100" in note for note in found.notes)
    assert any("3" in note and "50 %" in note for note in found.notes)


def test_lower_may_be_better() -> None:
    found = propose_scale([0.0, 1.0, 2.0, 9.0] * 50, ["a", "a", "b", "b"] * 50, "lower")
    assert found.scale.better == "lower"
    assert found.order == ("a", "b")


def test_where_clipping_saves_nothing_nothing_is_clipped() -> None:
    """Minutes around 20: the full range takes about as many decisions, so it is recommended unless another is asked."""
    values = np.random.default_rng(3).normal(20, 5, 5000)
    assert (found := propose_scale(values)).recommended is found.widest
    assert not found.zero_is_end
    narrow = propose_scale(values, quantile=0.95)
    assert narrow.recommended.quantile == 0.95
    assert narrow.scale.lowest > 8
    assert 0.02 < narrow.recommended.clipped < 0.1


def test_both_ends_are_cut_where_values_have_both_signs() -> None:
    values = np.random.default_rng(4).standard_t(2.0, 20_000)
    found = propose_scale(values)
    assert found.scale.lowest == -found.scale.highest
    assert found.recommended is not found.widest
    assert found.difference == pytest.approx(0.1 * values.std())


def test_values_below_zero_end_at_zero() -> None:
    values = -orders()
    found = propose_scale(values)
    assert found.scale.highest == 0.0
    assert found.scale.lowest == -propose_scale(-values).scale.highest


def test_successes_and_failures_need_no_range() -> None:
    found = propose_scale([0, 1, 1, 0] * 100)
    assert found.scale == Scale(0, 1)
    assert len(found.choices) == 1


def test_few_zeros_are_no_natural_end() -> None:
    values = np.concatenate([np.random.default_rng(5).uniform(50, 60, 999), [0.0]])
    found = propose_scale(values, quantile=0.99)
    assert not found.zero_is_end
    assert found.scale == Scale(50, 60)


def test_a_range_reaches_the_value_at_or_beyond_the_quantile() -> None:
    """Half of 10, 30, 50 and 100 is between 30 and 50; of 1, 3, 5 and 7 the ends are 3 and 5."""
    assert propose_scale([0, 0, 10, 30, 50, 100], quantile=0.5).scale.highest == 50
    assert propose_scale([1, 3, 5, 7], quantile=0.5).scale == Scale(3, 5)


def test_the_narrowest_range_that_keeps_the_order_is_named() -> None:
    values = [1.0] * 990 + [500.0] * 9 + [5000.0] + [4.0] * 1000
    found = propose_scale(values, ["wild"] * 1000 + ["steady"] * 1000, quantile=0.99)
    assert [found.keeps_order(each) for each in found.choices] == [True, True, False]
    assert "500" in found.notes[0]
    assert "5,000" not in found.notes[0]


def test_large_values_close_together() -> None:
    """Where a float has no digits left for round numbers, the ends are the values themselves."""
    for values in ([1e16, 1e16 + 2, 1e16 + 6], [3.846352214884082e17, 3.846352214884085e17]):
        assert propose_scale(values).widest.clipped == 0.0


def test_nearly_constant_values() -> None:
    assert propose_scale([5.0] * 999 + [7.0], quantile=0.9).scale == Scale(5, 7)


def test_values_that_are_not_known_are_left_out_and_counted() -> None:
    values = orders()
    some = values.copy()
    some[:100] = np.nan
    found = propose_scale(some)
    assert (found.missing, found.values) == (100, values.size - 100)
    assert found.mean == values[100:].mean()
    assert len(found.notes) == 1
    assert "100" in found.notes[0]
    assert propose_scale([None, 1.0, 2.0]).missing == 1


def test_an_arm_without_values() -> None:
    found = propose_scale([1.0, 2.0, 3.0, math.nan], ["a", "a", "b", "c"])
    assert [arm.values for arm in found.widest.arms] == [2, 1, 0]
    assert math.isnan(found.widest.arms[2].mean)
    assert found.order == ("b", "a", "c")


def test_orders_that_are_tiny_in_the_range() -> None:
    found = propose_scale(orders(spread=2.5), quantile=0.999)
    assert any("0.05" in note for note in found.notes)


def test_a_changed_order_behind_the_best_arm() -> None:
    values = [9.0] * 100 + [1.0] * 99 + [300.0] + [2.0] * 100
    found = propose_scale(values, ["a"] * 100 + ["b"] * 100 + ["c"] * 100, quantile=0.95)
    assert found.order == ("a", "b", "c")
    assert found.recommended.order == ("a", "c", "b")
    assert len(found.notes) == 1 + len(propose_scale(values, quantile=0.95).notes)


def test_everything_as_plain_data() -> None:
    found = propose_scale(orders(), np.tile(["a", "b"], 10_000))
    data = found.as_dict()
    assert data["outcome"] == {"lowest": 0, "highest": int(found.scale.highest), "better": "higher"}
    assert isinstance(data["outcome"]["highest"], int)
    assert [each["recommended"] for each in data["choices"]] == [each is found.recommended for each in found.choices]
    assert data["choices"][0]["decisions"] == found.decisions(found.widest) > 1
    arm = data["choices"][2]["arms"][0]
    assert arm["bias"] == arm["clipped_mean"] - arm["mean"] < 0


def test_what_cannot_be_is_refused() -> None:
    wrong: list[tuple[Callable[[], object], str, tuple[str, ...]]] = [
        (lambda: propose_scale([1.0, 2.0], better="more"), "better", ("better", "more", "higher", "lower")),
        (lambda: propose_scale([1.0, 2.0], quantile=0.4), "quantile", ("quantile", "0.4")),
        (lambda: propose_scale([1.0, 2.0], quantile=99), "quantile", ("quantile", "99")),
        (lambda: propose_scale([1.0, 2.0], ["a"]), "arms", ("arms", "1")),
        (lambda: propose_scale([1.0, math.inf]), "values", ("values", "inf")),
        (lambda: propose_scale([1.0, "x"]), "values", ("values", "x")),
        (lambda: propose_scale([3.0, 3.0]), "values", ("values", "2", "3")),
        (lambda: propose_scale([math.nan]), "values", ("values",)),
    ]
    for call, field, named in wrong:
        with refused(field, *named):
            call()


@given(
    st.lists(st.floats(-1e12, 1e12).map(lambda x: round(x, 6)), min_size=2, max_size=30).filter(
        lambda values: max(values) - min(values) > 1e-3
    ),
    st.sampled_from([None, 0.5, 0.9, 1.0]),
)
def test_the_widest_clips_nothing_and_the_others_lie_within(values: list[float], quantile: float | None) -> None:
    found = propose_scale(values, quantile=quantile)
    assert found.widest.clipped == 0.0
    assert found.widest.scale.span <= 1.4 * (max(values) - min(values)) or found.zero_is_end
    for wide, narrow in zip(found.choices, found.choices[1:], strict=False):
        assert wide.clipped <= narrow.clipped + 1e-12
    assert sum(each is found.recommended for each in found.choices) == 1
    assert all(math.isfinite(found.decisions(each)) and found.decisions(each) > 0 for each in found.choices)
