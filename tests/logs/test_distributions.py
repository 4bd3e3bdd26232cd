"""Logs with the probability of every arm at each decision."""

import json
from pathlib import Path

import numpy as np
import polars
import pytest

from belated.inference import Log, estimates
from belated.logs import read_log_file
from belated.logs.files import frame_log
from support.refusals import refused

SHARES = {"x": 0.2, "y": 0.3, "z": 0.5}


def rows(size: int = 400) -> tuple[list[str], list[float]]:
    rng = np.random.default_rng(3)
    arms = rng.choice(list(SHARES), size, p=list(SHARES.values())).tolist()
    return arms, [float(rng.random() < (0.6 if arm == "z" else 0.2)) for arm in arms]


@pytest.mark.parametrize("way", ["text", "struct", "file"])
def test_a_column_of_distributions_is_that_of_the_log(way: str, tmp_path: Path) -> None:
    arms, rewards = rows()
    expected = Log.from_arrays(arms, rewards, distributions=[list(SHARES.values())] * len(arms), labels=list(SHARES))
    texts = [json.dumps(SHARES)] * len(arms)
    frame = polars.DataFrame({"arm": arms, "reward": rewards, "distribution": texts})
    if way == "struct":
        frame = frame.with_columns(distribution=polars.Series([SHARES] * len(arms)))
    if way == "file":
        frame.write_csv(tmp_path / "log.csv")
    log = read_log_file(tmp_path / "log.csv").log if way == "file" else frame_log(frame)
    assert log.labels == expected.labels
    np.testing.assert_array_equal(log.distributions, expected.distributions)
    np.testing.assert_array_equal(log.propensities, expected.propensities)
    assert estimates(log) == estimates(expected)
    assert estimates(log).method == "randomisation"


def test_rows_without_one_are_not_known_and_others_are_sorted_with_their_rows() -> None:
    frame = polars.DataFrame(
        {
            "arm": ["x", "y", "x", "z"],
            "reward": [1, 0, 1, 0],
            "time": [2, 1, 4, 3],
            "distribution": [json.dumps(SHARES), None, "", '{"x": 0.5, "z": 0.5}'],
        }
    )
    log = frame_log(frame)
    assert log.distributions is not None
    expected = [[np.nan] * 3, list(SHARES.values()), [0.5, 0.0, 0.5], [np.nan] * 3]
    np.testing.assert_array_equal(log.distributions, expected)
    np.testing.assert_array_equal(log.propensities, [np.nan, 0.2, 0.5, np.nan])


@pytest.mark.parametrize("wrong", ["[0.2, 0.8]", "x", '{"x": "much"}', "3"])
def test_a_distribution_that_is_none_is_a_bad_row(wrong: str) -> None:
    frame = polars.DataFrame({"arm": ["x", "y"], "reward": [1, 0], "distribution": [json.dumps(SHARES), wrong]})
    with refused("distribution", repr(wrong)):
        frame_log(frame)


def test_probabilities_that_do_not_fit_are_refused() -> None:
    frame = polars.DataFrame({"arm": ["x", "y"], "reward": [1, 0], "distribution": ['{"x": 0.5, "y": 0.6}'] * 2})
    with refused("distributions", "0.6"):
        frame_log(frame)
