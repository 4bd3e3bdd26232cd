"""Off-policy estimates: by hand, against another package, and how often their intervals hold."""

import numpy as np
import pytest

from belated import InvalidValue
from belated.logs import Log
from belated.replay import value_of


def test_no_rows_are_refused() -> None:
    nothing = Log(("a", "b"), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    with pytest.raises(InvalidValue, match="there are no rows; at least one is needed"):
        value_of(nothing, np.array([0.5, 0.5]))
