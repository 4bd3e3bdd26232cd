"""Delays that depend on what was played, or on what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays.law import Delays, Integers
from belated.errors import InvalidValue
from belated.templates.display import shortened


def _lightest(laws: Sequence[Delays]) -> float | None:
    """Return the tail index that holds for all of them."""
    indices = [law.tail_index for law in laws]
    return None if any(index is None for index in indices) else min(index for index in indices if index is not None)


@dataclass(frozen=True)
class ByArm(Delays):
    """Each arm has a law of delay of its own; arms beyond the last law have the last.

    Slow arms are learned about late, so an arm may look good because its bad news have not come (Lancewicki et al.
    2021; van der Hoeven & Cesa-Bianchi 2022). The paper's delays depend on the round alone.
    """

    laws: Any
    by = "arm"

    def __post_init__(self) -> None:
        if not isinstance(self.laws, Sequence) or isinstance(self.laws, str) or not self.laws:
            raise InvalidValue(f"laws is {self.laws!r}; a list of laws of delay, one for each arm, is needed")
        laws = tuple(Delays.find(law) for law in self.laws)
        for law in laws:
            if law.by != "round":
                raise InvalidValue(f"{law!r} among the laws depends on the {law.by} itself")
        object.__setattr__(self, "laws", laws)

    @property
    def longest(self) -> int | None:  # type: ignore[override]
        return min((law.longest for law in self.laws if law.longest is not None), default=None)

    @property
    def tail_index(self) -> float | None:  # type: ignore[override]
        return _lightest(self.laws)

    @property
    def title(self) -> str:
        return f"by arm: {shortened((law.title for law in self.laws), '; ')}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.stack([law.fill(rng, rounds) for law in self.laws], axis=1)


@dataclass(frozen=True)
class ByLoss(Delays):
    """Bad news travels slowly: outcomes with a loss of at least 1/2 follow the law `bad`, the others `good`.

    A conversion shows at once, its absence only when the window closes. What has arrived is then no fair sample: every
    arm looks better than it is, the more so the worse it is and the more it was played lately (Lancewicki et al. 2021,
    reward-dependent delays).
    """

    good: Any = 0
    bad: Any = 1000
    by = "loss"

    def __post_init__(self) -> None:
        for name in ("good", "bad"):
            law = Delays.find(getattr(self, name))
            if law.by != "round":
                raise InvalidValue(f"{name} is {law!r}, which depends on the {law.by} itself")
            object.__setattr__(self, name, law)

    @property
    def longest(self) -> int | None:  # type: ignore[override]
        return min((law.longest for law in (self.good, self.bad) if law.longest is not None), default=None)

    @property
    def tail_index(self) -> float | None:  # type: ignore[override]
        return _lightest((self.good, self.bad))

    @property
    def title(self) -> str:
        return f"good news: {self.good.title}; bad news: {self.bad.title}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.stack([self.good.fill(rng, rounds), self.bad.fill(rng, rounds)], axis=1)
