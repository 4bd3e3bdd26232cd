"""The suite of cells and their scale."""

import importlib.util
import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated import bounds, simulate
from belated.delays import NEVER
from belated.league import suite
from belated.logs import public
from support.refusals import refused

OLD = json.loads((Path(__file__).parents[1] / "data" / "suite-v1.json").read_text())
"""The first cells of the suite: id, environment, delays, rounds."""

VISIT = "ByLoss(good=Geometric(mean=20), bad=Constant(delay=200))"
REAL = {
    "open-bandit-men/none": ("Public('open-bandit-men', accrual=1)", "NoDelay()", 200_000),
    "open-bandit-men/visit": ("Public('open-bandit-men', accrual=1)", VISIT, 200_000),
    "open-bandit-women/visit": ("Public('open-bandit-women', accrual=1)", VISIT, 200_000),
    "open-bandit-all/visit": ("Public('open-bandit-all', accrual=1)", VISIT, 200_000),
    "actg175/daily": ("Public('actg175', accrual=1)", "Own(Public('actg175', accrual=1))", 2139),
    "actg175/one-in-five-days": ("Public('actg175', accrual=0.2)", "Own(Public('actg175', accrual=0.2))", 2139),
    "rossi/ten-a-week": ("Public('rossi', accrual=10)", "Own(Public('rossi', accrual=10))", 2000),
}
"""The cells of real data."""


def test_ids_are_stable() -> None:
    """Results are cited by them: an id may be added, none may change its meaning."""
    assert len(OLD) == 41
    found = [[cell.id, repr(cell.environment), repr(cell.delays), cell.rounds] for cell in suite.paper.values()]
    assert found == OLD
    assert [suite.suite[name] for name, *_ in OLD] == list(suite.paper.values())


def test_the_suites() -> None:
    assert len(suite.practice) == 61
    assert list(suite.suite) == [*suite.paper, *suite.practice, *suite.real]  # no id twice
    assert len(suite.suite) == len(suite.paper) + len(suite.practice) + len(suite.real)
    assert len(suite._PRACTICE) == len(suite.practice)
    assert sorted([*suite.real, *suite.left_out]) == sorted(REAL)
    assert suite.SUITES["real"] is suite.real
    for cells in suite.SUITES.values():
        assert all(name == cell.id for name, cell in cells.items())


def test_every_cell_belongs_to_a_family() -> None:
    absent = set() if suite.real else {"real"}
    assert {cell.family for cell in suite.suite.values()} == set(suite.FAMILIES) - absent
    assert all(cell.family == "real" for cell in suite.real.values())
    assert {cell.family for cell in suite.quick.values()} == {"even", "constrained", "resonant"}
    assert suite.suite["stochastic-k10/by-arm"].family == "slow-arms"
    assert suite.suite["stochastic-k10/by-loss"].family == "deadline"
    own = suite.Cell("mine", "stochastic:arms=3", "none", 50)
    assert own.family == suite.OWN == "own"
    assert own.family not in suite.FAMILIES
    assert suite.about("even") == suite.FAMILIES["even"]
    assert suite.about("own")


def test_cells_by_family() -> None:
    """Families in their order, cells in theirs; families of one's own come last."""
    own = [suite.Cell(name, "stochastic:arms=3", "none", 50, family) for name, family in (("a", "z"), ("b", "own"))]
    grouped = suite.by_family([own[0], *suite.suite.values(), own[1]])
    families = [name for name in suite.FAMILIES if name != "real" or suite.real]
    assert list(grouped) == [*families, "z", "own"]
    assert sum(map(len, grouped.values())) == len(suite.suite) + 2
    assert all(cell.family == name for name, cells in grouped.items() for cell in cells)
    order = list(suite.suite)
    assert all(
        [cell.id for cell in grouped[name]] == sorted((c.id for c in grouped[name]), key=order.index)
        for name in families
    )


