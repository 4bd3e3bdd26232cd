import numpy as np
import pytest

from belated import simulate
from belated.core import random
from belated.environments import (
    Bernoulli,
    Beta,
    Blocks,
    Constrained,
    Corrupted,
    Drifting,
    Environment,
    Recorded,
    Resonant,
    Revenue,
    Rhythm,
    Stochastic,
    Switching,
)
from belated.simulation.simulation import replay
from support.refusals import refused

ROUNDS = np.arange(1, 20_001)


@pytest.mark.parametrize(
    "environment", [Bernoulli([0.0, 0.3, 1.0]), Stochastic(5, 0.25), Constrained(3, 0.125)], ids=repr
)
def test_coins_have_the_expected_means(environment: Environment) -> None:
    """20,000 coins an arm: within five standard errors, 5 sqrt(0.25 / 20,000) = 0.018."""
    expected, losses = environment.fill(np.random.default_rng(0), ROUNDS)
    assert losses is None
    flipped = random.flip_all(random.new_seed(np.random.default_rng(1)), ROUNDS, expected)
    assert set(np.unique(flipped)) <= {0.0, 1.0}
    np.testing.assert_allclose(flipped.mean(axis=0), np.broadcast_to(expected, flipped.shape).mean(axis=0), atol=0.018)


def test_certain_coins_are_certain() -> None:
    flipped = random.flip_all(np.uint64(5), ROUNDS, np.array([[0.0, 1.0]]))
    assert not flipped[:, 0].any()
    assert flipped[:, 1].all()


def test_coins_are_independent() -> None:
    """Between arms, between rounds, and between keys: correlations within five standard errors, 5 / sqrt(20,000) =
    0.035.
    """
    flipped = random.flip_all(np.uint64(9), ROUNDS, np.full((1, 4), 0.5))
    other = random.flip_all(np.uint64(10), ROUNDS, np.full((1, 4), 0.5))
    columns = [*flipped.T, *other.T, flipped[:, 0]]
    pairs = np.corrcoef(columns[:-1])
    assert np.abs(pairs - np.eye(8)).max() < 0.035
    for lag in (1, 2, 3, 7, 64):
        assert abs(np.corrcoef(flipped[:-lag, 0], flipped[lag:, 0])[0, 1]) < 0.035


def test_splitmix64() -> None:
    """The generator's first outputs from seed 1234567, as published with its reference code, show through the coins."""
    outputs = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    golden = 0x9E3779B97F4A7C15
    for k, output in enumerate(outputs, 1):
        position = (1 << int(random.ARM_BITS)) + k  # round 1, arm k
        key = np.uint64((1234567 + k * golden - position * golden) % 2**64)
        mean = (output >> 11) / 2**53
        with np.errstate(over="ignore"):
            assert random.flip(key, 1, k, mean) == 0.0
            assert random.flip(key, 1, k, mean + 2**-53) == 1.0


def test_constrained_phases_grow() -> None:
    high = Constrained(2, 0.1, growth=2.0, first=3).high(np.arange(1, 46))
    assert high.tolist() == [False] * 3 + [True] * 6 + [False] * 12 + [True] * 24
    assert (
        Constrained(2, 0.1, growth=1.0, first=2).high(np.arange(1, 7)).tolist()
        == [False] * 2 + [True] * 2 + [False] * 2
    )


def test_constrained_means() -> None:
    means, _ = Constrained(3, 0.2, growth=2.0, first=1).fill(np.random.default_rng(0), np.arange(1, 4))
    np.testing.assert_allclose(means, [[0.0, 0.2, 0.2], [0.8, 1.0, 1.0], [0.8, 1.0, 1.0]])


