"""Whether runs of learners keep the promises of the proof, and what is made of what was found."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated import environments, learners, simulate
from belated.audit import audit
from belated.audit.lemmas import Run
from belated.bounds.waiting import follow
from belated.delays import NEVER
from belated.simulation.simulation import replay
from support.audited import ALWAYS, MEANS, NAMES, PROBLEMS, broken, hand_trace, silent, spoiled
from support.refusals import refused

# All of the paper's statements, on robust


@pytest.mark.parametrize(("environment", "delays"), PROBLEMS)
def test_robust_keeps_every_promise(environment: str, delays: str) -> None:
    """With its own constant. Means: 3 runs from seed 4; the regret is below its bound by more than half of it."""
    found = audit.run("robust", environment, delays, rounds=3000, replications=3, seed=4)
    assert found.holds
    assert [finding.name for finding in found.findings] == [*NAMES, *MEANS]
    stochastic = environment.startswith("stochastic")
    assert silent(found.findings) == (set() if stochastic else {"drifted regret"})
    assert all(finding.slack >= 0.0 for finding in found.findings if finding.holds)
    assert found["regret"].measured < 0.5 * found["regret"].bound


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_the_shortest_runs_keep_every_promise(rounds: int) -> None:
    found = audit.run("robust", "stochastic:arms=2,gap=0.5", "outlier", rounds=rounds, replications=1)
    assert broken(found.findings) <= set(MEANS)


@settings(max_examples=100, deadline=None)
@given(
    delays=st.lists(st.integers(0, 60) | st.just(NEVER), min_size=1, max_size=300),
    arms=st.sampled_from([2, 3, 10, 50]),
)
def test_no_delays_make_robust_break_its_counts(delays: list[int], arms: int) -> None:
    waits = np.array(delays)
    waiting = follow(learners.tune("robust"), arms, waits)
    run = Run(arms, waiting, np.ones(waits.size), audit._cut(waits), 49.0)
    assert broken(audit._worst([run])) == set()


def test_drift_control_needs_its_constant() -> None:
    """0.01 in place of 49 lets probabilities grow more than fourfold while an outcome is awaited: 4.8 times here."""
    problem = ("stochastic:arms=10,gap=0.1", "pareto:shape=1,scale=10")
    small = audit.run("robust:delay_constant=0.01", *problem, rounds=3000, replications=2, seed=0)
    assert not small.holds
    assert small["drift control"].holds is False
    assert 4.0 < small["drift control"].measured < 6.0
    assert audit.run("robust", *problem, rounds=3000, replications=2, seed=0)["drift control"].measured < 2.0


@pytest.mark.parametrize("learner", ["tsallis", "ucb", "hybrid", "uniform"])
def test_what_speaks_of_skipping_is_left_out_for_learners_that_never_skip(learner: str) -> None:
    found = audit.run(learner, "stochastic:arms=3,gap=0.3", "pareto:shape=1,scale=3", rounds=500, replications=2)
    assert silent(found.findings) == {*NAMES, *MEANS} - ALWAYS | {"drift control"}
    assert {"count", "growth", "one skip", "drift control", "rearrangement"} == ALWAYS
    assert found["drift control"].measured >= 1.0  # measured, not judged
    assert found["count"].holds is True
    assert found["rearrangement"].holds is True


def test_drift_of_learners_that_never_skip_is_over_their_longest_wait() -> None:
    """Delay 1: no outcome is awaited for longer, so drift is from one round to the next; ucb changes its mind."""
    for learner, drifts in [("uniform", False), ("ucb", True)]:
        found = audit.run(learner, "stochastic:arms=3,gap=0.3", "constant:delay=1", rounds=500, replications=1)
        assert (found["drift control"].measured > 4.0) is drifts
    trace = simulate(
        "tsallis", "stochastic:arms=3,gap=0.3", "constant:delay=1", rounds=300, replications=1, keep_trace=True
    ).traces[0][0]
    x, counts = trace.distributions, np.cumsum(trace.outstanding)
    explored = np.exp(-counts[1:] / (counts[1:] - counts[:-1]))
    step = (x[1:] / np.maximum(x[:-1], explored[:, None])).max()
    assert audit.check(trace)["drift control"].measured == pytest.approx(step, rel=1e-9)


def test_what_speaks_of_the_constant_is_left_out_for_other_learners_that_skip() -> None:
    found = audit.run(
        "hybrid_skipping", "stochastic:arms=3,gap=0.3", "pareto:shape=1,scale=3", rounds=500, replications=2
    )
    assert silent(found.findings) == {*NAMES, "regret"} - ALWAYS | {"drift control"}


def test_learners_that_are_told_something_can_be_audited() -> None:
    found = audit.run("damped", "stochastic:arms=3,gap=0.3", "constant:delay=5", rounds=200, replications=1)
    assert found["count"].holds is True


def test_whoever_skips_all_at_once_is_not_judged() -> None:
    # a trace notes one skip a round; sapo may skip all that is outstanding when it gives up
    words = "sapo:horizon=3000,elimination_widths=0.5,phase_constant=5,regret_constant=0.01"
    found = audit.run(words, "stochastic:arms=3,gap=0.3", "constant:delay=50", rounds=3000, replications=1, seed=1)
    assert found["count"].holds is None
    assert found.holds


# Traces, runs and what is made of them


def test_a_trace_gives_the_findings_of_its_run() -> None:
    """To the bit, drift control too, although a run looks at its distributions chunk by chunk."""
    problem = ("robust", "stochastic:arms=4,gap=0.2", "pareto:shape=1,scale=5")
    trace = simulate(*problem, rounds=3000, replications=1, seed=8, keep_trace=True).traces[0][0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belated.simulation.replication.CHUNK_ROUNDS", 777)
        pieces = audit.run(*problem, rounds=3000, replications=1, seed=8)
    for whole in (audit.run(*problem, rounds=3000, replications=1, seed=8), pieces):
        own = audit.check(trace, 49.0)
        assert [finding.name for finding in own.findings] == NAMES
        for mine, theirs in zip(own.findings, whole.findings, strict=False):
            assert mine[:6] == theirs[:6]
            assert (mine.shares is None) == (theirs.shares is None)
            if mine.shares is not None:
                np.testing.assert_array_equal(mine.shares, theirs.shares)
    assert pieces["drift control"].measured > 1.0


def test_a_doctored_trace_is_seen_through() -> None:
    rng = np.random.default_rng(0)
    delays = [None if s % 3 == 0 else s % 5 for s in range(400)]
    trace = replay("robust", rng.random((400, 3)), delays, rng.random(400).tolist())
    assert audit.check(trace, 49.0).holds
    jump = spoiled(trace.distributions, slice(298, 300), [[0.49, 0.49, 0.02], [0.02, 0.02, 0.96]])
    assert broken(audit.check(dataclasses.replace(trace, distributions=jump), 49.0).findings) == {"drift control"}
    lately = np.flatnonzero(trace.outstanding <= trace.patience)[-1]
    counts = spoiled(trace.outstanding, lately, trace.outstanding[lately] + 1)
    assert broken(audit.check(dataclasses.replace(trace, outstanding=counts), 49.0).findings) == {"count"}
    patience = spoiled(trace.patience, 399, 0.0)
    assert "growth" in broken(audit.check(dataclasses.replace(trace, patience=patience), 49.0).findings)
    forgotten = dataclasses.replace(trace, skipped=np.zeros_like(trace.skipped))
    assert {"count", "one skip"} <= broken(audit.check(forgotten, 49.0).findings)


def test_a_trace_without_its_constant_is_checked_for_the_rest() -> None:
    trace = replay("robust", np.zeros((50, 2)), [3] * 50, [0.5] * 50)
    found = audit.check(trace)
    assert silent(found.findings) == set(NAMES) - ALWAYS | {"drift control"}
    assert (found.learner, found.arms, found.rounds, found.replications, found.seed) == ("a trace", 2, 50, 1, None)
    assert audit.check(trace, learner="mine").learner == "mine"


@pytest.mark.parametrize("rounds", [1, 90, 3000])
def test_shares_are_thinned_to_their_peaks(rounds: int) -> None:
    problem = ("robust", "stochastic:arms=2,gap=0.3", "dropout:share=0.5,others=2")
    trace = simulate(*problem, rounds=rounds, replications=1, keep_trace=True).traces[0][0]
    begins = audit.pieces(rounds).tolist()
    assert begins[0] == 0
    assert len(begins) <= min(rounds, audit.POINTS)
    found = audit.run(*problem, rounds=rounds, replications=1)
    for finding in found.findings:
        assert finding.shares is None or finding.shares.size == len(begins)
    shares = found["few outstanding"].shares
    peaks = [
        (trace.outstanding[begin:end] / (trace.patience[begin:end] + 1.0)).max()
        for begin, end in zip(begins, [*begins[1:], rounds], strict=True)
    ]
    np.testing.assert_array_equal(shares, peaks)
    for name in ("few outstanding", "doubling", "drift control", "skips", "total wait"):
        shares = found[name].shares
        assert shares is not None
        assert shares.max() == pytest.approx(found[name].measured / found[name].bound, rel=1e-12)


@pytest.mark.parametrize("learner", ["robust", "hybrid_skipping", "ucb"])
def test_an_audit_is_strict_json(learner: str) -> None:
    found = audit.run(learner, "stochastic:arms=3,gap=0.3", "pareto:shape=1,scale=3", rounds=300, replications=2)
    text = json.dumps(found.as_json(), allow_nan=False)
    again = json.loads(text)
    rows = again.pop("lemmas")
    assert again == {
        "learner": learner,
        "problem": found.problem,
        "arms": 3,
        "rounds": 300,
        "replications": 2,
        "seed": 0,
        "holds": found.holds,
    }
    for row, finding in zip(rows, found.findings, strict=True):
        keys = {"lemma", "says", "where", "holds"}
        if not math.isnan(finding.bound):
            keys |= {"bound", "measured", "slack"}
        if finding.interval is not None:
            keys |= {"interval"}
        assert set(row) == keys
        assert (row["lemma"], row["holds"]) == (finding.name, finding.holds)
        if finding.holds is not None and math.isfinite(finding.measured):
            assert (row["bound"], row["measured"], row["slack"]) == (finding.bound, finding.measured, finding.slack)


def test_what_is_infinite_is_null() -> None:
    """An arm that is never played, then with certainty, while nothing is counted as outstanding."""
    certain = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = audit.check(hand_trace(distributions=certain, outstanding=np.zeros(4, dtype=np.int64)))
    assert found["drift control"].measured == math.inf
    assert found["drift control"].slack == -math.inf
    row = next(row for row in found.as_json()["lemmas"] if row["lemma"] == "drift control")
    assert (row["holds"], row["measured"], row["slack"], row["bound"]) == (None, None, None, 4.0)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"rounds": 0}, ("rounds", "0")),
        ({"rounds": 10, "replications": 0}, ("replications", "0")),
        ({"rounds": 10, "seed": -1}, ("seed", "-1")),
        ({"rounds": 20}, (None, "20")),
    ],
)
def test_what_cannot_be_run_is_named(wanted: dict[str, Any], message: tuple[str | None, ...]) -> None:
    environment = environments.Recorded(np.zeros((10, 2)))
    with refused(*message):
        simulate("robust", environment, **wanted)
    with refused(*message):
        audit.run("robust", environment, **wanted)
