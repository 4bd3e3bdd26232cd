"""What is known at each look, by hand."""

import numpy as np
import pytest

from belated.trial.course import follow, play, stacked, step_ends
from belated.trial.plan import Plan
from belated.trial.trials import analysed
from belated.trial.world import Assumed
from support.refusals import refused

EVEN = np.full((60, 2), 0.5)
"""Distributions of fixed randomisation."""


def test_a_trial_by_hand() -> None:
    """Six patients, looked at after every two. Patient 2's outcome comes with patient 5: until then one is settled."""
    plan = Plan(Assumed([0.3, 0.5]), 6, look_every=2)
    arms, successes = np.array([0, 1, 1, 0, 1, 0]), np.array([1, 1, 0, 0, 1, 1])
    found = follow(plan, arms, successes, np.array([0, 3, 0, 1, 1, 4]), EVEN[:6])
    assert plan.looks.tolist() == [2, 4, 6]
    assert found.known.tolist() == [
        [[0, 1], [0, 0]],  # after two: patient 1
        [[0, 1], [0, 0]],  # after four: still
        [[1, 1], [1, 2]],  # after six: all but the last, whose outcome comes later
        [[1, 2], [1, 2]],  # at the end
    ]
    assert found.enrolled.tolist() == [[1, 1], [2, 2], [3, 3], [3, 3]]
    assert found.successes.tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]
    assert found.complete.tolist() == [5, 5, 10, 10]
    assert found.steps.tolist() == [[0, 0], [1, 0], [1, 1], [1, 2], [2, 2], [2, 3], [3, 3]]


def test_an_outcome_that_comes_with_the_look_counts() -> None:
    plan = Plan(Assumed([0.3, 0.5]), 4, look_every=2)
    known = follow(plan, np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([1, 0, 1, 1]), EVEN[:4]).known
    assert known[:, 0, 1].tolist() == [2, 3, 4]


def test_without_looks_there_is_the_end_alone() -> None:
    plan = Plan(Assumed([0.3, 0.5]), 3, stop="never")
    found = follow(plan, np.array([0, 1, 1]), np.array([0, 1, 1]), np.array([0, 9, 0]), EVEN[:3])
    assert found.known.tolist() == [[[1, 0], [0, 2]]]
    assert found.complete.tolist() == [11]


@pytest.mark.parametrize(
    ("patients", "look_every", "looks"),
    [(150, None, range(2, 151, 2)), (40, None, range(1, 41)), (1000, None, range(10, 1001, 10)), (7, 3, [3, 6])],
)
def test_looks(patients: int, look_every: int | None, looks: range | list[int]) -> None:
    assert Plan(Assumed([0.3, 0.5]), patients, look_every=look_every).looks.tolist() == list(looks)


def test_steps_end_with_the_last_patient() -> None:
    assert step_ends(3).tolist() == [0, 1, 2, 3]
    assert (step_ends(1000)[[0, 1, -1]].tolist(), step_ends(1000).size) == ([0, 20, 1000], 51)


def test_time_is_that_of_the_win_or_of_the_last_outcome() -> None:
    """Ten patients a day. 60 of them, all successes on arm 1 and all failures on arm 0; outcomes take half a day."""
    plan = Plan(Assumed([0.1, 0.9]), 60, accrual=10.0, look_every=10)
    arms = np.arange(60) % 2
    wins = follow(plan, arms, arms, np.full(60, 5), EVEN)
    late = follow(plan, arms, arms, np.full(60, 100), EVEN)
    equal = follow(plan, arms, np.ones(60, dtype=np.int64), np.full(60, 5), EVEN)
    found = analysed(plan, stacked([wins, late, equal]))
    assert found.winners["betting"].tolist() == [1, 1, -1]
    assert found.patients.tolist() == [30, 60, 60]
    assert found.time.tolist() == [3.0, 16.0, 6.5]
    assert found.enrolled.tolist() == [[15, 15], [30, 30], [30, 30]]
    assert found.successes.tolist() == [[0, 15], [0, 30], [30, 30]]
    assert found.sizes["betting"].tolist() == [20, 60, 60]
    assert found.sizes["peeking"].tolist() == [20, 60, 60]  # at 10 there are 5 outcomes, too few
    assert found.sizes["naive"].tolist() == [60, 60, 60]
    assert {name: beats.tolist() for name, beats in found.beats.items()} == {
        "randomisation": [True, True, False],
        "betting": [True, True, False],
        "naive": [True, True, False],
        "peeking": [True, True, False],  # not yet at the first look
    }


def test_delays_by_outcome_are_those_of_the_outcome_that_came() -> None:
    plan = Plan(Assumed([0.3, 0.6], "byloss:good=1,bad=20"), 80, accrual=2.0, stop="never")
    for simulation in range(5):
        for found in play(plan, plan.job, simulation):
            failures, successes = found.known[0].sum(axis=0)
            assert (failures > 0, successes > 0, failures + successes) == (True, True, 80)
            assert 80 < found.complete[0] <= 120  # a failure among the last 38 patients takes 40


def test_a_learner_that_waits_does_not_make_outcomes_late() -> None:
    """`settled` is what the learner hears; the analysis has the outcomes when they come."""
    plan = Plan(Assumed([0.3, 0.6], 3), 40, learner="thompson:settled=30", look_every=10)
    adaptive, fixed = play(plan, plan.job, 0)
    assert adaptive.known.sum(axis=(1, 2)).tolist() == [7, 17, 27, 37, 40]
    assert fixed.known.sum(axis=(1, 2)).tolist() == [7, 17, 27, 37, 40]


@pytest.mark.parametrize("spec", ["never", "dropout:share=0.5,others=2", "byloss:good=1,bad=never"])
def test_outcomes_that_never_come_are_refused(spec: str) -> None:
    plan = Plan(Assumed([0.3, 0.6], spec), 40, stop="never")
    with refused("delay"):
        list(play(plan, plan.job, 0))
