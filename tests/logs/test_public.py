"""Public data that other packages carry: what is in them, and what is said where they are not."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belated.environments import Environment
from belated.environments.public import Public
from belated.logs import Log, public
from belated.logs.public import MissingData, find_data, missing, read_actg175, read_open_bandit, read_rossi
from support.refusals import refused

needs_obp = pytest.mark.skipif(missing("open-bandit-men") is not None, reason="needs obp")
needs_lifelines = pytest.mark.skipif(missing("actg175") is not None, reason="needs lifelines")


@needs_obp
@pytest.mark.parametrize(
    ("campaign", "policy", "items", "clicks"),
    [
        ("all", "random", 80, 38),
        ("all", "bts", 80, 42),
        ("men", "random", 34, 46),
        ("men", "bts", 34, 69),
        ("women", "random", 46, 46),
        ("women", "bts", 46, 46),
    ],
)
def test_open_bandit(campaign: str, policy: str, items: int, clicks: int) -> None:
    """10,000 rows; the random policy shows all items as often as the others, within five standard errors."""
    log, positions = read_open_bandit(campaign, policy)
    assert (log.arms.size, len(log.labels), int(log.rewards.sum())) == (10_000, items, clicks)
    assert set(np.unique(log.rewards)) == {0.0, 1.0}
    assert np.bincount(positions).size == 3
    assert np.bincount(positions).min() > 3000
    assert log.waits is log.times is log.durations is None
    inverse = 1.0 / log.propensities
    if policy == "random":
        assert inverse == pytest.approx(float(items))
        means = np.bincount(log.arms, inverse, minlength=items) / 10_000
        assert np.abs(means - 1.0).max() < 5 * np.sqrt((items - 1) / 10_000)
    else:
        assert np.ptp(inverse) > 100


@needs_obp
def test_open_bandit_by_default_is_the_random_policy() -> None:
    np.testing.assert_array_equal(read_open_bandit("men").log.arms, read_open_bandit("men", "random").log.arms)
    with refused("campaign", "boys"):
        read_open_bandit("boys")
    with refused("policy", "ucb"):
        read_open_bandit("men", "ucb")


@needs_obp
def test_rows_of_open_bandit_are_in_the_order_of_time() -> None:
    import polars

    folder = public._folder("obp")
    assert folder is not None
    rows = polars.read_csv(folder / "dataset/obd/bts/men/men.csv")
    order = np.argsort(rows["timestamp"].to_numpy(), kind="stable")
    log, positions = read_open_bandit("men", "bts")
    np.testing.assert_array_equal(log.arms, rows["item_id"].to_numpy()[order])
    np.testing.assert_array_equal(positions, rows["position"].to_numpy()[order] - 1)
    np.testing.assert_array_equal(log.rewards, rows["click"].to_numpy()[order])


@needs_lifelines
def test_actg175() -> None:
    """2,139 patients, of whom 198 left before two years were over; 4 treatments."""
    log = read_actg175()
    assert log.arms.size == 1941
    assert log.labels[0] == "zidovudine"
    counts = np.bincount(log.arms)
    assert counts.tolist() == [474, 478, 478, 511]
    failed = log.rewards == 0.0
    assert (log.durations[failed] <= 730).all()  # type: ignore[index]
    assert (log.durations[~failed] == 730).all()  # type: ignore[index]
    events = np.bincount(log.arms, 1.0 - log.rewards)
    assert events.tolist() == [134.0, 67.0, 62.0, 86.0]
    rates = events / counts
    assert rates.argmax() == 0  # the paper: zidovudine alone is inferior to the three others
    assert rates[0] > rates[1:].max() + 0.05
    assert (log.propensities == 0.25).all()
    assert np.abs(counts / 0.25 / 1941 - 1.0).max() < 4 * np.sqrt(3 / 1941)
    assert log.times is None
    np.testing.assert_array_equal(log.waits, log.durations)  # one a day


@needs_lifelines
def test_rossi() -> None:
    """432 people, half of them with aid; 114 were arrested, 48 of them with aid."""
    log = read_rossi()
    assert (log.arms.size, log.labels) == (432, ("no aid", "aid"))
    assert np.bincount(log.arms).tolist() == [216, 216]
    assert np.bincount(log.arms, 1.0 - log.rewards).tolist() == [66.0, 48.0]
    assert (log.propensities == 0.5).all()
    arrested = log.rewards == 0.0
    assert log.durations is not None
    assert (log.durations[~arrested] == 52).all()
    assert log.durations[arrested].min() == 1.0


def test_another_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "rossi.csv").write_text("week,arrest,fin\n20,1,0\n")
    monkeypatch.setattr(public, "_folder", lambda package: tmp_path)
    assert missing("rossi") is None
    with refused(None, "datasets/rossi.csv", error=MissingData):
        read_rossi()


@pytest.mark.parametrize("spec", [None, ModuleSpec("obp", None)])
def test_a_package_that_is_not_there(spec: ModuleSpec | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor its data, where it is a single file."""
    monkeypatch.setattr(public, "find_spec", lambda package: spec)
    assert "obp" in str(missing("open-bandit-men"))
    assert "lifelines" in str(missing("actg175"))
    with refused(None, "open-bandit-men", "obp", error=MissingData):
        read_open_bandit("men")
    world = Public("open-bandit-men")  # read when it is needed
    with refused(None, "obp", error=MissingData):
        _ = world.n_arms


