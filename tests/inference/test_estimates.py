"""Estimates: every number of them, and the words."""

import json
import math
import re
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from belated import inference, simulate
from belated.inference import Estimates, Log, capital, course, estimates
from belated.inference.aipw import aipw, aipw_differences
from belated.inference.stream import stream_of
from belated.inference.tally import ENDS
from support import hedged
from support.refusals import refused

ARMS = ("a", "b", "c")


def uniform_log(means: tuple[float, ...], rounds: int, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, len(means), rounds)
    rewards = (rng.random(rounds) < np.array(means)[arms]).astype(float)
    shares = np.full((rounds, len(means)), 1 / len(means))
    waits = np.minimum(rng.integers(0, 20, rounds), np.arange(rounds)[::-1]).astype(float)
    return Log(ARMS[: len(means)], arms, rewards, shares[:, 0], waits, shares)


LOG = uniform_log((0.3, 0.5, 0.35), 4_000)


@pytest.mark.parametrize("method", ["randomisation", "betting", "aipw"])
def test_the_truth_is_told(method: str) -> None:
    found = estimates(LOG, method=method, control="a")
    assert found.method == method
    assert found.winner == found.leader == "b"
    assert found.p_value < 0.05
    assert (found.decisions, found.used, found.waiting) == (4_000, 4_000, 0)
    for truth, each in zip((0.3, 0.5, 0.35), found.arms, strict=True):
        assert each.mean.low < truth < each.mean.high
        assert each.mean.low < each.mean.value < each.mean.high
        assert each.decisions == each.outcomes == int(np.count_nonzero(LOG.arms == ARMS.index(str(each.arm))))
    assert [(each.arm, each.other) for each in found.differences] == [("b", "a"), ("c", "a")]
    for truth, (_, _, difference) in zip((0.2, 0.05), found.differences, strict=True):
        assert difference.low < truth < difference.high


def test_the_mean_is_that_of_the_rewards() -> None:
    found = estimates(LOG)
    for k, each in enumerate(found.arms):
        assert each.mean.value == LOG.rewards[LOG.arms == k].mean()
    assert found["b"] is found.arms[1]
    with pytest.raises(KeyError):
        found["d"]


def test_all_pairs_without_a_control_the_better_first() -> None:
    found = estimates(LOG)
    assert [(each.arm, each.other) for each in found.differences] == [("b", "c"), ("b", "a"), ("c", "a")]
    assert found.uplift_to_control is None
    assert all(each.difference.value > 0 for each in found.differences)


def test_a_difference_is_narrower_than_that_of_two_intervals() -> None:
    log = uniform_log((0.4, 0.4), 4_000)
    found = estimates(log, control="a")
    a, b = (each.mean for each in found.arms)
    difference = found.differences[0].difference
    joint, apart = difference.high - difference.low, (b.high - b.low) + (a.high - a.low)
    assert joint < 0.85 * apart


def test_less_alpha_is_wider() -> None:
    narrow, wide = (estimates(LOG, alpha=alpha, control="a") for alpha in (0.2, 0.001))
    for one, other in [
        *((a.mean, b.mean) for a, b in zip(narrow.arms, wide.arms, strict=True)),
        *((a.difference, b.difference) for a, b in zip(narrow.differences, wide.differences, strict=True)),
        (narrow.uplift, wide.uplift),
        (narrow.uplift_to_control, wide.uplift_to_control),
    ]:
        assert one is not None
        assert other is not None
        assert other.low < one.low < one.value < one.high < other.high
    assert narrow.p_value == wide.p_value


def test_the_winner_is_the_least_alpha_away() -> None:
    """The leader wins at every alpha from the p-value on, and at none below."""
    log = uniform_log((0.4, 0.5), 1_200, seed=3)
    found = estimates(log)
    assert 1e-6 < found.p_value < 0.5
    assert estimates(log, alpha=found.p_value * 1.001).winner == "b"
    assert estimates(log, alpha=found.p_value * 0.999).winner is None


