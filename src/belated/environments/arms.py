"""Arms that come and go."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated.core.ftrl import FEWEST_ARMS
from belated.environments.environment import Environment, Filled, Rounds, Stretch, check_arms
from belated.environments.stochastic import shares
from belated.errors import InvalidValue
from belated.templates.display import shortened


@dataclass(frozen=True)
class Arms(Environment):
    """Stochastic, with arms that come and go: arm i loses 1 with probability means[i], from enter[i] to leave[i].

    `enter` and `leave` are parts of the whole run: `arms:means=[0.5,0.45,0.4],enter=[0,0,0.5],leave=[1,0.7,1]` has two
    arms at first, a third from half way on, and loses its second after 70 % of the rounds. Regret is against the best
    arm of those present. With `anew`, learners start from nothing whenever an arm comes or goes, as somebody does who
    makes a new experiment then.
    """

    means: Sequence[float]
    enter: Sequence[float] = ()
    """0 for all by default."""
    leave: Sequence[float] = ()
    """1 for all by default."""
    anew: bool = False

    def __post_init__(self) -> None:
        means = shares("means", self.means)
        check_arms(len(means))
        object.__setattr__(self, "means", means)
        for name, usual in (("enter", 0.0), ("leave", 1.0)):
            given = shares(name, getattr(self, name)) or (usual,) * len(means)
            if len(given) != len(means):
                raise InvalidValue(f"{name} has {len(given)} numbers; {len(means)}, one for each arm, are needed", name)
            object.__setattr__(self, name, given)
        for arm, (enter, leave) in enumerate(zip(self.enter, self.leave, strict=True)):
            if enter >= leave:
                raise InvalidValue(
                    f"arm {arm} enters at {enter:g} and leaves at {leave:g}; it must leave later", "leave"
                )
        for part in (0.0, *sorted(self.leave)):
            if part < 1.0 and (present := self._present(part).size) < FEWEST_ARMS:
                raise InvalidValue(
                    f"from {part:g} of the run on {present} of the arms {'is' if present == 1 else 'are'} present;"
                    f" at least {FEWEST_ARMS} are needed at all times",
                    "leave",
                )
        if not isinstance(self.anew, bool):
            raise InvalidValue(f"anew is {self.anew!r}; true or false is needed", "anew")

    @property
    def n_arms(self) -> int:  # type: ignore[override]
        return len(self.means)

    @property
    def title(self) -> str:
        listed = [
            f"{mean:g}" + (f" from {enter:g}" if enter > 0.0 else "") + (f" to {leave:g}" if leave < 1.0 else "")
            for mean, enter, leave in zip(self.means, self.enter, self.leave, strict=True)
        ]
        return f"arms that come and go ({shortened(listed)})" + (", each time anew" if self.anew else "")

    def _present(self, part: float) -> Rounds:
        """Return the arms that are present just after a part of the run."""
        return np.flatnonzero((np.array(self.enter) <= part) & (np.array(self.leave) > part))

    def stretches(self, rounds: int) -> tuple[Stretch, ...]:
        """Arm i is present in the rounds above enter[i] and up to leave[i] of all, both rounded down."""
        enter, leave = (np.floor(np.array(parts) * rounds).astype(np.int64) for parts in (self.enter, self.leave))
        ends = np.unique([*enter, *leave])
        firsts = ends[ends < rounds] + 1
        found: list[Stretch] = []
        for first in firsts.tolist():
            arms = np.flatnonzero((enter < first) & (first <= leave))
            if not found or not np.array_equal(arms, found[-1].arms):  # of few rounds an arm may have none
                found.append(Stretch(first, arms, self.anew))
        return tuple(found) if len(found) > 1 or found[0].arms.size < self.n_arms else ()

    def fill(self, rng: np.random.Generator, rounds: Rounds) -> Filled:
        return np.array([self.means]), None