def test_cells_within_families() -> None:
    found = suite.within(suite.suite.values(), ["rhythm", "revenue"])
    assert [cell.id.partition("-")[0] for cell in found] == ["revenue"] * 3 + ["rhythm"] * 3
    with refused("family", "rythm", "rhythm"):
        suite.within(suite.suite.values(), ["revenue", "rythm"])
    with refused("family"):
        suite.within(suite.quick.values(), ["rhythm", "trials"])


@pytest.mark.parametrize("cell", suite.suite.values(), ids=lambda cell: cell.id)
def test_every_cell_can_be_filled(cell: suite.Cell) -> None:
    rounds = np.arange(1, 301)
    arms = cell.environment.n_arms
    expected, losses = cell.environment.fill(np.random.default_rng(0), rounds)
    assert expected.shape in ((300, arms), (1, arms))
    assert losses is None or losses.shape == (300, arms)
    for values in (expected, losses if losses is not None else expected):
        assert ((values >= 0.0) & (values <= 1.0)).all()
    delays = cell.delays.fill(np.random.default_rng(0), rounds)
    assert len(delays) == 300
    assert (delays >= 0).all()
    if cell.delays.by == "arm":
        assert delays.shape[1] in (2, arms)


@pytest.mark.parametrize("cell", suite.practice.values(), ids=lambda cell: cell.id)
def test_cells_of_practice_have_their_best_arm_last(cell: suite.Cell) -> None:
    """Who knows nothing and takes the first of equals must not look as if it knew."""
    expected, _ = cell.environment.fill(np.random.default_rng(0), np.arange(1, cell.rounds + 1))
    means = expected.mean(axis=0)
    assert means.argmin() == means.size - 1
    assert (means[:-1] > means[-1] + 1e-3).all()


def test_names_of_slow_arms_say_which_arm_is_slow() -> None:
    """1,000 delays: means of 10 against 1,000 and more."""
    for name, cell in suite.practice.items():
        if name.startswith(("slow-best", "fast-best")):
            others, best = cell.delays.fill(np.random.default_rng(0), np.arange(1000)).mean(axis=0)[-2:]
            assert (best > 50 * others) == name.startswith("slow"), name
            assert (others > 50 * best) == name.startswith("fast"), name


@pytest.mark.parametrize(
    ("name", "environment", "delays", "rounds"),
    [
        ("conversions-k4/pareto", [0.98, 0.979, 0.978, 0.975], "Pareto(shape=1, scale=100)", 200_000),
        ("rare-losses-k4/geometric-1000", [0.05, 0.04, 0.03, 0.02], "Geometric(mean=1000)", 200_000),
        ("deadline-k2/5000", [0.9, 0.88], "ByLoss(good=Geometric(mean=300), bad=Constant(delay=5000))", 100_000),
        (
            "losses-only-k4/geometric-1000",
            [0.1] * 3 + [0.05],
            "ByLoss(good=Never(), bad=Geometric(mean=1000))",
            100_000,
        ),
        ("revenue-k3/pareto", [0.984, 0.98, 0.975], "Pareto(shape=1, scale=100)", 200_000),
        ("trial-rare-k2/200-of-2000", [0.92, 0.85], "Constant(delay=200)", 2000),
    ],
)
def test_cells_of_practice_are_what_they_say(name: str, environment: list[float], delays: str, rounds: int) -> None:
    cell = suite.practice[name]
    assert cell.environment.steady_means == pytest.approx(environment)
    assert (repr(cell.delays), cell.rounds) == (delays, rounds)


