import math
import pickle
import sys
from contextlib import suppress
from copy import deepcopy
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated import AlreadyObserved, Bandit, Decision, InvalidValue, Receipt, SnapshotError, UnknownDecision, learners
from belated.live import outcomes
from support.play_live import VARIANTS, informed, told
from support.refusals import refused
from support.sampling import sampled


def busy(learner: str = "robust", **parameters: Any) -> Bandit:
    """A bandit in the middle of its work: outcomes used, outstanding and skipped."""
    bandit = Bandit(["blue", "green", "red"], learner, seed=7, **parameters)
    rng = np.random.default_rng(0)
    for _ in range(400):
        decision = bandit.decide()
        if rng.random() < 0.7:
            bandit.observe(decision, loss=float(rng.random()))
    return bandit


def test_a_decision_is_a_round_an_arm_and_its_propensity() -> None:
    bandit = Bandit(["blue", "green", "red"], seed=7)
    decision = bandit.decide()
    assert decision == Decision(round=1, arm=decision.arm, propensity=1 / 3)
    assert decision.arm in bandit.arms
    assert (bandit.rounds, bandit.outstanding, bandit.skipped, bandit.cumulative_outstanding) == (1, 1, 0, 0)
    assert bandit.observe(decision, reward=0.25) is Receipt.USED
    assert bandit.outstanding == 0
    expected = np.zeros(3)
    expected[bandit.arms.index(decision.arm)] = 0.75 / (1 / 3)
    np.testing.assert_allclose(bandit.loss_estimates - bandit.loss_estimates.min(), expected)


def test_arms_by_number_and_by_label() -> None:
    assert Bandit(4).arms == (0, 1, 2, 3)
    assert Bandit(("a", 7)).arms == ("a", 7)
    assert Bandit(np.array(["x", "y"])).arms == ("x", "y")  # type: ignore[arg-type]


def test_draws_choose_the_first_arm_whose_share_is_not_used_up() -> None:
    for draw, arm in ((0.0, 0), (0.2499, 0), (0.25, 1), (0.5, 2), (0.9999999, 3)):
        assert Bandit(4).decide(draw=draw).arm == arm


def test_the_same_seed_decides_the_same() -> None:
    one, two, other = Bandit(5, seed=3), Bandit(5, seed=3), Bandit(5, seed=4)
    decisions = [one.decide() for _ in range(300)]
    assert decisions == [two.decide() for _ in range(300)]
    assert decisions != [other.decide() for _ in range(300)]


def test_draws_given_by_the_caller_leave_the_generator_alone() -> None:
    one, two = Bandit(5, "uniform", seed=3), Bandit(5, "uniform", seed=3)
    one.decide(draw=0.1)
    two.decide(draw=0.9)
    assert [one.decide().arm for _ in range(200)] == [two.decide().arm for _ in range(200)]


MEANS = {"ucb", "klucb", "elimination", "patient", "epsilon_greedy", "ewma"}
WEIGHTED = {"robust", "hybrid", "hybrid_skipping", "damped", "tsallis", "bold", "exp3", "exp3_fixed", "exp3_adaptive"}


@settings(max_examples=60, deadline=None)
@given(order=st.permutations(range(1, 21)), learner=st.sampled_from(sorted(MEANS | WEIGHTED)))
def test_outcomes_come_in_any_order(order: list[int], learner: str) -> None:
    """Mean-based and importance-weighted learners alike use what was known at the decision, whatever the order."""
    bandit = Bandit(3, informed(f"{learner}:delay_constant=0.001" if learner == "robust" else learner), seed=1)
    decisions = {decision.round: decision for decision in (bandit.decide() for _ in range(20))}
    losses = {s: s / 20 for s in decisions}
    for number in order:
        assert bandit.observe(decisions[number], loss=losses[number]) is Receipt.USED
    assert bandit.outstanding == 0
    expected = np.zeros(3)
    now, then = bandit.cumulative_outstanding, np.cumsum(np.arange(20))
    for s, decision in decisions.items():
        weight = 1.0 if learner in MEANS else decision.propensity
        if learner == "robust":
            weight = max(weight, math.exp(-now / (now - then[s - 1])) if now > then[s - 1] else 0.0)
        expected[int(decision.arm)] += losses[s] / weight
    np.testing.assert_allclose(bandit.loss_estimates, expected, rtol=1e-12)


