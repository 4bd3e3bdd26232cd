"""Messages of the library's first steps."""

from collections.abc import Callable
from pathlib import Path

import belated

CASES: dict[str, Callable[[Path], object]] = {
    "Bandit: too few arms": lambda _: belated.Bandit(1),
    "Bandit: an unknown learner": lambda _: belated.Bandit(2, "robst"),
    "Bandit: an unknown parameter": lambda _: belated.Bandit(2, "robust", eta=1.0),
}
