"""Every bound of the table, and what it is made of, against values computed without the package."""

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.bounds import Bound, Instance, facts, robust_bound, table
from belated.bounds.waiting import Waiting
from belated.delays.law import NEVER
from belated.league import suite
from support.refusals import refused

DELAYS = [3, 0, None, 1, 7, 2, 0, 5, 1, 0]
CUT = [3, 0, 7, 1, 5, 2, 0, 2, 1, 0]  # at the last round
COUNTS = [0, 1, 1, 2, 2, 2, 3, 3, 3, 4]  # of rounds s < t, those with s + d_s >= t
GAPS = [0.2, 0.5]
COUNTS_ALONE = [
    ("ucb", "stochastic"),
    ("hybrid", "adversarial"),
    ("balanced", "adversarial"),
    ("sapo", "stochastic"),
    ("any", "stochastic"),
]

SHORT = st.lists(st.integers(0, 14) | st.just(NEVER), min_size=1, max_size=12)


class Robust(NamedTuple):
    outstanding: list[int]
    skipped: list[int]
    exploration: float


def robust(arms: int, delays: list[int], constant: float) -> Robust:
    """How `robust` waits: sigma_t of each round, the rounds it skips, the sum of lambda_{s,s+dhat_s}."""
    rounds = len(delays)
    unit = constant * arms ** (2 / 3) * math.log(arms)
    active: list[int] = []
    outstanding: list[int] = []
    skipped: list[int] = []
    last = dict.fromkeys(range(1, rounds + 1), rounds)
    for t in range(1, rounds + 1):
        outstanding.append(len(active))
        active.append(t)
        for s in list(active):
            if s + delays[s - 1] == t:
                active.remove(s)
                last[s] = t
        overdue = [s for s in active if s < t and t - s >= math.sqrt(sum(outstanding) / unit)]
        if overdue:
            active.remove(overdue[0])
            skipped.append(overdue[0])
            last[overdue[0]] = t
    exploration = 0.0
    for s, t in last.items():
        now, then = sum(outstanding[:t]), sum(outstanding[:s])
        exploration += math.exp(-now / (now - then)) if now > then else 0.0
    return Robust(outstanding, skipped, exploration)


def cheapest(delays: list[int], weight: float) -> float:
    """min over all sets S of |S| + sqrt(weight D_rest)."""
    sets = np.arange(2 ** len(delays))[:, None] >> np.arange(len(delays)) & 1
    return float((sets.sum(axis=1) + np.sqrt(weight * ((1 - sets) @ np.array(delays)))).min())


def cut(delays: list[int]) -> list[int]:
    return [min(delay, len(delays) - s) for s, delay in enumerate(delays, 1)]


def outstanding(delays: list[int]) -> list[int]:
    rounds = range(1, len(delays) + 1)
    return [sum(s < t and s + delays[s - 1] >= t for s in rounds) for t in rounds]


def by_name(instance: Instance) -> dict[str, float]:
    return {fact.symbol: fact.value for fact in facts(instance)}


def values(instance: Instance) -> list[float | None]:
    return [bound.value for bound in table(instance)]


def test_the_numbers_of_the_instance_by_hand() -> None:
    assert cut([delay if delay is not None else 100 for delay in DELAYS]) == CUT
    assert outstanding(CUT) == COUNTS
    instance = Instance(3, DELAYS)
    assert instance.delays.tolist() == CUT
    assert instance.counts.tolist() == COUNTS
    assert (instance.rounds, instance.total_delay, instance.longest_delay, instance.most_outstanding) == (10, 21, 7, 4)


