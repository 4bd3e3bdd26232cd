"""The answer to which arm wins, in the parts that pages show."""

from dataclasses import replace

import numpy as np
import pytest

from belated import inference
from belated.inference import Estimates
from belated.inference.level import Movement
from belated.inference.randomisation import OPEN, PLAIN
from belated.logs import Log
from belated.service.answers import MOST_CANDIDATES, answer


def played(rates: list[float], decisions: int, **options: object) -> Estimates:
    """Arms that are drawn with the same probability, with rewards at these rates."""
    rng = np.random.default_rng(2)
    arms = rng.integers(len(rates), size=decisions)
    rewards = (rng.random(decisions) < np.array(rates)[arms]).astype(float)
    names = [f"arm-{k}" for k in range(len(rates))]
    log = Log.from_arrays(
        [names[k] for k in arms], rewards, propensities=np.full(decisions, 1 / len(rates)), labels=names
    )
    return inference.estimates(log, floor=1 / len(rates), **options)  # type: ignore[arg-type]


def test_while_nothing_is_known_there_is_a_headline_only() -> None:
    found = answer(inference.estimates(Log.from_arrays([], [], labels=["a", "b"])))
    assert found.headline
    assert found.progress is None
    assert not any((found.meaning, found.candidates, found.remaining, found.named, found.level, found.ruled_out))


def test_an_open_question_has_its_evidence_and_its_candidates() -> None:
    found = played([0.5, 0.55], 400)
    shown = answer(found)
    assert (shown.headline, shown.meaning, shown.remaining) == (found.headline, PLAIN, found.remaining)
    assert found.progress is not None
    assert shown.progress == int(100 * found.progress)
    assert shown.remaining in found.outlook
    assert shown.candidates == ""  # the headline names both
    assert PLAIN not in shown.notes
    assert answer(replace(found, average="open")).meaning == OPEN
    assert answer(replace(found, progress=0.9999)).progress == 99  # all of it is for an arm that wins
    assert answer(replace(found, progress=None)).progress is None


def test_arms_are_ruled_out_one_by_one() -> None:
    found = answer(played([0.9, 0.1, 0.88], 2000))
    assert found.ruled_out == ["arm-1"]
    retired = replace(played([0.9, 0.1, 0.88], 2000), retired=("arm-1",))
    assert answer(retired).ruled_out == []


@pytest.mark.parametrize(("arms", "named"), [(5, 0), (6, 6), (MOST_CANDIDATES, MOST_CANDIDATES), (40, MOST_CANDIDATES)])
def test_many_candidates_are_named_apart(arms: int, named: int) -> None:
    found = played([0.5] * arms, 50 * arms)
    assert len(found.candidates) == arms
    names = answer(found).candidates
    assert names.count("arm-") == named
    assert (f" {arms - MOST_CANDIDATES} " in names) == (arms > MOST_CANDIDATES)
    if named:
        assert names.split(",")[0] == found.leader


def test_an_arm_that_wins_needs_no_more() -> None:
    found = played([0.9, 0.1], 1000)
    shown = answer(found)
    assert found.winner == "arm-0"
    assert found.named is not None
    assert (shown.progress, shown.candidates, shown.remaining, shown.named) == (None, "", "", "")
    assert shown.ruled_out == ["arm-1"]
    assert "arm-1" in answer(replace(found, named=("arm-1", 1234))).named
    later = answer(replace(found, winner=None, progress=0.5))
    assert "arm-0" in later.named
    assert f"{found.named[1]:,}" in later.named


def test_betting_says_its_condition_and_other_outcomes_their_assumptions() -> None:
    betting = played([0.5, 0.6], 400, method="betting")
    assert betting.average == "same"
    assert answer(betting).meaning not in ("", PLAIN, OPEN)
    assert answer(betting).notes == list(betting.notes)
    arrived = played([0.5, 0.6], 400, outcomes="arrived")
    assert set(arrived.assumptions[1:]) <= set(answer(arrived).notes)


def test_a_level_that_moves_is_said_once() -> None:
    found = replace(played([0.5, 0.6], 400), movement=Movement(64, (0.2, 0.8)))
    shown = answer(replace(found, notes=(*found.notes, answer(found).level)))
    assert "64" in shown.level
    assert shown.level not in shown.notes
