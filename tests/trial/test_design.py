"""Designs against what is known in closed form, and what the measures must do."""

import math
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from belated import trial
from belated.simulation.intervals import mean_interval
from belated.trial.measures import share_interval
from belated.trial.plan import Plan
from belated.trial.world import Assumed
from support.refusals import refused

CRITICAL = 1.6448536
RUNS = 600


@pytest.fixture(scope="module")
def plain() -> trial.Design:
    """No stopping, no delay."""
    return trial.design([0.3, 0.5], 148, stop="never", learner="thompson", simulations=RUNS)


@pytest.fixture(scope="module")
def looked() -> trial.Design:
    """Looked at after every five patients; outcomes take a while; the third arm is by far the best."""
    rates, delay = [0.2, 0.3, 0.9], "geometric:mean=4"
    return trial.design(rates, 120, accrual=2.0, delay=delay, share_floor=0.2, look_every=5, simulations=250)


def binomial(n: int, p: float) -> np.ndarray:
    k = np.arange(n + 1)
    choose = np.array([math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) for j in k.tolist()])
    return np.exp(choose + k * math.log(p) + (n - k) * math.log1p(-p))


def exact(n: int, p: float, q: float) -> float:
    """P(the z-test finds the arm with rate q better than that with rate p), n patients by fair coins."""
    total = 0.0
    for first, weight in enumerate(binomial(n, 0.5).tolist()):
        second = n - first
        if min(first, second) < 5:
            continue
        x, y = np.arange(first + 1)[:, None], np.arange(second + 1)[None, :]
        pooled = (x + y) / n
        error = np.sqrt(pooled * (1 - pooled) * (1 / first + 1 / second))
        wins = (y / second - x / first >= CRITICAL * error) & (y / second > x / first)
        total += weight * float((binomial(first, p)[:, None] * binomial(second, q)[None, :] * wins).sum())
    return total


def test_the_fixed_design_is_that_of_the_closed_form(plain: trial.Design) -> None:
    """Power and error of the z-test with fair coins, summed over all outcomes; margins of four standard errors."""
    naive = plain.fixed.analysis("naive")
    power, error = exact(148, 0.3, 0.5), exact(148, 0.3, 0.3)
    assert float(naive.power.mean) == pytest.approx(power, abs=4 * math.sqrt(power * (1 - power) / RUNS))
    assert float(naive.treatment_error.mean) == pytest.approx(error, abs=4 * math.sqrt(error * (1 - error) / RUNS))
    # to either side, since either arm may win
    assert float(naive.error.mean) == pytest.approx(2 * error, abs=4 * math.sqrt(2 * error * (1 - 2 * error) / RUNS))
    assert (abs(power - 0.807) < 0.005, abs(error - 0.051) < 0.002) == (True, True)


def test_a_published_row(plain: trial.Design) -> None:
    """Villar, Bowden & Wason 2015 (Statistical Science 30(2)), two arms, n = 148, fixed randomisation.

    Recalled, not looked up: expected successes 44.34 (null) and 59.17 (rates 0.3 and 0.5), half of the patients on each
    arm, power 0.809, error 0.052. They agree with 148 * 0.3 = 44.4, 148 * 0.4 = 59.2 and with the sum over all outcomes
    (0.807 and 0.051). Margins are four standard errors, and as much again for the paper's own.
    """
    fixed = plain.fixed
    naive = fixed.analysis("naive")
    assert float(fixed.null.successes.mean) == pytest.approx(44.34, abs=8 * math.sqrt(148 * 0.21 / RUNS))
    assert float(fixed.alternative.successes.mean) == pytest.approx(59.17, abs=8 * math.sqrt(148 * 0.24 / RUNS))
    assert float(fixed.alternative.best_share.mean) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(148 * RUNS))
    assert float(naive.power.mean) == pytest.approx(0.809, abs=8 * math.sqrt(0.809 * 0.191 / RUNS))
    assert float(naive.treatment_error.mean) == pytest.approx(0.052, abs=8 * math.sqrt(0.052 * 0.948 / RUNS))


def test_successes_are_what_the_shares_promise(plain: trial.Design) -> None:
    """Within four standard errors of a mean of so many binomials."""
    margin = 4 * math.sqrt(148 / 4 / RUNS)
    for each in plain.designs:
        shares = [float(share.mean) for share in each.alternative.shares]
        assert sum(shares) == pytest.approx(1.0)
        expected = 148 * (0.3 * shares[0] + 0.5 * shares[1])
        assert float(each.alternative.successes.mean) == pytest.approx(expected, abs=margin)
        assert float(each.alternative.success_rate.mean) == pytest.approx(expected / 148, abs=margin / 148)
        assert float(each.null.successes.mean) == pytest.approx(148 * 0.3, abs=margin)
        assert float(each.alternative.best_share.mean) == pytest.approx(shares[1])
        assert float(each.alternative.best_patients.mean) == pytest.approx(148 * shares[1])
    gain = float(plain.adaptive.alternative.successes.mean - plain.fixed.alternative.successes.mean)
    assert float(plain.more_successes.mean) == pytest.approx(gain)
    assert float(plain.more_success_rate.mean) == pytest.approx(gain / 148)
    assert 5.0 < gain < 14.8
    more = float(plain.adaptive.alternative.best_patients.mean - plain.fixed.alternative.best_patients.mean)
    assert float(plain.more_on_best.mean) == pytest.approx(more)


