"""The delays in a log: quantiles, what is missing, and whether they depend on anything."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from belated import bounds
from belated.logs import Log
from belated.replay import DelayProfile, profile
from belated.replay.delay_profile import LIKELY, POINTS, Floats, _cohort, kaplan_meier, quantiles_of

INF = math.inf


def told(log: Log) -> DelayProfile:
    found = profile(log)
    assert found is not None
    return found


def quantiles(delays: Floats, ages: Floats, wanted: tuple[float, ...]) -> tuple[float, ...]:
    return quantiles_of(*kaplan_meier(delays, ages), wanted)


def test_quantiles_without_censoring_are_those_of_the_sample() -> None:
    """The least delay by which at least the share has come."""
    delays, ages = np.arange(1.0, 11.0), np.full(10, INF)
    assert quantiles(delays, ages, (0.1, 0.11, 0.5, 0.9, 0.91, 1.0)) == (1.0, 2.0, 5.0, 9.0, 10.0, 10.0)
    assert quantiles(np.array([3.0, 3.0, 7.0]), ages[:3], (0.5, 0.7)) == (3.0, 7.0)


def test_kaplan_meier_by_hand() -> None:
    """Delays 1, 3, 3, 6; censored at 2, 3 and 5.

    At risk at 1: 7; at 3: 5, one censored at 2 is gone, one at 3 is not; at 6: 1. So 1 - F is 6/7 from 1 on,
    6/7 * 3/5 = 18/35 from 3 on, 0 from 6 on.
    """
    delays = np.array([1.0, 3.0, INF, 3.0, INF, INF, 6.0])
    ages = np.array([9.0, 9.0, 2.0, 9.0, 3.0, 5.0, 9.0])
    came = [1 / 7, 17 / 35, 1.0]
    for share, delay in zip(came, (1.0, 3.0, 6.0), strict=True):
        assert quantiles(delays, ages, (share,)) == (delay,)
    assert quantiles(delays, ages, (1 / 7 + 1e-6, 17 / 35 + 1e-6)) == (3.0, 6.0)
    forever = np.append(delays, INF), np.append(ages, INF)  # one is waited for longer than 6: half of those never come
    assert quantiles(*forever, (0.7, 0.9)) == (6.0, INF)
    assert quantiles(np.full(3, INF), np.ones(3), (0.1, 0.9)) == (INF, INF)


def test_quantiles_allow_for_what_has_not_come_yet() -> None:
    """Delays of 0 to 99 decisions; at the end of 400 decisions an eighth has not come. Those that came are too fast."""
    rng = np.random.default_rng(3)
    waits = rng.integers(0, 100, 400).astype(float)
    rewards = np.where(waits <= np.arange(399, -1, -1), 1.0, np.nan)
    log = Log.from_arrays(np.arange(400) % 2, rewards, waits=waits)
    overall = told(log).overall
    assert overall.outcomes == int(np.isfinite(rewards).sum()) < 370
    assert overall.missing == pytest.approx(1 - overall.outcomes / 400)
    assert overall.quantiles == pytest.approx((49.5, 89.5, 98.5), abs=6.0)
    never = np.where(rng.random(400) < 0.3, np.nan, rewards)  # three in ten never come
    assert told(Log.from_arrays(np.arange(400) % 2, never, waits=waits)).overall.quantiles[1:] == (INF, INF)


def test_a_small_log_by_hand() -> None:
    """Five decisions: a comes after 1, 0; b after 3, never, 0."""
    log = Log.from_arrays(
        ["a", "b", "b", "a", "b"], rewards=[1.0, 0.0, None, 0.5, 0.25], waits=[1.0, 3.0, INF, 0.0, 0.0]
    )
    found = told(log)
    assert found.unit == "decisions"
    assert found.overall == found.in_decisions
    assert found.overall[:3] == ("all", 5, 4)
    assert found.overall.longest == 3.0
    first, second = found.by_arm
    assert (first.name, first.decisions, first.outcomes, first.longest) == ("a", 2, 2, 1.0)
    assert (second.name, second.decisions, second.outcomes, second.longest) == ("b", 3, 2, 3.0)
    assert second.missing == pytest.approx(1 / 3)
    good, bad = found.by_outcome
    assert (good.name, good.decisions, good.longest) == ("reward of 1/2 or more", 2, 1.0)
    assert (bad.name, bad.decisions, bad.longest) == ("reward below 1/2", 2, 3.0)
    assert found.at.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.outstanding.tolist() == [0, 1, 1, 2, 2, 1]
    assert found.most_outstanding == 2


def test_how_long_decisions_were_waited_for() -> None:
    """In decisions, the last of three was waited for until the log ends: not for one decision more. In time, the last
    was waited for until the last outcome came, five after it: two of five came after 1.
    """
    log = Log.from_arrays([0, 1, 0], [1.0, 1.0, None], waits=[1.0, 0.0, INF])
    assert told(log).overall.quantiles == (1.0, 1.0, 1.0)
    timed = Log(
        (0, 1),
        np.array([0, 1, 0, 1, 0]),
        np.array([1.0, 1.0, 1.0, 1.0, np.nan]),
        np.full(5, 0.5),
        np.array([0.0, 0.0, 2.0, 1.0, INF]),
        times=np.array([0.0, 5.0, 10.0, 15.0, 30.0]),
        durations=np.array([1.0, 1.0, 25.0, 20.0, INF]),
    )
    assert told(timed).overall.quantiles == (20.0, 25.0, 25.0)


def test_outstanding_decisions_by_brute_force() -> None:
    """After n decisions, those among them whose outcome has not come by then: at 400 places and at both ends."""
    rng = np.random.default_rng(4)
    size = 1500
    waits = np.floor(rng.pareto(1.0, size) * 20)
    waits[rng.random(size) < 0.05] = INF
    log = Log.from_arrays(rng.integers(0, 3, size), np.where(np.isinf(waits), np.nan, 1.0), waits=waits)
    found = told(log)
    counts = [sum(k + waits[k - 1] > n for k in range(1, n + 1)) for n in range(size + 1)]
    assert found.outstanding.tolist() == [counts[n] for n in found.at]
    assert (found.at[0], found.at[-1], found.at.size) == (0, size, POINTS + 1)
    assert found.most_outstanding == max(counts)


def test_outcomes_without_a_reward_have_not_come() -> None:
    """Whatever `waits` says: the log as it was."""
    log = Log.from_arrays([0, 1] * 10, [1.0] * 20, waits=[5.0] * 20)
    found = told(log.until(8))
    assert (found.overall.decisions, found.overall.outcomes) == (8, 3)
    assert found.outstanding.tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5]


def test_no_profile_without_waits() -> None:
    assert profile(Log.from_arrays([0, 1], [1.0, 0.0])) is None


def test_units_of_time() -> None:
    """Times, where there are any; and decisions besides."""
    log = Log(
        ("a", "b"),
        np.array([0, 1, 0, 1]),
        np.array([1.0, 0.0, 1.0, np.nan]),
        np.full(4, 0.5),
        np.array([0.0, 2.0, 0.0, INF]),
        times=np.array([0.0, 10.0, 20.0, 30.0]),
        durations=np.array([5.0, 25.0, 1.0, INF]),
    )
    found = told(log)
    assert found.unit == "units of time"
    assert (found.overall.longest, found.in_decisions.longest) == (25.0, 2.0)
    assert found.overall.quantiles[0] == 5.0  # one of three came by 1, the last is younger than 25 at the end, 35
    assert found.in_decisions.quantiles[0] == 0.0
    seconds = Log(**{**vars(log), "in_seconds": True})
    assert told(seconds).unit == "seconds"
    timeless = told(Log(**{**vars(log), "times": None}))  # nobody knows when the last was made: it never comes
    assert timeless.overall.quantiles == (5.0, INF, INF)


def test_facts_are_those_of_the_bounds() -> None:
    waits = np.array([3.0, 0.0, INF, 2.0, 1.0, 0.0])
    log = Log.from_arrays([0, 1, 2, 0, 1, 2], [1.0, 0.0, None, 1.0, 1.0, 0.0], waits=waits)
    delays = np.array([3, 0, 6, 2, 1, 0])
    found = told(log)
    instance = bounds.Instance(3, delays)
    assert found.facts == bounds.facts(instance)
    assert found.scale == pytest.approx(bounds.scale(3, instance.delays), rel=1e-14)


def test_what_is_infinite_or_not_known_is_none_in_json() -> None:
    """Half of the outcomes of b never come, and none of a: no median of a, and no longest delay."""
    log = Log.from_arrays(["a", "b", "a", "b"], rewards=[None, 1.0, None, None], waits=[INF, 0.0, INF, INF])
    plain = json.loads(json.dumps(told(log).as_dict(), allow_nan=False))
    first, second = plain["by_arm"]
    assert (first["quantiles"], first["longest"], first["missing"]) == ([None] * 3, None, 1.0)
    assert (second["quantiles"], second["longest"], second["missing"]) == ([0.0, None, None], 0.0, 0.5)
    assert plain["by_outcome"][1]["missing"] is None
    assert plain["unit"] == "decisions"
    assert plain["depends_on_outcome"] is None
    assert plain["outstanding"] == {"after": [0, 1, 2, 3, 4], "count": [0, 1, 1, 2, 3], "most": 3}


def test_the_older_half_is_compared_as_far_as_all_of_it_was_waited_for() -> None:
    """Ages of 4 to 0: three decisions are 2 old or more, of which those count as come that came within 2."""
    found = _cohort(np.array([2.0, 3.0, 0.0, 0.0, INF]), np.arange(4.0, -1.0, -1.0))
    assert found.members.tolist() == [True, True, True, False, False]
    assert found.came.tolist() == [True, False, True, False, False]


Law = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]


def cut_off(rng: np.random.Generator, law: Law, size: int = 600, seconds: bool = False) -> Log:
    """A log whose end cuts delays off; two arms, of which the first earns more."""
    arms = rng.integers(0, 2, size)
    rewards = (rng.random(size) < np.where(arms == 0, 0.6, 0.4)).astype(float)
    waits = np.asarray(law(rng, arms, rewards), dtype=float)
    ages = np.arange(size - 1.0, -1.0, -1.0)
    log = Log((0, 1), arms, np.where(waits <= ages, rewards, np.nan), np.full(size, 0.5), waits)
    if not seconds:
        return log
    times = np.arange(size) * 7.0
    late = np.where(waits <= ages, waits * 7.0, INF)
    return Log(**{**vars(log), "times": times, "durations": late, "in_seconds": True})


def shared(rng: np.random.Generator, arms: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    return rng.integers(0, 300, arms.size)


def by_arm(rng: np.random.Generator, arms: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    return rng.integers(0, 100, arms.size) + 40 * arms


def by_outcome(rng: np.random.Generator, arms: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    return rng.integers(0, 100, arms.size) + 40 * (rewards < 0.5)


def never_by_arm(rng: np.random.Generator, arms: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    return np.where((arms == 1) & (rng.random(arms.size) < 0.4), INF, rng.integers(0, 100, arms.size))


@pytest.mark.parametrize("seconds", [False, True])
@pytest.mark.parametrize(("law", "arm", "outcome"), [(by_arm, True, False), (by_outcome, None, True)])
def test_what_delays_depend_on_is_found(law: Law, arm: bool | None, outcome: bool, seconds: bool) -> None:
    """Delays by outcome depend on the arm as well, by way of its rewards, though less."""
    found = told(cut_off(np.random.default_rng(5), law, seconds=seconds))
    assert found.depends_on_arm is not None
    assert found.depends_on_outcome is not None
    assert arm is None or (found.depends_on_arm.p_value < 1e-4) == arm
    assert (found.depends_on_outcome.p_value < LIKELY) == outcome


def test_outcomes_that_never_come_depend_on_the_arm() -> None:
    found = told(cut_off(np.random.default_rng(6), never_by_arm))
    assert found.missing_by_arm is not None
    assert found.missing_by_arm.p_value < 1e-4
    assert found.depends_on_arm is not None
    assert found.depends_on_arm.p_value > LIKELY  # those that come, come alike
    assert found.depends_on_outcome is not None
    assert found.depends_on_outcome.p_value > LIKELY


@pytest.mark.parametrize("seconds", [False, True])
def test_delays_that_depend_on_nothing(seconds: bool) -> None:
    """200 logs, whose arms and rewards trade places with time, from the first to the middle of the log: p-values
    below 0.05 in 5 % of them, within four standard errors, 0.062. The end of the log cuts off long delays, of the
    second arm above all; that alone must not look like a dependence.
    """
    share = np.linspace(0.0, 2.0, 300).clip(0.05, 0.95)

    def trading(rng: np.random.Generator) -> Log:
        log = cut_off(rng, shared, 300, seconds)
        arms = (rng.random(300) < share).astype(np.int64)
        rewards = np.where(np.isnan(log.rewards), np.nan, rng.random(300) < share)
        return Log(**{**vars(log), "arms": arms, "rewards": rewards})

    rng = np.random.default_rng(7)
    found = [told(trading(rng)) for _ in range(200)]
    for name in ("depends_on_arm", "depends_on_outcome"):
        tests = [getattr(each, name) for each in found]
        assert abs(np.mean([each.p_value < 0.05 for each in tests]) - 0.05) < 0.062, name
