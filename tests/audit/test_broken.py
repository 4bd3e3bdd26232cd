"""Every statement, broken by a doctored run: an audit that cannot fail says nothing."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from belated import bounds, learners, simulate
from belated.audit import audit
from belated.audit.lemmas import LEMMAS, Run
from belated.bounds.waiting import Waiting
from support.audited import NAMES, broken, job, played, silent, spoiled

# Broken runs: each statement, broken on its own where it can be


def changed(run: Run, delay_constant: float | None = None, **waiting: Any) -> Run:
    again = dataclasses.replace(run, waiting=dataclasses.replace(run.waiting, **waiting))
    return again if delay_constant is None else dataclasses.replace(again, delay_constant=delay_constant)


def awaited(delays: list[int], patience: list[float], delay_constant: float = 49.0) -> Run:
    """A run in which everything is waited for until it comes."""
    waits = np.array(delays)
    own = np.arange(1, waits.size + 1)
    counts = np.array([((own < t) & (own + waits >= t)).sum() for t in own])
    ended = own + waits
    waiting = Waiting(counts, np.array(patience), ended, np.zeros(waits.size, dtype=np.bool_))
    return Run(2, waiting, np.ones(waits.size), waits, delay_constant)


def crowd() -> Run:
    """A hundred outcomes after a round each, then thirteen that come together: sigma = 12 in the last round."""
    return awaited([1] * 100 + list(range(12, -1, -1)), [0.5] * 40 + [13.0] * 73)


def skipping() -> Run:
    return played()[0].run


def wrong_count() -> Run:
    counts = skipping().waiting.outstanding
    return changed(skipping(), outstanding=spoiled(counts, -1, counts[-1] + 1))


def falling_patience() -> Run:
    patience = skipping().waiting.patience
    return changed(skipping(), patience=spoiled(patience, 2000, patience[1999] - 1e-9))


def two_skips_at_once() -> Run:
    """One that is skipped in round t is skipped in round t + 1 instead, in which another is skipped already."""
    waiting = skipping().waiting
    when = set(waiting.ended[waiting.skipped].tolist())
    t = max(t for t in when if t + 1 in when)
    s = np.flatnonzero(waiting.skipped & (waiting.ended == t))[0]
    counts = spoiled(waiting.outstanding, t, waiting.outstanding[t] + 1)
    return changed(skipping(), ended=spoiled(waiting.ended, s, t + 1), outstanding=counts)


def overdue_and_kept() -> Run:
    """Patience runs out with several in the last rounds, but they are still waited for."""
    return changed(crowd(), patience=np.array([0.5] * 40 + [9.5] * 73))


def too_many_outstanding() -> Run:
    return changed(crowd(), patience=np.array([0.5] * 40 + [10.5] * 73))


def tripled() -> Run:
    """A patience that reaches back to rounds in which D was a third."""
    waiting = skipping().waiting
    far = waiting.rounds - int(np.searchsorted(waiting.cumulative, waiting.cumulative[-1] / 3))
    return changed(skipping(), patience=spoiled(waiting.patience, -1, float(far)))


def drifted() -> Run:
    return dataclasses.replace(skipping(), drift=spoiled(skipping().drift, 1234, 4.0 + 1e-9))


def crowded_arrivals() -> Run:
    return changed(crowd(), delay_constant=0.1)


def long_first_wait() -> Run:
    run = crowd()
    return awaited([2, 0, *run.delays[2:].tolist()], run.waiting.patience.tolist())


def explored() -> Run:
    """Nothing outstanding at first, and one from then on, while a hundred wait: lambda = 1/e for each, twice."""
    own = np.arange(1, 201)
    early = own <= 100
    waiting = Waiting(
        outstanding=(~early).astype(np.int64),
        patience=np.full(200, 200.0),
        ended=np.where(early, 100 + own, 0),
        skipped=np.zeros(200, dtype=np.bool_),
    )
    return Run(2, waiting, np.ones(200), waiting.waited, 49.0)


def moved_far() -> Run:
    """Four arrivals in one round, while no more than one was ever outstanding."""
    run = crowd()
    return changed(run, ended=spoiled(run.waiting.ended, slice(50, 53), 54))


def many_skips() -> Run:
    """As many as no constant below 1 allows."""
    return changed(skipping(), delay_constant=0.9)


def kept_too_much() -> Run:
    return dataclasses.replace(skipping(), delays=np.zeros_like(skipping().delays))


DOCTORED: list[tuple[str, Callable[[], Run], Callable[[], Run], set[str]]] = [
    ("count", skipping, wrong_count, set()),
    ("growth", skipping, falling_patience, set()),
    ("one skip", skipping, two_skips_at_once, set()),
    ("one skip", crowd, overdue_and_kept, {"few outstanding"}),
    ("few outstanding", crowd, too_many_outstanding, set()),
    ("doubling", skipping, tripled, set()),
    ("drift control", skipping, drifted, set()),
    ("arrivals", crowd, crowded_arrivals, set()),
    ("total wait", crowd, long_first_wait, set()),
    ("summation", crowd, explored, {"count", "doubling", "total wait"}),
    ("rearrangement", crowd, moved_far, {"count"}),
    ("skips", skipping, many_skips, set()),
    ("kept delay", skipping, kept_too_much, set()),
]


@pytest.mark.parametrize(("name", "sound", "doctored", "besides"), DOCTORED)
def test_a_broken_statement_is_seen(
    name: str, sound: Callable[[], Run], doctored: Callable[[], Run], besides: set[str]
) -> None:
    """It, and nothing but it and what cannot be kept without it."""
    before = audit._worst([sound()])
    assert broken(before) == silent(before) == set()
    assert broken(audit._worst([doctored()])) == {name, *besides}


def test_every_statement_has_been_broken() -> None:
    assert {name for name, *_ in DOCTORED} == set(NAMES)
    assert [statement.name for statement in LEMMAS] == list(dict.fromkeys(NAMES))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_many_runs_the_worst_is_reported(place: int) -> None:
    runs = [skipping(), skipping()]
    for name, sound, doctored, besides in DOCTORED:
        if sound is skipping:
            runs.insert(place, doctored())
            assert broken(audit._worst(runs)) == {name, *besides}
            del runs[place]


def test_regret_beyond_its_bound_is_seen() -> None:
    """Six runs, with noise of a standard error of 1.9: an interval of 5 to either side."""
    sound = audit._adversarial_bound(played())
    assert sound.holds is True
    assert sound.measured == pytest.approx(np.mean([each.regret for each in played()]))
    assert sound.interval is not None
    assert sound.interval[0] < sound.measured < sound.interval[1]
    allowed = [bounds.robust_bound(2, each.run.waiting, 49.0) for each in played()]
    assert sound.bound == pytest.approx(np.mean(allowed))
    for excess, holds in [(-5.0, True), (0.5, True), (10.0, False)]:
        noise = [-6.0, -4.0, -2.0, 2.0, 4.0, 6.0]
        doctored = [
            each._replace(regret=bound + excess + wave)
            for each, bound, wave in zip(played(), allowed, noise, strict=True)
        ]
        assert audit._adversarial_bound(doctored).holds is holds


def allowed_drift(each: audit._Played) -> float:
    waiting = each.run.waiting
    return float(4.0 * each.exploration + (waiting.outstanding.max() + 1.0) / 4.0 + waiting.skipped.sum())


def test_drifted_regret_too_small_is_seen() -> None:
    """Regret/4 beyond the drifted regret by more than 2K sum(lambda) + (sigma + 1)/4 + S*; noise as above."""
    sound = audit._drifted_regret(played())
    assert sound.holds is True
    assert sound.bound == pytest.approx(np.mean([allowed_drift(each) for each in played()]))
    measured = [each.pseudo_regret / 4.0 - each.drifted_regret for each in played()]
    assert sound.measured == pytest.approx(np.mean(measured))
    for excess, holds in [(-5.0, True), (0.5, True), (10.0, False)]:
        noise = [-6.0, -4.0, -2.0, 2.0, 4.0, 6.0]
        doctored = [
            each._replace(drifted_regret=each.pseudo_regret / 4.0 - allowed_drift(each) - excess + wave)
            for each, wave in zip(played(), noise, strict=True)
        ]
        assert audit._drifted_regret(doctored).holds is holds


def test_one_run_cannot_break_a_statement_about_means() -> None:
    # where nothing is delayed, chance alone is above the bound in one run of five
    for seed in range(20):
        found = audit.run("robust", "stochastic:arms=2,gap=0.1", "none", rounds=100, replications=1, seed=seed)
        assert broken(found.findings) == set()


def test_means_are_left_out_where_nothing_is_said_about_them() -> None:
    adversarial = [each._replace(pseudo_regret=math.nan, drifted_regret=math.nan) for each in played()]
    assert audit._drifted_regret(adversarial).holds is None
    other = [each._replace(run=dataclasses.replace(each.run, delay_constant=None)) for each in played()]
    assert audit._adversarial_bound(other).holds is None


def test_regret_and_drifted_regret_by_hand() -> None:
    """From the trace, decision by decision; three chunks, in which outcomes come that an earlier one decided."""
    words = ("robust:delay_constant=1", "bernoulli:means=[0.3,0.6,0.5]", "pareto:shape=1,scale=4")
    means = np.array([0.3, 0.6, 0.5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belated.simulation.replication.CHUNK_ROUNDS", 100)
        found = audit._play(job(*words, rounds=250), 0)
        trace = simulate(*words, rounds=250, replications=1, keep_trace=True).traces[0][0]
    x, total = trace.distributions, np.cumsum(trace.outstanding)
    given_up = {int(s): t for t, s in enumerate(trace.skipped, 1) if s}
    pseudo = float((x @ (means - 0.3)).sum())
    drifted = 0.0
    for s in range(1, 251):
        t = s + int(trace.delays[s - 1])
        if t <= 250 and s not in given_up:
            arm = trace.arms[s - 1]
            explored = math.exp(-total[t - 1] / (total[t - 1] - total[s - 1])) if total[t - 1] > total[s - 1] else 0.0
            estimate = means[arm] / max(x[s - 1, arm], explored)
            drifted += estimate * (x[t - 1, arm] - (arm == 0))
    assert len(given_up) > 5
    assert found.pseudo_regret == pytest.approx(pseudo, rel=1e-9)
    assert found.drifted_regret == pytest.approx(drifted, rel=1e-9)
    assert found.regret == pytest.approx(float((means[trace.arms] - 0.3).sum()), rel=1e-9)


def test_a_cost_of_delay_beyond_what_is_derived_is_seen() -> None:
    problem = job("balanced:kappa=4", "resonant:arms=2,delay=50", "constant:delay=50", 2000)
    one = audit._play(problem, 0)
    found = audit._gauge(learners.tune("balanced:kappa=4"), [one, one], 0)
    allowed = math.sqrt(2.0 * one.run.waiting.outstanding.sum() * math.log(2) / 4.0)
    assert found.holds is None  # a sketch judges nobody
    assert found.bound == pytest.approx(allowed)
    assert 0.0 < found.measured == one.gauges[0]
    beyond = one._replace(gauges=(allowed * 1.01,))
    assert audit._gauge(learners.tune("balanced:kappa=4"), [one, beyond], 0).slack < 0.0
