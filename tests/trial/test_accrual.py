"""Delays in time become delays in patients."""

import numpy as np
import pytest

from belated.delays import NEVER, Delays
from belated.trial.accrual import InPatients
from support.refusals import refused

ROUNDS = np.arange(1, 9)


def filled(delay: object, accrual: float, rounds: np.ndarray = ROUNDS) -> list[object]:
    law = InPatients(Delays.find(delay), accrual)
    return law.fill(np.random.default_rng(0), rounds).tolist()


@pytest.mark.parametrize(
    ("days", "accrual", "patients"),
    [(30, 2.0, 60), (100, 1.1, 110), (30, 0.1, 3), (3, 0.5, 2), (1, 0.25, 1), (0, 7.0, 0), (2, 1.5, 3), (7, 1.0, 7)],
)
def test_a_delay_takes_as_many_patients_as_come_meanwhile(days: int, accrual: float, patients: int) -> None:
    """Rounded up: what comes at the same time as a patient is not yet known when he is decided on."""
    assert filled(days, accrual) == [patients] * 8


def test_random_delays_are_those_of_the_law_times_the_accrual() -> None:
    law = Delays.find("geometric:mean=10")
    times = law.fill(np.random.default_rng(0), np.arange(1, 1001))
    assert filled("geometric:mean=10", 3.0, np.arange(1, 1001)) == (3 * times).tolist()
    assert times.max() > 30


def test_delays_by_outcome_and_by_arm_keep_their_columns() -> None:
    assert filled("byloss:good=2,bad=5", 2.0) == [[4, 10]] * 8
    assert InPatients(Delays.find("byloss:good=2,bad=5"), 2.0).by == "loss"
    assert filled("byarm:laws=[1,2,3]", 2.0) == [[2, 4, 6]] * 8
    assert InPatients(Delays.find("byarm:laws=[1,2,3]"), 2.0).by == "arm"


def test_what_never_comes_never_comes() -> None:
    assert filled("never", 0.5) == [NEVER] * 8
    assert filled(2**61, 100.0) == [NEVER] * 8


def test_batches_are_released_by_the_calendar() -> None:
    """Every 2 days, 3 patients a day: after patients 6, 12, …"""
    assert filled("batches:every=2", 3.0) == [5, 4, 3, 2, 1, 0, 5, 4]
    assert filled("batches:every=3", 0.5, np.arange(1, 5)) == [1, 1, 0, 1]  # released after 1.5, 3, 4.5 patients


@pytest.mark.parametrize("spec", ["dropout:share=0.1,others=(batches:every=7)", "byloss:good=1,bad=(batches:every=7)"])
def test_batches_within_another_law_are_refused(spec: str) -> None:
    with refused("delay"):
        InPatients(Delays.find(spec), 2.0)


def test_what_it_says_of_itself() -> None:
    law = InPatients(Delays.find("geometric:mean=10"), 2.5)
    assert repr(law) == "InPatients(Geometric(mean=10), 2.5)"
    assert (law.longest, law.tail_index) == (None, np.inf)
    assert InPatients(Delays.find("recorded:delays=[1,2]"), 1.0).longest == 2
