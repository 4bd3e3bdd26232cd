from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import environments, simulate
from belated.delays import (
    NEVER,
    Batches,
    Burst,
    ByArm,
    ByLoss,
    Constant,
    Delays,
    Dropout,
    Empirical,
    Geometric,
    Never,
    NoDelay,
    Outlier,
    Pareto,
    Recorded,
    Uniform,
    whole,
)
from support.refusals import refused

N = 100_000
ROUNDS = np.arange(1, N + 1)


def sample(law: Delays) -> np.ndarray:
    delays = law.fill(np.random.default_rng(7), ROUNDS)
    assert delays.dtype == np.int64
    assert delays.shape == (N,)
    assert (delays >= 0).all()
    return delays


def test_nothing_and_constant() -> None:
    assert (sample(NoDelay()) == 0).all()
    assert (sample(Constant(12)) == 12).all()
    assert Delays.find(12) == Constant(12)


def test_geometric() -> None:
    """Mean 5 within five standard errors, 5 sqrt(30 / N) = 0.087; P(0) = 1/6 within 0.006."""
    delays = sample(Geometric(5.0))
    assert abs(delays.mean() - 5.0) < 0.087
    assert abs((delays == 0).mean() - 1 / 6) < 0.006


def test_uniform() -> None:
    """Each of 4 values a quarter of the time, within five standard errors, 5 sqrt(3/16 / N) = 0.007."""
    values, counts = np.unique(sample(Uniform(3, 6)), return_counts=True)
    assert values.tolist() == [3, 4, 5, 6]
    np.testing.assert_allclose(counts / N, 0.25, atol=0.007)


def test_pareto() -> None:
    """P(delay >= n) = (scale / n)^shape, within five standard errors, 0.008."""
    delays = sample(Pareto(shape=0.5, scale=10.0))
    assert delays.min() == 10
    for n in (10, 20, 100, 1000, 100_000):
        assert abs((delays >= n).mean() - (10 / n) ** 0.5) < 0.008


def test_what_is_beyond_counting_never_comes() -> None:
    assert whole(np.array([1.9, 1e18, 1e300, np.inf])).tolist() == [1, 10**18, NEVER, NEVER]
    assert sample(Pareto(shape=0.001)).max() == NEVER


def test_never() -> None:
    assert (sample(Never()) == NEVER).all()
    law = Delays.find("never")
    assert isinstance(law, Never)
    assert (repr(law), law.title, law.tail_index, law.longest) == ("Never()", "never", 0.0, None)
    assert sample(Delays.find("dropout:share=0,others=never")).min() == NEVER
    with refused("setting of never", "share"):
        Delays.find("never:share=0.1")


def test_only_one_kind_of_outcome_is_reported() -> None:
    """`byloss` with `never`: the other kind follows its own law, mean 20 within five standard errors, 0.33."""
    for words, heard in (
        ("byloss:good=(geometric:mean=20),bad=never", 0),
        ("byloss:good=never,bad=(geometric:mean=20)", 1),
    ):
        law = Delays.find(words)
        delays = law.fill(np.random.default_rng(7), ROUNDS)
        assert delays.shape == (N, 2)
        assert (delays[:, 1 - heard] == NEVER).all()
        assert abs(delays[:, heard].mean() - 20.0) < 0.33
        assert law.tail_index == 0.0


def test_what_is_never_reported_stays_outstanding() -> None:
    """In 300 rounds of uniform play, outcomes of the one kind arrive after 3 rounds, those of the other do not."""
    losses = np.random.default_rng(1).integers(0, 2, (300, 2)).astype(np.float64)
    for words, heard in (("byloss:good=3,bad=never", 0.0), ("byloss:good=never,bad=3", 1.0)):
        result = simulate(
            "uniform", environments.Recorded(losses), words, rounds=300, replications=1, keep_trace=True, seed=3
        )
        trace = result.traces[0][0]
        came = losses[np.arange(300), trace.arms] == heard
        assert trace.outstanding[-1] == np.count_nonzero(~came[:299]) + np.count_nonzero(came[296:299])


def test_outlier() -> None:
    delays = sample(Outlier(others=4))
    assert delays[0] == NEVER
    assert (delays[1:] == 4).all()
    assert Outlier().fill(np.random.default_rng(0), np.array([5, 6])).tolist() == [0, 0]


def test_dropout() -> None:
    """A quarter lost, within five standard errors, 5 sqrt(3/16 / N) = 0.007."""
    delays = sample(Dropout(0.25, others="uniform:low=1,high=2"))
    assert abs((delays == NEVER).mean() - 0.25) < 0.007
    assert set(np.unique(delays)) == {1, 2, NEVER}