@pytest.mark.parametrize("method", ["betting", "randomisation"])
def test_uplift_is_what_was_gained(method: str) -> None:
    """Shares 1/6, 2/3, 1/6 and not 1/3 each, at rates 0.2, 0.8, 0.2: 0.2 more a decision; 0.4 more than the first."""
    rng = np.random.default_rng(5)
    shares = np.array([1 / 6, 2 / 3, 1 / 6])
    arms = rng.choice(3, 6_000, p=shares)
    rewards = (rng.random(6_000) < np.array([0.2, 0.8, 0.2])[arms]).astype(float)
    log = Log(ARMS, arms, rewards, shares[arms], distributions=np.tile(shares, (6_000, 1)))
    found = estimates(log, method=method, control="a")
    assert found.uplift is not None
    assert found.uplift_to_control is not None
    assert found.uplift.low < 0.2 < found.uplift.high
    assert found.uplift.value == pytest.approx(0.2, abs=0.02)
    assert found.uplift_to_control.low < 0.4 < found.uplift_to_control.high
    assert found.uplift_to_control.value == pytest.approx(0.4, abs=0.03)
    assert found.uplift.low > 0


def test_arms_that_are_equal_take_forever() -> None:
    log = Log.from_arrays(["a", "b"] * 500, [1.0, 1.0, 0.0, 0.0] * 250)
    found = estimates(log)
    assert found.more is not None
    low, high = found.more
    assert low > 10_000
    assert high is None
    assert found.winner is None
    assert found.p_value == 1.0


def test_unknown_rewards_may_be_anything() -> None:
    rewards = LOG.rewards.copy()
    rewards[::10] = np.nan
    log = Log(LOG.labels, LOG.arms, rewards, LOG.propensities)
    wide, narrow = estimates(log, outcomes="bounded"), estimates(log, outcomes="arrived")
    assert estimates(log).used == 0
    assert (wide.used, narrow.used, wide.waiting) == (4_000, 3_600, 400)
    for worst, best in ((0.0, 1.0), (1.0, 0.0)):
        filled = np.where(np.isnan(rewards), worst, rewards)
        low = estimates(Log(LOG.labels, LOG.arms, filled, LOG.propensities))
        for each, bounded in zip(low.arms, wide.arms, strict=True):
            if worst == 0.0:
                assert bounded.mean.low == pytest.approx(each.mean.low, abs=1e-12)
            else:
                assert bounded.mean.high == pytest.approx(each.mean.high, abs=1e-12)
            assert best != worst
    assert any("400" in each for each in wide.notes)
    assert set(wide.assumptions) < set(narrow.assumptions)


def test_settled_decisions_are_those_before_the_first_that_waits() -> None:
    rewards = LOG.rewards.copy()
    rewards[1_000] = np.nan
    found = estimates(Log(LOG.labels, LOG.arms, rewards, LOG.propensities))
    assert (found.used, found.waiting) == (1_000, 1)
    assert all(each in found.notes[0] for each in ("1,000", "4,000", "1,001"))
    before = estimates(LOG.until(1_000))
    assert [each.mean.low for each in found.arms] == pytest.approx([each.mean.low for each in before.arms], abs=0.05)


def test_a_deadline_settles() -> None:
    waits = np.where(np.arange(4_000) % 10 == 0, np.inf, 3.0)
    rewards = np.where(np.isinf(waits), np.nan, LOG.rewards)
    log = Log(LOG.labels, LOG.arms, rewards, LOG.propensities, waits)
    found = estimates(log, deadline=50)
    assert found.used >= 3_950
    assert found["b"].mean.value == pytest.approx(0.45, abs=0.03)  # a tenth counts as a loss of 1
    assert estimates(log, deadline=50, missing_loss=0.0)["b"].mean.value == pytest.approx(0.55, abs=0.03)


def test_rewards_between_0_and_1_count_for_what_they_are() -> None:
    rng = np.random.default_rng(2)
    arms = rng.integers(0, 2, 4_000)
    rewards = np.where(arms == 0, rng.beta(10, 30, 4_000), rng.beta(11, 29, 4_000))
    found = estimates(Log(("a", "b"), arms, rewards, np.full(4_000, 0.5)))
    assert found.winner == "b"
    coins = estimates(Log(("a", "b"), arms, (rng.random(4_000) < rewards).astype(float), np.full(4_000, 0.5)))
    assert found.arms[0].mean.high - found.arms[0].mean.low < 0.3 * (coins.arms[0].mean.high - coins.arms[0].mean.low)


