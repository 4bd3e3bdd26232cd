"""The cost of delay that a state measures: its definition, its mean, and where it says nothing."""

import math

import numpy as np
import pytest

from belated.ledger.commands import View
from belated.ledger.events import DecisionRecord, ExperimentRecord, ExperimentSettings, Kind, Status
from belated.ledger.state import ExperimentState
from belated.service import views
from support.ledger_helpers import record_of, settings

LOSSES = np.array([0.2, 0.5, 0.8])


def play(learner: str, delay: int, rounds: int, seed: int, arm_after: int = 0) -> tuple[ExperimentState, float, float]:
    """Return a state, the sum of its definition, and the sum over outcomes of the mean that it estimates."""
    state = ExperimentState(settings("one", seed, learner))
    rng = np.random.default_rng(seed)
    losses = LOSSES
    waiting: list[tuple[str, DecisionRecord, np.ndarray]] = []
    defined = estimated = total = 0.0
    outcomes = 0
    for t in range(1, rounds + 1):
        event = state.decide(f"d{t}", t)
        waiting.append((event.id, record_of(event), state.bandit.distribution.copy()))
        if len(waiting) > delay:
            id, known, then = waiting.pop(0)
            loss = float(rng.random() < losses[known.arm])
            now = state.bandit.distribution[: then.size] / state.bandit.distribution[: then.size].sum()
            if outcomes:
                change = 1.0 - now[known.arm] / known.propensity
                defined += (loss - total / outcomes) * change
                estimated += float((then - now) @ losses[: then.size])
            state.observe(id, known, loss, t)
            total, outcomes = total + loss, outcomes + 1
        if t == arm_after:
            state.change_arm(Kind.ADD_ARM, 3, t, "new")
            losses = np.append(LOSSES, 0.1)
    return state, defined, estimated


@pytest.mark.parametrize("learner", ["guarded", "balanced", "exp3", "tsallis"])
@pytest.mark.parametrize("delay", [1, 30])
def test_it_is_what_its_definition_says(learner: str, delay: int) -> None:
    state, defined, _ = play(learner, delay, 300, 3)
    assert state.delay_cost == pytest.approx(defined, rel=1e-9, abs=1e-12)
    assert state.delay_cost != 0.0


def test_arms_that_came_since_the_decision_do_not_count() -> None:
    state, defined, _ = play("guarded", 30, 300, 5, arm_after=100)
    assert state.bandit.distribution[3] > 0.1
    assert state.delay_cost == pytest.approx(defined, rel=1e-9)


def test_without_delay_there_is_none() -> None:
    state, _, _ = play("guarded", 0, 300, 3)
    assert state.delay_cost == 0.0
    assert play("uniform", 20, 100, 3)[0].delay_cost == 0.0


def test_on_average_it_is_what_older_knowledge_cost() -> None:
    """100 runs with seeds from 0: the means differ by less than four standard errors of their difference."""
    runs = [play("balanced", 40, 200, seed) for seed in range(100)]
    errors = np.array([state.delay_cost - estimated for state, _, estimated in runs])
    costs = np.array([estimated for _, _, estimated in runs])
    margin = 4 * errors.std() / math.sqrt(errors.size)
    assert abs(errors.mean()) < margin < 0.5 * costs.mean()


def test_where_arms_are_certain_nothing_is_said() -> None:
    for learner, is_told in (("ucb", False), ("guarded", True)):
        state, _, _ = play(learner, 5, 50, 3)
        record = ExperimentRecord(1, state.settings, Status.ACTIVE, 0, state.position, 50)
        shown = views.experiment(View(record, Status.ACTIVE, state)).delay_cost
        assert (shown is not None) == is_told


def test_late_outcomes_and_snapshots() -> None:
    """What the learner does not hear of costs nothing; defaults do; and all of it is kept."""
    state = ExperimentState(ExperimentSettings("one", [0, 1], "guarded", {}, 7, "wait"))
    made = [state.decide(f"d{k}", k) for k in range(40)]
    for k in range(20):
        state.observe(made[k].id, record_of(made[k]), float(made[k].arm), 40 + k)
    for k in range(20):
        state.decide(f"e{k}", 60 + k)
    before = state.delay_cost
    state.default(made[20].id, record_of(made[20]), 1.0, 90)
    after = state.delay_cost
    assert after != before
    state.observe(made[20].id, record_of(made[20])._replace(defaulted=True), 0.0, 91)
    assert state.delay_cost == after
    again = ExperimentState.from_bytes(state.settings, state.to_bytes())
    assert (again.delay_cost, again.all_losses) == (after, state.all_losses)
    assert again.timeline.defaults == {made[20].arm: 1}
