"""Replays of a log: what they say, what they warn of, and what they refuse."""

import json
from typing import Any

import numpy as np
import pytest

from belated.inference import Estimate, estimates
from belated.logs import Log
from belated.replay import Range, Replay, Reproduced, learner_values, profile, replay_log, values
from belated.replay.off_policy import off_policy
from belated.replay.replay import _odd_arms, _odd_propensities
from support.refusals import refused


@pytest.fixture(autouse=True)
def few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "pass_counts", lambda rows: (3, 5))


def point(told: Estimate | Range) -> Estimate:
    """Return what must be an estimate, and no range."""
    assert isinstance(told, Estimate)
    return told


def even(rows: int = 400, **parts: Any) -> Log:
    """Two arms in turn, the first with a reward and the second without, after three more decisions."""
    return Log.from_arrays(["a", "b"] * (rows // 2), rewards=[1.0, 0.0] * (rows // 2), waits=[3] * rows, **parts)


def drawn(shares: list[float], rows: int = 2000, **parts: Any) -> Log:
    rng = np.random.default_rng(1)
    arms = rng.choice(len(shares), rows, p=shares)
    given: dict[str, Any] = {
        "labels": tuple("abc"[: len(shares)]),
        "arms": arms,
        "rewards": (rng.random(rows) < 0.3 + 0.2 * arms).astype(float),
        "propensities": np.array(shares)[arms],
        "waits": rng.integers(0, 20, rows).astype(float),
    }
    return Log(**(given | parts))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, ("alpha", "0.0")),
        ({"alpha": 1.0}, ("alpha", "1.0")),
        ({"control": "c"}, ("control", "c")),
        ({"outcomes": "all"}, ("outcomes", "all")),
        ({"assigned": "fairly"}, ("assigned", "fairly")),
        ({"deadline": 3, "deadline_after": 3.0}, ("deadline",)),
        ({"missing_loss": 0.0}, ("missing_loss", "0.0")),
        ({"deadline": 3, "missing_loss": 2.0}, ("missing_loss", "2.0")),
        ({"deadline_after": 3.0}, ("deadline",)),
    ],
)
def test_options_are_checked_before_anything_is_replayed(
    options: dict[str, Any], message: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("belated.replay.replay.learner_values", lambda *_, **__: pytest.fail("replayed"))
    with refused(*message):
        replay_log(even(), ["uniform"], **{"assigned": "uniform", **options})


def test_a_log_without_decisions_is_refused() -> None:
    nothing = Log(("a", "b"), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
    for assigned in (None, "uniform"):
        with refused("log"):
            replay_log(nothing, ["uniform"], assigned=assigned)


def test_what_a_replay_holds() -> None:
    log = drawn([0.5, 0.3, 0.2])
    found = replay_log(log, ["thompson", "ucb"], alpha=0.1, control="a", seed=4, most_rows=1500)
    assert found.log is log
    assert found.values == learner_values(log, ["thompson", "ucb"], alpha=0.1, seed=4, most_rows=1500)
    assert found.estimates == estimates(log, alpha=0.1, control="a")
    delays = profile(log)
    assert delays is not None
    assert found.delays is not None
    assert found.delays.as_dict() == delays.as_dict()
    ones = np.ones(2000)
    assert found.logged == off_policy(log.rewards, ones, ones * 0.0, alpha=0.1).estimates["ips"]
    assert (found.alpha, found.rows_replayed, found.warnings, found.reproduced) == (0.1, 1500, (), None)
    assert replay_log(log, ["uniform"]).rows_replayed == 2000
    assert found.best is max(found.values, key=lambda each: point(each.estimates["dr"]).value)
    assert repr(found).startswith("Replay(Log(2,000 decisions of 3 arms, 2,000 outcomes): ")
    everything = replay_log(log, ["uniform"], outcomes="arrived")
    assert everything.estimates == estimates(log, outcomes="arrived")


def test_the_best_is_not_one_that_was_refused() -> None:
    log = drawn([0.5, 0.5])
    found = replay_log(log, ["damped", "uniform", "ucb"])
    assert [each.refused is None for each in found.values] == [False, True, True]
    assert found.best is not None
    assert found.best.learner == "ucb"
    assert replay_log(log, ["damped"]).best is None


def test_as_json() -> None:
    """Whatever the log lacks: numbers that there are not are None."""
    whole = replay_log(drawn([0.5, 0.5]), ["ucb", "damped"])
    poor = replay_log(Log.from_arrays(["a", "b"], [1.0, None]), ["ucb"])
    nothing = replay_log(Log.from_arrays(["a", "b"], [None, None], waits=[np.inf, np.inf]), ["ucb"])
    told = [json.loads(json.dumps(each.as_dict(), allow_nan=False)) for each in (whole, poor, nothing)]
    assert told[0]["decisions"] == told[0]["outcomes"] == 2000
    assert [each["arm"] for each in told[0]["arms"]] == ["a", "b"]
    assert sum(each["decisions"] for each in told[0]["arms"]) == 2000
    assert told[0]["logged"]["value"] == point(whole.logged).value
    assert [each["learner"] for each in told[0]["learners"]] == ["ucb", "damped"]
    assert told[0]["delays"]["overall"]["decisions"] == 2000
    assert told[0]["reproduced"] is None
    assert told[1]["arms"] == [
        {"arm": "a", "decisions": 1, "outcomes": 1},
        {"arm": "b", "decisions": 1, "outcomes": 0},
    ]
    assert told[1]["outcomes"] == 1
    assert told[1]["logged"]["value"] is told[2]["logged"]["value"] is None
    assert told[1]["delays"] is None
    assert told[2]["delays"]["overall"]["longest"] is None


def test_a_learner_that_runs_again() -> None:
    same = Reproduced("ucb", 1200, 0.0, ())
    assert all(each in same.sentence for each in ("ucb", "1,200"))
    near = Reproduced("ucb", 3, 2e-9, ())
    assert all(each in near.sentence for each in ("ucb", "3", "2e-09"))
    other = Reproduced("ucb", 3, 0.0, ("round 2 has another arm", "round 3 has"))
    assert all(each in other.sentence for each in ("ucb", "round 2 has another arm"))
    assert "round 3" not in other.sentence
    found = replay_log(even(), ["uniform"], assigned="uniform")
    plain = Replay(**{**vars(found), "reproduced": other}).as_dict()
    assert plain["reproduced"] == {
        "learner": "ucb",
        "decisions": 3,
        "propensity_error": 0.0,
        "faults": ["round 2 has another arm", "round 3 has"],
    }


def test_how_arms_were_assigned() -> None:
    """Three in four decisions are of the first arm."""
    log = Log.from_arrays((["a"] * 3 + ["b"]) * 200, rewards=[1.0, 0.0] * 400)
    for assigned, propensities in (("uniform", [0.5, 0.5]), ("shares", [0.75, 0.25])):
        found = replay_log(log, ["uniform"], assigned=assigned)
        np.testing.assert_array_equal(found.log.propensities, np.array(propensities)[log.arms])
        assert bool(found.warnings) == (assigned == "uniform")
        assert found.values[0].refused is None
    found = replay_log(log, ["uniform"])
    assert found.values[0].refused
    assert found.warnings == ()
    known = even(propensities=[0.5] * 400)
    with refused("assigned", "shares"):
        replay_log(known, ["uniform"], assigned="shares")
    some = even(propensities=[0.5] * 399 + [None])
    with refused("assigned", "uniform"):
        replay_log(some, ["uniform"], assigned="uniform")
    assert replay_log(some, ["uniform"]).warnings == ()


def test_false_propensities_are_warned_of() -> None:
    """The log says a third each, and draws a half, three tenths and a fifth."""
    log = drawn([0.5, 0.3, 0.2])
    false = drawn([0.5, 0.3, 0.2], propensities=np.full(2000, 1 / 3))
    assert replay_log(log, ["uniform"]).warnings == ()
    warnings = replay_log(false, ["uniform"]).warnings
    means = 3 * np.bincount(log.arms) / 2000
    first, last = (each for each in warnings if " b " not in each)
    assert all(each in first for each in (" a ", f"{means[0]:.3g}"))
    assert all(each in last for each in (" c ", f"{means[2]:.3g}"))


@pytest.mark.parametrize(("errors", "warned"), [(4.5, False), (5.5, True)])
def test_how_far_propensities_may_be_off(errors: float, warned: bool) -> None:
    """10,000 rows of an arm that is said to be chosen in a half of them: 5 standard errors are 250."""
    first = round(5000 + errors * 50)
    log = Log.from_arrays(["a"] * first + ["b"] * (10_000 - first), [1.0, 0.0] * 5000)
    assert len(replay_log(log, [], assigned="uniform").warnings) == 2 * warned


def test_propensities_are_seldom_warned_of_where_they_are_true() -> None:
    """200 logs with propensities that differ from row to row: none."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        p = rng.uniform(0.05, 0.95, 500)
        arms = (rng.random(500) < p).astype(np.int64)
        assert _odd_propensities(Log((0, 1), arms, np.ones(500), np.where(arms == 1, p, 1 - p))) == []


@pytest.mark.parametrize(("few", "others", "told"), [(5, 501, True), (5, 500, False), (6, 700, False), (0, 700, False)])
def test_arms_that_may_be_slips(few: int, others: int, told: bool) -> None:
    """At most five decisions, and less than a hundredth of what arms have by the median."""
    log = Log(("a", "b", "c"), np.repeat([0, 1, 2], [others, others, few]), *np.ones((2, 2 * others + few)))
    warnings = _odd_arms(log)
    assert len(warnings) == told
    assert all(f"c ({few})" in each for each in warnings)


def test_arms_that_are_seldom_chosen_are_not_warned_of() -> None:
    """80 arms, seven decisions of each expected, or one in five: 100 logs each, and no warning. An arm that was chosen
    once then has one distance from its mean, and no standard error to go by.
    """
    rng = np.random.default_rng(3)
    for rows in (560, 16):
        for _ in range(100):
            log = Log(tuple(range(80)), rng.integers(0, 80, rows), np.ones(rows), np.full(rows, 1 / 80))
            assert _odd_propensities(log) == []


def test_the_mean_of_the_log_allows_for_what_is_missing() -> None:
    """A tenth is missing: from none of them a reward to all of them."""
    log = drawn([0.5, 0.5])
    lost = np.arange(2000) % 10 == 0
    found = replay_log(drawn([0.5, 0.5], rewards=np.where(lost, np.nan, log.rewards)), []).logged
    ones = np.ones(2000)
    low, high = (
        off_policy(np.where(lost, each, log.rewards), ones, ones * 0.0).estimates["ips"] for each in (0.0, 1.0)
    )
    assert isinstance(found, Range)
    assert not hasattr(found, "value")
    assert found == pytest.approx((low.low, high.high))
    assert low.low < low.value < log.rewards.mean() < high.value < high.high
    whole = point(replay_log(log, []).logged)
    assert whole.value == pytest.approx(log.rewards.mean())
    assert whole.high - whole.low < found.high - found.low


def test_no_learner_is_the_best_where_rewards_are_missing() -> None:
    log = drawn([0.5, 0.5])
    lost = replay_log(drawn([0.5, 0.5], rewards=np.where(np.arange(2000) % 10 == 0, np.nan, log.rewards)), ["ucb"])
    assert lost.best is None
    assert lost.values[0].refused is None
    young = replay_log(log, ["ucb"], deadline=2000)
    assert young.old_enough == 2000  # all outcomes came
    nothing = replay_log(drawn([0.5, 0.5], rewards=np.full(2000, np.nan)), ["ucb"], deadline=2000)
    assert (nothing.old_enough, nothing.logged, nothing.best) == (0, Range(0.0, 1.0), None)


def test_a_deadline_in_decisions() -> None:
    """Outcomes that take longer count as a loss, or as what is said."""
    log = drawn([0.5, 0.5])
    late = replay_log(log, ["uniform"], deadline=5)
    assert late.log.arms.size == 2000
    np.testing.assert_array_equal(late.log.rewards, log.with_deadline(5, 1.0).rewards)
    assert late.delays is not None
    assert late.delays.overall.quantiles[2] > 5.0  # as they came
    assert late.delays.most_outstanding <= 5 + 1  # but nobody waits longer
    assert (late.old_enough, late.rows_replayed) == (2000, 2000)  # all outcomes are known
    assert point(late.logged).value < log.rewards.mean() - 0.1
    kind = replay_log(log, ["uniform"], deadline=5, missing_loss=0.0)
    assert point(kind.logged).value > log.rewards.mean() + 0.1


def test_a_deadline_in_time() -> None:
    log = drawn([0.5, 0.5], times=np.arange(2000) * 2.0)
    log = Log(**{**vars(log), "durations": np.asarray(log.waits) * 2.0})
    late = replay_log(log, ["uniform"], deadline_after=10.0)
    np.testing.assert_array_equal(late.log.rewards, log.with_deadline_after(10.0, 1.0).rewards)
    assert late.delays is not None
    assert late.delays.unit == "units of time"
    kind = replay_log(log, ["uniform"], deadline_after=10.0, missing_loss=0.0)
    assert point(kind.logged).value > point(late.logged).value + 0.2


def test_refused_logs_still_tell_of_delays_and_arms() -> None:
    """Too few rounds, an arm that was never chosen, propensities of 1."""
    for log, named in (
        (even(100, propensities=[0.5] * 100), ("100", "50")),
        (even(propensities=[0.5] * 400, labels=["a", "b", "c"]), ("'c'",)),
        (even(propensities=[1.0] * 400), ("400 of 400",)),
    ):
        found = replay_log(log, ["ucb", "uniform"])
        assert all(name in str(each.refused) for each in found.values for name in named)
        assert found.best is None
        assert found.delays is not None
        assert found.delays.overall.quantiles[0] == 3.0
        assert found.estimates.decisions == log.arms.size
        assert point(found.logged).value == 0.5
