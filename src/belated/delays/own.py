"""Delays that an environment brings along."""

import math
from typing import Any

import numpy as np

from belated.delays.law import Delays, Integers
from belated.delays.plain import NoDelay
from belated.errors import InvalidValue


class Own(Delays):
    """The environment's own delays, drawn together with its losses: those of the log in `resampled`.

    Each arm's delay is that of the very decision whose loss was drawn.
    """

    by = "arm"
    environment: Any = None
    """Whose delays they are; None until that is known."""

    @classmethod
    def of(cls, environment: Any) -> "Own":
        """Return the delays of an environment."""
        if not getattr(environment, "brings_delays", False):
            raise InvalidValue(
                f"delays is 'own', but {environment!r} brings no delays; a law of delay is needed", "delays"
            )
        law = cls()
        law.environment = environment
        return law

    @property
    def tail_index(self) -> float | None:  # type: ignore[override]
        lost = getattr(self.environment, "loses_outcomes", None)
        return None if lost is None else 0.0 if lost else math.inf

    def __repr__(self) -> str:
        return "Own()" if self.environment is None else f"Own({self.environment!r})"

    @property
    def title(self) -> str:
        return f"delays as in {getattr(self.environment, 'source', 'the environment')}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        """Return delays without the losses that they go with: what bounds look at."""
        if self.environment is None:
            raise InvalidValue("delays is 'own'; the environment whose delays they are is needed", "delays")
        delays: Integers = self.environment.fill_with_delays(rng, rounds)[2]
        return delays


def delays_for(environment: Any, wanted: Any = None) -> Delays:
    """Return the law of delay that is wanted for an environment; by default its own, or none where it brings none."""
    if wanted is None:
        return Own.of(environment) if getattr(environment, "brings_delays", False) else NoDelay()
    law = Delays.find(wanted)
    if not isinstance(law, Own):
        return law
    if law.environment is not None and law.environment is not environment:
        raise InvalidValue(f"delays is {law!r}, of another environment than {environment!r}", "delays")
    return Own.of(environment)
