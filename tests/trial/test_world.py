"""Trials on outcomes that were observed: which arm they come from, the null, the control, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest

from belated import trial
from belated.environments import Public, Resampled
from belated.logs import Log
from belated.logs.public import missing
from belated.simulation.replication import chunks
from belated.trial.course import play
from belated.trial.plan import Plan
from belated.trial.words import analysis_rows, arm_rows, percent, points
from belated.trial.world import Assumed, Observed
from support.refusals import refused

RATES = {"old": 0.3, "new": 0.5, "other": 0.4}
DAYS = {"old": 2.0, "new": 5.0, "other": 7.0}
"""How long a failure takes; a success takes ten times as long."""


def log_of(rates: dict[str, float] = RATES, days: dict[str, float] | None = DAYS, size: int = 20) -> Log:
    """So many patients of each arm, one after the other, with exactly these rates."""
    arms = [label for label in rates for _ in range(size)]
    rewards = [float(k < rate * size - 1e-9) for rate in rates.values() for k in range(size)]
    waits = (
        None if days is None else [days[arm] * (10.0 if good else 1.0) for arm, good in zip(arms, rewards, strict=True)]
    )
    log = Log.from_arrays(arms, rewards=rewards)
    return Log(
        log.labels, log.arms, log.rewards, log.propensities, durations=None if waits is None else np.array(waits)
    )


@pytest.fixture(scope="module")
def outcomes() -> Resampled:
    return Resampled(log_of())


def test_outcomes_and_delays_come_from_the_right_arm(outcomes: Resampled) -> None:
    """Two patients a day: what takes 2 days is 4 patients late. Shares are within four standard errors."""
    plan = Plan(Observed(outcomes), 4000, accrual=2.0, stop="never")
    (part,) = chunks(plan.job, 0)
    losses, delays = part.rounds.losses, part.rounds.delays
    for arm, label in enumerate(RATES):
        rate = float(1.0 - losses[:, arm].mean())
        assert rate == pytest.approx(RATES[label], abs=4 * math.sqrt(0.25 / 4000))
        failed = losses[:, arm] == 1.0
        assert set(delays[failed, arm]) == {2 * int(DAYS[label])}
        assert set(delays[~failed, arm]) == {20 * int(DAYS[label])}


def test_under_the_null_all_arms_have_outcomes_and_delays_of_the_control(outcomes: Resampled) -> None:
    plan = Plan(Observed(outcomes, control="other"), 4000, stop="never")
    assert plan.world.labels == ("other", "old", "new")
    assert plan.world.rates == pytest.approx((0.4, 0.3, 0.5))
    assert (plan.world.best, plan.world.compared) == (2, 2)
    (part,) = chunks(plan.null_job, 0)
    assert (1.0 - part.rounds.losses).mean(axis=0).tolist() == pytest.approx([0.4] * 3, abs=4 * math.sqrt(0.24 / 4000))
    for arm in range(3):
        assert set(part.rounds.delays[:, arm]) == {7, 70}
    assert len({part.rounds.losses[:, arm].tobytes() for arm in range(3)}) == 3  # drawn arm by arm
    assert plan.world.null().rates == (plan.world.rates[0],) * 3


def test_a_trial_ends_when_the_last_outcome_of_its_arms_is_in(outcomes: Resampled) -> None:
    """The control's patients are settled after 20 days at the latest, those of the slowest arm after 70."""
    plan = Plan(Observed(outcomes), 400, accrual=2.0, stop="never")
    for simulation in range(5):
        for found, null in zip(play(plan, plan.job, simulation), play(plan, plan.null_job, simulation), strict=True):
            assert 400 + 2 * 50 < int(found.complete[-1]) <= 400 + 2 * 70
            assert 400 < int(null.complete[-1]) <= 400 + 2 * 20
            assert int(found.known[-1].sum()) == 400


