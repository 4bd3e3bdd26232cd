"""How many more decisions it takes: ranges that are in the right place, and the same for the same decisions."""

from dataclasses import replace

import numpy as np
import pytest

from belated.inference import Estimates, Log, estimates
from support.refusals import refused


def even(rates: tuple[float, ...], size: int, seed: int) -> Log:
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, len(rates), size)
    rewards = (rng.random(size) < np.array(rates)[arms]).astype(float)
    return Log.from_arrays(arms, rewards, labels=range(len(rates)))


@pytest.mark.parametrize("method", ["randomisation", pytest.param("betting", marks=pytest.mark.slow)])
def test_the_range_holds_what_comes_in_many_runs(method: str) -> None:
    """60 % are aimed at; 12 runs, so 4 at least with a margin of two standard errors."""
    inside = asked = 0
    for seed in range(30):
        log = even((0.3, 0.4), 12_000, seed)
        more = estimates(log.head(400), method=method, assigned="uniform").more
        if more is None or asked == 12:
            continue
        asked += 1
        ahead = np.rint(np.geomspace(10, 11_600, 40)).astype(int).tolist()
        comes = next(
            each
            for each in ahead
            if estimates(log.head(400 + each), method=method, assigned="uniform").winner is not None
        )
        low, high = more
        assert high is None or low <= high
        inside += low <= comes * 1.2 and (high is None or comes / 1.2 <= high)
    assert (asked, inside >= 4) == (12, True)


def test_the_same_decisions_have_the_same_range_and_a_winner_none() -> None:
    log = even((0.3, 0.4), 3_000, 5)
    early = estimates(log.head(300), assigned="uniform")
    assert early.more == estimates(log.head(300), assigned="uniform").more is not None
    assert (estimates(log, assigned="uniform").winner, estimates(log, assigned="uniform").more) == (1, None)


def test_equal_arms_take_longer_than_one_looks_ahead() -> None:
    log = Log.from_arrays([0, 1] * 2_000, [1.0, 1.0, 0.0, 0.0] * 1_000)
    more = estimates(log, assigned="uniform").more
    assert more is not None
    assert more[0] > 20_000


def timed(log: Log, days: float) -> Log:
    """The same decisions, made evenly over so many days."""
    return replace(log, times=np.linspace(0.0, 86_400 * days, log.arms.size), in_seconds=True)


def test_days_follow_the_pace_of_the_second_half() -> None:
    log = even((0.30, 0.33), 2_001, 3)
    found = estimates(timed(log, 10), assigned="uniform")
    assert isinstance(found, Estimates)
    assert found.more is not None
    assert found.per_day == pytest.approx(200.0)
    assert found.days is not None
    assert found.days[0] == pytest.approx(found.more[0] / 200.0)
    assert (found.days[1] is None) == (found.more[1] is None)
    assert estimates(log, assigned="uniform").days is None


def test_shares_that_cannot_be_are_refused() -> None:
    log = even((0.3, 0.4), 20, 3)
    with refused("assigned", "'evenly'"):
        estimates(log, assigned="evenly")
    with refused("assigned", "'c'"):
        estimates(log, assigned={"0": 0.5, "c": 0.5})
