"""What a bandit keeps of its decisions for estimates: the numbers of a log, in whatever order outcomes come."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from belated import Bandit, Decision, inference
from belated.inference import Log
from belated.inference.method import Options
from belated.inference.stream import Stream
from belated.live import outcomes
from belated.live.limits import Limits
from support.refusals import refused

WAYS: list[dict[str, Any]] = [
    {},
    {"outcomes": "arrived"},
    {"outcomes": "bounded", "control": "b"},
    {"method": "betting"},
    {"alpha": 0.3, "control": "a"},
]
Told = tuple[int, str | int, float, np.ndarray]


def played(bandit: Bandit, rounds: int, binary: bool, seed: int = 0) -> tuple[list[Told], dict[int, float]]:
    """Return decisions with their distributions, and the rewards of those whose outcomes have come: out of order, some
    of them never.
    """
    rng = np.random.default_rng(seed)
    decisions, waiting, rewards = [], [], {}
    for _ in range(rounds):
        decision = bandit.decide()
        decisions.append((*decision, bandit.distribution))
        if rng.random() < 0.999:
            waiting.append(decision)
        while len(waiting) > 40:
            heard = waiting.pop(int(rng.integers(0, 25)))
            reward = float(rng.random() < 0.4) if binary else float(rng.random())
            bandit.observe(heard, reward=reward)
            rewards[heard.round] = 1.0 - (1.0 - reward)  # a bandit keeps losses
    return decisions, rewards


@pytest.mark.parametrize(("n_arms", "fold"), [(2, 1 << 12), (3, 64)])
@pytest.mark.parametrize(
    ("learner", "limits", "floors", "binary", "rounds"),
    [
        ("guarded", None, None, True, 800),
        ("robust:delay_constant=0.01", None, None, True, 800),
        ("thompson", None, None, True, 800),
        ("guarded:share_floor=0.1", None, [0.1, 0.1, 0.1], True, 800),
        ("guarded:share_floor=0.1", None, [0.1, 0.1, 0.1], False, 300),  # rewards in between take much longer
        ("thompson", Limits({"a": (0.2, 0.5)}), [0.2, 0.0, 0.0], True, 800),
        ("exp3", Limits({"a": 0.3}, holdout=0.12), [0.3, 0.04, 0.04], True, 800),
    ],
)
def test_a_bandit_and_its_log_say_the_same(
    learner: str,
    limits: Limits | None,
    floors: list[float] | None,
    binary: bool,
    rounds: int,
    fold: int,
    n_arms: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often outcomes are folded in; a floor is taken from the bandit's settings."""
    monkeypatch.setattr(outcomes, "FOLD", fold)
    labels = ["a", "b", "c"][:n_arms]
    bandit = Bandit(labels, learner, seed=2)
    bandit.set_limits(limits)
    bandit.warns = False
    decisions, rewards = played(bandit, rounds, binary)
    log = Log.from_decisions(decisions, rewards=rewards, labels=labels)
    if floors is not None:
        if limits is not None and limits.holdout:
            floors = [floors[0], *[limits.holdout / n_arms] * 2]
        log = replace(log, floors=tuple(floors[:n_arms]))
    assert 50 < log.settled < rounds - 40
    for way in WAYS if binary else WAYS[2:4]:
        assert inference.estimates(log, **way) == bandit.estimates(**way)
    found = bandit.estimates()
    assert found.method == "randomisation"
    assert found.average == ("plain" if floors is not None and floors[1] else "open")


def test_outcomes_of_decisions_that_were_given_up_on_count() -> None:
    bandit = Bandit(2, "robust", seed=1)
    bandit.warns = False
    late = [bandit.decide() for _ in range(5)]
    for _ in range(2_000):
        bandit.observe(bandit.decide(), reward=1.0)
    assert bandit.estimates().used == 0
    assert {bandit.observe(decision, reward=0.0).value for decision in late} == {"skipped"}
    found = bandit.estimates()
    assert found.used == 2_005
    assert sum(each.mean.value * each.outcomes for each in found.arms) == pytest.approx(2_000)


