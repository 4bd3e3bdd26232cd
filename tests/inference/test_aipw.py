"""AIPW against its definition in plain loops, and its coverage where the sample mean's fails."""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from belated.inference.aipw import Floats, Intervals, aipw, aipw_differences
from support.refusals import refused

Z = 1.959963984540054  # the normal quantile at 0.975
SCHEMES = [("uniform", 0.7), ("constant", 0.7), ("two-point", 0.7), ("two-point", 0.3), ("two-point", 0.0)]


def logged(rounds: int = 60, number: int = 3, seed: int = 5) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Arms, rewards and distributions of which nothing is special; every arm is played after some rounds without it."""
    rng = np.random.default_rng(seed)
    distributions = 0.9 * rng.dirichlet(np.ones(number), size=rounds) + 0.1 / number
    arms = np.array([rng.choice(number, p=p) for p in distributions])
    return arms, rng.random(rounds), distributions


def plain_weights(e: Floats, weights: str, decay: float) -> list[float]:
    """h_t of one arm by its definition: what is left of the variance, round by round."""
    rounds, left, found = len(e), 1.0, []
    for t in range(1, rounds + 1):
        if weights == "uniform":
            found.append(1.0)
            continue
        rate = 1 / (rounds - t + 1)
        if weights == "two-point":
            rest = (rounds ** (1 - decay) - t ** (1 - decay)) / (1 - decay)
            rate = e[t - 1] * rate + (1 - e[t - 1]) * t**-decay / (t**-decay + rest)
        found.append(math.sqrt(e[t - 1] * rate * left))
        left -= rate * left
    return found


def plain(
    arms: NDArray[np.int64], rewards: Floats, distributions: Floats, arm: int, weights: str, decay: float
) -> tuple[float, list[float]]:
    """The estimate of one arm, and each round's share in its error."""
    scores: list[float] = []
    seen: list[float] = []
    for t, played in enumerate(arms):
        model = sum(seen) / len(seen) if seen else 0.0
        if played == arm:
            scores.append(model + (rewards[t] - model) / distributions[t, arm])
            seen.append(rewards[t])
        else:
            scores.append(model)
    h = plain_weights(distributions[:, arm], weights, decay)
    estimate = sum(a * b for a, b in zip(h, scores, strict=True)) / sum(h)
    return estimate, [a * (b - estimate) / sum(h) for a, b in zip(h, scores, strict=True)]


@pytest.mark.parametrize(("weights", "decay"), SCHEMES)
def test_every_number_is_that_of_plain_loops(weights: str, decay: float) -> None:
    logs = logged()
    found = aipw(*logs, weights=weights, decay=decay)
    for arm in range(3):
        estimate, shares = plain(*logs, arm, weights, decay)
        error = math.sqrt(sum(share**2 for share in shares))
        assert found.estimate[arm] == pytest.approx(estimate, rel=1e-10)
        assert found.standard_error[arm] == pytest.approx(error, rel=1e-10)
        assert found.low[arm] == pytest.approx(estimate - Z * error, rel=1e-9)
        assert found.high[arm] == pytest.approx(estimate + Z * error, rel=1e-9)


@pytest.mark.parametrize(("weights", "decay"), SCHEMES)
def test_differences_are_those_of_plain_loops(weights: str, decay: float) -> None:
    logs = logged()
    value, own = plain(*logs, 1, weights, decay)
    found = aipw_differences(*logs, 1, weights=weights, decay=decay)
    for arm in range(3):
        estimate, shares = plain(*logs, arm, weights, decay)
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(shares, own, strict=True)))
        assert found.estimate[arm] == pytest.approx(estimate - value, rel=1e-9)
        assert found.standard_error[arm] == pytest.approx(error, rel=1e-9)
    assert [float(each[1]) for each in found] == [0.0] * 4