WIDTHS = {
    "Bernoulli(0.5)": lambda rng: (rng.random(10_000) < 0.5).astype(float),
    "Bernoulli(0.005)": lambda rng: (rng.random(10_000) < 0.005).astype(float),
    "Beta(10, 30)": lambda rng: rng.beta(10, 30, 10_000),
}


@pytest.mark.parametrize("law", WIDTHS)
def test_intervals_are_about_as_narrow_as_the_best_published(law: str) -> None:
    """After 10,000 outcomes of one arm, at 95 %: at most 1.3 times as wide as the narrowest of the hedged capital
    (Waudby-Smith & Ramdas 2024), empirical Bernstein (the same) and the beta-binomial mixture (Robbins 1970).
    """
    rewards = WIDTHS[law](np.random.default_rng(0))
    log = Log(("a", "b"), np.zeros(10_000, dtype=np.int64), rewards, np.full(10_000, 0.5))
    mean = estimates(log, alpha=0.10).arms[0].mean  # two arms share alpha: 0.05 for this one
    widths = [high - low for low, high in _published(law, rewards)]
    assert mean.high - mean.low <= 1.3 * min(widths)


def _published(law: str, rewards: np.ndarray) -> list[tuple[float, float]]:
    lows, highs = hedged.empirical_bernstein(rewards, 0.05)
    found = [(float(lows[-1]), float(highs[-1]))]
    if law.startswith("Bernoulli"):
        found.append(hedged.beta_binomial(rewards, 0.05))
    half = 6 * rewards.std() / 100
    lows, highs = hedged.hedged(
        rewards, 0.05, np.linspace(max(rewards.mean() - half, 1e-4), rewards.mean() + half, 201)
    )
    found.append((float(lows[-1]), float(highs[-1])))
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, ("alpha", "0.0")),
        ({"alpha": 1}, ("alpha", "1")),
        ({"alpha": "0.05"}, ("alpha", "0.05")),
        ({"method": "bayes"}, ("method", "bayes")),
        ({"outcomes": "all"}, ("outcomes", "all")),
        ({"control": "d"}, ("control", "d")),
        ({"method": "aipw", "outcomes": "arrived"}, ("outcomes", "arrived", "aipw")),
        ({"deadline": -1}, ("deadline", "-1")),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: tuple[str | None, ...]) -> None:
    with refused(*message):
        estimates(LOG, **options)


def test_methods_are_refused_where_propensities_are_not_known_or_certain() -> None:
    log = Log.from_arrays(["a", "b"] * 10, [1.0] * 20)
    with refused("method", 20):
        estimates(log, method="randomisation")
    with refused("method"):
        estimates(log, method="aipw")
    result = simulate("ucb", "bernoulli:means=[0.2,0.6]", rounds=50, replications=1, keep_trace=True)
    with refused("method", 50):
        result.estimates(method="randomisation")
    assert result.estimates().method == "betting"


def test_something_else_is_no_source() -> None:
    with refused("source", "log"):
        estimates("log")


def test_nothing_is_known_without_decisions() -> None:
    for method in ("betting", "randomisation"):
        found = estimates(Log.from_arrays([], [], labels=["a", "b"]), method=method)
        assert found.leader is None
        assert found.winner is None
        assert [tuple(each.mean)[1:] for each in found.arms] == [(0.0, 1.0), (0.0, 1.0)]
        assert found.uplift is None


def test_one_arm_alone_with_outcomes_leads_and_does_not_win() -> None:
    found = estimates(Log.from_arrays(["a"] * 100, [1.0] * 100, labels=["a", "b"]))
    assert (found.leader, found.winner) == ("a", None)
    assert math.isnan(found["b"].mean.value)


