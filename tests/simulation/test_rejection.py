"""The rejection method: a learner on a log that somebody else made."""

from typing import Any

import numpy as np
import pytest

from belated import learners
from belated.core.rounds import FOREVER
from belated.core.shares import draw_arm
from belated.learners import PythonLearner
from belated.simulation import replay
from belated.simulation.rejection import LoggedRows, Rejection, RowNotes
from support.plain_exp3 import PlainExp3
from support.play_live import VARIANTS, informed
from support.refusals import refused
from support.sampling import sampled

ARMS = 4
PLAYABLE = [
    each for each in (*sorted(learners.catalogue), *VARIANTS) if learners.find(each.partition(":")[0]).delay_at is None
]
"""All learners, but those that must know each delay."""
FOUR_ERRORS = 4.0


def problem(rounds: int, seed: int = 1) -> tuple[Any, list[int | None], list[float]]:
    """Losses of 4 arms; delays of up to 30 rounds, a tenth of them for ever."""
    rng = np.random.default_rng(seed)
    losses = (rng.random((rounds, ARMS)) < [0.2, 0.4, 0.6, 0.8]).astype(float)
    losses[::3] = rng.random((len(losses[::3]), ARMS))
    delays = [None if rng.random() < 0.1 else int(rng.integers(0, 31)) for _ in range(rounds)]
    return losses, delays, rng.random(rounds).tolist()


def logged(size: int, seed: int = 2, shares: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)) -> LoggedRows:
    """A log of fixed but unequal shares; delays of 0 to 20 rounds, a tenth for ever, without an outcome."""
    rng = np.random.default_rng(seed)
    arms = rng.choice(len(shares), size, p=shares)
    losses = (rng.random(size) < np.array([0.2, 0.4, 0.6, 0.8])[arms]).astype(float)
    lost = rng.random(size) < 0.1
    delays = np.where(lost, FOREVER, rng.integers(0, 21, size))
    return LoggedRows(
        arms,
        np.where(lost, np.nan, losses),
        delays,
        np.array(shares)[arms],
        rng.random(size),
        rng.random(size),
        min(shares),
    )


def piece(rows: LoggedRows, begin: int, end: int) -> LoggedRows:
    return LoggedRows._make([*(values[begin:end] for values in rows[:-1]), rows.least])


def own_rows(trace: Any, losses: Any, delays: list[int | None], draws: list[float]) -> LoggedRows:
    """The decisions of a trace as a log in which they were certain. What never comes has various delays."""
    size = trace.arms.size
    waits = np.array([FOREVER + 37 * k % 400 if each is None else each for k, each in enumerate(delays)])
    paid = np.asarray(losses)[np.arange(size), trace.arms]
    return LoggedRows(trace.arms, paid, waits, np.ones(size), np.array(draws), np.linspace(0, 1, size, False), 1.0)


@pytest.mark.parametrize("words", PLAYABLE)
def test_a_learner_on_its_own_decisions_makes_them_again(words: str) -> None:
    """All rows are accepted, with the propensities of the simulation, bit for bit; and as many are skipped."""
    losses, delays, draws = problem(1200)
    trace = replay(informed(words), losses, delays, draws)
    run = Rejection(informed(words), ARMS, 1200)
    notes = run.offer(own_rows(trace, losses, delays, draws))
    np.testing.assert_array_equal(notes.accepted, np.arange(1, 1201))
    np.testing.assert_array_equal(notes.weights, trace.propensities)
    assert run.count("skips") == np.count_nonzero(trace.skipped)
    assert run.count("most_outstanding") == trace.outstanding.max()


def test_some_of_these_learners_skip() -> None:
    losses, delays, draws = problem(1200)
    skips = {words for words in PLAYABLE if replay(informed(words), losses, delays, draws).skipped.any()}
    assert len(skips) >= 4


@pytest.mark.parametrize("words", ["ucb", "guarded", "thompson"])
def test_settled_outcomes_come_later(words: str) -> None:
    losses, delays, draws = problem(400)
    trace = replay(f"{words}:settled=15", losses, delays, draws)
    notes = Rejection(learners.tune(words, settled=15), ARMS, 400).offer(own_rows(trace, losses, delays, draws))
    np.testing.assert_array_equal(notes.weights, trace.propensities)
    assert notes.accepted.all()
    assert not np.array_equal(trace.arms, replay(words, losses, delays, draws).arms)


