"""Where a learner cannot be right: what a bandit says, from when on, and that it is raised once."""

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from belated import Bandit, BelatedWarning, Decision, Receipt, learners
from belated.delays import NEVER, Delays
from belated.learners import Learner
from belated.live import warning
from belated.simulation import replay
from support.play_live import informed, told
from support.refusals import refused
from support.sampling import sampled

FAIR = {"ucb", "queued", "klucb", "thompson", "elimination", "epsilon_greedy", "ewma", "sapo"}
LOOKS = (256, 512, 1024, 2048, 4096, 8192)


def quiet(learner: str | Learner, seed: int = 0) -> Bandit:
    bandit = Bandit(3, informed(learner) if isinstance(learner, str) else learner, seed=seed)
    bandit.warns = False
    return bandit


def numbers(said: str) -> list[int]:
    """The counts that a warning tells, in their order."""
    return [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", said)]


def kinds_at_looks(learner: str, law: str, rounds: int, seed: int) -> dict[int, list[str]]:
    """Play three arms, the best one last, and return what there is to warn of, by the number of decisions."""
    bandit, delays = quiet(learner, seed), Delays.find(law)
    rng = np.random.default_rng(seed)
    waits = delays.fill(rng, np.arange(1, rounds + 1)).reshape(rounds, -1)
    draws = rng.random(rounds)
    due: dict[int, list[tuple[int, float]]] = {}
    found: dict[int, list[str]] = {}
    for t in range(1, rounds + 1):
        arm = int(bandit.decide().arm)
        loss = float(draws[t - 1] < (0.6, 0.5, 0.4)[arm])
        wait = int(waits[t - 1, {"round": 0, "loss": int(loss)}[delays.by]])
        if wait != NEVER:
            due.setdefault(t + wait, []).append((t, loss))
        for s, late in due.pop(t, ()):
            bandit.observe(s, loss=late)
        if t in LOOKS and (kinds := list(bandit.warnings_by_kind)):
            found[t] = kinds
    return found


HARMLESS = [
    "constant:delay=20",
    "constant:delay=1000",
    "geometric:mean=5",
    "geometric:mean=300",
    "pareto:shape=0.5,scale=1",
    "pareto:shape=1,scale=10",
    "pareto:shape=3,scale=20",
    "dropout:share=0.05,others=0",
    "dropout:share=0.05,others=(geometric:mean=50)",
]


@pytest.mark.parametrize(
    ("law", "learner"), sampled(product(HARMLESS, ["ucb", "klucb", "thompson", "epsilon_greedy"]), 9)
)
def test_delays_that_have_nothing_to_do_with_the_outcome_are_no_reason(law: str, learner: str) -> None:
    """Of 5 % lost, at least 50 of 500 decisions would be five standard deviations too many."""
    for seed in (1, 2):
        assert kinds_at_looks(learner, law, 4096, seed) == {}


@pytest.mark.parametrize("learner", ["ucb", "klucb", "thompson"])
@pytest.mark.parametrize("law", ["good=(geometric:mean=100),bad=never", "good=never,bad=(geometric:mean=100)"])
def test_outcomes_that_come_for_one_kind_of_result_only_are_warned_of(law: str, learner: str) -> None:
    """The longest of some thousand delays is about 800 (their mean is 100): 3 times as old are decisions by 4,096."""
    for seed in (1, 2):
        found = kinds_at_looks(learner, f"byloss:{law}", 8192, seed)
        assert found[4096] == found[8192] == ["missing"]
        assert 1024 not in found


@pytest.mark.parametrize("name", learners.catalogue)
def test_who_takes_arrivals_for_a_fair_sample_is_warned_of_wins_only(name: str) -> None:
    """Wins are reported two rounds after their decision, losses never."""
    bandit, rng = quiet(name), np.random.default_rng(3)
    for t in range(1, 1001):
        bandit.decide(**told(name, 2))
        if t > 2 and rng.random() < 0.4:
            bandit.observe(t - 2, reward=1.0)
    assert learners.find(name).fair_arrivals == (name in FAIR) == ("missing" in bandit.warnings_by_kind)


def missing(old: int, count: int, delay: int = 0, rest: int = 100, learner: str | Learner = "ucb") -> Bandit:
    """Return a bandit whose first `count` of `old` decisions have no outcome; the others have one after `delay`."""
    bandit = quiet(learner)
    for t in range(1, old + rest + 1):
        bandit.decide()
        if t - delay > count:
            bandit.observe(t - delay, loss=0.5)
    return bandit


def test_a_tenth_of_old_decisions_may_be_missing_and_fifty_in_any_case() -> None:
    assert missing(old=300, count=49).warnings == ()
    (said,) = missing(old=300, count=50).warnings
    assert numbers(said)[:4] == [50, 300, 100, 0]
    assert "'ucb'" in said
    assert missing(old=1000, count=100).warnings == ()
    (said,) = missing(old=1000, count=101).warnings
    assert numbers(said)[:2] == [101, 1000]


def test_old_is_three_times_the_longest_delay_and_a_hundred_rounds() -> None:
    """Decisions that are younger count neither way."""
    assert missing(old=50, count=50, rest=99).warnings == ()
    assert missing(old=50, count=50, rest=100)._round == 150
    assert len(missing(old=50, count=50, rest=100).warnings) == 1
    assert missing(old=50, count=50, rest=149, delay=50).warnings == ()
    (said,) = missing(old=50, count=50, rest=150, delay=50).warnings
    assert numbers(said)[:4] == [50, 50, 150, 50]


def test_a_decision_that_is_not_old_is_not_missing() -> None:
    """Of 100 decisions without an outcome 40 are old, and with every round one more."""
    bandit = missing(old=100, count=100, rest=40)
    for _ in range(10):
        assert bandit.warnings == ()
        bandit.observe(bandit.decide(), loss=0.5)
    assert numbers(bandit.warnings[0])[:2] == [50, 50]


def test_little_is_known_after_few_outcomes() -> None:
    assert missing(old=271, count=342).warnings == ()
    assert len(missing(old=272, count=342).warnings) == 1  # 30 outcomes


def test_an_outcome_that_comes_after_all_takes_a_warning_back() -> None:
    bandit = missing(old=300, count=50)
    assert list(bandit.warnings_by_kind) == ["missing"]
    bandit.observe(50, loss=1.0)
    assert list(bandit.warnings_by_kind) == []


def test_the_longest_delay_is_that_of_outcomes_learned_from() -> None:
    bandit = quiet("ucb")
    for _ in range(10):
        bandit.decide()
    assert longest(bandit) == 0
    bandit.observe(3, loss=0.5)
    bandit.observe(9, loss=0.5)
    assert longest(bandit) == 7
    assert longest(Bandit.from_bytes(bandit.to_bytes())) == 7
    bandit.decide()
    assert longest(bandit) == 7


def longest(bandit: Bandit) -> int:
    bandit._catch_up()
    return int(bandit._run.clock["longest_delay"][0])


def fair(name: str) -> Learner:
    """Return a learner with a patience, as if it took arrivals for a fair sample."""
    return dataclasses.replace(learners.find(name), name="own", fair_arrivals=True)


def test_what_was_skipped_is_missing_too_unless_it_is_kept() -> None:
    """`robust` gives up on the first decisions and forgets them; `hybrid_skipping` keeps them, and counts on them."""
    forgetful, keeping = (missing(300, 60, learner=fair(name)) for name in ("robust", "hybrid_skipping"))
    assert forgetful.skipped > 55
    assert numbers(forgetful.warnings_by_kind["missing"])[:2] == [60, 300]
    assert keeping.skipped > 55
    assert keeping.warnings == ()
    assert Bandit.from_bytes(forgetful.to_bytes(), fair("robust")).warnings == forgetful.warnings
    assert forgetful.observe(1, loss=0.5) is Receipt.SKIPPED
    assert numbers(forgetful.warnings_by_kind["missing"])[:2] == [59, 300]


def test_decisions_are_in_order_when_a_snapshot_is_read() -> None:
    """Kept ones before those that are outstanding, whatever slots they have."""
    bandit, rng = quiet("hybrid_skipping"), np.random.default_rng(2)
    for t in range(1, 301):
        bandit.decide()
        if rng.random() < 0.5 and (s := int(rng.integers(1, t + 1))) in bandit._slots:
            bandit.observe(s, loss=0.5)
    assert bandit.skipped > 10 < bandit.outstanding
    assert list(Bandit.from_bytes(bandit.to_bytes())._slots) == sorted(bandit._slots)


def late(reported_late: int, in_time: int, learner: str = "robust") -> Bandit:
    """Return a bandit to which so many outcomes came in time, and so many after their decision was skipped."""
    bandit = quiet(learner)
    for _ in range(in_time):
        bandit.observe(bandit.decide(), loss=0.5)
    waiting = [bandit.decide().round for _ in range(400)]
    receipts = [bandit.observe(s, loss=0.5) for s in waiting[:reported_late]]
    assert set(receipts) <= {Receipt.SKIPPED}
    return bandit


def test_most_outcomes_must_be_late_and_a_hundred_reported() -> None:
    assert late(99, 0).warnings == ()
    (said,) = late(100, 0).warnings
    assert numbers(said)[:2] == [100, 100]
    assert "'robust'" in said
    assert late(80, 80).warnings == ()
    (said,) = late(81, 80).warnings
    assert numbers(said)[:2] == [81, 161]
    assert Bandit.from_bytes(late(81, 80).to_bytes()).warnings == (said,)


def test_a_learner_that_keeps_what_it_skips_throws_nothing_away() -> None:
    bandit = quiet("hybrid_skipping")
    for _ in range(500):
        bandit.decide()
    assert bandit.skipped > 200
    assert {bandit.observe(s, loss=0.5) for s in range(1, 101)} == {Receipt.USED}
    assert bandit.warnings == Bandit.from_bytes(bandit.to_bytes()).warnings == ()


def wins_only(bandit: Bandit) -> Iterator[tuple[int, list[warnings.WarningMessage]]]:
    """Decide, observe every other decision, and yield (round, what decide raised)."""
    while True:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            number = bandit.decide().round
        yield number, raised
        if number % 2:
            bandit.observe(number, loss=0.0)


def test_it_is_raised_once_as_of_the_callers_line() -> None:
    """After 256 decisions, 156 of which are old."""
    raised = {number: found for number, found in _first(wins_only(Bandit(2, "ucb", seed=1)), 5000) if found}
    assert list(raised) == [257]
    (one,) = raised[257]
    assert one.category is BelatedWarning
    assert numbers(str(one.message))[:2] == [78, 156]
    assert one.filename == __file__
    first = wins_only.__code__.co_firstlineno
    with open(__file__) as file:
        lines = file.readlines()
    assert "bandit.decide()" in lines[one.lineno - 1]
    assert first < one.lineno < first + 12


def _first(
    steps: Iterator[tuple[int, list[warnings.WarningMessage]]], count: int
) -> list[tuple[int, list[warnings.WarningMessage]]]:
    return [next(steps) for _ in range(count)]


@pytest.mark.parametrize(("kept_at", "raised_at"), [(200, [257]), (256, [257]), (257, []), (400, []), (600, [])])
def test_a_snapshot_knows_whether_it_was_raised(kept_at: int, raised_at: list[int]) -> None:
    original = Bandit(2, "ucb", seed=1)
    _first(wins_only(original), kept_at)
    again = Bandit.from_bytes(original.to_bytes())
    assert [number for number, found in _first(wins_only(again), 5000) if found] == raised_at


def test_it_is_looked_for_at_powers_of_two_with_draws_of_the_callers_own_too(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look(bandit: Bandit) -> dict[str, str]:
        looks.append(bandit.rounds)
        return {}

    monkeypatch.setattr(Bandit, "warnings_by_kind", property(look))
    for draws in (None, 0.5):
        bandit = Bandit(2, "ucb", seed=1)
        for _ in range(5000):
            bandit.decide(draw=draws)
    assert looks == [256, 512, 1024, 2048, 4096] * 2
    mixed = Bandit(2, "ucb", seed=1)
    for t in range(1000):
        mixed.decide(draw=0.5 if t < 100 else None)
    assert looks[10:] == [356, 612]


def test_a_power_of_two_of_late_outcomes_is_a_look_too() -> None:
    """After 128 late outcomes; at 64, fewer than 100 had been reported."""
    bandit = Bandit(2, "robust", seed=1)
    for _ in range(250):
        bandit.decide()
    raised = []
    for s in range(1, 201):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            bandit.observe(s, loss=0.5)
        raised += [(s, each) for each in found]
    ((number, one),) = raised
    assert (number, one.category, one.filename) == (129, BelatedWarning, __file__)
    assert numbers(str(one.message))[:2] == [128, 128]
    assert numbers(bandit.warnings[0])[:2] == [200, 200]


def _decide(bandit: Bandit) -> Decision:
    return bandit.decide(draw=0.5)


@pytest.mark.parametrize("call", [Bandit.decide, _decide])
def test_where_warnings_are_errors_the_call_changes_nothing_and_the_next_goes_on(
    call: Callable[[Bandit], Decision],
) -> None:
    """Warnings are errors in all tests."""
    bandit = Bandit(2, "ucb", seed=1)
    _first(wins_only(bandit), 256)
    with refused(None, 78, 156, error=BelatedWarning):
        call(bandit)
    assert bandit.rounds == 256
    assert call(bandit).round == 257
    again = Bandit(2, "robust", seed=1)
    for _ in range(250):
        again.decide()
    for s in range(1, 129):
        again.observe(s, loss=0.5)
    with refused(None, 128, error=BelatedWarning):
        again.observe(129, loss=0.5)
    assert again.observe(129, loss=0.5) is Receipt.SKIPPED
    assert again._late == 129


def test_decisions_made_again_are_silent_and_so_is_a_bandit_that_is_told_to_be() -> None:
    """Warnings are errors here: a bandit that raised one would end the test."""
    original, again = quiet("ucb"), Bandit(3, "ucb", seed=0)
    for _ in range(600):
        decision = original.decide(draw=0.5)
        again.redo(decision, draw=0.5)
        if decision.round % 2:
            original.observe(decision, loss=0.0)
            again.observe(decision, loss=0.0)
    assert len(original.warnings) == 1
    assert again.warnings == original.warnings
    assert again.to_bytes() == original.to_bytes()


def test_simulations_raise_nothing() -> None:
    rng = np.random.default_rng(1)
    replay("ucb", rng.random((600, 2)), [None, 0] * 300, rng.random(600).tolist())


def test_when_to_look() -> None:
    assert [warning.next_look(count) for count in (-1, 0, 255, 256, 511, 512, 513)] == [256] * 3 + [512] * 2 + [
        1024
    ] * 2
    assert [late for late in range(300) if warning.is_look(late)] == [64, 128, 256]
