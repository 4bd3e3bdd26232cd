"""Numbers that others printed: the reference implementations and AIPW must reproduce them.

Where they stand, all read there:

- confseq, the package of Howard, Waudby-Smith and Ramdas (github.com/gostevehoward/confseq): the values of its own test
  test/uniform_boundaries_unittest.cpp, of which it says that they come from a separate implementation in R.
- Outputs of confseq 0.0.11 and of the program by Hadad et al. (github.com/gsbDBI/adaptive-confidence-intervals),
  recorded with their inputs by github.com/simoneSantoni/DrSnow (commit ae26711), under test/validation:
  sequential/confseq_data.csv and confseq_reference.csv, adaptive/hadad_data.csv and hadad_reference.csv.

No table of numbers about these intervals was found in the papers themselves; they show figures.
"""

import math
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from belated.inference.aipw import aipw, aipw_differences
from support.hedged import beta_binomial, bets, bisect, empirical_bernstein, hedged, log_mixture, universal

Floats = NDArray[np.float64]

# --- the beta-binomial mixture ---------------------------------------------------------------------------------------


def prior(mean: float, best_at: float, alpha: float = 0.05) -> tuple[float, float]:
    """a and b of confseq's mixture against one mean, tuned for so many trials (Howard et al. 2021, Section 3.5)."""
    variance = mean * (1 - mean)
    odds = 2 * math.log(1 / alpha)
    r = max(variance * best_at / (odds + math.log(1 + odds)) - variance, 1e-3 * variance)
    return r / (1 - mean), r / mean


def test_the_mixture_has_the_capital_that_confseq_says() -> None:
    """As many digits as there. A time of 100 at a mean of 0.2 is 625 trials; a sum of 10 is 10 successes too many."""
    a, b = prior(0.2, best_at=625)
    assert log_mixture(125 + 10, 625, 0.2, a, b) == pytest.approx(-0.6941012, abs=1e-5)
    crossing = bisect(lambda s: log_mixture(125 + s, 625, 0.2, a, b) <= math.log(20), 0.0, 500.0)
    assert crossing == pytest.approx(31.4308, abs=1e-4)


def test_the_mixture_gives_the_interval_that_confseq_says() -> None:
    """700 successes of 1,000, tuned for 100: there the prior depends on the mean that is asked about."""

    def inside(mean: float) -> bool:
        return log_mixture(700, 1000, mean, *prior(mean, best_at=100)) <= math.log(20)

    assert bisect(inside, 0.7, 1e-9) == pytest.approx(0.651629, abs=1e-5)
    assert bisect(inside, 0.7, 1 - 1e-9) == pytest.approx(0.745949, abs=1e-5)


def test_a_fixed_prior_gives_the_same_interval_from_outcomes() -> None:
    outcomes = np.repeat([1.0, 0.0], [700, 300])
    low, high = beta_binomial(outcomes, a=2.0, b=3.0)
    assert log_mixture(700, 1000, low, 2.0, 3.0) == pytest.approx(math.log(20))
    assert log_mixture(700, 1000, high, 2.0, 3.0) == pytest.approx(math.log(20))
    assert low < 0.7 < high
    assert beta_binomial(np.zeros(10))[0] == 0.0
    assert beta_binomial(np.ones(10))[1] == 1.0
    # Nothing but successes: the mixture of a = b = 1 has a mean of 1/(n + 1), so m^n (n + 1) = alpha at the lower end.
    assert beta_binomial(np.ones(10), a=1.0, b=1.0)[0] == pytest.approx((0.05 / 11) ** 0.1)


def test_the_universal_portfolio_is_the_mixture_for_outcomes_of_0_and_1() -> None:
    outcomes = np.random.default_rng(3).random(400) < 0.2
    assert universal(outcomes) == pytest.approx(beta_binomial(outcomes), abs=1e-5)


def test_the_universal_portfolio_is_narrower_where_outcomes_vary_less() -> None:
    """The mixture of sums, valid for them too, takes every outcome for as many heads and tails."""
    outcomes = np.random.default_rng(3).beta(10, 30, size=400)
    narrow, wide = universal(outcomes), beta_binomial(outcomes)
    assert narrow[1] - narrow[0] < 0.3 * (wide[1] - wide[0])
    assert narrow[0] < 0.25 < narrow[1]