def test_differences_are_those_of_the_estimates_and_turn_round() -> None:
    logs = logged()
    each = aipw(*logs).estimate
    against_first, against_last = aipw_differences(*logs, 0), aipw_differences(*logs, 2)
    assert against_first.estimate == pytest.approx(each - each[0])
    assert against_first.low[2] == pytest.approx(-against_last.high[0])
    assert against_first.high[2] == pytest.approx(-against_last.low[0])


def test_with_rewards_that_do_not_vary_it_is_inverse_propensity_weighting_by_hand() -> None:
    """All rewards are 0.8, so the running mean is 0.8 from the first on, and only the first play's score is not 0.8."""
    found = aipw([1, 0, 0, 1], [0.8] * 4, [[0.5, 0.5]] * 4, weights="uniform")
    # Arm 0: 0, then 0 + 0.8 / 0.5, then twice 0.8. Arm 1: 0.8 / 0.5, then three times 0.8.
    assert found.estimate == pytest.approx([(0 + 1.6 + 0.8 + 0.8) / 4, (1.6 + 0.8 + 0.8 + 0.8) / 4])
    assert found.standard_error[1] == pytest.approx(math.sqrt(0.6**2 + 3 * 0.2**2) / 4)


def test_propensities_that_never_change_make_weights_equal() -> None:
    arms, rewards, _ = logged()
    fixed = np.tile([0.2, 0.3, 0.5], (len(arms), 1))
    uniform, constant = (aipw(arms, rewards, fixed, weights=name) for name in ("uniform", "constant"))
    for one, other in zip(uniform, constant, strict=True):
        assert one == pytest.approx(other)


def test_two_point_rates_without_decay_are_constant_rates() -> None:
    for one, other in zip(
        aipw(*logged(), weights="two-point", decay=0.0), aipw(*logged(), weights="constant"), strict=True
    ):
        assert one == pytest.approx(other)


def test_the_level_sets_the_quantile_alone() -> None:
    narrow, usual = aipw(*logged(), level=0.8), aipw(*logged())
    assert narrow.estimate.tolist() == usual.estimate.tolist()
    # z at 0.9 and at 0.975
    assert (narrow.high - narrow.low) / (usual.high - usual.low) == pytest.approx(1.2815515655446004 / Z)


def test_a_single_round_and_very_many_work() -> None:
    one = aipw([0], [1.0], [[0.5, 0.5]])
    assert one.estimate[0] == 2.0
    rounds = 100_000
    rng = np.random.default_rng(1)
    arms = rng.integers(0, 2, rounds)
    many = aipw(arms, (rng.random(rounds) < 0.3).astype(float), np.full((rounds, 2), 0.5), weights="constant")
    # Under fair coins and with the true mean in the score, the variance of a score is 2 x 0.21.
    assert many.standard_error == pytest.approx([math.sqrt(2 * 0.21 / rounds)] * 2, rel=0.05)
    assert (many.low < 0.3).all()
    assert (many.high > 0.3).all()


def test_an_arm_that_was_never_played_could_be_anything() -> None:
    logs = ([0, 0, 1], [0.5, 0.25, 1.0], [[0.4, 0.4, 0.2]] * 3)
    found = aipw(*logs)
    assert np.isnan([found.estimate[2], found.standard_error[2]]).all()
    assert (found.low[2], found.high[2]) == (0.0, 1.0)
    assert np.isfinite(found.estimate[:2]).all()
    against = aipw_differences(*logs, 0)
    assert (against.low[2], against.high[2]) == (-1.0, 1.0)
    assert np.isnan(against.estimate[2])
    unplayed = aipw_differences(*logs, 2)
    assert unplayed.low.tolist() == [-1.0, -1.0, 0.0]
    assert unplayed.high.tolist() == [1.0, 1.0, 0.0]
    assert unplayed.estimate[2] == 0.0


# --- what holds on adaptive data ------------------------------------------------------------------------------------

Rule = Callable[[int, Floats, Floats], Floats]
RUNS, ROUNDS = 600, 1_000


class Trials(NamedTuple):
    """Many runs of a bandit side by side, with what an analyst would make of each."""

    mean: float
    naive: Intervals
    schemes: dict[str, Intervals]
    differences: Intervals


