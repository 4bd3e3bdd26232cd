"""What a trace says of each round: losses only where the outcome came, and probabilities that are some."""

from typing import Any

import numpy as np
import pytest

from belated import simulate
from belated.learners import PythonLearner
from belated.simulation import replication
from belated.simulation.simulation import replay
from support.plain_exp3 import PlainExp3
from support.refusals import refused


def test_a_loss_is_there_if_its_outcome_came_by_the_last_round() -> None:
    """Six rounds: outcomes that come at once, in the last round, one round too late, and never."""
    losses = np.arange(1, 13).reshape(6, 2) / 16.0
    trace = replay("uniform", losses, [0, 4, 4, 3, None, 0], [0.25, 0.75] * 3)
    assert trace.arms.tolist() == [0, 1] * 3
    expected = losses[np.arange(6), trace.arms]
    expected[[3, 4]] = np.nan  # round 4 would come in round 7
    expected[2] = np.nan  # round 3, too
    np.testing.assert_array_equal(trace.losses, expected)


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_a_trace_does_not_depend_on_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace() -> Any:
        result = simulate(
            "robust", "stochastic:arms=3", "geometric:mean=9", rounds=200, replications=1, keep_trace=True
        )
        return result.traces[0][0]

    whole = trace()
    monkeypatch.setattr(replication, "CHUNK_ROUNDS", chunk)
    pieces = trace()
    for name in ("arms", "distributions", "loss_estimates", "outstanding", "patience", "skipped"):
        assert getattr(pieces, name).shape == getattr(whole, name).shape
    np.testing.assert_allclose(pieces.distributions.sum(axis=1), 1.0, rtol=1e-12)
    came = pieces.delays <= 200 - np.arange(1, 201)
    np.testing.assert_array_equal(np.isnan(pieces.losses), ~came)
    assert 0 < (~came).sum() < 100
    waits = np.minimum(pieces.delays, 200)
    own = np.arange(1, 201)
    for t in (1, 7, 8, 64, 65, 200):
        if not pieces.skipped[: t - 1].any():
            assert pieces.outstanding[t - 1] == ((own < t) & (own + waits >= t)).sum()


@pytest.mark.parametrize("p", [[1.5, -0.5], [0.5, 0.6], [1.0], [0.5, 0.25, 0.25], [np.nan, 1.0]])
def test_what_is_no_distribution_is_refused(p: list[float]) -> None:
    class Wrong(PlainExp3):
        def decide(self, outstanding: int) -> Any:
            return p

    with refused(None, "round 1", "'w'"):
        simulate(PythonLearner("w", Wrong), "stochastic:arms=2", rounds=5, replications=1)
