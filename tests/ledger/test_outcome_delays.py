"""How long outcomes took, in rounds and in seconds, as the state of an experiment counts it."""

from belated.ledger.delay_histogram import BOUNDS
from belated.ledger.events import SECOND
from belated.ledger.state import ExperimentState
from support.ledger_helpers import record_of, settings


def test_a_delay_in_rounds_is_the_number_of_later_decisions() -> None:
    """Nine decisions, one each second. The outcome of the last comes at once, that of the first after eight more."""
    state = ExperimentState(settings("one", learner="ucb"))
    decisions = [state.decide(f"d{k}", k * SECOND) for k in range(1, 10)]
    for decision in (decisions[8], decisions[6], decisions[0]):
        state.observe(decision.id, record_of(decision), 0.5, 9 * SECOND)
    assert state.delays_rounds.counts == {0: 1, 2: 1, 8: 1}
    assert state.delays_seconds.quantile(0.1) == 0.0
    assert state.histogram.total == 0.0 + 2.0 + 8.0
    upto = dict(zip(BOUNDS, state.histogram.counts, strict=False))
    assert (upto[0.1], upto[1], upto[10]) == (1, 0, 2)


def test_a_state_made_and_one_applied_count_the_same() -> None:
    made = ExperimentState(settings("one", learner="ucb"))
    first = made.decide("a", 0)
    events = [first, made.decide("b", SECOND), made.observe("a", record_of(first), 0.5, 3 * SECOND)]
    applied = ExperimentState(settings("one", learner="ucb"))
    for event in events:
        applied.apply(event)
    assert made.delays_rounds.counts == applied.delays_rounds.counts == {1: 1}
    assert made.histogram.total == applied.histogram.total == 3.0


def test_defaults_are_no_delays_but_the_late_outcome_is_one() -> None:
    """A default is taken without an outcome; when that comes after all, its delay counts, its loss does not."""
    state = ExperimentState(settings("one", learner="ucb"))
    decision = state.decide("a", 0)
    state.default("a", record_of(decision), 1.0, 10 * SECOND)
    assert (state.delays_rounds.counts, state.defaults) == ({}, 1)
    state.decide("b", 11 * SECOND)
    state.observe("a", record_of(decision)._replace(defaulted=True), 0.25, 12 * SECOND)
    assert state.delays_rounds.counts == {1: 1}
    assert (state.outcomes[decision.arm], state.losses[decision.arm]) == (1, 1.0)
    assert state.fates == [0, 0, 0, 1]