def test_quantiles_of_the_share_on_the_best_arm(plain: trial.Design) -> None:
    """With fair coins 0.5 -+ 1.28 * 0.5 / sqrt(148) = 0.447 and 0.553, whole patients of 148 apart."""
    found = plain.fixed.alternative
    assert [found.best_low, found.best_high] == pytest.approx([0.447, 0.553], abs=0.008)
    adaptive = plain.adaptive.alternative
    assert adaptive.best_low < float(adaptive.best_share.mean) < adaptive.best_high


def test_adaptation_costs_power_and_biases_estimates(plain: trial.Design) -> None:
    """The arm that does badly at first is left, and stays where it was: the control's rate is underestimated."""
    adaptive, fixed = plain.adaptive, plain.fixed
    assert float(adaptive.analysis("calibrated").power.high) < float(fixed.analysis("calibrated").power.low)
    assert float(adaptive.alternative.bias[0].high) < -0.01
    assert float(adaptive.alternative.difference_bias.low) > 0.005
    for bias in (*fixed.alternative.bias, *fixed.null.bias, fixed.alternative.difference_bias):
        assert abs(float(bias.mean)) < 2.1 * float(bias.high - bias.mean)  # four standard errors
    truths = [float(each.bias[0].mean) for each in (adaptive.alternative, adaptive.null)]
    assert truths[1] < 0.0  # under the null, too, against the null's own rate


def test_the_difference_in_power_allows_for_the_critical_values(plain: trial.Design) -> None:
    """Its mean is that of the powers; its interval is wider than that of the trials alone,
    but not by far."""
    powers = [float(each.analysis("calibrated").power.mean) for each in plain.designs]
    mean, low, high = (float(end) for end in plain.more_power)
    assert mean == pytest.approx(powers[0] - powers[1])
    found = [np.isin(each.winners["calibrated"], (1,)).astype(float) for each in plain.trials]
    alone = mean_interval(found[0] - found[1])
    assert 1.1 * float(alone.high - alone.low) < high - low < 4 * float(alone.high - alone.low)
    assert plain.as_dict()["difference"]["power"] == {"mean": mean, "low": low, "high": high}


def test_errors_are_what_they_are_called(plain: trial.Design) -> None:
    for each in plain.designs:
        bets, betting, calibrated, naive = each.analyses
        names = ["randomisation", "betting", "calibrated", "naive"]
        assert [analysis.name for analysis in each.analyses] == names
        assert float(bets.error.mean) <= 0.05
        assert float(betting.error.mean) <= 0.05
        assert 0.04 < float(calibrated.treatment_error.mean) <= 0.05  # fewer where many trials have the same statistic
        for analysis in (bets, betting, calibrated, naive):
            assert float(analysis.treatment_error.mean) <= float(analysis.error.mean)
            assert float(analysis.patients.mean) == 148.0
    errors = plain.adaptive.analysis("naive").treatment_error
    assert float(errors.low) > 0.05
    assert f"{100 * float(errors.mean):.1f} %" in plain.verdict


def test_betting_keeps_its_level_where_it_often_wins() -> None:
    """At most alpha = 0.2, and a standard error: 0.2 + sqrt(0.2 * 0.8 / 300) = 0.223. Looks after every patient."""
    found = trial.design([0.5, 0.95], 100, alpha=0.2, look_every=1, simulations=300)
    for each in found.designs:
        assert float(each.analysis("betting").power.mean) > 0.5
        assert float(each.analysis("betting").error.mean) < 0.223


def test_peeking_errs_far_more_than_alpha() -> None:
    """One look after another with the z-test, under the null: more than 0.15 for a treatment alone, against 0.05."""
    found = trial.design([0.4, 0.6], 200, look_every=5, simulations=200)
    for each in found.designs:
        peeking = each.analysis("peeking")
        assert float(peeking.treatment_error.low) > 0.1
        assert float(peeking.error.low) > 0.2
        assert float(peeking.patients.mean) < 150
    assert float(found.fixed.analysis("naive").treatment_error.low) < 0.05


