"""Estimates in units of the user's own: values for means, signs by which end is better, and the words."""

import json
import math

import numpy as np
import polars
import pytest

from belated import Bandit
from belated.inference import Estimates, Log, course, estimates
from belated.logs.scale import Scale
from belated.report.estimates import arms_table, differences_table, draw_course
from support.refusals import refused

REVENUE = Scale(0, 200)
MINUTES = Scale(5, 45, better="lower")


def a_log(rounds: int = 1_500) -> Log:
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 3, rounds)
    return Log(("a", "b", "c"), arms, rng.beta(2, 4 - arms), np.full(rounds, 1 / 3))


def test_higher_is_better() -> None:
    plain, found = estimates(a_log(), control="a"), estimates(a_log(), control="a", scale=REVENUE)
    assert found == plain.in_units(REVENUE)
    for one, other in zip(plain.arms, found.arms, strict=True):
        assert tuple(other.mean) == pytest.approx([200 * each for each in one.mean])
    for first, second in zip(plain.differences, found.differences, strict=True):
        assert tuple(second.difference) == pytest.approx([200 * each for each in first.difference])
    for less, more in ((plain.uplift, found.uplift), (plain.uplift_to_control, found.uplift_to_control)):
        assert less is not None
        assert more is not None
        assert tuple(more) == pytest.approx([200 * each for each in less])
    assert (found.winner, found.p_value, found.verdict) == (plain.winner, plain.p_value, plain.verdict)
    assert plain.winner == "c"


def test_lower_is_better() -> None:
    plain, found = estimates(a_log(), control="a"), estimates(a_log(), control="a", scale=MINUTES)
    for one, other in zip(plain.arms, found.arms, strict=True):
        mean, low, high = one.mean
        assert tuple(other.mean) == pytest.approx([45 - 40 * mean, 45 - 40 * high, 45 - 40 * low])
        assert other.mean.low < other.mean.value < other.mean.high
    for first, second in zip(plain.differences, found.differences, strict=True):
        difference, low, high = first.difference
        assert tuple(second.difference) == pytest.approx([-40 * difference, -40 * high, -40 * low])
    assert found.winner == "c"
    assert found["c"].mean.value == min(each.mean.value for each in found.arms)
    assert [each.arm for each in found.ranked] == ["c", "b", "a"]
    assert found.uplift_to_control is not None
    assert found.uplift_to_control.high < 0  # fewer minutes


@pytest.mark.parametrize("scale", [REVENUE, MINUTES])
def test_the_verdict_stays(scale: Scale) -> None:
    """Also where it says which arms are better than the control."""
    for rounds in (60, 1_500):
        for control in ("a", "c"):
            plain = estimates(a_log(rounds), control=control)
            assert plain.in_units(scale).verdict == plain.verdict
    close = Log.from_arrays(["a", "b", "c"] * 300, [0.0, 1.0, 1.0] * 300)
    assert estimates(close, control="a", scale=scale).verdict == estimates(close, control="a").verdict


def test_values_are_what_was_measured() -> None:
    """Means in units are the means of the values themselves."""
    rng = np.random.default_rng(1)
    values = rng.uniform(5, 45, 400)
    arms = rng.integers(0, 2, 400)
    losses, clipped = MINUTES.losses(values)
    found = estimates(Log(("a", "b"), arms, 1 - losses, np.full(400, 0.5)), scale=MINUTES)
    assert not clipped.any()
    for k, each in enumerate(found.arms):
        assert each.mean.value == pytest.approx(values[arms == k].mean())


@pytest.mark.parametrize("scale", [REVENUE, MINUTES, Scale(-3, 0.1)])
def test_many_values_become_losses_as_one_does(scale: Scale) -> None:
    values = np.array([-10.0, -3.0, -0.0, 0.1, 4.999, 5.0, 30.3, 45.0, 199.9, 200.0, 1e300])
    losses, clipped = scale.losses(values)
    single = [scale.loss(value) for value in values.tolist()]
    assert losses.tolist() == [each.loss for each in single]
    assert clipped.tolist() == [each.clipped for each in single]
    losses, clipped = scale.losses(np.array([math.nan]))
    assert np.isnan(losses).all()
    assert not clipped.any()