def test_skipped_decisions() -> None:
    bandit = Bandit(2, "robust", seed=0)
    first = bandit.decide()
    bandit.decide()
    assert bandit.skipped == 0
    bandit.decide()  # closes round 2: patience sqrt(1 / (49 * 2^(2/3) log 2)) < 1, so round 1 is given up
    assert bandit.skipped == 1
    assert bandit.observe(first, loss=1.0) is Receipt.SKIPPED
    assert (bandit.loss_estimates == 0.0).all()
    with pytest.raises(AlreadyObserved):
        bandit.observe(first, loss=1.0)


def test_learners_that_never_skip_have_endless_patience() -> None:
    bandit = Bandit(3, "ucb")
    decisions = [bandit.decide() for _ in range(2000)]
    assert bandit.patience == math.inf
    assert (bandit.outstanding, bandit.skipped) == (2000, 0)
    assert bandit.observe(decisions[0], loss=0.5) is Receipt.USED


def test_numbers_of_any_kind_are_taken() -> None:
    for value in (0, 1, True, np.float32(0.5), np.int64(1), 0.5):
        bandit = Bandit(2, seed=0)
        assert bandit.observe(bandit.decide(), loss=value) is Receipt.USED  # type: ignore[arg-type]
        assert bandit.observe(np.int64(bandit.decide().round), reward=value) is Receipt.USED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "field", "value"),
    [
        (lambda b: b.observe(400, loss=math.nan), InvalidValue, "loss", "nan"),
        (lambda b: b.observe(400, loss=1.5), InvalidValue, "loss", "1.5"),
        (lambda b: b.observe(400, loss=-1e-9), InvalidValue, "loss", "-1e-09"),
        (lambda b: b.observe(400, reward=2), InvalidValue, "reward", "2"),
        (lambda b: b.observe(400, reward="good"), InvalidValue, "reward", "'good'"),
        (lambda b: b.observe(400, loss="0.5"), InvalidValue, "loss", "'0.5'"),
        (lambda b: b.decide(draw="x"), InvalidValue, "draw", "'x'"),
        (lambda b: b.observe(400), InvalidValue, "loss", ""),
        (lambda b: b.observe(400, loss=0.5, reward=0.5), InvalidValue, "loss", "0.5"),
        (lambda b: b.observe(401, loss=0.5), UnknownDecision, None, "401"),
        (lambda b: b.observe(0, loss=0.5), UnknownDecision, None, "0"),
        (lambda b: b.observe(-3, loss=0.5), UnknownDecision, None, "-3"),
        (lambda b: b.observe("third", loss=0.5), UnknownDecision, None, "'third'"),
        (lambda b: b.observe(True, loss=0.5), UnknownDecision, None, "True"),
        (lambda b: b.observe(2.0, loss=0.5), UnknownDecision, None, "2.0"),
        (lambda b: b.observe(1, loss=0.5), AlreadyObserved, None, "1"),
        (lambda b: b.observe(400, loss=10**400), InvalidValue, "loss", "1000"),
        (lambda b: b.observe(Decision("x", 1, 0.5), loss=0.5), UnknownDecision, None, "'x'"),  # type: ignore[arg-type]
        (lambda b: b.decide(draw=1.0), InvalidValue, "draw", "1.0"),
        (lambda b: b.decide(draw=-0.1), InvalidValue, "draw", "-0.1"),
        (lambda b: b.decide(draw=math.nan), InvalidValue, "draw", "nan"),
    ],
)
def test_a_failed_call_changes_nothing(call: Any, error: type[Exception], field: str | None, value: str) -> None:
    bandit, untouched = busy(), busy()
    with refused(field, value, error=error):
        call(bandit)
    assert bandit.to_bytes() == untouched.to_bytes()
    assert [bandit.decide() for _ in range(200)] == [untouched.decide() for _ in range(200)]