def test_the_control_is_the_control_everywhere(outcomes: Resampled) -> None:
    """With another control the arms stand in another order, and nothing else is different: the same rates by label."""
    first, other = (
        trial.design(outcomes=outcomes, patients=300, control=control, stop="never", simulations=200, learner="uniform")
        for control in ("old", "new")
    )
    assert (first.as_dict()["arms"], other.as_dict()["arms"]) == (["old", "new", "other"], ["new", "old", "other"])
    assert (first.plan.world.best, other.plan.world.best) == (1, 0)
    assert other.plan.world.compared == 2
    margin = 4 * math.sqrt(300 * 0.25 / 200)
    assert float(first.fixed.null.successes.mean) == pytest.approx(300 * 0.3, abs=margin)
    assert float(other.fixed.null.successes.mean) == pytest.approx(300 * 0.5, abs=margin)
    for found in (first, other):
        assert float(found.fixed.alternative.successes.mean) == pytest.approx(300 * 0.4, abs=margin)
        for bias in (*found.fixed.alternative.bias, *found.fixed.null.bias):
            assert abs(float(bias.mean)) < 4 * 0.5 / math.sqrt(100 * 200) + 0.005
    assert float(first.fixed.analysis("naive").beats.mean) > 0.8
    assert float(other.fixed.analysis("naive").beats.mean) < 0.05


def test_it_is_the_plain_design_where_rates_and_delay_are_the_same() -> None:
    """Rates 0.3 and 0.5, all outcomes after 30 days. Margins are four standard errors of a difference of two shares, or
    of two means, of 250 simulations each."""
    both = {"old": 0.3, "new": 0.5}
    log = log_of(both, None)
    same = Resampled(Log(log.labels, log.arms, log.rewards, log.propensities, durations=np.full(log.arms.size, 30.0)))
    given: dict[str, Any] = {"patients": 150, "accrual": 2, "stop": "never", "simulations": 250}
    drawn, plain = trial.design(outcomes=same, **given), trial.design([0.3, 0.5], delay=30, **given)
    for a, b in zip(drawn.designs, plain.designs, strict=True):
        for x, y in ((a.alternative, b.alternative), (a.null, b.null)):
            assert float(x.time.mean) == float(y.time.mean) == 105.0
            for name in ("best_share", "successes", "success_rate", "difference_bias"):
                mean, other = getattr(x, name), getattr(y, name)
                half = math.hypot(float(mean.high - mean.mean), float(other.high - other.mean))
                assert abs(float(mean.mean - other.mean)) < 4 / 1.96 * half, name
        for one, two in zip(a.analyses, b.analyses, strict=True):
            for name in ("power", "wrong", "error", "treatment_error", "beats"):
                p, q = (float(getattr(each, name).mean) for each in (one, two))
                assert abs(p - q) <= 4 * math.sqrt((p * (1 - p) + q * (1 - q)) / 250) + 0.005, (one.name, name)
    # nobody knows an outcome before the 60th patient: until then each learner draws as fixed randomisation does
    steps = [found.trials[0].steps[:, 20].mean(axis=0) for found in (drawn, plain)]
    np.testing.assert_allclose(steps[0], steps[1], atol=4 * math.sqrt(2 * 60 * 0.25 / 250))
    np.testing.assert_allclose(steps[0], 30.0, atol=4 * math.sqrt(60 * 0.25 / 250))


def test_delays_of_data_without_a_time_are_in_patients() -> None:
    arms, rewards = ["a", "b"] * 10, [0.0, 1.0] * 10
    outcomes = Resampled(Log.from_arrays(arms, rewards=rewards, waits=[6.0] * 20))
    found = trial.design(outcomes=outcomes, patients=50, accrual=2, stop="never", simulations=10)
    assert float(found.fixed.alternative.time.mean) == 28.0
    assert found.as_dict()["unit"] == "unit of time"
    at_once = Resampled(Log.from_arrays(arms, rewards=rewards))
    found = trial.design(outcomes=at_once, patients=50, accrual=2, stop="never", simulations=10)
    assert float(found.fixed.alternative.time.mean) == 25.0