@pytest.mark.parametrize(
    ("name", "present"),
    [
        ("arms-better-k4/none", [[0.5, 0.5, 0.45], [0.5, 0.5, 0.45, 0.4]]),
        ("arms-better-k4/geometric-1000", [[0.5, 0.5, 0.45], [0.5, 0.5, 0.45, 0.4]]),
        ("arms-worse-k4/100", [[0.5, 0.5, 0.4], [0.5, 0.5, 0.5, 0.4]]),
        ("arms-leave-k4/100", [[0.5, 0.5, 0.45, 0.4], [0.5, 0.5, 0.45]]),
        (
            "arms-conversions-k5/geometric-1000",
            [[0.98, 0.978], [0.98, 0.978, 0.975], [0.98, 0.978, 0.976, 0.975], [0.98, 0.978, 0.976, 0.975, 0.97]],
        ),
    ],
)
def test_cells_of_arms_that_come_and_go(name: str, present: list[list[float]]) -> None:
    """Stretches of equal length, with these arms; uniform play costs its mean less the best in each."""
    cell = suite.practice[name]
    means = cell.environment.fill(np.random.default_rng(0), np.arange(1, 3))[0][0]
    stretches = cell.environment.stretches(cell.rounds)
    assert [means[each.arms].tolist() for each in stretches] == present
    length = cell.rounds // len(present)
    assert [each.first for each in stretches] == list(range(1, cell.rounds, length))
    assert cell.uniform_regret == pytest.approx(sum(length * (np.mean(arms) - min(arms)) for arms in present))
    assert cell.family == "arms"


def test_the_turnover_of_arms() -> None:
    """Ten at all times; after every tenth of the run one goes and one comes, the best after half of it."""
    cell = suite.practice["arms-turnover-k10/100"]
    stretches = cell.environment.stretches(cell.rounds)
    assert [each.first for each in stretches] == list(range(1, 100_000, 10_000))
    assert {each.arms.size for each in stretches} == {10}
    for before, after in itertools.pairwise(stretches):
        assert np.setdiff1d(before.arms, after.arms).size == np.setdiff1d(after.arms, before.arms).size == 1
    assert [18 in each.arms for each in stretches] == [False] * 5 + [True] * 5
    assert (stretches[0].arms == np.arange(8, 18)).all()


def test_quick_cells_are_cells_of_the_suite() -> None:
    for name, cell in suite.quick.items():
        assert cell == suite.suite[name].at(20_000)


def test_cells_by_name() -> None:
    assert [cell.id for cell in suite.find(["resonant-*", "stochastic-k2/none"])] == [
        "resonant-k2/100",
        "resonant-k2/1000",
        "resonant-k10/1000",
        "stochastic-k2/none",
    ]
    with refused("cell", "stochastic-k2/none"):
        suite.find(["stochastik-k2/none"])
    with refused("cell", "nothing-*"):
        suite.find(["nothing-*"])