@pytest.mark.parametrize(
    ("arms", "arguments", "field", "values"),
    [
        (1, {}, "arms", [1, 2, 10_000]),
        (0, {}, "arms", [0]),
        (-4, {}, "arms", [-4]),
        (10_001, {}, "arms", [10_001]),
        (["only"], {}, "arms", [1]),
        (["a", "b", "a"], {}, "arms", ["'a'"]),
        ([1.5, 2.5], {}, "arms", [1.5]),
        ([True, False], {}, "arms", [True]),
        ("ab", {}, "arms", ["'ab'"]),
        (2.0, {}, "arms", [2.0]),
        (3, {"learner": None}, "learner", [None]),
        (3, {"seed": -1}, "seed", [-1]),
        (3, {"seed": "seven"}, "seed", ["'seven'"]),
        (3, {"learner": "robst"}, "learner", ["'robst'", "'robust'"]),
        (3, {"learner": "balanced", "patience_constnt": 3}, "patience_constnt", ["'patience_constant'"]),
        (3, {"learner": "balanced", "patience_constant": 0.0}, "patience_constant", ["0.0", "1e-09"]),
        (3, {"kapa": 3}, "kapa", ["guarded", "'kappa'"]),
        (3, {"kappa": -1.0}, "kappa", [-1.0]),
    ],
)
def test_bad_arms_and_learners(arms: Any, arguments: dict[str, Any], field: str, values: list[Any]) -> None:
    with refused(field, *values):
        Bandit(arms, **arguments)


@pytest.mark.filterwarnings("ignore::belated.BelatedWarning")
@pytest.mark.parametrize(
    ("learner", "rounds"),
    [
        *((learner, 130) for learner in (*sorted(learners.catalogue), *VARIANTS)),
        *sampled(product((*sorted(learners.catalogue), *VARIANTS), (0, 1, 127, 128, 129, 1000)), 12),
    ],
)
def test_snapshots_go_on_exactly_where_they_stopped(learner: str, rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    original = Bandit(["blue", "green", "red"], informed(learner), seed=rounds)

    def live(bandit: Bandit, chances: np.ndarray) -> list[Any]:
        history: list[Any] = []
        for chance in chances:
            history.append(bandit.decide(**told(learner, int(chance * 20))))
            if chance < 0.6 or bandit.outstanding > 30:
                number = history[-1].round - int(chance * 20) % bandit.rounds
                try:
                    history.append(bandit.observe(number, loss=float(chance)))
                except AlreadyObserved:
                    history.append("again")
        return history

    live(original, rng.random(rounds))
    copy = Bandit.from_bytes(original.to_bytes())
    assert repr(copy) == repr(original)
    np.testing.assert_array_equal(copy.distribution, original.distribution)
    chances = rng.random(200)
    assert live(copy, chances) == live(original, chances)
    assert copy.to_bytes() == original.to_bytes()


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.SFC64, np.random.Philox, np.random.MT19937])
def test_snapshots_keep_any_generator(kind: Any) -> None:
    original = Bandit(3, "uniform", seed=np.random.Generator(kind(5)))
    original.decide()
    copy = Bandit.from_bytes(original.to_bytes())
    assert [copy.decide() for _ in range(300)] == [original.decide() for _ in range(300)]


def test_pickles_and_copies_are_snapshots() -> None:
    original = busy()
    for copy in (pickle.loads(pickle.dumps(original)), deepcopy(original)):
        assert copy.to_bytes() == original.to_bytes()


def test_snapshots_keep_the_parameters() -> None:
    copy = Bandit.from_bytes(busy(delay_constant=0.25).to_bytes())
    assert copy.learner == "robust:delay_constant=0.25"


