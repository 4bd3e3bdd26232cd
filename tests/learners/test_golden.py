"""Against 40-digit reference values: the solver, the live bandit and the bulk loop."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from belated import Bandit, Receipt
from belated.learners.robust import implicit_exploration
from belated.simplex import ftrl_distribution
from belated.simulation.simulation import replay

DATA = Path(__file__).parents[1] / "data"
PROBLEMS = json.loads((DATA / "ftrl.json").read_text())
TRACES = json.loads((DATA / "traces.json").read_text())


def assert_close(measured: NDArray[np.float64], expected: Any) -> None:
    """To 1e-9 relative wherever the reference is above 1e-200."""
    reference = np.asarray(expected, dtype=np.float64)
    large = reference > 1e-200
    np.testing.assert_allclose(measured[large], reference[large], rtol=1e-9, atol=0.0)
    assert (np.abs(measured[~large]) <= 1e-199).all()


@pytest.mark.parametrize("number", range(len(PROBLEMS)))
def test_solver(number: int) -> None:
    problem = PROBLEMS[number]
    x = ftrl_distribution(problem["loss_estimates"], problem["tsallis_rate"], problem["entropy_rate"])
    assert_close(x, problem["distribution"])
    assert abs(x.sum() - 1.0) < 1e-12


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["name"])
def test_bulk(trace: dict[str, Any]) -> None:
    expected = trace["expected"]
    learner = f"robust:delay_constant={trace['delay_constant']}"
    measured = replay(learner, trace["losses"], trace["delays"], trace["draws"])
    assert measured.arms.tolist() == expected["arms"]
    assert measured.outstanding.tolist() == expected["outstanding"]
    assert np.cumsum(measured.outstanding).tolist() == expected["cumulative_outstanding"]
    skipped = [[t, int(s)] for t, s in enumerate(measured.skipped, 1) if s]
    assert skipped == expected["skipped"]
    assert_close(measured.patience, expected["thresholds"])
    assert_close(measured.distributions, expected["distributions"])
    assert_close(measured.loss_estimates, expected["loss_estimates"])


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["name"])
def test_live(trace: dict[str, Any]) -> None:
    expected = trace["expected"]
    bandit = Bandit(trace["n_arms"], "robust", seed=0, delay_constant=trace["delay_constant"])
    bandit.warns = False
    due: dict[int, list[int]] = {}
    skipped: set[int] = set()
    givings_up = dict(map(tuple, expected["skipped"]))
    for t in range(1, trace["rounds"] + 1):
        before = bandit.skipped
        decision = bandit.decide(draw=trace["draws"][t - 1])
        # the skip test of a round runs when the next one opens
        assert bandit.skipped - before == (t - 1 in givings_up)
        if t - 1 in givings_up:
            skipped.add(givings_up[t - 1])
        assert decision.round == t
        assert decision.arm == expected["arms"][t - 1]
        assert decision.propensity == bandit.distribution[expected["arms"][t - 1]]
        assert bandit.cumulative_outstanding == expected["cumulative_outstanding"][t - 1]
        assert bandit.outstanding == expected["outstanding"][t - 1] + 1
        assert_close(bandit.distribution, expected["distributions"][t - 1])
        delay = trace["delays"][t - 1]
        if delay is not None:
            due.setdefault(t + delay, []).append(t)
        for s in due.pop(t, []):
            receipt = bandit.observe(s, loss=trace["losses"][s - 1][expected["arms"][s - 1]])
            assert receipt is (Receipt.SKIPPED if s in skipped else Receipt.USED)
        assert_close(np.array([bandit.patience]), [expected["thresholds"][t - 1]])
        assert_close(bandit.loss_estimates, expected["loss_estimates"][t - 1])


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["name"])
def test_implicit_exploration(trace: dict[str, Any]) -> None:
    cumulative = trace["expected"]["cumulative_outstanding"]
    checked = 0
    for s, t, reference in trace["expected"]["exploration"]:
        now, then = float(cumulative[t - 1]), float(cumulative[s - 1])
        for propensity in (reference * 0.99, reference * 1.01, 0.5):
            measured = implicit_exploration(now, then, propensity)
            assert measured == pytest.approx(max(propensity, reference), rel=1e-9, abs=0.0)
            checked += 1
    assert checked >= 3 * 100