@pytest.mark.parametrize("constant", [49.0, 2.0, 0.1])
def test_every_row_by_its_formula(constant: float) -> None:
    log_arms, log_rounds, root = math.log(3), math.log(10), math.sqrt(30)
    total, sigma, longest = 21, 4, 7
    price = cheapest(CUT, log_arms)
    run = robust(3, CUT, constant)
    most, skips, kept = max(run.outstanding), len(run.skipped), sum(run.outstanding)
    rate = 2 / math.sqrt(constant) + math.sqrt(constant)
    lower = log_rounds / 0.2 + log_rounds / 0.5 + sigma / 3 * (0.2 + 0.5)
    awaited = log_rounds / 0.2 + log_rounds / 0.5 + (1 / 0.2 + 1 / 0.5) * most / log_arms
    expected = [
        ("ucb", "stochastic", "explicit", 8 * log_rounds * (1 / 0.2 + 1 / 0.5) + 3.5 * 0.7 + sigma * 0.7),
        ("hybrid", "adversarial", "explicit", 4 * root + math.sqrt(8 * total * log_arms)),
        ("hybrid_skipping", "adversarial", "explicit", 4 * root + 10 * max(price, 2 * log_arms)),
        (
            "damped",
            "stochastic",
            "order only",
            (log_rounds + sigma / log_arms) / 0.2
            + (log_rounds + sigma / log_arms) / 0.5
            + longest * 3 ** (1 / 3) * log_arms,
        ),
        (
            "damped",
            "adversarial",
            "order only",
            root + math.sqrt(total * log_arms) + longest * 3 ** (1 / 3) * log_arms,
        ),
        ("robust", "stochastic", "order only", awaited + 3 * most + skips),
        ("robust", "adversarial", "order only", root + price + skips + 3 * most),
        (
            "robust",
            "adversarial",
            "explicit",
            4 * root + rate * math.sqrt(kept * log_arms) + skips + 3 * run.exploration,
        ),
        ("balanced", "adversarial", "a sketch", 2 * root + 3 * math.sqrt(total * log_arms)),
        ("sapo", "stochastic", "order only", lower),
        ("sapo", "adversarial", "order only", root * log_rounds + price),
        ("any", "stochastic", "lower", lower),
        ("any", "adversarial", "lower", root + price),
    ]
    rows = table(Instance(3, DELAYS, gaps=GAPS, delay_constant=constant))
    assert [row[:1] + row[2:3] + row[4:5] for row in rows] == [row[:3] for row in expected]
    assert [row.value for row in rows] == pytest.approx([row[3] for row in expected], rel=1e-12)
    assert {row.missing for row in rows} == {""}


def test_constants_differ_in_what_robust_skips() -> None:
    """By hand, so that the table above has rows for a robust that skips much, something and nothing."""
    assert robust(3, CUT, 49.0)[:2] == ([0, 1, 0, 1, 1, 1, 1, 0, 1, 1], [1, 3, 5, 6, 8])
    assert robust(3, CUT, 2.0)[:2] == ([0, 1, 0, 1, 1, 1, 1, 1, 1, 2], [1, 3, 5])
    assert robust(3, CUT, 0.1)[:2] == (COUNTS, [])


def test_short_delays_cost_hybrid_skipping_no_less_than_two_logarithms() -> None:
    row = table(Instance(3, [0, 1, 0, 0]))[2]
    assert row.learner == "hybrid_skipping"
    assert row.value == pytest.approx(4 * math.sqrt(12) + 20 * math.log(3), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(delays=SHORT, arms=st.integers(2, 6), constant=st.sampled_from([49.0, 1.0, 0.02]))
def test_facts_by_brute_force(delays: list[int], arms: int, constant: float) -> None:
    rounds, waits, log_arms = len(delays), cut(delays), math.log(arms)
    run = robust(arms, waits, constant)
    found = by_name(Instance(arms, delays, delay_constant=constant))
    expected = {
        "K": arms,
        "T": rounds,
        "D": sum(waits),
        "σ": max(outstanding(waits)),
        "d": max(waits),
        "Φ": cheapest(waits, log_arms),
        "Φ⅔": cheapest(waits, arms ** (2 / 3) * log_arms),
        "√D": math.sqrt(sum(waits)),
        "Φ₁ + d": cheapest(waits, 1.0) + max(waits),
        "S*": len(run.skipped),
        "σ̂": max(run.outstanding),
        "D̂": sum(run.outstanding),
        "Σλ": run.exploration,
    }
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert sum(outstanding(waits)) == sum(waits)


@settings(max_examples=60, deadline=None)
@given(delays=SHORT, arms=st.integers(2, 6))
def test_the_size_of_the_best_set_is_named(delays: list[int], arms: int) -> None:
    kept = sorted(cut(delays))
    weights = {"Φ": math.log(arms), "Φ⅔": arms ** (2 / 3) * math.log(arms)}
    for fact in facts(Instance(arms, delays)):
        if fact.symbol in weights:
            size = int(re.findall(r"at \|S\| = ([\d,]+)", fact.meaning)[0])
            rest = sum(kept[: len(kept) - size])
            assert fact.value == pytest.approx(size + math.sqrt(weights[fact.symbol] * rest), rel=1e-12, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=200))
