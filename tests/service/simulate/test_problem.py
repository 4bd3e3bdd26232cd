"""Problems from experiments: delays in decisions, units, and the same from both databases."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from belated.api.types import OutcomeScale
from belated.environments import Resampled
from belated.ledger import open_ledger
from belated.ledger.events import SECOND, Event, ExperimentSettings, Kind
from belated.service.simulate.plan import Plan
from belated.service.simulate.problem import problem_of
from support.ledger_helpers import append, decision
from support.refusals import refused
from support.serving import KINDS, Stores

HOUR = 3600


def filled(store: str, outcome: OutcomeScale | None = None) -> str:
    """An experiment whose second arm is better: six decisions, an hour apart; outcomes take two to seven hours."""
    with closing(open_ledger(store)) as ledger:
        settings = ExperimentSettings("one", ["a", "b"], "balanced", {}, 7, "wait", outcome=outcome)
        record, _ = ledger.create(settings, 0, 10)
        events = [decision(k, k, at=k * HOUR * SECOND, arm=k % 2) for k in range(1, 7)]
        for k in range(1, 7):
            waited = (k + 1) * HOUR * SECOND
            loss = 0.25 if k % 2 else 0.75
            events.append(Event(6 + k, int(Kind.OUTCOME), 20 * HOUR * SECOND, k, f"d{k}", k % 2, None, loss, 1, waited))
        append(ledger, record.number, events)
        return ledger.address


@pytest.mark.parametrize("kind", KINDS)
def test_delays_are_turned_into_decisions(kind: str, tmp_path: Path) -> None:
    address = filled(Stores.fresh(kind, tmp_path))
    found = problem_of(Plan(100, None, experiment="one", store=address))
    assert found.a_day == pytest.approx(6 / 5 * 24)
    assert isinstance(found.environment, Resampled)
    assert found.environment.labels == ("a", "b")
    assert found.environment.means.tolist() == [0.75, 0.25]
    assert (found.best, found.unit, found.size, found.delays) == ("b", "of reward", 1.0, None)
    hours = np.array([3, 5, 7, 2, 4, 6])
    assert found.environment.waits.tolist() == np.ceil(hours * 6 / 5).tolist()
    faster = problem_of(Plan(100, 240.0, experiment="one", store=address))
    assert isinstance(faster.environment, Resampled)
    assert faster.environment.waits.tolist() == (10 * hours).tolist()
    assert faster.a_day == 240.0
    with refused("experiment", "'two'"):
        problem_of(Plan(100, None, experiment="two", store=address))


def test_what_is_lost_is_in_the_units_of_the_experiment(tmp_path: Path) -> None:
    address = filled(Stores.fresh("sqlite", tmp_path), OutcomeScale(-50.0, 150.0))
    found = problem_of(Plan(100, None, experiment="one", store=address))
    assert (found.unit, found.size) == ("of value", 200.0)