def test_a_snapshot_goes_on_with_the_same_estimates() -> None:
    bandit = Bandit(["a", "b", "c"], seed=2)
    decisions, rewards = played(bandit, 250, False)
    expected = [bandit.estimates(**way) for way in WAYS[2:4]]
    waiting = next(number for number, *_ in decisions if number not in rewards)
    for again in (Bandit.from_bytes(bandit.to_bytes()), pickle.loads(pickle.dumps(bandit))):
        assert [again.estimates(**way) for way in WAYS[2:4]] == expected
        again.observe(waiting, reward=1.0)
        assert again.estimates().used > expected[1].used
        assert again.decide() is not None


def test_what_too_many_have_overtaken_counts_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MAX_KEPT", 100)
    monkeypatch.setattr(outcomes, "FOLD", 10)
    bandit = Bandit(2, "uniform", seed=1)
    first = bandit.decide()
    for _ in range(400):
        bandit.observe(bandit.decide(), reward=1.0)
    found = bandit.estimates()
    assert (found.used, found.waiting) == (401, 1)
    assert sum("1 outcome" in note for note in found.notes) == 1
    assert found[first.arm].outcomes == found[first.arm].decisions - 1
    assert len(bandit._fold()._arms) <= 100
    bandit.observe(first, reward=1.0)  # the learner hears of it; for estimates it stays unknown
    assert bandit.estimates().waiting == 1


def test_memory_is_that_of_what_waits() -> None:
    """After 100,000 decisions with outcomes, nothing is kept one by one, and notes never pile up."""
    bandit = Bandit(2, "uniform", seed=1)
    for _ in range(30_000):
        bandit.observe(bandit.decide(), reward=1.0)
    assert len(bandit._outcomes.arms) < 2 * outcomes.FOLD
    for draw in np.random.default_rng(1).random(20_000).tolist():
        bandit.observe(bandit.decide(draw=draw), reward=1.0)
    assert len(bandit._outcomes.arms) <= outcomes.FOLD
    assert len(bandit._fold()._arms) == 0
    assert bandit.estimates().used == 50_000


def test_options_that_cannot_be_are_refused() -> None:
    bandit = Bandit(["a", "b"], seed=1)
    with refused("control", "'c'"):
        bandit.estimates(control="c")
    with refused("method", "'aipw'"):
        bandit.estimates(method="aipw")
    with refused("alpha", 2):
        bandit.estimates(alpha=2)


def test_the_first_of_two_notes_stays() -> None:
    """An interrupt may leave an outcome noted twice, or half of a note."""
    bandit = Bandit(2, "uniform", seed=1)
    bandit.decide()
    bandit.decide()
    noted = bandit._outcomes
    for number, loss in ((2, 0.25), (1, 0.5), (2, 0.75)):
        noted.rounds.append(number)
        noted.losses.append(loss)
    noted.rounds.append(1)
    folded = noted.folded()
    assert folded.stream.tally.rewards.sum() == 0.75 + 0.5
    again = folded
    for number in (1, 2):
        again.rounds.append(number)
        again.losses.append(1.0)
    assert again.folded().stream.tally.rewards.sum() == 0.75 + 0.5


def test_an_outcome_that_waits_for_another_one_stays_as_it_was() -> None:
    bandit = Bandit(2, "uniform", seed=1)
    bandit.decide()
    bandit.observe(bandit.decide(), reward=1.0)
    folded = bandit._fold()
    folded.rounds.append(2)
    folded.losses.append(1.0)
    assert folded.folded()._rewards[1] == 1.0


def test_a_decision_made_again_counts_with_the_propensity_on_record() -> None:
    bandit = Bandit(2, "exp3", seed=1)
    bandit.redo(Decision(1, 1, 0.125), draw=0.0)
    bandit.observe(1, reward=1.0)
    bets = bandit._fold().stream.bets
    assert bets is not None
    assert bets.weight(0, 1) == 0.125 * 0.875


ACTS = {
    101: ("add_arm", "d"),
    302: ("retire_arm", "a"),
    303: ("add_arm", "e"),
    604: ("restore_arm", "a"),
    880: ("retire_arm", "b"),
}


