"""Replays of a log: what they say, what they warn of, and what they refuse."""

from typing import Any

import numpy as np
import pytest

from belated import InvalidValue
from belated.logs import Log
from belated.replay import replay_log


def even(rows: int = 400, **parts: Any) -> Log:
    """Two arms in turn, the first with a reward and the second without, after three more decisions."""
    return Log.from_arrays(["a", "b"] * (rows // 2), rewards=[1.0, 0.0] * (rows // 2), waits=[3] * rows, **parts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0; a number above 0 and below 1 is needed"),
        ({"alpha": 1.0}, "alpha is 1.0; a number above 0 and below 1 is needed"),
        ({"control": "c"}, "unknown control 'c'"),
        ({"outcomes": "all"}, "unknown outcomes 'all'"),
    ],
)
def test_options_are_checked_before_anything_is_replayed(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("belated.replay.replay.learner_values", lambda *_, **__: pytest.fail("replayed"))
    with pytest.raises(InvalidValue, match=message):
        replay_log(even(), ["uniform"], assigned="uniform", **options)


def test_a_log_without_decisions_is_refused() -> None:
    nothing = Log(("a", "b"), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
    for assigned in (None, "uniform"):
        with pytest.raises(InvalidValue, match="the log has no decisions; at least one is needed"):
            replay_log(nothing, ["uniform"], assigned=assigned)