def test_bounds_in_the_longest_delay_gain_nothing_by_skipping(delays: list[int]) -> None:
    """The lemma of the appendix: sqrt(D) <= min over S of (|S| + sqrt(D_rest)) + d."""
    found = by_name(Instance(2, delays))
    assert found["√D"] <= found["Φ₁ + d"]


@pytest.mark.parametrize("never", [None, math.inf, math.nan, NEVER, 8.0, 8])
def test_what_never_comes_is_waited_for_until_the_last_round(never: float | None) -> None:
    delays = [never if delay is None else delay for delay in DELAYS]
    instance = Instance(3, delays, gaps=GAPS)
    assert instance.delays.tolist() == CUT
    assert instance.counts.tolist() == COUNTS
    assert values(instance) == values(Instance(3, CUT, gaps=GAPS))
    assert facts(instance) == facts(Instance(3, CUT))


def test_ways_of_never_coming_can_be_mixed() -> None:
    mixed = Instance(2, [NEVER, None, math.inf, math.nan, 0])
    assert mixed.delays.tolist() == [4, 3, 2, 1, 0]
    assert Instance(2, np.array([NEVER, NEVER, NEVER, NEVER, 0])).delays.tolist() == [4, 3, 2, 1, 0]


def test_counts_alone_give_what_needs_no_more() -> None:
    whole, counted = Instance(3, DELAYS, gaps=GAPS), Instance(3, counts=COUNTS, gaps=GAPS)
    assert (counted.rounds, counted.total_delay, counted.most_outstanding) == (10, 21, 4)
    assert [fact.symbol for fact in facts(counted)] == ["K", "T", "D", "σ"]
    assert facts(counted) == facts(whole)[:4]
    for full, row in zip(table(whole), table(counted), strict=True):
        known = (row.learner, row.regime) in COUNTS_ALONE
        assert row == (full if known else full._replace(value=None, missing="delays"))
    assert {(row.learner, row.regime) for row in table(counted) if row.value is not None} == set(COUNTS_ALONE)


def test_without_gaps_stochastic_rows_are_unknown() -> None:
    for full, row in zip(table(Instance(3, DELAYS, gaps=GAPS)), table(Instance(3, DELAYS)), strict=True):
        assert row == (full._replace(value=None, missing="gaps") if row.regime == "stochastic" else full)
    neither = table(Instance(3, counts=COUNTS))
    assert [row.learner for row in neither if row.value is not None] == ["hybrid", "balanced"]
    assert {row.missing for row in neither} == {"", "gaps", "delays"}


def test_of_several_best_arms_only_ucb_has_a_bound() -> None:
    """Arms without a gap cost nothing; the others assume a single best arm."""
    tied = table(Instance(3, DELAYS, gaps=[0.0, 0.5]))
    for alone, row in zip(table(Instance(3, DELAYS, gaps=GAPS)), tied, strict=True):
        if row.learner == "ucb":
            assert row.value == pytest.approx(8 * math.log(10) / 0.5 + 3.5 * 0.5 + 4 * 0.5, rel=1e-12)
        elif row.regime == "stochastic":
            assert (row.value, row.missing) == (None, "a single best arm")
        else:
            assert row == alone
    assert table(Instance(2, DELAYS, gaps=[0.0]))[0].value == 0.0


def hand_made() -> Waiting:
    """Round 1 is skipped at the end of round 3, round 2 comes then, round 4 comes at once."""
    return Waiting(
        outstanding=np.array([0, 1, 2, 0]),
        patience=np.array([0.0, 1.0, 2.0, 2.0]),
        ended=np.array([3, 3, 3, 4]),
        skipped=np.array([True, False, False, False]),
    )


def test_the_proved_bound_of_robust() -> None:
    explored = math.exp(-3 / 3) + math.exp(-3 / 2)
    rest = 4 * math.sqrt(5 * 4) + 1 + 5 * explored
    for constant, rate in [(49.0, 51 / 7), (2.0, math.sqrt(8)), (1.0, 3.0)]:
        bound = robust_bound(5, hand_made(), constant)
        assert bound == pytest.approx(rest + rate * math.sqrt(3 * math.log(5)), rel=1e-14)