def test_recorded() -> None:
    law = Recorded([3, None, 0, float("nan")])  # type: ignore[list-item]
    assert law.fill(np.random.default_rng(0), np.array([2, 3])).tolist() == [NEVER, 0]
    assert law.delays.tolist() == [3, NEVER, 0, NEVER]
    assert law.longest == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("constant:delay=-1", ("delay", "-1")),
        ("constant:delay=1.5", ("delay", "1.5")),
        ("constant", (None, "constant", "delay")),
        ("geometric:mean=0", ("mean", "0")),
        ("uniform:low=3,high=2", (None, "2")),
        ("pareto:shape=-1", ("shape", "-1")),
        ("pareto:scale=0", ("scale", "0")),
        ("geometric:mean=x", ("mean", "x")),
        ("dropout:share=1.5", ("share", "1.5")),
        ("dropout:others=later", ("delays", "later")),
        ("recorded:delays=[1,-2]", ("delays[1]", "-2")),
    ],
)
def test_bad_input(words: str, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Delays.find(words)


def test_burst() -> None:
    delays = sample(Burst(count=10, delay=500, others=3))
    assert (delays[:10] == 500).all()
    assert (delays[10:] == 3).all()
    assert Burst(others=Pareto(shape=0.5)).tail_index == 0.5


def test_batches_are_released_together() -> None:
    """Every outcome comes at the end of a multiple of `every`, the next one after its decision."""
    delays = sample(Batches(7))
    due = ROUNDS + delays
    assert (due % 7 == 0).all()
    assert delays.min() == 0
    assert delays.max() == 6


def test_empirical_delays_are_drawn_from_a_file(tmp_path: Path) -> None:
    """Each line as likely as the others: a quarter within five standard errors, 0.007."""
    file = tmp_path / "delays.txt"
    file.write_text("# days until conversion\n3\n0\nnever\n12.0\n")
    law = Delays.find(f"empirical:file={file}")
    values, counts = np.unique(sample(law), return_counts=True)
    assert values.tolist() == [0, 3, 12, NEVER]
    np.testing.assert_allclose(counts / N, 0.25, atol=0.007)
    assert law.tail_index == 0.0
    assert Empirical([1, 2]).tail_index == np.inf
    file.write_text("3\nsoon\n")
    with refused(None, "soon", 2):
        Empirical(file)
    file.write_text("# nothing\n")
    with refused(None, "delays.txt"):
        Empirical(file)
    file.write_bytes(b"\xff\xfe\x00")
    with refused(None, "delays.txt"):
        Empirical(file)
    with pytest.raises(FileNotFoundError):
        Empirical(tmp_path / "missing.txt")


def arrivals(delays: Delays, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much each loss estimate of uniform play grew in each round, and the arms played."""
    result = simulate(
        "uniform",
        environments.Recorded(losses),
        delays,
        rounds=len(losses),
        replications=1,
        keep_trace=True,
        seed=3,
    )
    trace = result.traces[0][0]
    return np.diff(np.vstack([np.zeros(losses.shape[1]), trace.loss_estimates]), axis=0), trace.arms


def test_delays_by_arm_and_by_loss() -> None:
    """Every outcome arrives when the law of its arm, or of its loss, says: recomputed from the trace."""
    rng = np.random.default_rng(0)
    losses = rng.random((300, 3)) * 0.5 + np.where(rng.random((300, 3)) < 0.5, 0.0, 0.5)
    for law in (ByArm([2, 5]), ByLoss(good=1, bad=4)):
        grown, arms = arrivals(law, losses)
        expected = np.zeros((300, 3))
        for s, arm in enumerate(arms):
            loss = losses[s, arm]
            delay = (2, 5, 5)[arm] if isinstance(law, ByArm) else (4 if loss >= 0.5 else 1)
            if s + delay < 300:
                expected[s + delay, arm] += 3.0 * loss
        np.testing.assert_allclose(grown, expected, atol=1e-9)


def test_bad_news_of_coins_travels_slowly() -> None:
    """Coins are looked at before their delay is known: where bad news never comes, nothing is held against an arm, and
    about as many decisions are outstanding as coins came up 1: 250 of 500 of uniform play, five standard errors 56.
    """
    problem: Any = ("stochastic:arms=2,gap=0.1", ByLoss(good=0, bad=NEVER))
    result = simulate("uniform", *problem, rounds=500, replications=4, keep_trace=True)
    for trace in result.traces[0]:
        assert (trace.loss_estimates == 0.0).all()
        assert trace.outstanding[-1] == pytest.approx(250, abs=56)


def test_dependent_delays_by_words_and_their_truth() -> None:
    assert Delays.find("byarm:laws=[none,(geometric:mean=5)]") == ByArm(["none", Geometric(5)])
    assert Delays.find("recorded:delays=[3,never,0]").fill(np.random.default_rng(0), np.array([2]))[0] == NEVER
    law = Delays.find("byarm:laws=[0,30]")
    assert law == ByArm([0, 30])
    assert ByArm([Pareto(shape=0.5), 3]).tail_index == 0.5
    assert ByLoss(good=0, bad=Recorded([1, 2])).longest == 2
    with refused(None, "exp3_delayed", "ByArm"):
        simulate("exp3_delayed", "stochastic:arms=3", law, rounds=50, replications=1)
    told = simulate("damped", "stochastic:arms=3", law, rounds=50, replications=1, keep_trace=True)
    by_hand = simulate("damped:longest_delay=30", "stochastic:arms=3", law, rounds=50, replications=1, keep_trace=True)
    np.testing.assert_array_equal(told.traces[0][0].distributions, by_hand.traces[0][0].distributions)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("burst:count=-1", ("count", "-1")),
        ("batches:every=0", (None, "0")),
        ("byarm:laws=3", (None, "3")),
        ("byarm:laws=[0,later]", ("delays", "later")),
        ("recorded:delays=[3,soon]", ("delays[1]", "soon")),
        ("byloss:bad=-1", ("delay", "-1")),
    ],
)
def test_bad_new_laws(words: str, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Delays.find(words)


def test_laws_that_depend_twice_are_refused() -> None:
    with refused(None, "ByArm"):
        ByLoss(bad=ByArm([1, 2]))
    with refused(None, "ByLoss"):
        ByArm([ByLoss()])