@pytest.mark.parametrize("words", ["sapo", "elimination"])
def test_the_horizon_is_told(words: str) -> None:
    """It is the number of rounds that the log is worth; at least 2."""
    losses, delays, draws = problem(500)
    trace = replay(words, losses, delays, draws)
    rows = own_rows(trace, losses, delays, draws)
    np.testing.assert_array_equal(Rejection(learners.tune(words), ARMS, 500).offer(rows).weights, trace.propensities)
    (place,) = [k for k, each in enumerate(learners.find(words).parameters) if each.name == "horizon"]
    told = [
        Rejection(learners.tune(words, **given), ARMS, rounds).run.params[place]
        for rounds, given in ((500, {}), (1, {}), (500, {"horizon": 9.0}))
    ]
    assert told == [500.0, 2.0, 9.0]


def row_by_row(run: Rejection, rows: LoggedRows) -> tuple[RowNotes, Any]:
    """Offer rows one at a time; return what is noted, and the learner's distribution at each."""
    notes, distributions = [], []
    for i in range(rows.arms.size):
        notes.append(run.offer(piece(rows, i, i + 1)))
        distributions.append(run.run.p.copy())
    columns = [np.concatenate([getattr(each, name) for each in notes]) for name in ("accepted", "weights", "baselines")]
    accepted, weights, baselines = columns
    return notes[-1]._replace(accepted=accepted, weights=weights, baselines=baselines), np.array(distributions)


@pytest.mark.parametrize("words", sampled(PLAYABLE, 8))
def test_in_pieces_as_at_once(words: str) -> None:
    rows = logged(1500)
    whole = Rejection(informed(words), ARMS, 150).offer(rows)
    run = Rejection(informed(words), ARMS, 150)
    parts = [run.offer(piece(rows, begin, end)) for begin, end in ((0, 1), (1, 2), (2, 777), (777, 777), (777, 1500))]
    for name in ("accepted", "weights", "baselines"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(each, name) for each in parts]), getattr(whole, name), err_msg=name
        )
    assert whole.accepted.any()


@pytest.mark.parametrize("words", ["guarded", "thompson", "ucb", "balanced"])
def test_every_row_by_hand(words: str) -> None:
    """Weights, baselines and who is accepted, from the distributions and plain sums over earlier rows."""
    rows = logged(800)
    notes, p = row_by_row(Rejection(informed(words), ARMS, 80), rows)
    count, total, rounds = np.zeros(ARMS), np.zeros(ARMS), 0
    for i in range(800):
        arm, propensity = rows.arms[i], rows.propensities[i]
        overall = (total.sum() + 0.5) / (count.sum() + 1.0)
        q = (total + overall) / (count + 1.0)
        weight = p[i, arm] / propensity
        assert notes.weights[i] == weight
        assert notes.baselines[i] == pytest.approx(p[i] @ q - weight * q[arm], rel=1e-12, abs=1e-12)
        accepted = draw_arm(p[i], rows.draws[i]) == arm and rows.thinning[i] < rows.least / propensity
        rounds += accepted
        assert notes.accepted[i] == (rounds if accepted else 0)
        if not np.isnan(rows.losses[i]):
            count[arm] += 1.0
            total[arm] += 1.0 - rows.losses[i]
    assert rounds > 40


@pytest.mark.parametrize("words", ["guarded", "ucb", "exp3", "queued", "hybrid_skipping", "balanced", "robust"])
def test_rows_that_are_passed_over_leave_no_trace(words: str) -> None:
    """A simulation of the accepted rows alone has the same distributions, bit for bit."""
    rows = logged(4000)
    notes, p = row_by_row(Rejection(informed(words), ARMS, 400), rows)
    taken = np.flatnonzero(notes.accepted)
    losses = np.zeros((taken.size, ARMS))
    losses[np.arange(taken.size), rows.arms[taken]] = np.nan_to_num(rows.losses[taken])
    delays = [None if each >= FOREVER else int(each) for each in rows.delays[taken]]
    trace = replay(informed(words), losses, delays, rows.draws[taken].tolist())
    np.testing.assert_array_equal(trace.arms, rows.arms[taken])
    np.testing.assert_array_equal(trace.distributions, p[taken])