def test_arms_are_named_by_their_labels(outcomes: Resampled) -> None:
    found = trial.design(outcomes=outcomes, patients=60, accrual=2, stop="never", simulations=20)
    assert "(new)" in found.verdict
    assert repr(found) == "Design(guarded; outcomes and delays as in a log; 60 patients, 20 simulations)"
    assert found.plan.world.rates_text == "success rates old 0.3, new 0.5, other 0.4"
    shown = found.as_dict()
    assert (shown["arms"], shown["delay"]) == (["old", "new", "other"], "delays as in a log")
    assert shown["rates"] == pytest.approx([0.3, 0.5, 0.4])
    early = trial.design(outcomes=outcomes, patients=60, simulations=20)
    assert all(each in early.verdict for each in ("(new)", "33 %"))
    assert trial.design([0.3, 0.5], 20, simulations=2).as_dict()["arms"] is None


def test_tables_have_a_row_for_each_arm_and_say_who_beats_the_control(outcomes: Resampled) -> None:
    found = trial.design(outcomes=outcomes, patients=200, control="new", stop="never", simulations=50)
    _, *rows = arm_rows(found)
    assert [row[0] for row in rows] == ["new (control, best)", "old", "other"] * 2
    assert [row[1] for row in rows[:3]] == ["50.0", "30.0", "40.0"]
    for each, shown in zip(found.designs, (rows[:3], rows[3:]), strict=True):
        assert [row[2] for row in shown] == [points(share) for share in each.alternative.shares]
        assert [row[3] for row in shown] == [points(bias) for bias in each.alternative.bias]
    found = trial.design(outcomes=outcomes, patients=200, stop="never", simulations=50)
    header, *rows = analysis_rows(found)
    assert header[-3:] == ["beats control, %", "falsely, %", "patients"]
    analyses = [analysis for each in found.designs for analysis in each.analyses]
    for row, analysis in zip(rows, analyses, strict=True):
        assert row[-3:-1] == [percent(analysis.beats), percent(analysis.beats_error)]
    two = analysis_rows(trial.design([0.3, 0.5], 20, simulations=2))
    assert "beats control, %" not in two[0]


def test_another_order_of_arms_of_different_sizes() -> None:
    """One patient of a, three of b, two of c; delays are in patients, and tell where an outcome is from."""
    log = Log.from_arrays(["a", "b", "b", "c", "b", "c"], rewards=[1, 0, 1, 0, 0, 1], waits=[10, 20, 21, 30, 22, 31])
    moved = Resampled(log).led_by("c")
    assert (moved.labels, moved.counts.tolist()) == (("c", "a", "b"), [2, 1, 3])
    assert moved.means.tolist() == pytest.approx([0.5, 0.0, 2 / 3])
    _, losses, delays = moved.fill_with_delays(np.random.default_rng(0), np.arange(1, 200))
    for arm, pairs in enumerate(({(1, 30), (0, 31)}, {(0, 10)}, {(1, 20), (0, 21), (1, 22)})):
        assert set(zip(losses[:, arm].tolist(), delays[:, arm].tolist(), strict=True)) == pairs


def test_labels_that_are_numbers_may_be_written() -> None:
    outcomes = Resampled(Log.from_arrays([7, 8, 7, 8], rewards=[0.0, 1.0, 1.0, 1.0]))
    for control in (8, "8"):
        assert Observed(outcomes, control).labels == ("8", "7")


def test_with_two_arms_who_wins_beats_the_control() -> None:
    """By bets the control alone is beaten sooner: its rival was named beforehand, so nothing is shared with the tie."""
    found = trial.design([0.3, 0.55], 120, simulations=300, look_every=10)
    for trials in found.trials:
        for name in ("calibrated", "naive"):
            np.testing.assert_array_equal(trials.beats[name], trials.winners[name] == 1, err_msg=name)
        for name in ("randomisation", "betting"):
            assert trials.beats[name][trials.winners[name] == 1].all()
            assert trials.beats[name].sum() >= (trials.winners[name] == 1).sum()


def test_two_good_arms_beat_the_control_though_neither_wins() -> None:
    """Rates 0.3, 0.6 and 0.6001: one of the two is seldom shown to be the better."""
    found = trial.design([0.3, 0.6, 0.6001], 300, stop="never", simulations=200)
    for name in ("betting", "calibrated", "naive"):
        analysis = found.fixed.analysis(name)
        assert float(analysis.power.mean) < 0.3
        assert float(analysis.beats.mean) > 0.7
        assert float(analysis.beats_error.mean) <= (0.05 if name != "naive" else 0.1)
    assert 0.03 < float(found.adaptive.analysis("calibrated").beats_error.mean) <= 0.05