def thompson(t: int, counts: Floats, sums: Floats) -> Floats:
    """The chance that an arm is the better of two, by normal posteriors, at least 0.5 t^-0.7."""
    means = (sums + 1) / (counts + 2)
    gap = (means[:, 0] - means[:, 1]) / np.sqrt((means * (1 - means) / (counts + 3)).sum(axis=1))
    first = np.clip(1 / (1 + np.exp(-1.702 * gap)), 0.5 * t**-0.7, 1 - 0.5 * t**-0.7)
    return np.stack([first, 1 - first], axis=1)


def epsilon_greedy(t: int, counts: Floats, sums: Floats) -> Floats:
    """The better mean so far nine times in ten; each arm keeps a chance of 0.05."""
    means = (sums + 0.5) / (counts + 1)
    best = means == means.max(axis=1, keepdims=True)
    return 0.9 * best / best.sum(axis=1, keepdims=True) + 0.05


@functools.cache
def play(rule: Rule, mean: float, seed: int) -> Trials:
    """Let two arms of one mean compete: there is no better one, so chance decides which is played, and biases means."""
    rng = np.random.default_rng(seed)
    arms, rewards = np.empty((ROUNDS, RUNS), dtype=np.int64), np.empty((ROUNDS, RUNS))
    distributions = np.empty((ROUNDS, RUNS, 2))
    counts, sums = np.zeros((RUNS, 2)), np.zeros((RUNS, 2))
    for t in range(ROUNDS):
        distributions[t] = rule(t + 1, counts, sums)
        arms[t] = rng.random(RUNS) >= distributions[t, :, 0]
        rewards[t] = rng.random(RUNS) < mean
        counts[np.arange(RUNS), arms[t]] += 1
        sums[np.arange(RUNS), arms[t]] += rewards[t]
    means = sums / counts
    error = np.sqrt(means * (1 - means) / counts)
    runs = [(arms[:, run], rewards[:, run], distributions[:, run]) for run in range(RUNS)]
    schemes = {
        name: gather([aipw(*run, weights=name) for run in runs]) for name in ("uniform", "constant", "two-point")
    }
    return Trials(
        mean,
        Intervals(means, means - Z * error, means + Z * error, error),
        schemes,
        gather([aipw_differences(*run, 0, weights="constant") for run in runs]),
    )


def gather(found: list[Intervals]) -> Intervals:
    return Intervals(*(np.array(column) for column in zip(*found, strict=True)))


def coverage(found: Intervals, truth: float) -> float:
    return float(((found.low <= truth) & (truth <= found.high)).mean())


@pytest.fixture(
    scope="module",
    params=[thompson, pytest.param(epsilon_greedy, marks=pytest.mark.slow)],
    ids=["thompson", "epsilon_greedy"],
)
def trials(request: pytest.FixtureRequest) -> Trials:
    return play(request.param, 0.5, seed=11)


def test_intervals_cover_as_they_say(trials: Trials) -> None:
    """95 % +- 3: 1,200 intervals of two arms have a standard error of 0.6 to 0.9 points."""
    for name, found in trials.schemes.items():
        assert 0.92 <= coverage(found, trials.mean) <= 0.98, name


def test_intervals_of_differences_cover_as_they_say(trials: Trials) -> None:
    """95 % +- 3 with a standard error of 0.9 points: 600 differences."""
    difference = trials.differences
    inside = (difference.low[:, 1] <= 0.0) & (difference.high[:, 1] >= 0.0)
    assert 0.92 <= inside.mean() <= 0.98


def test_plain_aipw_is_unbiased_where_the_mean_is_not(trials: Trials) -> None:
    """Within 4 standard errors of 0, where the sample mean is more than 4 below; weights halve its bias at least."""
    error = trials.naive.estimate - trials.mean
    assert error.mean() < -4 * error.std() / math.sqrt(error.size)
    unbiased = trials.schemes["uniform"].estimate - trials.mean
    assert abs(unbiased.mean()) < 4 * unbiased.std() / math.sqrt(unbiased.size)
    for name in ("constant", "two-point"):
        assert abs((trials.schemes[name].estimate - trials.mean).mean()) < 0.7 * abs(error.mean()), name


