"""Who wins: betting as `belated.inference` has it, found faster; the z-test by its formula."""

import math

import numpy as np
import pytest

from belated import inference, simulate
from belated.inference.method import Options
from belated.inference.sources import method_for_log
from belated.trial import analyses
from belated.trial.analyses import NOBODY
from belated.trial.course import follow
from belated.trial.plan import Plan
from belated.trial.world import Assumed

RNG = np.random.default_rng(5)
COUNTS = RNG.binomial(RNG.integers(0, 60, (400, 3, 1)), RNG.random((400, 3, 2)))


@pytest.mark.parametrize(("rates", "alpha"), [((0.1, 0.9), 0.05), ((0.2, 0.2, 0.95), 0.2)])
def test_wins_are_those_of_inference(rates: tuple[float, ...], alpha: float) -> None:
    """At every look the same as p_value <= alpha on the log as it was then, and the first such look is found."""
    plan = Plan(Assumed(rates), 60, look_every=4, alpha=alpha)
    losses = f"bernoulli:means={[1 - rate for rate in rates]}"
    traces = simulate("thompson", losses, "geometric:mean=3", rounds=60, replications=12, keep_trace=True).traces[0]
    found = []
    for trace in traces:
        log = trace.log()
        known = ~np.isnan(log.rewards)
        course = follow(
            plan, log.arms, np.where(known, log.rewards, 0).astype(np.int64), trace.delays, trace.distributions
        )
        found.append(course.known[:-1])  # the last look has outcomes that the trace does not
        expected, winner = len(plan.looks) - 1, NOBODY
        for number, look in enumerate(plan.looks.tolist()):
            method = method_for_log(log.until(look), Options(alpha=alpha, method="betting"))
            if np.isnan(method.means).all():
                continue
            leader = int(np.nanargmax(method.means))
            if method.p_value(leader) <= alpha:
                expected, winner = number, leader
                break
        at, won = analyses.first_wins(course.known[None, :-1], alpha)
        assert (int(at[0]), int(won[0])) == (expected, winner)
    at, won = analyses.first_wins(np.stack(found), alpha)
    assert 1 <= np.count_nonzero(won == len(rates) - 1) <= 12
    assert at[won != NOBODY].max() < len(plan.looks)


def test_wins_by_randomisation_are_those_of_inference() -> None:
    """At every look the same winner as on the log as it was then, and the first such look is found."""
    plan = Plan(Assumed((0.2, 0.3, 0.9)), 150, look_every=5, alpha=0.2)
    losses = "bernoulli:means=[0.8,0.7,0.1]"
    spec = "thompson:share_floor=0.2"
    traces = simulate(spec, losses, "geometric:mean=3", rounds=150, replications=4, keep_trace=True).traces[0]
    for trace in traces:
        log = trace.log()
        known = np.where(np.isnan(log.rewards), 0, log.rewards).astype(np.int64)
        course = follow(plan, log.arms, known, trace.delays, trace.distributions, 0.2)
        winners = [method_for_log(log.until(look), Options(alpha=0.2)).estimates().winner for look in plan.looks]
        expected = next(number for number, winner in enumerate(winners) if winner is not None)
        at, won = analyses.first_shown(course.evidence[None, :-1], 0.2)
        assert (int(at[0]), int(won[0])) == (expected, winners[expected]) == (expected, 2)


def test_the_winner_is_that_of_estimates() -> None:
    log = inference.Log.from_arrays([0, 1] * 30, rewards=[0.0, 1.0] * 30)
    counts = np.array([[[[30, 0], [0, 30]]]])
    assert analyses.first_wins(counts, 0.05)[1].tolist() == [inference.estimates(log).winner] == [1]


def test_bounds_of_evidence_are_bounds() -> None:
    leader = analyses.leaders(COUNTS)
    most, pooled = analyses._most_evidence(COUNTS, leader), analyses._evidence_at_pooled(COUNTS + 1, leader)
    assert (analyses._evidence(COUNTS, leader) <= most).all()
    assert (analyses._evidence(COUNTS + 1, leader) <= pooled).all()
    clear = (COUNTS.sum(axis=2) >= 5).all(axis=1)
    assert np.quantile(pooled - analyses._evidence(COUNTS + 1, leader), 0.9) < 1.0  # close enough to be of use
    assert clear.sum() > 100