def test_a_trial_stops_when_an_arm_wins(looked: trial.Design) -> None:
    for each, trials in zip(looked.designs, looked.trials, strict=True):
        winners = trials.winners["randomisation"]
        stopped = trials.patients < 120
        assert stopped.mean() > 0.2
        assert (winners[stopped] == 2).all()
        assert (trials.patients % 5 == 0).all()
        assert (trials.time[stopped] == trials.patients[stopped] / 2.0).all()
        assert (trials.time[~stopped & (winners < 0)] > 60.0).all()  # all outcomes are waited for
        assert float(each.alternative.patients.mean) == trials.patients.mean() < 119
        assert float(each.alternative.stopped.mean) == stopped.mean()
        assert float(each.analysis("randomisation").patients.mean) == trials.patients.mean()
        assert float(each.alternative.successes.mean) == trials.successes.sum(axis=1).mean()
        assert (trials.successes <= trials.enrolled).all()
        assert float(each.null.stopped.mean) < 0.05


def test_nothing_is_learned_where_outcomes_come_after_the_last_patient() -> None:
    """2 patients a day and 75 days are 150 patients: half of them on the best arm, as with coins, four standard errors.
    At 74 days the last patient is the first to profit, at 30 days many are.
    """
    shares = {}
    for days in (75, 30):
        found = trial.design([0.2, 0.8], 150, accrual=2, delay=days, stop="never", learner="ucb", simulations=100)
        shares[days] = float(found.adaptive.alternative.best_share.mean)
        assert float(found.adaptive.alternative.time.mean) == 75 + days
    assert shares[75] == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(150 * 100))
    assert shares[30] > 0.65


def test_results_do_not_depend_on_threads() -> None:
    settings: dict[str, Any] = {"simulations": 30, "delay": "geometric:mean=3", "seed": 3}
    one, three = (trial.design([0.2, 0.4, 0.9], 60, threads=threads, **settings) for threads in (1, 3))
    assert one.as_dict() == three.as_dict()
    for a, b in zip(one.trials, three.trials, strict=True):
        np.testing.assert_array_equal(a.z, b.z)
    other = trial.design([0.2, 0.4, 0.9], 60, **settings | {"seed": 4})
    assert other.as_dict()["designs"] != one.as_dict()["designs"]


def test_a_floor_is_a_setting_of_the_learner() -> None:
    """Every arm gets at least a tenth, over many trials: four standard errors below."""
    found = trial.design([0.1, 0.9], 100, learner="thompson", share_floor=0.1, stop="never", simulations=200)
    assert found.plan.tuned.label == "thompson:share_floor=0.1"
    least = float(found.adaptive.alternative.shares[0].mean)
    assert 0.1 - 4 * math.sqrt(0.09 / (100 * 200)) < least < 0.2


def test_the_best_arm_may_be_the_control() -> None:
    found = trial.design([0.9, 0.2, 0.3], 60, stop="never", simulations=50)
    assert (found.plan.world.best, found.plan.world.compared) == (0, 2)
    assert float(found.fixed.analysis("naive").power.mean) > 0.8
    assert float(found.adaptive.alternative.best_share.mean) > 0.5


def test_an_arm_that_is_not_the_best_may_win() -> None:
    """Arms 1 and 2 are nearly the same: where one of them wins, it is the wrong one in about half of the trials."""
    found = trial.design([0.1, 0.899, 0.9], 100, stop="never", alpha=0.5, simulations=200)
    naive = found.fixed.analysis("naive")
    assert 0.25 < float(naive.wrong.mean) / float(naive.power.mean + naive.wrong.mean) < 0.75
    assert float(naive.power.mean) > 0.1


def test_learners_that_are_told_something_are_marked() -> None:
    found = trial.design([0.2, 0.9], 30, stop="never", learner="exp3_fixed", simulations=5)
    assert found.adaptive.name == "exp3_fixed†"
    assert found.as_dict()["told"] == list(found.plan.tuned.informed) != []


def test_one_simulation_has_no_intervals() -> None:
    found = trial.design([0.2, 0.9], 4, simulations=1).as_dict()
    measures = found["designs"][0]["alternative"]
    assert measures["successes"]["low"] is None
    assert found["verdict"]


def test_an_arm_that_nobody_got_has_no_estimate() -> None:
    """One of two patients: some simulations have no patient on an arm, and are left out of its bias."""
    found = trial.design([0.0, 1.0], 2, simulations=20, stop="never")
    assert [float(each.mean) for each in found.fixed.alternative.bias] == [0.0, 0.0]
    once = trial.design([0.0, 1.0], 2, simulations=1, stop="never", seed=1)
    empty = [each for each in once.designs if float(each.alternative.best_share.mean) in (0.0, 1.0)]
    for each in empty:
        assert None in [entry["mean"] for entry in each.as_dict()["alternative"]["bias"]]
    assert empty


