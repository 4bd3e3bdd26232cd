"""The lemma `count` sees every wrong count of outstanding decisions, negative ones among them."""

import dataclasses

import numpy as np
import pytest

from belated.audit import audit
from belated.audit.lemmas import Run, counts, growth
from belated.bounds.waiting import Waiting
from support.audited import broken, played, spoiled


def with_count(run: Run, place: int, count: int) -> Run:
    outstanding = spoiled(run.waiting.outstanding, place, count)
    return dataclasses.replace(run, waiting=dataclasses.replace(run.waiting, outstanding=outstanding))


@pytest.mark.parametrize("count", [-1, -5])
def test_a_negative_count_breaks_count_alone(count: int) -> None:
    run = played()[0].run
    true = int(run.waiting.outstanding[-1])
    doctored = with_count(run, -1, count)
    assert counts(run).measured == 0.0
    assert counts(doctored).measured == true - count
    assert growth(doctored) == growth(run)
    with np.errstate(over="ignore"):  # other lemmas take it for granted that counts are not negative
        assert broken(audit._worst([doctored])) == {"count"}


@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("error", [-1, 1])
def test_a_count_off_by_one_anywhere_is_seen(place: int, error: int) -> None:
    """Seven rounds, by hand. The decision of round 2 is skipped at the end of round 5; that of round 6 never comes."""
    waiting = Waiting(
        outstanding=np.array([0, 1, 1, 2, 1, 0, 1]),
        patience=np.full(7, 3.0),
        ended=np.array([2, 5, 4, 4, 5, 0, 7]),
        skipped=np.array([False, True, False, False, False, False, False]),
    )
    run = Run(2, waiting, np.ones(7), waiting.waited, 49.0)
    assert counts(run).measured == 0.0
    assert counts(with_count(run, place, int(waiting.outstanding[place]) + error)).measured == 1.0