def test_leaders() -> None:
    counts = np.array([[[1, 1], [0, 0], [3, 2]], [[0, 0], [4, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]])
    assert analyses.leaders(counts).tolist() == [0, 1, 0]


def test_z_by_hand() -> None:
    """20 of 50 and 30 of 50: z = 0.2 / sqrt(0.5 * 0.5 * 2 / 50) = 2."""
    leader, z = analyses.z_statistics(np.array([[30, 20], [20, 30]]))
    assert int(leader) == 1
    assert float(z) == pytest.approx(2.0)
    # of three arms, the least statistic of the leader against another one counts
    leader, z = analyses.z_statistics(np.array([[10, 30], [20, 30], [5, 35]]))
    expected = (35 / 40 - 30 / 40) / math.sqrt(65 / 80 * 15 / 80 * 2 / 40)
    assert int(leader) == 2
    assert float(z) == pytest.approx(expected)


def test_z_needs_some_outcomes_of_each_arm() -> None:
    assert float(analyses.z_statistics(np.array([[0, 50], [4, 0]]))[1]) == -math.inf
    assert float(analyses.z_statistics(np.array([[0, 50], [5, 0]]))[1]) > 5.0


def test_equal_arms_do_not_win() -> None:
    for counts in ([[0, 20], [0, 20]], [[20, 0], [20, 0]], [[10, 10], [10, 10]]):
        leader, z = analyses.z_statistics(np.array(counts))
        assert float(z) == 0.0
        assert int(analyses.z_wins(leader, z, 0.0)) == NOBODY


def test_critical_values() -> None:
    assert analyses.critical_value(0.05, 2) == pytest.approx(1.6449, abs=1e-4)
    assert analyses.critical_value(0.05, 3) == pytest.approx(1.9600, abs=1e-4)


def test_the_calibrated_value_lets_a_treatment_win_in_alpha_of_trials() -> None:
    leader, z = np.array([1, 0, 1, 2] * 25), np.arange(100.0)
    critical = analyses.calibrated_value(leader, z, 0.05)
    assert np.count_nonzero(analyses.z_wins(leader, z, critical) > 0) == 5
    assert np.flatnonzero(analyses.z_wins(leader, z, critical) > 0).tolist() == [94, 95, 96, 98, 99]
    ties = np.array([3.0, 2.0, 2.0, 2.0])
    critical = analyses.calibrated_value(np.ones(4, dtype=np.int64), ties, 0.5)
    assert np.count_nonzero(analyses.z_wins(np.ones(4, dtype=np.int64), ties, critical) > 0) == 1  # never more


def test_the_first_win_at_every_look() -> None:
    none, win = [[10, 10], [10, 10]], [[20, 0], [0, 20]]
    other = [[0, 20], [20, 0]]
    at, winner = analyses.first_z_wins(np.array([[none, win, other], [none, none, none], [none, none, other]]), 1.64)
    assert (at.tolist(), winner.tolist()) == ([1, 2, 2], [1, NOBODY, 0])


def test_to_beat_the_control_is_what_inference_says_of_each_pair() -> None:
    """Three arms at alpha 0.2: the evidence of arm 1 or 2 against arm 0 is at least log(2 / 0.2)."""
    counts = COUNTS[(COUNTS.sum(axis=2) > 0).all(axis=1)]
    pairs = [analyses._evidence(counts[:, [0, arm]], np.ones(len(counts), dtype=np.int64)) for arm in (1, 2)]
    most = np.maximum(*pairs)
    expected = most >= math.log(2 / 0.2)
    assert 20 < expected.sum() < len(counts) - 20
    assert ((most >= math.log(1 / 0.2)) & ~expected).any()  # some would beat it if there were two arms
    np.testing.assert_array_equal(analyses.beat_control(counts, 0.2), expected)


def test_the_statistic_against_the_control() -> None:
    """20 of 50 on the control; 30 of 50: z = 2, 25 of 50: less. Worse arms have a negative one."""
    control, good, fair, bad = [30, 20], [20, 30], [25, 25], [45, 5]
    assert float(analyses.control_statistics(np.array([control, fair, good]))) == pytest.approx(2.0)
    assert float(analyses.control_statistics(np.array([control, bad, bad]))) < -2.0
    assert analyses.is_significant(np.array([2.0, 1.9, 0.0, -1.0]), 1.95).tolist() == [True, False, False, False]
    assert analyses.is_significant(np.array([0.0, 0.1]), 0.0).tolist() == [False, True]