def test_damaged_and_foreign_snapshots_are_refused() -> None:
    blob = busy().to_bytes()
    for place in (0, 5, 8, 12, 30, 200, len(blob) - 1):
        damaged = bytearray(blob)
        damaged[place] ^= 0x40
        with pytest.raises(SnapshotError):
            Bandit.from_bytes(bytes(damaged))
    for foreign in (*(blob[:cut] for cut in (0, 4, 20, 100, len(blob) - 1)), b"PK\x03\x04 something else", "text"):
        with pytest.raises(SnapshotError):
            Bandit.from_bytes(foreign)  # type: ignore[arg-type]
    with refused(None, "'robust'", "'ucb'", error=SnapshotError):
        Bandit.from_bytes(blob, learners.find("ucb"))


def test_an_arm_of_no_share_is_never_drawn() -> None:
    bandit = Bandit(3, "ucb", seed=0)
    for draw in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        decision = bandit.decide(draw=float(draw))
        assert decision.propensity == 1.0
        bandit.observe(decision, loss=0.5)


TRACED = ("decide", "_decide", "observe", "_observe_late", "_catch_up", "_miss", "_make_room", "_fold")


class Interrupts:
    """Raises KeyboardInterrupt at the n-th line that bandit.py runs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("bandit.py"):
            return None
        if event == "line" and frame.f_code.co_name in TRACED:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize(
    "learner",
    [
        "robust:delay_constant=0.5",
        "robust:delay_constant=0.0001",
        "hybrid_skipping",
        "tsallis_rv",
        pytest.param("robust", marks=pytest.mark.slow),
        pytest.param("bold", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_at_any_line_leaves_a_bandit_in_order(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was under way has happened wholly or not at all; nothing is lost, used twice, or out of step afterwards."""
    monkeypatch.setattr(outcomes, "FOLD", 8)
    rng = np.random.default_rng(5)
    interrupted = 0
    for after in range(1, 130):
        bandit = Bandit(3, learner, seed=after)
        unobserved: set[int] = set()
        answered: dict[int, Receipt] = {}
        sys.settrace(Interrupts(after + 300))
        try:
            for _ in range(60):
                unobserved.add(bandit.decide().round)
                for number in rng.permutation(sorted(unobserved))[: rng.integers(0, 3)]:
                    answered[int(number)] = bandit.observe(int(number), loss=0.5)
                    unobserved.remove(int(number))
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        if after % 3 == 1:  # it may be continued by a snapshot, by an outcome, or by a decision
            bandit = Bandit.from_bytes(bandit.to_bytes())
        elif after % 3 == 2 and unobserved:
            number = unobserved.pop()
            answered[number] = Receipt.USED  # where the call that was interrupted had gone through
            with suppress(AlreadyObserved):
                answered[number] = bandit.observe(number, loss=0.5)
        decided = bandit.rounds
        for _ in range(20):
            bandit.decide()
        assert bandit.outstanding == bandit._run.clock["outstanding"][0]
        if decided not in unobserved and decided not in answered:  # decided, but nobody was told
            receipt = bandit.observe(decided, loss=0.5)
            assert receipt is Receipt.USED or bandit.skipped > 0
            answered[decided] = receipt
        for number in range(1, bandit.rounds + 1):
            if number in answered:
                with pytest.raises(AlreadyObserved):
                    bandit.observe(number, loss=0.5)
            elif number in unobserved:
                try:
                    bandit.observe(number, loss=0.5)
                except AlreadyObserved:  # the call that was interrupted had gone through
                    unobserved.discard(number)
        kept = bandit._fold()  # all but the last 20 were observed above, some of them twice
        came = kept._rewards[~np.isnan(kept._rewards)].tolist()
        assert kept.last == bandit.rounds
        assert kept.stream.tally.known.sum() + len(came) == bandit.rounds - 20
        assert kept.stream.tally.rewards.sum() + sum(came) == 0.5 * (bandit.rounds - 20)
        assert bandit.decide().round == bandit.rounds
        assert np.isfinite(bandit.distribution).all()
    assert interrupted > 100
