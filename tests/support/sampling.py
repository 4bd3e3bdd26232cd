"""A few combinations of a large product for each run, and the whole of it for `make check`."""

import os
import random
from collections.abc import Iterable
from typing import Any

import pytest

SEED = int(os.environ.get("BELATED_TEST_SEED", "1"))
"""Which combinations are drawn; it is printed at the start of a run, and at its end where a test fails."""


def sampled(cases: Iterable[Any], number: int) -> list[Any]:
    """Return all cases as parameters; those that are not among the `number` drawn are slow."""
    every = list(cases)
    drawn = set(random.Random(SEED).sample(range(len(every)), min(number, len(every))))
    return [
        case
        if place in drawn
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for place, case in enumerate(every)
    ]