def test_weights_make_intervals_narrower(trials: Trials) -> None:
    widths = {name: float((found.high - found.low).mean()) for name, found in trials.schemes.items()}
    assert widths["constant"] < 0.9 * widths["uniform"]
    assert widths["two-point"] < 0.95 * widths["uniform"]


def test_the_interval_of_the_mean_fails_where_that_of_aipw_holds() -> None:
    """Thompson's: 2 points and more below the nominal 95 %, in the same runs; standard errors of 0.6 to 0.9 points."""
    trials = play(thompson, 0.5, seed=11)
    naive = coverage(trials.naive, trials.mean)
    assert naive < 0.925
    for name in ("uniform", "constant", "two-point"):
        assert coverage(trials.schemes[name], trials.mean) > naive + 0.015, name


# --- what is refused ------------------------------------------------------------------------------------------------

FINE: dict[str, Any] = {"arms": [0, 1], "rewards": [0.0, 1.0], "distributions": [[0.5, 0.5], [0.25, 0.75]]}
REFUSED: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({"distributions": [[0.5, 0.5], [1.0, 0.0]]}, "distributions", ("1", "0.0")),
    ({"distributions": [[1.5, -0.5], [0.5, 0.5]]}, "distributions", ("0", "1.5")),
    ({"distributions": [[0.5, 0.5], [math.nan, 0.5]]}, "distributions", ("1", "nan")),
    ({"distributions": [[0.5, 0.5], [0.5, 0.4]]}, "distributions", ("[1]", "0.9", "1")),
    ({"distributions": [0.5, 0.5]}, "distributions", ("(2,)",)),
    ({"distributions": [[1.0], [1.0]]}, "distributions", ("(2, 1)",)),
    ({"distributions": np.empty((0, 2))}, "distributions", ("(0, 2)",)),
    ({"rewards": [0.0]}, "rewards", ("(1,)", "(2,)")),
    ({"rewards": [[0.0, 1.0]]}, "rewards", ("(1, 2)",)),
    ({"rewards": [0.0, 1.01]}, "rewards", ("1.01",)),
    ({"rewards": [-0.01, 1.0]}, "rewards", ("-0.01",)),
    ({"rewards": [0.0, math.nan]}, "rewards", ("nan",)),
    ({"arms": [0, 1, 0]}, "arms", ("(3,)",)),
    ({"arms": [0, 2]}, "arms", ("2",)),
    ({"arms": [-1, 0]}, "arms", ("-1",)),
    ({"arms": [0.0, 1.0]}, "arms", ()),
    ({"weights": "two_point"}, "weights", ("two_point", "two-point")),
    ({"decay": 1.0}, "decay", ("1.0",)),
    ({"decay": -0.1}, "decay", ("-0.1",)),
    ({"level": 1.0}, "level", ("1.0",)),
    ({"level": 0.0}, "level", ("0.0",)),
]


@pytest.mark.parametrize(("changed", "field", "says"), REFUSED)
def test_what_cannot_be_right_is_refused(changed: dict[str, Any], field: str, says: tuple[str, ...]) -> None:
    given = FINE | changed
    with refused(field, *says):
        aipw(**given)
    with refused(field, *says):
        aipw_differences(**given, base=0)


@pytest.mark.parametrize("base", [2, -1, 0.0, True])
def test_the_base_must_be_an_arm(base: Any) -> None:
    with refused("base", base):
        aipw_differences(**FINE, base=base)


def test_propensities_may_be_rounded() -> None:
    found = aipw([0, 1], [0.0, 1.0], [[0.5, 0.5], [0.3333333, 0.6666667]])
    assert np.isfinite(found.estimate).all()
