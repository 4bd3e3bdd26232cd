"""Delays that an environment brings along: whose they are, and that a learner meets them with their losses."""

import pytest

from belated import InvalidValue
from belated.delays import Own, delays_for
from belated.environments import Resampled
from belated.logs import Log


def world() -> Resampled:
    """Losses of two arms; every decision of an arm has another delay, which tells its loss."""
    return Resampled(Log.from_arrays(["a", "b"] * 4, rewards=[1, 0, 0.5, 1, 0.25, 0, 0, 1], waits=range(8)))


def test_own_delays_of_another_environment_are_refused() -> None:
    one, other = world(), world()
    with pytest.raises(InvalidValue, match=r"delays is Own\(Resampled\(.*, of another environment than Resampled\("):
        delays_for(one, Own.of(other))
    assert delays_for(one, Own.of(one)).environment is one