@pytest.mark.parametrize("words", ["uniform", "guarded", "thompson", "ucb"])
def test_every_row_is_accepted_with_the_least_propensity(words: str) -> None:
    """40,000 rows: within four standard errors, whatever the learner knows; and the accepted outcomes of each arm have
    its mean.
    """
    rows = logged(40_000)
    notes = Rejection(learners.tune(words), ARMS, 4000).offer(rows)
    taken = notes.accepted > 0
    error = FOUR_ERRORS * np.sqrt(0.1 * 0.9 / 10_000)
    for quarter in np.split(taken, 4):
        assert abs(quarter.mean() - 0.1) < error
    known = taken & ~np.isnan(rows.losses)
    for arm, mean in enumerate([0.2, 0.4, 0.6, 0.8]):
        mine = rows.losses[known & (rows.arms == arm)]
        if mine.size > 30:
            assert abs(mine.mean() - mean) < FOUR_ERRORS * np.sqrt(mean * (1 - mean) / mine.size)
    assert abs(notes.weights.mean() - 1.0) < FOUR_ERRORS * notes.weights.std() / 200.0


def test_accepted_arms_are_those_that_the_learner_draws() -> None:
    """Uniform play: a quarter each, although the log has 40 % of the first; all outcomes and delays alike."""
    rows = logged(40_000)
    taken = Rejection(learners.tune("uniform"), ARMS, 4000).offer(rows).accepted > 0
    shares = np.bincount(rows.arms[taken], minlength=ARMS) / taken.sum()
    assert np.abs(shares - 0.25).max() < FOUR_ERRORS * np.sqrt(0.25 * 0.75 / taken.sum())
    came = rows.delays[taken] < FOREVER
    assert abs(came.mean() - 0.9) < FOUR_ERRORS * np.sqrt(0.09 / taken.sum())
    assert abs(rows.delays[taken][came].mean() - 10.0) < FOUR_ERRORS * np.sqrt(440 / 12 / came.sum())


def test_a_deterministic_learner() -> None:
    """Its weights are 0, or 1 / propensity; what is accepted has its arm."""
    rows = logged(5000)
    notes = Rejection(learners.tune("ucb"), ARMS, 500).offer(rows)
    plays = notes.weights > 0
    np.testing.assert_array_equal(notes.weights[plays], 1.0 / rows.propensities[plays])
    assert plays[notes.accepted > 0].all()
    assert 0 < np.count_nonzero(plays) < 5000


def test_numbers_of_rounds_do_not_begin_anew() -> None:
    rows = logged(3000)
    notes = Rejection(learners.tune("uniform"), ARMS, 300).offer(rows)
    numbers = notes.accepted[notes.accepted > 0]
    assert numbers.tolist() == list(range(1, numbers.size + 1))


def test_rows_of_other_types_are_taken() -> None:
    rows = logged(300)
    expected = Rejection(learners.tune("exp3"), ARMS, 30).offer(rows)
    stretched = LoggedRows._make(
        [*(np.repeat(values, 2)[::2] for values in rows[:-1]), np.float32(rows.least).astype(np.float64)]
    )._replace(arms=rows.arms.astype(np.int32), least=rows.least)
    found = Rejection(learners.tune("exp3"), ARMS, 30).offer(stretched)
    np.testing.assert_array_equal(found.accepted, expected.accepted)
    np.testing.assert_array_equal(found.weights, expected.weights)


@pytest.mark.parametrize(
    ("learner", "field", "values"),
    [
        ("damped", "learner", ["'damped'", "longest_delay"]),
        ("exp3_fixed", "learner", ["'exp3_fixed'", "longest_delay"]),
        ("exp3_dropping", "learner", ["total_delay"]),
        ("patient", "learner", ["tail_index"]),
        ("exp3_delayed", "learner", ["'exp3_delayed'"]),
        (PythonLearner("mine", PlainExp3), "learner", ["'mine'"]),
        ("ucb:share_floor=0.3", "share_floor", ["0.3", "1/4"]),
    ],
    ids=str,
)
def test_learners_that_cannot_be_offered_a_log(learner: Any, field: str, values: list[str]) -> None:
    with refused(field, *values):
        Rejection(learners.tune(learner), ARMS, 100)


def test_a_learner_may_wait_for_longer_than_can_be_counted() -> None:
    ones = np.ones(50)
    rows = LoggedRows(np.zeros(50, int), ones, np.zeros(50, int), ones, np.zeros(50), np.zeros(50), 1.0)
    for settled in (FOREVER, 1 << 70):
        run = Rejection(learners.tune("ucb", settled=settled), 2, 50)
        run.offer(rows)
        assert run.count("outstanding") == run.count("round") - 1