def test_a_package_without_one_of_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = find_data("open-bandit-men").files
    monkeypatch.setattr(public, "_folder", lambda package: tmp_path)
    for path in (first, second):
        assert missing("open-bandit-men") is not None
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("")
    assert missing("open-bandit-men") is None


def test_packages_are_not_imported() -> None:
    """Only their folders are found."""
    folder = public._folder("numpy")
    assert folder is not None
    assert (folder / "__init__.py").is_file()
    assert public._folder("there_is_no_such_package") is None
    assert public._folder("this") is None
    assert importlib.util.find_spec("this") is not None


def test_names() -> None:
    with refused("data", "rosi", "rossi"):
        find_data("rosi")
    with refused("data", "rosi"):
        Environment.find("public:data=rosi")
    assert {name: find_data(name).unit for name in public.DATA} == {
        "open-bandit-all": None,
        "open-bandit-men": None,
        "open-bandit-women": None,
        "actg175": "day",
        "rossi": "week",
    }


@needs_lifelines
def test_people_drawn_again() -> None:
    """Ten a week: an arrest after w weeks is heard of after 10 w decisions, its absence after 520."""
    world = Environment.find("public:data=rossi,accrual=10")
    assert isinstance(world, Public)
    assert repr(world) == "Public('rossi', accrual=10)"
    assert world.title == "outcomes as in rossi, 10 a week"
    assert (world.n_arms, world.labels, world.source, world.loses_outcomes) == (2, ("no aid", "aid"), "rossi", False)
    expected, losses, delays = world.fill_with_delays(np.random.default_rng(0), np.arange(1, 5001))
    assert expected[0] == pytest.approx([66 / 216, 48 / 216])
    assert losses.mean(axis=0) == pytest.approx([66 / 216, 48 / 216], abs=0.03)
    assert (delays[losses == 0.0] == 520).all()
    assert delays[losses == 1.0].min() >= 10
    assert (delays % 10 == 0).all()
    np.testing.assert_array_equal(world.fill(np.random.default_rng(0), np.arange(1, 5001))[1], losses)
    slower = Public("rossi", 0.5).fill_with_delays(np.random.default_rng(0), np.arange(1, 5001))[2]
    np.testing.assert_array_equal(slower, np.ceil(delays / 20))
    with refused("accrual", 0):
        Public("rossi", 0)


@needs_obp
def test_clicks_bring_no_delays() -> None:
    world = Public("open-bandit-men")
    assert not world.brings_delays
    assert world.title == "outcomes as in open-bandit-men"
    assert world.n_arms == 34
    log = read_open_bandit("men").log
    rates = np.bincount(log.arms, log.rewards) / np.bincount(log.arms)
    assert world.steady_means == pytest.approx(1.0 - rates)


def test_data_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def load() -> Log:
        reads.append(1)
        return Log.from_arrays(["a", "b"], losses=[0.0, 1.0])

    data: Any = find_data("open-bandit-all")._replace(load=load)
    monkeypatch.setitem(public.DATA, "open-bandit-all", data)
    world = Public("open-bandit-all")
    assert not reads
    assert (world.n_arms, world.labels, world.n_arms) == (2, ("a", "b"), 2)
    assert reads == [1]
