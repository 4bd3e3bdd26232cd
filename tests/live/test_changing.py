"""A bandit whose arms come and go, whose shares are limited, and whose outcomes have units."""

import math
import pickle
import random
import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from belated import AlreadyObserved, Bandit, Limits, Receipt, Scale, UnknownDecision, learners
from support.play_live import TOLD
from support.refusals import refused

CHANGEABLE = [
    name for name, learner in learners.catalogue.items() if learner.rearm is not None and "delay" not in learner.needs
]
"""Learners whose arms can come and go."""


def busy(learner: str = "exp3", **settings: Any) -> Bandit:
    """A bandit that has learned something and waits for something."""
    bandit = Bandit(["a", "b", "c"], learner, seed=7, **{**TOLD.get(learner, {}), **settings})
    live(bandit, 60)
    return bandit


def live(bandit: Bandit, rounds: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Decide and observe, some late, some never; all that was answered."""
    rng = random.Random(seed)
    told: list[tuple[Any, ...]] = []
    waiting: list[int] = []
    for _ in range(rounds):
        decision = bandit.decide()
        told.append(decision)
        waiting.append(decision.round)
        if rng.random() < 0.8:
            number = waiting.pop(rng.randrange(len(waiting)))
            told.append((number, bandit.observe(number, loss=rng.choice([0.0, 0.25, 1.0]))))
    return told


def shares(bandit: Bandit) -> dict[Any, float]:
    return dict(zip(bandit.arms, bandit.distribution.tolist(), strict=True))


@pytest.mark.parametrize("learner", CHANGEABLE)
def test_arms_come_go_and_come_back(learner: str) -> None:
    bandit = busy(learner)
    bandit.warns = False
    bandit.add_arm("d")
    assert (bandit.arms, bandit.playing) == (("a", "b", "c", "d"), ("a", "b", "c", "d"))
    assert shares(bandit)["d"] == 0.0  # nothing was drawn with it yet
    drawn = [each.arm for each in (bandit.decide() for _ in range(40))]
    assert "d" in drawn  # a fair chance at once
    bandit.retire_arm("a")
    assert bandit.playing == ("b", "c", "d")
    assert bandit.arms == ("a", "b", "c", "d")
    told = live(bandit, 40, 1)
    assert "a" not in {each.arm for each in told if isinstance(each, tuple) and len(each) == 3}  # type: ignore[attr-defined]
    assert shares(bandit)["a"] == 0.0
    assert math.isnan(bandit.loss_estimates[0])
    bandit.restore_arm("a")
    assert list(bandit.playing) == ["a", "b", "c", "d"]
    assert "a" in [bandit.decide().arm for _ in range(40)]
    assert bandit.distribution.sum() == pytest.approx(1.0)
    assert np.isfinite(bandit.loss_estimates).all()


@pytest.mark.parametrize("learner", CHANGEABLE)
def test_what_is_known_of_the_others_stays(learner: str) -> None:
    """An arm that comes and goes at once leaves their order; the best one stays the best."""
    parameters: dict[str, Any] = dict(TOLD.get(learner, {}))
    bandit = Bandit(["good", "bad"], learner, seed=3, **parameters)
    bandit.warns = False
    for _ in range(300):
        decision = bandit.decide()
        bandit.observe(decision, loss=0.1 if decision.arm == "good" else 0.9)
    before = bandit.loss_estimates
    bandit.add_arm("new")
    after = bandit.loss_estimates[:2]
    assert np.array_equal(np.sign(before - before[::-1]), np.sign(after - after[::-1]))
    bandit.retire_arm("new")
    left = bandit.loss_estimates[:2]
    assert np.array_equal(np.sign(before - before[::-1]), np.sign(left - left[::-1]))


def test_outcomes_of_an_arm_that_left_are_answered_and_not_learned_from() -> None:
    bandit = Bandit(["a", "b", "c"], "exp3", seed=1)
    made = [bandit.decide() for _ in range(30)]
    gone = [each for each in made if each.arm == "a"]
    stays = next(each for each in made if each.arm == "b")
    bandit.retire_arm("a")
    before = bandit.loss_estimates[1:].tolist()
    outstanding = bandit.outstanding
    assert bandit.observe(gone[0], loss=1.0) is Receipt.SKIPPED
    assert bandit.outstanding == outstanding - 1
    assert bandit.loss_estimates[1:].tolist() == before
    with pytest.raises(AlreadyObserved):
        bandit.observe(gone[0], loss=1.0)
    bandit.restore_arm("a")  # an arm that comes back is a new one
    assert bandit.observe(gone[1], loss=1.0) is Receipt.SKIPPED
    assert bandit.observe(stays, loss=1.0) is Receipt.USED
    fresh = next(each for each in (bandit.decide() for _ in range(40)) if each.arm == "a")
    assert bandit.observe(fresh, loss=1.0) is Receipt.USED
    counts = {each.arm: each.outcomes for each in bandit.estimates(outcomes="arrived").arms}
    assert counts["a"] == 3  # for estimates they are as good as any


def test_what_cannot_be_done_is_refused_and_changes_nothing() -> None:
    bandit = busy(limits=Limits({"a": (0.0, 0.45), "b": (0.0, 0.45)}))
    before = bandit.to_bytes()
    changes: list[tuple[Callable[[], None], str, str]] = [
        (lambda: bandit.add_arm("a"), "'a'", "arm"),
        (lambda: bandit.add_arm(True), "True", "arm"),
        (lambda: bandit.add_arm(1.5), "1.5", "arm"),  # type: ignore[arg-type]
        (lambda: bandit.retire_arm("x"), "'x'", "arm"),
        (lambda: bandit.restore_arm("x"), "'x'", "arm"),
        (lambda: bandit.restore_arm("a"), "'a'", "arm"),
        (lambda: bandit.retire_arm("c"), "0.9", "shares"),
        (lambda: bandit.set_limits(Limits({"x": 0.1})), "'x'", "shares"),
        (lambda: bandit.set_limits({"a": 0.1}), "Limits", "limits"),  # type: ignore[arg-type]
        (lambda: bandit.set_limits(Limits({"a": 0.7, "b": 0.7})), "1.4", "shares"),
    ]
    for change, value, field in changes:
        with refused(field, value):
            change()
        assert bandit.to_bytes() == before
    bandit.set_limits(None)
    bandit.retire_arm("c")
    for change, value in (
        (lambda: bandit.retire_arm("c"), "'c'"),
        (lambda: bandit.add_arm("c"), "restore_arm"),
        (lambda: bandit.retire_arm("a"), "2"),
    ):
        with refused("arm", value):
            change()
    assert bandit.playing == ("a", "b")


def test_learners_that_cannot_say_why() -> None:
    for name, learner in learners.catalogue.items():
        if learner.rearm is None and "delay" not in learner.needs:
            bandit = busy(name)
            before = bandit.to_bytes()
            for change, arm in ((bandit.add_arm, "d"), (bandit.retire_arm, "a")):
                with refused("learner", repr(name), learner.fixed_arms):
                    change(arm)
            assert bandit.to_bytes() == before
            bandit.set_limits(Limits({"a": 0.5}))
            live(bandit, 5)
            assert shares(bandit)["a"] == pytest.approx(0.5)


def test_a_floor_for_all_limits_how_many_can_come() -> None:
    bandit = Bandit(["a", "b"], "exp3", seed=1, share_floor=0.3)
    bandit.add_arm("c")
    with refused("share_floor", 0.3):
        bandit.add_arm("d")
    bandit.decide()
    assert min(shares(bandit).values()) >= 0.3 - 1e-12
    with refused("holdout", 0.3, 0.1):
        bandit.set_limits(Limits(holdout=0.1))


@pytest.mark.parametrize("learner", sorted(set(learners.catalogue) - {"exp3_delayed"}))
def test_limits_are_kept_by_every_learner(learner: str) -> None:
    limits = Limits({"a": 0.15, "b": (0.1, 0.3)}, holdout=0.12)
    parameters: dict[str, Any] = dict(TOLD.get(learner, {}))
    bandit = Bandit(["a", "b", "c"], learner, seed=2, limits=limits, **parameters)
    bandit.warns = False
    for _ in range(150):
        decision = bandit.decide()
        assert decision.propensity == shares(bandit)[decision.arm]
        assert shares(bandit)["a"] == pytest.approx(0.15)
        assert 0.1 - 1e-12 <= shares(bandit)["b"] <= 0.3 + 1e-12
        assert shares(bandit)["c"] >= 0.04 - 1e-12
        assert sum(shares(bandit).values()) == pytest.approx(1.0)
        bandit.observe(decision, loss={"a": 0.9, "b": 0.1}.get(str(decision.arm), 0.5))
    bandit.set_limits(None)
    bandit.decide()
    assert not bandit.limits
    assert shares(bandit)["a"] != pytest.approx(0.15, abs=1e-6)


@pytest.mark.parametrize("learner", ["guarded", "balanced", "robust", "tsallis_rv", "ucb", "thompson", "hybrid"])
def test_snapshots_and_copies_go_on_the_same(learner: str) -> None:
    """With arms that came and left, decisions for those, limits and units."""
    bandit = busy(learner, limits=Limits({"b": (0.1, 0.8)}), outcome=Scale(0, 200))
    bandit.warns = False
    bandit.add_arm(7)
    live(bandit, 30, 3)
    bandit.retire_arm("a")
    live(bandit, 30, 3)
    bandit.add_arm("e")
    live(bandit, 30, 3)
    bandit.observe(bandit.decide(), value=300.0)
    bandit.restore_arm("a")
    copies = [Bandit.from_bytes(bandit.to_bytes()), pickle.loads(pickle.dumps(bandit)), deepcopy(bandit)]
    for copy in copies:
        copy.warns = False
        assert (copy.arms, copy.playing, copy.limits) == (bandit.arms, bandit.playing, bandit.limits)
        assert (copy.outcome, copy.clipped) == (Scale(0, 200), 1)
        assert copy.to_bytes() == bandit.to_bytes()
    expected = live(bandit, 40, 4)
    bandit.retire_arm(7)
    more = live(bandit, 20, 5)
    for copy in copies:
        assert live(copy, 40, 4) == expected
        copy.retire_arm(7)
        assert live(copy, 20, 5) == more
        assert copy.to_bytes() == bandit.to_bytes()


def test_a_decision_on_record_must_be_of_an_arm_that_is_played() -> None:
    bandit, other = busy(), busy()
    for each in (bandit, other):
        each.add_arm("d")
        each.retire_arm("a")
    decision = bandit.decide(draw=0.99)
    assert other.redo(decision, draw=0.99) == decision.propensity
    assert decision.arm == "d"
    with refused(None, "'a'", 62, error=UnknownDecision):
        other.redo(decision._replace(round=62, arm="a"), draw=0.5)
    assert bandit.to_bytes() == other.to_bytes()


def test_values_are_observed_in_units() -> None:
    bandit = Bandit(2, "exp3", seed=1, outcome={"lowest": 0, "highest": 200, "better": "higher"})
    plain = Bandit(2, "exp3", seed=1)
    for value, loss in ((50.0, 0.75), (np.float64(200), 0.0), (0, 1.0), (250, 0.0), (-3.5, 1.0)):
        assert bandit.observe(bandit.decide(), value=value) is Receipt.USED
        plain.observe(plain.decide(), loss=loss)
    assert (bandit.loss_estimates == plain.loss_estimates).all()
    assert bandit.outcome == Scale(0, 200)
    assert (bandit.clipped, plain.clipped) == (2, 0)
    wrong: list[dict[str, Any]] = [{"value": 5, "loss": 0.5}, {"value": 5, "reward": 0.5}]
    wrong += [{"value": "much"}, {"value": math.nan}]
    for given in wrong:
        with refused("value", *given.values()):
            bandit.observe(bandit.decide(), **given)
    with refused("value", 5):
        plain.observe(plain.decide(), value=5)
    estimates = bandit.estimates(outcomes="arrived")
    assert max(each.mean.high for each in estimates.arms) > 1.0


def test_refused_values_and_decisions_leave_everything_as_it_is() -> None:
    bandit = Bandit(2, "exp3", seed=1, outcome=Scale(0, 200, beyond="refuse"))
    decision = bandit.decide()
    before = bandit.to_bytes()
    with refused("value", 201):
        bandit.observe(decision, value=201)
    with pytest.raises(UnknownDecision):
        bandit.observe(99, value=20)
    assert bandit.to_bytes() == before
    assert bandit.observe(decision, value=200) is Receipt.USED


def test_a_value_of_a_skipped_decision_is_counted_as_clipped_once() -> None:
    bandit = Bandit(2, "robust", seed=1, outcome=Scale(0, 1))
    bandit.warns = False
    first, *_ = [bandit.decide() for _ in range(400)]
    assert bandit.skipped
    assert bandit.observe(first, value=7.0) is Receipt.SKIPPED
    assert bandit.clipped == 1
    with pytest.raises(AlreadyObserved):
        bandit.observe(first, value=7.0)
    assert bandit.clipped == 1


class Interrupts:
    """Raises KeyboardInterrupt at the n-th line that changing.py runs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("live/changing.py"):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize(
    ("learner", "change"), [*(("exp3", change) for change in ("add", "retire", "restore", "limit")), ("guarded", "add")]
)
def test_an_interrupt_at_any_line_of_a_change_leaves_it_done_or_not(learner: str, change: str) -> None:
    base = busy(learner)
    base.retire_arm("c")
    base.add_arm("d")
    live(base, 10, 2)
    origin = base.to_bytes()

    def do(bandit: Bandit) -> None:
        if change == "add":
            bandit.add_arm("e")
        elif change == "retire":
            bandit.retire_arm("a")
        elif change == "restore":
            bandit.restore_arm("c")
        else:
            bandit.set_limits(Limits({"a": 0.5}))

    changed = Bandit.from_bytes(origin)
    do(changed)
    ends = {origin: live(Bandit.from_bytes(origin), 20, 3), changed.to_bytes(): live(changed, 20, 3)}
    assert len(ends) == 2
    seen = set()
    for after in range(1, 100):
        bandit = Bandit.from_bytes(origin)
        sys.settrace(Interrupts(after))
        try:
            do(bandit)
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if after % 2:
            now = bandit.to_bytes()
            assert now in ends
            assert live(bandit, 20, 3) == ends[now]
            seen.add(now)
        else:  # what comes next is a decision
            assert live(bandit, 20, 3) in ends.values()
    assert after > 8
    assert len(seen) == 2
