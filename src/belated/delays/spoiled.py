"""Laws of delay some of whose outcomes take for ever, or nearly."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays.law import NEVER, Delays, Integers, check_delay
from belated.errors import check_share


class _Spoiled:
    """Another law, `others`, some of whose outcomes never come."""

    others: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", Delays.find(self.others))

    @property
    def longest(self) -> int | None:
        return self.others.longest


@dataclass(frozen=True)
class Outlier(_Spoiled, Delays):  # type: ignore[override]
    """The first outcome never comes, the others follow another law (a number: that constant delay).

    One endless delay makes d_max as large as the horizon while hardly anything is outstanding: the paper's example for
    what bounds in d_max cost (Section 1).
    """

    others: Any = 0

    @property
    def tail_index(self) -> float | None:  # type: ignore[override]
        return self.others.tail_index

    @property
    def title(self) -> str:
        return f"the first outcome never comes, others: {self.others.title}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.where(rounds == 1, NEVER, self.others.fill(rng, rounds))


@dataclass(frozen=True)
class Dropout(_Spoiled, Delays):  # type: ignore[override]
    """Each outcome is lost with probability `share`; the others follow another law (a number: that constant delay)."""

    share: float = 0.1
    others: Any = 0
    tail_index = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "share", check_share("share", self.share))

    @property
    def title(self) -> str:
        return f"{self.share:.0%} never come, others: {self.others.title}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        lost = rng.random(rounds.size) < self.share
        return np.where(lost, NEVER, self.others.fill(rng, rounds))


@dataclass(frozen=True)
class Burst(_Spoiled, Delays):  # type: ignore[override]
    """The first `count` outcomes take `delay` rounds, the others follow another law (a number: that constant delay).

    With count = sqrt(T) and delay = T the paper's example for what skipping saves (Section 1): D is T^(3/2), while
    giving up on sqrt(T) decisions leaves nothing to wait for.
    """

    count: int = 316
    delay: int = 100_000
    others: Any = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delay("count", self.count)
        check_delay("delay", self.delay)

    @property
    def tail_index(self) -> float | None:  # type: ignore[override]
        return self.others.tail_index

    @property
    def title(self) -> str:
        return f"the first {self.count} outcomes take {self.delay} rounds, others: {self.others.title}"

    def fill(self, rng: np.random.Generator, rounds: Integers) -> Integers:
        return np.where(rounds <= self.count, self.delay, self.others.fill(rng, rounds))