def test_wilson_by_hand() -> None:
    """2 of 10, z = 1.96: from 0.0567 to 0.5098; none of 10: from 0 to 0.2775."""
    two, none = (share_interval(np.arange(10) < count) for count in (2, 0))
    assert [float(end) for end in two] == pytest.approx([0.2, 0.0567, 0.5098], abs=1e-4)
    assert [float(end) for end in none] == pytest.approx([0.0, 0.0, 0.2775], abs=1e-4)
    assert float(share_interval(np.ones(10, dtype=bool)).high) == 1.0


WRONG: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({"rates": [0.3]}, ("1",), "arms"),
    ({"rates": [0.3, 1.2]}, ("1.2",), "rates[1]"),
    ({"rates": "0.3"}, ("0.3",), "rates"),
    ({"rates": [0.3, 0.3]}, ("[0.3, 0.3]",), "rates"),
    ({"rates": [0.3, 0.5, 0.5]}, ("0.5",), "rates"),
    ({"patients": 1}, ("1",), "patients"),
    ({"patients": 10.5}, ("10.5",), "patients"),
    ({"accrual": 0}, ("0",), "accrual"),
    ({"accrual": math.inf}, ("inf",), "accrual"),
    ({"delay": "geometrical"}, ("geometrical", "geometric"), "delay"),
    ({"delay": "recorded:delays=[1,2]"}, ("50",), ""),
    ({"learner": "tompson"}, ("tompson", "thompson"), "learner"),
    ({"share_floor": 0.6}, ("0.6",), "share_floor"),
    ({"share_floor": -0.1}, ("-0.1",), "share_floor"),
    ({"stop": "wins"}, ("wins",), "stop"),
    ({"look_every": 0}, ("0",), "look_every"),
    ({"look_every": 51}, ("51",), "look_every"),
    ({"look_every": 5, "stop": "never"}, ("never", "5"), "look_every"),
    ({"alpha": 0.0}, ("0.0",), "alpha"),
    ({"alpha": 0.51}, ("0.51",), "alpha"),
    ({"alpha": True}, ("True",), "alpha"),
    ({"simulations": 0}, ("0",), "simulations"),
    ({"seed": -1}, ("-1",), "seed"),
    ({"threads": 0}, ("0",), "threads"),
]


@pytest.mark.parametrize(("given", "message", "field"), WRONG, ids=[str(given) for given, _, _ in WRONG])
def test_what_cannot_be_right_is_refused(given: dict[str, Any], message: tuple[str, ...], field: str) -> None:
    settings: dict[str, Any] = {"rates": [0.3, 0.5], "patients": 50, "simulations": 2} | given
    with refused(field or None, *message):
        trial.design(settings.pop("rates"), settings.pop("patients"), **settings)


def test_what_a_prompt_and_a_notebook_show(looked: trial.Design) -> None:
    text = (
        "Design(guarded:share_floor=0.2; rates 0.2, 0.3, 0.9; geometric delays, mean 4; 120 patients, 250 simulations)"
    )
    assert repr(looked) == text
    assert text in looked._repr_html_()
    header, adaptive, fixed = looked.rows()
    assert (adaptive[0], fixed[0], len(header)) == ("guarded:share_floor=0.2", "fixed randomisation", len(adaptive))
    shares = [f"{100 * float(share.mean):.0f}" for share in looked.fixed.alternative.shares]
    assert fixed[header.index("by arm, %")] == " / ".join(shares)
    assert adaptive[header.index("patients")] == looked.adaptive.alternative.patients.text
    with pytest.raises(StopIteration):
        looked.adaptive.analysis("best")


def test_the_figure_shows_the_numbers(looked: trial.Design) -> None:
    before = mpl.get_backend()
    mpl.use("svg")
    try:
        axes = looked.plot()
        shares = axes[0].get_lines()[0].get_ydata()
        assert shares[0] == pytest.approx(100 / 3, abs=8.0)  # 250 trials of two or three patients
        assert shares[-1] > 50.0
        drawn = [line.get_xdata()[0] for line in axes[2].get_lines() if line.get_marker() == "o"]
        expected = [
            100 * float(each) for a in looked.adaptive.analyses for each in (a.power.mean, a.treatment_error.mean)
        ]
        assert drawn == pytest.approx(expected)
        heights = [patch.get_data().values.sum() for patch in axes[1].patches[::2]]
        assert heights == pytest.approx([100.0, 100.0])
    finally:
        mpl.pyplot.close("all")
        mpl.use(before)


def test_without_matplotlib_the_extra_is_named(looked: trial.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused(None, "belated[plots]", error=ImportError):
        looked.plot()


def test_a_plan_says_what_it_looks_at() -> None:
    plan = Plan(Assumed([0.3, 0.5, 0.4]), 10)
    assert (plan.world.null().rates, plan.world.best, plan.world.compared, plan.world.n_arms) == (
        (0.3, 0.3, 0.3),
        1,
        1,
        3,
    )