def test_many_arms_are_compared_with_a_control_only() -> None:
    log = Log.from_arrays(list(range(30)) * 4, [0.0, 1.0] * 60)
    assert estimates(log).differences == ()
    assert len(estimates(log).notes) == 1 + len(estimates(log, control=3).notes)
    assert len(estimates(log, control=3).differences) == 29


def test_estimates_as_json_and_as_text() -> None:
    found = estimates(LOG.until(100), control="a")
    again = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert again["arms"][1]["mean"] == found["b"].mean._asdict()
    assert again["verdict"] == found.verdict
    assert again["differences"][0]["difference"]["low"] == found.differences[0].difference.low
    assert "3 arms" in repr(found)
    assert "<table>" in found._repr_html_()
    json.dumps(estimates(Log.from_arrays(["a"], [1.0], labels=["a", "b"])).as_dict(), allow_nan=False)


def test_the_course_of_estimates() -> None:
    found = course(LOG, looks=12)
    assert found.decisions[0] == 1
    assert found.decisions[-1] == 4_000
    assert (found.used <= found.decisions).all()
    last = estimates(LOG)
    np.testing.assert_array_equal(found.lows[-1], [each.mean.low for each in last.arms])
    assert found.winner == "b"
    assert found.known_at is not None
    known = int(np.flatnonzero(found.decisions == found.known_at)[0])
    assert estimates(LOG.until(int(found.decisions[known]))).winner == "b"
    assert estimates(LOG.until(int(found.decisions[known - 1]))).winner is None
    with refused("log"):
        course(Log.from_arrays([], [], labels=["a", "b"]))
    with refused("looks", 1):
        course(LOG, looks=1)


def test_estimates_of_a_simulation() -> None:
    result = simulate(
        ["guarded", "uniform"], "bernoulli:means=[0.2,0.6]", rounds=400, replications=2, keep_trace=True, progress=False
    )
    found = result.estimates("uniform", replication=1)
    assert isinstance(found, Estimates)
    assert found == inference.estimates(result.traces[1][1])
    assert result.estimates() == inference.estimates(result.traces[0][0])
    assert result.estimates(method="aipw").winner == 0
    with refused("replication", 2, 0, 1):
        result.estimates(replication=2)
    with refused("learner of this simulation", "ucb"):
        result.estimates("ucb")
    with refused("keep_trace"):
        simulate("uniform", "bernoulli:means=[0.2,0.6]", rounds=4, replications=1, progress=False).estimates()


def test_how_alpha_is_shared() -> None:
    """Arms share it by two sides each, differences by two sides of each pair, the winner by all arms."""
    counts = np.array(
        [[np.count_nonzero(LOG.rewards[LOG.arms == k] == value) for value in (0, 1)] for k in range(3)], float
    )
    found = estimates(LOG, alpha=0.1, control="a", method="betting")
    lows = capital.lower(counts, ENDS, math.log(2 * 3 / 0.1))
    assert [each.mean.low for each in found.arms] == lows.tolist()
    highs = 1 - capital.lower(counts[:, ::-1], ENDS, math.log(2 * 3 / 0.1))
    assert [each.mean.high for each in found.arms] == highs.tolist()
    pairs = np.stack([counts[[1, 2]], counts[[0, 0], ::-1]], axis=1)
    least = capital.least_sum(pairs, ENDS, np.ones((2, 2)), math.log(2 * 2 / 0.1)) - 1.0
    assert [each.difference.low for each in found.differences] == pytest.approx(least.tolist(), abs=1e-12)
    few = LOG.until(700)
    stream = stream_of(few)
    evidence = capital.log_evidence(
        np.repeat(stream.tally.counts[1:2], 2, axis=0), stream.tally.counts[[0, 2]], ENDS
    ).min()
    known = estimates(few, method="betting")
    assert known.leader == "b"
    assert known.p_value == pytest.approx(min(1.0, 3 * math.exp(-evidence)))
    assert 1e-9 < known.p_value < 1.0
    shares = stream.decisions / stream.rounds - 1 / 3
    sides = np.where((shares > 0)[:, None], stream.tally.counts, stream.tally.counts[:, ::-1])
    low = (
        capital.least_sum(sides[None], ENDS, np.abs(shares)[None], math.log(2 / 0.05))[0] + np.minimum(shares, 0).sum()
    )
    assert known.uplift is not None
    assert known.uplift.low == pytest.approx(low, abs=1e-12)


