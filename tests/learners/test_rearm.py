"""How arms enter and leave: what every learner of the catalogue does with its state."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from belated import Bandit, learners
from belated.core import ftrl, pages
from belated.learners import balanced, by_age, ftrl_steps, guarded, mean_steps, rearm, reduced_variance
from belated.simulation.run import LearnerRun, new_chunk
from support.play_live import informed
from support.refusals import refused
from support.sampling import sampled

MOVING = [name for name, learner in learners.catalogue.items() if learner.rearm is not None]
LEADERS = [name for name in MOVING if learners.find(name).is_leader]
NEW = rearm.NEW
ARMS = 5
ROUNDS = 3000


def played(words: str, rounds: int = ROUNDS, delay: int = 20) -> LearnerRun:
    """A learner after some rounds with five arms, the first the best."""
    run = LearnerRun(informed(words), ARMS, 2 * rounds, False, {})
    rng = np.random.default_rng(4)
    losses = (rng.random((rounds, ARMS)) < np.linspace(0.3, 0.7, ARMS)).astype(float)
    delays = np.full(rounds, delay)
    run.play(new_chunk(1, rng.random(rounds), delays, losses, 2 * rounds, losses=losses))
    return run


def decided(run: LearnerRun, state: Any, n_arms: int) -> Any:
    """The distribution of the next round, from a copy of a state."""
    bandit_state, p, clock = state.copy(), np.zeros(n_arms), run.run.clock.copy()
    again = LearnerRun(run.tuned, n_arms, 10, False, {})
    again.run = again.run._replace(state=bandit_state, params=run.run.params, clock=clock, p=p)
    clock["pages"] = run.learner.page_count(bandit_state)
    memory = again.run.memory
    clock["free"], clock["oldest"], clock["newest"] = 0, -1, -1
    while clock["pages"][0] <= (bandit_state[run.learner.pages.at + pages.USED] if run.learner.pages else -1):
        bandit_state = run.learner.with_more_pages(bandit_state)
        clock["pages"] = run.learner.page_count(bandit_state)
    again.run = again.run._replace(state=bandit_state, memory=memory)
    again.play(new_chunk(1, np.array([0.5]), np.array([5]), np.full((1, n_arms), 0.5), 10**9))
    return again.run.p


def moved(run: LearnerRun, kept: list[int]) -> Any:
    before = run.state.copy()
    state = run.learner.rearmed(run.state, ARMS, np.array(kept))
    np.testing.assert_array_equal(run.state, before)  # a change that fails must leave everything as it was
    assert run.learner.fits(state, len(kept))
    return state


CHANGES = ([0, 1, 2, 3, 4, NEW], [0, 1, 3, 4], [4, NEW, 1, NEW], [2, 1], [NEW, NEW], list(range(5)) + [NEW] * 20)


@pytest.mark.parametrize(
    ("name", "kept"), [*((name, [4, NEW, 1, NEW]) for name in MOVING), *sampled(product(MOVING, CHANGES), 12)], ids=str
)
def test_the_next_distribution_is_on_the_simplex(name: str, kept: list[int]) -> None:
    for rounds in (1, 2, 60, ROUNDS):
        run = played(name, rounds)
        p = decided(run, moved(run, kept), len(kept))
        assert np.isfinite(p).all()
        assert (p >= 0.0).all()
        assert p.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", MOVING)
def test_before_the_first_round_all_arms_are_alike(name: str) -> None:
    """Who has not played yet is as good as new."""
    learner = informed(name).learner
    for kept in CHANGES:
        np.testing.assert_array_equal(
            learner.rearmed(learner.new_state(ARMS), ARMS, np.array(kept)), learner.new_state(len(kept))
        )


@pytest.mark.parametrize("name", MOVING)
def test_the_same_arms_change_nothing(name: str) -> None:
    """Bit for bit where means are kept; a leader's next distribution is solved for from nothing, up to 1e-9. The pilot
    of guarded is estimated anew at once, so its leader alone is compared.
    """
    run = played("guarded:pilot=0" if name == "guarded" else name)
    same = decided(run, moved(run, list(range(ARMS))), ARMS)
    np.testing.assert_allclose(same, decided(run, run.state, ARMS), rtol=0, atol=1e-9 if name in LEADERS else 0)


@pytest.mark.parametrize("name", [name for name in MOVING if name not in ("elimination", "guarded")])
def test_arms_have_no_favourite_places(name: str) -> None:
    """In another order all have what they had. (Elimination takes turns; the pilot is estimated anew.)"""
    run = played(name)
    order = [3, 1, 4, 0, 2]
    np.testing.assert_allclose(
        decided(run, moved(run, order), ARMS), decided(run, run.state, ARMS)[order], rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("name", LEADERS)
def test_a_leader_gives_a_newcomer_its_share_at_once(name: str) -> None:
    """1 / K, and what is left keeps its order. Rates grow with the round, and exponential weights have other rates for
    more arms: within a tenth.
    """
    run = played("guarded:pilot=0" if name == "guarded" else name)
    before = decided(run, run.state, ARMS)
    p = decided(run, moved(run, [0, 1, 2, 3, 4, NEW]), ARMS + 1)
    assert p[-1] == pytest.approx(1 / 6, rel=0.1)
    assert (np.diff(p[:ARMS][np.argsort(before)]) >= -1e-12).all()


@pytest.mark.parametrize("name", ["exp3_adaptive", "exp3", "exp3_ix", "exp3_drift"])
def test_exponential_weights_keep_proportions(name: str) -> None:
    """Log-proportions scale with the rate, whatever comes or goes."""
    run = played(name)
    before = decided(run, run.state, ARMS)
    for kept in ([0, 1, 2, 3, 4, NEW], [0, 2, 3]):
        p = decided(run, moved(run, kept), len(kept))
        stay = [i for i in kept if i != NEW]
        logs = np.log(p[: len(stay)])
        wanted = np.log(before[stay])
        scale = np.ptp(logs) / np.ptp(wanted)
        np.testing.assert_allclose(logs - logs[0], scale * (wanted - wanted[0]), atol=1e-9)
        assert 0.8 < scale < 1.25


@pytest.mark.parametrize("name", ["tsallis", "tsallis_rv", "robust", "hybrid", "balanced", "guarded:pilot=0"])
def test_leaders_keep_the_proportions_of_shares_when_the_best_goes(name: str) -> None:
    """Within 15 %: rates grow with the round, and entropy rates depend on the number of arms."""
    run = played(name)
    before = decided(run, run.state, ARMS)[1:]
    after = decided(run, moved(run, [1, 2, 3, 4]), ARMS - 1)
    np.testing.assert_allclose(after, before / before.sum(), rtol=0.15)


@pytest.mark.parametrize("rates", [(3.0, 0.0), (3.0, 7.0), (0.5, 40.0)])
def test_losses_give_back_the_shares_they_are_made_of(rates: tuple[float, float]) -> None:
    shares = np.array([1e-9, 0.02, 0.003, 0.4])
    losses = rearm._losses_of(shares, rates)
    assert losses.min() == 0.0
    np.testing.assert_allclose(ftrl.distribution(losses, *rates), shares / shares.sum(), rtol=1e-9)


def test_a_leader_is_as_young_as_what_it_knows() -> None:
    """YOUTH rounds an arm where one comes; where arms go, its rounds times the share of those that stay."""
    run = played("tsallis", 20_000)
    state = run.state
    shares = ftrl.distribution(state[ftrl.LOSSES_AT.places(ARMS)], float(state[ftrl.TSALLIS_RATE]), 0.0)
    came = moved(run, [0, 1, 2, 3, 4, NEW])
    assert came[ftrl_steps.ROUND] == pytest.approx(rearm.YOUTH * 6)
    assert came[ftrl.TSALLIS_RATE] == pytest.approx(state[ftrl.TSALLIS_RATE] * math.sqrt(rearm.YOUTH * 6 / 20_000))
    worst = moved(run, [0, 1, 2, 3])
    assert worst[ftrl_steps.ROUND] == pytest.approx(20_000 * shares[:4].sum())
    best = moved(run, [1, 2, 3, 4])
    assert shares[1:].sum() < rearm.YOUTH * 4 / 20_000
    assert best[ftrl_steps.ROUND] == pytest.approx(rearm.YOUTH * 4)
    young = played("tsallis", 100)
    assert moved(young, [0, 1, 2, 3, 4, NEW])[ftrl_steps.ROUND] == 100


@pytest.mark.parametrize("name", [name for name in MOVING if name not in (*LEADERS, "uniform")])
def test_means_of_those_that_stay_are_kept(name: str) -> None:
    run = played(name)
    before = run.state[mean_steps.SINGLES :].reshape(ARMS, mean_steps.FIELDS)
    after = moved(run, [3, NEW, 0])[mean_steps.SINGLES :].reshape(3, mean_steps.FIELDS)
    counts = [int(mean_steps.LOSSES), int(mean_steps.OBSERVED), int(mean_steps.DECISIONS)]
    np.testing.assert_array_equal(after[[0, 2]][:, counts], before[[3, 0]][:, counts])
    assert not after[1].any()


@pytest.mark.parametrize("name", ["ucb", "klucb", "epsilon_greedy", "ewma"])
def test_a_newcomer_has_all_decisions_until_its_first_outcome(name: str) -> None:
    bandit = Bandit(3, name, seed=1)
    for _ in range(50):
        bandit.observe(bandit.decide(), loss=0.5)
    bandit.add_arm("new")
    explored = 0.1 * 3 / 4 if name in ("epsilon_greedy", "ewma") else 0.0
    for _ in range(20):
        decision = bandit.decide()
        assert bandit.distribution[3] >= 1.0 - explored - 1e-12
    while decision.arm != "new":
        decision = bandit.decide()
    bandit.observe(decision, loss=1.0)
    bandit.decide()
    assert bandit.distribution[3] < 0.5 or name in ("ucb", "klucb")


def test_elimination_goes_on_with_its_turn() -> None:
    run = played("elimination", 60)
    last = int(run.state[mean_steps.OWN]) - 1
    others = [i for i in range(ARMS) if i != last]
    assert moved(run, [*others[2:], last, *others[:2]])[mean_steps.OWN] == 3
    assert moved(run, others)[mean_steps.OWN] == 0


@pytest.mark.parametrize("name", ["balanced", "tsallis_rv"])
def test_pages_keep_the_bits_of_those_that_stay(name: str) -> None:
    """60 arms, more than a number has bits for: a page says which of them were below the threshold."""
    learner = learners.find(name)
    arms, head = 60, learner.pages.at if learner.pages else 0
    state = learner.with_more_pages(learner.new_state(arms))
    rng = np.random.default_rng(0)
    shares = [np.where(np.isin(np.arange(arms), [0, 49]), 0.1, rng.random(arms)) for _ in range(4)]
    marks = [reduced_variance.note(state, head, p, 0.3, 10.0 + k) for k, p in enumerate(shares)]
    reduced_variance.forget(state, head, marks[1])
    kept = np.array([59, NEW, *range(3, 50), NEW, 0])
    after = learner.rearmed(state, arms, kept)
    assert learner.fits(after, kept.size)
    assert learner.page_count(after) == learner.page_count(state)
    for k in (0, 2, 3):
        assert reduced_variance.kept(after, head, marks[k]) == 10.0 + k
        words = after[pages.begin(after, head, k) + reduced_variance.KEPT + 1 :]
        bits = [int(words[i // reduced_variance.BITS]) >> (i % reduced_variance.BITS) & 1 for i in range(kept.size)]
        assert bits == [int(i != NEW and shares[k][i] < 0.3) for i in kept]
    assert pages.take(after, head) == 1  # the one that was free


def test_the_measured_cost_of_delay_goes_back_with_the_rates() -> None:
    run = played("balanced", 20_000)
    state = moved(run, [0, 1, 2, 3, 4, NEW])
    assert run.state[balanced.HIGHEST] > run.state[balanced.COST] > 0.0
    for place in (balanced.COST, balanced.HIGHEST):
        assert state[place] == pytest.approx(run.state[place] * math.sqrt(6 * rearm.YOUTH / 20_000))


def test_the_pilot_is_estimated_as_often_as_after_a_start() -> None:
    """And its table keeps the counts of those that stay. An arm that only goes changes nothing in that."""
    run = played("guarded", 20_000)
    state = moved(run, [0, 1, 2, 3, 4, NEW])
    assert guarded._arms(state) == 6
    assert int(state[guarded.ARMS]) >> guarded.ARM_BITS == 20_000
    gone = run.learner.rearmed(state, 6, np.array([0, 1, 2, 5]))
    assert guarded._arms(gone) == 4
    assert int(gone[guarded.ARMS]) >> guarded.ARM_BITS == 20_000
    first = ftrl.size(ARMS) + guarded.MORE + ARMS
    then = ftrl.size(6) + guarded.MORE + 6
    before, after = run.state[first:], state[then:]
    came = by_age.at(ARMS, by_age.CAME), by_age.at(6, by_age.CAME)
    assert after[came[1] : came[1] + 6].tolist() == [*before[came[0] : came[0] + ARMS], 0.0]
    again = LearnerRun(run.tuned, 6, 10, False, {})
    clock = run.run.clock.copy()
    clock["oldest"] = clock["newest"] = -1
    clock["free"] = 0
    again.run = again.run._replace(state=state, params=run.run.params, clock=clock)
    again.play(new_chunk(1, np.array([0.5]), np.array([0]), np.full((1, 6), 0.5), 10**9))
    assert state[guarded.NEXT] == 20_002
    assert run.state[guarded.NEXT] - 20_000 > 1


def test_the_evidence_for_the_pilot_keeps_its_weight() -> None:
    """w, up to what is added to V, and the room of the leader stay as they are; noise is that of a young leader."""
    run = played("guarded", 50_000)
    state = moved(run, [0, 1, 2, 3, 4, NEW])
    part = state[guarded.NOISE] / run.state[guarded.NOISE]
    assert state[guarded.NOISE] == pytest.approx(6 * guarded.YOUNG_NOISE)
    assert part < 0.2
    for place, power in (
        (guarded.PILOT_NOISE, 1.0),
        (guarded.PILOT_COST, 0.5),
        (guarded.DELAY_COST, 0.5),
        (guarded.HIGHEST, 0.5),
    ):
        assert state[place] == pytest.approx(run.state[place] * part**power)


@pytest.mark.parametrize("name", [name for name in learners.catalogue if name not in MOVING])
def test_learners_whose_arms_are_fixed_say_why(name: str) -> None:
    learner = learners.find(name)
    assert learner.fixed_arms
    with refused("learner", repr(name), learner.fixed_arms):
        learner.rearmed(learner.new_state(3), 3, np.array([0, 1]))