# --- confidence sequences by betting --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def streams() -> dict[str, Floats]:
    """The two streams of confseq_data.csv, drawn as they were; their sums say whether numpy still draws the same."""
    rng = np.random.default_rng(20260928)
    found = {"beta": rng.beta(2, 5, size=300), "bern": (rng.uniform(size=300) < 0.3).astype(np.float64)}
    assert found["beta"][[0, 299]] == pytest.approx([0.12107819784663938, 0.11411446054666996], abs=1e-12)
    assert np.flatnonzero(found["bern"])[:7].tolist() == [1, 7, 10, 13, 15, 21, 27]
    assert found["bern"].sum() == 94
    return found


HEDGED: dict[str, list[tuple[int, tuple[float, float], tuple[float, float] | None]]] = {
    # stream: t, the interval at t, and that of all times up to t; alpha 0.05, a grid of 1/1000
    "beta": [
        (3, (0.0, 0.869), (0.0, 0.869)),
        (7, (0.021, 0.671), (0.021, 0.671)),
        (14, (0.124, 0.534), (0.124, 0.534)),
        (20, (0.134, 0.457), (0.134, 0.457)),
        (50, (0.178, 0.356), None),
        (100, (0.209, 0.329), None),
        (200, (0.234, 0.318), None),
        (300, (0.239, 0.306), None),
    ],
    "bern": [
        (4, (0.0, 0.905), (0.0, 0.905)),
        (14, (0.026, 0.644), (0.026, 0.615)),
        (30, (0.072, 0.516), (0.072, 0.494)),
        (50, (0.100, 0.451), (0.101, 0.437)),
        (100, (0.150, 0.429), (0.151, 0.406)),
        (200, (0.177, 0.392), (0.178, 0.385)),
        (300, (0.197, 0.385), (0.197, 0.378)),
    ],
}


@pytest.mark.parametrize("name", ["beta", "bern"])
def test_hedged_capital_is_that_of_confseq(streams: dict[str, Floats], name: str) -> None:
    """To all digits: both ends are points of the grid."""
    here, so_far = hedged(streams[name], intersect=False), hedged(streams[name])
    for t, at, until in HEDGED[name]:
        assert (here[0][t - 1], here[1][t - 1]) == pytest.approx(at, abs=1e-9), t
        if until is not None:
            assert (so_far[0][t - 1], so_far[1][t - 1]) == pytest.approx(until, abs=1e-9), t


BERNSTEIN = [
    (10, 0.0, 1.0),
    (11, 0.0, 0.95519316472051385),
    (40, 0.048237256028872105, 0.45184274596086216),
    (100, 0.18206320023166803, 0.35468653253897964),
    (300, 0.24085335931525004, 0.31179865850520483),
]


def test_empirical_bernstein_is_that_of_confseq(streams: dict[str, Floats]) -> None:
    """The stream `beta`, alpha 0.05, without intersection, to 12 digits. confseq begins with a mean of 0."""
    low, high = empirical_bernstein(streams["beta"], first=0.0)
    for t, least, most in BERNSTEIN:
        assert low[t - 1] == pytest.approx(least, abs=1e-12)
        assert high[t - 1] == pytest.approx(most, abs=1e-12)
    # The paper's regularised means change little: less than 0.001 at 300.
    papers = empirical_bernstein(streams["beta"])
    assert papers[0][-1] == pytest.approx(low[-1], abs=1e-3)
    assert papers[1][-1] == pytest.approx(high[-1], abs=1e-3)


def test_bets_know_earlier_outcomes_only(streams: dict[str, Floats]) -> None:
    x = streams["beta"].copy()
    before = bets(x, 0.025)
    assert before[0] == pytest.approx(math.sqrt(2 * math.log(40) / (0.25 * math.log(2))))
    x[200] = 1.0
    after = bets(x, 0.025)
    assert after[:201].tolist() == before[:201].tolist()
    assert (after[201:] != before[201:]).all()