def test_words_and_tables() -> None:
    found = estimates(a_log(), control="a", scale=MINUTES)
    assert "mean value" in found._repr_html_()
    assert "mean reward" not in found._repr_html_()
    for table in (arms_table(found), differences_table(found)):
        text = table.fit(100).text
        assert "mean value" in text
        assert "mean reward" not in text
    assert [line.split()[0] for line in arms_table(found).fit(100).text.splitlines()[-3:]] == ["c", "b", "a"]
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["scale"] == {"lowest": 5.0, "highest": 45.0, "better": "lower"}
    assert plain["arms"][0]["mean"]["low"] == found["a"].mean.low
    assert "scale" not in estimates(a_log()).as_dict()


def test_notes_speak_in_units() -> None:
    log = Log.from_arrays(["a", "b"] * 50, [1.0, None, 1.0, 0.0] * 25)
    late = estimates(log, deadline=10, missing_loss=0.25, scale=MINUTES)
    assert any("10" in note and " 15" in note for note in late.notes)
    bounded = estimates(log, outcomes="bounded", scale=MINUTES)
    assert any(all(each in note for each in ("5", "45", "25")) for note in bounded.notes)
    assert not any("loss" in note for note in (*late.notes, *bounded.notes))


def test_what_is_not_known_stays_so() -> None:
    found = estimates(Log.from_arrays([], [], labels=["a", "b"]), scale=MINUTES)
    assert [tuple(each.mean)[1:] for each in found.arms] == [(5.0, 45.0)] * 2
    assert math.isnan(found["a"].mean.value)
    assert found.uplift is None
    assert [each.arm for each in found.ranked] == ["a", "b"]
    one = estimates(Log.from_arrays(["b"], [0.5], labels=["a", "b"]), scale=MINUTES)
    assert [each.arm for each in one.ranked] == ["b", "a"]


def test_units_are_given_once() -> None:
    with refused("scale"):
        estimates(a_log(), scale=REVENUE).in_units(REVENUE)


def test_the_course_in_units() -> None:
    plain = course(a_log(), looks=8)
    higher, lower = plain.in_units(REVENUE), plain.in_units(MINUTES)
    np.testing.assert_allclose(higher.lows, 200 * plain.lows)
    np.testing.assert_allclose(lower.lows, 45 - 40 * plain.highs)
    np.testing.assert_allclose(lower.highs, 45 - 40 * plain.lows)
    np.testing.assert_allclose(lower.means, 45 - 40 * plain.means)
    for shown, label in ((plain, "mean reward"), (lower, "mean value")):
        axes = draw_course(shown).axes[0]
        assert axes.get_ylabel() == label
        assert axes.get_title().startswith(label.capitalize())
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["c", "b", "a"]
    bottom, top = axes.get_ylim()
    assert 5 <= bottom < lower.means[-1].min() < lower.means[-1].max() < top <= 45


def test_a_course_of_arms_that_come_is_drawn() -> None:
    log = Log.from_arrays(
        ["a", "b"] * 100 + ["a", "b", "c"] * 100,
        [0.0, 1.0] * 100 + [0.0, 1.0, 1.0] * 100,
        labels=["a", "b", "c"],
        changes=[(200, "c", True)],
    )
    axes = draw_course(course(log, looks=10)).axes[0]
    assert np.isfinite(axes.get_ylim()).all()
    assert len(axes.get_legend().get_texts()) == 3


def test_frames_of_values() -> None:
    values = [0.0, 150.0, 250.0, -10.0] * 25
    frame = polars.DataFrame({"variant": ["a", "b"] * 50, "revenue": values})
    found = estimates(frame, scale=REVENUE)
    assert isinstance(found, Estimates)
    assert found["a"].mean.value == 100.0  # 0, and 250 clipped to 200
    assert found["b"].mean.value == 75.0


def test_a_bandit_speaks_in_its_units() -> None:
    rng = np.random.default_rng(3)
    bandit = Bandit(["slow", "quick"], "uniform", seed=1, outcome=MINUTES)
    told: dict[str, list[float]] = {"slow": [], "quick": []}
    for _ in range(400):
        decision = bandit.decide()
        minutes = float(rng.uniform(25, 45) if decision.arm == "slow" else rng.uniform(5, 25))
        told[str(decision.arm)].append(minutes)
        bandit.observe(decision, value=minutes)
    found = bandit.estimates(control="slow")
    assert found.winner == "quick"
    assert found.scale == MINUTES
    for arm, minutes_of in told.items():
        assert found[arm].mean.value == pytest.approx(np.mean(minutes_of))
    assert found.differences[0].difference.high < 0