def test_how_one_look_shares_alpha() -> None:
    found = estimates(LOG, method="aipw", alpha=0.1)
    assert LOG.distributions is not None
    exact = aipw(LOG.arms, LOG.rewards, LOG.distributions, level=1 - 0.1 / 3)
    assert [each.mean.low for each in found.arms] == pytest.approx(exact.low.tolist())
    first = found.differences[0]
    assert (first.arm, first.other) == ("b", "c")
    less = aipw_differences(LOG.arms, LOG.rewards, LOG.distributions, 2, level=1 - 0.1 / 3)
    assert tuple(first.difference) == pytest.approx((less.estimate[1], less.low[1], less.high[1]))
    less = aipw_differences(LOG.arms, LOG.rewards, LOG.distributions, 1)
    scores = -less.estimate[[0, 2]] / less.standard_error[[0, 2]]
    assert found.p_value == pytest.approx(2 * (1 - NormalDist().cdf(float(scores.min()))))


def test_a_winner_that_does_not_last_was_not_known() -> None:
    """For 200 decisions a is the better arm, then b is: who seemed to win at first does not in the end."""
    rewards = np.tile([1.0, 0.0], 100).tolist() + np.tile([0.0, 1.0], 110).tolist()
    found = course(Log.from_arrays(["a", "b"] * 210, rewards), looks=40)
    early = int(np.flatnonzero(found.decisions <= 200)[-1])
    assert estimates(Log.from_arrays(["a", "b"] * 100, rewards[:200])).winner == "a"
    assert found.lows[early, 0] > found.highs[early, 1]
    assert (found.winner, found.known_at) == (None, None)


@pytest.mark.parametrize("method", ["betting", "randomisation", "aipw"])
def test_the_rival_is_the_arm_that_is_hardest_to_tell_from_the_leader(method: str) -> None:
    found = estimates(uniform_log((0.1, 0.5, 0.48), 600, seed=2), method=method)
    assert (found.leader, found.rival, found.winner) == ("c", "b", None)  # by chance


def test_the_verdict_says_which_arms_are_better_than_the_control() -> None:
    log = uniform_log((0.1, 0.5, 0.48), 600, seed=2)
    told, *others = (estimates(log, control=control).verdict for control in ("a", "c", None))
    assert others[0] == others[1]
    assert set(re.findall(r"\b[abc]\b", told.removeprefix(others[0]))) == {"a", "b", "c"}


def test_means_take_unknown_rewards_for_one_half() -> None:
    found = estimates(Log.from_arrays(["a", "b", "a", "a"], [1.0, 0.0, None, None]), outcomes="bounded")
    assert found["a"].mean.value == pytest.approx(2 / 3)
    assert found.more is None


def test_a_deadline_is_told() -> None:
    log = Log.from_arrays(["a", "b"] * 50, [1.0, None, 1.0, 0.0] * 25)
    found = estimates(log, deadline=10, missing_loss=0.5)
    assert found.used == 93  # those of the last ten may still come
    assert any("10" in each and "0.5" in each for each in found.notes)
    with refused("missing_loss", "0.5"):
        estimates(log, missing_loss=0.5)


def test_the_course_counts_settled_decisions() -> None:
    """Outcomes that all came after the last decision are drawn as they settled, not all at once."""
    late = Log(LOG.labels, LOG.arms, LOG.rewards, LOG.propensities, np.arange(4_000.0)[::-1], LOG.distributions)
    found = course(late, looks=12)
    np.testing.assert_array_equal(found.decisions, found.used)
    assert found.decisions[0] == 1
    np.testing.assert_array_equal(found.lows, course(LOG, looks=12).lows)
    made = course(late, looks=12, outcomes="arrived")
    assert made.used[0] == 0
    assert made.used[-1] == made.decisions[-1] == 4_000