# --- adaptively weighted AIPW ---------------------------------------------------------------------------------------


class Log(NamedTuple):
    """An experiment that was run: what `aipw` takes, but for the range of its rewards."""

    arms: NDArray[np.int64]
    rewards: Floats
    distributions: Floats


@pytest.fixture(scope="module")
def thompson() -> Log:
    """The experiment of hadad_data.csv, in the paper's design "low signal": means 0.9, 1 and 1.1, uniform noise of +-1.

    Each arm is played five times in turn. After that its propensity is the share of 20 draws from normal posteriors
    in which it is best, lifted to at least t^-0.7 / 3; what that takes is given up in proportion to what is above it.
    """
    rounds, number = 2000, 3
    random = np.random.RandomState(20210415)  # a stream that numpy keeps as it is
    outcomes = np.array([0.9, 1.0, 1.1]) + random.uniform(-1, 1, size=(rounds, number))
    arms = np.arange(rounds) % number
    p = np.full((rounds, number), 1 / 3)
    count, total, squares = np.zeros(number), np.zeros(number), np.zeros(number)
    for t in range(rounds):
        if t >= 5 * number:
            normal = random.normal(size=(20, number))
            mean = total / count
            variance = squares / count - mean**2
            draws = normal * np.sqrt(1 / (count / variance + 1)) + count / (variance + count) * mean
            floor = (1 / 3) / (t + 1) ** 0.7
            lifted = np.maximum(np.bincount(draws.argmax(axis=1), minlength=number) / 20, floor)
            above = lifted - floor
            p[t] = lifted - (lifted.sum() - 1) / above.sum() * above
            arms[t] = random.choice(number, p=p[t])
        arm, outcome = arms[t], outcomes[t, arms[t]]
        count[arm], total[arm], squares[arm] = count[arm] + 1, total[arm] + outcome, squares[arm] + outcome**2
    rewards = outcomes[np.arange(rounds), arms]
    # Rows 1, 20 and 303 of the file
    assert rewards[[0, 19, 302]] == pytest.approx(
        [0.759842123830078, 1.3176436986312123, 1.2329336703205582], abs=1e-12
    )
    assert p[19] == pytest.approx([0.040940934203859684, 0.4317591443606417, 0.5272999214354985], abs=1e-12)
    return Log(arms, rewards, p)


HADAD = {
    # weights: estimates and standard errors of the arms; of arm 3 less arms 1 and 2
    "two-point": (
        [0.929507096836306, 1.0434359176038848, 1.1055427177060346],
        [0.07933817265384636, 0.05468262920556827, 0.014900248583499516],
        [0.17603562086972868, 0.06210680010214986],
        [0.08128946054418462, 0.056996790281338035],
    ),
    "constant": (
        [0.8565770620560932, 1.022777426510032, 1.1050173364709819],
        [0.08701451171919962, 0.04256254113950657, 0.013947125304869176],
        [0.2484402744148887, 0.08223990996094988],
        [0.08813371621533116, 0.0448024286208923],
    ),
    "uniform": (
        [0.7324018150927383, 1.0277028328358362, 1.1071898755901588],
        [0.18305093489643287, 0.0321909055817864, 0.014277120664387244],
        [0.3747880604974205, 0.07948704275432261],
        [0.18360597962409508, 0.03522480505831066],
    ),
}


@pytest.mark.parametrize("weights", HADAD)
def test_aipw_gives_what_its_authors_program_gives(
    thompson: Log, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To 10 digits. Their rewards are from -0.1 to 2.1, so the check of their range is left out here."""
    monkeypatch.setattr(sys.modules[aipw.__module__], "_check", lambda *given: given)
    estimates, errors, differences, their_errors = HADAD[weights]
    found = aipw(*thompson, weights=weights, decay=0.7)
    assert found.estimate == pytest.approx(estimates, abs=1e-10)
    assert found.standard_error == pytest.approx(errors, abs=1e-10)
    against = aipw_differences(*thompson, 2, weights=weights, decay=0.7)
    assert -against.estimate[:2] == pytest.approx(differences, abs=1e-10)
    assert against.standard_error[:2] == pytest.approx(their_errors, abs=1e-10)