@pytest.mark.parametrize(("constant", "shown"), [(49.0, "51/7"), (2.0, "2.83"), (1.0, "3")])
def test_the_formula_shows_the_constant(constant: float, shown: str) -> None:
    row = next(row for row in table(Instance(3, DELAYS, delay_constant=constant)) if row.source.endswith("Appendix"))
    assert f"4√(KT) + {shown} √(D̂ log K)" in row.formula


def test_rows_have_a_source_and_a_formula() -> None:
    for row in table(Instance(3, DELAYS)):
        assert isinstance(row, Bound)
        assert row.source
        assert row.formula


def test_cells_know_their_gaps_where_losses_are_stochastic() -> None:
    instance = suite.suite["stochastic-k10/pareto"].at(50).instance()
    np.testing.assert_allclose(instance.gaps, [0.1] * 9, rtol=1e-12)
    assert (instance.arms, instance.rounds, instance.delay_constant) == (10, 50, 49.0)
    uneven = suite.Cell("mine", "bernoulli:means=[0.5,0.2,0.9]", "constant:delay=3", 20).instance(2.0)
    np.testing.assert_allclose(uneven.gaps, [0.3, 0.7], rtol=1e-12)
    assert uneven.delays.tolist() == [3] * 17 + [3, 2, 1, 0][1:]
    assert uneven.delay_constant == 2.0


def test_cells_have_no_gaps_where_losses_change() -> None:
    for name in ("constrained-k10/pareto", "switching-k10/none", "resonant-k2/100", "blocks-k2/100"):
        assert suite.suite[name].at(200).instance().gaps is None


def test_a_cell_of_one_round_has_no_gaps_where_losses_change() -> None:
    assert suite.suite["constrained-k10/pareto"].at(1).instance().gaps is None


def test_a_cell_of_delays_by_arm_counts_the_longest() -> None:
    instance = suite.Cell("mine", "stochastic:arms=3,gap=0.1", "byarm:laws=[4,0]", 10).instance()
    assert instance.delays.tolist() == [4, 4, 4, 4, 4, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delays": [0, 1], "counts": [0, 1]}, (None,)),
        ({}, (None,)),
        ({"delays": [0, 1], "gaps": [0.1]}, (None, "[0.1]")),
        ({"delays": [0, 1], "gaps": [0.1, 0.1, 0.1]}, (None, "[0.1, 0.1, 0.1]")),
        ({"delays": [0, 1], "gaps": [0.1, 1.5]}, (None, "[0.1, 1.5]")),
        ({"delays": [0, 1], "gaps": [-0.1, 0.5]}, (None, "[-0.1, 0.5]")),
        ({"delays": [0, 1], "gaps": [math.nan, 0.5]}, (None, "0")),
        ({"delays": [0, -3]}, (None, "-3")),
        ({"delays": [None, 0, -2]}, (None, "-2.0")),
        ({"delays": [0, 1.5, 0]}, (None, "1.5")),
        ({"delays": []}, (None, "(0,)")),
        ({"delays": [[1, 2]]}, (None, "(1, 2)")),
        ({"counts": [0, 1, 3]}, (None, "3", "0", "2")),
        ({"counts": [1]}, (None, "1", "0")),
        ({"counts": [0, -1]}, (None, "-1", "0", "1")),
        ({"counts": [0, 0.5]}, (None,)),
        ({"counts": []}, (None, "(0,)")),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Instance(3, **given)


@pytest.mark.parametrize("arms", [1, 0, 2.0, True])
def test_at_least_two_arms(arms: Any) -> None:
    with refused("arms", repr(arms)):
        Instance(arms, [0, 1])


def test_a_fraction_beyond_the_last_round_is_refused_too() -> None:
    with refused(None, "100.5"):
        Instance(3, [100.5, 0, 0])


@pytest.mark.parametrize("problem", [{"delays": [0, 1]}, {"counts": [0, 1]}])
@pytest.mark.parametrize("constant", [0.0, -1.0, math.nan])
def test_a_constant_that_robust_cannot_have_is_refused(problem: dict[str, Any], constant: float) -> None:
    with refused("delay_constant", constant):
        table(Instance(3, delay_constant=constant, **problem))