def test_recorded_losses_are_played_as_they_are() -> None:
    losses = np.random.default_rng(0).random((50, 3))
    result = simulate("ucb", Recorded(losses), rounds=50, replications=1, keep_trace=True)
    arms = result.traces[0][0].arms
    expected = losses[np.arange(50), arms].sum() - losses.sum(axis=0).min()
    assert result.regret[0, 0, -1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bernoulli:means=[0.5]", ("arms", "1")),
        ("bernoulli:means=[0.5,1.5]", ("means[1]", "1.5")),
        ("stochastic:arms=2.5", ("arms", "2.5")),
        ("stochastic:gap=-0.1", ("gap", "-0.1")),
        ("constrained:growth=0.5", (None, "0.5")),
        ("constrained:first=0", (None, "0")),
        ("recorded:losses=[[0.5,2.0]]", (None, "0", "2.0")),
        ("recorded:losses=[0.5,0.5]", (None,)),
        ("bernoulli:means=0.5", ("means", "0.5")),
        ("bernoulli:means=[0.5,x]", ("means[1]", "x")),
        ("stochastic:gap=x", ("gap", "x")),
    ],
)
def test_bad_input(words: str, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Environment.find(words)


def test_a_new_environment_is_known_by_its_name() -> None:
    class Tides(Environment):
        """Twelve lines at most."""

        n_arms = 2

        def fill(self, rng: np.random.Generator, rounds: np.ndarray) -> tuple[np.ndarray, None]:
            return np.stack([0.5 + 0.4 * np.sin(rounds / 50), np.full(rounds.size, 0.5)], axis=1), None

    try:
        assert isinstance(Environment.find("tides"), Tides)
        assert simulate("tsallis", "tides", rounds=1000, replications=2).regret.shape[1] == 2
    finally:
        del Environment.members["tides"]


VARYING = [
    Switching(3, 0.2, every=700),
    Blocks(3, 0.2, length=50),
    Resonant(4, 0.8, delay=30),
    Resonant(3, 0.5, delay=30, shape="square"),
    Corrupted(3, 0.4, budget=5000),
    Drifting(3, 0.6, period=900),
    Beta(3, 0.3, concentration=2.0),
    Revenue([0.3, 0.05, 1.0], [0.1, 0.6, 0.3]),
    Rhythm([0.1, 0.3, 0.5], amplitude=0.9, period=800),
]


@pytest.mark.parametrize("environment", VARYING, ids=repr)
def test_samples_match_expected_losses(environment: Environment) -> None:
    """Over 20,000 rounds, and over 40 stretches of 500: within five standard errors, 0.018 and 0.112."""
    expected, losses = environment.fill(np.random.default_rng(0), ROUNDS)
    if losses is None:
        losses = random.flip_all(random.new_seed(np.random.default_rng(1)), ROUNDS, expected)
    difference = losses - np.broadcast_to(expected, losses.shape)
    assert losses.shape == (20_000, environment.n_arms)
    assert ((losses >= 0.0) & (losses <= 1.0)).all()
    assert np.abs(difference.mean(axis=0)).max() < 0.018
    assert np.abs(difference.reshape(40, 500, -1).mean(axis=1)).max() < 0.112


@pytest.mark.parametrize("environment", VARYING, ids=repr)
def test_chunks_leave_no_seam(environment: Environment) -> None:
    """What is expected in a round does not depend on how rounds are cut into chunks."""
    whole, _ = environment.fill(np.random.default_rng(5), ROUNDS)
    rng = np.random.default_rng(5)
    pieces = [environment.fill(rng, part)[0] for part in np.array_split(ROUNDS, 37)]
    if len(whole) > 1:
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
    else:
        assert all((piece == whole).all() for piece in pieces)


def test_switching_by_hand() -> None:
    means, _ = Switching(3, 0.5, every=2).fill(np.random.default_rng(0), np.arange(1, 9))
    assert means.argmin(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 0, 0]
    assert set(np.unique(means)) == {0.25, 0.75}


def test_blocks_have_one_loss_vector_each() -> None:
    """P(loss = 1) is (1 - gap)/2 for arm 0: 400 blocks, five standard errors are 0.125. Seeds make the difference."""
    losses, same = Blocks(2, 0.2, length=50).fill(np.random.default_rng(3), ROUNDS)
    assert losses is same
    blocks = losses.reshape(400, 50, 2)
    assert (blocks == blocks[:, :1]).all()
    assert abs(blocks[:, 0, 0].mean() - 0.4) < 0.125
    assert abs(blocks[:, 0, 1].mean() - 0.6) < 0.125
    other, _ = Blocks(2, 0.2, length=50).fill(np.random.default_rng(4), ROUNDS)
    assert (other != losses).any()
    again, _ = Blocks(2, 0.2, length=50).fill(np.random.default_rng(3), ROUNDS)
    np.testing.assert_array_equal(again, losses)


def test_resonant_swings_with_four_delays() -> None:
    """Nobody is better over a whole period; a quarter of it later the better arm is neither; half of it later worst."""
    means, _ = Resonant(2, 1.0, delay=100).fill(np.random.default_rng(0), np.arange(1, 401))
    np.testing.assert_allclose(means.sum(axis=0), 200.0)
    np.testing.assert_allclose(means[0], [1.0, 0.0], atol=1e-3)
    np.testing.assert_allclose(means[99], [0.5, 0.5], atol=0.01)
    np.testing.assert_allclose(means[199], [0.0, 1.0], atol=1e-3)
    square, _ = Resonant(2, 0.6, delay=100, shape="square").fill(np.random.default_rng(0), np.arange(1, 401))
    assert (square[:100] == [0.8, 0.2]).all()
    assert (square[100:300] == [0.2, 0.8]).all()
    assert (square[300:] == [0.8, 0.2]).all()


def test_resonance_hurts_a_learner_without_entropy() -> None:
    """Delay 1,000, 200,000 rounds: Tsallis-INF loses about 42,000 (more than 20,000 in any four runs), robust and
    uniform play nothing to speak of.
    """
    result = simulate(
        ["tsallis", "robust"], "resonant:delay=1000", "constant:delay=1000", rounds=200_000, replications=4, seed=0
    )
    assert result.final("tsallis").mean > 20_000
    assert abs(result.final("robust").mean) < 1000
    assert abs(result.uniform_regret[:, -1]).max() < 1.0


def test_corrupted_lies_first() -> None:
    means, _ = Corrupted(2, 0.4, budget=2).fill(np.random.default_rng(0), np.arange(1, 5))
    np.testing.assert_allclose(means, [[0.7, 0.3], [0.7, 0.3], [0.3, 0.7], [0.3, 0.7]])
    never, _ = Corrupted(2, 0.4, budget=0).fill(np.random.default_rng(0), np.arange(1, 5))
    np.testing.assert_allclose(never, [[0.3, 0.7]] * 4)


def test_drifting_lets_all_arms_take_turns() -> None:
    means, _ = Drifting(5, 0.4, period=1000).fill(np.random.default_rng(0), np.arange(1, 1001))
    assert set(means.argmin(axis=1)) == set(range(5))
    np.testing.assert_allclose(means.mean(axis=0), 0.5, atol=1e-9)
    assert means.min() == pytest.approx(0.3, abs=1e-4)


def test_beta_losses_follow_their_law() -> None:
    """Mean and variance m (1 - m) / (1 + concentration), within five standard errors and 3 %."""
    means, losses = Beta(2, 0.4, concentration=6.0).fill(np.random.default_rng(0), ROUNDS)
    assert losses is not None
    np.testing.assert_allclose(losses.mean(axis=0), means[0], atol=0.007)
    np.testing.assert_allclose(losses.var(axis=0), means[0] * (1 - means[0]) / 7.0, rtol=0.03)


def test_revenue_follows_its_law() -> None:
    """Sales come at the rates, and P(amount > x) = (1 - x)^(1 / mean - 1), that of Beta(1, 1/mean - 1).

    20,000 rounds: within five standard errors, 0.018 for the rates and, for at least 4,000 sales, 0.04.
    """
    means, losses = Revenue([0.2, 0.5], [0.25, 0.5]).fill(np.random.default_rng(0), ROUNDS)
    assert losses is not None
    np.testing.assert_allclose(means, [[1.0 - 0.2 * 0.25, 1.0 - 0.5 * 0.5]])
    for arm, (rate, power) in enumerate([(0.2, 3.0), (0.5, 1.0)]):
        sold = losses[:, arm] < 1.0
        assert abs(sold.mean() - rate) < 0.018
        amounts = 1.0 - losses[sold, arm]
        for x in (0.05, 0.2, 0.5, 0.8):
            assert abs((amounts > x).mean() - (1.0 - x) ** power) < 0.04
    assert abs(np.corrcoef([losses[:, 0], losses[:, 1]])[0, 1]) < 0.035


def test_one_amount_is_that_of_all_arms() -> None:
    one, each = Revenue([0.1, 0.4], [0.3]), Revenue([0.1, 0.4], [0.3, 0.3])
    for first, second in zip(
        one.fill(np.random.default_rng(1), ROUNDS), each.fill(np.random.default_rng(1), ROUNDS), strict=True
    ):
        np.testing.assert_array_equal(first, second)
    assert Revenue([0.1, 0.4]).amounts == (0.2,)
    assert one.steady_means == pytest.approx([0.97, 0.88])


def test_rhythm_by_hand() -> None:
    """Rates swing by the amplitude; the better arm stays the better one; over whole periods the swing is nothing."""
    means, losses = Rhythm([0.2, 0.4], amplitude=0.5, period=8).fill(np.random.default_rng(0), np.arange(1, 9))
    assert losses is None
    np.testing.assert_allclose(means[1], [1.0 - 0.3, 1.0 - 0.6])
    np.testing.assert_allclose(means[3], [1.0 - 0.2, 1.0 - 0.4])
    np.testing.assert_allclose(means[5], [1.0 - 0.1, 1.0 - 0.2])
    np.testing.assert_allclose(means.mean(axis=0), [0.8, 0.6])
    assert (means[:, 1] < means[:, 0]).all()
    assert Rhythm([0.2, 0.4]).steady_means is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("revenue", (None,)),
        ("revenue:rates=0.1", ("rates", "0.1")),
        ("revenue:rates=[0.1]", ("arms", "1")),
        ("revenue:rates=[0.1,1.2]", ("rates[1]", "1.2")),
        ("revenue:rates=[0.1,0.2],amounts=[0.1,0.2,0.3]", (None, "3", "1", "2")),
        ("revenue:rates=[0.1,0.2],amounts=[0,0.5]", (None, "[0, 0.5]", "0", "1")),
        ("revenue:rates=[0.1,0.2],amounts=[1]", (None, "[1]", "0", "1")),
        ("rhythm:rates=[0.1]", ("arms", "1")),
        ("rhythm:rates=[0.1,-0.2]", ("rates[1]", "-0.2")),
        ("rhythm:rates=[0.1,0.7]", (None, "[0.1, 0.7]", "0.5", "1")),
        ("rhythm:rates=[0.1,0.2],amplitude=1.5", ("amplitude", "1.5")),
        ("rhythm:rates=[0.1,0.2],period=0", ("period", "0")),
        ("switching:every=0", ("every", "0")),
        ("blocks:length=1.5", ("length", "1.5")),
        ("resonant:shape=saw", (None, "saw")),
        ("resonant:delay=-1", ("delay", "-1")),
        ("corrupted:budget=-1", (None, "-1")),
        ("drifting:period=0", ("period", "0")),
        ("beta:concentration=0", (None, "0")),
        ("beta:gap=1", (None, "1")),
        ("switching:arms=1", ("arms", "1")),
    ],
)
def test_bad_adversaries(words: str, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        Environment.find(words)


def test_recorded_losses_may_lie_in_any_order_in_memory() -> None:
    """Compiled code reads rows: a table by columns gives the same replay."""
    rng = np.random.default_rng(0)
    table, draws = rng.random((50, 3)), rng.random(50).tolist()
    plain, turned = (replay("ucb", each, [2] * 50, draws) for each in (table, np.asfortranarray(table)))
    np.testing.assert_array_equal(plain.losses, turned.losses)