def test_best_skipping_is_the_best_of_all_sets() -> None:
    """All subsets of up to nine rounds."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        delays = rng.choice([0, 1, 3, 10, 50, 400], rng.integers(1, 10))
        weight = float(rng.choice([0.1, 1.0, 5.0]))
        least = min(
            size + math.sqrt(weight * (delays.sum() - delays[list(chosen)].sum()))
            for size in range(delays.size + 1)
            for chosen in itertools.combinations(range(delays.size), size)
        )
        value, skipped = bounds.best_skipping(delays, weight)
        assert value == pytest.approx(least, rel=1e-12, abs=1e-12)
        rest = np.delete(delays, skipped - 1).sum()
        assert skipped.size + math.sqrt(weight * rest) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_scales() -> None:
    """No delay: sqrt(KT). Constant delay d: plus sqrt(d T log K), but for the end. One endless delay: plus 1."""
    assert suite.suite["stochastic-k10/none"].theory == pytest.approx(1000.0)
    assert suite.suite["stochastic-k10/outlier"].theory == pytest.approx(1001.0)
    assert suite.suite["stochastic-k10/burst"].theory == pytest.approx(1316.0)
    plain = 1000.0 + math.sqrt(100 * 100_000 * math.log(10))
    assert suite.suite["stochastic-k10/100"].theory == pytest.approx(plain, rel=1e-3)
    assert bounds.best_skipping([NEVER, 0, 0], 1.0).skipped.tolist() == [1]


def test_uniform_play_is_a_scale() -> None:
    """0.1 * 9/10 a round where one arm in ten is better by 0.1; nothing under resonance, over whole periods."""
    assert suite.suite["stochastic-k10/none"].uniform_regret == pytest.approx(9000.0)
    assert suite.suite["constrained-k10/100"].uniform_regret == pytest.approx(9000.0)
    assert suite.suite["resonant-k2/1000"].uniform_regret == pytest.approx(0.0, abs=1e-6)
    assert suite.suite["blocks-k2/100"].uniform_regret > 0.0


@pytest.mark.parametrize(
    ("delays", "weight", "message"),
    [([[1]], 1.0, (None,)), ([-1], 1.0, (None, "0")), ([1], math.inf, (None, "inf")), ([1], -1.0, (None, "-1"))],
)
def test_bad_input(delays: list[int], weight: float, message: tuple[str | None, ...]) -> None:
    with refused(*message):
        bounds.best_skipping(delays, weight)


@pytest.mark.parametrize("name", REAL)
def test_cells_of_real_data_are_what_they_say(name: str) -> None:
    if name in suite.left_out:
        pytest.skip(suite.left_out[name])
    cell = suite.real[name]
    assert (repr(cell.environment), repr(cell.delays), cell.rounds) == REAL[name]
    assert cell is suite.suite[name]
    assert cell.uniform_regret > 0.0
    without_delay = math.sqrt(cell.environment.n_arms * cell.rounds)
    assert (cell.theory > without_delay) == (REAL[name][1] != "NoDelay()")
    shorter = cell.at(100)
    assert shorter.rounds == 100
    result = simulate(["ucb", "damped"], shorter.environment, shorter.delays, rounds=100, replications=2, threads=1)
    assert np.isfinite(result.regret).all()


def without_data(monkeypatch: pytest.MonkeyPatch, absent: str) -> Any:
    """The module of the suite as it is where a package is not installed."""
    real = public.missing
    monkeypatch.setattr(
        public, "missing", lambda name: f"{name} needs more" if public.DATA[name].package == absent else real(name)
    )
    spec = importlib.util.spec_from_file_location("belated.league.suite_elsewhere", suite.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_cells_whose_data_are_not_there_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = without_data(monkeypatch, "lifelines")
    absent = [name for name in REAL if not name.startswith("open-bandit")]
    assert {name: elsewhere.left_out[name] for name in absent} == {
        name: f"{name.partition('/')[0]} needs more" for name in absent
    }
    assert not set(absent) & set(elsewhere.suite)
    assert list(elsewhere.paper) == list(suite.paper)
    for wanted in ("rossi/ten-a-week", "rossi/*"):
        with refused("cell"):
            elsewhere.find([wanted])
    with refused("cell", "rossy/ten-a-week"):
        elsewhere.find(["rossy/ten-a-week"])


def test_the_family_of_real_data_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "_folder", lambda package: None)
    elsewhere = without_data(monkeypatch, "lifelines")
    assert not elsewhere.real
    assert list(elsewhere.left_out) == list(REAL)
    with refused("cell"):
        elsewhere.within(elsewhere.suite.values(), ["real"])
    assert elsewhere.within(elsewhere.suite.values(), ["rhythm", "real"])
    with refused("family"):
        elsewhere.within(elsewhere.quick.values(), ["rhythm", "real"])
    assert elsewhere.SUITES["real"] == {}


def test_cells_of_real_data_by_name() -> None:
    if suite.left_out:
        pytest.skip(next(iter(suite.left_out.values())))
    assert [cell.id for cell in suite.find(["actg175/*"])] == ["actg175/daily", "actg175/one-in-five-days"]
    assert [cell.id for cell in suite.within(suite.suite.values(), ["real"])] == list(REAL)
    with refused("family"):
        suite.within(suite.quick.values(), ["real"])
