import numpy as np
import pytest

from belated import coins, simulate
from belated.environments import Bernoulli, Constrained, Environment, Recorded, Stochastic

ROUNDS = np.arange(1, 20_001)


@pytest.mark.parametrize(
    "environment", [Bernoulli([0.0, 0.3, 1.0]), Stochastic(5, 0.25), Constrained(3, 0.125)], ids=repr
)
def test_coins_have_the_expected_means(environment: Environment) -> None:
    """20,000 coins an arm: within five standard errors, 5 sqrt(0.25 / 20,000) = 0.018."""
    expected, losses = environment.fill(np.random.default_rng(0), ROUNDS)
    assert losses is None
    flipped = coins.flip_all(coins.new_key(np.random.default_rng(1)), ROUNDS, expected)
    assert set(np.unique(flipped)) <= {0.0, 1.0}
    np.testing.assert_allclose(flipped.mean(axis=0), np.broadcast_to(expected, flipped.shape).mean(axis=0), atol=0.018)


def test_certain_coins_are_certain() -> None:
    flipped = coins.flip_all(np.uint64(5), ROUNDS, np.array([[0.0, 1.0]]))
    assert not flipped[:, 0].any()
    assert flipped[:, 1].all()


def test_coins_are_independent() -> None:
    """Between arms, between rounds, and between keys: correlations within five standard errors, 5 / sqrt(20,000) =
    0.035.
    """
    flipped = coins.flip_all(np.uint64(9), ROUNDS, np.full((1, 4), 0.5))
    other = coins.flip_all(np.uint64(10), ROUNDS, np.full((1, 4), 0.5))
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
        position = (1 << int(coins.ARM_BITS)) + k  # round 1, arm k
        key = np.uint64((1234567 + k * golden - position * golden) % 2**64)
        mean = (output >> 11) / 2**53
        with np.errstate(over="ignore"):
            assert coins.flip(key, 1, k, mean) == 0.0
            assert coins.flip(key, 1, k, mean + 2**-53) == 1.0


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
        ("bernoulli:means=[0.5]", "number of arms is 1"),
        ("bernoulli:means=[0.5,1.5]", "means\\[1\\] is 1.5"),
        ("stochastic:arms=2.5", "number of arms is 2.5"),
        ("stochastic:gap=-0.1", "gap is -0.1; a number from 0 to 1"),
        ("constrained:growth=0.5", "growth is 0.5"),
        ("constrained:first=0", "first is 0"),
        ("recorded:losses=[[0.5,2.0]]", "losses\\[0, 1\\] is 2.0"),
        ("recorded:losses=[0.5,0.5]", "rounds x arms"),
        ("bernoulli:means=0.5", "means is 0.5; a list"),
        ("bernoulli:means=[0.5,x]", "means is '\\[0.5,x\\]'"),
        ("stochastic:gap=x", "gap is 'x'"),
    ],
)
def test_bad_input(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
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
