"""What learners would have been worth on a log: estimates, their intervals, and logs that cannot carry them."""

import numpy as np
import pytest

from belated import InvalidValue
from belated.logs import Log
from belated.replay import learner_values


def uniform_log(rng: np.random.Generator, rows: int, means: list[float], longest: int = 99) -> Log:
    """Arms with the same probability, delays from 0 to the longest."""
    arms = rng.integers(0, len(means), rows)
    rewards = (rng.random(rows) < np.array(means)[arms]).astype(float)
    waits = rng.integers(0, longest + 1, rows).astype(float)
    return Log(tuple(range(len(means))), arms, rewards, np.full(rows, 1 / len(means)), waits)


def test_only_the_rows_that_are_replayed_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 600 rows have two arms at 1/2, the others are worth less and have another arm."""
    monkeypatch.setattr("belated.replay.values.pass_counts", lambda rows: (2, 2))
    rng = np.random.default_rng(0)
    arms = np.concatenate([rng.integers(0, 2, 600), rng.integers(0, 3, 600)])
    propensities = np.repeat([0.5, 0.3], 600)
    log = Log((0, 1, 2), arms, (arms == 0).astype(float), propensities)
    assert learner_values(log, ["uniform"])[0].refused is None
    (few,) = learner_values(log, ["uniform"], most_rows=700)
    assert few.refused is None
    assert 100 < few.rounds < 300
    (short,) = learner_values(log, ["uniform"], most_rows=150)
    assert "arm 2 was never chosen" in str(short.refused)
    (short,) = learner_values(uniform_log(rng, 500, [0.5, 0.5]), ["uniform"], most_rows=199)
    assert "199 decisions are worth 99 rounds" in str(short.refused)
    for wrong in (0, -3, 2.5):
        with pytest.raises(InvalidValue, match=r"most_rows is .*; a whole number of at least 1 is needed"):
            learner_values(log, ["uniform"], most_rows=wrong)  # type: ignore[arg-type]