def with_(**changes: Any) -> Log:
    """A log with something changed; wait: how many decisions later the last outcome came."""
    given: dict[str, Any] = {
        "arms": ["a", "b", "a", "b"],
        "rewards": [0.0, 1.0, 1.0, 1.0],
        "waits": [1.0, 1.0, 1.0, 1.0],
    } | changes
    return Log.from_arrays(given["arms"], rewards=given["rewards"], waits=given["waits"])


def half() -> Resampled:
    return Resampled(with_(rewards=[0.0, 0.25, 1.0, 0.5]))


def lost() -> Resampled:
    return Resampled(with_(rewards=[0.0, 1.0, 1.0, math.nan], waits=[1.0, 1.0, 1.0, math.inf]), missing_loss=1.0)


WRONG: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({}, (), "rates"),
    ({"rates": [0.1, 0.2], "outcomes": Resampled(with_())}, ("[0.1, 0.2]",), "rates"),
    ({"delay": 0, "outcomes": Resampled(with_())}, ("0",), "delay"),
    ({"rates": [0.1, 0.2], "control": "a"}, ("a",), "control"),
    ({"outcomes": Resampled(with_()), "control": "c"}, ("c",), "control"),
    ({"outcomes": "bernoulli:means=[0.1,0.2]"}, (), "outcomes"),
    ({"outcomes": half()}, ("2", "0", "1", "0.25"), "outcomes"),
    ({"outcomes": lost()}, (), "outcomes"),
    ({"outcomes": Resampled(log_of(), accrual=5.0)}, ("5",), "outcomes"),
    ({"outcomes": Public("actg175", accrual=0.5)}, ("0.5",), "outcomes"),
    ({"outcomes": Resampled(with_(rewards=[1.0] * 4))}, ("1",), "outcomes"),
    (
        {"outcomes": Resampled(log_of({"a": 0.2, "b": 0.5, "c": 0.5}, None))},
        ("0.2", "0.5"),
        "outcomes",
    ),
]


@pytest.mark.parametrize(("given", "message", "field"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_cannot_be_right_is_refused(given: dict[str, Any], message: tuple[str, ...], field: str) -> None:
    with refused(field, *message):
        trial.design(**given, patients=20, simulations=2)


def test_how_many_patients_must_be_said() -> None:
    with refused("patients", "None"):
        trial.design([0.2, 0.3])


def test_another_accrual_is_another_delay_and_nothing_else(outcomes: Resampled) -> None:
    fast = outcomes.at(3.0)
    assert outcomes.durations is not None
    assert fast.waits.tolist() == (3 * outcomes.durations).tolist()
    assert fast.losses is outcomes.losses
    assert fast.digest != outcomes.digest
    assert fast.at(1.0).digest == outcomes.at(1.0).digest
    some = Resampled(log_of(), accrual=0.3)  # 2 days are 0.6 patients: one, rounded up
    assert sorted(set(some.waits)) == [1, 2, 3, 6, 15, 21]
    assert (some.waits == outcomes.at(0.3).waits).all()


@pytest.mark.skipif(missing("actg175") is not None, reason=missing("actg175") or "")
def test_public_data() -> None:
    """Two years are 730 patients: with 60 patients, who come within two months, nobody profits from a success."""
    found = trial.design(
        outcomes="public:data=actg175", patients=60, stop="never", simulations=20, control="didanosine"
    )
    assert found.as_dict()["arms"][0] == "didanosine"
    assert found.as_dict()["unit"] == "day"
    assert found.plan.world.delay.title == "delays as in actg175"
    assert found.plan.world.labels[found.plan.world.best] == "zidovudine + zalcitabine"
    assert float(found.fixed.alternative.time.mean) == pytest.approx(60 + 730, abs=1)
    assert Assumed([0.1, 0.2]).unit == "unit of time"