@pytest.mark.parametrize(
    ("fold", "binary"),
    [(16, True), pytest.param(4_096, True, marks=pytest.mark.slow), pytest.param(16, False, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_arms_that_come_and_go(fold: int, binary: bool, floor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bandit and its log say the same after every change, with a snapshot at each; outcomes come out of order."""
    monkeypatch.setattr(outcomes, "FOLD", fold)
    rng, bandit = np.random.default_rng(4), Bandit(["a", "b", "c"], f"exp3:share_floor={floor}", seed=2)
    bandit.warns = False
    decisions: list[Told] = []
    waiting: list[Decision] = []
    changes: list[tuple[int, str, bool]] = []
    rewards: dict[int, float] = {}
    for made in range(900):
        if made in ACTS:
            act, label = ACTS[made]
            getattr(bandit, act)(label)
            changes.append((made, label, act != "retire_arm"))
            labels = ["a", "b", "c", "d", "e"][: len(bandit.arms)]
            log = Log.from_decisions(decisions, rewards=rewards, labels=labels, changes=changes).with_floor(floor)
            assert log.settled < made
            again = Bandit.from_bytes(bandit.to_bytes())
            for way in (WAYS[0], WAYS[made % len(WAYS)]):
                expected = inference.estimates(log, **way).as_dict()
                assert bandit.estimates(**way).as_dict() == again.estimates(**way).as_dict() == expected
            bandit = again
            bandit.warns = False
        waiting.append(bandit.decide())
        decisions.append((*waiting[-1], bandit.distribution))
        while len(waiting) > 40:
            heard = waiting.pop(int(rng.integers(0, 25)))
            reward = float(rng.random() < 0.4) if binary else float(rng.random())
            bandit.observe(heard, reward=reward)
            rewards[heard.round] = 1.0 - (1.0 - reward)
    log = Log.from_decisions(decisions, rewards=rewards, labels=list("abcde"), changes=changes).with_floor(floor)
    assert 600 < log.settled < 880  # one change still waits
    for way in WAYS:
        assert inference.estimates(log, **way) == bandit.estimates(**way)
    assert bandit.estimates().retired == ("b",)
    assert bandit.estimates().method == "randomisation"
    kept = bandit._fold().stream.bets
    assert kept is not None
    assert kept.blind == 0


def test_a_change_leaves_what_was_there_as_it_was() -> None:
    """Whoever is interrupted goes on with the outcomes from before."""
    bandit = Bandit(3, "uniform", seed=1)
    for _ in range(20):
        bandit.observe(bandit.decide(), reward=1.0)
    bandit.decide()
    before = bandit._fold()
    header, arrays = before.to_arrays()
    changed = before.changed(21, 3, True, (0, 1, 2, 3))
    assert changed.stream.present_now.tolist() == [True] * 4
    assert changed.stream.present.tolist() == [True, True, True, False]
    again, others = before.to_arrays()
    assert header == again
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], name)
    changed.arms.append(3)
    changed.propensities.append(0.25)
    changed.chances.extend([0.25] * 4)
    assert (changed.last, before.last) == (22, 21)
    assert changed.folded().method([0, 1, 2, 3], Options()).estimates()[3].decisions == 1
    with refused("after", 20, 21):
        changed.changed(20, 0, False, (1, 2, 3))


def test_a_bandit_that_began_without_notes_counts_changes_from_there() -> None:
    """As one from an old snapshot: the stream begins after its first rounds."""
    late = outcomes.Outcomes(Stream(2), (0, 1), first=101)
    for arm in (0, 1, 1):
        late.arms.append(arm)
        late.propensities.append(0.5)
    changed = late.changed(103, 2, True, (0, 1, 2))
    for number in (101, 102, 103):
        changed.rounds.append(number)
        changed.losses.append(0.0)
    folded = changed.folded()
    assert folded.stream.rounds == 3
    assert folded.stream.present.all()
    assert folded.stream.bets is not None
    assert folded.stream.bets.weight(0, 1) == 0.75
    assert folded.stream.bets.weight(0, 2) == 0.0
